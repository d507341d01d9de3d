"""The cache device fails, fills up, becomes read-only or goes while a node runs on it: every answer stays right, one
line says what happened, the counters count it, and when it is well again it is used again."""

import contextlib
import os
import random
import shutil

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.client import Client, put, target, until
from lakehouse.device import (
    LEAST,
    LEAST_DEVICE_BYTES,
    OBJECT_BYTES,
    Device,
    ask_of_all,
    bodies,
    faults,
    fill,
    is_recovered,
    read_all,
    told,
    until_nothing_is_written,
    until_written,
)
from lakehouse.mount import block_device, filesystem, run, sparse_file, tmpfs
from lakehouse.version import MIB, content

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="claims about the node")

WAIT_SECONDS_MAX = 40
# More than memory holds, less than the device does.
OBJECTS = 8
FAILS = "the cache device"


def served(node, folder, salt=0):
    """Everything is right, whole and in parts."""
    read_all(node, folder, salt, OBJECTS)
    chance, client = random.Random(folder), Client(node.endpoint)
    for _ in range(20):
        number, first = chance.randrange(OBJECTS), chance.randrange(OBJECT_BYTES)
        last = min(first + chance.choice([100, 70_000, 2_000_000]), OBJECT_BYTES - 1)
        answer = client.get(target(folder, f"part-{number}.bin"), first, last)
        assert answer.status == 206, answer
        assert answer.body == content(salt + number, OBJECT_BYTES)[first : last + 1], (number, first, last)
    client.close()


def kept(node, folder, salt=0):
    """Everything is right, and on the device."""
    until_written(node, lambda: served(node, folder, salt), OBJECTS)


def until_it_is_used(node, folder, what="hits", salt=0):
    """Reads on, rightly, until the device gives, or takes, what it did not before."""
    before = node.stats()["disk"][what]

    def is_used():
        served(node, folder, salt)
        return node.stats()["disk"][what] > before + OBJECTS

    until(f"the device is used again: {what}", is_used, WAIT_SECONDS_MAX)


def found(node, folder):
    """A node that was just started knows what its device holds."""
    until("all was found", lambda: is_recovered(node), WAIT_SECONDS_MAX)
    ask_of_all(node, folder, OBJECTS)


def until_told(node, *words):
    """Exactly one line says it, with all of these words."""

    def said():
        return [line for line in told(node) if all(word in line for word in words)]

    until(f"it is told: {words}", said, WAIT_SECONDS_MAX)
    assert len(said()) == 1, said()


def at_most(node, count):
    lines = told(node)
    assert len(lines) <= count and "panicked" not in node.text(), lines


@contextlib.contextmanager
def without_fallocate(folder):
    """A filesystem that gives no place in advance, so that somebody else may take it."""
    with filesystem(folder, "ext2", 300 * MIB) as disk:
        filler = disk.path / "filler"

        def take():
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as stream:
                while True:
                    stream.write(bytes(MIB))

        yield disk.path, take, filler.unlink


@contextlib.contextmanager
def thinly_provisioned(folder):
    """A block device that promises more than there is behind it."""
    with tmpfs(folder / "pool", 24 * MIB) as pool:
        image = sparse_file(pool / "image", LEAST_DEVICE_BYTES)
        with block_device(image) as path:
            yield path, lambda: None, lambda: run("mount", "-o", f"remount,size={400 * MIB}", pool)


@pytest.mark.parametrize("place", [without_fallocate, thinly_provisioned])
@pytest.mark.parametrize("ring", RINGS)
def test_a_disk_that_runs_full_costs_what_is_not_kept_and_is_used_again(ring, place, proxy, origin, tmp_path):
    folder = f"faults/full-{ring}-{place.__name__}"
    fill(origin, folder, objects=OBJECTS)
    with place(tmp_path) as (path, take, give_back):
        device = Device(proxy, tmp_path, ring, LEAST, path=path)
        with device.node() as node:
            take()
            served(node, folder)
            until("it is counted", lambda: faults(node)["write_failures"] > 0, WAIT_SECONDS_MAX)
            served(node, folder)
            until_told(node, FAILS, "fails", "No space left on device")
            at_most(node, 3)
            give_back()
            until_it_is_used(node, folder, "written_bytes")
            until_it_is_used(node, folder)
            # A loop device takes for written what its full filesystem took a part of: pages that their checksums tell.
            assert faults(node)["damaged"] == 0 or place is thinly_provisioned
            assert faults(node)["read_failures"] == 0
        with device.node() as node:
            found(node, folder)
            until_it_is_used(node, folder)


IMMUTABLE = 4


def table(folder):
    return [f"{folder}/metadata/{number}-a.metadata.json" for number in range(IMMUTABLE)]


def read_table(node, folder, salt):
    client = Client(node.endpoint)
    for number, key in enumerate(table(folder)):
        assert client.get(target(key)).body == content(salt + number, 100_000), key
    client.close()


@pytest.mark.parametrize("ring", RINGS)
def test_a_filesystem_that_becomes_read_only_is_read_on_and_written_again_later(ring, proxy, origin, tmp_path):
    folder, later = f"faults/read-only-{ring}", f"faults/read-only-{ring}-later"
    fill(origin, folder, objects=OBJECTS)
    fill(origin, later, salt=20, objects=OBJECTS)
    for number, key in enumerate(table(folder)):
        put(origin, key, content(40 + number, 100_000))
    with filesystem(tmp_path, options=["errors=remount-ro"]) as disk:
        device = Device(proxy, tmp_path, ring, LEAST, path=disk.path)
        with device.node() as node:
            kept(node, folder)
            read_table(node, folder, 40)
            until_nothing_is_written(node)
            disk.fail_to_read_only()
            served(node, later, salt=20)
            until("it is counted", lambda: faults(node)["write_failures"] > 0, WAIT_SECONDS_MAX)
            until_told(node, FAILS, "fails", "Read-only file system")
            until_it_is_used(node, folder)
            client = Client(node.endpoint)
            # Its old mapping would be believed by a later start, and can be taken back by nobody.
            refused = client.ask("PUT", target(table(folder)[0]), body=b"new")
            assert (refused.status, refused.code) == (503, "ServiceUnavailable"), refused
            assert client.ask("PUT", target(later, "other"), body=b"new").status == 200
            client.close()
            read_table(node, folder, 40)
            until("it is counted", lambda: faults(node)["journal_failures"] > 0, WAIT_SECONDS_MAX)
            until_told(node, "does not take mappings any more", "Read-only file system")
            at_most(node, 2)
        disk.repair()
        disk.mount()
        with device.node() as node:
            found(node, folder)
            read_table(node, folder, 40)
            until_it_is_used(node, folder)
            until_it_is_used(node, later, "written_bytes", salt=20)
            client = Client(node.endpoint)
            assert client.get(target(later, "other")).body == b"new"
            client.close()
            put(node.endpoint, table(folder)[0], content(40, 100_000))
            read_table(node, folder, 40)
            assert not told(node)


@pytest.mark.parametrize("ring", RINGS)
def test_a_disk_that_stalls_refuses_in_time_what_must_be_durable_and_says_so(ring, proxy, origin, tmp_path):
    folder = f"faults/frozen-{ring}"
    first, *_ = table(folder)
    for number, key in enumerate(table(folder)):
        put(origin, key, content(40 + number, 100_000))
    with filesystem(tmp_path) as disk:
        device = Device(proxy, tmp_path, ring, LEAST, path=disk.path)
        with device.node() as node:
            read_table(node, folder, 40)
            until_nothing_is_written(node)
            client = Client(node.endpoint)
            with disk.frozen():
                refused = client.ask("PUT", target(first), body=b"new")
                assert (refused.status, refused.code) == (503, "ServiceUnavailable"), refused
                read_table(node, folder, 40)
                until("it is counted", lambda: faults(node)["journal_timeouts"] == 1, WAIT_SECONDS_MAX)
                until_told(node, FAILS, "fails", "not done in time: 1")
            assert client.ask("PUT", target(first), body=b"new").status == 200
            assert client.get(target(first)).body == b"new"
            client.close()
            assert faults(node)["journal_failures"] == 0
            at_most(node, 1)


@pytest.mark.parametrize("ring", RINGS)
def test_a_disk_that_fails_every_read_and_write_costs_questions_to_the_origin_alone(ring, proxy, origin, tmp_path):
    folder = f"faults/dead-{ring}"
    fill(origin, folder, objects=OBJECTS)
    with filesystem(tmp_path) as disk:
        device = Device(proxy, tmp_path, ring, LEAST, path=disk.path)
        with device.node() as node:
            kept(node, folder)
            disk.shut_down()
            served(node, folder)
            served(node, folder)
            until("it is counted", lambda: faults(node)["read_failures"] > 0, WAIT_SECONDS_MAX)
            until("it is counted", lambda: faults(node)["write_failures"] > 0, WAIT_SECONDS_MAX)
            until_told(node, FAILS, "fails", "Input/output error")
            at_most(node, 2)
        disk.unmount()
        disk.mount()
        for _ in range(2):
            with device.node() as node:
                found(node, folder)
                until_damage_ends(node, folder)
                until_it_is_used(node, folder)
                assert faults(node)["read_failures"] == faults(node)["write_failures"] == 0


# A damaged record that stood behind another is met, and dropped, when that one has gone.
LIVES_MAX = 3
# What is on the disk after its errors: what had been there before them, so that what was written meanwhile is lost;
# nothing; or all that was written.
AFTERWARDS = [(RINGS[0], "as before"), (RINGS[1], "as before"), (RINGS[0], "blank"), (RINGS[0], "as written")]


@pytest.mark.parametrize(("ring", "afterwards"), AFTERWARDS)
def test_checksums_hold_again_once_the_disks_io_errors_have_passed(ring, afterwards, proxy, origin, tmp_path):
    folder = f"faults/passing-{ring}-{afterwards.replace(' ', '-')}"
    fill(origin, folder, objects=OBJECTS)
    image, saved = sparse_file(tmp_path / "image", LEAST_DEVICE_BYTES), tmp_path / "saved"
    with block_device(image) as path:
        device = Device(proxy, tmp_path, ring, LEAST, path=path)
        with device.node() as node:
            kept(node, folder)
            shutil.copyfile(image, saved)
            # What a loop device's file has no more cannot be read: EIO.
            os.truncate(image, 4 * MIB)
            served(node, folder)
            until("it is counted", lambda: faults(node)["read_failures"] > 0, WAIT_SECONDS_MAX)
            until_told(node, FAILS, "fails", "Input/output error")
            until_nothing_is_written(node)
            pass_over(image, saved, afterwards)
            until_damage_ends(node, folder)
            until_it_is_used(node, folder)
            until_told(node, FAILS, "fails")
            at_most(node, 2)
        for _ in range(LIVES_MAX):
            with device.node() as node:
                found(node, folder)
                until_damage_ends(node, folder)
                until_it_is_used(node, folder)
                last = faults(node)
            if not any(last.values()):
                return
        assert not any(last.values()), "what was damaged comes up again at every start"


def pass_over(image, saved, afterwards):
    """The errors pass."""
    if afterwards == "blank":
        os.truncate(image, 4 * MIB)
    with image.open("r+b") as stream, saved.open("rb") as before:
        if afterwards == "as before":
            shutil.copyfileobj(before, stream, MIB)
        stream.truncate(LEAST_DEVICE_BYTES)


def until_damage_ends(node, folder):
    """Whatever was damaged is dropped once: reading on finds no more of it."""

    def is_over():
        before = faults(node)
        served(node, folder)
        served(node, folder)
        return faults(node) == before

    until("damage ends", is_over, WAIT_SECONDS_MAX)


def test_a_directory_that_is_removed_under_a_node_is_told_and_the_next_start_refused(proxy, origin, tmp_path):
    folder = "faults/removed"
    fill(origin, folder, objects=OBJECTS)
    device = Device(proxy, tmp_path, RINGS[0], LEAST)
    with device.node() as node:
        kept(node, folder)
        shutil.rmtree(device.path)
        until_told(node, FAILS, "was removed")
        assert faults(node)["file_lost"] == 1
        until_it_is_used(node, folder)
        at_most(node, 1)
    with pytest.raises(RuntimeError, match="does not exist.*mkdir -p"):
        with device.node():
            pass
    device.path.mkdir()
    with device.node() as node:
        found(node, folder)
        mark = proxy.mark()
        served(node, folder)
        assert bodies(proxy, mark) and not told(node)
        until_it_is_used(node, folder)


def cut_off(file):
    os.truncate(file, 6 * MIB)


def zeroed(file):
    """All but the head, as a hole has it."""
    length = file.stat().st_size
    run("fallocate", "--punch-hole", "--offset", 4 * MIB, "--length", length - 4 * MIB, file)


def overwritten(file):
    with file.open("r+b") as stream:
        stream.seek(4 * MIB)
        for _ in range(LEAST_DEVICE_BYTES // MIB - 4):
            stream.write(os.urandom(MIB))


@pytest.mark.parametrize("spoil", [cut_off, zeroed, overwritten])
@pytest.mark.parametrize("ring", RINGS)
def test_an_entry_whose_bytes_were_taken_by_hand_is_dropped_and_fetched_anew(ring, spoil, proxy, origin, tmp_path):
    folder = f"faults/{spoil.__name__}-{ring}"
    fill(origin, folder, objects=OBJECTS)
    device = Device(proxy, tmp_path, ring, LEAST)
    with device.node() as node:
        kept(node, folder)
        spoil(device.file)
        mark = proxy.mark()
        served(node, folder)
        assert bodies(proxy, mark), "it is fetched anew"
        kind = "read_failures" if spoil is cut_off else "damaged"
        until("it is counted", lambda: faults(node)[kind] > 0, WAIT_SECONDS_MAX)
        until_told(node, FAILS, "fails")
        if spoil is not overwritten:
            until_told(node, FAILS, "was cut off or has holes")
            assert faults(node)["file_lost"] == 1
        at_most(node, 2)
        until_damage_ends(node, folder)
        until_it_is_used(node, folder)
    with device.node() as node:
        found(node, folder)
        until_damage_ends(node, folder)
        until_it_is_used(node, folder)
