"""The columns of the table of queues, and which of them fit a terminal."""

from collections.abc import Callable
from typing import NamedTuple

from dpq.views.sampler import Snapshot
from dpq.views.verdict import say_state
from dpq.views.words import LONGEST, NONE, count, oldest, rate, until


class Column(NamedTuple):
    """A column of the table of queues.

    Attributes:
        title: Its title.
        width: Its width.
        rank: Columns with a low rank stay in a narrow terminal.
        text: A function of a snapshot and the server's clock in ms, which returns the cell.
    """

    title: str
    width: int
    rank: int
    text: Callable[[Snapshot, float], str]


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
    """Name the next event: a due task, the opening of a group, or the end of a pause."""
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
    Column("in/s", 6, 2, lambda s, _: rate(s.pace.come)),
    Column("out/s", 6, 2, lambda s, _: rate(s.pace.done)),
    Column("oldest", 9, 6, lambda s, _: oldest(s)),
    Column("verdict", 21, 0, say_state),
    Column("workers", 8, 8, _workers),
    Column("closed", 13, 4, _closed),
    Column("next", 16, 9, _next),
)
"""The columns beside the name of the queue, in the order in which they are shown."""


ORDERS: dict[str, Callable[[Snapshot], float]] = {
    "backlog": lambda s: s.backlog,
    "invisible": lambda s: s.stats.invisible,
    "delayed": lambda s: s.stats.delayed,
    "dead": lambda s: s.stats.dead,
    "in/s": lambda s: s.pace.come or 0,
    "out/s": lambda s: s.pace.done or 0,
    "oldest": lambda s: s.stats.oldest_ready_seconds or 0,
    "verdict": lambda s: s.verdict.needs_person,
    "closed": lambda s: s.survey.closed,
}
"""The columns by which queues can be sorted, the largest number first."""


def columns_for(width: int, name_width: int) -> list[Column]:
    """Choose the columns that fit beside a name; each takes a space on both sides."""
    left, chosen = width - name_width - 2, set[Column]()
    for column in sorted(COLUMNS, key=lambda each: each.rank):
        if column.width + 2 > left:
            break
        chosen.add(column)
        left -= column.width + 2
    return [column for column in COLUMNS if column in chosen]
