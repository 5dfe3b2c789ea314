"""Connections with a step's certificate, of which every byte that comes is looked at.

For libraries that are given an SSL context: see() says in the result which addresses
this process has dialled, and how often one of the texts of the setting unwanted
(separated by commas) was in what was received.
"""

import ssl
import sys
import threading


class Wire:
    def __init__(self, step, result):
        self._unwanted = [text.encode() for text in step.get("unwanted").split(",") if text]
        self._keep = max([len(text) - 1 for text in self._unwanted], default=0)
        self._result = result
        self._lock = threading.Lock()
        self._dialled = set()
        self._received = self._found = 0
        self._open = True
        self.context = ssl.create_default_context(cafile=step.get("ca"))
        self.context.load_cert_chain(step.get("certificate"), step.get("key"))
        self.context.sslsocket_class = self._tapped(ssl.SSLSocket)  # the blocking ones
        self.context.sslobject_class = self._tapped(ssl.SSLObject)  # asyncio's
        sys.addaudithook(self._audit)  # for good: there is no way to take it back

    def _audit(self, event, args):
        if event == "socket.connect" and self._open and isinstance(args[1], tuple):
            address = "%s:%d" % args[1][:2]
            print("dial", address, file=sys.stderr)
            with self._lock:
                self._dialled.add(address)

    def _tapped(self, kind):
        wire = self

        class Tapped(kind):
            last = b""  # the end of what came, in which a text may have begun

            def read(self, length=1024, buffer=None):
                if buffer is None:
                    got = data = super().read(length)
                else:
                    got = super().read(length, buffer)
                    data = bytes(memoryview(buffer)[:got])
                self.last = wire._look(self.last, data)
                return got

        return Tapped

    def _look(self, last, data):
        window = last + data
        found = sum(window.count(text) - last.count(text) for text in self._unwanted)
        with self._lock:
            self._received += len(data)
            self._found += found
        return window[max(0, len(window) - self._keep):] if self._keep else b""

    def see(self):
        with self._lock:
            self._open = False
            self._result.values["dialled"] = " ".join(sorted(self._dialled))
            self._result.values["received"] = str(self._received)
            self._result.values["unwanted"] = str(self._found)
