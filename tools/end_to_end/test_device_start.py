"""What a start makes of the cache device: refused with the cure where it cannot be used or is somebody else's, before
anything is changed; laid out anew, with the reason, where it is of another layout; and never believed wrongly."""

import contextlib
import os
import re
import shutil
import struct

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import put, until
from lakehouse.device import (
    LEAST,
    LEAST_DEVICE_BYTES,
    Device,
    ask_of_all,
    faults,
    fill,
    is_recovered,
    until_written,
    read_all,
    told,
)
from lakehouse.mount import block_device, filesystem, mounted, overlay, sparse_file, tmpfs
from lakehouse.node import SERVER, Node, run
from lakehouse.process import free_ports
from lakehouse.seaweed import OBJECT_BUCKET
from lakehouse.version import MIB, content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="the node's own start")

WAIT_SECONDS_MAX = 30
OBJECTS = 8
NOBODY = 65534
COPIES_AT = (0, MIB // 2)
COPY_BYTES = 8192


@pytest.fixture()
def arguments(tmp_path):
    """Those of a node before a directory, whose cache device is still to be named."""
    port, admin = free_ports(2)
    bucket = tmp_path / "origin"
    bucket.mkdir()
    bucket.chmod(0o777)
    address = ["--server.listen", f"127.0.0.1:{port}", "--server.admin", f"127.0.0.1:{admin}", "--shards", "2"]
    budgets = [f"--{name}={value}" for name, value in LEAST.items()]
    return [*address, "--origin.path", bucket, *budgets]


def is_refused(arguments, path, *words, **how):
    """A check and a start, run in this way, say the same, with the cure, and end."""
    for check in (["--check"], []):
        status, said = run([*arguments, "--disk.path", path, *check], **how)
        assert status > 0 and "panicked" not in said, said
        for word in (str(path), *words):
            assert word in said, (word, said)
    assert said.count("cache device") == 1, said


def as_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def below_a_file(folder):
    (folder / "file").write_text("text")
    return folder / "file" / "deep"


def a_file(folder):
    (folder / "file").write_text("text")
    return folder / "file"


# What is made in a folder, and what is said of it: what is the matter, and what to do.
UNSUITABLE = {
    "missing": (lambda folder: folder / "missing", "does not exist", "mkdir -p"),
    "its parent is missing": (lambda folder: folder / "missing" / "deep", "does not exist", "mkdir -p"),
    "a file": (a_file, "neither a directory nor a block device", "Name a directory"),
    "below a file": (below_a_file, "Not a directory", "is a file"),
}


@pytest.mark.parametrize("what", UNSUITABLE)
def test_a_path_that_is_no_directory_refuses_the_start_with_its_cure(what, arguments, tmp_path):
    make, matter, cure = UNSUITABLE[what]
    is_refused(arguments, make(tmp_path), matter, cure)


@pytest.mark.parametrize("why", ["another user's", "mounted read-only"])
def test_a_directory_that_cannot_be_written_refuses_the_start_instead_of_failing_queries(why, arguments, tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    path = tmp_path / "device"
    path.mkdir(mode=0o755)
    with contextlib.ExitStack() as stack:
        if why == "another user's":
            # Nobody may be kept from the folder that the tree lies in.
            server = shutil.copy(SERVER, tmp_path)
            is_refused(
                arguments, path, "Permission denied", "Give this user the right", prepare=as_nobody, server=server
            )
        else:
            stack.enter_context(mounted(path, "-o", "bind,ro", path))
            is_refused(arguments, path, "Read-only file system", "read-write")
    assert not any(path.iterdir())


def test_a_disk_that_is_too_small_refuses_the_start_and_says_what_is_free_and_what_is_asked(arguments, tmp_path):
    with filesystem(tmp_path, length=64 * MIB) as disk:
        free = disk.free_bytes()
        asked = LEAST_DEVICE_BYTES // MIB
        is_refused(arguments, disk.path, f"needs {asked} MiB more", f"has {free // MIB} MiB free", "lower the budgets")
        assert disk.free_bytes() == free, "nothing was taken of it"


def test_a_read_only_filesystem_refuses_the_start_and_is_used_when_it_is_writable(arguments, proxy, origin, tmp_path):
    fill(origin, "start/read-only", objects=OBJECTS)
    with filesystem(tmp_path) as disk:
        device = Device(proxy, tmp_path, RINGS[0], LEAST, path=disk.path)
        for _ in range(2):
            disk.unmount()
            disk.mount("ro")
            # With a file there, and without.
            is_refused(arguments, disk.path, "Read-only file system", "read-write")
            disk.unmount()
            disk.mount()
            with device.node() as node:
                read_all(node, "start/read-only", objects=OBJECTS)


def test_a_block_device_that_is_too_small_is_refused_with_both_figures(arguments, tmp_path):
    with block_device(sparse_file(tmp_path / "image", 64 * MIB)) as path:
        is_refused(arguments, path, f"has {64 * MIB} bytes, but {LEAST_DEVICE_BYTES} are wanted", "Lower the budgets")


def test_a_second_node_on_a_device_is_refused_and_the_first_goes_on(arguments, proxy, origin, tmp_path):
    fill(origin, "start/second", objects=OBJECTS)
    with block_device(sparse_file(tmp_path / "image", LEAST_DEVICE_BYTES)) as block:
        for path in (None, block):
            device = Device(proxy, tmp_path, RINGS[0], LEAST, path=path)
            with device.node() as node:
                is_refused(arguments, device.path, "used by another process", "Stop the other process")
                read_all(node, "start/second", objects=OBJECTS)
                assert node.stats()["disk_files_lost"] == 0


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def of_an_unknown_area(copy):
    """The superblock, whose first area is of a kind that nobody knows yet; its checksum holds."""
    copy = copy[:48] + struct.pack("<H", 900) + copy[50:]
    return copy[:12] + struct.pack("<I", crc32c(copy[:12] + bytes(4) + copy[16:])) + copy[16:]


def of_a_newer_version(copy):
    return copy[:8] + struct.pack("<H", 77) + copy[10:]


def of_somebody_else(copy):
    return b"SQLite format 3\0".ljust(len(copy), b"x")


NOT_OURS = {
    "an area of an unknown kind": (of_an_unknown_area, "area of kind 900", "newer version"),
    "a newer version": (of_a_newer_version, "of version 77", "newer version"),
    "somebody else's file": (of_somebody_else, "holds something else", "remove it"),
}


@pytest.mark.parametrize("what", NOT_OURS)
def test_what_is_not_this_programs_is_refused_and_left_as_it_is(what, arguments, proxy, tmp_path):
    change, matter, cure = NOT_OURS[what]
    device = Device(proxy, tmp_path, RINGS[0], LEAST)
    with device.node():
        pass
    with device.file.open("r+b") as stream:
        for at in COPIES_AT:
            stream.seek(at)
            copy = change(stream.read(COPY_BYTES))
            stream.seek(at)
            stream.write(copy)
    before = device.file.read_bytes()
    is_refused(arguments, device.path, matter, cure)
    assert device.file.read_bytes() == before


def test_a_block_device_with_a_filesystem_is_refused_and_left_as_it_is(arguments, tmp_path):
    with filesystem(tmp_path) as disk:
        disk.unmount()
        before = disk.image.read_bytes()
        with block_device(disk.image) as path:
            is_refused(arguments, path, "neither blank nor Nilas's", "wipefs")
        assert disk.image.read_bytes() == before


# What is changed between two lives, and the one line that says so.
CHANGES = {
    "a larger budget": ({"disk.data_bytes": "96MiB"}, 2, "laid out for other budgets"),
    "a smaller budget": ({"disk.data_bytes": "48MiB"}, 2, "laid out for other budgets"),
    "other shards": ({}, 1, "laid out for 2 shards"),
    "other blocks": (
        {"cache.block_bytes": "2MiB", "disk.data_bytes": "96MiB", "disk.metadata_bytes": "64MiB",
         "disk.mapping_bytes": "32MiB", "cache.data_bytes": "48MiB", "cache.metadata_bytes": "48MiB"},
        2,
        "cache.block_bytes is now 2097152",
    ),
}


@pytest.mark.parametrize(("kind", "what"), [*[("directory", each) for each in CHANGES], ("block device", "other shards")])
def test_a_device_of_another_layout_is_empty_and_one_line_says_why(kind, what, proxy, origin, tmp_path):
    changed, shards, line = CHANGES[what]
    folder = f"start/{kind.replace(' ', '-')}/{what.replace(' ', '-')}"
    fill(origin, folder, objects=OBJECTS)
    with contextlib.ExitStack() as stack:
        image = sparse_file(tmp_path / "image", 200 * MIB)
        path = stack.enter_context(block_device(image)) if kind == "block device" else None
        device = Device(proxy, tmp_path, RINGS[0], LEAST, path=path)
        with device.node() as node:
            until_written(node, lambda: read_all(node, folder, objects=OBJECTS), OBJECTS)
        # Other bytes, so that what was kept would be seen.
        fill(origin, folder, salt=100, objects=OBJECTS)
        device.keys.update(changed)
        with device.node(shards=shards) as node:
            read_all(node, folder, salt=100, objects=OBJECTS)
            said = told(node)
            assert len(said) == 1 and "laid out anew and empty" in said[0] and line in said[0], said
        with device.node(shards=shards) as node:
            read_all(node, folder, salt=100, objects=OBJECTS)
            assert not told(node), "it is kept from now on"


def test_another_origins_content_is_not_served_and_one_line_says_so(proxy, origin, tmp_path):
    folder = "start/other/metadata"
    keys = [f"{folder}/{number}-a.metadata.json" for number in range(OBJECTS)]
    for number, key in enumerate(keys):
        put(origin, key, content(number, MIB))
    device = Device(proxy, tmp_path, RINGS[0], LEAST)

    def read(node, salt):
        client = node.endpoint.boto3()
        for number, key in enumerate(keys):
            body = client.get_object(Bucket=OBJECT_BUCKET, Key=key)["Body"].read()
            assert body == content(salt + number, MIB), key

    with device.node() as node:
        read(node, 0)
        until("it is written", lambda: node.stats()["disk"]["written_bytes"] > OBJECTS * MIB, WAIT_SECONDS_MAX)
    # Another node is the other origin: the same bucket and keys, other bytes.
    bucket = tmp_path / "directory" / OBJECT_BUCKET / folder
    bucket.mkdir(parents=True)
    for number, key in enumerate(keys):
        (bucket / key.rsplit("/", 1)[1]).write_bytes(content(50 + number, MIB))
    local = {"origin.kind": "local", "origin.path": str(tmp_path / "directory")}
    other = Node(None, tmp_path / "other", keys=local)
    try:
        with device.node(origin=other.endpoint) as node:
            read(node, 50)
            said = told(node)
            assert len(said) == 1 and "of another origin" in said[0], said
            assert node.stats()["disk"]["hits"] == 0
        with device.node(origin=other.endpoint) as node:
            read(node, 50)
            assert not told(node)
    finally:
        other.stop()


def is_direct(node, path):
    """Whether the node has the file open with O_DIRECT."""
    for number in os.listdir(f"/proc/{node.pid}/fd"):
        if os.readlink(f"/proc/{node.pid}/fd/{number}") == str(path):
            with open(f"/proc/{node.pid}/fdinfo/{number}", encoding="ascii") as facts:
                flags = re.search(r"flags:\s*(\d+)", facts.read())[1]
            return bool(int(flags, 8) & os.O_DIRECT)
    raise AssertionError(f"{path} is not open")


@contextlib.contextmanager
def place(kind, folder):
    match kind:
        case "tmpfs":
            with tmpfs(folder / "tmpfs", 512 * MIB) as path:
                yield path
        case "ramfs":
            with mounted(folder / "ramfs", "-t", "ramfs", "ramfs") as path:
                yield path
        case "overlayfs":
            with overlay(folder) as path:
                yield path
        case _:
            with filesystem(folder, kind) as disk:
                yield disk.path


FILESYSTEMS = [
    *[(RINGS[0], kind) for kind in ("tmpfs", "ramfs", "overlayfs", "ext4", "ext2")],
    *[(RINGS[1], kind) for kind in ("tmpfs", "ext4")],
]


@pytest.mark.parametrize(("ring", "kind"), FILESYSTEMS)
def test_where_o_direct_fails_or_is_pretended_the_page_cache_is_used_and_the_reason_told(
    ring, kind, proxy, origin, tmp_path
):
    folder = f"start/{kind}-{ring}"
    fill(origin, folder, objects=OBJECTS)
    with place(kind, tmp_path) as path:
        device = Device(proxy, tmp_path, ring, LEAST, path=path)
        for life in range(2):
            with device.node() as node:
                until("all was found", lambda: is_recovered(node), WAIT_SECONDS_MAX)
                ask_of_all(node, folder, OBJECTS)
                if life == 0:
                    until_written(node, lambda: read_all(node, folder, objects=OBJECTS), OBJECTS)
                read_all(node, folder, objects=OBJECTS)
                buffered = [line for line in told(node) if "page cache" in line]
                on_disk = kind.startswith("ext")
                # Whether this kernel takes the flag there or refuses it, the bytes are in memory.
                assert is_direct(node, device.file) == on_disk
                assert len(buffered) == (not on_disk) and all(kind in line for line in buffered), told(node)
                no_place = [line for line in told(node) if "no fallocate" in line]
                assert len(no_place) == (kind in ("ramfs", "ext2")), told(node)
                disk = node.stats()["disk"]
                assert disk["hits"] > 0 or life == 0, disk
                assert not any(faults(node).values()), faults(node)
