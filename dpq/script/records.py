"""Stored records -> tasks. Only this module reads the record of a task.

The readers of `replies` call it. `lib/record/record.lua` says what stands in a record, and
docs/storage.md, "The record". It must not send anything. A record of a task that was popped once:

    1795360535662001 0 1 0 - 0 q1a203d3b46e000000000000001 5 TAB example.com
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from dpq.limits.cost import read_cost
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.errors import ConfigurationError, PayloadError
from dpq.model.moments import moment_of
from dpq.model.payload import Codec
from dpq.model.priority import decode_priority
from dpq.model.schedule import read_schedule
from dpq.model.task import DeadTask, Task, TaskState
from dpq.model.validation import NO_LIMIT

P = TypeVar("P")

_set = object.__setattr__  # sets an attribute of a frozen model

_ALL_FIELDS: dict[type[Task[Any]], set[str]] = {
    kind: set(kind.model_fields) for kind in (Task, DeadTask)
}
"""The fields that were set; shared by all tasks, since nothing changes it (a copy gets its own)."""


OPTIONS, PIN, BATCH, UNIQUE, LAPSES, AFTER = "\x1f", "\x1e", "\x1b", "\x1a", "\x18", "\x19"
SPENT, RUNS_AS = "\x1d", "\x1c"
"""The marks of the notes of a record: lua/lib/record/notes.lua says what they are."""

_NOTE = re.compile("([\x17-\x1f])([^\x17-\x1f]*)")

_OPTIONS = re.compile(
    r"(\d{1,12}) (\d{1,12})(?: ([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}))?"
    r"(?: \+(\d{1,12}(?:,\d{1,12}){0,15}))?",
    re.ASCII,
)

FOR_EVER_MS = 4_000_000_000_000_000
"""The ms of `unique_for=math.inf`: with the ms since 1970 the sum is still exact as a double, and
larger than all other moments."""

COMMON_ATTEMPTS = 10
"""The `max_attempts` that a short record leaves out; lib/record/record.lua has the same number."""

NO_RECORD = b"0 0 0 0 - 0 f0 1 1 0 1 0 0 0\t\t\tbad record\tbad record"
"""The record that is shown if the stored one cannot be read; pop and upkeep bury the task."""

UNREADABLE = (ValueError, LookupError, ArithmeticError)
"""The errors of reading damaged data; `PayloadError` is one of them."""


def make_task(
    kind: type[Task[P]],
    task_id: str,
    record: bytes,
    payload: Any,
    state: TaskState,
    until: datetime | None,
    **more: Any,
) -> Task[P]:
    """Make a task of a stored record; `more` are the further fields of a dead letter."""
    token, counts, since, _, max_attempts, priority, more_of_it, names = record_parts(record)
    values = _counted(counts).copy()
    values["visible_until"] = until
    values["state"] = state
    if more_of_it is None:
        values["group"] = names or None
    else:
        _add_more(values, token, since, more_of_it, names)
    values["id"] = task_id
    values["payload"] = payload
    values["priority"] = decode_priority(priority)
    values["max_attempts"] = _most(max_attempts)
    values["enqueued_at"] = moment_of(since)
    values["token"] = int(token)
    if more:
        values.update(more)
    # This does the same as pydantic's model_construct, without its search for defaults: 0.4 us, not
    # 2.9. Validation takes 1.4 us, and these values come from a line that was just read.
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
        "lapses": 0,
        "attempt": int(attempts) + 1,
        "deliveries": int(deliveries),
        "deferrals": int(deferrals),
        "cost": 1,
    }


@lru_cache(maxsize=1000)
def _costs(text: str) -> tuple[int, dict[str, int] | None]:
    """Read the cost in a record, which is the same in many records; the caller copies."""
    return read_cost(text)


def _most(attempts: str) -> int | float:
    most = int(attempts or COMMON_ATTEMPTS)
    return math.inf if most == NO_LIMIT else most


_Parts = tuple[str, str, int, str, str, str, tuple[str, str, str, str] | None, str]
"""Token, other counts, enqueued, order, max_attempts, priority, more, and the text behind a TAB.

"More" is cost, wait, expires and aging; None for a short record, which has none of them.
"""


def record_parts(record: bytes) -> _Parts:
    """Take a record of any form apart."""
    head, _, names = str(record, "utf-8", "replace").partition("\t")
    if head[0] in "qf":  # the task was never delivered
        head = f"0 0 0 0 - 0 {head}"
    counts, short, rest = head.partition(" q")
    if short:
        token, _, counts = counts.partition(" ")
        max_attempts, priority = rest[26:].split(" ")
        order = f"1{rest[11:26]}"
        return token, counts, int(rest[:11], 16), order, max_attempts, priority, None, names
    token, *others, first, order, max_attempts, priority, cost, wait, expires, aging = head.split(
        " "
    )
    if first[:1] != "f":
        raise ValueError("this is no full record")
    more = cost, wait, expires, aging
    return token, " ".join(others), int(first[1:]), order, max_attempts, priority, more, names


def _add_more(
    values: dict[str, Any], token: str, since: int, more: tuple[str, str, str, str], names: str
) -> None:
    """Add what only a full record has."""
    cost, wait, _, _ = more
    group, key, _, error = names.split("\t", 3)
    error, is_recurring, schedule = error.partition("\t")
    values["group"], values["key"] = group or None, key or None
    if cost != "1":
        values["cost"], costs = _costs(cost)
        values["costs"] = costs and costs.copy()
    if not error and not is_recurring:
        return
    error, notes = split_notes(error)
    values["last_error"] = error or None
    if PIN in notes:
        values["pinned"] = notes[PIN]
    if BATCH in notes:
        values["batch"] = notes[BATCH].partition("\x01")[0] or None
    if UNIQUE in notes:
        values["unique_for"] = read_unique_for(notes[UNIQUE])
    if AFTER in notes and values["state"] is TaskState.DELAYED and not values["visible_until"]:
        values["after"] = read_after(notes[AFTER])[0]
    if RUNS_AS in notes:
        values["member"] = live_note(notes, RUNS_AS, token)
    if LAPSES in notes:
        values["max_lapses"], values["lapses"] = read_lapses(notes[LAPSES])
    if OPTIONS in notes:
        values.update(read_options(notes[OPTIONS]))
    if is_recurring:
        values["every"], values["cron"] = read_schedule(schedule)
        values["scheduled_at"] = moment_of(since + int(wait))


def scope_of(record: bytes) -> str:
    """Read the group of a running task, and behind a TAB the member that it runs as."""
    try:
        task = make_task(Task, "", record, None, TaskState.INVISIBLE, None)
    except UNREADABLE:
        return ""
    return f"{task.group or ''}\t{task.member}" if task.member else task.group or ""


def reason_of(record: bytes) -> tuple[int, str]:
    """Read the failures of a dead task, and the reason of its death."""
    attempts = 0 if record[:1] in b"qf" else int(record.split(b" ", 2)[1])
    names = record.split(b"\t", 4)
    return attempts, names[3].decode("utf-8", "replace") if len(names) > 3 else ""


def split_notes(text: str) -> tuple[str, dict[str, str]]:
    """Split the last error of a record from the notes behind it, which are given by their marks."""
    found = _NOTE.search(text)
    if found is None:
        return text, {}
    return text[: found.start()], dict(_NOTE.findall(text))


def live_note(notes: Mapping[str, str], mark: str, token: str) -> str | None:
    """Return the note of this delivery; None if no note is there, or if it is of another one."""
    of, _, text = notes.get(mark, "").partition(" ")
    return text if of == token else None


def read_options(text: str) -> dict[str, Any]:
    """Read the options of one task: None for a missing one, and for all if they are damaged."""
    found = _OPTIONS.fullmatch(text)
    visibility, limit, trace, backoff = found.groups() if found else ("0", "0", None, None)
    return {
        "visibility": int(visibility) / 1000 or None,
        "time_limit": int(limit) / 1000 or None,
        "trace": trace,
        "backoff": tuple(int(ms) / 1000 for ms in backoff.split(",")) if backoff else None,
    }


def read_unique_for(text: str) -> float | None:
    """Read for how long the key of a task stays taken, in seconds; None for damage."""
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(FOR_EVER_MS)):
        return None
    return math.inf if int(text) >= FOR_EVER_MS else int(text) / 1000


def read_after(text: str) -> tuple[list[str] | None, str]:
    """Read the tasks that a task waits for, and its `on_dead`."""
    fate, *ids = text.removeprefix("+").split("\x01")
    return ids or None, "run" if fate == "r" else "bury"


def read_lapses(text: str) -> tuple[int | None, int]:
    """Read the most lapses of one task, or None, and how many there were."""
    most, _, lapses = text.partition(" ")
    known = most.isdecimal() and lapses.isdecimal()
    return (int(most), int(lapses)) if known else (None, 0)


def stored_task(
    codec: Codec[P], task_id: str, state: TaskState, until: bytes, record: bytes, body: bytes
) -> Task[P]:
    """Read a task in any state; an unreadable payload is its stored text."""
    when = moment_of(float(until))
    try:
        make_task(Task, task_id, record, None, state, when)
    except UNREADABLE:
        record = NO_RECORD
    try:
        payload, met = read_payload(codec, body, task_id)
    except PayloadError as error:
        met = error
    if met is not None:
        payload = body.decode("utf-8", "replace")
    if state is not TaskState.DEAD:
        timed = state in (TaskState.DELAYED, TaskState.INVISIBLE)
        visible = when if timed and float(until) < UNTIL_OPENED_MS else None
        return make_task(Task, task_id, record, payload, state, visible)
    attempts, reason = reason_of(record)
    more = {"reason": reason, "attempts": attempts, "died_at": when}
    return make_task(DeadTask, task_id, record, payload, state, None, **more)


def read_payload(codec: Codec[P], body: bytes, task_id: str) -> tuple[Any, Exception | None]:
    """Read a payload; if a validator of its type raises an error, return None and that error."""
    try:
        return codec.decode(body, task_id), None
    except (ConfigurationError, PayloadError):  # not of a validator: pydantic wraps its ValueErrors
        raise
    except Exception as error:  # of a validator
        return None, error
