"""The survey of a queue: reads the reply of `survey.lua`. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.explain.survey import Held, News, Survey
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import LimitState
from dpq.script.values import read_texts
from dpq.verbs.limit_replies import read_limits


class Explained(NamedTuple):
    """The reason why a task is not running.

    Attributes:
        sentence: As of `DPQ.why`.
        until_ms: The time when that may change, by the server's clock; None if it is not known.
        ahead: Ready tasks before it, or before the head of its group.
        in_group: Tasks of its group before it.
        now_ms: The server's clock.
        limits: The states of the queue's limit, and of its group's.
    """

    sentence: str
    until_ms: float | None
    ahead: int
    in_group: int
    now_ms: int
    limits: list[LimitState]


def read_survey(reply: list[Any]) -> Survey:
    """Read the reply of the script survey ."""
    values, held, states, holders, events = map(read_texts, reply)
    now, paused, closed, opens, limits, heads, due, order, fairness, version = values[:10]
    stored, leases, lapsed, asked, oldest, token, reason, fault = values[10:18]
    most, most_waiting, live = values[18:]
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
