"""Server-sent events about tasks: many streams share one look at each task.

A follower looks at one task for all its streams, and the server calls it at the end of the task. A
stream sends the newest state only, so a slow client costs no memory. A stream ends with its task,
with its client, or with the process.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dpq import AsyncDPQ
from dpq.queue.waits_async import follow_async
from dpq.views.answers import Answer, may_be_id, of_end, of_task, unknown

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
"""Seconds without an event after which a stream sends a comment. Proxies and load balancers close
silent connections after 30 s or more."""

RECONNECT_MS = 2000
"""ms after which a browser connects again when a connection is lost."""

LOOK_SECONDS = 1.0
"""Seconds between two looks at a followed task: workers tell progress once a second."""

MAX_LOOKS = 500
"""Looks a second of one process. With more followed tasks than that, each is looked at less often.
The end of a task needs no look."""

MAX_STREAMS = 1000
"""Open streams and waits of one process: each holds a connection of the web server."""

BUSY_RETRY_SECONDS = 5
"""Seconds after which a client may try again that was refused by `MAX_STREAMS`."""

LAST_ID = "end"
"""The id of a last event. A browser that connects again names it, and is told to stop."""

SSE_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",  # no proxy may keep or compress it
    "X-Accel-Buffering": "no",  # nginx sends each event at once
}


class _Follower:
    """One followed task: its newest answer, for all its streams."""

    following: asyncio.Task[None]

    def __init__(self) -> None:
        self.streams = 0
        self.answer: Answer | Exception | None = None
        self.changed = asyncio.Event()  # a new one after each change

    def tell(self, answer: Answer | Exception) -> None:
        """Tell all streams of a change."""
        if answer != self.answer:
            self.answer = answer
            self.changed.set()
            self.changed = asyncio.Event()


class Followers:
    """All tasks of one queue that the streams of this process follow."""

    def __init__(self, queue: AsyncDPQ[Any], max_streams: int = MAX_STREAMS) -> None:
        self._queue = queue
        self._max_streams = max_streams
        self._followers: dict[str, _Follower] = {}
        self._open = 0  # streams and waits
        self.closing = asyncio.Event()

    @property
    def full(self) -> bool:
        """Return True if there is no room for another stream or wait."""
        return self._open >= self._max_streams

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count a stream or a wait as open in the body."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    def close(self) -> None:
        """End all streams, and the waits for results."""
        self.closing.set()
        for follower in self._followers.values():
            follower.changed.set()

    async def answers(self, task_id: str) -> AsyncGenerator[Answer | None]:
        """Yield the state of a task, then its changes; None after each silent heartbeat.

        Raises:
            ConfigurationError: The id is none.
            RedisError: The server is away at the first look.
        """
        follower = self._followers.get(task_id)
        if follower is None:
            follower = self._followers[task_id] = _Follower()
            follower.following = asyncio.create_task(self._follow(task_id, follower))
        follower.streams += 1
        sent: Answer | None = None
        try:
            while not self.closing.is_set():
                if follower.answer is sent:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(HEARTBEAT_SECONDS):
                            await follower.changed.wait()
                answer = follower.answer
                if isinstance(answer, Exception):
                    raise answer
                if not self.closing.is_set():
                    yield None if answer is sent else answer
                sent = answer
                if answer is not None and answer.status != 202:
                    return
        finally:
            follower.streams -= 1
            if not follower.streams:
                follower.following.cancel()
                self._forget(task_id, follower)

    def _forget(self, task_id: str, follower: _Follower) -> None:
        """Let a stream that begins later look anew: the task may have come back."""
        if self._followers.get(task_id) is follower:
            del self._followers[task_id]

    async def _follow(self, task_id: str, follower: _Follower) -> None:
        """Follow a task to its end; an error ends all its streams."""
        try:
            outcome = await follow_async(
                self._queue, task_id, lambda task: follower.tell(of_task(task)), self._pause
            )
        except Exception as error:
            log.warning("%s: task %s: its streams end: %s", self._queue.queue_name, task_id, error)
            follower.tell(error)
        else:
            follower.tell(of_end(task_id, outcome))
        self._forget(task_id, follower)

    def _pause(self) -> float:
        return max(LOOK_SECONDS, len(self._followers) / MAX_LOOKS)


def event_text(answer: Answer) -> bytes:
    """Write an answer as an event; its name is `state`, `done`, `dead` or `unknown`."""
    name = "state" if answer.status == 202 else str(answer.says["state"])
    mark = b"" if answer.status == 202 else f"id: {LAST_ID}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), mark, answer.body)


class EventStream(Response):
    """A response of server-sent events about one task."""

    media_type = "text/event-stream"

    def __init__(self, followers: Followers, task_id: str) -> None:
        super().__init__()
        self._followers, self._task_id = followers, task_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the task has ended, the client has gone, or the process ends."""
        names = {name.lower(): value for name, value in scope["headers"]}
        if names.get(b"last-event-id") == LAST_ID.encode():
            await Response(status_code=204)(scope, receive, send)  # a browser stops at 204
        elif not may_be_id(self._task_id):
            await response_of(unknown(self._task_id))(scope, receive, send)
        elif self._followers.full or self._followers.closing.is_set():
            await _busy()(scope, receive, send)
        else:
            with self._followers.stream():  # counted at once, however many come together
                async with aclosing(self._followers.answers(self._task_id)) as answers:
                    response = await self._response(answers)
                    await response(scope, receive, send)

    async def _response(self, answers: AsyncGenerator[Answer | None]) -> Response:
        """Look once: a browser does not ask again after 404, and asks later after 503."""
        try:
            first = await anext(answers, None)
        except RedisError:
            return _busy()
        if first is not None and first.status == 404:
            return response_of(first)
        return StreamingResponse(_events(first, answers), headers=SSE_HEADERS)


async def _events(
    first: Answer | None, answers: AsyncGenerator[Answer | None]
) -> AsyncGenerator[bytes]:
    yield b"retry: %d\n\n" % RECONNECT_MS
    if first is not None:
        yield event_text(first)
    async for answer in answers:
        yield event_text(answer) if answer else b": still here\n\n"


def response_of(answer: Answer) -> Response:
    """Make the response of an answer."""
    return Response(answer.body, answer.status, answer.headers, "application/json")


def _busy() -> Response:
    return Response(status_code=503, headers={"Retry-After": str(BUSY_RETRY_SECONDS)})


async def until_gone(receive: Receive) -> None:
    """Wait until the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
