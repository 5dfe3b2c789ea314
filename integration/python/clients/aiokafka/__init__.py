"""aiokafka.

connected() is how all modes connect, failed() how they note errors. What the library
logs goes to standard error.
"""

import asyncio
import contextlib
import logging

from clients.kafka_python import failed  # noqa: F401: both libraries have the same errors
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


def whole(mode):
    """Runs a mode that is a coroutine."""

    def run(step, result):
        asyncio.run(mode(step, result))

    return run
