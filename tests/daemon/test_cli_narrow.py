"""Tables in a narrow terminal: columns go by rank, but never the name nor the reason."""

from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from dpq import DPQ, Push, TaskState
from dpq.cli import _render as render
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


def _workers(q: DPQ[Any]) -> Table:
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
    return render.workers_table([Working(info, queues, 12, 24, 2.0, False, True, [])])


TABLES: dict[str, tuple[Callable[[DPQ[Any]], Table], str, str]] = {
    "queues": (
        lambda q: render.all_queues({NAME: q.stats(), "b": ValueError(REASON)}),
        "queue",
        "error",
    ),
    "dead": (lambda q: render.dead_tasks("dead", q.dead.list()), "id", "reason"),
    "tasks": (lambda q: render.live_tasks("ready", q.peek(9, TaskState.READY)), "id", "id"),
    "workers": (_workers, "worker", "longest"),
    "leases": (lambda q: render.leases_table("leases", q.admin.held()), "task", "worker"),
    "limits": (lambda q: render.limit_table("limits", q.admin.limits()), "what", "state"),
    "history": (
        lambda q: render.slots_table("history", q.admin.history(3600)),
        "at (UTC)",
        "ready",
    ),
}


@pytest.mark.parametrize("width", [80, 60])
def test_a_narrow_table_keeps_the_name_and_the_reason(q: DPQ[Any], width: int) -> None:
    """No line is longer than the terminal, and no text steers it; wide letters count twice."""
    plant(q)
    q._session.run(q._operations.remember)
    for kind, (make, name, reason) in TABLES.items():
        console = Console(file=StringIO(), width=width)
        console.print(make(q))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        lines = text.splitlines()
        assert all(cell_len(line.rstrip()) <= width for line in lines), f"{kind}\n{text}"
        heads = {each.strip() for each in lines[1].split("  ")}
        assert {name, reason} <= heads, f"{kind}\n{text}"
        assert "\u202e" not in text
        for word in REASON.split() if kind in ("queues", "dead") else ():
            assert word in text, f"{kind}\n{text}"
        for column in make(q).columns if kind == "dead" else ():
            if str(column.header) == "id":
                assert all(str(cell) in text for cell in column.cells)
        if kind in ("queues", "workers", "limits"):
            assert NAME[:5] in text, f"{kind}\n{text}"
