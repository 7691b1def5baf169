"""The operations on the results of finished tasks, and on the progress of running ones. No I/O."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic_core import from_json

from dpq.model.errors import ConfigurationError
from dpq.model.moments import moment_of
from dpq.model.task import Task, TaskState
from dpq.model.task_data import Progress, Result
from dpq.model.validation import whole_number
from dpq.script.command import Steps, leased, task_id
from dpq.script.records import UNREADABLE, make_task, reason_of
from dpq.script.values import in_rows, read_texts
from dpq.verbs.base import BATCH_BYTES, OperationsBase, in_batches

MAX_RESULTS = 1000
"""Results in one call."""

PROGRESS_BATCH = 100
"""Tasks whose progress is told in one round trip."""


class Outcome(NamedTuple):
    """The end of a task, or its state."""

    state: str  # done, dead, live, or "" if nothing is known of it
    result: Result | None = None  # of a done task: its newest result that is kept
    reason: str = ""  # of a dead task, as its last error
    last_error: str | None = None
    token: int = 0  # of a live task: its newest delivery
    progress: Progress | None = None  # what the delivery `told_by` has said last
    told_by: int = 0


class ResultOperations(OperationsBase[Any]):
    """Every operation on results and on progress."""

    def outcome(self, id_: str) -> Steps[Outcome]:
        """Read what has become of a task."""
        known = task_id(id_)
        return self._ask("result", [self._now(), known], partial(read_outcome, known))

    def results(self, after: str, limit: int) -> Steps[list[Result]]:
        """Read results behind a position, up to 4 MiB of them, but at least one."""
        most, after = whole_number("limit", limit, 1, MAX_RESULTS), after or "0"
        if not isinstance(after, str) or not re.fullmatch(r"\d{1,16}(-\d{1,16})?", after, re.ASCII):
            raise ConfigurationError(
                f"after is {after!r}: it must be the id of a result of this queue, or '' to begin "
                "with the oldest"
            )
        found: list[Result] = []
        room = BATCH_BYTES
        again: bytes | bool = True
        while again and len(found) < most and room > 0:
            args = [self._now(), after, most - len(found), room]
            known, again, *page = yield self._command("results", args, list)
            found += _results(page)
            room -= sum(map(len, page[4::5]))
            after = known.decode()
        return found

    def tell_progress(self, told: Sequence[tuple[Task[Any], str]]) -> Steps[list[bool]]:
        """Store how far the work on tasks is; False if a delivery is not the live one."""
        kept: list[bool] = []
        for batch in in_batches(told, PROGRESS_BATCH):
            args: list[Any] = [self._now()]
            for task, text in batch:
                args += (leased(task).id, task.token, text)
            reply = yield self._command("progress", args, list)
            kept += (code == 1 for code in reply)
        return kept


def read_outcome(id_: str, reply: list[bytes]) -> Outcome:
    """Read the reply of the script result."""
    kind, *rest = reply
    state = kind.decode()
    if state == "done":
        return Outcome(state, _result(rest[0], rest[1], rest[2], id_.encode(), rest[3]))
    if state == "dead":
        try:
            task = make_task(Task, id_, rest[0].partition(b"\n")[0], None, TaskState.DEAD, None)
            reason = reason_of(rest[0].partition(b"\n")[0])[1]
        except UNREADABLE:
            return Outcome(state, reason="bad record")
        return Outcome(state, reason=reason, last_error=task.last_error)
    if state == "live":
        by, progress = read_progress(rest[1].decode("utf-8", "replace"))
        return Outcome(state, token=int(rest[0]), progress=progress, told_by=by)
    return Outcome(state)


def read_progress(stored: str) -> tuple[int, Progress | None]:
    """Read a stored progress, and the token of its delivery; leave out what others wrote."""
    try:
        token, at, done, total, text = stored.split(" ", 4)
        whole = None if total == "-" else float(total)
        return int(token), Progress(done=float(done), total=whole, text=text, at=moment_of(int(at)))
    except ValueError:
        return 0, None


def _results(page: Sequence[bytes]) -> list[Result]:
    found = []
    for number, at, until, id_, body in in_rows(page, 5):
        try:
            found.append(_result(number, at, until, id_, body))
        except ValueError:  # another program wrote into Redis
            continue
    return found


def _result(number: bytes, at: bytes, until: bytes, id_: bytes, body: bytes) -> Result:
    place, when, end, name = read_texts([number, at, until, id_])
    return Result(
        id=f"{place}-{when}",
        task_id=name,
        value=from_json(body),
        at=moment_of(int(when)),
        kept_until=moment_of(int(end)),
    )
