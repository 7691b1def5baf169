"""A stored task as the line of an export, and back: every field has a name, and JSON types.

`verbs.transfer` calls it. A line does not depend on the storage format, so an export is the way
from one format to the next. What has its usual value is left out. The payload comes last:

    {"id": "B-xy", "state": "ready", "priority": "5", "sequence": 42, "enqueued_ms": 1795360535662,
     "group": "example.com", "payload": {"url": "..."}}
"""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dpq.limits.cost import read_cost
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.errors import ConfigurationError
from dpq.model.priority import decode_priority, encode_priority
from dpq.model.task import OnDead, Push
from dpq.model.validation import NO_LIMIT, label
from dpq.script.records import (
    AFTER,
    BATCH,
    COMMON_ATTEMPTS,
    FOR_EVER_MS,
    LAPSES,
    OPTIONS,
    PIN,
    UNIQUE,
    UNREADABLE,
    read_after,
    read_lapses,
    read_options,
    record_parts,
    split_notes,
)

LIFO = 999_999_999_999_999
"""With LIFO a record has this number less its sequence; lua/push.lua has it, too."""

SEALS = "\x01"
"""The sign before a batch that the task waits for, in place of a batch that it is of."""

MOST_COUNT = 10**13 - 1
"""The largest count and moment (ms) of a record, with a digit to spare for the sums of scripts."""

MOST_DUE_MS = 4_102_444_800_000
"""The year 2100: a task that is due later, and waits for no other, was not pushed by DPQ."""


def _named(value: str) -> str:
    if label("id", value)[0] == "~":
        raise ValueError("it must have no ~ at its start")
    return value


Id = Annotated[str, AfterValidator(_named)]
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Moment = Annotated[float, Field(ge=0, le=LIFO)]
Text = Annotated[str, Field(max_length=8192, pattern=r"^[^\x00-\x1f]*$")]


class TaskLine(BaseModel):
    """The line of a task, without its payload; the check of pushes knows what is not checked here.

    A `schedule` is as in "e 0 1763684707000 3600000" (docs/storage.md, "The record"). `errors` is
    of storage format 3, and is dropped.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Id
    state: Literal["ready", "delayed", "dead"]
    holds: bool = False
    due_ms: Moment | None = None
    died_ms: Moment | None = None
    priority: str = Field(max_length=24, pattern=r"^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$")
    sequence: int = Field(ge=0, le=LIFO)
    enqueued_ms: Count
    wait_ms: Count = 0
    max_attempts: int | None = COMMON_ATTEMPTS
    attempts: Count = 0
    deliveries: Count = 0
    deferrals: Count = 0
    rerun_ms: Count = 0
    cost: int | dict[str, int] = 1
    expires_ms: Count = 0
    ages: bool = False
    group: str = ""
    key: str = ""
    reason: Text = ""
    error: Text = ""
    visibility_ms: Count = 0
    time_limit_ms: Count = 0
    trace: str | None = None
    backoff_ms: list[Count] = []
    member: str | None = None
    batch: str | None = None
    seals: str | None = None
    unique_for_ms: int = Field(0, ge=0, le=FOR_EVER_MS)
    after: list[Id] | None = None
    on_dead: OnDead = "bury"
    max_lapses: int | None = None
    lapses: Count = 0
    schedule: str | None = Field(
        None, pattern=r"^(e( [0-9]{1,13}){3}|c( [0-9]{1,13}){2} [^\x00-\x1f]+ [^\x00-\x20]+)$"
    )
    errors: Any = None


_USUAL = {name: field.default for name, field in TaskLine.model_fields.items()}


class Entry(NamedTuple):
    """A task as the script `import` takes it."""

    state: str  # ready, delayed, held (delayed, and it holds its group in order) or dead
    id: str
    when: str  # the moment in delayed or dead, ms
    record: str
    payload: bytes


# Writing a line


def to_line(
    id_: str, state: str, when: str, record: bytes, body: bytes, *, lifo: bool
) -> dict[str, Any]:
    """Make the fields of a stored task; of a damaged one only what it stands for."""
    try:
        if not body:
            raise ValueError("its payload is lost")
        return _fields(id_, state, when, record, lifo) | payload_of(body)
    except (*UNREADABLE, ConfigurationError):
        shown = record.decode("utf-8", "backslashreplace")
        return {"damaged": id_, "record": shown, **payload_of(body, whole=True)}


def _fields(id_: str, state: str, when: str, record: bytes, lifo: bool) -> dict[str, Any]:
    _, counts, enqueued, order, most, priority, more, names = record_parts(record)
    attempts, deliveries, deferrals, _, again = counts.split(" ")
    cost, wait, expires, aging = more or ("1", "0", "0", "0")
    group, key, reason, error = (
        (*names.split("\t", 3), "", "", "")[:4] if more else (names, *[""] * 3)
    )
    error, _, schedule = error.partition("\t")
    error, notes = split_notes(error)
    place = int(order[-15:])
    requests, costs = read_cost(cost)
    options = read_options(notes.get(OPTIONS, ""))
    batch, (after, on_dead) = notes.get(BATCH, ""), read_after(notes.get(AFTER, ""))
    most_lapses, lapses = read_lapses(notes.get(LAPSES, ""))
    found = {
        "id": id_,
        "state": "delayed" if state == "held" else state,
        "holds": state == "held",
        "died_ms" if state == "dead" else "due_ms": _number(when) if state != "ready" else None,
        "priority": encode_priority(decode_priority(priority))[0],  # raises if it is no priority
        "sequence": LIFO - place if lifo else place,
        "enqueued_ms": enqueued,
        "wait_ms": int(wait),
        "max_attempts": None if most == str(NO_LIMIT) else int(most or COMMON_ATTEMPTS),
        "attempts": int(attempts),
        "deliveries": int(deliveries),
        "deferrals": int(deferrals),
        "rerun_ms": int(again),
        "cost": {"": requests, **costs} if costs else requests,
        "expires_ms": int(expires),
        "ages": aging != "0",
        "group": group,
        "key": key,
        "reason": reason,
        "error": error,
        "visibility_ms": round((options["visibility"] or 0) * 1000),
        "time_limit_ms": round((options["time_limit"] or 0) * 1000),
        "trace": options["trace"],
        "backoff_ms": [round(s * 1000) for s in options["backoff"] or ()],
        "member": notes.get(PIN),
        "batch": None if batch[:1] in ("", SEALS) else batch,
        "seals": batch[1:] if batch[:1] == SEALS else None,
        "unique_for_ms": int(notes.get(UNIQUE, "0")),
        "after": after,
        "on_dead": on_dead,
        "max_lapses": most_lapses,
        "lapses": lapses,
        "schedule": schedule or None,
    }
    return {name: value for name, value in found.items() if value != _USUAL[name]}


def _number(text: str) -> int | float:
    """Read a score: an int if it is whole, as most are."""
    value = float(text)
    return int(value) if value.is_integer() else value


def payload_of(body: bytes, *, whole: bool = False) -> dict[str, Any]:
    """Make the field of a payload: its value, if that gives the same bytes again; else its text."""
    text = body.decode("utf-8", "backslashreplace")
    if text.encode() != body:
        return {"payload_latin1": body.decode("latin-1")}
    try:
        value = json.loads(text)
        if not whole and dumped(value) == text:
            return {"payload": value}
    except (ValueError, RecursionError):
        pass
    return {"payload_text": text}


def dumped(value: Any) -> str:
    """Write a value as JSON, as short as it can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# Reading a line


def read_line(fields: Mapping[str, Any]) -> TaskLine:
    """Read the fields of a line; raise a ValueError that names a wrong one."""
    try:
        return TaskLine.model_validate(
            {name: value for name, value in fields.items() if not name.startswith("payload")}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name} is {first['input']!r:.200}: {first['msg']}") from None


def push_of(line: TaskLine) -> Push[None]:
    """Make the push of a task that was read, so that the check of pushes can look at it."""
    kind, within, _, rest = (line.schedule or "- 0 - -").split(" ", 3)
    cron, _, timezone = rest.rpartition(" ") if kind == "c" else (None, "", "UTC")
    return Push(
        None,
        (float if set(".e") & set(line.priority) else int)(line.priority),
        group=line.group or None,
        key=line.key or None,
        max_attempts=math.inf if line.max_attempts is None else line.max_attempts,
        expires_in=int(within) / 1000 or None,
        cost=line.cost,
        every=int(rest) / 1000 if kind == "e" else None,
        cron=cron,
        timezone=timezone,
        visibility=line.visibility_ms / 1000 or None,
        time_limit=line.time_limit_ms / 1000 or None,
        member=line.member,
        batch=line.batch,
        unique_for=math.inf
        if line.unique_for_ms == FOR_EVER_MS
        else line.unique_for_ms / 1000 or None,
        after=line.after,
        on_dead=line.on_dead,
        backoff=[ms / 1000 for ms in line.backoff_ms] or None,
        max_lapses=line.max_lapses,
    )


def entry_of(
    line: TaskLine,
    options: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    lifo: bool = False,
    aging: str = "0",
) -> Entry:
    """Make the entry of a task for a queue of this order and `aging` ("0" for none).

    `options` are what the check of pushes has made, `fields` have the payload.
    """
    named = "died_ms" if line.state == "dead" else "due_ms"
    when = 0.0 if line.state == "ready" else getattr(line, named)
    if when is None:
        raise ValueError(f"{named} is missing")
    waits = (line.after or line.seals) and when >= UNTIL_OPENED_MS
    if line.state == "delayed" and when > MOST_DUE_MS and not waits:
        raise ValueError(f"due_ms is {when:.0f}, and the task waits for no other: that never comes")
    if line.holds and line.state != "delayed":
        raise ValueError(f"holds is True, but state is {line.state!r}: only a delayed task holds")
    if line.trace and not read_options(f"0 0 {line.trace}")["trace"]:
        raise ValueError(f"trace is {line.trace!r:.200}: it must be a traceparent")
    place = LIFO - line.sequence if lifo else line.sequence
    record = (
        f"0 {line.attempts} {line.deliveries} {line.deferrals} - {line.rerun_ms} "
        f"f{line.enqueued_ms} {options.get('residual', '1')}{place:015d} "
        f"{options.get('max_attempts', COMMON_ATTEMPTS)} {options['priority']} "
        f"{options.get('cost', '1')} {line.wait_ms} {line.expires_ms} {aging if line.ages else '0'}"
        f"\t{line.group}\t{line.key}\t{line.reason}\t{line.error}{_notes(line, options)}"
    )
    if line.schedule:
        record += f"\t{line.schedule}"
    text = repr(float(when)).removesuffix(".0")
    state = "held" if line.holds else line.state
    return Entry(state, line.id, text, record, _body(fields))


def _notes(line: TaskLine, options: Mapping[str, Any]) -> str:
    notes = ""
    if options.keys() & {"visibility", "time_limit", "trace", "backoff"}:
        notes = f"{OPTIONS}{options.get('visibility', 0)} {options.get('time_limit', 0)}"
        notes += f" {options['trace']}" if "trace" in options else ""
        notes += f" +{options['backoff']}" if "backoff" in options else ""
    for mark, text in (
        (PIN, line.member),
        (BATCH, line.batch or (line.seals and SEALS + line.seals)),
        (UNIQUE, options.get("unique_for")),
        (LAPSES, line.max_lapses and f"{line.max_lapses} {line.lapses}"),
        (AFTER, line.after and "\x01".join((line.on_dead[0], *line.after))),
    ):
        notes += f"{mark}{text}" if text else ""
    return notes


def _body(fields: Mapping[str, Any]) -> bytes:
    """Take the payload from one of its three fields."""
    there = [name for name in fields if name.startswith("payload")]
    if there == ["payload"]:
        return dumped(fields["payload"]).encode()
    text = fields[there[0]] if len(there) == 1 else None
    if isinstance(text, str) and there[0] in ("payload_text", "payload_latin1"):
        return text.encode("latin-1" if there[0] == "payload_latin1" else "utf-8")
    raise ValueError("payload is missing: a task has payload, payload_text or payload_latin1")


def seen_line(key: str, stored: str) -> dict[str, Any]:
    """Make the fields of a seen key, of which `stored` is what `keys` has."""
    id_, until, *group = stored.split("\t")
    if not until.isascii() or not until.isdecimal():
        return {"damaged": key, "record": stored}
    more = {"group": group[0]} if group else {}
    return {"seen": key, "id": id_, "until_ms": int(until), **more}


def seen_entry(fields: Mapping[str, Any]) -> tuple[str, str]:
    """Read the line of a seen key: its key, and its text in `keys`."""
    if unknown := fields.keys() - {"seen", "id", "until_ms", "group"}:
        raise ValueError(f"{min(unknown)} is not known: it may come from a later DPQ")
    until = fields.get("until_ms")
    group = [label("group", fields["group"])] if "group" in fields else []
    if type(until) is not int or not 0 <= until <= 2 * FOR_EVER_MS:
        raise ValueError(f"until_ms is {until!r:.200}: it must be ms since 1970")
    id_ = _named(fields.get("id", ""))
    return label("seen", fields["seen"]), "\t".join((id_, str(until), *group))
