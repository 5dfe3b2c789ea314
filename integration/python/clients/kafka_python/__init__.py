"""kafka-python.

connected() is how all modes connect, failed() how they note errors. What the library
logs goes to standard error.
"""

import contextlib
import logging

from wire import Wire

# What a member whose commit came too late for its generation is told.
OVERTAKEN = ("CommitFailedError", "IllegalGenerationError", "RebalanceInProgressError", "UnknownMemberIdError")


@contextlib.contextmanager
def connected(step, result, **more):
    """The client's configuration: a certificate, and nothing else that says who it is."""
    logging.basicConfig(level=logging.DEBUG, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    wire = Wire(step, result)
    try:
        yield dict(
            bootstrap_servers=step.get("bootstrap"), security_protocol="SSL", ssl_context=wire.context, **more
        )
    finally:
        wire.see()


def failed(result, error):
    """Notes an error by its name, and whether retrying would cure it."""
    name = type(error).__name__
    result.failed(name, "%s: %s" % (name, error), not getattr(error, "retriable", False))
