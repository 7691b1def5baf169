"""`dpq pop`; `dpq task`: ends of tasks by hand, and changes of one task; `dpq dead`."""

import sys
from typing import Annotated, Any, Literal

import typer

from dpq import DPQ, NO_RESULT, Task, TaskNotFoundError, TaskState
from dpq.cli import _command as cmd
from dpq.cli._terminal import Failed, emit, talk
from dpq.cli.look import show_tasks
from dpq.cli.produce import json_value
from dpq.model.queue_settings import DEFAULT_VISIBILITY
from dpq.model.results import DEFAULT_KEEP
from dpq.queue.inside import operations_of, session_of
from dpq.verbs.stored import chosen_by


def _held(q: DPQ[Any], task_id: str, token: int) -> Task[Any]:
    try:
        return q.get(task_id).model_copy(update={"token": token})
    except TaskNotFoundError:
        raise _gone(q, task_id) from None


def _gone(q: DPQ[Any], task_id: str) -> Failed:
    return Failed(f"task {task_id} is gone: finished, cancelled, or never in {q.queue_name!r}")


@cmd.on_queue
def ack(
    q: DPQ[Any],
    task_id: cmd.TaskId,
    token: cmd.Token,
    result: Annotated[str | None, cmd.option("JSON")] = None,
    keep: cmd.Seconds = DEFAULT_KEEP,
) -> None:
    """Finish a task: it is deleted.

    Args:
        result: The result, for `dpq get ID --wait`.
        keep: Keep the result this long.
    """
    value = NO_RESULT if result is None else json_value(result)
    if not q.ack(_held(q, task_id, token), result=value, keep=keep):
        raise _gone(q, task_id)
    talk(f"finished {task_id}")


@cmd.on_queue
def fail(
    q: DPQ[Any],
    task_id: cmd.TaskId,
    token: cmd.Token,
    error: cmd.Text | None = None,
    delay: cmd.Seconds | None = None,
    priority: cmd.Number | None = None,
) -> None:
    """Count a failed attempt. The task runs again later, or is dead after its last attempt.

    Args:
        error: The error; it is stored with the task.
        delay: Seconds until the next attempt; if not given, the queue's backoff decides.
    """
    q.fail(_held(q, task_id, token), error, delay, priority=priority)
    talk(f"failed {task_id}")


@cmd.on_queue
def release(
    q: DPQ[Any],
    task_id: cmd.TaskId,
    token: cmd.Token,
    delay: cmd.Seconds = 0,
    priority: cmd.Number | None = None,
) -> None:
    """Give a task back. The attempt does not count, and the task keeps its position."""
    q.release(_held(q, task_id, token), delay, priority=priority)
    talk(f"released {task_id}")


@cmd.on_queue
def rate_limited(
    q: DPQ[Any],
    task_id: cmd.TaskId,
    token: cmd.Token,
    seconds: cmd.FromNow,
    scope: Literal["group", "queue", "task", "member"] = "member",
    status: Annotated[int | None, cmd.option("STATUS", min=100, max=999)] = None,
) -> None:
    """Give a task back after a 429, and close its group for all consumers. No attempt counts.

    Args:
        seconds: Seconds from now, as in Retry-After.
        scope: What closes. member: the member of the pool that the task runs as, else its group;
            group: its group, else the queue; queue; task: only this task.
        status: The status of the answer, if it was not 429.
    """
    q.rate_limited(_held(q, task_id, token), seconds, scope, status=status)
    talk(f"rate limited {task_id} for {seconds:g} s")


@cmd.on_queue
def bury(
    q: DPQ[Any],
    task_id: cmd.TaskId,
    token: cmd.Token,
    reason: cmd.Text = "buried by hand",
    priority: cmd.Number | None = None,
) -> None:
    """Give a task up: it becomes a dead letter.

    Args:
        reason: The reason; it is stored with the task.
    """
    q.bury(_held(q, task_id, token), reason, priority=priority)
    talk(f"buried {task_id}")


@cmd.on_queue
def extend(q: DPQ[Any], task_id: cmd.TaskId, token: cmd.Token, seconds: cmd.FromNow) -> None:
    """Extend a lease: it ends that many seconds from now. Prints the end, in UTC."""
    print(q.extend(_held(q, task_id, token), seconds).isoformat())


@cmd.on_queue
def update(
    q: DPQ[Any],
    task_id: cmd.AnyTaskId = None,
    key: cmd.Text | None = None,
    priority: cmd.Number | None = None,
    delay: cmd.Seconds | None = None,
    cost: cmd.Units = None,
) -> None:
    """Change a stored task. If it is running, the change counts for its next attempt.

    Args:
        delay: Make it ready this long from now.
        cost: The units it takes of each limit: 3, or by name, as in tokens=1800.
    """
    q.update(task_id, key=key, priority=priority, delay=delay, cost=cost)
    talk(f"updated {task_id or key}")


@cmd.on_queue
def cancel(
    q: DPQ[Any],
    task_id: cmd.AnyTaskId = None,
    key: cmd.Text | None = None,
    not_running: bool = False,
) -> None:
    """Remove a task, or free a key that stayed taken after its task had ended.

    A recurring task does not come back. If the task is running, its handler is told within 10 s.

    Args:
        not_running: Leave the task alone if it is running.
    """
    try:
        q.cancel(task_id, key=key, running=not not_running)
    except TaskNotFoundError:
        if key is None or not q.admin.forget(key):
            raise
        talk(f"{key!r} is free")
    else:
        talk(f"cancelled {task_id or key}")


@cmd.on_new_queue
def pop(
    q: DPQ[Any],
    count: cmd.Count = 1,
    wait: Annotated[float, cmd.option("[SECONDS]")] = 0,
    visibility: cmd.Seconds = DEFAULT_VISIBILITY,
    ack: bool = False,
    id: cmd.Id | None = None,
    force: bool = False,
) -> None:
    """Take the best ready task, and print it as a line of JSON, with its id and token.

    The exit code is 1 if no task can run. The limits hold for a task of --id, too.

    Args:
        count: Tasks to take at most, up to 1000.
        wait: Wait this long for a task; without a number, for ever.
        visibility: Time in which no other consumer gets the task.
        ack: Finish each task after it is printed.
        id: Take only this task, wherever it stands.
        force: Take the task of --id even if it is delayed.
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
        none = f"no task is ready in {q.queue_name!r}: {q.why()}"
        raise Failed(none if id is None else f"task {id} cannot run now: {q.why(id)}")


@cmd.on_queue
def list_(
    q: DPQ[Any],
    count: cmd.Count = 20,
    reason: cmd.Text | None = None,
    group: cmd.Name | None = None,
    json: bool = False,
) -> None:
    """Show dead tasks with their reason and last error; the newest first."""
    any_of_them = reason is None and group is None
    chosen, most = chosen_by(reason, group, None), count if any_of_them else 10**9
    found = session_of(q).run(operations_of(q).dead_list, most, chosen, newest=True)
    show_tasks(q.queue_name, TaskState.DEAD, found[:count], json)
    if (more := (q.stats().dead if any_of_them else len(found)) - count) > 0:
        talk(f"{more} more: dpq dead list -n {count + more}")


@cmd.on_queue
def replay(
    q: DPQ[Any],
    ids: Annotated[list[str] | None, cmd.argument("ID")] = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    reason: cmd.Text | None = None,
    group: cmd.Name | None = None,
    rate: cmd.Number | None = None,
) -> None:
    """Make dead tasks ready again, with all their attempts; print how many.

    Args:
        ids: Ids of dead tasks.
        everything: All dead tasks.
        rate: Tasks per second; if not given, all at once.
    """
    if bool(ids) + everything + (reason is not None or group is not None) != 1:
        raise typer.BadParameter("name the tasks: give ids, or --all, or --reason and --group")
    print(q.dead.replay(ids or None, reason=reason, group=group, rate=rate))
