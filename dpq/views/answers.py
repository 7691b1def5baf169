"""The answers of web applications about one task: its state while it lives, and its end.

`dpq.fastapi` and `dpq.django` send these. Each answer is a status and a JSON object whose `state`
says which answer it is: `done`, `dead`, `unknown`, or the state of a task that has not ended.
"""

from typing import Any, NamedTuple

from pydantic_core import to_json

from dpq.model.errors import ConfigurationError
from dpq.model.task import Task, TaskState
from dpq.script.command import Steps, task_id
from dpq.verbs.stored import Outcome

RETRY_SECONDS = 1
"""Seconds after which a caller may ask again for a task that has not ended."""


class Answer(NamedTuple):
    """An answer about a task."""

    status: int  # the HTTP status: 200 for an end, 202 for a task that has not ended, 404
    says: dict[str, Any]  # the JSON object

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers: no cache keeps the answer, and 202 says when to ask again."""
        kept = {"Cache-Control": "no-store"}
        return kept | {"Retry-After": str(RETRY_SECONDS)} if self.status == 202 else kept

    @property
    def body(self) -> bytes:
        """Return the object as JSON text; infinite numbers are texts, since JSON has none."""
        return to_json(self.says, inf_nan_mode="strings", fallback=str)


def of_task(task: Task[Any]) -> Answer:
    """Describe a task that has not ended; its payload and last error are for operators only."""
    says: dict[str, Any] = {
        "id": task.id,
        "state": task.state.value,
        "attempt": task.attempt,
        "max_attempts": task.max_attempts,
    }
    if task.state is TaskState.DELAYED and task.visible_until:
        says["due"] = task.visible_until
    if progress := task.progress:
        told = progress.model_dump(include={"done", "total", "text"})
        says["progress"] = {**told, "share": progress.share}
    return Answer(202, says)


def of_end(task_id: str, outcome: Outcome) -> Answer:
    """Describe the end of a task."""
    if outcome.result is not None:
        return Answer(200, {"id": task_id, "state": "done", "result": outcome.result.value})
    if outcome.state == "dead":
        return Answer(200, {"id": task_id, "state": "dead", "reason": outcome.reason})
    return unknown(task_id)


def of_now(operations: Any, task_id: str) -> Steps[Answer]:
    """Read a task, or its end, in one round trip."""
    outcome, task = yield from operations.examine(task_id)
    if outcome.state == "live" and task is None:  # it was replayed between the two reads
        outcome, task = yield from operations.examine(task_id)
    return of_task(task) if task else of_end(task_id, outcome)


def unknown(task_id: str) -> Answer:
    """Describe a task of which nothing is known."""
    return Answer(404, {"id": task_id, "state": "unknown"})


def may_be_id(text: str) -> bool:
    """Return True if a text, such as a part of an address, may be the id of a task."""
    try:
        task_id(text)
    except ConfigurationError:
        return False
    return True
