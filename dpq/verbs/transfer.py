"""Export of a queue as lines of JSON, and import of such lines. No I/O.

    {"dpq_export": 1, "export": "k3...", "queue": "emails", "settings": {...}, ...}
    {"limit": "queue", "rules": "0|10 1000 1"}, then {"gate"...}, {"batch"...}, {"id"...},
    {"seen"...}
    {"end": true, "lines": 5, "tasks": 1, ...}

With each step an import notes in the queue which line it has come to: a second call goes on there.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import json
import re
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, groupby, takewhile
from operator import attrgetter
from typing import Any, NamedTuple

from dpq.limits.limits import EVERY_GROUP
from dpq.limits.rules import LimitRules, plain_rules
from dpq.model.errors import ConfigurationError, ExportFileError, ImportConflictError
from dpq.model.reports import Imported, QueueStats
from dpq.model.validation import MAX_SECONDS, label, whole_number
from dpq.script.command import Command, Steps, same
from dpq.script.keys import STORAGE_FORMAT
from dpq.script.portable import (
    MOST_COUNT,
    Entry,
    TaskLine,
    dumped,
    entry_of,
    push_of,
    read_line,
    seen_entry,
    seen_line,
    to_line,
)
from dpq.script.refusals import Code
from dpq.script.replies import read_batch_state
from dpq.script.values import in_rows, read_texts
from dpq.verbs.base import BATCH_BYTES, PAGE, aging_rate, agree, in_batches, named_settings
from dpq.verbs.pushing import PushChecker
from dpq.verbs.queue import QueueOperations

EXPORT_FORMAT = 1
"""The format of the lines. A later one reads this one, too."""

SHARED = ("order", "aging", "aging_since", "fairness", "payloads")
CAPS = (
    *("dead_max_tasks", "dead_max_age"),
    "seen_max_keys",
    *("max_tasks", "max_waiting", "when_full"),
)
"""The settings of a queue that an export has."""

_USUAL = {"order": "fifo", "aging": "0.0", "fairness": "none"}

_COUNTED = (
    *("pushed", "popped", "acked", "failed", "deferred", "expired_leases", "buried"),
    *("replayed", "dropped", "live", "dead"),
)

_PROBE = re.compile(r"^(\d\S* \S) [^\s-][^\s]+ ")
"""A gate whose probe is out: it has no lease in the export, so the next task is the probe."""

_LISTED = re.compile(r"^((?:\S+ ){8})1 ")
"""A batch in the list of those without tasks: an import makes that list anew."""


SECTIONS = ("limits", "gates", "batches", "tasks", "seen")
"""The parts of an export, in the order of its lines, as the script `export` names them.

To export another key of a queue: add its part here and in lua/export.lua, make its lines in
`Export._page`, and read them in `Import._add`. tests/contract/test_export.py lists the parts that
are left out, and docs/operations.md says so."""


_KINDS = ("end", "seen", "id", "limit", "gate", "batch", "damaged")

_OF_THE_QUEUE = ("limits", "queue", "queue_rules"), ("gates", "", "queue_gate")
"""The sections that begin with a setting of the queue: its name there, and the setting."""


class Export:
    def __init__(self, operations: QueueOperations[Any]) -> None:
        self._operations = operations
        self._settings: dict[str, str] = {}
        self._first: dict[str, int] = {}
        self._written: set[tuple[str, str]] = set()  # two pages may name the same entry
        self._counts = {"lines": 0, "tasks": 0, "limits": 0, "damaged": 0}
        self._missing = 0
        self._cursor = "0"

    def steps(self) -> Iterator[Callable[[], Steps[list[str]]]]:
        """Yield the operations that make the lines; then raise an error if tasks are missing."""
        yield self._begin
        for section in SECTIONS:
            yield partial(self._page, section)
            while self._cursor != "0":
                yield partial(self._page, section)
        yield self._end
        if self._missing:
            raise ExportFileError(
                self._counts["lines"],
                f"{self._missing} tasks that are stored are not in this export: their records are "
                "lost (`dpq doctor` names them), or the server has lost its newest writes. All "
                "other tasks are in it; an import adds them",
            )

    def _begin(self) -> Steps[list[str]]:
        self._settings = yield from self._operations.stored_settings()
        name = self._operations.description.name
        if "format" not in self._settings:
            raise ConfigurationError(f"queue {name!r} does not exist: there is nothing to export")
        header = {
            "dpq_export": EXPORT_FORMAT,
            "export": secrets.token_hex(8),
            "queue": name,
            "version": sys.modules["dpq"].__version__,  # for people to read
            "format": STORAGE_FORMAT,
            "server_time_ms": (yield from self._operations.server_time()),
            "settings": {n: self._settings[n] for n in (*SHARED, *CAPS) if n in self._settings},
            "paused_until": self._settings.get("paused_until"),
        }
        self._first = _counted((yield from self._operations.stats()))
        return [self._line(header)]

    def _page(self, section: str) -> Steps[list[str]]:
        verbs, first = self._operations, self._cursor == "0"
        args: list[Any] = [section, self._cursor, PAGE, BATCH_BYTES]
        cursor, *found = yield verbs._command("export", args, same)
        self._cursor = cursor.decode()
        made: list[dict[str, Any]] = []
        if section == "tasks":
            later = self._tasks(found, made)
            while later:
                args = ["tasks", "", 0, BATCH_BYTES, *later]
                _, *found = yield verbs._command("export", args, same)
                later = self._tasks(found, made)
        else:
            named = dict(in_rows(read_texts(found), 2))
            for of, name, setting in _OF_THE_QUEUE if first else ():
                if of == section and setting in self._settings:
                    named[name] = self._settings[setting]
            for name, text in sorted(named.items()):
                if self._is_new(section, name):
                    made += self._other(section, name, text)
        return [self._line(fields) for fields in made]

    def _tasks(self, found: Sequence[bytes], made: list[dict[str, Any]]) -> list[str]:
        """Add the fields of tasks; return the ids of those that had no room."""
        later = []
        lifo = self._settings.get("order") == "lifo"
        for id_, state, when, record, body in in_rows(found, 5):
            name = id_.decode("utf-8", "replace")
            if state == b"later":
                later.append(name)
            elif self._is_new("tasks", name):
                place = (name, state.decode(), when.decode())
                fields = to_line(*place, record, body, lifo=lifo)
                self._counts["damaged" if "damaged" in fields else "tasks"] += 1
                made.append(fields)
        return later

    def _is_new(self, section: str, name: str) -> bool:
        before = len(self._written)
        self._written.add((section, name))
        return len(self._written) > before

    def _other(self, section: str, name: str, text: str) -> Iterator[dict[str, Any]]:
        """Make the fields of a limit, a gate, a batch or a seen key."""
        if section == "limits":
            self._counts["limits"] += 1
            yield {"limit": name, "rules": plain_rules(text)}
        elif section == "gates":
            yield {"gate": name, "text": _PROBE.sub(r"\1 p ", text)}
        elif section == "seen":
            fields = seen_line(name, text)
            self._counts["damaged"] += "damaged" in fields
            yield fields
        elif name[:1] != "\t":  # beside batches stands the list of those without tasks
            yield {"batch": name, "text": _LISTED.sub(r"\g<1>0 ", text)}

    def _end(self) -> Steps[list[str]]:
        now = _counted((yield from self._operations.stats()))
        changed = {n: now[n] - self._first[n] for n in _COUNTED if now[n] != self._first[n]}
        stored = now["live"] + now["dead"] - max(0, changed.get("pushed", 0))
        written = sum(section == "tasks" for section, _ in self._written)
        self._missing = max(0, stored - written)
        return [self._line({"end": True, "changed": changed, "missing": self._missing})]

    def _line(self, fields: dict[str, Any]) -> str:
        self._counts["lines"] += 1
        return dumped(fields | self._counts if "end" in fields else fields) + "\n"


def _counted(stats: QueueStats) -> dict[str, int]:
    live = stats.live
    return {name: live if name == "live" else getattr(stats, name) for name in _COUNTED}


class Line(NamedTuple):
    """A line of an export: its number, from 1, the field by which its kind is known, and all."""

    number: int
    kind: str
    fields: Mapping[str, Any]


class Import:
    """One import into a queue: `check`, then `run`."""

    def __init__(
        self,
        operations: QueueOperations[Any],
        source: Callable[[], Iterable[str | bytes]],
        *,
        follow: bool,
        keep: bool,
        again: bool,
    ) -> None:
        self._operations = operations
        self._follow, self._keep, self._again = follow, keep, again
        self._pushes = PushChecker(operations.description)
        self._source = source
        self._seen = {"lines": 0, "tasks": 0, "limits": 0, "damaged": 0}
        self._named: dict[str, str] = {}
        self._pause: float | None = 0.0  # until then, ms; None for ever
        self._after: set[str] = set()  # the ids of tasks that others wait for
        self._of_batches: Counter[tuple[str | None, str]] = Counter()  # by batch, and state
        self._callbacks: dict[str, str] = {}  # the id of the task that waits, by batch
        self._report = dict.fromkeys(Imported.model_fields, 0)
        self._header: Mapping[str, Any] = {}

    @property
    def report(self) -> Imported:
        before = self._seen["tasks"] - self._report["added"] - self._report["stored"]
        return Imported(**self._report | {"before": before, "damaged": self._seen["damaged"]})

    # Checks, before anything is written

    def check(self) -> Iterator[None]:
        """Check all lines; yield now and then."""
        seen, line = self._seen, Line(1, "", {})
        for line in _read(self._source()):
            try:
                (self._check_line if seen["lines"] else self._check_header)(line)
            except ValueError as error:
                raise ExportFileError(line.number, str(error)) from None
            seen["lines"] += 1
            if line.kind == "end":
                break
            if line.number % PAGE == 0:
                yield
        if line.kind != "end":
            raise ExportFileError(
                line.number,
                "the last line of an export has its counts, and this one has none: the file is "
                "cut, or it is no export. Nothing was imported",
            )
        for name, number in seen.items():
            if line.fields.get(name) != number:
                raise ExportFileError(
                    line.number,
                    f"{name} is {line.fields.get(name)!r:.200}, but the export has {number}: lines "
                    "are missing or were added. Nothing was imported",
                )

    def _check_header(self, head: Line) -> None:
        self._header = head.fields
        version, id_ = head.fields.get("dpq_export"), head.fields.get("export")
        if version != EXPORT_FORMAT or not re.fullmatch(r"\w{1,40}", str(id_), re.ASCII):
            raise ValueError(
                f"dpq_export is {version!r:.200}: the first line of an export has dpq_export "
                f"{EXPORT_FORMAT}, and an id as `export`. Write the file with `dpq admin export`",
            )
        self._named = _checked_settings(head.fields.get("settings"))
        if (until := head.fields.get("paused_until")) is not None:
            self._pause = None if until == "inf" else float(_number("paused_until", until))

    def _check_line(self, line: Line) -> None:
        match line.kind:
            case "id":
                read, entry = self._entry(line)
                self._after.update(read.after or ())
                if read.seals:
                    self._callbacks[read.seals] = entry.id
                self._of_batches[read.batch, entry.state] += 1
                self._seen["tasks"] += 1
            case "limit":
                _rules_of(line)
                self._seen["limits"] += 1
            case "damaged":
                self._seen["damaged"] += 1
            case "seen":
                seen_entry(line.fields)
            case "batch" | "gate":
                _require_text(line.kind, line.fields)

    def _entry(self, line: Line, **place: Any) -> tuple[TaskLine, Entry]:
        """Read the line of a task, and check it as its push was."""
        read = read_line(line.fields)
        options = self._pushes.options(push_of(read), read.trace or "", read.seals)
        return read, entry_of(read, options, line.fields, **place)

    # Import

    def run(self) -> Steps[None]:
        """Import all lines, as far as an earlier call has not."""
        yield from self._begin()
        settings = self._operations.settings or {}
        rate = settings.get("aging", "0")
        aging = f"{rate}@{settings.get('aging_since', '0')}" if float(rate) else "0"
        place = {"lifo": settings.get("order") == "lifo", "aging": aging}
        for batch in self._batches():
            if batch[0].kind == "limit":
                for line in batch if not self._follow else ():
                    yield from self._operations.set_limit(_rules_of(line), "import", expected="")
                    self._report["limits"] += 1
            else:
                yield from self._add(batch, place)
        last = self._seen["lines"]
        items = [_item(last + 1, "ahead", id_) for id_ in sorted(self._after)]
        items += [_item(last + 1, "sealed", *each) for each in sorted(self._callbacks.items())]
        for some in in_batches(items, PAGE):  # run what waits for what was not imported
            yield self._import(last, "", [*chain.from_iterable(some)], 0)
        yield self._import(last, str(self._report["added"]), [], 0)

    def _begin(self) -> Steps[None]:
        """Create the queue as it was exported, or compare its settings; pause it as it was."""
        queue = self._operations
        stored = yield from queue.stored_settings()
        there = "format" in stored
        stands = stored if there else queue.named
        if not self._follow:
            for name in ("order", "aging", "fairness", *CAPS):
                self._require_same(name, stands, there)
        missing = {n: self._named[n] for n in CAPS if n in self._named and n not in stored}
        if there and missing and not self._follow:
            yield from queue.configure(named=missing)
        if not there:
            named = {} if self._follow else self._named
            yield from queue.configure(create=True, named={**named, **queue.named})
        yield from queue.open(create=not there)
        if self._again:
            yield self._import(0, "", [], 0)
        if self._follow or stored.get("imported", "").startswith(f"{self._header['export']} "):
            return
        if self._pause is None:
            yield from queue.pause(None, "import")
        elif (left := self._pause - (yield from queue.server_time())) > 0:
            yield from queue.pause(min(left / 1000, MAX_SECONDS), "import")

    def _require_same(self, name: str, stands: Mapping[str, str], there: bool) -> None:
        usual = _USUAL.get(name)
        has, says = stands.get(name, usual if there else None), self._named.get(name, usual)
        if has in (None, says) or (name == "aging" and has and says and float(has) == float(says)):
            return
        raise ConfigurationError(
            f"{name} is {says or 'not set'} in the export, but {has} in queue "
            f"{self._operations.description.name!r}: import into another queue, or with "
            "follow=True (--follow), which keeps the settings and limits of the queue"
        )

    def _batches(self) -> Iterator[list[Line]]:
        """Read the lines in batches of one kind, at most 100 lines and about 4 MiB each."""
        lines = _read(self._source())
        next(lines)
        before_end = takewhile(lambda line: line.kind != "end", lines)
        for kind, some in groupby(before_end, attrgetter("kind")):
            if kind != "damaged":
                yield from in_batches(some, PAGE, _size)

    def _add(self, batch: Sequence[Line], place: Mapping[str, Any]) -> Steps[None]:
        """Add the lines of a batch; the script adds all of them, or none."""
        items: list[Any] = []
        highest = 0
        for line in batch:
            if line.kind == "id":
                read, entry = self._entry(line, **place)
                highest = max(highest, read.sequence)
                items += (line.number, *entry)
            else:
                items += self._other(line)
        if not items:
            return
        reply = yield self._import(batch[-1].number, "", items, highest)
        if reply[0] == 1:
            raise ConfigurationError(
                f"queue {self._operations.queue_name!r} was dropped while it was imported"
            )
        if reply[0] in (Code.KEY_TAKEN, Code.OTHER_GROUP):
            line = next(line for line in batch if line.number == int(reply[1]))
            taken = line.fields["key"] if reply[0] == Code.KEY_TAKEN else None
            holder = reply[2].decode("utf-8", "replace")
            raise ImportConflictError(line.number, line.fields["id"], taken, holder)
        self._report["added"] += reply[1]
        self._report["stored"] += reply[2]

    def _other(self, line: Line) -> list[Any]:
        """Write a line as arguments of the script `import`; [] if it is left out."""
        name, text = line.fields[line.kind], line.fields.get("text", "")
        if line.kind == "seen":
            name, text = seen_entry(line.fields)
        elif line.kind == "batch":  # it counts the tasks of the export, which may be no snapshot
            _, done, dead, removed, state, began, changed, finished, listed, end = text.split(" ")
            dead = max(int(dead), self._of_batches[name, "dead"])
            left = sum(self._of_batches[name, state] for state in ("ready", "delayed", "held"))
            if name in self._callbacks:
                state, finished, end = "s", "0", self._callbacks[name]
            counts = f"{left} {done} {dead} {removed} {state}"
            text = f"{counts} {began} {changed} {finished} {listed} {end}"
        elif self._follow or self._header.get("format") != STORAGE_FORMAT:
            return []  # a gate is a text of the storage format
        return _item(line.number, line.kind, name, text)

    def _import(self, last: int, told: str, items: list[Any], highest: int) -> Command[Any]:
        verbs = self._operations
        args: list[Any] = [verbs._now(), self._header["export"], last, highest]
        args += ["1" if self._keep else "", told, *items]
        return verbs._command("import", args, same)


def _size(line: Line) -> int:
    return sum(len(str(each)) for name, each in line.fields.items() if name[0] == "p")


def _item(number: int, kind: str, name: str, text: str = "") -> list[Any]:
    return [number, kind, name, 0, text, ""]


def _number(name: str, text: Any, most: int = MOST_COUNT) -> int:
    known = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 20
    return whole_number(name, int(text) if known else text, 0, most)


def _checked_settings(said: Any) -> dict[str, str]:
    """Check the settings of an export as those that a client names."""
    found = said if isinstance(said, dict) else {}
    named: dict[str, Any] = {name: found[name] for name in (*SHARED, *CAPS) if name in found}
    for name, text in named.items():
        if name not in ("order", "aging", "fairness", "payloads", "when_full"):
            named[name] = _number(name, text)
    since = {name: str(named.pop(name)) for name in ("aging_since",) if name in named}
    if "dead_max_age" in named:
        named["dead_max_age"] /= 1000
    if "aging" in named:
        named["aging"] = aging_rate({"aging": str(named["aging"])})
    checked = named_settings(named)
    agree("", checked, [])
    return checked | since


def _require_text(kind: str, fields: Mapping[str, Any]) -> None:
    """Check a batch or a gate."""
    name, text = fields[kind], fields.get("text", 0)
    known = isinstance(name, str) and isinstance(text, str)
    known = known and not re.search(r"[\ud800-\udfff]", name + text)  # no server takes these
    if not known or (kind == "batch" and not read_batch_state(label("batch", name), text)):
        raise ValueError(f"{kind} is {name!r:.200}, and its text {text!r:.200}: this is none")


def _rules_of(line: Line) -> LimitRules:
    """Read the limit of a line."""
    scope, rules = line.fields["limit"], line.fields.get("rules", "")
    known = isinstance(scope, str) and isinstance(rules, str) and rules
    if not known or not re.match(r"queue\Z|groups\Z|group:.", scope):
        raise ValueError(
            f"limit is {scope!r:.200}, rules {rules!r:.200}: it must be queue, groups, or group: "
            "and a name",
        )
    return LimitRules.read(rules, {"queue": None, "groups": EVERY_GROUP}.get(scope, scope[6:]))


def _read(lines: Iterable[str | bytes]) -> Iterator[Line]:
    """Read lines of JSON objects; blank ones are left out."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ExportFileError(number, f"it is no JSON: {error}. Nothing was imported") from None
        if not isinstance(fields, dict):
            raise ExportFileError(number, f"it is {fields!r:.200}: it must be an object")
        yield Line(number, next((kind for kind in _KINDS if kind in fields), "id"), fields)


@contextmanager
def rereadable(lines: Any) -> Iterator[Callable[[], Iterable[str | bytes]]]:
    """Give what returns the lines once more: they are checked first, then imported."""
    if isinstance(lines, Sequence):
        yield lambda: lines
        return
    with tempfile.TemporaryFile() as copy:
        if not getattr(lines, "seekable", bool)():
            for text in lines:
                whole = text.encode() if isinstance(text, str) else text
                copy.write(whole.rstrip(b"\n") + b"\n")
            copy.seek(0)
            lines = copy
        start = lines.tell()

        def again() -> Any:
            lines.seek(start)
            return lines

        yield again
