"""`WebQueue`: the queue of one process of a web application, and what its routes answer."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from types import FrameType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from dpq import AsyncDPQ, AsyncWorker, ConfigurationError
from dpq.fastapi.streams import MAX_STREAMS, EventStream, Followers, response_of, until_gone
from dpq.model.validation import milliseconds, whole_number
from dpq.queue.inside import operations_of, session_of
from dpq.queue.waits_async import end_of_async
from dpq.views.answers import Answer, may_be_id, of_end, of_now, unknown
from dpq.worker.handlers import Handlers

MAX_STREAMS_BOUND = 100_000

CANCEL_SECONDS = 0.5
"""Seconds until a wait is cancelled again that has not ended."""


class WebQueue:
    """A queue in a web application: one client for each process, opened and closed with it.

    Attributes:
        worker: The worker in this process, if there is one. A health check may ask its `health()`.
    """

    def __init__(
        self, url: str, queue_name: str, *, max_streams: int = MAX_STREAMS, **settings: Any
    ) -> None:
        """Describe the queue; nothing is opened before the application starts.

        Args:
            url: The server, as `AsyncDPQ.from_url` takes it.
            queue_name: The name of the queue.
            max_streams: Event streams and waits for results that are open at once in one process,
                from 1 to 100 000. A further stream is answered with 503, a further wait at once.
            settings: Other arguments of `AsyncDPQ.from_url`.

        Raises:
            ConfigurationError: `max_streams` is out of its bounds.
        """
        whole_number("max_streams", max_streams, 1, MAX_STREAMS_BOUND)
        self._url, self._name, self._settings = url, queue_name, settings
        self._max_streams = max_streams
        self._open: tuple[AsyncDPQ[Any], Followers] | None = None
        self.worker: AsyncWorker | None = None

    @property
    def queue(self) -> AsyncDPQ[Any]:
        """The open queue.

        Raises:
            ConfigurationError: The application has not started, or has ended.
        """
        return self._parts()[0]

    def _parts(self) -> tuple[AsyncDPQ[Any], Followers]:
        """Return the queue and its followers; raise ConfigurationError if they are not open."""
        if self._open is None:
            raise ConfigurationError(
                f"queue {self._name!r} is not open: give `lifespan=pages.lifespan()` to the "
                "application, or open it in a lifespan of your own with `async with pages.opened()`"
            )
        return self._open

    # The life of the application

    def lifespan(
        self, handlers: Handlers | None = None, **worker: Any
    ) -> Callable[[Any], AbstractAsyncContextManager[None]]:
        """Return a lifespan for the application, as in `FastAPI(lifespan=pages.lifespan())`.

        Args:
            handlers: The handlers of a worker in this process, as `AsyncWorker` takes them; None
                for no worker.
            worker: Other arguments of `AsyncWorker`, such as `concurrency` and `grace`.
        """

        @asynccontextmanager
        async def life(app: object) -> AsyncIterator[None]:
            async with self.opened(handlers, **worker):
                yield

        return life

    @asynccontextmanager
    async def opened(
        self, handlers: Handlers | None = None, **worker: Any
    ) -> AsyncIterator[AsyncDPQ[Any]]:
        """Open the queue for the body of an `async with`; arguments as for `lifespan`.

        At SIGTERM or SIGINT all event streams end, since a web server waits for its connections
        before it ends. After the body the worker stops, with its grace; then the queue is closed.

        Yields:
            The queue.

        Raises:
            ConfigurationError: It is open already, or an argument is out of its bounds.
            RedisError: There is a worker, and its server cannot be reached.
        """
        if self._open is not None:
            raise ConfigurationError(f"queue {self._name!r} is open already in this process")
        async with AsyncExitStack() as stack:
            made = AsyncDPQ.from_url(self._url, self._name, **self._settings)
            queue: AsyncDPQ[Any] = await stack.enter_async_context(made)
            followers = Followers(queue, self._max_streams)
            stack.callback(self._forget)
            self._open = queue, followers
            if handlers is not None:
                self.worker = AsyncWorker(queue, handlers, **worker)
                await stack.enter_async_context(self.worker.running())
            stack.callback(followers.close)
            stack.enter_context(_at_signals(followers.close))
            yield queue

    def _forget(self) -> None:
        self._open = self.worker = None

    def end_streams(self) -> None:
        """End all event streams and waits for results; new ones are refused.

        Signals do so by themselves. Call it if your program ends its web server in another way.
        """
        if self._open:
            self._open[1].close()

    # Answers

    def accepted(self, task_id: str, location: object) -> Response:
        """Answer that a task was pushed: 202, with the address where its state can be asked for.

        Args:
            task_id: What `queue.push` returned.
            location: The address, as `request.url_for("show", task_id=task_id)` returns it.
        """
        response = response_of(Answer(202, {"id": task_id, "location": str(location)}))
        response.headers["Location"] = str(location)
        return response

    async def result(
        self,
        task_id: str,
        timeout: float = 0,  # noqa: ASYNC109 - of the server, as `AsyncDPQ.result` has it
        *,
        request: Request | None = None,
    ) -> Response:
        """Answer with the end of a task, and wait for it on the server.

        The answer is a JSON object. `state` is `done`, with the `result` (200); `dead`, with the
        `reason` (200); or `unknown` (404). If the task has not ended within the timeout, the answer
        is 202, with the task's state, attempt and progress.

        Args:
            task_id: The id that `push` returned.
            timeout: Seconds to wait, from 0. Bound it, as with `Query(ge=0, le=30)`. A process that
                has `max_streams` waits and event streams answers at once, as does one that ends.
            request: The request that is answered: the wait ends once its client has gone. Its body
                must have been read before. None waits to the end of the timeout.

        Raises:
            ConfigurationError: The timeout is out of its bounds.
            RedisError: The server is away.
        """
        queue, followers = self._parts()
        if not may_be_id(task_id):
            return response_of(unknown(task_id))
        milliseconds("timeout", timeout)
        if timeout and not followers.full:
            gone = [until_gone(request.receive)] if request else []
            with followers.stream():
                waiting = end_of_async(queue, task_id, timeout)
                outcome = await _first(waiting, followers.closing.wait(), *gone)
            if outcome:
                return response_of(of_end(task_id, outcome))
        return response_of(await session_of(queue).run(of_now, operations_of(queue), task_id))

    def events(self, task_id: str) -> Response:
        """Answer with server-sent events about a task, until it has ended.

        Each event has a JSON object, as `result` answers it. An event `state` tells the state,
        attempt and progress, first as they are, then each change. The last event is `done`, `dead`
        or `unknown`. An end is told at once; all else is looked at each second, or less often in a
        process that follows more than 500 tasks.

        A task of which nothing is known at the start is answered with 404. With too many streams,
        or if the server is away at the start, the answer is 503.
        """
        return EventStream(self._parts()[1], task_id)


async def _first(*calls: Coroutine[Any, Any, Any]) -> Any:
    """Await the first of some calls, but not beyond the others; None if another ends first."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        left = set(tasks)
        while left:  # a task that connects may swallow a cancellation
            for each in left:
                each.cancel()
            _, left = await asyncio.wait(left, timeout=CANCEL_SECONDS)
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _at_signals(call: Callable[[], None]) -> Iterator[None]:
    """Call a function at SIGTERM and SIGINT, before the handlers that the web server has set."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def heard(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(call)
        then = before[signal.Signals(number)]
        if callable(then):
            then(number, frame)
        elif then is signal.SIG_DFL:
            signal.signal(number, then)
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number, then in before.items():
            if signal.getsignal(number) is heard:
                signal.signal(number, then)
