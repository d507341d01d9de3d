"""Filesystems and block devices of a test's own, to be filled, broken and healed. A machine that has no such thing
skips the test, with the reason. Everything is unmounted and detached at the end."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import struct
import subprocess

import pytest

from .client import until
from .version import MIB

UNMOUNT_SECONDS_MAX = 30
# FS_IOC_SHUTDOWN, and its flag for "at once, the journal is not written".
SHUTDOWN, AT_ONCE = 0x8004587D, 2


def run(*command):
    """Runs a command of the system's that must succeed, or the machine does not let the test be made."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]} here")
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"{command[0]} is refused here: {done.stderr.strip()}")
    return done.stdout.strip()


def sparse_file(path, length):
    with path.open("wb") as stream:
        stream.truncate(length)
    return path


def unmount(path):
    """Waits while it is in use: the kernel lets go of a ring's files some time after their process has ended."""

    def is_unmounted():
        return subprocess.run(["umount", path], capture_output=True, check=False).returncode == 0

    until(f"{path} is unmounted", is_unmounted, UNMOUNT_SECONDS_MAX)


class Filesystem:
    """A filesystem over a loop device, mounted at `path`; `image` is the file that the loop device is of."""

    def __init__(self, image, path, kind, options):
        self.image, self.path, self._kind, self._options = image, path, kind, options
        self.is_mounted = False

    def mount(self, *more):
        run("mount", "-t", self._kind, "-o", ",".join(["loop", *self._options, *more]), self.image, self.path)
        self.is_mounted = True

    def unmount(self):
        unmount(self.path)
        self.is_mounted = False

    def repair(self):
        """Unmounts it and clears what it noted of its errors."""
        self.unmount()
        done = subprocess.run(["e2fsck", "-fy", self.image], capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stdout

    def fail_to_read_only(self):
        """Has an ext4 with `errors=remount-ro` find an error in itself, so that it takes no write any more."""
        device = pathlib.Path(run("findmnt", "-no", "SOURCE", self.path)).name
        trigger = pathlib.Path(f"/sys/fs/ext4/{device}/trigger_fs_error")
        if not trigger.exists():
            pytest.skip("this kernel's ext4 finds no error on demand")
        trigger.write_text("1")

    def shut_down(self):
        """Has every read and write of its files fail with EIO, until it is mounted anew."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, SHUTDOWN, struct.pack("I", AT_ONCE))
        except OSError as error:
            pytest.skip(f"this filesystem cannot be shut down: {error}")
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def frozen(self):
        """Has every write to it wait meanwhile."""
        run("fsfreeze", "-f", self.path)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "-u", self.path], check=True)

    def free_bytes(self):
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize


@contextlib.contextmanager
def filesystem(folder, kind="ext4", length=512 * MIB, options=()):
    """A new filesystem in a file in `folder`, mounted there."""
    image, path = sparse_file(folder / f"{kind}.image", length), folder / kind
    path.mkdir()
    run(f"mkfs.{kind}", "-q", "-F", image)
    made = Filesystem(image, path, kind, options)
    made.mount()
    try:
        yield made
    finally:
        if made.is_mounted:
            made.unmount()


@contextlib.contextmanager
def block_device(image):
    """A loop device of a file: what is read of it that the file has no more is EIO."""
    path = pathlib.Path(run("losetup", "-f", "--show", image))
    try:
        yield path
    finally:
        subprocess.run(["losetup", "-d", path], check=True)


@contextlib.contextmanager
def mounted(path, *arguments):
    """Whatever `mount` makes of the arguments, at `path`, which is made."""
    path.mkdir(exist_ok=True)
    run("mount", *arguments, path)
    try:
        yield path
    finally:
        unmount(path)


def tmpfs(path, length):
    return mounted(path, "-t", "tmpfs", "-o", f"size={length}", "tmpfs")


def overlay(folder):
    """An overlay of two empty directories."""
    for name in ("lower", "upper", "work"):
        (folder / name).mkdir()
    layers = f"lowerdir={folder / 'lower'},upperdir={folder / 'upper'},workdir={folder / 'work'}"
    return mounted(folder / "overlay", "-t", "overlay", "-o", layers, "overlay")
