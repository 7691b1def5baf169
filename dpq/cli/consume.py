"""`dpq pop`, and the commands for its lease: ack, fail, release, bury and more."""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from dpq import DPQ, Task, TaskNotFoundError
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    Delay,
    NewPriority,
    Queue,
    TaskId,
    Token,
    Url,
)
from dpq.cli._terminal import Failed, emit, talk
from dpq.queue.base import DEFAULT_VISIBILITY


def pop(
    count: Annotated[int, typer.Option("-n", metavar="COUNT", help="Tasks at most, to 1000.")] = 1,
    wait: Annotated[
        float,
        typer.Option(
            metavar="[SECONDS]", help="Wait so long for the first task; without a number, for ever."
        ),
    ] = 0,
    visibility: Annotated[
        float, typer.Option(metavar="SECONDS", help="Nobody else gets the task for so long.")
    ] = DEFAULT_VISIBILITY,
    ack: Annotated[
        bool, typer.Option("--ack", help="Finish each task once it is printed.")
    ] = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Take the best ready task under a lease; prints it as one line of JSON, with id and token.

    Ends with 1 when there is nothing to do.
    """
    timeout = None if wait == float("inf") else wait
    with DPQ[Any].from_url(url, queue) as q:
        tasks = q.pop_many(count, timeout, visibility)
        for task in tasks:
            emit(task.model_dump())
        sys.stdout.flush()
        if ack:
            q.ack_many(tasks)
        if not tasks:
            raise Failed(_why_none(q))


def _why_none(q: DPQ[Any]) -> str:
    stats = q.stats()
    if held := stats.ready + stats.waiting:
        return f"no task of {q.queue_name!r} may run now: {held} wait at a limit or for a resume"
    return f"no task is ready in {q.queue_name!r}"


def _held(q: DPQ[Any], task_id: str, token: int) -> Task[Any]:
    try:
        return q.get(task_id).model_copy(update={"token": token})
    except TaskNotFoundError:
        raise _gone(q, task_id) from None


def _gone(q: DPQ[Any], task_id: str) -> Failed:
    return Failed(f"task {task_id} is gone: finished or cancelled, or never in {q.queue_name!r}")


def ack(
    task_id: TaskId, token: Token, url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE
) -> None:
    """Finish a task: it is gone."""
    with DPQ[Any].from_url(url, queue) as q:
        if not q.ack(_held(q, task_id, token)):
            raise _gone(q, task_id)
    talk(f"finished {task_id}")


def fail(
    task_id: TaskId,
    token: Token,
    error: Annotated[
        str | None,
        typer.Option(help="What went wrong; kept with the task.", show_default="nothing"),
    ] = None,
    delay: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Seconds until the next attempt.", show_default="the backoff"
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Count a failed attempt: the task comes back, or is dead when its attempts are spent."""
    with DPQ[Any].from_url(url, queue) as q:
        q.fail(_held(q, task_id, token), error, delay)
    talk(f"failed {task_id}")


def release(
    task_id: TaskId,
    token: Token,
    delay: Delay = 0,
    priority: NewPriority = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Give a task back, not counted as an attempt; it keeps its place."""
    with DPQ[Any].from_url(url, queue) as q:
        q.release(_held(q, task_id, token), delay, priority=priority)
    talk(f"released {task_id}")


class Scope(StrEnum):
    """The part that a 429 closes; typer needs an enum."""

    GROUP = "group"
    QUEUE = "queue"
    TASK = "task"


def rate_limited(
    task_id: TaskId,
    token: Token,
    seconds: Annotated[
        float, typer.Argument(metavar="SECONDS", help="From now, as Retry-After says.")
    ],
    scope: Annotated[
        Scope,
        typer.Option(help="What closes: the task's group (without one, the queue), or only it."),
    ] = Scope.GROUP,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Give a task back that met a 429, not counted; its group closes for all consumers."""
    with DPQ[Any].from_url(url, queue) as q:
        q.rate_limited(_held(q, task_id, token), seconds, scope.value)
    talk(f"rate limited {task_id} for {seconds:g} s")


def bury(
    task_id: TaskId,
    token: Token,
    reason: Annotated[str, typer.Option(help="Why; kept with the task.")] = "buried by hand",
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Give a task up: it goes to the dead letters."""
    with DPQ[Any].from_url(url, queue) as q:
        q.bury(_held(q, task_id, token), reason)
    talk(f"buried {task_id}")


def extend(
    task_id: TaskId,
    token: Token,
    seconds: Annotated[float, typer.Argument(metavar="SECONDS", help="From now.")],
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Go on working: the lease ends so many seconds from now; prints when, UTC."""
    with DPQ[Any].from_url(url, queue) as q:
        print(q.extend(_held(q, task_id, token), seconds).isoformat())
