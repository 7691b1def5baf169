"""Reports: records as lines of JSON, or as a table that fits the terminal.

A report is a list of records and a table of columns. Text from the queue goes through `shown`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from operator import itemgetter
from textwrap import wrap
from typing import Any, Literal, NamedTuple

from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dpq import RateLimit, Task
from dpq.cli._terminal import emit, tables, talk
from dpq.explain.waiting import spent
from dpq.limits.limits import EVERY_GROUP, quota_text
from dpq.limits.words import write_word
from dpq.model.display import attempt_of, shown
from dpq.model.moments import say_moment
from dpq.model.payload import bytes_text
from dpq.model.rates import per_text, span
from dpq.model.validation import MAX_TEXT_CHARACTERS
from dpq.types import BatchState, DeadTask, LimitState, MemberState, QueueStats, Slot
from dpq.views.words import batch_counts, say_schedule
from dpq.views.workers import say_quiet

STATES = ("ready", "delayed", "invisible", "waiting", "dead")
LONG_TEXT = 16  # characters that a column of long texts has at least; they wrap, or are cut
RATE_CHARACTERS = 31  # of a line: `25000000/day@Europe/Berlin` fits, and each name of a zone


class Column(NamedTuple):
    """A column of a report; it is left out if no record has a value for it."""

    name: str
    of: str | Callable[[Any], object]  # the name of the value in a record, or a function
    goes: int = 0  # if there is no room, the column with the least number goes first; 0 stays
    kind: Literal["line", "number", "wraps", "cut"] = "line"  # a long text wraps, or is cut

    def value(self, record: Any) -> object:
        """Read the value of a record."""
        if callable(self.of):
            return self.of(record)
        return record.get(self.of) if isinstance(record, dict) else getattr(record, self.of, None)

    def least(self, cells: Iterable[str]) -> int:
        """Return the least width of the column with these cells."""
        longest = max(cell_len(line) for cell in (self.name, *cells) for line in cell.split("\n"))
        return min(longest, LONG_TEXT) if self.kind in ("wraps", "cut") else longest


@dataclass
class Report:
    """Records as a table that leaves out columns if there is no room, and says which."""

    title: str
    columns: Sequence[Column]
    records: Sequence[Any]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the columns that have room."""
        values = {column: [column.value(each) for each in self.records] for column in self.columns}
        cells = {
            column: [_cell(value) for value in each]
            for column, each in values.items()
            if any(value is not None for value in each)
        }
        gone = []
        for column in sorted(filter(lambda each: each.goes, cells), key=lambda each: each.goes):
            if sum(each.least(texts) + 2 for each, texts in cells.items()) <= options.max_width:
                break
            del cells[column]
            gone.append(column.name)
        # A narrow table must not wrap or cut its title
        title = Text(shown(self.title), "bold", no_wrap=True, overflow="ignore")
        made = Table(
            title=title, title_justify="left", title_style="bold", pad_edge=False, box=None
        )
        for column in cells:
            made.add_column(
                Text(column.name, no_wrap=True, overflow="ellipsis"),
                justify="right" if column.kind == "number" else "left",
                no_wrap=column.kind in ("line", "number"),
                overflow="fold" if column.kind == "wraps" else "ellipsis",
                min_width=column.least(cells[column]),
            )
        for row in zip(*cells.values(), strict=True):
            pairs = zip(cells, row, strict=True)
            made.add_row(*(Text(cell, no_wrap=each.kind == "cut") for each, cell in pairs))
        yield made
        if gone:
            yield Text(f"no room for: {', '.join(gone)}", style="dim")


def report(
    title: str, columns: Sequence[Column], records: Sequence[Any], *, json: bool, none: str
) -> None:
    """Print records as lines of JSON, or as a table; if there is none, say so on stderr."""
    for each in records if json else ():
        emit(each if isinstance(each, dict) else each.model_dump())
    if not records:
        talk(none)
    elif not json:
        tables().print(Report(title, columns, records))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"  # its column says UTC
    if isinstance(value, list):
        return shown(", ".join(value))
    return "\n".join(map(shown, str(value)[:MAX_TEXT_CHARACTERS].split("\n")))


def _cost(task: Task[Any]) -> str | None:
    cost = ", ".join([str(task.cost), *(f"{unit}={n}" for unit, n in (task.costs or {}).items())])
    return None if cost == "1" else cost


def _attempt(task: Task[Any]) -> str:
    attempt = task.attempts if isinstance(task, DeadTask) else task.attempt
    return attempt_of(attempt, task.max_attempts).replace(" of ", "/")


def _payload(task: Any) -> str:
    raw = bytes_text(task.payload) or to_json(task.payload, inf_nan_mode="constants").decode()
    return shown(raw)


TASKS = (
    Column("id", "id"),
    Column("died (UTC)", "died_at", 6),
    Column("priority", "priority", 1),
    Column("cost", _cost, 2),
    Column("group", "group", 9, "cut"),
    Column("key", "key", 5, "cut"),
    Column("recurs", lambda task: say_schedule(task.every, task.cron) or None, 3),
    Column("attempt", _attempt, 4),
    Column("until (UTC)", "visible_until", 6),
    Column("reason", "reason", 0, "wraps"),
    Column("last error", "last_error", 8, "cut"),
    Column("payload", _payload, 7, "cut"),
)

QUEUES = (
    Column("queue", "queue", 0, "wraps"),
    *(Column(state, state, n, "number") for state, n in zip(STATES, (0, 3, 5, 4, 6), strict=True)),
    Column("pushed", "pushed", 2, "number"),
    Column("acked", "acked", 1, "number"),
    Column("error", "error", 0, "wraps"),
)


def _longest(worker: dict[str, Any]) -> str | None:
    seconds, task = worker["longest_seconds"], worker["longest_task"]
    if seconds is None or task in (None, "-"):
        return None if seconds is None else span(seconds)
    return f"{span(seconds)}{', HANGS:' * worker['hangs']} {task}"


def _seen(worker: dict[str, Any]) -> str:
    return f"{'LATE, ' * worker['late']}{span(worker['seen_seconds'])} ago"


def _host(lease: dict[str, Any]) -> str | None:
    """Name a host, unless the name of its worker does."""
    name, host = lease.get("worker") or lease.get("name") or "", lease["host"]
    return None if host and host in name else host


WORKERS = (
    Column("worker", "name", 0, "wraps"),
    Column("quiet", lambda each: say_quiet(each["quiet_queues"], each["queues"]) or None, 0),
    Column("version", "version", 3),
    Column("host", _host, 10, "wraps"),
    Column("pid", "pid", 2, "number"),
    Column("queues", "queues", 9, "wraps"),
    Column("running", "running", 7, "number"),
    Column("of", "concurrency", 4, "number"),
    Column("holds", "holds", 6, "number"),
    Column("longest", _longest, 0, "wraps"),
    Column("p99", lambda each: each["p99"] and span(each["p99"]), 5, "number"),
    Column("since (UTC)", "since", 1),
    Column("last seen", _seen, 8),
)

LEASES = (
    Column("queue", "queue", 7, "cut"),
    Column("task", "id"),
    Column("group", "group", 6, "cut"),
    Column("attempt", lambda each: attempt_of(each["attempt"], each["max_attempts"]), 2),
    Column("since (UTC)", "since", 1),
    Column("held", lambda each: span(each["held_seconds"]), 4, "number"),
    Column("ends (UTC)", "until", 3),
    Column("worker", "worker", 0, "wraps"),
    Column("host", _host, 5, "wraps"),
)


def counts(
    name: str, stats: QueueStats, before: QueueStats | None, seconds: float, drain: str
) -> Group:
    """Draw one queue's counts; with an earlier look, also the growth per second."""
    rows: list[tuple[object, ...]] = []
    totals = stats.model_dump(exclude={"oldest_ready_seconds", "wait", "run", *STATES})
    given = {name: value for name, value in totals.items() if value}
    for field, value in ({state: getattr(stats, state) for state in STATES} | given).items():
        grows = before is not None and field not in STATES
        more = f"{(value - getattr(before, field)) / seconds:.1f}" if grows else None
        rows.append((field, value, more))
    oldest = stats.oldest_ready_seconds
    rows.append(("oldest ready", None if oldest is None else f"{oldest:.1f} s", None))
    for kind, times in (("wait", stats.wait), ("run", stats.run)):
        percentiles = times and f"{times.p50:.3g} s, {times.p95:.3g} s, {times.p99:.3g} s"
        rows.append((f"{kind} p50, p95, p99", percentiles, None))
    columns = (
        Column("count", itemgetter(0)),
        Column("tasks", itemgetter(1), 0, "number"),
        Column("per second", itemgetter(2), 0, "number"),
    )
    return Group(Report(f"queue {name}", columns, rows), Text(f"drain: {shown(drain)}"))


FLOWS = {"pushed": 0, "acked": 0, "failed": 7, "rate_limited": 10, "buried": 4}
GAUGES = {"ready": 0, "waiting": 6, "delayed": 5, "held": 3, "dead": 9}
GAUGES |= {"closed_groups": 1, "workers": 2}
"""The numbers of a history, with the rank of their columns: what came, and what was there."""

HISTORY = (
    Column("at (UTC)", "at"),
    *(Column(name.replace("_", " "), name, n, "number") for name, n in (FLOWS | GAUGES).items()),
    Column("run p95", "run p95", 8, "number"),
)


def changes(slots: Sequence[Slot]) -> list[dict[str, Any]]:
    """Make records of a history: the changes since the slot before, and the tasks of each state."""
    rows: list[dict[str, Any]] = []
    for before, slot in zip([None, *slots], slots, strict=False):
        came = {name: before and getattr(slot, name) - getattr(before, name) for name in FLOWS}
        there = {name: getattr(slot, name) for name in GAUGES}
        run = slot.run.since(before.run) if before and slot.run else None
        rows.append({"at": slot.at, **came, **there, "run p95": run and f"{run.p95:.3g} s"})
    return rows


def batch_bar(state: BatchState) -> Group:
    """Make a bar of a batch, with its counts."""
    total, over = max(state.pushed, 1), state.pushed - state.left
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=total, completed=over, width=50), batch_counts(state))
    return Group(Text(shown(state.name)), line)


def scope_name(group: str | None) -> str:
    """Name the part that a limit is for."""
    if group is None:
        return "the queue"
    return "every group" if group == EVERY_GROUP else f"group {shown(group)}"


LIMITS = (
    Column("what", itemgetter(0), 0, "wraps"),
    Column("rate", itemgetter(1)),
    Column("left", itemgetter(2), 3, "number"),
    Column("in flight", itemgetter(3), 1, "number"),
    Column("waiting", itemgetter(4), 2, "number"),
    Column("state", itemgetter(5), 0, "wraps"),
)


def limit_table(title: str, states: Sequence[LimitState]) -> Report:
    """Draw limits and their states, one on each line; further windows on more lines."""
    return Report(title, LIMITS, [row for state in states for row in _limit_rows(state)])


def _limit_rows(state: LimitState) -> Iterator[tuple[str, ...]]:
    windows = [*zip_longest(_rates(state), map(_units, state.units_left), fillvalue="-")]
    of = " (of every group)" * state.default
    for one in state.quotas:
        until = f" (until {_until(one.resets_at)})" if one.resets_at else ""
        left = f"{one.left}" if one.resets_at else "-"
        windows.append((quota_text(one.quota).replace(",", ", ") + of + until, left))
    for budget in state.budgets:
        of = f" ({budget.unit})" if budget.unit else ""
        windows.append((f"told by its host{of}", f"{budget.left} for {span(budget.seconds)}"))
    (rate, left), *others = windows or [("-", "-")]
    bound = "" if state.concurrency is None else f"/{state.concurrency}"
    now = (f"{state.in_flight}{bound}", str(state.waiting), _state(state, state.windows))
    if state.group == EVERY_GROUP:
        now = (f"-{bound}", "-", "-")
    yield (scope_name(state.group), _lines(rate), left, *now)
    for rate, left in others:
        yield ("", _lines(rate), left, "", "", "")
    for member in state.members:
        left = ", ".join(map(_units, member.units_left)) or "-"
        said = _state(member, state.windows)
        yield (f"  {shown(member.name)}", "", left, str(member.in_flight), "", said)


def _lines(rate: str) -> str:
    """Break a rate between its words, so that a narrow table cannot break it within one."""
    if max(map(len, rate.split()), default=0) > RATE_CHARACTERS:
        rate = rate.replace("@", " @")  # a long name of a zone has a line of its own
    return "\n".join(wrap(rate, RATE_CHARACTERS, break_on_hyphens=False))


def _rates(state: LimitState) -> list[str]:
    """Write the windows; spaces behind the commas let a line end there."""
    texts = [write_word(window).replace(",", ", ") for window in state.windows]
    if state.rate is not None:
        texts[0] += f" (now {per_text(round(state.rate, 2), state.windows[0].per)})"
    if state.slack and texts:
        texts[0] += f" (slack {state.slack:.15g} s learned)"
    if state.members and texts:
        texts[0] += " (each member)"
    if state.weight != 1:
        texts = [*texts, f"weight {state.weight:g}"]
    return [text + " (of every group)" * state.default for text in texts]


def _units(left: float) -> str:
    return f"{max(0.0, round(left, 1)):.1f}"  # below 0 while a 429 closes


def _state(state: LimitState | MemberState, windows: Sequence[RateLimit]) -> str:
    if state.open:
        return "open"
    opens, because = state.opens_at, spent(state, windows) or state.reason
    return f"{because} until {_until(opens)}" if opens else f"closed: {because}"


def _until(when: datetime) -> str:
    return say_moment(when, datetime.now(UTC))
