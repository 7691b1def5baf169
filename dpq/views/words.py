"""Short texts about a queue for screens, safe for a terminal whatever is stored."""

import getpass
import os
import socket

from dpq import BatchState, Event, LimitState, Verdict
from dpq.model.display import shown
from dpq.model.moments import moment_of, say_moment
from dpq.model.rates import span
from dpq.model.validation import label
from dpq.views.event_text import event_text
from dpq.views.sampler import Snapshot
from dpq.views.workers import Working, say_quiet

NONE = "-"

NARROW = 24
"""Characters of a group on a line of 80 columns that has more to say."""

LONGEST = 20 * 365 * 86400.0
"""Seconds: every delay ends sooner. A group with a later end is closed until a user opens it."""


def number(value: float | None) -> str:
    """Write a number with thin spaces between thousands."""
    if value is None:
        return "–"  # noqa: RUF001
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return text.replace(",", "\u202f")


def batch_counts(batch: BatchState) -> str:
    """Say what has become of the tasks of a batch: `3 left of 10: 6 done, 1 dead; sealed`."""
    ends = [f"{number(batch.done)} done"]
    ends += [f"{number(batch.dead)} dead"] * bool(batch.dead)
    ends += [f"{number(batch.removed)} removed"] * bool(batch.removed)
    state = "finished" if batch.finished else "sealed" if batch.sealed else "open"
    return f"{number(batch.left)} left of {number(batch.pushed)}: {', '.join(ends)}; {state}"


def count(value: int) -> str:
    """Write a number of tasks in at most 6 characters."""
    if value < 100_000:
        return str(value)
    return f"{value / 1000:.0f}k" if value < 10_000_000 else f"{value / 1e6:.0f}M"


def rate(value: float | None) -> str:
    """Write tasks per second; a dash before there are two samples."""
    if value is None:
        return NONE
    if 0 < value < 0.1:
        return f"{value:.2g}"
    return f"{value:.1f}" if value < 1000 else count(round(value))


def until(at_ms: float | None, now_ms: float) -> str:
    """Write how long it is until a moment: `12 s`, `now` when it has come."""
    if at_ms is None:
        return NONE
    return span((at_ms - now_ms) / 1000) if at_ms - now_ms >= 1000 else "now"


def oldest(snapshot: Snapshot) -> str:
    """Write for how long the oldest ready task has been due."""
    seconds = snapshot.stats.oldest_ready_seconds
    return NONE if seconds is None else span(seconds)


def opens(closed: LimitState, now_ms: float) -> str:
    """Say when a closed group opens."""
    if closed.opens_at is None:
        if closed.open:
            return "now"
        return "when opened" if closed.reason == "closed by hand" else "when a task ends"
    return until(closed.opens_at.timestamp() * 1000, now_ms)


def cut(name: str, most: int = 30) -> str:
    """Leave out the middle of a long name: hosts begin and end differently."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}"


def happened(event: Event, now_ms: float) -> str:
    """Say what has happened, and how long ago."""
    kind, detail, until_ms = event_text(event)
    if until_ms is not None:
        detail += f" {say_moment(moment_of(until_ms), moment_of(now_ms))}"
    names = (cut(each, NARROW) for each in (event.group, event.member) if each)
    about = "  ".join(each for each in (*names, event.task_id, detail) if each)
    ago = span(max(0.0, now_ms - event.at.timestamp() * 1000) / 1000)
    return shown(f"{ago:>9} ago  {kind}  {about[:100]}")


def worker(each: Working) -> str:
    """Say what a worker does, and how long its longest handler has run, beside what is usual."""
    info, longest = each.info, ""
    if info.longest_seconds is not None:
        longest = f", {'HANGS: ' if each.hangs else ''}the longest for {span(info.longest_seconds)}"
        longest += f" (99 of 100 within {span(each.p99)})" if each.p99 is not None else ""
        longest += f": {info.longest_task}" if each.hangs else ""
    quiet = f", {say_quiet(each.quiet, each.queues)}" if each.quiet else ""
    late = f", silent for {span(info.seen_seconds)}" if each.late else ""
    return shown(f"{info.name}: {info.running} of {info.concurrency} run{quiet}{late}{longest}")


def this_user(program: str) -> str:
    """Name the user, host and program that change a queue, for its events."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # the user of the process has no name
        user = str(os.getpid())
    return label("by", f"{user[:50]}@{socket.gethostname()[:80]} ({program})")


def verdict(said: Verdict) -> str:
    """Write a verdict on a line of its own, and what to do on the next one."""
    return shown(str(said)) + (f"\n{shown(said.what_to_do)}" if said.what_to_do else "")


def counts(snapshot: Snapshot) -> str:
    """Write the tasks of a queue by state, and its rates."""
    stats, pace = snapshot.stats, snapshot.pace
    return (
        f"ready {stats.ready}   waiting {stats.waiting}   delayed {stats.delayed}"
        f"{f' ({stats.following} follow others)' if stats.following else ''}   "
        f"invisible {stats.invisible}   dead {stats.dead}\n"
        f"in {rate(pace.come)}/s   out {rate(pace.done)}/s   "
        f"given back {rate(snapshot.a_second('deferred'))}/s   oldest {oldest(snapshot)}"
    )
