"""Ceph's object gateway as origin: one monitor, one object store on a file, one gateway.

The gateway of this version aborts now and then; a supervisor starts it anew, so that one test's crash
is one test's failure. Debian's packages are installed where they are missing.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
import uuid

from ..endpoint import Endpoint
from ..process import Child, accepts, free_ports
from .user import KMS_KEYS, LIFECYCLE_DAY_SECONDS, USERS

PACKAGES = ["radosgw", "ceph-mon", "ceph-osd", "ceph-base", "ceph-common"]
STORE_BYTES = 64 << 30
SUPERVISION_SECONDS = 0.2
COMMAND_SECONDS_MAX = 120
# Base64 of 32 bytes each: what the gateway's own test backend for SSE-KMS asks for.
KMS_SECRETS = [base64.b64encode(bytes([fill]) * 32).decode() for fill in b"ab"]

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = {monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = {folder}/keyring
run dir = {folder}
admin socket =
log file = {folder}/$name.log
mon data = {folder}/mon
mon cluster log file = {folder}/cluster.log
mon allow pool size one = true
mon max pg per osd = 2000
mon data avail warn = 0
mon data avail crit = 0
mon osd full ratio = 0.99
osd data = {folder}/osd
osd objectstore = bluestore
osd class update on start = false
osd crush chooseleaf type = 0
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd memory target = 1073741824
bluestore block size = {store_bytes}
debug ms = 0
log max recent = 100

[client.radosgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
rgw data = {folder}
rgw enable usage log = false
rgw lc debug interval = {day_seconds}
rgw crypt require ssl = false
rgw crypt s3 kms backend = testing
rgw crypt s3 kms encryption keys = {kms_keys}
rgw s3 auth use sts = true
rgw sts key = abcdefghijklmnop
"""


class RadosGateway:
    """A cluster of one under `folder`; `endpoint` is its S3, as the suite's main user sees it."""

    zone_group = "default"

    def __init__(self, folder):
        _install()
        self._folder = pathlib.Path(folder).resolve()
        self._folder.mkdir(parents=True)
        port, *monitor_ports = free_ports(3)
        self.endpoint = Endpoint(port, USERS[0].access_key, USERS[0].secret_key)
        self._configure(port, monitor_ports)
        self._children = []
        self.restarts = 0
        self._stopping = threading.Event()
        started = threading.Event()
        # The children die with the thread that started them, so the supervisor starts them all.
        self._supervisor = threading.Thread(target=self._supervise, args=[started], daemon=True)
        self._failure = None
        self._supervisor.start()
        started.wait()
        if self._failure:
            raise self._failure

    def stop(self):
        self._stopping.set()
        self._supervisor.join()

    def _supervise(self, started):
        try:
            self._start_cluster()
            self._create_users()
            gateway = self._start_gateway()
        except Exception as failure:
            self._failure = failure
            self._stopping.set()
        started.set()
        while not self._stopping.wait(SUPERVISION_SECONDS):
            if gateway.process.poll() is not None:
                self.restarts += 1
                gateway = self._start_gateway()
        for child in reversed(self._children):
            child.stop()

    def _configure(self, port, monitor_ports):
        self._fsid = str(uuid.uuid4())
        self._monitor = "[v2:127.0.0.1:{}/0,v1:127.0.0.1:{}/0]".format(*monitor_ports)
        text = CONFIGURATION.format(
            fsid=self._fsid,
            folder=self._folder,
            port=port,
            monitor=self._monitor,
            store_bytes=STORE_BYTES,
            day_seconds=LIFECYCLE_DAY_SECONDS,
            kms_keys=" ".join(f"{name}={secret}" for name, secret in zip(KMS_KEYS, KMS_SECRETS)),
        )
        self._file = self._folder / "ceph.conf"
        self._file.write_text(text)

    def _start_cluster(self):
        monitors = self._folder / "monitors"
        self._call("monmaptool", "--create", "--fsid", self._fsid, "--addv", "a", self._monitor, monitors)
        self._call("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, "--keyring", self._make_keys())
        self._start("ceph-mon", "-i", "a", ready=self._monitor_answers)
        osd = str(uuid.uuid4())
        self._call("ceph", "osd", "new", osd)
        (self._folder / "osd").mkdir()
        self._call("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", osd)
        self._start("ceph-osd", "-i", "0", ready=self._store_is_up)

    def _make_keys(self):
        keys = self._folder / "keyring"
        capabilities = [word for kind in ("mon", "osd", "mgr") for word in ("--cap", kind, "allow *")]
        for index, name in enumerate(["mon.", "client.admin", "client.radosgw", "osd.0"]):
            create = ["--create-keyring"] if index == 0 else []
            self._call("ceph-authtool", keys, *create, "--gen-key", f"--name={name}", *capabilities)
        return keys

    def _create_users(self):
        for user in USERS:
            tenant = [f"--tenant={user.tenant}"] if user.tenant else []
            command = ["radosgw-admin", "user", "create", f"--uid={user.user_id}", *tenant]
            command += [f"--display-name={user.name}", f"--email={user.email}"]
            command += [f"--access-key={user.access_key}", f"--secret={user.secret_key}"]
            self._call(*command, "--caps=user-policy=*;roles=*", "--name=client.radosgw")

    def _start_gateway(self):
        ready = lambda: accepts(self.endpoint.port)
        return self._start("radosgw", "--name=client.radosgw", ready=ready)

    def _start(self, *command, ready):
        log = self._folder / f"{command[0]}.out"
        child = Child(command[0], self._command(*command, "-f"), log, ready=ready)
        self._children.append(child)
        return child

    def _command(self, name, *arguments):
        return [name, "--conf", self._file, *arguments]

    def _call(self, *command):
        """Runs one command to its end. What it printed."""
        whole = [str(part) for part in self._command(*command)]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(whole)}: {done.stderr[-2000:]}")
        return done.stdout

    def _monitor_answers(self):
        try:
            self._call("ceph", "--connect-timeout=2", "mon", "stat")
        except RuntimeError:
            return False
        return True

    def _store_is_up(self):
        return json.loads(self._call("ceph", "osd", "stat", "--format=json"))["num_up_osds"] == 1


def _install():
    if all(shutil.which(name) for name in ("radosgw", "ceph-mon", "ceph-osd", "ceph")):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "--quiet=2"], check=True)
    command = ["apt-get", "install", "--yes", "--quiet=2", "--no-install-recommends", *PACKAGES]
    subprocess.run(command, check=True, env=environment)
