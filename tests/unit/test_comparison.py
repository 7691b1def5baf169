"""docs/comparison.md says what is so, and the programs behind it measure."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from benchmarks import _harness
from benchmarks.peers import asks, tables, tasks
from benchmarks.peers.catalog import BY_NAME
from benchmarks.peers.environments import NotInstalledError
from benchmarks.peers.host import Host
from benchmarks.peers.servers import Place, place

TESTS = Path(__file__).parents[1]
PAGE = tables.PAGE.read_text(encoding="utf-8")
FEW = 20


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


def test_a_test_that_is_gone_is_seen() -> None:
    """A file that is not there and a name that no file has are found."""
    wrong = "`lua/test_pop.py::test_lifi` `lua/test_pip.py::test_lifo` `lua/test_pop.py::test_lifo`"
    assert missing(wrong) == ["lua/test_pop.py::test_lifi", "lua/test_pip.py::test_lifo"]


def test_the_tables_are_what_was_measured() -> None:
    """Figures, versions and dates of the page are those in the files of the harness."""
    reports = tables.read()
    assert set(reports) == {"tasks", "requests"}
    assert tables.put(PAGE, reports) == PAGE
    for report in reports.values():
        row = next(row for row in report["rows"] if "version" in row)
        row["version"] = "0.0.0"
        assert tables.put(PAGE, reports) != PAGE


def test_few_tasks_are_counted() -> None:
    """redis-py alone and DPQ push and consume; the server ran one command for each task of the
    first, and more for each of the second."""
    some = {"push": 1, "consume": 1}
    with place() as found:
        rounds = {name: tasks.do_steps(found, BY_NAME[name], FEW, some) for name in ("raw", "dpq")}
    for steps in rounds.values():
        assert list(steps) == list(some)
        assert all(step["rate"] > 0 and step["network"] > 0 for step in steps.values())
        assert steps["push"]["memory"] > 0
    assert all(1 <= rounds["raw"][step]["commands"] < 2 for step in ("push", "consume"))
    assert rounds["dpq"]["push"]["commands"] > 2


def test_every_benchmark_can_be_imported() -> None:
    """None needs a file that is not there."""
    for name in (*_harness.ALL, *_harness.NAMED):
        assert import_module(f"benchmarks.bench_{name}").measure


def test_a_peer_that_is_not_there_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row says its name and the reason, and the others go on."""

    def install(_: object) -> str:
        raise NotInstalledError("pip: no | such package")

    monkeypatch.setattr(tasks, "install", install)
    somewhere: Any = None
    report = {
        "tasks": FEW,
        "rows": list(tasks.compare(somewhere, [BY_NAME["rq"], BY_NAME["huey"]], FEW, 1, print)),
    }
    assert tables.table(report).count("pip: no / such package |") == 2


def test_the_host_keeps_its_limit() -> None:
    """No window holds more than its rate, wherever it begins, and a refusal takes nothing."""
    host = Host(3)
    moments = [0.1, 0.2, 0.9, 1.0, 1.05, 1.11, 1.15, 1.21, 1.95]
    assert [host.admit(moment) for moment in moments] == [
        *(True, True, True, False, False, True),
        *(False, True, True),
    ]
    assert (host.requests, host.refused) == (9, 3)


@pytest.mark.skipif(
    settings.get_current_profile_name() != "soak", reason="takes seconds; the soak profile does it"
)
def test_requests_are_counted_through_a_kill() -> None:
    """DPQ asks for each request, also when a worker is killed half-way."""
    with place() as found:
        assert isinstance(found, Place)
        for kill in (False, True):
            run = asks._run(found, BY_NAME["dpq"], 400, kill=kill)
            assert run["lost"] == 0
            assert run["sent"] == 400 + run["refused"] + run["repeated"]
