"""scripts: loaded from package data, includes resolved, known by their SHA-1."""

import hashlib
from importlib import resources

import pytest

from dpq.protocol.keys import PARTS, REGISTRY, REGISTRY_TICK, key_of
from dpq.protocol.scripts import script, script_names


@pytest.mark.parametrize("name", script_names())
def test_loaded(name):
    """Every script is ASCII text with all includes in place, found by its own digest."""
    loaded = script(name)
    assert loaded.name == name
    assert "@include" not in loaded.text
    assert loaded.text.isascii()
    assert loaded.sha == hashlib.sha1(loaded.text.encode()).hexdigest()  # noqa: S324 - what EVALSHA uses
    assert set(loaded.parts) <= {*PARTS, "queues", "queues_tick"}
    assert len(set(loaded.parts)) == len(loaded.parts)


def test_no_snippet_is_a_script():
    """Snippets are no operations."""
    names = script_names()
    assert names == sorted(names)
    assert not any(name.startswith("_") for name in names)
    assert {"push", "pop", "ack"} <= set(names)


def test_includes_are_one_level_deep():
    """No snippet includes another, so a reader follows one step at most."""
    snippets = [
        path
        for path in resources.files("dpq.protocol").joinpath("lua").iterdir()
        if path.name[0] == "_"
    ]
    assert snippets
    for path in snippets:
        assert "@include" not in path.read_text(encoding="utf-8"), path


def test_read_once():
    """A script is read and put together once in a process."""
    assert script("push") is script("push")


def test_keys_of_a_queue():
    """All keys of one queue are in one cluster slot, and the shared ones in another."""
    assert key_of("my queue", "ready") == "dpq:{my queue}:ready"
    assert key_of("my queue", "queues") == REGISTRY
    assert key_of("my queue", "queues_tick") == REGISTRY_TICK
