"""librdkafka, as confluent-kafka brings it.

settings() is how all modes connect, failed() how they note errors. What
librdkafka logs goes to standard error; "p.debug" says how much that is.
"""

import time

from confluent_kafka import KafkaError, KafkaException


def settings(step, result, **more):
    """The client's configuration: a certificate, and nothing else that says who it is."""

    def seen(error):  # no error of a call: librdkafka goes on by itself unless it is fatal
        result.noted("event " + error.name())
        if error.fatal():
            failed(result, error)

    conf = {
        "bootstrap.servers": step.get("bootstrap"),
        "security.protocol": "ssl",
        "ssl.ca.location": step.get("ca"),
        "ssl.certificate.location": step.get("certificate"),
        "ssl.key.location": step.get("key"),
        "error_cb": seen,
    }
    conf.update((k.replace("_", "."), v) for k, v in more.items())
    conf.update(step.raw())
    return conf


def failed(result, error):
    """Notes an error by its name, and whether retrying would cure it."""
    if isinstance(error, KafkaException):
        error = error.args[0]
    if isinstance(error, KafkaError):
        result.failed(error.name(), "%s: %s" % (error.name(), error.str()), error.fatal() or not error.retriable())
    else:
        result.failed(type(error).__name__, repr(error), True)


def persist(call, *args, seconds=120):
    """Calls until it succeeds or fails with what retrying does not cure."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call(*args)
        except KafkaException as e:
            if not e.args[0].retriable() or time.monotonic() > end:
                raise
