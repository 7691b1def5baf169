"""`dpq result` and `dpq watch`: what a task has returned, and how far a running one is."""

import time
from typing import Annotated, Any

from rich.progress import BarColumn, TaskProgressColumn, TextColumn

from dpq import DPQ, Task, TaskState
from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Queue, TaskId, Url, option
from dpq.cli._progress import Bar
from dpq.cli._terminal import emit
from dpq.model.display import attempt_of, shown
from dpq.queue.ends import follow


def result(
    task_id: TaskId,
    timeout: Annotated[
        float | None, option("SECONDS", "Wait so long for the end of the task.", min=0)
    ] = 0,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Print what a finished task has returned, as one line of JSON.

    The exit code is 1, and the message says which, if the task is a dead letter, if it has not
    ended yet, or if nothing is known of it: its result was not kept, or is no longer kept.
    """
    with existing(url, queue) as q:
        emit(q.result(task_id, timeout=timeout))


def watch(
    task_id: TaskId,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show the state and the progress of a task until it ends; then print its result as JSON.

    Progress is what its handler tells (`context.progress`). The exit code is that of `dpq result`.
    """
    with existing(url, queue) as q:
        bar = Bar(
            TextColumn("{task.fields[state]}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            lines=False,
            state="",
            text="",
        )
        try:
            value = _watched(q, task_id, bar)
        finally:
            bar.stop()
    emit(value)


def _watched(q: DPQ[Any], task_id: str, bar: Bar) -> Any:
    """Show a task again and again, until it has ended; return its result."""
    said = ""

    def tell(task: Task[Any]) -> None:
        nonlocal said
        line = _line(task)
        if line != said or bar.live:
            bar.show(line, **_fields(task))
        said = line

    follow(q, task_id, tell, lambda: bar.seconds)
    return q.result(task_id)


def _line(task: Task[Any]) -> str:
    return " ".join((task.id, _state(task), shown(str(task.progress or "")))).rstrip()


def _state(task: Task[Any]) -> str:
    """Write the state, with the attempt of a running task, or the seconds until it is due."""
    if task.state is TaskState.INVISIBLE:
        return f"running (attempt {attempt_of(task.attempt, task.max_attempts)})"
    if task.state is TaskState.DELAYED and task.visible_until:
        return f"delayed ({max(0, round(task.visible_until.timestamp() - time.time()))} s)"
    return str(task.state.value)


def _fields(task: Task[Any]) -> dict[str, Any]:
    """Return the fields of the bar: it moves to and fro while nothing is known."""
    progress = task.progress
    return {
        "state": _state(task),
        "completed": progress.done if progress else 0,
        "total": progress.total if progress else None,
        "text": shown(progress.text) if progress else "",
    }
