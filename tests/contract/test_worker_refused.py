"""What both workers do with handlers that have ended while the server refuses something.

Each test runs with threads and with asyncio.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ResponseError
from support import PATIENCE_S, address_of, wait_for

from dpq import DPQ, AsyncDPQ, AsyncWorker, ConfigurationError, RateLimited, Retry, Worker
from dpq.protocol.command import Steps
from dpq.protocol.keys import key_of
from dpq.queue.lease_renewal import Lease
from dpq.worker import deliveries, fetch_plan
from dpq.worker.outcomes import Done, Ending

PAUSE_S = 10 * PATIENCE_S
"""Between two pops of which the first was refused: longer than a test waits."""


class Handler:
    """Runs until it is let go, and then ends with an error or without."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self, _: Any) -> None:
        self.began.set()
        self.go.wait(PATIENCE_S)
        if self.error:
            raise self.error

    async def awaited(self, task: Any) -> None:
        await asyncio.to_thread(self, task)


Started = Callable[..., Any]


@pytest.fixture(params=["threads", "asyncio"])
def started(request: pytest.FixtureRequest, redis: Redis, q: DPQ[Any]) -> Started:
    """Runs a worker of two handlers in the background; gives it, and its queue object."""

    @contextmanager
    def run(handler: Handler) -> Iterator[tuple[Any, Any]]:
        made: list[Any] = []
        ready = threading.Event()

        def blocking() -> None:
            with DPQ[Any](redis, q.queue_name) as own:
                worker = Worker(own, handler, concurrency=2, visibility=PAUSE_S, grace=PATIENCE_S)
                made.extend((worker, own, worker.stop))
                ready.set()
                worker.run(signals=False)

        async def whole() -> None:
            client = AsyncRedis(**address_of(redis))
            async with client, AsyncDPQ[Any](client, q.queue_name) as own:
                worker = AsyncWorker(
                    own, handler.awaited, concurrency=2, visibility=PAUSE_S, grace=PATIENCE_S
                )
                loop = asyncio.get_running_loop()

                def stop() -> None:
                    with suppress(RuntimeError):  # the loop has ended before
                        loop.call_soon_threadsafe(worker.stop)

                made.extend((worker, own, stop))
                ready.set()
                await worker.run(signals=False)

        def run_it() -> None:
            try:
                blocking() if request.param == "threads" else asyncio.run(whole())
            except ConfigurationError as error:
                made[0].ended_with = error

        thread = threading.Thread(target=run_it, daemon=True)
        thread.start()
        assert ready.wait(PATIENCE_S)
        try:
            yield made[0], made[1]
        finally:
            handler.go.set()
            made[2]()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()

    return run


@pytest.fixture
def q(live: DPQ[Any]) -> DPQ[Any]:
    return live


def look_now(redis: Redis, q: DPQ[Any]) -> None:
    """Wake a worker that waits."""
    redis.zadd(key_of(q.queue_name, "wake"), {"w": 0})


def test_what_has_ended_does_not_wait_for_a_pop(
    redis: Redis, q: DPQ[Any], started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a pop was refused and is not asked for again yet, what ends is settled at once."""
    paused = threading.Event()
    monkeypatch.setattr(fetch_plan, "longer_pause", lambda _: paused.set() or PAUSE_S)
    q.push("x")
    ready = key_of(q.queue_name, "ready")
    handler = Handler()
    with started(handler) as (worker, _):
        assert handler.began.wait(PATIENCE_S)
        redis.set(ready, "of another type")

        def refused() -> bool:
            look_now(redis, q)
            return paused.is_set()

        wait_for(refused, lambda: worker.handled)
        handler.go.set()
        wait_for(lambda: not redis.hlen(key_of(q.queue_name, "meta")), q.stats)
        redis.delete(ready)
    assert q.stats().acked == 1


@pytest.mark.parametrize("error", [None, Retry(PAUSE_S), RateLimited(PAUSE_S)], ids=repr)
def test_a_lease_is_extended_until_its_end_is_answered(
    redis: Redis,
    q: DPQ[Any],
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException | None,
) -> None:
    """As long as the end of a delivery is refused its lease goes on, however it ended."""
    refusing = threading.Event()
    refusing.set()
    endings = deliveries.endings

    def refused() -> Steps[Any]:
        raise ResponseError("not now")
        yield

    def refuse(done: Sequence[Done], operations: Any) -> list[Ending]:
        sent = endings(done, operations)
        return [Ending(refused(), each.done) for each in sent] if refusing.is_set() else sent

    monkeypatch.setattr(deliveries, "endings", refuse)
    monkeypatch.setattr(Lease, "renew", lambda lease: setattr(lease, "due", time.monotonic() + 0.1))
    task_id = q.push("x", group="g")
    handler = Handler(error)
    with started(handler) as (worker, own):
        handler.go.set()
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
            return not (lease_end() or own._leases._kept())

        wait_for(answered, lambda: own._leases._kept())
    assert (q.stats().acked, q.stats().failed, q.stats().deferred) == {
        type(None): (1, 0, 0),
        Retry: (0, 1, 0),
        RateLimited: (0, 0, 1),
    }[type(error)]


def test_a_worker_that_ends_extends_nothing(
    q: DPQ[Any], started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be settled until a worker's end is left to its lease."""

    def refused() -> Steps[Any]:
        raise ResponseError("not now")
        yield

    monkeypatch.setattr(
        deliveries, "endings", lambda done, _: [Ending(refused(), [each]) for each in done]
    )
    q.push("x")
    handler = Handler()
    with started(handler) as (worker, own):
        handler.go.set()
        wait_for(lambda: worker.handled.total() == 1, q.stats)
    assert own._leases._kept() == []
    assert q.stats().invisible == 1


def test_a_worker_of_a_queue_that_a_newer_dpq_took_over(
    redis: Redis, q: DPQ[Any], started: Started
) -> None:
    """It ends with an error that names both formats, once the handler that ran has ended."""
    q.push("x")
    handler = Handler()
    conf = key_of(q.queue_name, "conf")
    with started(handler) as (worker, _):
        assert handler.began.wait(PATIENCE_S)
        redis.hset(conf, "format", "5")

        def ending() -> bool:
            look_now(redis, q)
            return worker.stopping

        wait_for(ending, lambda: worker.handled)
        handler.go.set()  # a second stop would cut it short
        wait_for(lambda: worker.handled.total() == 1, lambda: worker.handled)
    assert "format 5" in str(worker.ended_with)
    assert worker.handled == {"done": 1}
    redis.hset(conf, "format", "4")
    assert (q.stats().acked, q.check()) == (1, [])
