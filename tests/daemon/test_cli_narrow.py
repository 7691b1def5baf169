"""Tables in a narrow terminal: columns go by rank, but never the name nor the reason."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from dpq import DPQ, Push, TaskState
from dpq.cli._render import HISTORY, LEASES, QUEUES, TASKS, WORKERS, Report, changes, limit_table
from dpq.cli.worker import worker_record
from dpq.model.reports import WorkerInfo
from dpq.views.workers import Working

NAME = "文字の長い名前" * 3 + "\u202eevil" + "x" * 30
REASON = "HTTP 404 for page 17 of the site"


def plant(q: DPQ[Any]) -> None:
    """A task in each state, with long texts, and limits of groups with long names."""
    q.push("to die", 3, group=NAME, key="key" * 9, cost=2)
    q.bury(q.pop().task, REASON)
    q.set_limit(10, 60, group=NAME, concurrency=4)
    q.push_many([Push({"url": "https://a.example/" + "y" * 60}, 5)] * 3)
    q.push("grouped", group=NAME)
    q.pop()
    q.delay_group(NAME, 60)


def _workers(q: DPQ[Any]) -> Report:
    at = datetime(2026, 11, 24, 3, tzinfo=UTC)
    info = WorkerInfo(
        id="w",
        name=NAME,
        host="host-7.example.internal",
        pid=4_194_303,
        version="0.1.dev1234+g81a1087e1",
        queue="mails",
        running=12,
        concurrency=12,
        since=at,
        seen=at,
        seen_seconds=2.0,
        longest_seconds=480.0,
        longest_task="19e5f3a7c1b-3f",
    )
    queues = ["mails", "pages", "thumbnails"]
    made = worker_record(Working(info, queues, 12, 24, 2.0, False, True, []))
    return Report("workers", WORKERS, [made])


def _queues(q: DPQ[Any]) -> Report:
    found = {"queue": NAME, **q.stats().model_dump()}
    return Report("queues", QUEUES, [found, {"queue": "b", "error": REASON}])


def _leases(q: DPQ[Any]) -> Report:
    names = {"group": NAME, "worker": "host-7.example:4194303", "host": "host-7.example"}
    return Report("leases", LEASES, [{**each.model_dump(), **names} for each in q.admin.held()])


TABLES: dict[str, tuple[Callable[[DPQ[Any]], Report], set[str]]] = {
    "queues": (_queues, {"queue", "ready", "error"}),
    "dead": (lambda q: Report("dead", TASKS, q.dead.list()), {"id", "group", "reason"}),
    "tasks": (lambda q: Report("ready", TASKS, q.peek(9, TaskState.READY)), {"id", "payload"}),
    "workers": (_workers, {"worker", "host", "queues", "longest"}),
    "leases": (_leases, {"task", "group", "worker"}),
    "limits": (lambda q: limit_table("limits", q.admin.limits()), {"what", "rate", "state"}),
    "history": (
        lambda q: Report("history", HISTORY, changes(q.admin.history(3600))),
        {"at (UTC)", "ready"},
    ),
}
"""Reports, and the columns that stay at 80 columns."""


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_table_keeps_the_name_and_the_reason(q: DPQ[Any], width: int) -> None:
    """No line is longer than the terminal, and no text steers it; wide letters count twice."""
    plant(q)
    q._session.run(q._operations.remember)
    for kind, (make, stays) in TABLES.items():
        console = Console(file=StringIO(), width=width)
        console.print(make(q))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        lines = text.splitlines()
        assert all(cell_len(line.rstrip()) <= width for line in lines), f"{kind}\n{text}"
        heads = {each.strip() for each in lines[1].split("  ")}
        assert stays <= heads or width < 80, f"{kind}\n{text}"
        assert "\u202e" not in text
        for word in REASON.split() if kind in ("queues", "dead") else ():
            assert word in text, f"{kind}\n{text}"
        if kind == "dead":
            assert all(task.id in text for task in q.dead.list())
        if kind in ("queues", "workers", "limits"):
            assert NAME[:5] in text, f"{kind}\n{text}"
