"""Named tasks on a real server: pushed, popped, found and run."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, HttpUrl

from dpq import DPQ, Task, Worker
from dpq.tasks import Tasks
from dpq.worker.handlers import Context


class Page(BaseModel):
    url: HttpUrl
    seen: datetime


@pytest.fixture
def tasks(q: DPQ[Any]) -> Tasks:
    return Tasks(q)


def work_off(q: DPQ[Any], tasks: Tasks) -> list[Any]:
    """Run every task that is due, as a worker does; what the functions returned, in order."""
    results: list[Any] = []
    while True:
        with q.lease() as task:
            if task is None:
                return results
            results.append(tasks.find(task)(task, Context(q, task, lambda: False)))


def test_a_pushed_task_runs_with_its_types(q: DPQ[Any], tasks: Tasks) -> None:
    """What is pushed comes to the function as its annotated types, and is acked when it returns."""

    @tasks.task()
    def fetch(page: Page, depth: int = 0) -> Any:
        return page, depth

    page = Page(url=HttpUrl("https://a.example/b"), seen=datetime(2026, 1, 2, tzinfo=UTC))
    task_id = fetch.push(page={"url": "https://a.example/b", "seen": "2026-01-02T00:00:00Z"})
    fetch.push(page, "2")

    assert q.get(task_id).payload == {
        "task": "fetch",
        "args": {"page": {"url": "https://a.example/b", "seen": "2026-01-02T00:00:00Z"}},
    }
    assert work_off(q, tasks) == [(page, 0), (page, 2)]
    assert q.stats().acked == 2
    assert q.size() == 0


def test_a_mended_function_runs_what_was_rejected(q: DPQ[Any], tasks: Tasks) -> None:
    """Once the function takes the arguments again, a replay of the dead letters runs them."""

    @tasks.task()
    def fetch(url: str) -> None: ...

    fetch.push(url="/a")
    mended = Tasks(q)

    @mended.task("fetch")
    def fetch_page(page: str) -> None: ...

    work_off(q, mended)
    assert q.dead.list()[0].reason.startswith("arguments of task 'fetch': page: Field required")

    again = Tasks(q)

    @again.task("fetch")
    def fetch_again(url: str) -> str:
        return url

    q.dead.replay()
    assert work_off(q, again) == ["/a"]


@pytest.mark.parametrize(
    "name", ["os.system", "never_loaded:run", "__class__", "f.function", "\n" * 900]
)
def test_a_payload_calls_nothing_but_a_registered_function(
    q: DPQ[Any],
    tasks: Tasks,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A payload that names a module, an attribute or a parameter of the worker is dead at once, in
    a short line of the log; the worker goes on."""
    ran = []

    @tasks.task()
    def f(number: int, task: Task[Any]) -> None:
        ran.append(task.payload["args"]["number"])

    (tmp_path / "never_loaded.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    for payload in ({"task": name}, {"task": "f", "args": {"number": 1, "task": name}}):
        q.push(payload, priority=1)
    f.push(2)
    Worker(q, tasks).run(until_empty=True)

    assert (ran, len(q.dead.list())) == ([2], 2)
    assert "never_loaded" not in sys.modules
    assert max(len(record.getMessage()) for record in caplog.records) < 2000
