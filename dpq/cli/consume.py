"""`dpq pop`, and the commands for its lease: ack, fail, release, bury and more."""

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from pydantic_core import from_json

from dpq import DPQ, NO_RESULT, Task, TaskNotFoundError
from dpq.cli._existing import existing
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    Delay,
    NewPriority,
    Queue,
    TaskId,
    Token,
    Url,
    option,
)
from dpq.cli._terminal import Failed, emit, talk
from dpq.cli.leases import release_all
from dpq.model.queue_settings import DEFAULT_VISIBILITY
from dpq.model.results import DEFAULT_KEEP


def pop(
    count: Annotated[int, option("COUNT", "Pop at most so many tasks, up to 1000.", "-n")] = 1,
    wait: Annotated[
        float, option("[SECONDS]", "Wait so long for a task; without a number, for ever.")
    ] = 0,
    visibility: Annotated[
        float, option("SECONDS", "No other consumer gets the task for so long.")
    ] = DEFAULT_VISIBILITY,
    ack: Annotated[
        bool, typer.Option("--ack", help="Finish each task after it is printed.")
    ] = False,
    id: Annotated[
        str | None,
        option("ID", "Take only this task, whatever stands before it.", unset="the best"),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Take the task of --id also if it is delayed.")
    ] = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Take the best ready task under a lease; prints it as one line of JSON, with id and token.

    The exit code is 1 if no task can run. A task of --id runs under its limits as any other.
    """
    timeout = None if wait == float("inf") else wait
    with DPQ[Any].from_url(url, queue) as q:
        if id is None and not force:
            tasks = q.pop_many(count, timeout, visibility)
        else:
            popped = q.pop(wait, visibility, id=id, force=force).task
            tasks = [popped] if popped else []
        for task in tasks:
            emit(task.model_dump(exclude={"errors"}))  # only get reads them
        sys.stdout.flush()
        if ack:
            q.ack_many(tasks)
        if not tasks:
            if id is not None:
                raise Failed(f"task {id} cannot run now: {q.why(id)}")
            raise Failed(_why_none(q))


def _why_none(q: DPQ[Any]) -> str:
    stats = q.stats()
    if held := stats.ready + stats.waiting:
        return (
            f"no task of {q.queue_name!r} can run now: {held} wait for a limit or for `dpq resume`"
        )
    return f"no task is ready in {q.queue_name!r}"


def _held(q: DPQ[Any], task_id: str, token: int) -> Task[Any]:
    try:
        return q.get(task_id).model_copy(update={"token": token})
    except TaskNotFoundError:
        raise _gone(q, task_id) from None


def _gone(q: DPQ[Any], task_id: str) -> Failed:
    return Failed(f"task {task_id} is gone: finished, cancelled, or never in {q.queue_name!r}")


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise typer.BadParameter(f"the result is no JSON: {error}") from error


def ack(
    task_id: TaskId,
    token: Token,
    result: Annotated[
        str | None, option("JSON", "What it has returned, for `dpq result`.", unset="none")
    ] = None,
    keep: Annotated[float, option("SECONDS", "Keep the result so long.")] = DEFAULT_KEEP,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Finish a task: it is deleted."""
    value = NO_RESULT if result is None else _json(result)
    with existing(url, queue) as q:
        if not q.ack(_held(q, task_id, token), result=value, keep=keep):
            raise _gone(q, task_id)
    talk(f"finished {task_id}")


def fail(
    task_id: TaskId,
    token: Token,
    error: Annotated[
        str | None,
        typer.Option(help="The error; stored with the task.", show_default="none"),
    ] = None,
    delay: Annotated[
        float | None, option("SECONDS", "Seconds until the next attempt.", unset="the backoff")
    ] = None,
    priority: NewPriority = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Count a failed attempt: the task runs again later, or is dead if no attempt is left."""
    with existing(url, queue) as q:
        q.fail(_held(q, task_id, token), error, delay, priority=priority)
    talk(f"failed {task_id}")


def release(
    task_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The task's id.", show_default=False)
    ] = None,
    token: Annotated[
        int | None,
        typer.Argument(
            metavar="[TOKEN]",
            help="The delivery's token, as pop has printed it.",
            show_default=False,
        ),
    ] = None,
    delay: Delay = 0,
    priority: NewPriority = None,
    worker: Annotated[
        str | None, option("NAME", "Give back what the worker of this name holds.", unset="")
    ] = None,
    older_than: Annotated[
        float | None,
        option("SECONDS", "Give back what was popped so long ago, or before.", unset="", min=0),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Give back all running tasks.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Give a task back; the attempt does not count, and its position stays.

    Or give back the leases of other consumers, after a question; `dpq leases` lists them. Each task
    is ready at once. So it may run again while its worker, if that is alive, still works on it.

    \b
      dpq release ID TOKEN
      dpq release --worker web-1:77 --older-than 600
    """
    many = every or worker is not None or older_than is not None
    if many == (task_id is not None) or (task_id is None) != (token is None):
        raise typer.BadParameter("give ID and TOKEN; or --worker, --older-than, both, or --all")
    if many and (delay or priority is not None):
        raise typer.BadParameter("--delay and --priority are for one task: give ID and TOKEN")
    with existing(url, queue) as q:
        if many:
            release_all(q, worker, older_than, yes)
        else:
            q.release(_held(q, str(task_id), int(token or 0)), delay, priority=priority)
            talk(f"released {task_id}")


class Scope(StrEnum):
    """The part that a 429 closes; typer needs an enum."""

    GROUP = "group"
    QUEUE = "queue"
    TASK = "task"
    MEMBER = "member"


def rate_limited(
    task_id: TaskId,
    token: Token,
    seconds: Annotated[
        float,
        typer.Argument(metavar="SECONDS", help="Seconds from now, as in Retry-After."),
    ],
    scope: Annotated[
        Scope,
        typer.Option(
            help="What closes: the member that the task runs as (its group, if it has none), the "
            "group (the queue, if it has none), the queue, or only the task."
        ),
    ] = Scope.MEMBER,
    status: Annotated[
        int | None,
        typer.Option(min=100, max=999, help="The status of the answer.", show_default="429"),
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Give a task back after a 429; no attempt counts. Its group closes for all consumers."""
    with existing(url, queue) as q:
        q.rate_limited(_held(q, task_id, token), seconds, scope.value, status=status)
    talk(f"rate limited {task_id} for {seconds:g} s")


def bury(
    task_id: TaskId,
    token: Token,
    reason: Annotated[
        str, typer.Option(help="The reason; stored with the task.")
    ] = "buried by hand",
    priority: NewPriority = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Give a task up: it becomes a dead letter."""
    with existing(url, queue) as q:
        q.bury(_held(q, task_id, token), reason, priority=priority)
    talk(f"buried {task_id}")


def extend(
    task_id: TaskId,
    token: Token,
    seconds: Annotated[float, typer.Argument(metavar="SECONDS", help="Seconds from now.")],
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Extend a lease: it ends so many seconds from now. Prints its end, in UTC."""
    with existing(url, queue) as q:
        print(q.extend(_held(q, task_id, token), seconds).isoformat())
