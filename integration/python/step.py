"""One step's mode and settings. Settings that nobody asked for are a mistake."""


class BadStep(Exception):
    """The tests have asked for what there is not."""


class Step:
    def __init__(self, told):
        self.mode = told["mode"]
        self._settings = told["settings"]
        self._used = set()

    def get(self, key, otherwise=""):
        self._used.add(key)
        return self._settings.get(key, otherwise)

    def number(self, key, otherwise):
        return int(self.get(key, otherwise))

    def raw(self):
        """All settings that begin with "p.", without it: for the client as they are."""
        raw = {k[2:]: v for k, v in self._settings.items() if k.startswith("p.")}
        self._used.update("p." + k for k in raw)
        return raw

    def check_all_used(self):
        unknown = set(self._settings) - self._used - {"certificate", "key", "ca"}
        if unknown:
            raise BadStep("%s: unknown settings %s" % (self.mode, sorted(unknown)))
