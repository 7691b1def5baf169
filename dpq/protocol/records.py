"""Stored records -> tasks: the only module that takes a record apart. replies.py calls it. No I/O.

A record is a line of text, of which docs/design.md has the layout, "The record":

    1795360535662001 0 1 0 - 0 p1795360535662 1000000000000001 10 5 TAB example.com
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from dpq.model.priority import decode_priority
from dpq.model.schedule import read_schedule
from dpq.model.task import DeadTask, Task, TaskState
from dpq.protocol.values import moment_of

if TYPE_CHECKING:
    from datetime import datetime

P = TypeVar("P")

MAX_OPTION_DIGITS = 12  # of a duration: 10 years in ms

NO_RECORD = b"0 0 0 0 - 0 f0 1 1 0 1 0 0 0\t\t\tbad record\tbad record"
"""The record that is shown if the stored one cannot be read; pop and upkeep bury the task."""

UNREADABLE = (ValueError, LookupError, ArithmeticError)
"""The errors of reading damaged data; `PayloadError` is one of them."""

_set = object.__setattr__  # sets attributes of a frozen model

_ALL_FIELDS: dict[type[Task[Any]], set[str]] = {
    kind: set(kind.model_fields) for kind in (Task, DeadTask)
}
"""The fields that were set; shared by all tasks, since nothing changes it (a copy gets its own)."""


def make_task(
    kind: type[Task[P]],
    task_id: str,
    record: bytes,
    payload: Any,
    state: TaskState,
    until: datetime | None,
    **more: Any,
) -> Task[P]:
    """Make a task from its record.

    Raises:
        ValueError, LookupError, ArithmeticError: It is no record.
    """
    head, _, names = str(record, "utf-8", "replace").partition("\t")
    if head[0] in "pf":  # no delivery yet
        head = f"0 0 0 0 - 0 {head}"
    counts, plain, rest = head.partition(" p")
    if plain:
        token, _, counts = counts.partition(" ")
        enqueued, _, max_attempts, priority = rest.split(" ")
        values = _counted(counts).copy()
        values["group"] = names or None
    else:
        token, values, max_attempts, priority, enqueued = _full(head, names)
    values["id"] = task_id
    values["payload"] = payload
    values["priority"] = decode_priority(priority)
    values["max_attempts"] = int(max_attempts)
    values["enqueued_at"] = moment_of(int(enqueued))
    values["visible_until"] = until
    values["state"] = state
    values["token"] = int(token)
    if more:
        values.update(more)
    # What pydantic's own model_construct does, without its search for defaults: 0.4 us, not 2.9;
    # validation takes 1.4, and these values come from one line that was just taken apart.
    task = kind.__new__(kind)
    _set(task, "__dict__", values)
    _set(task, "__pydantic_fields_set__", _ALL_FIELDS[kind])
    _set(task, "__pydantic_extra__", None)
    _set(task, "__pydantic_private__", None)
    return task


@lru_cache(maxsize=1000)
def _counted(counts: str) -> dict[str, Any]:
    """Read the counts of a record, which are the same in most records; the caller copies."""
    attempts, deliveries, deferrals, _, _ = counts.split(" ")
    return dict.fromkeys(Task.model_fields) | {
        "attempt": int(attempts) + 1,
        "deliveries": int(deliveries),
        "deferrals": int(deferrals),
        "cost": 1,
    }


def _full(head: str, names: str) -> tuple[str, dict[str, Any], str, str, str]:
    """Read a full record, or one of format 3: token, values, max_attempts, priority, enqueued."""
    token, attempts, deliveries, deferrals, delivery, again, *rest = head.split(" ")
    if rest[0][:1] == "f":
        enqueued, _, max_attempts, priority, cost, wait, _, _ = rest
        enqueued = enqueued[1:]
    else:
        max_attempts, cost, wait, priority, enqueued, _, _, _ = rest
    counts = f"{attempts} {deliveries} {deferrals} {delivery} {again}"
    group, key, _, error = names.split("\t", 3)
    error, is_recurring, schedule = error.partition("\t")
    error, has_options, options = error.partition("\x1f")
    values = _counted(counts) | {
        "group": group or None,
        "key": key or None,
        "cost": int(cost),
        "last_error": error or None,
    }
    if has_options:
        values["visibility"], values["time_limit"] = read_options(options)
    if is_recurring:
        values["every"], values["cron"] = read_schedule(schedule)
        values["scheduled_at"] = moment_of(int(enqueued) + int(wait))
    return token, values, max_attempts, priority, enqueued


def reason_of(record: bytes) -> tuple[int, str]:
    """Read the failures of a dead task, and the reason of its death.

    Raises:
        ValueError, LookupError: It is no record.
    """
    attempts = 0 if record[:1] in b"pf" else int(record.split(b" ", 2)[1])
    names = record.split(b"\t", 4)
    return attempts, names[3].decode("utf-8", "replace") if len(names) > 3 else ""


def read_options(text: str) -> tuple[float | None, float | None]:
    """Read the visibility and the time limit of one task; None for a missing or damaged one."""
    visibility, _, limit = text.partition(" ")
    return _option(visibility), _option(limit)


def _option(ms: str) -> float | None:
    short = ms.isascii() and ms.isdecimal() and len(ms) <= MAX_OPTION_DIGITS
    return int(ms) / 1000 or None if short else None
