"""`AsyncDPQ` keeps the contract of `DPQ`, and its own: one loop, one connection, no waiting thread.

The first part runs the tests of the blocking face once more, over `AsyncDPQ`: `Awaited` is a `DPQ`
whose calls are awaited in the event loop of another thread.
"""

import asyncio
import contextlib
import importlib.util
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import fakeredis
import pytest
from redis import Redis
from redis import asyncio as aio

from dpq import (
    AsyncDPQ,
    Backoff,
    Popped,
    _wait,
    _wait_async,
)

PATIENCE = 30.0  # seconds until a test gives up
LONG = 60.0  # seconds of a wait that is to be ended by something else

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if importlib.util.find_spec("uvloop"):  # not on Windows
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop


# The contract of the blocking face, awaited


def asyncio_client(redis: Redis, **options: Any) -> Any:
    """An asyncio client on the server of a blocking one."""
    settings = redis.connection_pool.connection_kwargs
    if isinstance(redis, fakeredis.FakeRedis):
        return fakeredis.FakeAsyncRedis(host=settings["host"])
    options = {"socket_timeout": settings.get("socket_timeout", 5), **options}
    return aio.Redis(unix_socket_path=settings["path"], **options)


class Awaited:
    """An `AsyncDPQ` that looks like a `DPQ`: its loop runs in a thread of its own."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    made: ClassVar[list["Awaited"]] = []  # by the test that runs

    def __init__(self, redis: Any, queue_name: str, *, owner: Any = None, **settings: Any) -> None:
        self.redis = redis
        self._client = owner or asyncio_client(redis)
        self._queue: AsyncDPQ[Any] = owner or AsyncDPQ(self._client, queue_name, **settings)
        self.made.append(self)
        if not owner and self._queue._commands.named:
            self.stats()  # what a blocking constructor does

    @classmethod
    def from_url(cls, url: str, queue_name: str, **settings: Any) -> "Awaited":
        queue = AsyncDPQ.from_url(url, queue_name, **settings)
        return cls(queue.redis, queue_name, owner=queue)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LONG)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._queue, name)
        return self._blocking(member) if inspect.iscoroutinefunction(member) else member

    def _blocking(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        return lambda *args, **options: self._wait(function(*args, **options))

    def __len__(self) -> int:
        return int(self._wait(self._queue.size()))

    def pop(self, *args: Any, **options: Any) -> Popped[Any]:
        popped = self._wait(self._queue.pop(*args, **options))
        return popped._make(self._blocking(f) if isinstance(f, partial) else f for f in popped)

    @property
    def dead(self) -> Any:
        dead = self._queue.dead
        names = ("list", "replay", "purge")
        return type("Dead", (), {n: staticmethod(self._blocking(getattr(dead, n))) for n in names})

    @contextlib.contextmanager
    def lease(self, *args: Any, **options: Any) -> Iterator[Any]:
        manager = self._queue.lease(*args, **options)
        task = self._wait(self._enter(manager))
        try:
            yield task
        except BaseException as error:
            if not self._wait(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self._wait(manager.__aexit__(None, None, None))

    async def _enter(self, manager: Any) -> Any:
        return await manager.__aenter__()

    def close(self) -> None:
        self._wait(self._queue.close())
        if not self._queue._opened:
            self._wait(self._client.aclose())


@pytest.fixture(autouse=True, scope="module")
def loop_in_a_thread() -> Iterator[None]:
    loop = Awaited.loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    loop.close()


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    while Awaited.made:
        Awaited.made.pop().close()


def over_asyncio(name: str) -> ModuleType:
    """Load a module of tests once more, with `Awaited` in the place of `DPQ`."""
    spec = importlib.util.spec_from_file_location(f"awaited_{name}", Path(__file__).parent / name)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["DPQ"] = Awaited
    return module


BLOCKING_ONLY = {
    "test_a_decoding_client_serves_as_well": "has a twin below",
    "test_a_server_that_is_too_old_is_refused": "has a twin below",
    "test_threads_share_one_queue_object": "tasks do: below",
    "test_a_queue_object_survives_a_fork": "an event loop does not",
    "test_many_pushes_go_in_bounded_batches": "the commands are the same",
    "test_a_waiter_outlives_a_restart_of_the_server": "has a twin below",
    "test_a_wait_may_be_longer_than_the_clients_socket_timeout": "has a twin below",
    "test_no_timeout_waits_until_there_is_a_task": "has a twin below",
}

for _module in map(over_asyncio, ("test_api.py", "test_waiting.py")):
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and _name not in BLOCKING_ONLY:
            globals()[_name.replace("test_", "test_awaited_", 1)] = _test
start, waiting = _module.start, _module.waiting


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiters trust in being woken, so that nothing else brings a task in a test's time."""
    for module in (_wait, _wait_async):
        monkeypatch.setattr(module, "RECHECK_SECONDS", 60.0)


@pytest.fixture
def q(redis: Redis, queue_name: str, clock: Any) -> Iterator[Awaited]:
    queue = Awaited(redis, queue_name, clock=clock, backoff=Backoff(jitter=0))
    yield queue
    queue.drop()
    queue.close()
