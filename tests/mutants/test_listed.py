"""The list of planted changes fits the code, so that `make mutants` can run."""

import pytest
from kit.each import each
from lupa.lua51 import LuaRuntime
from mutants.listed import MUTANTS
from mutants.mutant import ROOT, Change, places, text_of

from dpq.script.assembly import needs_of

LUA = ROOT / "dpq" / "script" / "lua"

NEEDED = {name for path in LUA.rglob("*.lua") for name in needs_of(path.read_text())}
"""The shared files that some script uses."""


@each("change", MUTANTS, lambda change: change.name)
def test_a_change_can_be_planted(change: Change) -> None:
    """Its old text stands exactly once in its function, and the new one is another."""
    change.found()
    assert change.old != change.new


@each("change", MUTANTS, lambda change: change.name)
def test_a_change_is_no_error_of_syntax(change: Change) -> None:
    """What does not compile fails every test, and proves nothing of any of them."""
    path, text = change.file(ROOT), change.changed()
    if path.suffix == ".py":
        compile(text, path.name, "exec")
        return
    shared = path.parent != LUA
    assert not shared or path.stem in NEEDED
    LuaRuntime().compile(text)


@each("place", ["refusal.lua", "no_such_function"])
def test_a_text_that_is_gone_or_there_twice_is_loud(place: str) -> None:
    """A list that has outlived its code fails, and names the change."""
    for old in ("no such text", "local "):
        with pytest.raises(LookupError, match=f"'what': {place} has"):
            Change(name="what", place=place, old=old, new="new").found()


def test_a_function_is_found_wherever_it_stands() -> None:
    """A place is a function, a method, a constant or a file, without what stands around it."""
    for place, first, last in (
        ("take", "local function take(", "\nend"),
        ("QueueSession.run", "def run(", "result"),
        ("UPKEEP_BATCH", "UPKEEP_BATCH =", "100"),
        ("pop.lua", "-- pop:", ""),
    ):
        texts = [text_of(path)[start:end].strip() for path, start, end in places()[place]]
        assert any(each.startswith(first) and each.endswith(last) for each in texts)


def test_names_are_unique() -> None:
    """A name says which change is meant."""
    assert len({change.name for change in MUTANTS}) == len(MUTANTS)


def test_the_tests_that_are_named_are_there() -> None:
    """Each mutant names tests that exist."""
    for mutant in MUTANTS:
        assert mutant.tests
        for test in mutant.tests:
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text() if name else (ROOT / path).exists()
