"""Forecasts: what a caller gets, and what they are computed from. No I/O, no clock."""

import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from dpq.model.cost import Units
from dpq.model.limits import Reason
from dpq.model.priority import NO_AGING, Aging

if TYPE_CHECKING:
    from dpq.model.gates import Gate

__all__ = ["Forecast"]

ForecastReason = Literal["delayed", "paused"] | Reason

MAX_FORECAST = 200
"""Tasks in one forecast: their groups must be read in one bounded step."""

PREVIEW_CHARACTERS = 200


class Forecast(BaseModel):
    """A task that waits, and the moment when it will start as limits stand.

    Attributes:
        id: Its id.
        group: Its group, or None.
        key: Its unique key, or None.
        priority: Its priority; bigger runs first (with order "min" smaller).
        cost: The requests that it takes of every limit.
        costs: Its other units by name, or None.
        starts_at: The time when it may start, by the server's clock, UTC.
        in_seconds: The seconds from the look until then; 0.0 if it may start now.
        reason: What holds it back until then: `delayed`, `paused`, or the `reason` of a
            `LimitState`; None if it may start now.
        because: The same in words, as in `group 'gpt': tokens=9000/min`; "now" if it may start now.
        exact: False if it depends on an end of a task that was assumed, or if tasks that were not
            read may come before it, or other queues of its family, which are not looked at.
        payload: The first 200 characters of its payload as JSON; None if it is stored apart.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    group: str | None
    key: str | None
    priority: int | float
    cost: int
    costs: dict[str, int] | None
    starts_at: datetime
    in_seconds: float
    reason: ForecastReason | None
    because: str
    exact: bool
    payload: str | None


@dataclass(slots=True, eq=False)
class Candidate:
    """A task that may start. Times are ms.

    Attributes:
        member: Its order and id: what decides between equal scores.
        shown: Its member in `ready`: with round robin, its turn instead of its sequence.
        score: Minus its priority, plus its aging.
        expires: 0, or the moment by which it must have started.
        lease: The ms of its own leases, or None.
        due: When it is due, if it is delayed.
        pinned: The member of a pool that it only runs as, or None.
        holds: It holds its group in order until it is due.
    """

    id: str
    member: str
    shown: str
    score: float
    priority: int | float
    group: str
    key: str | None
    units: Units
    expires: int
    lease: float | None
    payload: str | None
    due: float = 0.0
    pinned: str | None = None
    holds: bool = False


class Running(NamedTuple):
    """A lease: when it ends, ms, and of what; the member of a pool that it runs as, or ""."""

    end: float
    id: str
    group: str
    member: str = ""


@dataclass(slots=True)
class View:
    """A look at a queue, or at one partition, at one moment. Times are ms.

    Attributes:
        now: The moment.
        paused_until: The end of a pause; infinite until it is resumed, 0 without one.
        turns: The turns that were drawn, with round robin; else None.
        unit: The unit by which groups take turns; None if they do not.
        timed: Turns are not below the time: of a partitioned queue.
        aging: What tasks gain.
        heavy: Tasks need different amounts.
        family: Other queues follow the same limits.
        ready: The first heads, and those of the groups of all other tasks that were read.
        lapsed: Leases that ran out.
        returned: The tasks of those that come back.
        delayed: The first delayed tasks.
        running: The leases that end first.
        waiting: The first waiting tasks, by group.
        closed: When each closed group opens.
        gates: What each scope allows; "" is the queue.
        short: Groups of which not all waiting tasks were read.
        last_ready: The score and member of the last head that was read, if there are more.
        last_due, last_opening, last_end: The last moments that were read, if there are more.
    """

    now: float
    paused_until: float = 0.0
    turns: int | None = None
    unit: str | None = None
    timed: bool = False
    aging: Aging = NO_AGING
    heavy: bool = False
    family: bool = False
    ready: list[Candidate] = field(default_factory=list)
    lapsed: list[Running] = field(default_factory=list)
    returned: list[Candidate] = field(default_factory=list)
    delayed: list[Candidate] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    waiting: dict[str, list[Candidate]] = field(default_factory=dict)
    closed: dict[str, float] = field(default_factory=dict)
    gates: dict[str, "Gate"] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)
    last_ready: tuple[float, str] | None = None
    last_due: float = math.inf
    last_opening: float = math.inf
    last_end: float = math.inf
