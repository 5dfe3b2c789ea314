"""The records that all clients agree on (../checker/records.go is the same).

Record i of a series has the key PREFIX + eight digits of i, and a value that
repeats the key to the given size.
"""

import zlib


class Records:
    def __init__(self, step):
        self._prefix = step.get("prefix", "r").encode()
        self._size = step.number("size", 100)

    def key(self, i):
        return self._prefix + b"%08d" % i

    def value(self, key):
        return (key * (self._size // len(key) + 1))[: self._size]

    def index(self, key, value):
        """The number of a record of this series, or -1."""
        if key is None or value is None or not key.startswith(self._prefix):
            return -1
        digits = key[len(self._prefix):]
        if len(digits) != 8 or not digits.isdigit() or value != self.value(key):
            return -1
        return int(digits)

    @staticmethod
    def checksum(key, value):
        return zlib.crc32(value, zlib.crc32(key))
