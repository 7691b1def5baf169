"""`dpq pop`: takes tasks."""

import sys
from typing import Annotated, Any

from dpq import DPQ
from dpq.cli._existing import on_new_queue
from dpq.cli._options import flag, option
from dpq.cli._terminal import Failed, emit
from dpq.model.queue_settings import DEFAULT_VISIBILITY


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
