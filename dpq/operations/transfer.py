"""Export of a queue as lines of JSON, and import of such lines. No I/O.

`DPQ.export` and `DPQ.import_` run these operations through their session, one bounded step each.
Lines come in this order, and docs/operations.md says what each means:

    {"dpq_export": 1, "export": "k3...", "queue": "emails", "settings": {...}, ...}
    {"limit": "queue", "rules": "0|10 1000 1"}
    {"gate": "example.com", "text": "..."}
    {"batch": "run-7", "text": "..."}
    {"id": "...", "state": "ready", ...}
    {"seen": "page-1", "id": "...", "until_ms": 1763684707000}
    {"end": true, "lines": 5, "tasks": 1, ...}

An import notes in the queue, with each step, which line it has come to. So a second call of the
same export goes on there, and adds nothing twice, also if tasks have ended meanwhile.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import json
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dpq.model.errors import ConfigurationError, ExportFileError, ImportConflictError
from dpq.model.limit_rules import LimitRules, plain_rules
from dpq.model.limits import EVERY_GROUP
from dpq.model.reports import Imported, QueueStats
from dpq.operations.base import BATCH_BYTES, PAGE
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import Command, Steps, same
from dpq.protocol.keys import STORAGE_FORMAT
from dpq.protocol.portable import Entry, dumped, from_line, seen_entry, seen_line, to_line
from dpq.protocol.refusals import Code
from dpq.protocol.values import read_texts

EXPORT_FORMAT = 1
"""The format of the lines. A later one reads this one, too."""

PAUSE_SECONDS = 60.0
"""Length of the pause of `export(pause=True)`, which is renewed: if the program dies, it ends."""

SHARED = ("order", "aging", "aging_since", "fairness", "payloads")
CAPS = (
    *("dead_max_tasks", "dead_max_age", "trail_max_events"),
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


class Position(NamedTuple):
    """The place of an export between two pages: section, and cursor of the server."""

    section: str = "limits"
    cursor: str = "0"


SECTIONS = ("limits", "gates", "batches", "tasks", "seen")
"""The parts of an export, in the order of its lines, as the script `export` names them.

To export another key of a queue: add its part here and in lua/export.lua, make its lines in
`Export.page`, and read them in `Import.add`. tests/contract/test_export.py lists the parts that are
left out, and docs/operations.md says so."""


class Export:
    """One export of a queue: `begin`, `count`, `page` until it gives no position, then `end`."""

    def __init__(self, operations: QueueOperations[Any]) -> None:
        self._operations = operations
        self._settings: dict[str, str] = {}
        self._first: dict[str, int] = {}
        self._written: set[tuple[str, str]] = set()  # two pages may name the same entry
        self._counts = {"lines": 0, "tasks": 0, "limits": 0, "damaged": 0}

    def begin(self, paused: bool) -> Steps[str]:
        """Make the first line.

        Raises:
            ConfigurationError: There is no such queue.
        """
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
            "paused": paused,
        }
        return self._line(header)

    def count(self) -> Steps[None]:
        """Read the totals, which `end` compares; after the pause, if there is one."""
        self._first = _counted((yield from self._operations.stats()))

    def page(self, at: Position) -> Steps[tuple[list[str], Position | None]]:
        """Make the lines of one page, and say where the next page begins."""
        queue = self._operations
        args: list[Any] = [at.section, at.cursor, PAGE, BATCH_BYTES]
        cursor, *found = yield queue.raw("export", args, same)
        made: list[dict[str, Any]] = []
        if at.section == "tasks":
            later = self._tasks(found, made)
            while later:
                _, *found = yield queue.raw("export", ["tasks", "", 0, BATCH_BYTES, *later], same)
                later = self._tasks(found, made)
        else:
            texts = read_texts(found)
            named = dict(zip(texts[::2], texts[1::2], strict=True))
            if at == Position("limits") and "queue_rules" in self._settings:
                named["queue"] = self._settings["queue_rules"]
            if at == Position("gates") and "queue_gate" in self._settings:
                named[""] = self._settings["queue_gate"]
            for name, text in sorted(named.items()):
                if self._is_new(at.section, name):
                    made += self._other(at.section, name, text)
        return [self._line(fields) for fields in made], _next(at, cursor.decode())

    def _tasks(self, found: Sequence[bytes], made: list[dict[str, Any]]) -> list[str]:
        """Add the fields of tasks; return the ids of those that had no room."""
        later = []
        lifo = self._settings.get("order") == "lifo"
        for id_, state, when, record, body, errors in zip(
            *(found[i::6] for i in range(6)), strict=True
        ):
            name = id_.decode("utf-8", "replace")
            if state == b"later":
                later.append(name)
            elif self._is_new("tasks", name):
                place = (name, state.decode(), when.decode())
                fields = to_line(*place, record, body, errors, lifo=lifo)
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

    def end(self) -> Steps[str]:
        """Make the last line: counts, what has changed meanwhile, and how many tasks are missing.

        A task that was stored all the time is missing if it was not written.
        """
        now = _counted((yield from self._operations.stats()))
        changed = {n: now[n] - self._first[n] for n in _COUNTED if now[n] != self._first[n]}
        stored = now["live"] + now["dead"] - max(0, changed.get("pushed", 0))
        written = sum(section == "tasks" for section, _ in self._written)
        missing = max(0, stored - written)
        return self._line({"end": True, "changed": changed, "missing": missing})

    def restore_pause(self, by: str) -> Steps[None]:
        """Pause the queue as it was paused before the export, or not at all."""
        until = self._settings.get("paused_until")
        seconds: float | None = 0.001
        if until == "inf":
            seconds = None
        elif until:
            now = yield from self._operations.server_time()
            seconds = max(0.001, (float(until) - now) / 1000)
        yield from self._operations.pause(seconds, by)

    def _line(self, fields: dict[str, Any]) -> str:
        self._counts["lines"] += 1
        return dumped(fields | self._counts if "end" in fields else fields) + "\n"


def _counted(stats: QueueStats) -> dict[str, int]:
    live = stats.ready + stats.delayed + stats.invisible + stats.waiting
    return {name: live if name == "live" else getattr(stats, name) for name in _COUNTED}


def _next(at: Position, cursor: str) -> Position | None:
    if cursor != "0":
        return at._replace(cursor=cursor)
    behind = SECTIONS[SECTIONS.index(at.section) + 1 :]
    return Position(behind[0]) if behind else None


class Line(NamedTuple):
    """A line of an export: its number, from 1, and its fields; of a task, what they say."""

    number: int
    fields: Mapping[str, Any]
    entry: Entry | None = None


class Import:
    """One import into a queue: `begin`, `start`, then `add` for each batch, then `finish`."""

    def __init__(
        self,
        operations: QueueOperations[Any],
        lines: Iterable[str | bytes],
        *,
        follow: bool,
        keep: bool,
        again: bool,
    ) -> None:
        """Read the first line, and the last one if that can be done without losing the others.

        Raises:
            ExportFileError: This is no export, or it is cut.
        """
        self._operations = operations
        self._follow, self._keep, self._again = follow, keep, again
        _require_end(lines)
        self._lines = _read(lines)
        self._seen = {"lines": 0, "tasks": 0, "limits": 0, "damaged": 0}
        head = next(self._lines, Line(1, {}))
        self.header = head.fields
        version = self.header.get("dpq_export")
        if version != EXPORT_FORMAT or not re.fullmatch(
            r"\S{1,40}", str(self.header.get("export"))
        ):
            raise ExportFileError(
                head.number,
                f"dpq_export is {version!r}: the first line of an export has dpq_export "
                f"{EXPORT_FORMAT}, and an id as `export`. Write the file with `dpq admin export`",
            )
        settings = self.header.get("settings")
        found = settings if isinstance(settings, dict) else {}
        self._named = {n: str(found[n]) for n in (*SHARED, *CAPS) if n in found}
        self._seen["lines"] += 1
        self._report = dict.fromkeys(Imported.model_fields, 0)

    @property
    def report(self) -> Imported:
        """The counts so far."""
        before = self._seen["tasks"] - self._report["added"] - self._report["stored"]
        return Imported(**self._report | {"before": before, "damaged": self._seen["damaged"]})

    # Settings

    def begin(self) -> Steps[bool]:
        """Create the queue with the settings of the export, or compare those that stand.

        Returns:
            True if it was created.

        Raises:
            ConfigurationError: Settings differ, and the caller does not follow the queue.
        """
        first = self._operations
        stored = yield from first.stored_settings()
        there = "format" in stored
        stands = stored if there else first.named
        if not self._follow:
            for name in (*SHARED, *CAPS):
                self._require_same(name, stands, there)
        missing = {n: self._named[n] for n in CAPS if n in self._named and n not in stored}
        if there and missing and not self._follow:
            yield from first.configure(named=missing)
        if not there:
            named = {} if self._follow else self._named
            yield from first.configure(create=True, named={**named, **first.named})
        return not there

    def _require_same(self, name: str, stands: Mapping[str, str], there: bool) -> None:
        usual = _USUAL.get(name)
        has, says = stands.get(name, usual if there else None), self._named.get(name, usual)
        same_rate = name == "aging" and has and says and float(has) == float(says)
        if name in ("payloads", "aging_since") or has in (None, says) or same_rate:
            return
        raise ConfigurationError(
            f"{name} is {says or 'not set'} in the export, but {has} in queue "
            f"{self._operations.description.name!r}: import into another queue, or with "
            "follow=True (--follow), which keeps the settings and limits of the queue"
        )

    def start(self) -> Steps[None]:
        """Forget an earlier import of this export, if asked; pause the queue as the export says."""
        queue = self._operations
        noted = (yield from queue.stored_settings()).get("imported", "")
        if self._again:
            yield self._import(0, "", [], 0)
        until = self.header.get("paused_until")
        if self._follow or not until or noted.startswith(f"{self.header['export']} "):
            return
        if until == "inf":
            yield from self._operations.pause(None, "import")
        else:
            now = yield from queue.server_time()
            if float(until) > now:
                yield from self._operations.pause((float(until) - now) / 1000, "import")

    # Lines

    def batches(self) -> Iterator[list[Line]]:
        """Read the lines in batches of one kind, at most 100 tasks and 4 MiB of payloads each.

        Raises:
            ExportFileError: A line cannot be read, or the last one is missing.
        """
        batch: list[Line] = []
        size, kind = 0, ""
        for line in self._lines:
            self._seen["lines"] += 1
            if "end" in line.fields:
                if batch:
                    yield batch
                self._require_count(line)
                return
            kind_now = "seen" if "seen" in line.fields else "task"
            if "id" not in line.fields:
                kinds = ("limit", "gate", "batch", "damaged")
                kind_now = next((kind for kind in kinds if kind in line.fields), "task")
            if kind_now == "damaged":
                self._seen["damaged"] += 1
                continue
            if kind_now == "task":
                self._seen["tasks"] += 1
                line = _with_entry(line)
            more = len(line.entry.payload) if line.entry else 0
            if batch and (kind_now != kind or len(batch) == PAGE or size + more > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            self._seen["limits"] += kind_now == "limit"
            batch.append(line)
            size, kind = size + more, kind_now
        if batch:
            yield batch
        raise ExportFileError(
            self._seen["lines"],
            "the export ends here, and its last line is missing: the file is cut. "
            f"{self.report.added} tasks were added; import the whole file, and it goes on there",
        )

    def _require_count(self, line: Line) -> None:
        for name, number in self._seen.items():
            if line.fields.get(name) != number:
                raise ExportFileError(
                    line.number,
                    f"{name} is {line.fields.get(name)!r}, but the export has {number}: lines are "
                    f"missing or were added. {self.report.added} tasks were added",
                )

    def add(self, batch: Sequence[Line]) -> Steps[None]:
        """Add the lines of a batch; the script adds all of them, or none.

        Raises:
            ImportConflictError: Another task has the id or the key of a task; see its docstring.
        """
        if "limit" in batch[0].fields:
            yield from self._set_limits(batch)
            return
        highest = max((line.entry.sequence for line in batch if line.entry), default=0)
        args = [value for line in batch for value in self._item(line)]
        if not args:
            return
        reply = yield self._import(batch[-1].number, "", args, highest)
        if reply[0] == 1:
            raise ConfigurationError(
                f"queue {self._operations.queue_name!r} was dropped while it was imported"
            )
        if reply[0] in (Code.KEY_TAKEN, Code.OTHER_GROUP):
            raise _conflict(batch, *reply)
        self._report["added"] += reply[1]
        self._report["stored"] += reply[2]

    def _item(self, line: Line) -> list[Any]:
        """Write a line as arguments of the script `import`; [] if it is left out."""
        entry = line.entry
        if entry is None and "batch" in line.fields:
            name, text = str(line.fields["batch"]), str(line.fields.get("text"))
            return [line.number, "batch", name, 0, text, "", ""]
        if "seen" in line.fields:
            try:
                key, _, text = seen_entry(line.fields)
            except ValueError as error:
                raise ExportFileError(line.number, str(error)) from None
            return [line.number, "seen", key, 0, text, "", ""]
        if entry is None:
            # A gate is a text of the storage format.
            if self._follow or self.header.get("format") != STORAGE_FORMAT:
                return []
            scope, text = str(line.fields["gate"]), str(line.fields.get("text"))
            return [line.number, "gate", scope, 0, text, "", ""]
        settings = self._operations.settings or {}
        aging = settings.get("aging", "0")
        aging = f"{aging}@{settings.get('aging_since', '0')}" if float(aging) else "0"
        record = entry.record(lifo=settings.get("order") == "lifo", aging=aging)
        body, errors = entry.payload, entry.errors
        return [line.number, entry.state, entry.id, entry.when, record, body, errors]

    def _import(self, last: int, told: str, items: list[Any], highest: int) -> Command[Any]:
        queue = self._operations
        args: list[Any] = [queue.now(), self.header["export"], last, highest]
        args += ["1" if self._keep else "", told, *items]
        return queue.raw("import", args, same)

    def _set_limits(self, batch: Sequence[Line]) -> Steps[None]:
        """Set limits, unless the caller follows the queue.

        Raises:
            LimitChangedError: Another limit stands.
        """
        for line in batch:
            scope, rules = line.fields["limit"], line.fields.get("rules")
            group = _group_of(line, scope, rules)
            if self._follow:
                continue
            try:
                checked = LimitRules.read(str(rules), group)
            except ConfigurationError as error:
                raise ExportFileError(line.number, str(error)) from None
            yield from self._operations.set_limit(checked, "import", expected="")
            self._report["limits"] += 1

    def finish(self) -> Steps[None]:
        """Tell of the import, as an event; release tasks that wait for what was not imported."""
        yield self._import(self._seen["lines"], str(self._report["added"]), [], 0)
        yield from self._operations.settle_followers()


def _conflict(batch: Sequence[Line], code: int, number: bytes, holder: bytes) -> Exception:
    line = next(line for line in batch if line.number == int(number))
    entry = line.entry or from_line(line.fields)
    taken = entry.key if code == Code.KEY_TAKEN else None
    return ImportConflictError(line.number, entry.id, taken, holder.decode("utf-8", "replace"))


def _group_of(line: Line, scope: Any, rules: Any) -> str | None:
    """Name the group of a limit, or None for the queue."""
    if isinstance(scope, str) and isinstance(rules, str) and rules:
        if scope in ("queue", "groups"):
            return None if scope == "queue" else EVERY_GROUP
        if scope.startswith("group:") and 0 < len(scope.encode()) - 6 <= 200:
            return scope[6:]
    raise ExportFileError(
        line.number,
        f"limit is {scope!r}, rules {rules!r:.100}: it must be queue, groups, or group: and a name",
    )


def _with_entry(line: Line) -> Line:
    try:
        return line._replace(entry=from_line(line.fields))
    except ValueError as error:
        raise ExportFileError(line.number, str(error)) from None


def _read(lines: Iterable[str | bytes]) -> Iterator[Line]:
    """Read lines of JSON objects; blank ones are left out."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ExportFileError(number, f"it is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise ExportFileError(number, f"it is {fields!r:.100}: it must be an object")
        yield Line(number, fields)


def _require_end(lines: Any) -> None:
    """Look at the last line before the first one is imported, of a list or of a file on disk.

    Raises:
        ExportFileError: It is not the last line of an export: the file is cut.
    """
    last: Any = b""
    number = 0
    if isinstance(lines, Sequence):
        number, last = len(lines), lines[-1] if lines else b""
    elif _seekable(lines):
        start = lines.tell()
        for text in lines:
            number, last = (number + 1, text) if text.strip() else (number, last)
        lines.seek(start)
    else:
        return
    found = next(_read([last]), Line(1, {})).fields if _ends(last) else {}
    if "end" not in found:
        raise ExportFileError(
            number,
            "the last line of an export has its counts, and this one has none: the file is cut, "
            "or it is no export. Nothing was imported",
        )


def _ends(text: Any) -> bool:
    word = b'"end"' if isinstance(text, bytes) else '"end"'
    return word in text and text.strip().endswith(b"}" if isinstance(text, bytes) else "}")


def _seekable(lines: Any) -> bool:
    seekable: Callable[[], bool] | None = getattr(lines, "seekable", None)
    return bool(seekable and seekable())
