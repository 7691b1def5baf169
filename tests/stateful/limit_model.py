"""What one limit allows, in exact fractions of a millisecond: the model's own arithmetic.

A window is a debt. `paid` is the moment up to which the scope has paid; each unit that is taken
pays for one more interval, and `burst` units may be taken on credit.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from kit.periods import period_of
from kit.refunds import Window

from dpq import Quota, RateLimit
from dpq.types import Cost

NEXT = ""
"""As a probe: the next task that runs will be it."""

GRAIN = Fraction(1, 4096)
"""Milliseconds: intervals are rounded up to whole grains, which doubles add without loss."""


@dataclass(frozen=True)
class Rules:
    """A limit as it was set."""

    windows: tuple[RateLimit, ...] = ()
    concurrency: int | None = None
    quotas: tuple[Quota, ...] = ()
    in_order: bool = False

    @classmethod
    def of(
        cls, limits: Sequence[RateLimit | Quota], concurrency: int | None, in_order: bool = False
    ) -> "Rules":
        """From what `set_limit` is given."""
        windows = tuple(one for one in limits if isinstance(one, RateLimit))
        quotas = tuple(one for one in limits if isinstance(one, Quota))
        return cls(windows, concurrency, quotas, in_order)


def per_ms(window: RateLimit) -> int:
    """The window's length."""
    return round(window.per * 1000)


def named(cost: Cost) -> dict[str, int]:
    """What a task takes, by unit; "" is requests."""
    return {"": cost} if isinstance(cost, int) else {"": 1, **cost}


def units_of(cost: Cost | None, unit: str) -> int:
    """What a cost takes of a unit; None is one of each."""
    return 1 if cost is None else named(cost).get(unit, 0)


def names(windows: Sequence[RateLimit]) -> list[tuple[tuple[int, str], int]]:
    """What a debt belongs to: a length and a unit, and which of the windows that have these."""
    lengths = [(per_ms(window), window.unit) for window in windows]
    return [(length, lengths[:i].count(length)) for i, length in enumerate(lengths)]


@dataclass
class Count:
    """What a quota has counted in a period; a period that is over has counted nothing."""

    count: int = 0
    reset: int = 0
    next: int = 0  # when the next task may run, if the rest is spread over the period
    start: int = 0  # when it began to count: what was granted before is none of it


@dataclass
class Tracked(Window):
    """What of a window may be given back; `paid` stands in the gate."""

    interval: Fraction = Fraction(0)
    most: int = 0
    over: Fraction = Fraction(0)  # what was owed beyond the bound by what tasks spent
    pop: int = -1  # that granted last: the grants of one pop are as one


@dataclass
class Refusals:
    """How often a task was refused as a probe, in deliveries one after the other."""

    delivery: int = 0  # the last one that was refused
    times: int = 0
    passed: bool = False  # others have passed since

    def refused(self, delivery: int, was_probe: bool, others: bool) -> None:
        """One more delivery is refused; others could run in its place or not."""
        if self.delivery != delivery - 1:
            self.times, self.passed = 0, False
        if not was_probe:
            self.passed = self.times >= 2
        elif self.times < 2 or self.passed or (self.times >= 3 and not others):
            self.times, self.passed = min(self.times + 1, 5), False
        self.delivery = delivery

    def alone(self, delivery: int) -> int:
        """How often, if this delivery was refused as a probe, too."""
        return self.times if self.delivery == delivery and not self.passed else 0


@dataclass
class Gate:
    """What the limit of one scope has granted, and its closing. `rules` is set before each use.

    Another limit with a window of the same length goes on from what was paid.
    """

    rules: Rules = Rules()
    paid: defaultdict[tuple[tuple[int, str], int], Fraction] = field(
        default_factory=lambda: defaultdict(Fraction)
    )
    counts: dict[tuple[str, str], Count] = field(default_factory=dict)
    tracked: dict[tuple[tuple[int, str], int], Tracked] = field(default_factory=dict)
    opens: int = 0
    reason: str | None = None  # of the closing
    probe: str | None = None  # NEXT, or the id of the one that runs

    def interval(self, i: int) -> Fraction:
        """Milliseconds that one unit pays for."""
        window = self.rules.windows[i]
        wide = per_ms(window) + round((window.slack or 0) * 1000)
        return ceil(wide / Fraction(window.rate) / GRAIN) * GRAIN

    def most(self, i: int) -> int:
        """Units that any span of the window's length may see; a task never costs more."""
        window = self.rules.windows[i]
        return max(1, ceil(window.rate) + window.burst - 1)

    def bound(self, i: int, now: int) -> Fraction:
        """No limit has a debt beyond this: only an earlier, tighter one could have made it."""
        window = self.rules.windows[i]
        tracked = self.tracked.get(names(self.rules.windows)[i])
        over = tracked.over if tracked else Fraction(0)
        return now + per_ms(window) + window.burst * self.interval(i) + over

    def keep_to_bound(self, i: int, now: int) -> None:
        """What is lowered to the bound gives nothing back."""
        name = names(self.rules.windows)[i]
        if self.paid[name] > (bound := self.bound(i, now)):
            self.paid[name] = bound
            self.tracked.pop(name, None)

    def floor(self, i: int) -> Fraction:
        """What a 429 alone makes the window owe."""
        if self.reason != "rate limited":
            return Fraction(0)
        window = self.rules.windows[i]
        rest = window.burst - 1 if window.unit == "" else 0  # other units are all there
        return self.opens + rest * self.interval(i)

    def track(self, i: int, grant: int) -> Tracked:
        """The pairs of a window, anew if what was charged before is not known."""
        name, interval, most = names(self.rules.windows)[i], self.interval(i), self.most(i)
        tracked = self.tracked.get(name)
        if tracked is None or interval > tracked.interval or most > tracked.most:
            over = tracked.over if tracked else Fraction(0)
            tracked = self.tracked[name] = Tracked(pairs=[(grant, Fraction(0))], over=over)
        tracked.interval, tracked.most = interval, most
        return tracked

    def spent(
        self, charged: Cost, told: dict[str, int], grant: int, newest: int, at: Fraction, now: int
    ) -> None:
        """A delivery tells what it has spent of some units; `at`: when it was granted."""
        for quota in self.rules.quotas:
            counted = self.count(quota, now)
            if quota.unit in told and counted.count and counted.start <= at < counted.reset:
                more = min(told[quota.unit], quota.amount)
                more -= min(units_of(charged, quota.unit), quota.amount)
                counted.count = max(0, counted.count + more)
        for i, name in enumerate(names(self.rules.windows)):
            unit = self.rules.windows[i].unit
            if unit not in told:
                continue
            before = min(units_of(charged, unit), self.most(i))
            after = min(told[unit], self.most(i))
            if after < before:
                tracked = self.tracked.get(name)
                if tracked is None or self.most(i) > tracked.most:
                    self.track(i, newest + 1)
                    continue
                tracked.paid = self.paid[name]
                interval = min(tracked.interval, self.interval(i))
                tracked.give_back(grant, (before - after) * interval)
                self.paid[name] = tracked.paid
            elif after > before:
                tracked = self.track(i, newest + 1)
                least = min(at, now) + before * self.interval(i)
                self.paid[name] = max(self.paid[name], Fraction(least))
                self.paid[name] += (after - before) * self.interval(i)
                tracked.over = Fraction(0)
                tracked.over = max(Fraction(0), self.paid[name] - self.bound(i, now))

    def debt(self, i: int) -> Fraction:
        """The moment up to which it has paid; at the end of a 429 all units but one are gone."""
        paid = self.paid[names(self.rules.windows)[i]]
        return max(paid, self.floor(i))

    def units_left(self, i: int, now: int) -> Fraction:
        """What the window would grant at once."""
        burst = self.rules.windows[i].burst
        return burst - max(Fraction(0), self.debt(i) - now) / self.interval(i)

    def count(self, quota: Quota, now: int) -> Count:
        """The period that is running."""
        found = self.counts.get((quota.period, quota.unit))
        if found is None or found.reset <= now or not found.count:  # nothing is stored
            reset = period_of(quota.period, quota.timezone, now)[1]
            found = self.counts[quota.period, quota.unit] = Count(reset=reset)
        return found

    def realign(self, quota: Quota, now: int) -> None:
        """Under changed rules a count goes on to the end of the period by their calendar."""
        counted, reset = self.count(quota, now), period_of(quota.period, quota.timezone, now)[1]
        counted.next = counted.next if reset == counted.reset else 0
        counted.start, counted.reset = now, reset

    def quota_moment(
        self,
        now: int,
        cost: Cost | None,
        priority: Fraction | None,
        aging: Fraction | int,
        sign: int,
    ) -> Fraction:
        """When the quotas let a task run; the first one of a period always may."""
        at = Fraction(0)
        for quota in self.rules.quotas:
            counted, units = self.count(quota, now), min(units_of(cost, quota.unit), quota.amount)
            if not units or not counted.count:
                continue
            left, kept = quota.amount - counted.count - units, quota.reserve
            allowed = Fraction(counted.next)
            if left < 0:
                allowed = Fraction(counted.reset)
            elif (
                kept
                and left < kept.units
                and priority is not None
                and priority < sign * kept.priority
            ):
                entitled = Fraction(counted.reset)
                if aging:
                    entitled = now + (sign * Fraction(kept.priority) - priority) / aging * 1000
                allowed = max(allowed, min(Fraction(counted.reset), entitled))
            at = max(at, allowed)
        return at

    def moment(
        self,
        now: int,
        cost: Cost | None = None,
        priority: Fraction | None = None,
        aging: Fraction | int = 0,
        sign: int = 1,
    ) -> Fraction:
        """When the closing and the windows let a task run that weighs so much.

        Without a priority, reserves do not count; `aging` is what a second adds to it from now on.
        With the sign -1 the smallest priority is the best, and `priority` is its negative.
        """
        at = max(Fraction(self.opens), self.quota_moment(now, cost, priority, aging, sign))
        for i, window in enumerate(self.rules.windows):
            taken = units_of(cost, window.unit)
            if not taken:
                continue
            units = min(taken, self.most(i)) - window.burst
            allowed = self.debt(i) + units * self.interval(i)
            kept = window.reserve
            if kept and priority is not None and priority < sign * Fraction(kept.priority):
                without_it = allowed + kept.units * self.interval(i)
                if aging:
                    entitled = now + (sign * Fraction(kept.priority) - priority) / aging * 1000
                    without_it = min(without_it, max(allowed, entitled))
                allowed = without_it
            at = max(at, allowed)
        return at

    def charge(self, task_id: str, cost: Cost, now: int, grant: int, pop: int) -> None:
        """A task runs."""
        debts = [self.debt(i) for i in range(len(self.rules.windows))]
        for i, name in enumerate(names(self.rules.windows)):
            units = units_of(cost, self.rules.windows[i].unit)
            taken = min(units, self.most(i)) * self.interval(i)
            followed = name in self.tracked or self.rules.windows[i].unit != ""
            if followed and (units or debts[i] > self.paid[name]):
                tracked = self.tracked.get(name)
                if tracked is None or tracked.pop != pop:
                    slack = max(Fraction(0), self.paid[name] - max(now, self.floor(i)))
                    tracked = self.track(i, grant)
                    tracked.add(tracked.pairs, grant, slack)
                    tracked.over, tracked.pop = Fraction(0), pop
            self.paid[name] = max(debts[i], Fraction(now)) + taken if units else debts[i]
            assert self.paid[name] <= self.bound(i, now), "our limits never need the bound"
        for quota in self.rules.quotas:
            counted, units = self.count(quota, now), min(units_of(cost, quota.unit), quota.amount)
            if units and quota.spread:
                left = quota.amount - counted.count
                counted.next = now + ceil(Fraction((counted.reset - now) * units, left))
            if units and not counted.count:
                counted.start = now
            counted.count += units
            assert counted.count <= quota.amount, "never more than the amount in a period"
        self.opens, self.reason = 0, None
        if self.probe == NEXT:
            self.probe = task_id

    def refused(self, now: int, wait: int) -> None:
        """A task met a 429."""
        self.opens, self.reason = max(self.opens, now + wait), "rate limited"
        if self.probe is None:  # one that is out stays the only one
            self.probe = NEXT

    def ended(self, lapsed: bool) -> None:
        """The probe's lease is over: the limit is open, unless nothing came of it, or a 429 did."""
        self.probe = NEXT if lapsed or self.reason == "rate limited" else None

    def close_by_hand(self, now: int, wait: int) -> None:
        """Closed for `wait` ms and no longer; 0 opens it, and the next task is no probe."""
        self.opens = now + wait if wait else 0
        self.reason = "closed by hand" if wait else None
        if not wait and self.probe == NEXT:
            self.probe = None
        for i in range(len(self.rules.windows)):  # the closing may end sooner now
            self.keep_to_bound(i, now)
