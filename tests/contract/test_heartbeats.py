"""Workers tell their queues that they live: at the beginning, now and then, and at the end.

Here over `Worker`; test_worker_async.py runs all of it over `AsyncWorker`.
"""

from typing import Any

import pytest
from kit.workers import PATIENCE, Gate, Make, Start
from redis.exceptions import ConnectionError as RedisConnectionError
from support import wait_for

from dpq import DPQ, Worker
from dpq.verbs.queue import QueueOperations


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


def tell_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers tell of themselves all the time."""
    for module in ("telling", "telling_async"):
        monkeypatch.setattr(f"dpq.worker.{module}.BEAT_SECONDS", 0.02)


def test_it_tells_while_all_handlers_are_busy(
    make: Make, gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every handler busy each queue is told how many run on it, again and again."""
    tell_often(monkeypatch)
    pair = [make("-a"), make("-b")]
    pair[0].push(1)
    pair[0].push(2)
    pair[1].push(3)
    worker = Worker(pair, gate, concurrency=3, name="bees")
    running = start(worker)
    wait_for(
        lambda: [sum(w.running for w in q.admin.workers()) for q in pair] == [2, 1],
        lambda: [q.admin.workers() for q in pair],
    )
    [first], [other] = (q.admin.workers() for q in pair)
    assert (first.name, first.concurrency, first.queue) == ("bees", 3, pair[0].queue_name)
    assert (first.id, first.pid, first.host) == (other.id, other.pid, other.host)
    wait_for(lambda: pair[0].admin.workers()[0].seen > first.seen, lambda: pair[0].admin.workers())
    later = pair[0].admin.workers()[0]
    assert abs((later.since - first.since).total_seconds()) < 1
    gate.open()
    worker.stop()
    assert running.result(PATIENCE) == 3
    assert [q.admin.workers() for q in pair] == [[], []]


# A quiet worker


def heard(q: DPQ[Any], is_quiet: bool = True) -> None:
    """Wait until the workers have had the answer to a heartbeat that says so."""
    for _ in range(2):  # the answer to the first may still be under way
        before = {each.id: each.seen for each in q.admin.workers()}
        wait_for(
            lambda before=before: all(each.seen > before[each.id] for each in q.admin.workers()),
            q.admin.workers,
        )
    assert all(bool(each.quiet_since) is is_quiet for each in q.admin.workers())


@pytest.mark.parametrize("prefetch", [0, 4])
def test_a_quiet_worker_finishes_and_takes_no_more(
    q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch, prefetch: int
) -> None:
    """It ends what runs, gives back the rest uncounted, and takes tasks again when it is told."""
    tell_often(monkeypatch)
    for i in range(8):
        q.push(i)
    worker = Worker(q, gate, concurrency=2, prefetch=prefetch, name="w")
    running = start(worker)
    gate.wait_for(2)
    assert q.admin.quiet("w", by="ann") == 1
    heard(q)
    wait_for(lambda: q.stats().invisible == 2, q.stats)
    gate.open(2)
    wait_for(lambda: q.stats().acked == 2, q.stats)
    heard(q)
    assert sorted(gate.begun) == [0, 1]
    assert (q.stats().ready, q.stats().invisible) == (6, 0)
    assert {task.attempt for task in q.peek(9)} == {1}
    assert worker.health().ready
    q.admin.unquiet("w")
    gate.open()
    wait_for(lambda: q.stats().acked == 8, q.stats)
    worker.stop()
    assert running.result(PATIENCE) == 8


def test_a_lost_answer_changes_nothing(
    q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose heartbeats fail stays as it was told last; a drop tells it nothing."""
    tell_often(monkeypatch)
    worker = Worker(q, gate, name="w")
    start(worker)
    wait_for(q.admin.workers, q.admin.workers)
    q.admin.quiet("w")
    heard(q)
    failed = []

    def fail(*_: object) -> Any:
        failed.append(1)
        raise RedisConnectionError("away")
        yield

    with monkeypatch.context() as away:
        away.setattr(QueueOperations, "beat", fail)
        wait_for(lambda: len(failed) > 2, lambda: failed)
        q.admin.drop()
    q.push("new")
    wait_for(q.admin.workers, q.admin.workers)
    heard(q)
    assert gate.begun == []
    q.admin.unquiet("w")
    gate.wait_for(1)
    gate.open()
