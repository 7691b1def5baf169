"""Tasks and counts as rich tables. Text from the queue must go through `shown`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest
from textwrap import wrap
from typing import Any, Literal

from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dpq import RateLimit, Task
from dpq.limits.limits import EVERY_GROUP, quota_text
from dpq.limits.words import write_word
from dpq.model.display import attempt_of, shown
from dpq.model.moments import say_moment
from dpq.model.payload import bytes_text
from dpq.model.rates import per_text, span
from dpq.model.validation import MAX_TEXT_CHARACTERS
from dpq.types import (
    BatchState,
    DeadTask,
    Drain,
    LeaseInfo,
    LimitState,
    MemberState,
    QueueStats,
    Slot,
    Times,
)
from dpq.views.limits import spent
from dpq.views.schedule_text import say_schedule
from dpq.views.verdict import say_drain
from dpq.views.words import batch_counts
from dpq.views.workers import Working, say_quiet

STATES = ("ready", "delayed", "invisible", "waiting", "dead")

REASONS = ("reason", "why then")
"""Columns of tasks that wrap if there is no room, and are never left out."""

CUT_FIRST = ("group", "key", "last error", "payload")
"""Columns of tasks that are cut if there is no room: texts of any length."""

TASKS_GO = (
    *("priority", "cost", "recurs", "attempts", "attempt", "key", "in", "group"),
    *("died (UTC)", "until (UTC)", "payload", "last error"),
)
"""Columns of tasks that a narrow table leaves out, the first of them first."""


WRAPS_FROM = 16
"""Characters that a column of long texts has at least; then its texts wrap, or are cut."""


RATE_CHARACTERS = 31
"""Characters of a line of a rate: `25000000/day@Europe/Berlin` fits, and each name of a zone."""


class Ranked(Table):
    """A table that leaves out columns of `goes` if there is no room, and says which."""

    goes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the columns that have room."""
        whole, gone = self.columns, list[str]()
        for name in self.goes:
            if self._needs() <= options.max_width:
                break
            left = [column for column in self.columns if str(column.header) != name]
            gone += [name] * (len(left) < len(self.columns))
            self.columns = [replace(column, _index=n) for n, column in enumerate(left)]
        try:
            yield from super().__rich_console__(console, options)
        finally:
            self.columns = whole
        if gone:
            yield Text(f"no room for: {', '.join(gone)}", style="dim")

    def _needs(self) -> int:
        """Return the least width: texts of any length wrap, and all else stands in one line."""
        widths = [0]
        for column in self.columns:
            cells = (column.header, *column.cells)
            longest = max(cell_len(line) for cell in cells for line in str(cell).split("\n"))
            least = longest if column.no_wrap else min(longest, WRAPS_FROM)
            widths.append(max(least, column.min_width or 0))
        return sum(widths) + 2 * len(self.columns)  # two spaces behind each


def _table(
    title: str,
    *columns: str,
    numbers: Sequence[str] = (),
    wraps: Sequence[str] = (),
    goes: Sequence[str] = (),
) -> Table:
    """Make an empty table."""
    # A narrow table must not wrap or cut this line.
    whole = Text(shown(title), no_wrap=True, overflow="ignore")
    made = Ranked(title=whole, title_justify="left", title_style="bold", pad_edge=False, box=None)
    made.goes = goes
    for name in columns:
        side: Literal["left", "right"] = "right" if name in numbers else "left"
        gives = name in wraps
        overflow: Literal["fold", "ellipsis"] = "fold" if gives else "ellipsis"
        header = Text(name, no_wrap=True, overflow="ellipsis")
        made.add_column(header, justify=side, no_wrap=not gives, overflow=overflow)
    return made


def _cells(values: Iterable[object]) -> Iterable[str]:
    return (_cell(value) for value in values)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"  # its column says UTC
    return shown(str(value)[:MAX_TEXT_CHARACTERS])


def _json(payload: Any) -> str:
    return bytes_text(payload) or to_json(payload, inf_nan_mode="constants").decode()


def _tasks(title: str, columns: dict[str, list[Any]]) -> Table:
    """Make a table of tasks, without the columns that are empty for all of them."""
    said = {
        name: column
        for name, column in columns.items()
        if any(value is not None for value in column)
    }
    made = _table(title, *said, wraps=(*CUT_FIRST, *REASONS), goes=TASKS_GO)
    made.columns[[*said].index("id")].min_width = max(map(len, columns["id"]), default=0)
    for row in zip(*said.values(), strict=True):
        cells = zip(said, _cells(row), strict=True)
        made.add_row(
            *(
                Text(cell) if name in REASONS else Text(cell, no_wrap=True, overflow="ellipsis")
                for name, cell in cells
            )
        )
    return made


def _costs(tasks: Sequence[Task[Any]]) -> list[str | None]:
    """List the costs of tasks; None for each if all cost 1."""
    costs = [
        ", ".join([str(task.cost), *(f"{unit}={n}" for unit, n in (task.costs or {}).items())])
        for task in tasks
    ]
    return [None for _ in tasks] if set(costs) == {"1"} else [*costs]


def _schedules(tasks: Sequence[Task[Any]]) -> list[str | None]:
    """List the schedules of tasks in words; None for a task that does not recur."""
    return [say_schedule(task.every, task.cron) or None for task in tasks]


def _attempt(task: Task[Any]) -> str:
    return attempt_of(task.attempt, task.max_attempts).replace(" of ", "/")


def live_tasks(title: str, tasks: Sequence[Task[Any]]) -> Table:
    """Make a table of live tasks."""
    return _tasks(
        title,
        {
            "id": [task.id for task in tasks],
            "priority": [task.priority for task in tasks],
            "cost": _costs(tasks),
            "group": [task.group for task in tasks],
            "key": [task.key for task in tasks],
            "recurs": _schedules(tasks),
            "attempt": [_attempt(task) for task in tasks],
            "until (UTC)": [task.visible_until for task in tasks],
            "last error": [task.last_error for task in tasks],
            "payload": [_json(task.payload) for task in tasks],
        },
    )


def dead_tasks(title: str, tasks: Sequence[DeadTask[Any]]) -> Table:
    """Make a table of dead letters."""
    return _tasks(
        title,
        {
            "id": [task.id for task in tasks],
            "died (UTC)": [task.died_at for task in tasks],
            "attempts": [task.attempts for task in tasks],
            "reason": [task.reason for task in tasks],
            "last error": [task.last_error for task in tasks],
            "priority": [task.priority for task in tasks],
            "cost": _costs(tasks),
            "recurs": _schedules(tasks),
            "group": [task.group for task in tasks],
            "payload": [_json(task.payload) for task in tasks],
        },
    )


def counts(
    name: str,
    stats: QueueStats,
    before: QueueStats | None,
    seconds: float,
    drain: Drain,
) -> Table:
    """Make a table of one queue's counts; with an earlier look, also the growth per second."""
    made = _table(
        f"queue {name}",
        "count",
        "tasks",
        *(["per second"] if before else []),
        numbers=("tasks", "per second"),
    )
    for field, value in stats.model_dump(exclude={"oldest_ready_seconds", "wait", "run"}).items():
        growth = [] if before is None or field in STATES else [value - getattr(before, field)]
        made.add_row(field, str(value), *(f"{more / seconds:.1f}" for more in growth))
    oldest = stats.oldest_ready_seconds
    made.add_row("oldest ready", "-" if oldest is None else f"{oldest:.1f} s")
    for field, times in (("wait p50, p95, p99", stats.wait), ("run p50, p95, p99", stats.run)):
        made.add_row(field, "-" if times is None else _percentiles(times))
    text = f"drain: {shown(say_drain(drain))}"
    # A narrow table must not wrap or cut this line.
    made.caption = Text(text, no_wrap=True, overflow="ignore")
    made.caption_justify, made.caption_style = "left", ""
    return made


def _percentiles(times: Times) -> str:
    return ", ".join(f"{seconds:.3g} s" for seconds in (times.p50, times.p95, times.p99))


def slots_table(title: str, slots: Sequence[Slot]) -> Table:
    """Make a table of a history: the changes since the slot before, and the tasks of each state."""
    flows = ("pushed", "acked", "failed", "rate_limited", "buried")
    gauges = ("ready", "waiting", "delayed", "held", "dead", "closed_groups", "workers")
    names = tuple(name.replace("_", " ") for name in (*flows, *gauges))
    few = ("closed groups", "workers", "held", "buried", "delayed", "waiting", "failed")
    goes = (*few, "run p95", "dead", "rate limited")
    made = _table(title, "at (UTC)", *names, "run p95", numbers=(*names, "run p95"), goes=goes)
    for before, slot in zip([None, *slots], slots, strict=False):
        came = [
            "-" if before is None else str(getattr(slot, name) - getattr(before, name))
            for name in flows
        ]
        there = [str(getattr(slot, name)) for name in gauges]
        run = slot.run.since(before.run) if before and slot.run else None
        made.add_row(*_cells([slot.at]), *came, *there, f"{run.p95:.3g} s" if run else "-")
    return made


def all_queues(found: Mapping[str, QueueStats | Exception]) -> Table:
    """Make a table of many queues, one on each line, with their counts or their error."""
    numbers = (*STATES, "pushed", "acked")
    errors = ("error",) if any(isinstance(answer, Exception) for answer in found.values()) else ()
    goes = ("acked", "pushed", "delayed", "waiting", "invisible", "dead")
    made = _table(
        "queues", "queue", *numbers, *errors, numbers=numbers, wraps=("queue", *errors), goes=goes
    )
    for name, answer in found.items():
        if isinstance(answer, Exception):
            made.add_row(*_cells([name, *("-" for _ in numbers), answer]))
        else:
            made.add_row(*_cells([name, *(getattr(answer, field) for field in numbers)]))
    return made


def batch_bar(state: BatchState) -> Group:
    """Make a bar of a batch, with its counts."""
    total, over = max(state.pushed, 1), state.pushed - state.left
    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=total, completed=over, width=50), batch_counts(state))
    return Group(Text(shown(state.name)), line)


def workers_table(workers: Sequence[Working]) -> Table:
    """Make a table of workers, one on each line; most names contain the host already."""
    numbers = ("pid", "running", "of", "holds", "p99")
    columns = ("host", "pid", "queues", "running", "of", "holds", "longest", "p99")
    times = ("since (UTC)", "last seen")
    wraps = ("worker", "host", "queues", "longest")
    goes = ("since (UTC)", "host", "pid", "of", "holds", "queues", "running", "last seen", "p99")
    quiet = ["quiet"] if any(each.quiet for each in workers) else []
    versions = ["version"] if len({each.info.version for each in workers}) > 1 else []
    made = _table(
        "workers",
        "worker",
        *quiet,
        *versions,
        *columns,
        *times,
        numbers=numbers,
        wraps=(*wraps, *quiet),
        goes=goes,
    )
    for each in workers:
        info, p99 = each.info, None if each.p99 is None else span(each.p99)
        longest = None if info.longest_seconds is None else span(info.longest_seconds)
        if longest and info.longest_task not in (None, "-"):
            longest = f"{longest}{', HANGS:' * each.hangs} {info.longest_task}"
        counts = (each.running, info.concurrency, each.holds, longest, p99)
        quiet_of = say_quiet(each.quiet, each.queues) or None
        names = (
            info.name,
            *(quiet_of for _ in quiet),
            *(info.version for _ in versions),
            info.host,
            info.pid,
        )
        seen = f"{'LATE, ' * each.late}{span(info.seen_seconds)} ago"
        made.add_row(*_cells([*names, ", ".join(each.queues), *counts, info.since, seen]))
    return made


def leases_table(title: str, leases: Sequence[LeaseInfo]) -> Table:
    """Make a table of leases, one on each line."""
    columns = ("task", "group", "attempt", "since (UTC)", "held", "ends (UTC)", "worker", "host")
    goes = ("since (UTC)", "attempt", "ends (UTC)", "host", "group")
    wraps = ("group", "worker", "host")
    made = _table(title, *columns, numbers=("held",), wraps=wraps, goes=goes)
    for lease in leases:
        attempt = attempt_of(lease.attempt, lease.max_attempts)
        held = span(lease.held_seconds)
        texts = (lease.id, lease.group, attempt, lease.since, held, lease.until)
        made.add_row(*_cells([*texts, lease.worker, lease.host]))
    return made


def scope_name(group: str | None) -> str:
    """Name the part that a limit is for."""
    if group is None:
        return "the queue"
    return "every group" if group == EVERY_GROUP else f"group {shown(group)}"


def limit_table(title: str, states: Sequence[LimitState]) -> Table:
    """Make a table of limits and their states, one on each line; further windows on more lines."""
    numbers = ("left", "in flight", "waiting")
    wide = ("what", "state")
    goes = ("in flight", "waiting", "left")
    made = _table(title, "what", "rate", *numbers, "state", numbers=numbers, wraps=wide, goes=goes)
    for state in states:
        windows = [*zip_longest(_rates(state), map(_units, state.units_left), fillvalue="-")]
        windows += [
            (f"{quota} (until {until})" if until else quota, left)
            for quota, left, until in _quotas(state)
        ]
        windows += _budgets(state)
        (rate, left), *others = windows or [("-", "-")]
        made.add_row(scope_name(state.group), _lines(rate), left, *_counts(state), _now(state))
        for rate, left in others:
            made.add_row("", _lines(rate), left)
        for member in state.members:
            made.add_row(*_member_row(member, state.windows))
    return made


def _lines(rate: str) -> str:
    """Break a rate between its words, so that a narrow table cannot break it within one."""
    if max(map(len, rate.split()), default=0) > RATE_CHARACTERS:
        rate = rate.replace("@", " @")  # a long name of a zone has a line of its own
    return "\n".join(wrap(rate, RATE_CHARACTERS, break_on_hyphens=False))


def _member_row(member: MemberState, windows: Sequence[RateLimit]) -> tuple[str, ...]:
    left = ", ".join(map(_units, member.units_left)) or "-"
    return f"  {shown(member.name)}", "", left, str(member.in_flight), "", _state(member, windows)


def group_sheet(title: str, state: LimitState) -> Table:
    """Make a table of one group, with a line for each value."""
    made = _table(title, "", "", wraps=("",))
    made.show_header = False
    for rate, left in zip_longest(_rates(state), state.units_left):
        made.add_row("rate", rate)
        if left is not None:
            made.add_row("units left", _units(left))
    for quota, left, until in _quotas(state):
        made.add_row("quota", quota)
        made.add_row("units left", f"{left} until {until}" if until else left)
    for budget in _budgets(state):
        made.add_row(*budget)
    in_flight, waiting = _counts(state)
    made.add_row("in flight", in_flight)
    made.add_row("waiting", waiting)
    made.add_row("state", _now(state))
    for member in state.members:
        _, _, left, count, _, text = _member_row(member, state.windows)
        made.add_row(f"as {shown(member.name)}", f"{left} left, {count} in flight, {text}")
    return made


def _rates(state: LimitState) -> list[str]:
    """Write the windows; spaces behind the commas let a narrow column wrap there."""
    texts = [write_word(window).replace(",", ", ") for window in state.windows]
    if state.rate is not None:
        texts[0] += f" (now {per_text(round(state.rate, 2), state.windows[0].per)})"
    if state.slack and texts:
        texts[0] += f" (slack {state.slack:.15g} s learned)"
    if state.members and texts:
        texts[0] += " (each member)"
    if state.weight != 1:
        texts = [*texts, f"weight {state.weight:g}"]
    if state.default:
        texts = [f"{text} (of every group)" for text in texts]
    return texts


def _quotas(state: LimitState) -> list[tuple[str, str, str]]:
    """Write the quotas, what is left of each, and when its period ends, or ""."""
    of = " (of every group)" if state.default else ""
    return [
        (
            quota_text(one.quota).replace(",", ", ") + of,
            f"{one.left}" if one.resets_at else "-",
            _until(one.resets_at) if one.resets_at else "",
        )
        for one in state.quotas
    ]


def _budgets(state: LimitState) -> list[tuple[str, str]]:
    """Write the budgets that a host has named, and how long they hold."""
    return [
        (
            f"told by its host{f' ({budget.unit})' if budget.unit else ''}",
            f"{budget.left} for {span(budget.seconds)}",
        )
        for budget in state.budgets
    ]


def _units(left: float) -> str:
    return f"{max(0.0, round(left, 1)):.1f}"  # below 0 while a 429 closes


def _counts(state: LimitState) -> tuple[str, str]:
    """Write the tasks in flight, with their limit, and the waiting tasks; `-` for every group."""
    bound = "" if state.concurrency is None else f"/{state.concurrency}"
    if state.group == EVERY_GROUP:
        return f"-{bound}", "-"
    return f"{state.in_flight}{bound}", str(state.waiting)


def _now(state: LimitState) -> str:
    if state.group == EVERY_GROUP:
        return "-"
    return _state(state, state.windows)


def _state(state: LimitState | MemberState, windows: Sequence[RateLimit]) -> str:
    if state.open:
        return "open"
    opens, because = state.opens_at, spent(state, windows) or state.reason
    return f"{because} until {_until(opens)}" if opens else f"closed: {because}"


def _until(when: datetime) -> str:
    return say_moment(when, datetime.now(UTC))
