"""Workers tell their queues that they live: at the beginning, now and then, and at the end.

Here over `Worker`; test_worker_async.py runs all of it over `AsyncWorker`.
"""

import time
from collections import Counter
from typing import Any

import pytest
from kit.workers import LATE, PATIENCE, Gate, Make, Start, note_calls
from redis.exceptions import ConnectionError as RedisConnectionError
from support import wait_for

from dpq import DPQ, Worker
from dpq.operations.queue import QueueOperations


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


def tell_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers tell of themselves all the time."""
    for module in ("worker", "worker_async"):
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
        lambda: [sum(w.running for w in q.workers()) for q in pair] == [2, 1],
        lambda: [q.workers() for q in pair],
    )
    [first], [other] = (q.workers() for q in pair)
    assert (first.name, first.concurrency, first.queue) == ("bees", 3, pair[0].queue_name)
    assert (first.id, first.pid, first.host) == (other.id, other.pid, other.host)
    wait_for(lambda: pair[0].workers()[0].seen > first.seen, lambda: pair[0].workers())
    later = pair[0].workers()[0]
    assert abs((later.since - first.since).total_seconds()) < 1
    gate.open()
    worker.stop()
    assert running.result(PATIENCE) == 3
    assert [q.workers() for q in pair] == [[], []]


def test_it_tells_in_one_call_for_each_queue(make: Make, gate: Gate, start: Start) -> None:
    """However many tasks run, a queue hears of a worker at its beginning, each 10 s, at its end."""
    a, b = make("-a"), make("-b")
    sent: Counter[str] = Counter()
    for queue in (a, b):
        note_calls(queue, lambda commands: sent.update(each.script.name for each in commands))
    for i in range(50):
        a.push(i)
    worker = Worker([a, b], gate, concurrency=50)
    running = start(worker)
    wait_for(lambda: a.stats().invisible == 50, a.stats)
    wait_for(b.workers, lambda: sent)
    assert sent["beat"] == 2
    gate.open()
    worker.stop()
    running.result(PATIENCE)
    assert sent["beat"] == 4


def test_a_server_that_does_not_hear_it_hurts_nobody(
    q: DPQ[Any], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that cannot tell of itself works on, and ends cleanly."""
    tell_often(monkeypatch)

    def fail(*_: object) -> Any:
        raise RedisConnectionError("away")
        yield

    for verb in ("beat", "leave"):
        monkeypatch.setattr(QueueOperations, verb, fail)
    q.push(1)
    worker = Worker(q, lambda _: None)
    running = start(worker)
    wait_for(lambda: q.stats().acked == 1, q.stats)
    worker.stop()
    assert running.result(PATIENCE) == 1
    assert q.workers() == []


def test_each_run_is_a_worker_of_its_own(q: DPQ[Any]) -> None:
    """Two runs of one worker have different ids, and the second begins anew."""
    seen = []

    def handle(_: object) -> None:
        wait_for(q.workers, lambda: "no worker is known")
        seen.append(q.workers())

    worker = Worker(q, handle)
    for _ in range(2):
        q.push(1)
        worker.drain()
    [first], [second] = seen
    assert first.id != second.id
    assert first.since <= second.since
    assert (q.workers(), worker.given_back) == ([], 0)


# A quiet worker


def heard(q: DPQ[Any], is_quiet: bool = True) -> None:
    """Wait until the workers have had the answer to a heartbeat that says so."""
    for _ in range(2):  # the answer to the first may still be under way
        before = {each.id: each.seen for each in q.workers()}
        wait_for(
            lambda before=before: all(each.seen > before[each.id] for each in q.workers()),
            q.workers,
        )
    assert all(bool(each.quiet_since) is is_quiet for each in q.workers())


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
    assert q.quiet("w", by="ann") == 1
    heard(q)
    wait_for(lambda: q.stats().invisible == 2, q.stats)
    gate.open(2)
    wait_for(lambda: q.stats().acked == 2, q.stats)
    heard(q)
    assert sorted(gate.begun) == [0, 1]
    assert (q.stats().ready, q.stats().invisible) == (6, 0)
    assert {task.attempt for task in q.peek(9)} == {1}
    assert worker.health().ready
    q.unquiet("w")
    gate.open()
    wait_for(lambda: q.stats().acked == 8, q.stats)
    worker.stop()
    assert running.result(PATIENCE) == 8


def test_a_quiet_worker_that_waits_leaves_wake_ups_to_others(
    make: Make, gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with its other queue, and a task of the quiet one wakes another worker at once."""
    tell_often(monkeypatch)
    a, b = make("-a"), make("-b")
    other = Gate()
    start(Worker([a, b], gate, name="quiet"))
    wait_for(a.workers, a.workers)
    a.quiet("quiet")
    heard(a)
    start(Worker(a, other, name="other"))
    wait_for(lambda: len(a.workers()) == 2, a.workers)
    began = time.monotonic()
    for i in range(5):
        a.push(i)
        other.open(1)
        other.wait_for(i + 1)
    assert time.monotonic() - began < LATE  # a lost wake-up costs more
    b.push("b")
    gate.wait_for(1)
    assert gate.begun == ["b"]
    gate.open()


def test_a_lost_answer_changes_nothing(
    q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose heartbeats fail stays as it was told last; a drop tells it nothing."""
    tell_often(monkeypatch)
    worker = Worker(q, gate, name="w")
    start(worker)
    wait_for(q.workers, q.workers)
    q.quiet("w")
    heard(q)
    failed = []

    def fail(*_: object) -> Any:
        failed.append(1)
        raise RedisConnectionError("away")
        yield

    with monkeypatch.context() as away:
        away.setattr(QueueOperations, "beat", fail)
        wait_for(lambda: len(failed) > 2, lambda: failed)
        q.drop()
    q.push("new")
    wait_for(q.workers, q.workers)
    heard(q)
    assert gate.begun == []
    q.unquiet("w")
    gate.wait_for(1)
    gate.open()


def test_a_quiet_worker_sees_that_all_is_done(
    q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet worker that drains ends once others have emptied the queue."""
    tell_often(monkeypatch)
    q.push(1, delay=600)
    running = start(Worker(q, gate, name="w"), until_empty=True)
    wait_for(q.workers, q.workers)
    q.quiet("w")
    heard(q)
    q.purge()
    assert running.result(PATIENCE) == 0
