"""Workers tell their queues that they live: at the beginning, now and then, and at the end."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis.asyncio as aioredis
from redis.exceptions import ConnectionError as RedisConnectionError
from support import PATIENCE_S, wait_for

from dpq import DPQ, AsyncDPQ, AsyncWorker, Worker

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def pair(redis, queue_name) -> Iterator[list[DPQ]]:
    """Two queues of one client."""
    queues = [DPQ(redis, f"{queue_name}-{i}") for i in range(2)]
    yield queues
    for queue in queues:
        queue.drop()
        queue.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers tell of themselves all the time."""
    for module in ("worker.worker", "worker.worker_async"):
        monkeypatch.setattr(f"dpq.{module}.BEAT_SECONDS", 0.02)


class Running:
    """A worker of either kind in a thread, with handlers that go on until they are let go."""

    def __init__(self, kind: str, pair: list[DPQ], server: Any, **settings: Any) -> None:
        self.go = threading.Event()
        self.sent: Counter[str] = Counter()
        self.worker: Worker | AsyncWorker
        if kind == "Worker":
            self.worker = Worker(pair, lambda task: self.go.wait(PATIENCE_S), **settings)
            self._spy(self.worker.queues[0]._link, "begin")
            run: Callable[[], object] = self.worker.run
        else:
            run = lambda: asyncio.run(self._run_async(pair, server, settings))  # noqa: E731
        self.thread = threading.Thread(target=run)
        self.thread.start()

    async def _run_async(self, pair: list[DPQ], server: Any, settings: dict[str, Any]) -> None:
        self.loop = asyncio.get_running_loop()
        async with aioredis.Redis.from_url(server.url) as client:
            queues = [AsyncDPQ(client, queue.queue_name) for queue in pair]

            async def handle(_: object) -> None:
                await asyncio.to_thread(self.go.wait, PATIENCE_S)

            worker = AsyncWorker(queues, handle, **settings)
            self._spy(queues[0]._link, "call_all")
            self.worker = worker
            await worker.run()
            for queue in queues:
                await queue.close()

    def _spy(self, link: Any, name: str) -> None:
        original = getattr(link, name)

        def send(commands: Any) -> Any:
            self.sent.update(command.script.name for command in commands)
            return original(commands)

        setattr(link, name, send)

    def end(self) -> None:
        self.go.set()
        if isinstance(self.worker, AsyncWorker):
            self.loop.call_soon_threadsafe(self.worker.stop)
        else:
            self.worker.stop()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@pytest.fixture(params=["Worker", "AsyncWorker"])
def start(request, pair, server) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(**settings: Any) -> Running:
        started.append(Running(request.param, pair, server, **settings))
        return started[-1]

    yield begin
    for running in started:
        if running.thread.is_alive():
            running.end()


def test_it_tells_while_all_handlers_are_busy(server, pair, often, start) -> None:
    """With every handler busy each queue is told how many run on it, again and again."""
    pair[0].push(1)
    pair[0].push(2)
    pair[1].push(3)
    running = start(concurrency=3, name="bees")
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
    running.end()
    assert [q.workers() for q in pair] == [[], []]


def test_it_tells_in_one_call_for_each_queue(server, pair, start) -> None:
    """However many tasks run, a queue hears of a worker at its beginning, each 10 s, at its end."""
    for i in range(50):
        pair[0].push(i)
    running = start(concurrency=50)
    wait_for(lambda: pair[0].stats().invisible == 50, lambda: pair[0].stats())
    wait_for(lambda: pair[1].workers(), lambda: running.sent)
    assert running.sent["beat"] == 2
    running.end()
    assert running.sent["beat"] == 4


def test_a_server_that_does_not_hear_it_hurts_nobody(
    server, pair, often, start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that cannot tell of itself works on, and ends cleanly."""

    def fail(*_: object) -> Any:
        raise RedisConnectionError("away")
        yield

    monkeypatch.setattr("dpq.worker.base.steps_of", lambda command: fail())
    pair[0].push(1)
    running = start()
    running.go.set()
    wait_for(lambda: pair[0].stats().acked == 1, lambda: pair[0].stats())
    running.end()
    assert pair[0].workers() == []


def test_each_run_is_a_worker_of_its_own(server, pair) -> None:
    """Two runs of one worker have different ids, and the second begins anew."""
    seen = []

    def handle(_: object) -> None:
        wait_for(pair[0].workers, lambda: "no worker is known")
        seen.append(pair[0].workers())

    worker = Worker(pair, handle)
    for _ in range(2):
        pair[0].push(1)
        worker.drain()
    [first], [second] = seen
    assert first.id != second.id
    assert first.since <= second.since
    assert (pair[0].workers(), worker.given_back) == ([], 0)
