"""A stored task as the line of an export, and back: every field has a name, and JSON types.

`operations.transfer` calls it. A line does not depend on the storage format, so an export is the
way from one format to the next. What has its usual value is left out. The payload comes last:

    {"id": "B-xy", "state": "ready", "priority": "5", "sequence": 42, "enqueued_ms": 1795360535662,
     "group": "example.com", "payload": {"url": "..."}}

It must not send anything, and does not know limits.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from dpq.limits.cost import read_cost
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.errors import ConfigurationError
from dpq.model.priority import decode_priority, encode_priority
from dpq.model.task import Push
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
    read_backoff,
    read_lapses,
    read_trace,
    record_parts,
    split_notes,
)

LIFO = 999_999_999_999_999
"""With LIFO a record has this number less its sequence; lua/push.lua has it, too."""

SEALS = "\x01"
"""The sign before a batch that the task waits for, in place of a batch that it is of."""

MOST_TEXT = 8192
"""Bytes of the longest text of a line, beside its payload: an error has a few thousand at most."""

MOST_COUNT = 10**13 - 1
"""The largest count and moment (ms) of a record, with a digit to spare for the sums of scripts."""

MOST_DUE_MS = 4_102_444_800_000
"""The year 2100: a task that is due later, and waits for no other, was not pushed by DPQ."""


_NEEDED = ("id", "state", "priority", "sequence", "enqueued_ms")
"""The fields that each line has, beside its payload."""

_USUAL: dict[str, Any] = {
    **dict.fromkeys(("due_ms", "died_ms", "trace", "member", "schedule", "batch", "seals")),
    **dict.fromkeys(("after", "max_lapses")),
    **dict.fromkeys(("wait_ms", "attempts", "deliveries", "deferrals", "rerun_ms", "lapses"), 0),
    **dict.fromkeys(("expires_ms", "visibility_ms", "time_limit_ms", "unique_for_ms"), 0),
    **dict.fromkeys(("group", "key", "reason", "error"), ""),
    **{"max_attempts": COMMON_ATTEMPTS, "cost": 1, "ages": False, "backoff_ms": []},
    **{"holds": False, "on_dead": "bury", "errors": []},
}
"""The values of fields that a line leaves out. `errors` is of storage format 3, and is dropped."""


class Entry(NamedTuple):
    """A task as the script `import` takes it.

    Attributes:
        id: Its id in the export.
        state: ready, delayed, held or dead; held is delayed, and holds its group in order.
        when: The moment in delayed or dead, ms, as text.
        group: Its group, or "".
        key: Its unique key, or "".
        sequence: The number that decides between equal priorities.
        payload: Its JSON.
        of_record: The rest of its record.
    """

    id: str
    state: str
    when: str
    group: str
    key: str
    sequence: int
    payload: bytes
    of_record: tuple[Any, ...]

    def record(self, *, lifo: bool, aging: str) -> str:
        """Write the record for a queue of this order, and of this `aging` ("0" for none)."""
        head, residual, middle, aged, tail = self.of_record
        place = LIFO - self.sequence if lifo else self.sequence
        enqueued, others = middle
        return f"{head}f{enqueued} {residual}{place:015d} {others} {aging if aged else '0'}\t{tail}"


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
    counts, enqueued, order, most, priority, more, names = record_parts(record)
    attempts, deliveries, deferrals, _, again = counts.split(" ")
    cost, wait, expires, aging = more or ("1", "0", "0", "0")
    group, key, reason, error = (
        (*names.split("\t", 3), "", "", "")[:4] if more else (names, *[""] * 3)
    )
    error, recurs, schedule = error.partition("\t")
    error, notes = split_notes(error)
    place = int(order[-15:])
    priority = encode_priority(decode_priority(priority))[0]  # raises if it is no priority
    requests, costs = read_cost(cost)
    visibility, _, limit = notes.get(OPTIONS, "0 0").partition(" ")
    batch, (after, on_dead) = notes.get(BATCH, ""), read_after(notes.get(AFTER, ""))
    most_lapses, lapses = read_lapses(notes.get(LAPSES, ""))
    moment = "died_ms" if state == "dead" else "due_ms"
    found = {
        "id": id_,
        "state": "delayed" if state == "held" else state,
        "holds": state == "held",
        moment: _number(when) if state != "ready" else None,
        "priority": priority,
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
        "visibility_ms": int(visibility),
        "time_limit_ms": int(limit.partition(" ")[0]),
        "trace": read_trace(notes.get(OPTIONS, "")),
        "backoff_ms": [round(s * 1000) for s in read_backoff(notes.get(OPTIONS, "")) or ()],
        "member": notes.get(PIN),
        "batch": None if batch[:1] in ("", SEALS) else batch,
        "seals": batch[1:] if batch[:1] == SEALS else None,
        "unique_for_ms": int(notes.get(UNIQUE, "0")),
        "after": after,
        "on_dead": on_dead,
        "max_lapses": most_lapses,
        "lapses": lapses,
        "schedule": schedule if recurs else None,
    }
    return {name: value for name, value in found.items() if value != _USUAL.get(name, ...)}


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
        value = json.loads(text, parse_constant=_no_json)
        if not whole and dumped(value) == text:
            return {"payload": value}
    except (ValueError, RecursionError):
        pass
    return {"payload_text": text}


def _no_json(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def dumped(value: Any) -> str:
    """Write a value as JSON, as short as it can be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


# Reading a line


def _text(value: Any) -> str:
    if not isinstance(value, str) or re.search(r"[\x00-\x1f]", value) or len(value) > MOST_TEXT:
        raise ValueError(f"must be a text without control characters, of up to {MOST_TEXT}")
    value.encode()  # a lone surrogate raises a ValueError
    return value


def _id(value: Any) -> str:
    try:
        text = label("id", value)
    except ConfigurationError:
        text = "~"
    if text[0] == "~":
        raise ValueError("must have 1 to 200 bytes, no control characters, and no ~ at its start")
    return text


def _count(value: Any, most: int = MOST_COUNT) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"must be a whole number from 0 to {most}")
    return value


def _moment(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= LIFO:
        raise ValueError("must be ms since 1970")
    return float(value)


def _state(value: Any) -> str:
    if value not in ("ready", "delayed", "dead"):
        raise ValueError("must be ready, delayed or dead")
    return str(value)


def _priority(value: Any) -> float:
    text = value if isinstance(value, str) else ""
    if len(text) > 24 or not re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text, re.ASCII):
        raise ValueError('must be the text of a number, as in "5" or "-1.5"')
    return float(text) if re.search("[.e]", text) else int(text)


def _schedule(value: Any) -> str:
    if not re.fullmatch(_SCHEDULE, str(value), re.ASCII):
        raise ValueError(
            'must be as in "e 0 1763684707000 3600000" (docs/storage.md, "The record")'
        )
    return str(value)


def _trace(value: Any) -> str:
    if not read_trace(f"0 0 {value}"):
        raise ValueError("must be a traceparent")
    return str(value)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("must be true or false")
    return value


_SCHEDULE = r"(e) (\d{1,12}) \d{1,13} (\d{1,12})|(c) (\d{1,12}) \d{1,13} (\S[^\x00-\x1f]* \S+)"

_READERS: dict[str, Callable[[Any], Any]] = {
    **{"id": _id, "state": _state, "ages": _bool, "holds": _bool},
    **dict.fromkeys(("due_ms", "died_ms"), _moment),
    "sequence": partial(_count, most=LIFO),
    **dict.fromkeys(("enqueued_ms", "wait_ms", "expires_ms", "rerun_ms", "lapses"), _count),
    **dict.fromkeys(("attempts", "deliveries", "deferrals"), _count),
    **{"reason": _text, "error": _text, "trace": _trace},
    **{"priority": _priority, "schedule": _schedule},
    **dict.fromkeys(("visibility_ms", "time_limit_ms"), _count),
    "unique_for_ms": partial(_count, most=FOR_EVER_MS),
    "backoff_ms": lambda value: [_count(each) for each in _list(value)],
    "after": lambda value: [_id(each) for each in _list(value)],
}
"""The fields of a line that are checked here; the check of pushes knows the others."""


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("must be a list")  # noqa: TRY004 - the caller names the field
    return value


def read_line(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a line."""
    read: dict[str, Any] = dict(_USUAL)
    for name, value in fields.items():
        if name.startswith("payload"):
            continue
        if name not in _USUAL and name not in _NEEDED:
            raise ValueError(f"{name} is not known: it may come from a later DPQ")
        try:
            read[name] = _READERS[name](value) if name in _READERS else value
        except ValueError as error:
            raise ValueError(f"{name} is {value!r:.200}: it {error}") from None
    for name in _NEEDED:
        if name not in read:
            raise ValueError(f"{name} is missing")
    return read


def push_of(read: Mapping[str, Any]) -> Push[None]:
    """Make the push of a task that was read, so that the check of pushes can look at it."""
    named = ("group", "key", "member", "batch", "max_lapses")
    said: dict[str, Any] = {name: read[name] or None for name in named}
    for name in ("visibility", "time_limit", "unique_for"):
        said[name] = read[f"{name}_ms"] / 1000 or None
    if read["unique_for_ms"] == FOR_EVER_MS:
        said["unique_for"] = math.inf
    if read["schedule"]:
        kinds = re.fullmatch(_SCHEDULE, read["schedule"], re.ASCII)
        assert kinds  # noqa: S101 - its reader has matched it
        kind, within, rest = filter(None, kinds.groups())
        said["expires_in"] = int(within) / 1000 or None
        if kind == "e":
            said["every"] = int(rest) / 1000
        else:
            said["cron"], _, said["timezone"] = rest.rpartition(" ")
    return Push(
        None,
        read["priority"],
        cost=read["cost"],
        max_attempts=math.inf if read["max_attempts"] is None else read["max_attempts"],
        backoff=[ms / 1000 for ms in read["backoff_ms"]] or None,
        after=read["after"],
        on_dead=read["on_dead"],
        **said,
    )


def entry_of(
    read: Mapping[str, Any], options: Mapping[str, Any], fields: Mapping[str, Any]
) -> Entry:
    """Make the entry of a task that was read; `options` are what the check of pushes has made."""
    state = read["state"]
    when = {"ready": 0.0, "delayed": read["due_ms"], "dead": read["died_ms"]}[state]
    if when is None:
        raise ValueError(f"{'due_ms' if state == 'delayed' else 'died_ms'} is missing")
    waits = (read["after"] or read["seals"]) and when >= UNTIL_OPENED_MS
    if state == "delayed" and when > MOST_DUE_MS and not waits:
        raise ValueError(f"due_ms is {when:.0f}, and the task waits for no other: that never comes")
    if read["holds"]:
        if state != "delayed":
            raise ValueError(f"holds is True, but state is {state!r}: only a delayed task holds")
        state = "held"
    head = f"0 {read['attempts']} {read['deliveries']} {read['deferrals']} - {read['rerun_ms']} "
    most = options.get("max_attempts", COMMON_ATTEMPTS)
    others = f"{most} {options['priority']} {options.get('cost', '1')} {read['wait_ms']}"
    notes = ""
    if options.keys() & {"visibility", "time_limit", "trace", "backoff"}:
        more = f" {options['trace']}" if "trace" in options else ""
        more += f" +{options['backoff']}" if "backoff" in options else ""
        notes = f"{OPTIONS}{options.get('visibility', 0)} {options.get('time_limit', 0)}{more}"
    notes += f"{PIN}{options['member']}" if "member" in options else ""
    if "batch" in options or "seals" in options:
        notes += f"{BATCH}{options.get('batch') or SEALS + options['seals']}"
    notes += f"{UNIQUE}{options['unique_for']}" if "unique_for" in options else ""
    if "max_lapses" in options:
        notes += f"{LAPSES}{options['max_lapses']} {read['lapses']}"
    if read["after"]:
        notes += f"{AFTER}{read['on_dead'][0]}\x01" + "\x01".join(read["after"])
    schedule = f"\t{read['schedule']}" if read["schedule"] else ""
    group, key = options.get("group", ""), options.get("key", "")
    names = "\t".join((group, key, read["reason"], read["error"]))
    middle = read["enqueued_ms"], f"{others} {read['expires_ms']}"
    record = (head, options.get("residual", "1"), middle, read["ages"], f"{names}{notes}{schedule}")
    text = repr(float(when)).removesuffix(".0")
    body = _body(fields)
    return Entry(read["id"], state, text, group, key, read["sequence"], body, record)


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


def seen_entry(fields: Mapping[str, Any]) -> tuple[str, str, str]:
    """Read the line of a seen key: its key, its group or "", and its text in `keys`."""
    if unknown := fields.keys() - {"seen", "id", "until_ms", "group"}:
        raise ValueError(f"{min(unknown)} is not known: it may come from a later DPQ")
    until = fields.get("until_ms")
    try:
        key, id_ = label("seen", fields["seen"]), _id(fields.get("id"))
        group = label("group", fields["group"]) if "group" in fields else ""
    except ValueError as error:
        raise ValueError(f"the key, id or group of a seen key: {error}") from None
    if type(until) is not int or not 0 <= until <= 2 * FOR_EVER_MS:
        raise ValueError(f"until_ms is {until!r:.200}: it must be ms since 1970")
    return key, group, "\t".join((id_, str(until), *([group] if group else ())))
