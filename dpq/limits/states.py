"""Limits as callers look at them: pydantic data, loaded when something looks. No I/O, no clock."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

from dpq.limits.budget import Budget
from dpq.limits.limits import Quota, RateLimit
from dpq.model.task_data import Frozen

__all__ = ["LimitState", "MemberState", "QuotaState"]

Reason = Literal[
    "rate limited",
    "closed by hand",
    "unreadable",
    "probe",
    "concurrency",
    "spent",
    "quota",
    "observed",
    "in order",
]

REASONS: dict[str, Reason] = dict(zip("lhupcsqoi", get_args(Reason), strict=True))
"""By the letters of the script `view`."""


class QuotaState(Frozen):
    """A quota of a limit, and its state now.

    Attributes:
        quota: The quota.
        left: Units that are left in this period; negative after too many.
        resets_at: The end of this period, UTC.
    """

    quota: Quota
    left: int
    resets_at: datetime | None


class ScopeState(Frozen):
    """The state of a limit now, for the queue, a group, or a member of a pool.

    Attributes:
        open: True if a task may run now.
        opens_at: The time when the next task may run, UTC; None if one may run now, if a lease
            must end first, or if it is closed until it is opened. Of a group, its best waiting
            task; if none waits, and of the whole queue, a task that takes one of each unit.
        reason: The reason why no task may run: `rate limited` (a 429), `closed by hand`,
            `unreadable` (the stored limit cannot be read), `probe` (the first task after a 429 is
            running), `concurrency`, `spent`, `quota` (one is spent, or spread over the rest of its
            period), `observed` (the host said that too little is left), `in order` (its first task
            waits for its retry); None if it is open.
        rate: The learned rate of an adaptive limit, units per window; None for other limits.
        slack: The learned slack in seconds: it widens the windows without a slack of their own.
        units_left: The units that each window would grant now; negative after too many. Each is of
            the `unit` of its window.
        quotas: Its quotas, with what is left of each in this period, and when the period ends.
        budgets: What its host has said is left (`observe`), less what was granted since.
        in_flight: Tasks under a lease, and permits of `acquire` that are leases (with a
            concurrency, units of a name, as a probe, or while the host says what is left).
        granted: The units that each window has granted, as they were reserved, in the order of the
            windows. It begins at 0 when a limit of its own is set, or has not been used for a
            while; () for others. For rates, as of a metric.
        rate_limited: Tasks that met a 429 since there is a limit of its own.
    """

    open: bool = True
    opens_at: datetime | None = None
    reason: Reason | None = None
    rate: float | None = None
    slack: float = 0.0
    units_left: tuple[float, ...] = ()
    quotas: tuple[QuotaState, ...] = ()
    budgets: tuple[Budget, ...] = ()
    in_flight: int = 0
    granted: tuple[int, ...] = ()
    rate_limited: int = 0


class MemberState(ScopeState):
    """A member of a pool, and the state of its limit now; `ScopeState` has the other fields.

    Attributes:
        name: Its name.
    """

    name: str


class LimitState(ScopeState):
    """A limit of a queue or a group, and its state now; `ScopeState` has the other fields.

    Attributes:
        group: A group; `"*"` for the default of all groups; None for the queue itself.
        windows: Its rates, the shortest window first.
        concurrency: Leases that may exist at once, or None.
        default: The group has no limit of its own, so this is the limit of `"*"`.
        waiting: Tasks that are due and have not begun.
        members: The members of a pool. Windows and concurrency hold for each of them; so
            `units_left`, `rate` and `slack` are theirs.
        in_order: A task that waits for its retry keeps its place before all others of its group.
        weight: The turns that the group gets where others get one, with round robin.
        rules: The text of its own limit, as stored but for the days on which a zone's clock
            changes; "" without one. A change compares it with what stands then.
    """

    group: str | None
    windows: tuple[RateLimit, ...]
    concurrency: int | None
    default: bool = False
    waiting: int = 0
    members: tuple[MemberState, ...] = ()
    in_order: bool = False
    weight: float = 1.0
    rules: str = ""


def spent_quota(state: ScopeState) -> QuotaState | None:
    """Return the quota that opens a closed scope when its next period begins; None without one."""
    opens = (each for each in state.quotas if each.resets_at == state.opens_at)
    return next(opens, None) if state.reason == "quota" else None


def last_to_open(
    windows: Sequence[RateLimit], units_left: Sequence[float]
) -> tuple[RateLimit, float] | None:
    """Return the window that takes longest until it has what a task needs, and what it has left."""
    both = [*zip(windows, units_left, strict=False)]  # most tasks need one request
    few = [(window, left) for window, left in both if left < 1 or window.unit] or both
    needed = max(1, math.floor(min((left for _, left in few), default=0)) + 1)  # does not fit
    return max(few, key=lambda each: (needed - each[1]) * each[0].per / each[0].rate, default=None)


def spent_words(left: float) -> str:
    """Say that no task may run by a window or a quota: with units left, a task needs more."""
    return "is spent" if left < 1 else "has too few units left"
