"""A worker keeps what handlers return, if it is told to, and tells of their progress.

Here over `Worker`; test_worker_async.py runs all of it over `AsyncWorker`.
"""

import logging
import threading
from typing import Any

import pytest
from kit.workers import PATIENCE, Make, Start, asked
from support import wait_for

from dpq import DPQ, Context, Task, TaskDeadError, TaskNotFoundError, Worker


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


def test_kept(q: DPQ[Any]) -> None:
    """With keep_result each return value is kept, None too."""
    ids = [q.push(payload) for payload in (1, None, [1])]
    Worker(q, lambda task: task.payload, keep_result=True, concurrency=2).drain()
    assert [q.result(id_) for id_ in ids] == [1, None, [1]]
    [first, *_] = q.results()
    assert (first.kept_until - first.at).total_seconds() == 3600


def test_dropped(q: DPQ[Any], caplog: pytest.LogCaptureFixture) -> None:
    """Without it a first value that is dropped is said once; None is nothing to say."""
    caplog.set_level(logging.INFO, "dpq")
    ids = [q.push(payload) for payload in (None, 1, 2)]
    Worker(q, lambda task: task.payload).drain()
    records = [r for r in caplog.records if getattr(r, "event", "") == "result_dropped"]
    assert [record.task_id for record in records] == [ids[1]]  # type: ignore[attr-defined]
    assert "keep_result" in records[0].getMessage()
    with pytest.raises(TaskNotFoundError):
        q.result(ids[1])


def test_what_cannot_be_kept(q: DPQ[Any]) -> None:
    """The task becomes a dead letter with the reason: to run it again would not help."""
    task_id = q.push(1)
    other = q.push(2)
    Worker(q, lambda task: object() if task.payload == 1 else 2, keep_result=True).drain()
    with pytest.raises(TaskDeadError, match=r"cannot be kept.* no JSON form"):
        q.result(task_id)
    assert q.result(other) == 2


def test_progress(q: DPQ[Any], start: Start) -> None:
    """What a handler tells is seen while it runs; a thousand calls are few messages."""
    task_id = q.push(1)
    told, go_on = threading.Event(), threading.Event()
    calls = asked(q)

    def handler(task: Task[Any], context: Context) -> None:
        for page in range(1000):
            context.progress(page, 1000, f"page {page}")
        told.set()
        go_on.wait(PATIENCE)

    worker = Worker(q, handler)
    running = start(worker)
    try:
        wait_for(lambda: str(q.get(task_id).progress) == "999 of 1000 (100%): page 999", str)
        assert sum("progress" in names for names in calls) <= 3
    finally:
        go_on.set()
        worker.stop()
    running.result(PATIENCE)
