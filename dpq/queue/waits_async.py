"""Waits for a call of the server: for the end of a task (`result`), or for room (`push`).

A caller asks, waits for a call of the server, and asks again. A caller of a lost message asks on
its own. A wait for an end goes on over an outage, since its questions change nothing.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.shared_async import THROWN_AWAY
from dpq.model.errors import (
    DPQError,
    QueueFullError,
    ResultTimeoutError,
    TaskDeadError,
    TaskNotFoundError,
)
from dpq.model.producer import Producer
from dpq.model.task import Push
from dpq.model.task_data import Result
from dpq.model.validation import milliseconds
from dpq.verbs.stored import Outcome

if TYPE_CHECKING:
    from dpq.model.task import Task

log = logging.getLogger(__name__)

T = TypeVar("T")

ASK_FOR_END_SECONDS = 5.0
"""Seconds until a caller asks again that was not called: a message is lost, or there was none."""

ASK_UNCALLED_SECONDS = 1.0
"""The same without a subscription: the Redis user has no right to subscribe."""

ASK_DOUBLE_SECONDS = 0.02
"""The same for a double such as fakeredis, in the caller's own process."""

_UNKNOWN = (
    "knows nothing of its end: it was finished without a result, its result is no longer kept, it "
    "was cancelled, or it was never pushed here"
)


async def wait_for_outcome_async(queue: Any, task_id: str, timeout: float | None) -> Any:
    """Return the result of a task, or raise the error that says what has become of it."""
    outcome = await end_of_async(queue, task_id, timeout)
    if outcome is None:
        raise ResultTimeoutError(task_id, queue.queue_name, timeout or 0.0)
    if outcome.result is not None:
        return outcome.result.value
    if outcome.state == "dead":
        raise TaskDeadError(task_id, queue.queue_name, outcome.reason, outcome.last_error)
    raise TaskNotFoundError(task_id, queue.queue_name, "return the result of", why=_UNKNOWN)


async def end_of_async(queue: Any, task_id: str, timeout: float | None) -> Outcome | None:
    """Return the end of a task, once it has ended; None after the timeout."""

    async def ask() -> Outcome | None:
        outcome: Outcome = await queue._session.run(queue._operations.outcome, task_id)
        return None if outcome.state == "live" else outcome

    return await _wait(queue, task_id, timeout, ask)


async def wait_for_results_async(
    queue: Any, after: str, limit: int, timeout: float | None
) -> list[Result]:
    """Return results, once there is one; none after the timeout."""

    async def ask() -> list[Result] | None:
        return await queue._session.run(queue._operations.results, after, limit) or None

    return await _wait(queue, "", timeout, ask) or []


async def follow_async(
    queue: Any, task_id: str, tell: Callable[[Task[Any]], object], pause: Callable[[], float]
) -> Outcome:
    """Call `tell` with a task at once and at each look, until it has ended; return its end.

    The server calls at the end. What happens before the end, the progress included, is seen by a
    look after each pause. An outage ends nothing, but for the first look.
    """

    async def ask() -> Outcome | None:
        outcome, task = await queue._session.run(queue._operations.examine, task_id)
        if outcome.state == "live" and task is not None:  # else it ends just now
            tell(task)
        return None if outcome.state == "live" else outcome

    return cast("Outcome", await _wait(queue, task_id, None, ask, pause))


async def _wait(
    queue: Any,
    caller: str,
    timeout: float | None,
    ask: Callable[[], Awaitable[T | None]],
    pause: Callable[[], float] | None = None,
) -> T | None:
    """Ask until there is an answer, after each pause at the latest; None after `timeout`."""
    if timeout is not None:
        milliseconds("timeout", timeout)
    first = pause is not None
    if not first and ((answer := await ask()) is not None or timeout == 0):
        return answer
    until = math.inf if timeout is None else time.monotonic() + timeout
    listener = queue._ends
    with listener.ear(caller) as ear:
        while True:  # each question comes after the subscription, so that no end is missed
            await listener.subscribe()
            try:
                answer = await ask()
                if answer is not None or until <= time.monotonic():
                    return answer
                first = False
            except (RedisConnectionError, RedisTimeoutError, OSError) as error:
                if first or until <= time.monotonic():
                    raise
                log.warning("%s: the wait for a result goes on: %s", queue.queue_name, error)
            left = until - time.monotonic()
            await listener.wait(ear, min(left, _patience(listener), pause() if pause else left))


def _patience(listener: Any) -> float:
    if listener.channel:
        return ASK_FOR_END_SECONDS
    return ASK_UNCALLED_SECONDS if listener.direct else ASK_DOUBLE_SECONDS


async def push_in_time_async(queue: Any, push: Push[Any], timeout: float | None) -> str:
    """Push a task; wait for room at most `timeout`, in the line of producers on the server."""
    producer = Producer(time.monotonic(), timeout)
    session, operations, listener = queue._session, queue._operations, queue._listener
    with listener.ear(producer.id) as ear:
        try:
            while True:
                try:
                    return str(await session.run(operations.push, push))
                except QueueFullError as full:
                    producer.refused(full, time.monotonic())
                await listener.subscribe()
                producer.channel = listener.channel
                if await session.run(operations.await_room, producer):
                    await listener.wait(ear, producer.left(time.monotonic()))
        except THROWN_AWAY:
            producer.place = ""
            raise
        finally:
            if producer.place:  # the next producer gets the room that this one leaves
                with suppress(DPQError, RedisError):
                    await queue._finish(session.run, operations.await_room, producer, leave=True)
