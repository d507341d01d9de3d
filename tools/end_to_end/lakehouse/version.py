"""An object that is overwritten again and again: what each version holds, which may be seen when."""

import random
import threading

KIB = 1 << 10
MIB = 1 << 20
SECTOR = 64 * KIB
BLOCK = MIB
LENGTHS = [
    BLOCK - 1, 2 * BLOCK + SECTOR + 5, BLOCK, 70_000, 3 * BLOCK + 1, BLOCK + 1, 2 * BLOCK - 7, 1,
]
# The first part of an upload in parts has five MiB at least.
LENGTH_IN_PARTS = 5 * MIB + 777
VERSION_HEADER = "x-amz-meta-version"
# A byte of a version is one of these; the next version's stands this much further.
STEP = 4099
VERSIONS = 1000
POOL = random.Random(20241130).randbytes(LENGTH_IN_PARTS + STEP * VERSIONS)


def content(number, length=None):
    """The bytes of a version: at every offset others than those of its neighbours."""
    start = STEP * (number % VERSIONS)
    return POOL[start : start + (LENGTHS[number % len(LENGTHS)] if length is None else length)]


class History:
    """What an object has been, in order. One writer; any number of readers."""

    def __init__(self):
        self._lock = threading.Lock()
        # What it is after each write: a number and a length, or nothing.
        self._states = [None]
        self._done = 0

    def begin(self, number, length=None):
        """A write begins that leaves this version behind, or nothing."""
        if number is not None and length is None:
            length = len(content(number))
        with self._lock:
            self._states.append(None if number is None else (number, length))

    def end(self):
        """It has been acknowledged: nothing older may be seen by whoever asks from now on."""
        with self._lock:
            self._done = len(self._states) - 1

    def now(self):
        """What a read that begins now sees at the oldest."""
        return self._done

    def since(self, place):
        """What such a read may have seen by now."""
        with self._lock:
            return self._states[place:]

    def judge(self, place, answer, first=None, last=None, is_head=False):
        """What is wrong with an answer to a read that began at `place`; `None` where nothing is."""
        states = self.since(place)
        if answer.status == 404:
            return None if None in states else "it is there, and was all the time"
        lengths = [length for _, length in filter(None, states)]
        if answer.status == 416:
            return None if min(lengths, default=0) <= (first or 0) else "the range is in all versions"
        if answer.status not in (200, 206):
            return None if answer.is_cut or answer.is_proper_error else f"no proper error: {answer}"
        number = int(answer.headers[VERSION_HEADER])
        found = next((each for each in filter(None, states) if each[0] == number), None)
        if found is None:
            return f"version {number} is not among {states}"
        expected = content(*found)
        if first is not None:
            expected = expected[first : last + 1]
        if int(answer.headers["content-length"]) != len(expected):
            return f"version {number} is announced with {answer.headers['content-length']} bytes"
        return None if is_head else _judge_bytes(answer, expected, number)


def _judge_bytes(answer, expected, number):
    if answer.is_cut:
        expected = expected[: len(answer.body)]
    if answer.body == expected:
        return None
    pairs = enumerate(zip(answer.body, expected))
    at = next((at for at, (seen, true) in pairs if seen != true), len(expected))
    return f"{len(answer.body)} bytes of {len(expected)}, of version {number} up to {at} only"
