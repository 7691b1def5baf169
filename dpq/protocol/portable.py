"""A stored task as the line of an export, and back: every field has a name, and JSON types.

`operations.transfer` calls it. A line does not depend on the storage format, so an export is the
way from one format to the next. What has its usual value is left out. The payload comes last:

    {"id": "B-xy", "state": "ready", "priority": "5", "sequence": 42, "enqueued_ms": 1795360535662,
     "group": "example.com", "payload": {"url": "..."}}

It must not send anything, and does not know limits.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dpq.model.cost import read_cost, write_cost
from dpq.model.errors import ConfigurationError
from dpq.model.priority import decode_priority, encode_priority
from dpq.model.task import MOST_AFTER
from dpq.model.validation import NO_LIMIT, listed_delays
from dpq.protocol.kept_errors import errors_of_fields, fields_of_errors
from dpq.protocol.records import (
    AFTER,
    BATCH,
    COMMON_ATTEMPTS,
    FAILURES,
    FOR_EVER_MS,
    OPTIONS,
    PIN,
    RUNS_AS,
    SPENT,
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

OF_A_DELIVERY = (SPENT, RUNS_AS)
"""The notes that count for one delivery only: its lease is not exported, and neither are they."""

NAMED = (OPTIONS, PIN, BATCH, UNIQUE, FAILURES, AFTER)
"""The notes that have fields with names. Any other note is in `notes`, by the number of its mark.
If a note needs more than that, such as a key of the queue: SECTIONS in transfer.py."""

SEALS = "\x01"
"""The sign before a batch that the task waits for, in place of a batch that it is of."""

MOST_TEXT = 8192
"""Bytes of the longest text of a line, beside its payload: an error has a few thousand at most."""

MOST_NUMBER = 10**15 - 1
"""The largest number of a record that a script counts up."""


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
        errors: Its errors, as they are stored.
        of_record: The rest of its record.
    """

    id: str
    state: str
    when: str
    group: str
    key: str
    sequence: int
    payload: bytes
    errors: str
    of_record: tuple[Any, ...]

    def record(self, *, lifo: bool, aging: str) -> str:
        """Write the record for a queue of this order, and of this `aging` ("0" for none)."""
        head, residual, middle, aged, tail = self.of_record
        place = LIFO - self.sequence if lifo else self.sequence
        enqueued, others = middle
        return f"{head}f{enqueued} {residual}{place:015d} {others} {aging if aged else '0'}\t{tail}"


def to_line(
    id_: str, state: str, when: str, record: bytes, body: bytes, errors: bytes, *, lifo: bool
) -> dict[str, Any]:
    """Make the fields of a stored task; of a damaged one only what it stands for."""
    try:
        if not body:
            raise ValueError("its payload is lost")
        fields = _fields(id_, state, when, record, lifo)
        if kept := fields_of_errors(errors):
            fields["errors"] = kept
        return fields | payload_of(body)
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
    most_lapses, lapses = read_lapses(notes.get(FAILURES, ""))
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
        "notes": {
            str(ord(mark)): text
            for mark, text in sorted(notes.items(), reverse=True)
            if mark not in (*NAMED, *OF_A_DELIVERY)
        },
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
    return value


def _name(value: Any) -> str:
    if len(_text(value).encode()) > 200:
        raise ValueError("must have up to 200 bytes")
    return str(value)


def _id(value: Any) -> str:
    if not _name(value) or "\t" in value:
        raise ValueError("must have 1 to 200 bytes")
    return str(value)


def _ids(value: Any) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_AFTER:
        raise ValueError(f"must be a list of 1 to {MOST_AFTER} ids")
    return [_id(each) for each in value]


def _on_dead(value: Any) -> str:
    if value not in ("bury", "run"):
        raise ValueError("must be bury or run")
    return str(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_NUMBER:
        raise ValueError(f"must be a whole number from 0 to {MOST_NUMBER}")
    return value


def _moment(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= MOST_NUMBER:
        raise ValueError("must be ms since 1970")
    return float(value)


def _state(value: Any) -> str:
    if value not in ("ready", "delayed", "dead"):
        raise ValueError("must be ready, delayed or dead")
    return str(value)


def _priority(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    if len(text) > 24 or not re.fullmatch(r"-?\d[\d.]*(e[+-]?\d+)?", text, re.ASCII):
        raise ValueError('must be the text of a number, as in "5" or "-1.5"')
    return encode_priority(float(text) if re.search("[.e]", text) else int(text))[0]


def _schedule(value: Any) -> str:
    if not re.fullmatch(r"e \d+ \d+ \d+|c \d+ \d+ \S[^\x00-\x1f]*", str(value), re.ASCII):
        raise ValueError(
            'must be as in "e 0 1763684707000 3600000" (docs/storage.md, "The record")'
        )
    return str(value)


def _notes(value: Any) -> str:
    if not isinstance(value, dict):
        raise ValueError("must be an object")  # noqa: TRY004 - the caller names the field
    found = sorted(((int(mark), _text(text)) for mark, text in value.items()), reverse=True)
    if any(mark != 25 for mark, _ in found):
        raise ValueError("must have mark 25, which has no name yet")
    return "".join(chr(mark) + text for mark, text in found)


def _unique_for(value: Any) -> int:
    return value if value == FOR_EVER_MS else _count(value)


def _delays(value: Any) -> str:
    if not isinstance(value, list):
        raise ValueError("must be a list of ms")  # noqa: TRY004 - the caller names the field
    try:
        delays = listed_delays([_count(each) / 1000 for each in value])
    except ConfigurationError as error:
        raise ValueError(str(error).partition(": it ")[2]) from None
    return " +" + ",".join(str(round(each * 1000)) for each in delays)


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("must be true or false")
    return value


_USUAL: dict[str, Any] = {
    **dict.fromkeys(
        ("due_ms", "died_ms", "trace", "member", "schedule", "batch", "seals", "after")
    ),
    **{"max_lapses": None, "lapses": 0, "errors": ""},
    **dict.fromkeys(("wait_ms", "attempts", "deliveries", "deferrals", "rerun_ms"), 0),
    **dict.fromkeys(("expires_ms", "visibility_ms", "time_limit_ms", "unique_for_ms"), 0),
    **dict.fromkeys(("group", "key", "reason", "error"), ""),
    **{
        "max_attempts": COMMON_ATTEMPTS,
        "cost": 1,
        "ages": False,
        "backoff_ms": [],
        "holds": False,
        "notes": {},
        "on_dead": "bury",
    },
}
"""The values of fields that a line leaves out."""

_READERS: dict[str, Callable[[Any], Any]] = {
    **{"id": _id, "state": _state, "priority": _priority, "ages": _bool, "holds": _bool},
    **dict.fromkeys(("due_ms", "died_ms"), _moment),
    "notes": _notes,
    **dict.fromkeys(("sequence", "enqueued_ms", "wait_ms"), _count),
    "max_attempts": lambda value: NO_LIMIT if value is None else _count(value),
    **dict.fromkeys(("attempts", "deliveries", "deferrals", "rerun_ms", "expires_ms"), _count),
    **dict.fromkeys(("visibility_ms", "time_limit_ms", "max_lapses", "lapses"), _count),
    "errors": errors_of_fields,
    **{
        "unique_for_ms": _unique_for,
        "backoff_ms": _delays,
        "cost": write_cost,
        "group": _name,
        "key": _name,
        "reason": _text,
        "error": _text,
    },
    **{"trace": _text, "member": _name, "batch": _name, "seals": _name, "schedule": _schedule},
    **{"after": _ids, "on_dead": _on_dead},
}


def from_line(fields: Mapping[str, Any]) -> Entry:
    """Read the fields of a line.

    Raises:
        ValueError: A field is missing, unknown or wrong; the text names it.
    """
    body = _body(fields)
    read = dict(_USUAL)
    for name, value in fields.items():
        if name.startswith("payload"):
            continue
        if name not in _READERS:
            raise ValueError(f"{name} is not known: it may come from a later DPQ")
        try:
            read[name] = _READERS[name](value)
        except ValueError as error:
            raise ValueError(f"{name} is {value!r:.200}: it {error}") from None
    try:
        state, priority, enqueued = read["state"], read["priority"], read["enqueued_ms"]
        id_, sequence = read["id"], read["sequence"]
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is missing") from None
    when = {"ready": 0.0, "delayed": read["due_ms"], "dead": read["died_ms"]}[state]
    if when is None:
        raise ValueError(f"{'due_ms' if state == 'delayed' else 'died_ms'} is missing")
    if read["holds"]:
        if state != "delayed":
            raise ValueError(f"holds is True, but state is {state!r}: only a delayed task holds")
        state = "held"
    head = f"0 {read['attempts']} {read['deliveries']} {read['deferrals']} - {read['rerun_ms']} "
    residual = encode_priority(decode_priority(priority))[1]
    others = (
        f"{read['max_attempts']} {priority} {read['cost']} {read['wait_ms']} {read['expires_ms']}"
    )
    notes = ""
    if read["visibility_ms"] or read["time_limit_ms"] or read["trace"] or read["backoff_ms"]:
        more = (f" {read['trace']}" if read["trace"] else "") + (read["backoff_ms"] or "")
        notes = f"{OPTIONS}{read['visibility_ms']} {read['time_limit_ms']}{more}"
    notes += f"{PIN}{read['member']}" if read["member"] is not None else ""
    if read["batch"] or read["seals"]:
        notes += f"{BATCH}{read['batch'] or SEALS + read['seals']}"
    notes += f"{UNIQUE}{read['unique_for_ms']}" if read["unique_for_ms"] else ""
    if read["after"] is not None:
        notes += f"{AFTER}{read['on_dead'][0]}\x01" + "\x01".join(read["after"])
    notes += read["notes"] or ""
    if read["max_lapses"] is not None:
        notes += f"{FAILURES}{int(read['errors'] != '')} {read['max_lapses']} {read['lapses']}"
    elif read["errors"]:
        notes += f"{FAILURES}1"
    schedule = "" if read["schedule"] is None else f"\t{read['schedule']}"
    if read["max_attempts"] < 1:
        raise ValueError("max_attempts is 0: it must be 1 or more")
    names = "\t".join((read["group"], read["key"], read["reason"], read["error"]))
    record = (head, residual, (enqueued, others), read["ages"], f"{names}{notes}{schedule}")
    text = repr(when).removesuffix(".0")
    return Entry(
        id_, state, text, read["group"], read["key"], sequence, body, read["errors"], record
    )


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
    """Read the line of a seen key: its key, its group or "", and its text in `keys`.

    Raises:
        ValueError: A field is missing, unknown or wrong; the text names it.
    """
    if unknown := fields.keys() - {"seen", "id", "until_ms", "group"}:
        raise ValueError(f"{min(unknown)} is not known: it may come from a later DPQ")
    try:
        key, group = _name(fields["seen"]), _name(fields.get("group", ""))
        id_, until = _id(fields.get("id")), fields.get("until_ms")
    except ValueError as error:
        raise ValueError(f"the key, id or group of a seen key {error}") from None
    if not key or type(until) is not int or not 0 <= until < 2**53:
        raise ValueError(
            f"seen is {key!r}, until_ms is {until!r}: it needs a key and ms since 1970"
        )
    return key, group, "\t".join((id_, str(until), *([group] if group else ())))
