"""Processes on free ports: started with a log, waited for by a probe, stopped by their pid.

A child dies with its parent even when the parent is killed, so that no test leaves servers behind.
"""

import ctypes
import pathlib
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 10


def free_ports(count):
    """`count` different TCP ports that nobody listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def accepts(port):
    """Whether something listens on the port."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


class Child:
    """One server process and its log file."""

    def __init__(self, name, command, log, environment=None, ready=lambda: True):
        self.name = name
        self.log = pathlib.Path(log)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                preexec_fn=_die_with_parent,
                start_new_session=True,
            )
        try:
            self._wait_until(ready)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def text(self):
        """What it has said so far."""
        return self.log.read_text(errors="replace")

    def stop(self):
        """Asks it to end, then insists. The exit status, negative for a signal."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def _wait_until(self, ready):
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready():
            if self.process.poll() is not None:
                status = self.process.returncode
                raise RuntimeError(f"{self.name} ended with {status}:\n{self.text()[-4000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not ready in time:\n{self.text()[-4000:]}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
