"""The pop's own arithmetic of limits: what a gate lets run, and when. No I/O, no clock.

No rule stands twice. `windows` has rates, even and moving; `counted` quotas, and budgets that hosts
have told; `gates` what joins them in one scope: closings, probes, concurrency, pools, learning.
`clearing` says about many tasks what a run of each takes too long for. `forecasting` (tasks, their
order and their groups) and `draining` (a queue) ask gates.

A gate does in doubles exactly what these scripts do, and a change on one side is a change on the
other, as `tests/contract/test_arithmetic.py` says. Times are ms.

* `lua/lib/limits/gate_line.lua` writes what `read_gate` reads;
* `lua/lib/limits/gate.lua` and `lua/lib/limits/opens.lua`: when it lets a task run;
* `lua/lib/limits/pace.lua` and `lua/lib/limits/debt.lua`: a learned slack, the debt after a 429;
* `lua/lib/limits/pool.lua`: which member is next;
* `lua/pop/charge.lua`: what a grant takes, and what a learned rate gains.
"""

import math
from collections.abc import Sequence

from dpq.model.clearing import Course, Joined, Steady, Wanted
from dpq.model.cost import Units
from dpq.model.counted import Counted, Refilling, Told, Whole
from dpq.model.limits import (
    MAX_SLACK_SECONDS,
    Adaptive,
    RateLimit,
    Reason,
    is_in_order,
    read_rules,
    reason_of,
)
from dpq.model.pools import split_pool
from dpq.model.priority import NO_AGING, Aging
from dpq.model.quota import Quota, read_quotas
from dpq.model.windows import Window, read_window

Part = Window | Counted | Told

ONE_REQUEST: Units = {"": 1}

HALF_MS = 1_200_000
"""ms in which a learned slack halves, at least; lua/lib/limits/pace.lua has it, too."""

HALF_UNITS = 5000
"""Units in whose time it halves, if that is longer; lua/lib/limits/pace.lua has it, too."""


UNUSED = "0 - - 0 0 0 0 0 0 0 0"
"""The state of a gate that has granted and learned nothing."""


class Gate:
    """The limit of one scope (a group, or the queue), and its state.

    Attributes:
        windows: Its rates, the shortest window first.
        concurrency: Leases that may exist at once; 0 for any number.
        out: The leases that count towards it.
        opens: Closed until this moment.
        why: `l` after a 429, `h` by hand, or `-`.
        probe: `-`; `p` if the next task is the probe; else the id of the probe, which runs.
        probe_until: The moment when the lease of the probe ends, or 0.
        unreadable: Its rules cannot be read: it lets no task run.
        in_order: Its group keeps its order: one task runs at a time, over its retries too.
        assumed: Its state depends on an end of a task that was assumed, or it is computed about:
            weights, estimates, and quotas beyond the running period.
        counted: Its quotas.
        told: What its host has said is left.
        reserved: What a task takes of a unit that it does not name.
        permits: The leases of permits that count towards the concurrency: the end of each, its id.
        members: The gates of the members of a pool, by name.
        last: When a member was granted last.
        weight: The turns that a group gets where others get one.
        turn: What is left of its turn, or saved up for one.
    """

    def __init__(
        self,
        windows: Sequence[RateLimit] = (),
        concurrency: int | None = None,
        *,
        state: str = UNUSED,
        paid: Sequence[float | str] = (),
    ) -> None:
        """Read the state of a gate, and of its windows, as `gate_line` writes them."""
        opens, self.why, probe, *learned, out, turn = state.split(" ")
        self.opens, self.out, self.turn = float(opens), int(out), float(turn)
        self.probe, _, until = probe.partition("@")
        self.probe_until = float(until or 0)
        self._rate, self._since, self._used, *slack = map(float, learned)
        self._learned, self._beside, self._climb = slack
        self.windows = [read_window(*each) for each in zip(windows, paid, strict=True)]
        self.concurrency = concurrency or 0
        self.counted: list[Counted] = []
        self.told: list[Told] = []
        self.reserved: dict[str, int] = {}
        self.permits: list[tuple[float, str]] = []
        self.members: dict[str, Gate] = {}
        self.last, self.weight = 0.0, 1.0
        self.unreadable = self.assumed = self.in_order = False
        self._looked_at = -1.0
        self._adaptive = windows[0].adaptive if windows else None
        self._learns_slack = next((each for each in self.windows if each.slack_ms is None), None)

    def look(self, instant: float) -> None:
        """Compute its pace and its debts at a moment; before each use at another moment."""
        if instant == self._looked_at:
            return
        self._looked_at, slack = instant, 0.0
        for each in self.members.values():
            each.look(instant)
        for quota in self.counted:
            quota.look(instant)
            self.assumed = self.assumed or quota.rolled
        for told in self.told:
            told.look(instant)
        if not self._adaptive and self._learned > 0 and (window := self._learns_slack):
            since = min(self._beside, max(instant, self.opens))
            half = max(HALF_MS, HALF_UNITS * window.per_ms / window.rule.rate)
            most = min(self._learned, window.per_ms, MAX_SLACK_SECONDS * 1000)
            slack = math.floor(most * 2 ** (min(0.0, since - instant) / half) + 0.5)
        for i, window in enumerate(self.windows):
            rate = float(window.rule.rate)
            if i == 0 and self._adaptive:
                rate = self._rate or rate
                rate = max(self._adaptive.floor, min(self._adaptive.ceiling, rate))
                self._rate = rate
            window.pace(rate, slack)
            window.look(instant)
            window.owed = window.paid
            if self.why == "l":
                free = window.rule.burst - 1 if window.rule.unit == "" else 0
                debt = self.opens + window.time_of(free) if free else self.opens
                window.owed = max(window.paid, debt)

    def _with_estimates(self, cost: Units) -> Units:
        """Add what a task takes of the units that it does not name."""
        return {**self.reserved, **cost} if self.reserved else cost

    def _may_run_as(self, pin: str | None) -> list["Gate"]:
        """Find the members of its pool that have room for a task."""
        if pin is None:
            return [each for each in self.members.values() if not each.is_full]
        named = self.members.get(pin)
        return [named] if named and not named.is_full else []

    def opens_at(
        self,
        cost: Units,
        rank: float,
        instant: float,
        aging: Aging = NO_AGING,
        pin: str | None = None,
    ) -> float:
        """Compute when its closing and its windows let a task run; infinite if never."""
        if self.unreadable:
            return math.inf
        at, cost = self.opens, self._with_estimates(cost)
        parts: list[Part] = [*self.windows, *self.counted, *self.told]
        for part in parts:
            at = max(at, part.opens_at(cost, rank, instant, aging))
        if self.members:
            free = self._may_run_as(pin)
            moments = [each.opens_at(cost, rank, instant, aging) for each in free]
            at = max(at, min(moments, default=math.inf))
        return at

    @property
    def probe_is_out(self) -> bool:
        """True while the first task after a 429 runs."""
        return self.probe not in ("-", "p")

    def counts(self, id_: str, member: str = "") -> bool:
        """Return True if the end of a task, or of a permit, changes what may run."""
        mate = self.members.get(member)
        return self.concurrency > 0 or self.probe == id_ or bool(mate and mate.counts(id_))

    @property
    def is_full(self) -> bool:
        """True if no more tasks may run at once."""
        return self.probe_is_out or 0 < self.concurrency <= self.out

    def charge(
        self,
        cost: Units,
        instant: float,
        id_: str,
        rank: float = math.inf,
        aging: Aging = NO_AGING,
        pin: str | None = None,
    ) -> str:
        """Start a task: take its units and its slot. Returns the member that it runs as, or ""."""
        if self._adaptive:
            self._learn(self._adaptive, cost, instant)
        cost = self._with_estimates(cost)
        for window in self.windows:
            window.charge(cost, instant)
        for quota in self.counted:
            quota.charge(cost, instant)
        asking = [told for told in self.told if told.charge(cost, instant)]
        if asking:
            self.told = [told for told in self.told if told not in asking]
            self.probe = "p" if self.probe == "-" else self.probe
        name = ""
        if self.members:
            free = self._may_run_as(pin)
            may = [each for each in free if each.opens_at(cost, rank, instant, aging) <= instant]
            member = min(may or self.members.values(), key=lambda each: each.last)
            member.charge(cost, instant, id_)
            member.last = max(instant, *(each.last for each in self.members.values())) + 1 / 4096
            name = next(name for name, each in self.members.items() if each is member)
        if self.opens > 0:
            self.opens, self.why = 0.0, "-"
        if self.probe == "p":
            self.probe = id_
        self.out += 1
        return name

    def ended(self, id_: str, member: str = "", *, lapsed: bool = False) -> None:
        """End a task: give its slot back. If its lease ran out, the next task is the probe."""
        if member in self.members:
            self.members[member].ended(id_, lapsed=lapsed)
        self.out = max(0, self.out - 1)
        if self.probe == id_:
            met_429 = self.why == "l" and self.opens > 0
            self.probe = "p" if lapsed or met_429 else "-"

    def _learn(self, adaptive: Adaptive, cost: Units, instant: float) -> None:
        """End a clean window, and count the units of a task."""
        window = self.windows[0]
        if instant >= self._since + window.per_ms:
            if self._since > 0 and self._used * 2 >= self._rate:
                raised = min(adaptive.ceiling, self._rate + self._gain(adaptive, window.rule.rate))
                self._rate, self._beside = raised, self._rate
                window.pace(self._rate, 0.0)
            self._since, self._used = instant, 0.0
        self._used += window.units(cost)

    def _gain(self, adaptive: Adaptive, first: float) -> float:
        """Compute what a clean window adds. Source: docs/storage.md, "Learning"."""
        rate, last = self._rate, self._learned
        if last == 0:
            return max(adaptive.step, (rate - first) / 2)
        if rate < last * 0.75:
            return (last - rate) / 2
        if rate < last:
            return min(last * self._climb, last - rate)
        return max(0.0, min(max(last / 16, (rate - last) * 2), self._used * 1.5 - rate))

    def reason(
        self, cost: Units, rank: float, instant: float, aging: Aging = NO_AGING
    ) -> tuple[Reason, str]:
        """Say what keeps a task from running now, as a reason and in words."""
        if self.opens > instant:
            reason = reason_of(self.why) or "closed by hand"
            return reason, "rate limited" if reason == "rate limited" else "closed by hand"
        if self.unreadable:
            return "unreadable", "its limit cannot be read"
        if self.is_full:
            if self.probe_is_out:
                return "probe", "the first task after a rate limit runs"
            return "concurrency", self.words_of_full
        cost = self._with_estimates(cost)

        def opening(part: Part) -> float:
            return part.opens_at(cost, rank, instant, aging)

        parts: list[Part] = [*self.counted, *self.told, *self.windows]
        slowest = max(parts, key=opening, default=None)
        at = self.opens_at(cost, rank, instant, aging)
        if self.members and (slowest is None or opening(slowest) < at):
            pool = self.members.values()
            return min(pool, key=lambda each: each.last).reason(cost, rank, instant, aging)
        return (slowest.reason, slowest.words()) if slowest else ("spent", "its rate")

    @property
    def words_of_full(self) -> str:
        """The concurrency that is used up, in words."""
        return (
            "in order, one task at a time" if self.in_order else f"concurrency {self.concurrency}"
        )

    def clears_at(
        self, tasks: float, wanted: Sequence[Wanted], instant: float
    ) -> tuple[float, str]:
        """Compute when the last of so many tasks may start, about, and what is slowest, in words.

        Args:
            tasks: The number of tasks.
            wanted: Some of them.
            instant: The moment of the look.
        """
        begin = max(instant, self.opens)
        course = self._course(wanted, begin)
        at = course.start(tasks)
        return (begin + at, course.words(tasks)) if at > 0 else (begin, "closed")

    def _course(self, wanted: Sequence[Wanted], begin: float) -> Course:
        """Say how many tasks like these may start, over the time from a moment on."""
        if self.members:
            begins = [max(0.0, each.opens - begin) for each in self.members.values()]
            courses = [
                each._course(wanted, begin + at)
                for at, each in zip(begins, self.members.values(), strict=True)
            ]
            return Joined(list(zip(begins, courses, strict=True)))
        self.look(begin)
        wanted = [each._replace(units=self._with_estimates(each.units)) for each in wanted]
        windows = [line for each in self.windows for line in each.lines(wanted, begin)]
        budgets = [line for each in self.told for line in each.lines(wanted, begin)]
        now: Course = Steady([*windows, *budgets])
        fresh: Course = Steady([line for each in self.windows for line in each.lines(wanted)])
        for quota in sorted(self.counted, key=lambda each: each.length):
            now, fresh = quota.courses(now, fresh, wanted, begin)
        for told in self.told:
            now = told.course(now, fresh, wanted, begin)
        return now


def read_gate(line: str) -> Gate:
    """Read what `lua/lib/limits/gate_line.lua` writes.

    Raises:
        ValueError, LookupError, ConfigurationError: It is no such line.
    """
    line, *members = line.split("\n")
    state, paid, counted, text = line.split("\t", 3)
    unreadable = text == "?"
    rules, names, weight = split_pool("" if unreadable else text)
    windows, concurrency = read_rules(rules) if rules else ((), None)
    limit = windows, concurrency, read_quotas(rules)
    gate = _gate_of(*(((), None, ()) if members else limit), state, paid, counted)
    for name, each in zip(names, members, strict=True):
        *parts, last = each.split("\t")
        member = gate.members[name] = _gate_of(*limit, *parts)
        member.last = float(last)
    gate.unreadable, gate.weight = unreadable, weight
    gate.in_order = bool(rules) and is_in_order(rules)
    gate.assumed = bool(gate.reserved) or weight != 1
    return gate


def _told(
    unit: str, left: str, ends: str, asks: str, full: str, interval: str, *whole: str
) -> Told:
    if full:
        return Refilling(unit, int(left), float(ends), int(full), float(interval), float(asks))
    size, length, reset = whole or ("", "", "")
    limit = Whole(int(size), float(length), float(reset)) if size else None
    return Told(unit, int(left), float(ends), float(asks), limit)


def _gate_of(
    windows: Sequence[RateLimit],
    concurrency: int | None,
    quotas: Sequence[Quota],
    state: str,
    paid: str,
    counted: str,
) -> Gate:
    gate = Gate(windows, concurrency, state=state, paid=paid.split())
    unread = iter(quotas)
    for text in counted.split():
        kind, *values = text.split(":")
        if kind == "q":
            count, reset, next_ms = map(float, values)
            gate.counted.append(Counted(next(unread), int(count), reset, next_ms))
        elif kind == "o":
            gate.told.append(_told(*values))
        elif kind == "p":
            gate.permits.append((float(values[0][1:14]), values[0]))
        else:
            gate.reserved[values[0]] = int(values[1])
    return gate
