"""What the suites of workers share, and the event loop of tests that are coroutine functions.

Each file has its own `q`; over `AsyncWorker`, test_worker_async.py has its own `make`.
"""

import asyncio
import gc
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kit.awaited import LOOPS, PATIENCE, RUN_ON, asyncio_client
from kit.hosts import Host
from kit.workers import Gate, Make, Start, queues, threads_of_workers
from redis import Redis

from dpq import DPQ, AsyncDPQ, Backoff


@pytest.fixture
def make(redis: Redis, queue_name: str) -> Iterator[Make]:
    with queues(DPQ, redis, queue_name) as make:
        yield make


@pytest.fixture
def start() -> Iterator[Start]:
    with threads_of_workers() as start:
        yield start


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def host() -> Iterator[Host]:
    with Host().serving() as host:
        yield host


@pytest.fixture
def background() -> Iterator[Callable[..., Any]]:
    """Runs a call in a thread of its own; its `result(timeout)` waits for it."""
    with ThreadPoolExecutor(16) as threads:
        yield threads.submit


@pytest.fixture
def waiting(request: pytest.FixtureRequest, redis: Redis, queue_name: str) -> Iterator[DPQ[Any]]:
    """A queue in real time, of the class that is `DPQ` for the test (`kit.awaited`)."""
    queue: DPQ[Any] = request.function.__globals__["DPQ"](redis, queue_name)
    yield queue
    queue.admin.drop()
    queue.close()


# Tests that are coroutine functions


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(name: str, obj: object) -> None:
    """Give such a test an event loop of each kind."""
    if name.startswith("test_") and inspect.iscoroutinefunction(obj):
        pytest.mark.usefixtures("runner")(obj)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run such a test in its event loop."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    fixtures = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    pyfuncitem.funcargs["runner"].run(asyncio.wait_for(test(**fixtures), 3 * PATIENCE))
    return True


@pytest.fixture(params=RUN_ON)
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """An event loop that is closed at the end."""
    with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
        yield runner
    gc.collect()  # what was left open warns now, in this test


@pytest.fixture
def opened(
    runner: asyncio.Runner, redis: Redis, queue_name: str
) -> Iterator[Callable[..., AsyncDPQ[Any]]]:
    """Opens queues without jitter: `opened()`, `opened("-2", **settings)`.

    They share a client, except those that are given another one; all are closed at the end.
    """
    shared = asyncio_client(redis)
    closing = [shared.aclose]

    def one(suffix: str = "", client: Any = None, **settings: Any) -> AsyncDPQ[Any]:
        settings.setdefault("backoff", Backoff(jitter=0))
        queue: AsyncDPQ[Any] = AsyncDPQ(client or shared, queue_name + suffix, **settings)
        closing.extend([client.aclose, queue.close] if client else [queue.close])
        return queue

    yield one
    while closing:
        runner.run(closing.pop()())


@pytest.fixture
def queue(opened: Callable[..., AsyncDPQ[Any]]) -> AsyncDPQ[Any]:
    return opened()
