"""A node as a process: `nilas-server` on free ports before an origin, as an operator runs it."""

import json
import os
import pathlib
import subprocess
import urllib.request

from .endpoint import Endpoint
from .process import Child, accepts, free_ports
from .recorder import ANSWER_SECONDS_MAX, BINARIES

NODE_ACCESS_KEY = "node-access"
NODE_SECRET_KEY = "node-secret-51c7"
SERVER = BINARIES / "nilas-server"
RUN_SECONDS_MAX = 30


class Node:
    """One node. `keys` are further keys of its configuration, named `section.key`, and `clients`
    further items of its credentials, each a table of keys, beside its own, unless it has none;
    `catalogs` and `warm` are items too. Without an origin its keys name one."""

    def __init__(self, origin, folder, keys=None, shards=2, ring="auto", clients=(), has_own=True, catalogs=(), warm=()):
        port, self.admin_port = free_ports(2)
        self.endpoint = Endpoint(port, NODE_ACCESS_KEY, NODE_SECRET_KEY)
        settings = {
            "server.listen": self.endpoint.host,
            "server.admin": f"127.0.0.1:{self.admin_port}",
            "server.shards": shards,
            "server.ring": ring,
            "cache.data_bytes": "1GiB",
            "log.level": "info",
            **(s3_origin(origin) if origin else {}),
            **(keys or {}),
        }
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "nilas.toml"
        own = [_client(self.endpoint)] if has_own else []
        configuration.write_text(configuration_text(settings, [*own, *clients], catalogs, warm))
        command = [SERVER, "--config", configuration]
        log = folder / "node.log"
        self._child = Child("the node", command, log, quiet_environment(), ready=self.is_ready)

    @property
    def pid(self):
        return self._child.pid

    def text(self):
        return self._child.text()

    def is_ready(self):
        if not accepts(self.admin_port):
            return False
        try:
            self.admin("/readyz")
        except OSError:
            return False
        return accepts(self.endpoint.port)

    def admin(self, path):
        """The admin port's answer to a GET, as text."""
        url = f"http://127.0.0.1:{self.admin_port}{path}"
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:
            return answer.read().decode()

    def stats(self):
        return json.loads(self.admin("/admin/stats"))

    def served_requests(self):
        """Requests that were answered well, as the node counts them."""
        return sum(by_status.get("2xx", 0) for by_status in self.stats()["clients"]["requests"].values())

    def ring(self):
        """The ring body that it runs on."""
        return self.stats()["node"]["ring"]

    def is_running(self):
        return self._child.process.poll() is None

    def stop(self):
        return self._child.stop()


def run(arguments, prepare=None, environment=None, cwd=None, server=SERVER):
    """Runs the server to its end; its status, and what it said."""
    done = subprocess.run(
        [str(server), *map(str, arguments)],
        env={**quiet_environment(), **(environment or {})},
        cwd=cwd,
        preexec_fn=prepare,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
    )
    return done.returncode, done.stdout + done.stderr


def s3_origin(origin):
    """The keys that name an S3 origin."""
    return {
        "origin.kind": "s3",
        "origin.endpoint": origin.url,
        "origin.access_key": origin.access_key,
        "origin.secret_key": origin.secret_key,
    }


def configuration_text(settings, clients, catalogs=(), warm=()):
    """The node's TOML."""
    lines = []
    for name, value in settings.items():
        shown = value if isinstance(value, (int, list)) else json.dumps(str(value))
        lines.append(f"{name} = {str(shown).lower() if isinstance(value, bool) else shown}")
    items = [("credentials", each) for each in clients]
    items += [("catalog", each) for each in catalogs] + [("warm", each) for each in warm]
    for section, item in items:
        lines.append(f"[[{section}]]")
        lines.extend(f"{name} = {json.dumps(value)}" for name, value in item.items())
    return "\n".join(lines) + "\n"


def _client(endpoint):
    return {"access_key": endpoint.access_key, "secret_key": endpoint.secret_key}


def quiet_environment():
    """The environment without what could configure a node or an AWS client by accident."""
    hidden = ("NILAS_", "AWS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
