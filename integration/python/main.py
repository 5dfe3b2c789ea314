"""Kafka clients in Python for the integration tests.

    main.py CLIENT STEP...

CLIENT is a package in clients/ ("_" there is "-" here), with one module for each mode. A
STEP is JSON,
{"mode": MODE, "settings": {KEY: TEXT, ...}}; they are done one after the other,
in one process, and for each a line of JSON is printed (result.py). The modes and
their settings are those of ../java where there is such a mode. Exits with 0 once
all steps are done, whatever they saw: the tests judge.
"""

import importlib
import json
import sys
import time
import traceback

from result import Result
from step import BadStep, Step

MODES = ("produce", "consume", "transform", "describe", "topics")


def main(client, texts):
    client = client.replace("-", "_")
    steps = [Step(json.loads(text)) for text in texts]
    package = importlib.import_module("clients." + client)
    for step in steps:
        if step.mode not in MODES:
            raise BadStep("unknown mode " + step.mode)
        result = Result(step.mode)
        began = time.monotonic()
        try:
            importlib.import_module("clients.%s.%s" % (client, step.mode)).run(step, result)
        except BadStep:
            raise
        except Exception as e:  # of the client, or a mistake here: the tests see either
            traceback.print_exc()
            package.failed(result, e)
        else:
            step.check_all_used()
        result.millis = int(1000 * (time.monotonic() - began))
        print(result.as_json(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
