"""scripts: loaded from package data with all that they need, known by their SHA-1."""

import hashlib
import re
from typing import Any

import pytest
from lupa.lua51 import LuaRuntime

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


HEADER = "-- op: what it does.\n-- Keys: ready meta\n--       conf\n-- Returns 1.\n"


def text_of(source: str, **shared: str) -> str:
    """The text of a script whose shared files are these, behind the line that names its keys."""
    sources = Sources({"op": HEADER + source}, {name: text + "\n" for name, text in shared.items()})
    keys, _, text = sources.script("op").text.partition("\n")
    assert keys == "local ready, meta, conf = KEYS[1], KEYS[2], KEYS[3]"
    return text


def run(source: str, **shared: str) -> Any:
    """What such a script returns, and the files that were made, in this order."""
    lua = LuaRuntime()
    lua.execute("KEYS, ARGV, made = {}, {}, {}")
    result = lua.execute(text_of(source, **shared))
    return result, list(lua.globals().made.values())


def gives(name: str, value: str, needs: str = "") -> str:
    """A shared file of one function, which notes that it was made."""
    head = f"-- Needs: {needs}\n" if needs else ""
    return (
        f"{head}-- Gives: {name}().\nlocal _ = table.insert(made, '{name}')\n"
        f"local function {name}()\n  return {value}\nend"
    )


FILES = {
    "a": gives("a", "b() + c()", "b, c"),
    "b": gives("b", "2 * c()", "c"),
    "c": gives("c", "3"),
}


def test_made_when_used():
    """What an indented line names, and what that needs, is made once, at its first use."""
    source = "if true then\n  -- Needs: a\n  return {0}\nend\n"
    assert run(source.format("a() + a()"), **FILES) == (18, ["a", "b", "c"])
    assert run(source.format("1"), **FILES) == (1, [])


def test_made_at_once():
    """What the first line without indentation names is made at the top."""
    assert run("-- Needs: c\nreturn 1\n", **FILES) == (1, ["c"])
    assert run("-- Needs: a\nreturn a()\n", **FILES) == (9, ["a", "b", "c"])
    both = "-- Needs: a,\n--        c\nif true then\n  -- Needs: b\n  return a() + b()\nend\n"
    assert run(both, **FILES) == (15, ["c", "a", "b"])


def test_each_file_stands_once():
    """However often a file is needed, its functions stand once in the script."""
    text = text_of("-- Needs: a, b\nif x then\n  -- Needs: a, c\nend\n", **FILES)
    assert [text.count(f"'{name}'") for name in FILES] == [1, 1, 1]


def test_only_names_are_linked():
    """A field, a key of a table and a text keep a name that a file gives; variables do not."""
    add = "local function add()\n  n = n + own.n\nend"
    shared = f"-- Gives: n, add().\nlocal n = 1\nlocal own = {{ n = 5 }}\n{add}"
    source = "add() -- n\nreturn n .. 'n' .. #{ n = 1, n, [n] = 2 }\n"
    source = f"do\n  -- Needs: a\n{source}end\n"
    assert run(source, a=shared)[0] == "6n1"


def test_nothing_but_code_is_sent():
    """Comments, indentation and empty lines are left out; a text is kept as it is."""
    assert (
        text_of("\nif x then -- c\n\n  y = ' --  z' -- d\nend\n")
        == "if x then\ny = ' --  z'\nend\n"
    )


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
