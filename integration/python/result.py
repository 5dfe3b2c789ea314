"""What is printed of a step. Safe for several threads."""

import json
import threading


class Result:
    def __init__(self, mode):
        self.mode = mode
        self.count = self.sum = self.duplicates = self.foreign = 0
        self.sent = self.millis = 0
        self.errors = {}  # name -> how often
        self.fatal = []  # errors that retrying does not cure
        self.messages = []  # of the errors
        self.nodes = set()  # host:port of every node seen
        self.values = {}
        self._seen = set()
        self._lock = threading.Lock()

    def failed(self, name, message, fatal):
        with self._lock:
            self.errors[name] = self.errors.get(name, 0) + 1
            if len(self.messages) < 20:
                self.messages.append(message)
            if fatal and len(self.fatal) < 20:
                self.fatal.append(message)

    def noted(self, what):
        """Counts something that is worth knowing and no error."""
        with self._lock:
            self.values[what] = str(int(self.values.get(what, "0")) + 1)

    def counted(self, checksum):
        with self._lock:
            self.count += 1
            self.sum += checksum

    def read(self, series, key, value):
        """Counts a record that was read, if it is of the series and new."""
        i = series.index(key, value)
        with self._lock:
            if i < 0:
                self.foreign += 1
            elif i in self._seen:
                self.duplicates += 1
            else:
                self._seen.add(i)
                self.count += 1
                self.sum += series.checksum(key, value)

    def as_json(self):
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_")}
        shown["nodes"] = sorted(self.nodes)
        return json.dumps(shown)
