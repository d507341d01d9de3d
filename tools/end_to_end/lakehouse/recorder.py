"""The recorder before an origin: what reached it, whatever the node says, and faults on order."""

import json
import pathlib
import urllib.error
import urllib.request

from .endpoint import Endpoint
from .process import Child, free_ports, accepts

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
BINARIES = REPOSITORY / "target" / "debug"
ANSWER_SECONDS_MAX = 30


class Recorder:
    """A proxy, transparent until it is told to `play`; `endpoint` is the origin seen through it."""

    def __init__(self, origin, folder, latency_ms=0):
        port, self._control = free_ports(2)
        self.endpoint = Endpoint(port, origin.access_key, origin.secret_key)
        command = [
            BINARIES / "nilas-recorder",
            f"--origin={origin.host}",
            f"--listen={self.endpoint.host}",
            f"--control=127.0.0.1:{self._control}",
            f"--latency-ms={latency_ms}",
        ]
        log = pathlib.Path(folder) / "recorder.log"
        self._child = Child("the recorder", command, log, ready=lambda: accepts(self._control))

    def mark(self):
        """A place in the record: what comes later is `since` it."""
        return len(self.since(0))

    def since(self, mark):
        """What reached the origin since `mark`: dictionaries with method, path, range, status …"""
        return json.loads(self._ask("GET", f"/records?from={mark}"))

    def set_latency(self, latency_ms):
        self._ask("PUT", f"/latency?ms={latency_ms}")

    def play(self, *rules):
        """Plays these faults instead of those so far; see `nilas-recorder --help` for a rule."""
        self._ask("PUT", "/faults", json.dumps(rules).encode())

    def lift(self):
        """Plays no faults any more."""
        self._ask("DELETE", "/faults")

    def met(self):
        """How many requests each of the rules has met, in their order."""
        return [each["met"] for each in json.loads(self._ask("GET", "/faults"))]

    def _ask(self, method, path, body=None):
        url = f"http://127.0.0.1:{self._control}{path}"
        request = urllib.request.Request(url, data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()) from error

    def stop(self):
        self._child.stop()


def reads_of_objects(records):
    """The GETs and HEADs of objects among `records`: neither lists nor sub-resources of a bucket."""
    reads = [each for each in records if each["method"] in ("GET", "HEAD")]
    return [each for each in reads if each["path"].strip("/").count("/") >= 1]
