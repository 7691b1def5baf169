"""Facts that keep the tasks of a queue from running, from one call of `survey.lua`. No I/O.

`verdict` makes a sentence of it; the screens show its counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpq.explain.pace import Point
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import LimitState
from dpq.model.reports import QueueStats, WorkerInfo
from dpq.script.values import read_texts
from dpq.verbs.limit_replies import read_limits

SEEN_MAX = 1_000_000
"""Seen keys of a queue that has no bound of its own. Source: lua/lib/seen.lua."""


class News(NamedTuple):
    """The newest event of a pause or a closing: when it was, ms, and its detail."""

    at_ms: float
    detail: str


class Held(NamedTuple):
    """The queue itself, or a closed group, with the due tasks that its limit concerns.

    Attributes:
        state: Its limit, and what that allows now.
        due: Its due tasks.
        holder: The id of its task that has been leased for the longest time, or "".
        held_ms: The moment of that pop, or None.
        permits: How many permits of `acquire` have a lease.
        permits_until_ms: The time when the first of these leases ends, or None.
        limited: Its last 429, or None.
        closed: Its last closing by hand, or None.
        token: The token of the lease of `holder`, or 0.
    """

    state: LimitState
    due: int
    holder: str = ""
    held_ms: float | None = None
    permits: int = 0
    permits_until_ms: float | None = None
    limited: News | None = None
    closed: News | None = None
    token: int = 0


class Survey(NamedTuple):
    """The state of a queue beside its counts. Times are ms, by the server's clock.

    Attributes:
        now_ms: The server's clock.
        paused_until: "", "inf", or ms.
        closed: Groups that are closed now.
        opens_ms: The time when the first closed group opens; None if none is closed, or opens by
            itself.
        limits: Limits of groups that are set.
        heads: Groups with a task that is ready.
        due_ms: The time when the next delayed task is due, or None.
        order: The order: fifo, lifo or min.
        fairness: The order of groups.
        storage_format: The number of the storage format; "" if the queue does not exist.
        stored: Settings, limits and totals that are stored; 0 if the queue does not exist.
        leases: Leases that last.
        lapsed: Leases that have ended, of tasks that the next pop makes ready.
        asked_ms: The time when a consumer has last asked for a task, to 5 s; None: never.
        oldest: The id of the task that has been leased for the longest time, of 100 leases; or "".
        oldest_ms: The moment of that pop, or None.
        first_death: Reason and last error of the first dead letter, or "" and "".
        held: The queue itself, and the closed groups with the most due tasks; empty if nothing is
            limited or closed.
        pause: The last pause, if it lasts.
        max_tasks: The bound of live tasks; 0 for none.
        max_waiting: The bound of the waiting tasks of each group; 0 for none.
        live: Live tasks that are stored.
        server: Fields of INFO about memory, disk and role, and `db0` and so on for databases with
            keys; empty if the user may not read them.
        seen_max: The most keys that stay taken after their task's ack.
        producers: Producers that wait for room.
        died: Id and reason of the newest dead letter that recurs, or "" and "".
        keyed: How many of the newest dead letters have a key, and such a key.
        standing: A batch of which no task has ended for an hour, though a task waits for its end;
            how many of its tasks are left; and since when it stands.
    """

    now_ms: int
    paused_until: str
    closed: int
    opens_ms: float | None
    limits: int
    heads: int
    due_ms: float | None
    order: str
    fairness: str
    storage_format: str
    stored: int = 0
    leases: int = 0
    lapsed: int = 0
    asked_ms: float | None = None
    oldest: str = ""
    oldest_ms: float | None = None
    first_death: tuple[str, str] = ("", "")
    held: tuple[Held, ...] = ()
    pause: News | None = None
    max_tasks: int = 0
    max_waiting: int = 0
    live: int = 0
    server: Mapping[str, str] = {}
    seen_max: int = SEEN_MAX
    producers: int = 0
    died: tuple[str, str] = ("", "")
    keyed: tuple[int, str] = (0, "")
    standing: tuple[str, int, float] = ("", 0, 0.0)

    @property
    def full(self) -> bool:
        """True if the queue has as many tasks as its bound."""
        return 0 < self.max_tasks <= self.live


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
    def due(self) -> int:
        """The tasks that a consumer could have now, if nothing held them."""
        return self.stats.ready + self.stats.waiting

    @property
    def paused_until(self) -> float:
        """The end of the pause, ms; 0.0 without one, infinity until it is resumed."""
        return float(self.survey.paused_until or 0)

    @property
    def bound_by_limits(self) -> bool:
        """True if a limit or a closing may decide when due tasks run."""
        return bool(self.due and (self.survey.limits or self.survey.held))


class Explained(NamedTuple):
    """The reason why a task is not running.

    Attributes:
        sentence: As of `DPQ.why`.
        until_ms: The time when that may change, by the server's clock; None if it is not known.
        about_ms: The time when limits let it start, after all before it; None if it is not known.
        ahead: Ready tasks before it, or before the head of its group.
        in_group: Tasks of its group before it.
        now_ms: The server's clock.
        limits: The states of the queue's limit, and of its group's.
    """

    sentence: str
    until_ms: float | None
    about_ms: int | None
    ahead: int
    in_group: int
    now_ms: int
    limits: list[LimitState]


def read_survey(reply: list[Any]) -> Survey:
    """Read the reply of the script survey ."""
    values, held, states, holders, events, server, warned = map(read_texts, reply)
    now, paused, closed, opens, limits, heads, due, order, fairness, version = values[:10]
    stored, leases, lapsed, asked, oldest, token, reason, fault = values[10:18]
    most, most_waiting, live = values[18:]
    seen_max, producers, recurs, died_of, keyed, key, batch, left, changed = warned
    news = {
        (kind, group): News(float(at) if at.isdecimal() else 0.0, detail)
        for kind, group, at, detail in zip(*(events[i::4] for i in range(4)), strict=True)
    }
    back = tuple(_read_held(held, states, holders, news))
    return Survey(
        int(now),
        paused,
        int(closed),
        _first_opening(int(closed), _number(opens), back),
        int(limits),
        int(heads),
        _number(due),
        order,
        fairness,
        version,
        int(stored),
        int(leases),
        int(lapsed),
        _number(asked) or None,
        oldest,
        _popped(token),
        (reason, fault),
        back,
        news.get(("paused", "")),
        _bound(most),
        _bound(most_waiting),
        int(live),
        dict(zip(server[::2], server[1::2], strict=True)),
        _bound(seen_max) or SEEN_MAX,
        int(producers),
        (recurs, died_of),
        (int(keyed), key),
        (batch, int(left or 0), float(changed or 0)),
    )


def _first_opening(closed: int, looked_at: float | None, held: Sequence[Held]) -> float | None:
    """Return the time when the first closed group opens, ms; None if none of them does by
    itself."""
    shut = [each.state for each in held[1:] if not each.state.open]
    if len(shut) == closed:  # a group that keeps its order is looked at sooner than it opens
        moments = (state.opens_at.timestamp() * 1000 for state in shut if state.opens_at)
        return min(moments, default=None)
    return None if looked_at is not None and looked_at >= UNTIL_OPENED_MS else looked_at


def _bound(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _read_held(
    held: Sequence[str],
    states: Sequence[str],
    holders: Sequence[str],
    news: dict[tuple[str, str], News],
) -> list[Held]:
    groups, due = held[::2], map(int, held[1::2])
    limits = read_limits([group or None for group in groups], {}, states)
    rows = zip(groups, limits, due, *(holders[i::4] for i in range(4)), strict=True)
    return [
        Held(
            state,
            count,
            holder,
            _popped(token),
            int(permits),
            _number(ends),
            news.get(("rate_limited", group)),
            news.get(("closed", group)),
            int(token or 0),
        )
        for group, state, count, holder, token, permits, ends in rows
    ]


def _popped(token: str) -> float | None:
    """Return the moment of the pop that a token names, ms: tokens are microseconds."""
    return int(token) / 1000 if token else None


def _number(text: str) -> float | None:
    return float(text) if text else None
