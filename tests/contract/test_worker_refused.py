"""What both workers do with handlers that have ended while the server refuses something.

Here over `Worker`; test_worker_async.py runs all of it over `AsyncWorker`.
"""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from kit.workers import PATIENCE, Gate, Make, Start
from redis import Redis
from redis.exceptions import ResponseError
from support import PATIENCE_S, wait_for

from dpq import DPQ, ConfigurationError, RateLimited, Retry, Worker
from dpq.queue.lease_renewal import Lease
from dpq.script.command import Steps
from dpq.script.keys import STORAGE_FORMAT, key_of
from dpq.worker import fetcher, fetcher_async
from dpq.worker.deliveries import Deliveries, Done, Ending

PAUSE_S = 10 * PATIENCE_S
"""Between two pops of which the first was refused: longer than a test waits."""


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


def worker_of(q: DPQ[Any], handler: Any) -> Worker:
    return Worker(q, handler, concurrency=2, visibility=PAUSE_S, grace=PATIENCE_S)


def look_now(redis: Redis, q: DPQ[Any]) -> None:
    """Wake a worker that waits."""
    redis.zadd(key_of(q.queue_name, "wake"), {"w": 0})


def test_what_has_ended_does_not_wait_for_a_pop(
    redis: Redis, q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a pop was refused and is not asked for again yet, what ends is settled at once."""
    paused = threading.Event()
    for module in (fetcher, fetcher_async):
        monkeypatch.setattr(module, "longer_pause", lambda _: paused.set() or PAUSE_S)
    q.push("x")
    ready = key_of(q.queue_name, "ready")
    worker = worker_of(q, gate)
    start(worker)
    gate.wait_for(1)
    redis.set(ready, "of another type")

    def refused() -> bool:
        look_now(redis, q)
        return paused.is_set()

    wait_for(refused, lambda: worker.handled)
    gate.open()
    wait_for(lambda: not redis.hlen(key_of(q.queue_name, "meta")), q.stats)
    redis.delete(ready)
    assert q.stats().acked == 1


@pytest.mark.parametrize("error", [None, Retry(PAUSE_S), RateLimited(PAUSE_S)], ids=repr)
def test_a_lease_is_extended_until_its_end_is_answered(
    redis: Redis,
    q: DPQ[Any],
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException | None,
) -> None:
    """As long as the end of a delivery is refused its lease goes on, however it ended."""
    refusing = threading.Event()
    refusing.set()
    endings = Deliveries.endings

    def refused() -> Steps[Any]:
        raise ResponseError("not now")
        yield

    def refuse(held: Deliveries, done: Sequence[Done]) -> list[Ending]:
        sent = endings(held, done)
        return [Ending(refused(), each.done) for each in sent] if refusing.is_set() else sent

    monkeypatch.setattr(Deliveries, "endings", refuse)
    monkeypatch.setattr(Lease, "renew", lambda lease, now: setattr(lease, "due", now + 0.1))
    task_id = q.push("x", group="g")

    def handler(_: Any) -> None:
        if error:
            raise error

    worker = worker_of(q, handler)
    start(worker)
    wait_for(lambda: worker.handled.total() == 1, q.stats)

    def lease_end() -> float:
        return redis.zscore(key_of(q.queue_name, "invisible"), task_id) or 0.0

    for _ in range(2):
        before = lease_end()
        assert before
        wait_for(lambda before=before: lease_end() > before, q.stats)
    refusing.clear()

    def answered() -> bool:
        look_now(redis, q)
        return not (lease_end() or q._leases._kept())

    wait_for(answered, lambda: q._leases._kept())
    assert (q.stats().acked, q.stats().failed, q.stats().deferred) == {
        type(None): (1, 0, 0),
        Retry: (0, 1, 0),
        RateLimited: (0, 0, 1),
    }[type(error)]


def test_a_worker_of_a_queue_that_a_newer_dpq_took_over(
    redis: Redis, q: DPQ[Any], gate: Gate, start: Start
) -> None:
    """It ends with an error that names both formats, once the handler that ran has ended."""
    q.push("x")
    conf = key_of(q.queue_name, "conf")
    worker = worker_of(q, gate)
    running = start(worker)
    gate.wait_for(1)
    redis.hset(conf, "format", "5")

    def ending() -> bool:
        look_now(redis, q)
        return worker.stopping

    wait_for(ending, lambda: worker.handled)
    gate.open()  # a stop would cut it short
    with pytest.raises(ConfigurationError, match="format 5"):
        running.result(PATIENCE)
    assert worker.handled == {"done": 1}
    redis.hset(conf, "format", STORAGE_FORMAT)
    assert (q.stats().acked, q.check()) == (1, [])
