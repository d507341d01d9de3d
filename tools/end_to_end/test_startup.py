"""Starting and stopping as an operator meets them: the cause, the consequence and the cure are said."""

import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import subprocess
import time
import urllib.request

import pytest

from conftest import HAS_NODE
from lakehouse.node import RUN_SECONDS_MAX, SERVER, configuration_text, quiet_environment, run
from lakehouse.process import free_ports

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="the node's own start")

AUDIT_ARCH_X86_64 = 0xC000003E
IO_URING_SETUP = 425


def refuse_io_uring():
    """A seccomp filter, as a container's profile would have it: io_uring_setup gives EPERM."""
    load, jump_if_equal, give_back = 0x20, 0x15, 0x06
    refuse, allow = 0x00050000 | errno.EPERM, 0x7FFF0000
    steps = [(load, 0, 0, 0), (jump_if_equal, 0, 1, IO_URING_SETUP), (give_back, 0, 0, refuse), (give_back, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    assert libc.prctl(set_no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(set_seccomp, mode_filter, program, 0, 0) == 0


def small_memlock():
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (16 * 1024, 16 * 1024))


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


@pytest.fixture()
def local(tmp_path):
    """Arguments of a node on free ports before a directory."""
    port, admin = free_ports(2)
    return [
        "--server.listen", f"127.0.0.1:{port}",
        "--server.admin", f"127.0.0.1:{admin}",
        "--origin.path", tmp_path,
    ]


@pytest.mark.parametrize("which", ["--server.listen", "--server.admin"])
def test_a_port_in_use_is_named(which, local):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        local[local.index(which) + 1] = address
        status, said = run(local)
    assert status not in (0, None) and status > 0
    assert address in said and "in use" in said, said


def test_a_directory_that_is_missing_is_named(local, tmp_path):
    missing = tmp_path / "missing"
    local[local.index("--origin.path") + 1] = missing
    status, said = run(local)
    assert status > 0 and str(missing) in said, said


def test_a_path_that_is_no_directory_is_named(local, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    local[local.index("--origin.path") + 1] = file
    status, said = run(local)
    assert status > 0 and str(file) in said and "directory" in said, said


def test_a_directory_that_cannot_be_written_is_named(local, tmp_path):
    # The superuser writes everywhere but where the system itself forbids it.
    local[local.index("--origin.path") + 1] = "/proc"
    status, said = run(local)
    assert status > 0 and "/proc" in said, said


BAD_SETTINGS = {
    "an unknown key and the nearest one": (["--server.listn", "127.0.0.1:1"], "listen"),
    "an unknown value and the known ones": (["--ring", "kqueue"], "epoll"),
    "a size without a unit that is known": (["--cache.data_bytes", "1XB"], "data_bytes"),
    "a duration without a unit": (["--cache.mutable_ttl", "5"], "mutable_ttl"),
    "an address that is none": (["--listen", "nowhere"], "listen"),
    "no credentials beyond loopback": (["--listen", "0.0.0.0:0"], "credentials"),
    "a value that is missing": (["--listen"], "listen"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_bad_setting_is_refused_and_named(name, local):
    arguments, expected = BAD_SETTINGS[name]
    status, said = run([*local, *arguments])
    assert status > 0 and expected in said, said
    assert "panicked" not in said


def test_an_unknown_key_in_a_file_is_refused_with_its_line(local, tmp_path):
    file = tmp_path / "nilas.toml"
    file.write_text("[server]\n\nshard = 2\n")
    status, said = run([*local, "--config", file])
    assert status > 0 and f"{file}:3" in said and "shards" in said, said


def test_an_unknown_variable_is_refused(local):
    status, said = run(local, environment={"NILAS_SERVER_LISTN": "127.0.0.1:1"})
    assert status > 0 and "NILAS_SERVER_LISTEN" in said, said


def test_check_says_what_would_run_and_hides_secrets(local):
    secret = {"NILAS_CREDENTIALS_0_ACCESS_KEY": "me", "NILAS_CREDENTIALS_0_SECRET_KEY": "not-to-be-seen"}
    status, said = run([*local, "--check"], environment=secret)
    assert status == 0, said
    assert "mutable_ttl" in said and "not-to-be-seen" not in said


def test_check_fails_when_the_origin_cannot_be_reached(local, tmp_path, origin):
    (port,) = free_ports(1)
    file = tmp_path / "nilas.toml"
    keys = {
        "origin.kind": "s3",
        "origin.endpoint": f"http://127.0.0.1:{port}",
        "origin.access_key": "a",
        "origin.secret_key": "not-to-be-seen",
    }
    file.write_text(configuration_text(keys, []))
    arguments = local[: local.index("--origin.path")]
    status, said = run([*arguments, "--config", file, "--check"])
    assert status > 0 and str(port) in said, said
    assert "not-to-be-seen" not in said


class Running:
    """A server under a limit, waited for by its endpoint."""

    def __init__(self, arguments, prepare=None, cwd=None):
        self.process = subprocess.Popen(
            [str(SERVER), *map(str, arguments)],
            env=quiet_environment(),
            cwd=cwd,
            preexec_fn=prepare,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.admin = arguments[arguments.index("--server.admin") + 1]

    def is_ready(self):
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"http://{self.admin}/readyz", timeout=5):
                    return True
            except OSError:
                if self.process.poll() is not None:
                    return False
                time.sleep(0.05)
        return False

    def end(self):
        """Asks it to end; its status and everything it said."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=RUN_SECONDS_MAX)
        return self.process.returncode, said


def test_where_io_uring_is_denied_it_says_so_and_serves_by_epoll(local):
    running = Running([*local, "--ring", "auto"], refuse_io_uring)
    assert running.is_ready()
    status, said = running.end()
    assert status == 0
    assert "io_uring" in said and "seccomp" in said and "epoll" in said, said


def test_where_io_uring_is_denied_and_asked_for_it_refuses(local):
    status, said = run([*local, "--ring", "io_uring"], refuse_io_uring)
    assert status > 0 and "io_uring" in said and "seccomp" in said, said


def test_a_small_memlock_is_no_obstacle_or_is_explained(local):
    running = Running(local, small_memlock)
    assert running.is_ready()
    status, said = running.end()
    assert status == 0 and "panicked" not in said


def test_a_small_file_limit_is_raised_or_explained(local):
    running = Running(local, few_files)
    ready = running.is_ready()
    status, said = running.end()
    assert "panicked" not in said
    assert "file" in said and (ready or status > 0), said


def test_more_shards_than_cores_is_said_and_served(local):
    running = Running([*local, "--shards", str(os.cpu_count() + 1)])
    assert running.is_ready()
    status, said = running.end()
    assert status == 0 and "core" in said, said


def test_without_arguments_it_says_how_to_connect(tmp_path):
    port, admin = free_ports(2)
    arguments = ["--server.listen", f"127.0.0.1:{port}", "--server.admin", f"127.0.0.1:{admin}"]
    running = Running(arguments, cwd=tmp_path)
    assert running.is_ready()
    status, said = running.end()
    assert status == 0
    for word in (f"127.0.0.1:{port}", "DuckDB", "Polars", "PyIceberg", "Spark", "Trino", "aws"):
        assert word.lower() in said.lower(), (word, said)


def test_sigterm_ends_it_well(local):
    running = Running(local)
    assert running.is_ready()
    status, _ = running.end()
    assert status == 0


def test_secrets_are_never_logged(start_node, origin, tmp_path):
    node = start_node(keys={"log.level": "trace"})
    client = node.endpoint.boto3(signature_version="s3v4")
    place = {"Bucket": "objects", "Key": "secrets/object"}
    client.put_object(**place, Body=b"x")
    client.get_object(**place)["Body"].read()
    address = client.generate_presigned_url("get_object", Params=place)
    urllib.request.urlopen(address, timeout=RUN_SECONDS_MAX).close()
    said = node.text()
    signature = address.rsplit("X-Amz-Signature=", 1)[1]
    for secret in (node.endpoint.secret_key, origin.secret_key, signature):
        assert secret not in said


def test_a_quiet_node_writes_nothing_for_a_request(start_node, origin):
    node = start_node(keys={"log.level": "info"})
    client = node.endpoint.boto3()
    client.put_object(Bucket="objects", Key="quiet/object", Body=b"x")
    before = node.text()
    for _ in range(20):
        client.get_object(Bucket="objects", Key="quiet/object")["Body"].read()
    assert node.text() == before
