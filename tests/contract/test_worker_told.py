"""A worker is seen: by its log records, by its heartbeats, and by its health.

Here over `Worker`; test_worker_async.py runs all of it over `AsyncWorker`.
"""

import logging
from typing import Any

import pytest
from kit.workers import PATIENCE, Gate, Make, Start, raising
from support import wait_for

from dpq import DPQ, RateLimited, Reject, Retry, Task, Worker
from dpq.model.log_fields import FIELDS
from dpq.worker import run_state


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


def told(caplog: pytest.LogCaptureFixture, *events: str) -> list[dict[str, Any]]:
    """The level and the fields of each record of these events, in their order."""
    return [
        {"level": record.levelname}
        | {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        for record in caplog.records
        if getattr(record, "event", None) in events
    ]


def of(task_id: str, q: DPQ[Any], **more: Any) -> dict[str, Any]:
    """What each record about a task says."""
    about = {"worker": "w", "queue": q.queue_name, "task_id": task_id}
    return about | {"attempt": 1, "max_attempts": 10} | more


# The log


def test_a_429(q: DPQ[Any], caplog: pytest.LogCaptureFixture) -> None:
    """At INFO: which task met a limit, and what is closed for how long, until when and why."""
    caplog.set_level(logging.INFO, "dpq")
    a = q.push("a", 2, group="api")
    b = q.push("b", 1)

    def handler(task: Task[Any]) -> None:
        if not task.deferrals:
            raise RateLimited(0.05, *(("task", 503) if task.payload == "b" else ("group", 529)))

    Worker(q, handler, name="w").drain()
    limited = told(caplog, "rate_limited")
    assert sum(bool(each.pop("until", "")) for each in limited) == 1
    level = {"event": "rate_limited", "level": "INFO", "seconds": 0.05}
    assert of(a, q, group="api", scope="group", status=529, **level) in limited
    assert of(b, q, scope="task", status=503, **level) in limited
    assert "group 'api' is closed for 0.05 s, until" in caplog.text


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("broken"), "attempts spent"),
        (Retry(0), "attempts spent"),
        (Reject("no such page"), "no such page"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_death(
    q: DPQ[Any], caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    """At INFO, once, with its reason and its attempts: just when there is a dead letter."""
    caplog.set_level(logging.INFO, "dpq")
    id_ = q.push("secret", max_attempts=2, group="g")
    last = 1 if isinstance(error, Reject) else 2

    def handler(task: Task[Any]) -> None:
        assert not told(caplog, "died")
        raise Retry(0) if task.attempt < last else error

    Worker(q, handler, name="w").drain()
    [died] = told(caplog, "died")
    line = died.pop("error", "")
    assert line.startswith("" if isinstance(error, Reject) else type(error).__name__)
    about = {"group": "g", "attempt": last, "max_attempts": 2, "reason": reason}
    assert died == of(id_, q, level="INFO", event="died", **about)
    assert [dead.reason for dead in q.dead.list()] == [reason]
    assert "secret" not in caplog.text


def test_a_lost_lease(
    q: DPQ[Any], caplog: pytest.LogCaptureFixture, gate: Gate, start: Start
) -> None:
    """If another has the task when it ends, that is told, with the task; and never twice."""
    caplog.set_level(logging.INFO, "dpq")
    id_ = q.push("x")
    worker = Worker(q, gate, name="w", visibility=1000)
    running = start(worker)
    gate.wait_for(1)
    assert q.admin.release_held(q.admin.held()) == 1
    assert q.pop().task
    gate.open()
    wait_for(lambda: told(caplog, "lease_lost"), lambda: caplog.text)
    worker.stop()
    running.result(PATIENCE)
    assert told(caplog, "lease_lost") == [
        of(id_, q, level="WARNING", event="lease_lost", reason="ack")
    ]


# Heartbeats


def tell_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers tell of themselves all the time."""
    for module in ("telling", "telling_async"):
        monkeypatch.setattr(f"dpq.worker.{module}.BEAT_SECONDS", 0.02)


# Health


def test_health_of_a_run(
    q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live throughout; ready from the first answered heartbeat until it is told to stop."""
    tell_often(monkeypatch)
    worker = Worker(q, gate)
    assert (worker.health().live, worker.health().ready) == (True, False)
    q.push(1)
    running = start(worker)
    gate.wait_for(1)
    wait_for(lambda: worker.health().ready, worker.health)
    assert worker.health().reasons == ()
    worker.stop()
    wait_for(lambda: not worker.health().ready, worker.health)
    assert worker.health().live
    assert worker.health().reasons == ("it is stopping",)
    gate.open()
    running.result(PATIENCE)
    assert worker.health().reasons == ("it does not run",)


def test_a_stuck_loop_is_not_live(
    q: DPQ[Any], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat, or an event loop, that does not move for so long is told."""
    monkeypatch.setattr(run_state, "STUCK_SECONDS", 0.2)  # a beat comes each 10 s
    worker = Worker(q, raising(AssertionError()))
    start(worker)
    wait_for(lambda: not worker.health().live, worker.health)
    assert not worker.health().ready
    assert "has not moved for" in worker.health().reasons[0]
