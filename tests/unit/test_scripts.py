"""scripts: loaded from package data with all that they need, known by their SHA-1."""

import hashlib
import re

import pytest

from dpq.protocol.keys import PARTS, REGISTRY, REGISTRY_TICK, key_of
from dpq.protocol.scripts import script, script_names


@pytest.mark.parametrize("name", script_names())
def test_loaded(name):
    """Every script is ASCII text with all that it needs in place, found by its own digest."""
    loaded = script(name)
    assert loaded.name == name
    assert not re.search(r"^ +-- Needs:", loaded.text, re.MULTILINE)
    assert loaded.text.isascii()
    assert loaded.sha == hashlib.sha1(loaded.text.encode()).hexdigest()
    assert set(loaded.parts) <= {*PARTS, "queues", "queues_tick"}
    assert len(set(loaded.parts)) == len(loaded.parts)


HEADER = "-- op: what it does.\n-- Keys: ready meta\n--       conf\n-- Returns 1.\n"


def test_a_need_that_is_not_there():
    """The error names the file, and who needs it."""
    with pytest.raises(ValueError, match=r"^op\.lua -> a needs b, which is not there"):
        text_of("-- Needs: a\n", a="-- Needs: b\n")
    with pytest.raises(ValueError, match=r"^op\.lua needs op, which is not there"):
        text_of("-- Needs: op\n")


def test_keys_of_a_queue():
    """All keys of one queue are in one cluster slot, and the shared ones in another."""
    assert key_of("my queue", "ready") == "dpq:{my queue}:ready"
    assert key_of("my queue", "queues") == REGISTRY
    assert key_of("my queue", "queues_tick") == REGISTRY_TICK
