"""docs/comparison.md says what is so, and the programs behind it measure."""

import re
from importlib import import_module
from pathlib import Path

from benchmarks import _harness
from benchmarks.peers import tables

TESTS = Path(__file__).parents[1]
PAGE = tables.PAGE.read_text(encoding="utf-8")


def missing(page: str) -> list[str]:
    """The tests that a page names and that do not exist."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert named, "the page names no test"
    return [
        f"{file}::{name}"
        for file, name in named
        if not (path := TESTS / file).exists()
        or not re.search(rf"^ *(async )?def {name}\(", path.read_text("utf-8"), re.MULTILINE)
    ]


def test_each_row_of_the_page_names_a_test_that_exists() -> None:
    """Whatever DPQ is said to have, a test of that name is in the file that is named."""
    assert missing(PAGE) == []
    rows = re.findall(
        r"^\|.*\|$", PAGE.partition("## What each has")[2].partition("\n## ")[0], re.M
    )
    assert all(re.search(r"\| [y~n] `[^`]+::test_\w+` \|", row) for row in rows[2:])
    assert len({row.count("|") for row in rows}) == 1


def test_the_tables_are_what_was_measured() -> None:
    """Figures, versions and dates of the page are those in the files of the harness."""
    reports = tables.read()
    assert set(reports) == {"tasks", "requests"}
    assert tables.put(PAGE, reports) == PAGE
    for report in reports.values():
        row = next(row for row in report["rows"] if "version" in row)
        row["version"] = "0.0.0"
        assert tables.put(PAGE, reports) != PAGE


def test_every_benchmark_can_be_imported() -> None:
    """None needs a file that is not there."""
    for name in (*_harness.ALL, *_harness.NAMED):
        assert import_module(f"benchmarks.bench_{name}").measure
