"""The lists of planted changes fit the code, so that `make mutants` and `soak --plant` can run."""

import re

import pytest
from lupa.lua51 import LuaRuntime
from mutants.listed import MUTANTS
from mutants.mutant import ROOT, Change
from soak.plants import PLANTS
from soak.report import EXPECTED

LUA = ROOT / "dpq" / "protocol" / "lua"

CHANGES: list[Change] = [*MUTANTS, *PLANTS]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_can_be_planted(change: Change) -> None:
    """Its old text stands exactly once in its file, and the new one is another."""
    change.check()
    assert change.old != change.new


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_is_no_error_of_syntax(change: Change) -> None:
    """What does not compile fails every test, and proves nothing of any of them."""
    path = ROOT / change.file
    text = change.changed(path.read_text())
    if path.suffix == ".py":
        compile(text, path.name, "exec")
        return
    scripts = [each for each in path.parent.glob("*.lua") if each.stem[0] != "_"]
    sources = {each: text if each == path else each.read_text() for each in scripts}
    using = [
        source
        for each, source in sources.items()
        if each == path or f"@include {path.stem}\n" in source
    ]
    assert using
    for source in using:
        LuaRuntime().compile(_resolved(source, change))


def _resolved(source: str, change: Change) -> str:
    """A script with its snippets, as dpq/protocol/scripts.py loads it, and with the change."""

    def snippet(include: re.Match[str]) -> str:
        path = LUA / f"{include[1]}.lua"
        changed = path == ROOT / change.file
        return change.changed(path.read_text()) if changed else path.read_text()

    return re.sub(r"^ *-- @include (_\w+)$", snippet, source, flags=re.MULTILINE)


def test_a_text_that_is_gone_or_there_twice_is_loud() -> None:
    """A list that has outlived its code fails, and names the change."""
    for text in ("", "old old"):
        with pytest.raises(LookupError, match=r"'what': dpq/x\.py has"):
            Change(name="what", file="dpq/x.py", old="old", new="new").changed(text)


def test_names_are_unique() -> None:
    """A name says which change is meant."""
    for changes in (MUTANTS, PLANTS):
        assert len({change.name for change in changes}) == len(changes)


def test_the_tests_and_findings_that_are_named_are_there() -> None:
    """Each mutant names tests that exist, and each planted fault kinds of findings that exist."""
    for mutant in MUTANTS:
        assert mutant.tests
        for test in mutant.tests:
            path, _, name = test.partition("::")
            assert f"def {name}(" in (ROOT / path).read_text() if name else (ROOT / path).exists()
    for plant in PLANTS:
        assert plant.finds
        assert set(plant.finds) <= EXPECTED.keys()
