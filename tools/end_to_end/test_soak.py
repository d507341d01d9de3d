"""A mixed load with faults for a little while; an hour of it by hand: `python -m lakehouse.soak`."""

import pytest

from conftest import HAS_NODE, RINGS
from lakehouse.soak import RESIDENT_BYTES_MAX, soak

pytestmark = pytest.mark.skipif(not HAS_NODE, reason="what a node does for long")

SOAK_SECONDS = 15
# Each must have been seen: an actor that does nothing proves nothing.
ACTORS = {"write", "own read", "read", "slow read", "leave", "list"}


@pytest.mark.parametrize("ring", RINGS)
def test_mixed_load_with_faults_ends_with_everything_given_back(ring, workspace):
    run = soak(workspace / f"soak-{ring}", SOAK_SECONDS, ring, seed=7)
    assert not run.wrong, run.wrong
    assert {actor for actor, _ in run.seen} >= ACTORS, run.seen
    assert run.resident_bytes_max() <= RESIDENT_BYTES_MAX
