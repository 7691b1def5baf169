"""scripts: loaded from package data with all that they need, known by their SHA-1."""

import hashlib
import re
from pathlib import Path

import pytest

import dpq
from dpq.protocol.keys import PARTS, REGISTRY, REGISTRY_TICK, key_of
from dpq.protocol.scripts import Sources, script, script_names


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


def test_only_operations_are_scripts():
    """What is in a folder is shared by operations, and is none."""
    names = script_names()
    assert names == sorted(names)
    assert {"push", "pop", "ack"} <= set(names)
    lua = Path(dpq.__file__).parent / "protocol" / "lua"
    assert names == sorted(path.stem for path in lua.glob("*.lua"))
    assert {"record", "groups"} <= {path.stem for path in lua.glob("lib/*/*.lua")}


HEADER = "-- op: what it does.\n-- Keys: ready meta\n--       conf\n-- Returns 1.\n"


def body(source: str, **shared: str) -> list[str]:
    """The lines of a script behind its header, whose shared files are these, without comments."""
    sources = Sources({"op": HEADER + source}, {name: text + "\n" for name, text in shared.items()})
    text = sources.script("op").text
    assert text.startswith(HEADER)
    lines = text.removeprefix(HEADER).splitlines()
    assert lines[0] == "local ready, meta, conf = KEYS[1], KEYS[2], KEYS[3]"
    return [line for line in lines[1:] if "--" not in line]


def test_keys_are_named():
    """The header names the keys, for the script and for those who send it."""
    loaded = Sources({"op": HEADER}, {}).script("op")
    assert loaded.parts == ("ready", "meta", "conf")
    with pytest.raises(ValueError, match="op does not say which keys it touches"):
        Sources({"op": "-- op: what it does.\n"}, {}).script("op")


def test_needs_come_first():
    """What a file needs stands before it, and each file once."""
    shared = {"a": "-- Needs: b, c\na", "b": "-- Needs: c\nb", "c": "c"}
    assert body("-- Needs: a\nx\n", **shared) == ["c", "b", "a", "x"]
    assert body("-- Needs: c, b, a\n-- Needs: a\nx\n", **shared) == ["c", "b", "a", "x"]
    assert body("x\n-- Needs: c,\n--        b\ny\n", **shared) == ["x", "c", "b", "y"]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("-- Needs: a\nif x then\n  -- Needs: b\nend\n", "a,if x then,b,end"),
        ("if x then\n  -- Needs: b\nend\n-- Needs: a\n", "if x then,a,b,end,a"),
        (
            "if x then\n  -- Needs: a\nelse\n  y\n  -- Needs: b\nend\n",
            "if x then,a,else,  y,a,b,end",
        ),
        (
            "if x then\n  -- Needs: a\n  if y then\n    -- Needs: b\n  end\n  -- Needs: b\nend\n",
            "if x then,a,  if y then,b,  end,b,end",
        ),
        ("if x then\n  y\n\n  -- Needs: a\n\n  -- Needs: b\nend\n", "if x then,  y,,a,,b,end"),
    ],
)
def test_once_for_each_block(source, lines):
    """What an outer block has is not brought in again; what another block has, is."""
    assert body(source, a="a", b="-- Needs: a\nb") == lines.split(",")


def test_a_need_that_is_not_there():
    """The error names the file, and who needs it."""
    with pytest.raises(ValueError, match=r"^op\.lua -> a needs b, which is not there"):
        body("-- Needs: a\n", a="-- Needs: b\n")
    with pytest.raises(ValueError, match=r"^op\.lua needs op, which is not there"):
        body("-- Needs: op\n")


def test_a_circle_of_needs():
    """Files that need each other cannot be put in an order."""
    with pytest.raises(ValueError, match=r"a circle of needs: op\.lua -> a -> b -> a"):
        body("-- Needs: a\n", a="-- Needs: b\n", b="-- Needs: a\n")


def test_read_once():
    """A script is read and put together once in a process."""
    assert script("push") is script("push")


def test_keys_of_a_queue():
    """All keys of one queue are in one cluster slot, and the shared ones in another."""
    assert key_of("my queue", "ready") == "dpq:{my queue}:ready"
    assert key_of("my queue", "queues") == REGISTRY
    assert key_of("my queue", "queues_tick") == REGISTRY_TICK
