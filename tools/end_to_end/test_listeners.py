"""The ways to a node beside plain TCP, with the shipped program: behind a balancer that writes PROXY headers, and
over a Unix socket, whose file outlives a node that is killed and stands in nobody's way.
"""

import json
import socket
import stat
import struct

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import until
from lakehouse.endpoint import Endpoint
from lakehouse.node import NODE_ACCESS_KEY, NODE_SECRET_KEY, SERVER, configuration_text, quiet_environment
from lakehouse.process import Child, accepts, free_ports
from lakehouse.wire import ANSWER_SECONDS_MAX, Question, Wire

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="the node's own listeners")

BUCKET = "lake"
BODY = b"what is read by any way"
SEEN_SECONDS_MAX = 5


class LocalNode(Child):
    """A node before a directory, which holds one object."""

    def __init__(self, folder, ring, keys):
        port, self.admin_port = free_ports(2)
        self.endpoint = Endpoint(port, NODE_ACCESS_KEY, NODE_SECRET_KEY)
        self.audit = folder / "audit.log"
        objects = folder / "objects" / BUCKET
        objects.mkdir(parents=True, exist_ok=True)
        (objects / "object").write_bytes(BODY)
        settings = {
            "server.listen": self.endpoint.host,
            "server.admin": f"127.0.0.1:{self.admin_port}",
            "server.shards": 2,
            "server.ring": ring,
            "cache.data_bytes": "32MiB",
            "cache.metadata_bytes": "16MiB",
            "origin.path": folder / "objects",
            "log.audit_file": self.audit,
            **keys,
        }
        own = {"access_key": NODE_ACCESS_KEY, "secret_key": NODE_SECRET_KEY}
        configuration = folder / "nilas.toml"
        configuration.write_text(configuration_text(settings, [own]))
        log = folder / f"node-{port}.log"
        super().__init__("the node", [SERVER, "--config", configuration], log, quiet_environment(), self.is_ready)

    def is_ready(self):
        return accepts(self.admin_port) and "serves S3" in self.text()

    def failures(self, kind):
        """So many failures of a kind, as the node's metrics tell."""
        with socket.create_connection(("127.0.0.1", self.admin_port), timeout=ANSWER_SECONDS_MAX) as wire:
            wire.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            page = b"".join(iter(lambda: wire.recv(65536), b"")).decode()
        line = next(line for line in page.splitlines() if line.startswith(f'nilas_failures_total{{kind="{kind}"}}'))
        return int(float(line.split(" ")[1]))

    def recorded_clients(self):
        """Whom the audit file tells of, in order."""
        return [json.loads(line)["client"] for line in self.audit.read_text().splitlines()]


def proxy_header(source, command=0x21):
    """A PROXY header of version 2, as HAProxy writes it for a client at this address."""
    address, port = source
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    block = packed + bytes(len(packed)) + struct.pack("!HH", port, 9000)
    kind = 0x21 if family == socket.AF_INET6 else 0x11
    return b"\r\n\r\n\0\r\nQUIT\n" + bytes([command, kind]) + struct.pack("!H", len(block)) + block


def dial_tcp(node, first_bytes, pieces=1):
    """What opens a connection that begins with these bytes, sent in so many pieces."""

    def dial():
        connection = socket.create_connection(("127.0.0.1", node.endpoint.port), timeout=ANSWER_SECONDS_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        step = max(1, len(first_bytes) // pieces)
        for at in range(0, len(first_bytes), step):
            connection.sendall(first_bytes[at : at + step])
        return connection

    return dial


def dial_unix(path):
    """What opens a connection to a Unix socket."""

    def dial():
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(ANSWER_SECONDS_MAX)
        connection.connect(str(path))
        return connection

    return dial


def read(node, dial, host=None):
    """The object, by a signed request."""
    wire = Wire(node.endpoint, host=host, dial=dial)
    told = wire.ask(Question("GET", f"/{BUCKET}/object"))
    wire.close()
    return told


@pytest.mark.parametrize("ring", RINGS)
def test_behind_a_balancer_the_client_is_where_the_header_says(ring, tmp_path):
    keys = {"server.proxy_protocol": "v2", "server.proxy_protocol_from": ["127.0.0.0/8"]}
    with LocalNode(tmp_path, ring, keys) as node:
        clients = [("203.0.113.7", 41000), ("2001:db8::7", 41001)]
        for pieces in [1, 1000]:
            for client in clients:
                told = read(node, dial_tcp(node, proxy_header(client), pieces))
                assert (told.status, told.body) == (200, BODY)
        for client in clients:
            wire = Wire(node.endpoint, dial=dial_tcp(node, proxy_header(client)))
            assert wire.ask(Question("GET", f"/{BUCKET}/object", proof="none")).status == 403
        until("both are recorded", lambda: len(node.recorded_clients()) >= 2, SEEN_SECONDS_MAX)
        assert node.recorded_clients() == ["203.0.113.7:41000", "[2001:db8::7]:41001"]
        assert node.failures("proxy_header") == 0
        for first_bytes in [b"", b"PROXY TCP4 203.0.113.7 10.0.0.1 41000 9000\r\n", proxy_header(clients[0], 0x31)]:
            assert read(node, dial_tcp(node, first_bytes)).status == 0, first_bytes
        until("all are counted", lambda: node.failures("proxy_header") == 3, SEEN_SECONDS_MAX)
        assert node.stop() == 0


@pytest.mark.parametrize("ring", RINGS)
def test_a_signed_request_over_a_unix_socket_is_served_beside_tcp(ring, tmp_path):
    path = tmp_path / "s3.sock"
    with LocalNode(tmp_path, ring, {"server.unix_socket": path}) as node:
        assert str(path) in node.text()
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
        for host in [None, "localhost", "any.name:80"]:
            told = read(node, dial_unix(path), host)
            assert (told.status, told.body) == (200, BODY), host
        assert read(node, None).body == BODY
        wire = Wire(node.endpoint, dial=dial_unix(path))
        large = bytes(range(256)) * 20_000
        assert wire.ask(Question("PUT", f"/{BUCKET}/large", body=large)).status == 200
        assert wire.ask(Question("GET", f"/{BUCKET}/large")).body == large
        assert wire.ask(Question("GET", f"/{BUCKET}/object", proof="none")).status == 403
        until("it is recorded", lambda: len(node.recorded_clients()) == 1, SEEN_SECONDS_MAX)
        assert node.recorded_clients()[0].startswith("unix:pid=")
        assert node.stop() == 0
    assert not path.exists(), "the file goes with the node"


@pytest.mark.parametrize("ring", RINGS)
def test_the_socket_file_of_a_killed_node_is_replaced(ring, tmp_path):
    path = tmp_path / "s3.sock"
    keys = {"server.unix_socket": path}
    with LocalNode(tmp_path, ring, keys) as node:
        assert read(node, dial_unix(path)).body == BODY
        with pytest.raises(RuntimeError) as refused:
            LocalNode(tmp_path, ring, keys)
        said = str(refused.value)
        assert str(path) in said and "another process serves on it" in said, said
        assert read(node, dial_unix(path)).body == BODY, "the living one goes on"
        node.process.kill()
        node.process.wait()
    assert path.exists(), "a killed node removes nothing"
    with LocalNode(tmp_path, ring, keys) as node:
        assert read(node, dial_unix(path)).body == BODY
        assert node.stop() == 0
    assert not path.exists()


def test_a_path_that_cannot_be_a_socket_is_refused_with_its_cure(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("precious")
    for path, expected in [
        (tmp_path / ("a" * 108), "at most 107 bytes"),
        (tmp_path / "none" / "s3.sock", "does not exist"),
        (taken, "no socket"),
    ]:
        with pytest.raises(RuntimeError) as refused:
            LocalNode(tmp_path, "auto", {"server.unix_socket": path})
        said = str(refused.value)
        assert "server.unix_socket" in said and expected in said, said
    assert taken.read_text() == "precious"
