"""scripts: loaded from package data with all that they need, known by their SHA-1."""

import hashlib
import re

import pytest

from dpq.script.assembly import script, script_names
from dpq.script.keys import PARTS, REGISTRY, REGISTRY_TICK, key_of


@pytest.mark.parametrize("name", script_names())
def test_loaded(name):
    """Every script is ASCII text with all that it needs in place, found by its own digest."""
    loaded = script(name)
    assert loaded.name == name
    assert not re.search(r"^ +-- Needs:", loaded.text, re.MULTILINE)
    assert loaded.text.isascii()
    assert loaded.sha == hashlib.sha1(loaded.text.encode()).hexdigest()  # noqa: S324 - what EVALSHA uses
    assert set(loaded.parts) <= {*PARTS, "queues", "queues_tick"}
    assert len(set(loaded.parts)) == len(loaded.parts)


def test_keys_of_a_queue():
    """All keys of one queue are in one cluster slot, and the shared ones in another."""
    assert key_of("my queue", "ready") == "dpq:{my queue}:ready"
    assert key_of("my queue", "queues") == REGISTRY
    assert key_of("my queue", "queues_tick") == REGISTRY_TICK
