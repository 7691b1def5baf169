"""`dpq pop`, and `dpq task`: ends of tasks by hand, and changes of one task."""

import sys
from typing import Annotated, Any, Literal

import typer

from dpq import DPQ, NO_RESULT, Task, TaskNotFoundError
from dpq.cli._existing import on_new_queue, on_queue
from dpq.cli._options import (
    TAKES_IDS,
    AnyTaskId,
    Delay,
    Key,
    NewPriority,
    TaskId,
    Token,
    argument,
    flag,
    option,
    read_cost,
)
from dpq.cli._terminal import Failed, emit, talk
from dpq.cli.produce import json_value
from dpq.model.queue_settings import DEFAULT_VISIBILITY
from dpq.model.results import DEFAULT_KEEP

app = typer.Typer(no_args_is_help=True, help="End a task that you hold, or change or cancel one.")

NewCost = Annotated[
    Any,
    option(
        "UNITS",
        "The units it takes of each limit: 3, or by name, as in tokens=1800.",
        unset="unchanged",
        parser=read_cost,
    ),
]


def _held(q: DPQ[Any], task_id: str, token: int) -> Task[Any]:
    try:
        return q.get(task_id).model_copy(update={"token": token})
    except TaskNotFoundError:
        raise _gone(q, task_id) from None


def _gone(q: DPQ[Any], task_id: str) -> Failed:
    return Failed(f"task {task_id} is gone: finished, cancelled, or never in {q.queue_name!r}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def ack(
    q: DPQ[Any],
    task_id: TaskId,
    token: Token,
    result: Annotated[
        str | None, option("JSON", "The result, for `dpq get ID --wait`.", unset="none")
    ] = None,
    keep: Annotated[float, option("SECONDS", "Keep the result this long.")] = DEFAULT_KEEP,
) -> None:
    """Finish a task: it is deleted."""
    if not q.ack(
        _held(q, task_id, token),
        result=NO_RESULT if result is None else json_value(result),
        keep=keep,
    ):
        raise _gone(q, task_id)
    talk(f"finished {task_id}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def fail(
    q: DPQ[Any],
    task_id: TaskId,
    token: Token,
    error: Annotated[
        str | None, typer.Option(help="The error; stored with the task.", show_default="none")
    ] = None,
    delay: Annotated[
        float | None, option("SECONDS", "Seconds until the next attempt.", unset="the backoff")
    ] = None,
    priority: NewPriority = None,
) -> None:
    """Count a failed attempt. The task runs again later, or is dead after its last attempt."""
    q.fail(_held(q, task_id, token), error, delay, priority=priority)
    talk(f"failed {task_id}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def release(
    q: DPQ[Any], task_id: TaskId, token: Token, delay: Delay = 0, priority: NewPriority = None
) -> None:
    """Give a task back. The attempt does not count, and the task keeps its position."""
    q.release(_held(q, task_id, token), delay, priority=priority)
    talk(f"released {task_id}")


@app.command("rate-limited", context_settings=TAKES_IDS)
@on_queue
def rate_limited(
    q: DPQ[Any],
    task_id: TaskId,
    token: Token,
    seconds: Annotated[float, argument("SECONDS", "Seconds from now, as in Retry-After.")],
    scope: Annotated[
        Literal["group", "queue", "task", "member"],
        typer.Option(
            help="What to close: the member that the task runs as (else its group), the group "
            "(else the queue), the queue, or only the task."
        ),
    ] = "member",
    status: Annotated[
        int | None,
        typer.Option(min=100, max=999, help="The status of the answer.", show_default="429"),
    ] = None,
) -> None:
    """Give a task back after a 429, and close its group for all consumers. No attempt counts."""
    q.rate_limited(_held(q, task_id, token), seconds, scope, status=status)
    talk(f"rate limited {task_id} for {seconds:g} s")


@app.command(context_settings=TAKES_IDS)
@on_queue
def bury(
    q: DPQ[Any],
    task_id: TaskId,
    token: Token,
    reason: Annotated[
        str, typer.Option(help="The reason; stored with the task.")
    ] = "buried by hand",
    priority: NewPriority = None,
) -> None:
    """Give a task up: it becomes a dead letter."""
    q.bury(_held(q, task_id, token), reason, priority=priority)
    talk(f"buried {task_id}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def extend(
    q: DPQ[Any],
    task_id: TaskId,
    token: Token,
    seconds: Annotated[float, argument("SECONDS", "Seconds from now.")],
) -> None:
    """Extend a lease to that many seconds from now; prints its end, in UTC."""
    print(q.extend(_held(q, task_id, token), seconds).isoformat())


@app.command(context_settings=TAKES_IDS)
@on_queue
def update(
    q: DPQ[Any],
    task_id: AnyTaskId = None,
    key: Key = None,
    priority: NewPriority = None,
    delay: Annotated[
        float | None, option("SECONDS", "Make it ready this long from now.", unset="unchanged")
    ] = None,
    cost: NewCost = None,
) -> None:
    """Change a stored task. If it is running, the change counts for its next attempt."""
    q.update(task_id, key=key, priority=priority, delay=delay, cost=cost)
    talk(f"updated {task_id or key}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def cancel(
    q: DPQ[Any],
    task_id: AnyTaskId = None,
    key: Key = None,
    not_running: Annotated[
        bool, flag("Leave the task alone if it is running.", "--not-running")
    ] = False,
) -> None:
    """Remove a task, or free a key that stayed taken after its task had ended.

    A recurring task does not come back. If the task is running, its handler is told within 10 s.
    """
    try:
        q.cancel(task_id, key=key, running=not not_running)
    except TaskNotFoundError:
        if key is None or not q.admin.forget(key):
            raise
        talk(f"{key!r} is free")
    else:
        talk(f"cancelled {task_id or key}")


@on_new_queue
def pop(
    q: DPQ[Any],
    count: Annotated[int, option("COUNT", "Tasks to take at most, up to 1000.", "-n")] = 1,
    wait: Annotated[
        float, option("[SECONDS]", "Wait this long for a task; without a number, for ever.")
    ] = 0,
    visibility: Annotated[
        float, option("SECONDS", "Time in which no other consumer gets the task.")
    ] = DEFAULT_VISIBILITY,
    ack: Annotated[bool, flag("Finish each task after it is printed.", "--ack")] = False,
    id: Annotated[
        str | None, option("ID", "Take only this task, wherever it stands.", unset="the best")
    ] = None,
    force: Annotated[bool, flag("Take the task of --id even if it is delayed.", "--force")] = False,
) -> None:
    """Take the best ready task; prints it as a line of JSON, with its id and token.

    The exit code is 1 if no task can run. The limits hold for a task of --id, too.
    """
    if id is None and not force:
        tasks = q.pop_many(count, None if wait == float("inf") else wait, visibility)
    else:
        popped = q.pop(wait, visibility, id=id, force=force).task
        tasks = [popped] if popped else []
    for task in tasks:
        emit(task.model_dump())
    sys.stdout.flush()
    if ack:
        q.ack_many(tasks)
    if not tasks:
        raise Failed(_why_none(q) if id is None else f"task {id} cannot run now: {q.why(id)}")


def _why_none(q: DPQ[Any]) -> str:
    stats = q.stats()
    if held := stats.ready + stats.waiting:
        return (
            f"no task of {q.queue_name!r} can run now: {held} wait for a limit, or for "
            "`dpq admin resume`"
        )
    return f"no task is ready in {q.queue_name!r}"
