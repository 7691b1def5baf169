"""The words of `dpq top` about a queue: short texts, safe for a terminal whatever is stored."""

from collections.abc import Callable
from typing import NamedTuple

from dpq import Event, Forecast, LimitState
from dpq.model.display import shown
from dpq.model.drain import Drain
from dpq.model.event_text import event_text
from dpq.model.rates import span
from dpq.model.reports import WorkerInfo
from dpq.protocol.values import moment_of
from dpq.sampler import Snapshot

NONE = "-"

LONGEST = 20 * 365 * 86400.0
"""Seconds: delays end sooner; what is later is closed until somebody opens it."""


def count(value: int) -> str:
    """Write a number of tasks in at most 6 characters."""
    if value < 100_000:
        return str(value)
    return f"{value / 1000:.0f}k" if value < 10_000_000 else f"{value / 1e6:.0f}M"


def rate(value: float | None) -> str:
    """Write tasks per second; a dash before there are two samples."""
    if value is None:
        return NONE
    return f"{value:.1f}" if value < 1000 else count(round(value))


def until(at_ms: float | None, now_ms: float) -> str:
    """Write how long it is until a moment: `12 s`, `now` when it has come."""
    if at_ms is None:
        return NONE
    return span((at_ms - now_ms) / 1000) if at_ms - now_ms >= 1000 else "now"


class Column(NamedTuple):
    """A column of the table of queues.

    Attributes:
        title: Its title.
        width: Its width.
        rank: Columns with a low rank stay in a narrow terminal.
        text: What it says of a queue; takes the server's clock in ms.
    """

    title: str
    width: int
    rank: int
    text: Callable[[Snapshot, float], str]


def _oldest(snapshot: Snapshot, _: float) -> str:
    seconds = snapshot.stats.oldest_ready_seconds
    return NONE if seconds is None else span(seconds)


def _workers(snapshot: Snapshot, _: float) -> str:
    running = sum(each.running for each in snapshot.workers)
    return f"{len(snapshot.workers)} ({running})" if snapshot.workers else "0"


def _closed(snapshot: Snapshot, now_ms: float) -> str:
    survey = snapshot.survey
    if not survey.closed:
        return "0"
    if survey.opens_ms is None or survey.opens_ms - now_ms > LONGEST * 1000:
        return count(survey.closed)
    return f"{count(survey.closed)}, {until(survey.opens_ms, now_ms)}"


def _next(snapshot: Snapshot, now_ms: float) -> str:
    """Say which comes first: a task that is due, a group that opens, or the end of a pause."""
    survey = snapshot.survey
    paused = survey.paused_until
    moments = [(survey.due_ms, "due"), (survey.opens_ms, "opens")]
    moments.append((float(paused) if paused.isdecimal() else None, "resumes"))
    known = [(at, words) for at, words in moments if at and at - now_ms < LONGEST * 1000]
    if not known:
        return NONE
    at, words = min(known)
    return f"{words} {until(at, now_ms)}"


COLUMNS = (
    Column("backlog", 7, 1, lambda s, _: count(s.backlog)),
    Column("invisible", 9, 3, lambda s, _: count(s.stats.invisible)),
    Column("delayed", 7, 7, lambda s, _: count(s.stats.delayed)),
    Column("dead", 6, 5, lambda s, _: count(s.stats.dead)),
    Column("in/s", 6, 2, lambda s, _: rate(s.rates.come)),
    Column("out/s", 6, 2, lambda s, _: rate(s.rates.done)),
    Column("oldest", 9, 6, _oldest),
    Column("drain", 20, 0, lambda s, now_ms: state(s, now_ms)),
    Column("workers", 8, 8, _workers),
    Column("closed", 13, 4, _closed),
    Column("next", 16, 9, _next),
)
"""The columns beside the name of the queue, in the order in which they are shown."""


def columns_for(width: int, name_width: int) -> list[Column]:
    """Choose the columns that fit beside a name; each takes a space on both sides."""
    left, chosen = width - name_width - 2, set[Column]()
    for column in sorted(COLUMNS, key=lambda each: each.rank):
        if column.width + 2 > left:
            break
        chosen.add(column)
        left -= column.width + 2
    return [column for column in COLUMNS if column in chosen]


def state(snapshot: Snapshot, now_ms: float) -> str:
    """Say in a few words how it goes with a queue."""
    paused = snapshot.survey.paused_until
    if paused:
        return "paused" if not paused.isdecimal() else f"paused, {until(float(paused), now_ms)}"
    if snapshot.unattended:
        return "nobody works"
    return snapshot.drain()


def drain(found: Drain) -> str:
    """Say when all that is due will have begun, and why then."""
    if found.state in ("empty", "none due"):
        return found.because
    if found.state == "unknown":
        return "no limit says when it is done, and too little was seen to tell"
    if found.seconds is None:
        return f"{found.state}: {found.because}"
    if found.seconds > LONGEST:
        return f"not before it is opened: {found.because}"
    return f"all begun in {span(found.seconds)}: {found.because}"


def why(closed: LimitState) -> str:
    """Say why a group is closed."""
    reason = str(closed.reason or "about to open")
    return "rate limited, one task tries" if reason == "probe" else reason


def opens(closed: LimitState, now_ms: float) -> str:
    """Say when a closed group opens."""
    if closed.opens_at is None:
        if closed.open:
            return "now"
        return "when opened" if closed.reason == "closed by hand" else "when a task ends"
    return until(closed.opens_at.timestamp() * 1000, now_ms)


def coming(task: Forecast, now_ms: float) -> str:
    """Say when a task starts, and what holds it back until then."""
    about = "" if task.exact else "~"
    when = until(task.starts_at.timestamp() * 1000, now_ms)
    group = f"  {task.group}" if task.group else ""
    payload = f"  {task.payload[:60]}" if task.payload else ""
    because = "" if task.because == "now" else f"  ({task.because})"
    return shown(f"{about + when:>9}  {task.priority:g}{group}{payload}{because}")


def happened(event: Event, now_ms: float) -> str:
    """Say what has happened, and how long ago."""
    kind, detail, until_ms = event_text(event)
    if until_ms is not None:
        detail += f" {moment_of(until_ms).astimezone():%H:%M:%S}"
    about = "  ".join(each for each in (event.group, event.member, event.task_id, detail) if each)
    ago = span(max(0.0, now_ms - event.at.timestamp() * 1000) / 1000)
    return shown(f"{ago:>9} ago  {kind}  {about[:100]}")


def worker(info: WorkerInfo) -> str:
    """Say what a worker does, and since when its longest handler runs."""
    longest = ""
    if info.longest_seconds is not None:
        longest = f", the longest for {span(info.longest_seconds)}"
    late = f", silent for {span(info.seen_seconds)}" if info.seen_seconds > 20 else ""
    return shown(f"{info.name}: {info.running} of {info.concurrency} run{longest}{late}")


def counts(snapshot: Snapshot) -> str:
    """Write the tasks of a queue by state, and its rates."""
    stats, rates = snapshot.stats, snapshot.rates
    return (
        f"ready {stats.ready}   waiting {stats.waiting}   delayed {stats.delayed}   "
        f"invisible {stats.invisible}   dead {stats.dead}\n"
        f"in {rate(rates.come)}/s   out {rate(rates.done)}/s   "
        f"given back {rate(rates.deferred)}/s   oldest {_oldest(snapshot, 0)}"
    )
