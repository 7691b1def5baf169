"""Facts that keep the tasks of a queue from running, from one call of `survey.lua`. No I/O.

`verdict` makes a sentence of it; the screens show its counts.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dpq.explain.incidents import PACED, REASONS, VerdictState
from dpq.explain.pace import Point
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import LimitState
from dpq.model.reports import QueueStats, WorkerInfo
from dpq.script.values import read_fields, read_texts
from dpq.verbs.limits import read_limits


class News(NamedTuple):
    """The newest event of a pause or a closing: when it was, ms, and its detail."""

    at_ms: float
    detail: str


class Held(NamedTuple):
    """The queue itself, or a closed group, with the due tasks that its limit concerns."""

    state: LimitState
    due: int
    holder: str  # the id of its task that has been leased for the longest time, or ""
    token: int  # of the lease of `holder`, microseconds; or 0
    permits: int  # permits of `acquire` that have a lease
    permits_until_ms: float | None  # the time when the first of these leases ends
    limited: News | None  # its last 429
    closed: News | None  # its last closing by hand

    @property
    def name(self) -> str:
        """Its name in a sentence."""
        return "the queue" if self.state.group is None else f"group {self.state.group!r}"

    @property
    def kind(self) -> VerdictState:
        """The state of a queue that its limit holds."""
        return REASONS.get(self.state.reason or "", PACED)[0]

    @property
    def opens_ms(self) -> float | None:
        """The moment at which it opens by itself, or None."""
        return self.state.opens_at.timestamp() * 1000 if self.state.opens_at else None

    @property
    def held_ms(self) -> float | None:
        """The moment at which `holder` was popped."""
        return self.token / 1000 if self.token else None


class Survey(NamedTuple):
    """The state of a queue beside its counts, up to `batch_since_ms` as survey.lua returns it."""

    now_ms: int
    paused_until: str  # "", "inf", or ms
    closed: int  # groups that are closed now
    opens_ms: float | None  # when the first of them opens; None if it does not by itself
    limits: int  # limits of groups that are set
    due_ms: float | None  # when the next delayed task is due
    order: str  # fifo, lifo or min
    fairness: str
    stored: int  # settings, limits and totals that are stored; 0 if the queue does not exist
    leases: int  # that last
    lapsed: int  # leases that have ended, of tasks that the next pop makes ready
    asked_ms: float | None  # when a consumer has last asked for a task, to 5 s
    oldest: str  # the id of the task that has been leased for the longest time, of 100; or ""
    oldest_token: int  # of that lease, microseconds; or 0
    oldest_group: str  # of that task
    max_tasks: int  # the bound of live tasks; 0 for none
    max_waiting: int  # the bound of the waiting tasks of each group; 0 for none
    live: int  # live tasks that are stored
    seen_max: int  # the most keys that stay taken after their task's ack; 0: a million
    producers: int  # that wait for room
    died_of: str  # the reason of the newest dead letter, or ""
    fault: str  # its last error
    recurs: str  # the id of the newest dead letter that recurs, or ""
    recurs_died_of: str
    keyed: int  # of the newest dead letters, those with a key that would be free after an ack
    key: str  # such a key
    key_task: str  # the id of its task
    batch: str  # a batch of which no task has ended for an hour, though a task waits for its end
    batch_left: int  # 0: a batch without live tasks that is not sealed
    batch_since_ms: float | None
    held: tuple[Held, ...]  # the queue, and the closed groups with most due tasks; or nothing
    pause: News | None  # the last pause, if it lasts
    server: Mapping[str, str]  # fields of INFO: memory, disk, role, databases with keys

    @property
    def full(self) -> bool:
        """True if the queue has as many tasks as its bound."""
        return 0 < self.max_tasks <= self.live

    @property
    def oldest_ms(self) -> float | None:
        """The moment at which `oldest` was popped."""
        return self.oldest_token / 1000 if self.oldest_token else None


class Overview(NamedTuple):
    """Facts that all pages show of a queue, read in one round trip; a verdict is made of them."""

    stats: QueueStats
    survey: Survey
    workers: list[WorkerInfo]

    @property
    def point(self) -> Point:
        """The counts, at the server's time."""
        return Point.of(self.survey.now_ms / 1000, self.stats)

    @property
    def exists(self) -> bool:
        """True if anything of the queue is stored."""
        return bool(self.stats.live or self.stats.dead or self.survey.stored or self.workers)

    @property
    def paused_until(self) -> float:
        """The end of the pause, ms; 0.0 without one, infinity until it is resumed."""
        return float(self.survey.paused_until or 0)

    @property
    def bound_by_limits(self) -> bool:
        """True if a limit or a closing may decide when due tasks run."""
        return bool(self.stats.due and (self.survey.limits or self.survey.held))


class Explained(NamedTuple):
    """The reason why a task is not running."""

    sentence: str  # as of `DPQ.why`
    until_ms: float | None  # when that may change, by the server's clock
    about_ms: int | None  # when limits let it start, after all tasks before it
    now_ms: int  # the server's clock


def read_survey(reply: list[Any]) -> Survey:
    """Read the reply of the script survey."""
    values, held, states, holders, events, server = map(read_texts, reply)
    news = {
        (kind, group): News(float(at) if at.isdecimal() else 0.0, detail)
        for kind, group, at, detail in zip(*(events[i::4] for i in range(4)), strict=True)
    }
    groups, due = held[::2], map(int, held[1::2])
    limits = read_limits([group or None for group in groups], {}, states)
    rows = zip(groups, limits, due, *(holders[i::4] for i in range(4)), strict=True)
    back = tuple(
        Held(
            *(state, count, id_, int(token or 0), int(permits), float(ends) if ends else None),
            news.get(("rate_limited", group)),
            news.get(("closed", group)),
        )
        for group, state, count, id_, token, permits, ends in rows
    )
    said = dict(zip(server[::2], server[1::2], strict=True))
    seen = Survey._make([*read_fields(Survey, values), back, news.get(("paused", "")), said])
    return seen._replace(opens_ms=_first_opening(seen))


def _first_opening(seen: Survey) -> float | None:
    """Return the ms at which the first closed group opens; None if none does by itself."""
    shut = [each for each in seen.held[1:] if not each.state.open]
    if len(shut) == seen.closed:  # a group that keeps its order is looked at before it opens
        return min((each.opens_ms for each in shut if each.opens_ms), default=None)
    return None if seen.opens_ms is None or seen.opens_ms >= UNTIL_OPENED_MS else seen.opens_ms
