"""The asyncio faces as blocking ones: the suites of `DPQ` and `Worker` run over them once more.

`Awaited` is a `DPQ` and `AwaitedWorker` a `Worker` whose calls are awaited in the event loop of
another thread. `over_asyncio` loads a module of tests with them in the place of the blocking ones.
"""

import asyncio
import contextlib
import importlib.util
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import fakeredis
from hypothesis import settings
from redis import Redis
from redis import asyncio as aio
from support import address_of

from dpq import AsyncDPQ, AsyncWorker, Context, Popped

PATIENCE = 120.0  # seconds until a thread is given up
LONG = 150.0  # seconds of a wait that is to be ended by something else
HANDLERS = 64  # that may wait in threads at once

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
if importlib.util.find_spec("uvloop"):  # not on Windows
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop
RUN_ON = [*LOOPS] if settings.get_current_profile_name() == "soak" else ["asyncio"]


def asyncio_client(redis: Redis, **options: Any) -> Any:
    """An asyncio client on the server of a blocking one."""
    given = redis.connection_pool.connection_kwargs
    if isinstance(redis, fakeredis.FakeRedis):
        return fakeredis.FakeAsyncRedis(host=given["host"])
    options = {"socket_timeout": given.get("socket_timeout", 5), **options}
    if "retry" in given and given["retry"] is None:
        options["retry"] = None
    return aio.Redis(**address_of(redis), **options)


@contextlib.asynccontextmanager
async def asyncio_queue(redis: Redis, name: str) -> AsyncIterator[AsyncDPQ[Any]]:
    """An asyncio queue on the server of a blocking client, which is dropped after the body."""
    client = asyncio_client(redis)
    q: AsyncDPQ[Any] = AsyncDPQ(client, name)
    try:
        yield q
        vars(q._session.connections).pop("call_all", None)  # what a test may have put there
        await q.admin.drop()
    finally:
        await q.close()
        await client.aclose()


class Awaited:
    """An `AsyncDPQ` that looks like a `DPQ`: its loop runs in a thread of its own."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    made: ClassVar[list["Awaited"]] = []  # by the test that runs

    def __init__(self, redis: Any, queue_name: str, *, owner: Any = None, **settings: Any) -> None:
        self.redis = redis
        self._client = owner or self._client_of(redis)
        self._queue: AsyncDPQ[Any] = owner or AsyncDPQ(self._client, queue_name, **settings)
        self.made.append(self)
        if not owner and self._queue._operations.description.named:
            self.stats()  # what a blocking constructor does

    @classmethod
    def from_url(cls, url: str, queue_name: str, **settings: Any) -> "Awaited":
        queue = AsyncDPQ.from_url(url, queue_name, **settings)
        return cls(queue.redis, queue_name, owner=queue)

    @classmethod
    def _client_of(cls, redis: Any) -> Any:
        return asyncio_client(redis)

    @classmethod
    def wait(cls, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, cls.loop).result(LONG)

    def __class_getitem__(cls, _: Any) -> type["Awaited"]:
        return cls  # as in `DPQ[Any]`

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._queue, name)
        return self._blocking(member) if inspect.iscoroutinefunction(member) else member

    def _blocking(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        return lambda *args, **options: self.wait(function(*args, **options))

    def __len__(self) -> int:
        return int(self.wait(self._queue.size()))

    def pop(self, *args: Any, **options: Any) -> Popped[Any]:
        popped = self.wait(self._queue.pop(*args, **options))
        return popped._make(self._blocking(f) if isinstance(f, partial) else f for f in popped)

    @property
    def dead(self) -> Any:
        return self._part(self._queue.dead)

    @property
    def admin(self) -> Any:
        return self._part(self._queue.admin)

    def _part(self, part: Any) -> Any:
        names = [name for name in dir(part) if inspect.iscoroutinefunction(getattr(part, name))]
        return SimpleNamespace(**{name: self._blocking(getattr(part, name)) for name in names})

    @contextlib.contextmanager
    def lease(self, *args: Any, **options: Any) -> Iterator[Any]:
        manager = self._queue.lease(*args, **options)
        task = self.wait(self._enter(manager))
        try:
            yield task
        except BaseException as error:
            if not self.wait(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self.wait(manager.__aexit__(None, None, None))

    async def _enter(self, manager: Any) -> Any:
        return await manager.__aenter__()

    def __enter__(self) -> "Awaited":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.wait(self._queue.close())
        if not self._queue._opened:
            self.wait(self._client.aclose())


class AwaitedOfOneClient(Awaited):
    """One of several queues of a worker, which must share one client."""

    clients: ClassVar[dict[int, Any]] = {}

    @classmethod
    def _client_of(cls, redis: Any) -> Any:
        if id(redis) not in cls.clients:
            cls.clients[id(redis)] = asyncio_client(redis)
        return cls.clients[id(redis)]

    def close(self) -> None:
        self.wait(self._queue.close())


@contextlib.contextmanager
def loop_in_a_thread(
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> Iterator[None]:
    """Run the event loop of all `Awaited` meanwhile."""
    loop = Awaited.loop = factory()
    pool = ThreadPoolExecutor(HANDLERS)
    loop.set_default_executor(pool)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield
    finally:
        close_all()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        pool.shutdown(wait=False)  # a handler that was given up may wait for its test to end
        loop.close()


def close_all() -> None:
    """Close what a test has made."""
    while Awaited.made:
        Awaited.made.pop().close()
    clients = AwaitedOfOneClient.clients
    while clients:
        Awaited.wait(clients.popitem()[1].aclose())


class AwaitedWorker:
    """An `AsyncWorker` that looks like a `Worker`.

    Its handlers are coroutine functions that wait for the given ones, which run in threads: they
    may block, and call their queue. One that is cancelled goes on in its thread.
    """

    def __init__(self, queues: Any, handlers: Any, **options: Any) -> None:
        one = isinstance(queues, Awaited)
        self._faces = [queues] if one else list(queues)
        plain = [face._queue for face in self._faces]
        weighted = isinstance(queues, Mapping)
        asked = dict(zip(plain, queues.values(), strict=True)) if weighted else plain
        self._worker = AsyncWorker(
            asked[0] if one else asked,
            {name: self._awaited(handler) for name, handler in handlers.items()}
            if isinstance(handlers, Mapping)
            else self._awaited(handlers),
            **{name: self._option(option) for name, option in options.items()},
        )

    def _option(self, option: Any) -> Any:
        """An option of the constructor."""
        return option

    def _awaited(self, handler: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def with_context(task: Any, context: Context[Any]) -> Any:
            return await asyncio.to_thread(handler, task, _ContextOfAThread(context, self._faces))

        async def without(task: Any) -> Any:
            return await asyncio.to_thread(handler, task)

        return without if _takes(handler, 1) else with_context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)

    def run(self, **options: Any) -> int:
        return int(Awaited.wait(self._worker.run(**options)))

    def drain(self) -> int:
        return int(Awaited.wait(self._worker.drain()))

    @contextlib.contextmanager
    def running(self) -> Iterator["AwaitedWorker"]:
        begun, over = threading.Event(), asyncio.Event()

        async def hold() -> None:
            async with self._worker.running():
                begun.set()
                await over.wait()

        run = asyncio.run_coroutine_threadsafe(hold(), Awaited.loop)
        while not begun.wait(0.01) and not run.done():
            pass
        try:
            if begun.is_set():
                yield self
        finally:
            Awaited.loop.call_soon_threadsafe(over.set)
            run.result(LONG)

    def stop(self) -> None:
        async def stop() -> None:
            self._worker.stop()

        Awaited.wait(stop())

    def print_tasks(self) -> None:
        """Print what the tasks of the event loop wait for."""

        async def show() -> None:
            for task in asyncio.all_tasks():
                task.print_stack()

        Awaited.wait(show())


def _takes(handler: Callable[..., Any], count: int) -> bool:
    """Whether a handler can be called with so many arguments."""
    with contextlib.suppress(TypeError):
        inspect.signature(handler).bind(*range(count))
        return True
    return False


class AwaitedWorkerOfAsyncHooks(AwaitedWorker):
    """One whose hooks are coroutine functions."""

    def _option(self, option: Any) -> Any:
        async def hook(*args: Any) -> None:
            await asyncio.sleep(0)
            option(*args)

        return hook if callable(option) else option


class _ContextOfAThread:
    """A `Context` whose queue may be called by a handler that blocks."""

    def __init__(self, context: Context[Any], faces: list[Awaited]) -> None:
        self._context = context
        [self.queue] = [face for face in faces if face._queue is context.queue]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def over_asyncio(path: Path, **replaced: Any) -> ModuleType:
    """Load a module of tests once more, with others in the place of the names given."""
    spec = importlib.util.spec_from_file_location(f"awaited_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(replaced)
    return module


def awaited_tests(module: ModuleType, *left_out: str) -> dict[str, Any]:
    """The tests of such a module, by the names that they have over asyncio."""
    return {
        name.replace("test_", "test_awaited_", 1): test
        for name, test in vars(module).items()
        if name.startswith("test_") and name not in left_out
    }
