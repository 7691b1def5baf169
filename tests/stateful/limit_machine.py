"""The machine's other half: limits, 429s and the moments at which they let the next task run."""

import random
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from limit_model import Gate, Rules, names, units_of
from queue_machine import GROUPS, QueueMachine, delivery, rarely
from queue_model import DELAYED, FREE, INVISIBLE, UNTIL_RELEASED
from redis import Redis

from dpq import Quota, RateLimit, Reserve
from dpq.types import LimitState

# Few units in short windows, so that they bind within a few steps. Each names its slack: what is
# learned has tests of its own.
WINDOWS = [
    [RateLimit(1, 1, slack=0)],
    [RateLimit(2, 1, 2, slack=0.125)],
    [RateLimit(3, 1, 3, slack=0)],  # thirds of a second
    [RateLimit(1, 5, 3, slack=0)],
    [RateLimit(2, 1, 2, slack=0), RateLimit(3, 5, 3, slack=0)],
    [RateLimit(2, 1, 2, slack=0), RateLimit(6, 1, 9, slack=0, unit="t")],
    [RateLimit(4, 1, 5, Reserve(2, 1), slack=0, unit="t"), RateLimit(3, 5, 3, slack=0, unit="u")],
    [RateLimit(1, 0.5, slack=0), RateLimit(2, 1, 2, slack=0), RateLimit(0.5, 1, 3, slack=0)],
    [Quota(3, "hour", "Asia/Kolkata"), RateLimit(2, 1, 3, slack=0)],
    [Quota(4, "day", "America/Los_Angeles", spread=True), Quota(9, "month", unit="t")],
    [Quota(5, "hour", reserve=Reserve(2, 1)), Quota(6, "hour", unit="t", reserve=Reserve(1, 1))],
    [RateLimit(1, 1, 3, Reserve(1, 1), slack=0)],
    [RateLimit(2, 1, 3, Reserve(2, 0.5), slack=0), RateLimit(3, 5, 2, Reserve(1, 1), slack=0.25)],
]

limits = st.one_of(
    st.tuples(st.sampled_from(WINDOWS), st.none()),
    st.tuples(st.sampled_from(WINDOWS), st.sampled_from([None, 1, 2])),
    st.tuples(st.just([]), st.sampled_from([1, 2])),
)
scopes = st.sampled_from([None, None, "*", *GROUPS])


def is_near(seen: datetime | None, moment: Fraction | None) -> bool:
    """The same moment, to the microsecond."""
    if seen is None or moment is None:
        return seen is moment
    return abs((seen - datetime.fromtimestamp(float(moment) / 1000, UTC)).total_seconds()) < 2e-6


class LimitMachine(QueueMachine):
    """DPQ beside the model, with limits. Subclassed with a client by `machine_on`."""

    def begin(self, chance: random.Random) -> None:
        """Limits from the start, in the examples that have any."""
        for scope in [None, "*", "a"] if self.limited else []:
            if chance.random() < 0.6:
                windows = chance.choice(WINDOWS)
                concurrency = chance.choice([None, None, 1, 2])
                ordered = scope is not None and concurrency == 1 and chance.random() < 0.5
                self.change_limit(scope, Rules.of(windows, concurrency, ordered), False)

    # Setting

    @precondition(lambda self: self.limited)
    @rule(scope=scopes, limit=limits, ordered=st.booleans(), twice=rarely)
    def set_limit(self, scope: str | None, limit: Any, ordered: bool, twice: bool) -> None:
        windows, concurrency = limit
        ordered = ordered and scope is not None and concurrency == 1
        self.change_limit(scope, Rules.of(windows, concurrency, ordered), twice)

    @precondition(lambda self: self.limited and self.model.limits)
    @rule(index=st.integers(0, 3), twice=rarely)
    def clear_limit(self, index: int, twice: bool) -> None:
        scopes = list(self.model.limits)
        self.change_limit(scopes[index % len(scopes)], None, twice)

    def change_limit(self, scope: str | None, rules: Rules | None, twice: bool) -> None:
        self.look()
        self.model.changes += 1
        before = {name: self.model.rules(name) for name in (None, *GROUPS)}
        kept = dict(self.model.limits)
        self.model.limits.pop(scope, None)
        if rules is not None:
            self.model.limits[scope] = rules
        changed = [name for name in before if self.model.rules(name) != before[name]]
        if any(self.is_open_question(name, scope, before[name]) for name in changed):
            self.model.limits = kept
            return
        if rules is None:
            self.call_unseen(twice, lambda: self.q.clear_limit(scope))
        else:
            self.call_unseen(
                twice,
                lambda: self.q.set_limit(
                    [*rules.windows, *rules.quotas] or None,
                    group=scope,
                    concurrency=rules.concurrency,
                    in_order=rules.in_order,
                ),
            )
        for name in changed:
            self.carry_over(name, before[name])

    def is_open_question(self, name: str | None, scope: str | None, before: Rules) -> bool:
        """What the new rules make of the past of one scope is nobody's promise.

        A debt beyond the bound that is only looked at some time later; one that a 429 hides, if it
        is still known at all.
        """
        gate = self.model.gate(name)
        is_looked_at = name is not None and (scope != "*" or name in self.model.closed)
        for i, window in enumerate(names(gate.rules.windows)):
            if gate.paid[window] > gate.bound(i, self.now) and not is_looked_at:
                return True
            hidden = self.now < gate.paid[window] < gate.debt(i)
            if hidden and window not in names(before.windows):
                return True
        return False

    def carry_over(self, name: str | None, before: Rules) -> None:
        """What was granted still counts, within bounds; of windows that were gone meanwhile, the
        server may have forgotten it."""
        gate = self.model.gate(name)
        state = self.state(name)
        assert len(state.units_left) == len(gate.rules.windows)
        for i, window in enumerate(names(gate.rules.windows)):
            gate.keep_to_bound(i, self.now)
            gone = abs(state.units_left[i] - gate.units_left(i, self.now)) > 1e-5
            if gone and window not in names(before.windows):
                gate.paid[window] = Fraction(0)
                gate.tracked.pop(window, None)
        known = {(quota.period, quota.unit) for quota in before.quotas}
        for quota, shown in zip(gate.rules.quotas, state.quotas, strict=True):
            if (quota.period, quota.unit) not in known and shown.left == quota.amount:
                gate.counts.pop((quota.period, quota.unit), None)
            gate.realign(quota, self.now)

    # What a task has spent

    @rule(
        index=st.integers(0, 6),
        told=st.sampled_from(
            [{"t": 0}, {"t": 1}, {"t": 2}, {"t": 9}, {"u": 0}, {"t": 0, "u": 2}, {"": 1}, {"": 3}]
        ),
        twice=rarely,
    )
    def spent(self, index: int, told: dict[str, int], twice: bool) -> None:
        """A delivery tells it; more only of what the limits of its pop have charged."""
        if not self.handed:
            return
        task = self.handed[-1 - index % len(self.handed)]
        entry = self.model.tasks.get(task.id)
        if entry is not None and entry.granted is not None:
            granted = entry.granted
            told = {
                unit: units
                for unit, units in told.items()
                if units <= units_of(granted.cost, unit)
                or (
                    units <= units_of(granted.cost, unit) + 2
                    and granted.changes == self.model.changes
                )
            }
        if not told:
            return
        answers: list[bool] = []
        entry = self.act(
            index, "spent", twice, lambda task: answers.append(self.q.spent(task, told))
        )
        if entry:
            fresh = self.model.spent(entry, told, self.now)
            assert answers == [fresh and not twice], (answers, fresh)  # a lost reply: the second

    # Meeting a 429

    @rule(
        index=delivery,
        retry_after=st.sampled_from([0, 0.25, 1, 5, 30]),
        scope=st.sampled_from(["group", "group", "group", "queue", "task"]),
        twice=rarely,
    )
    def rate_limited(self, index: int, retry_after: float, scope: Any, twice: bool) -> None:
        entry = self.act(
            index, "rate_limited", twice, lambda task: self.q.rate_limited(task, retry_after, scope)
        )
        if entry:
            self.model.rate_limited(entry, self.now, round(retry_after * 1000), scope)
            if twice and self.model.heads().get(entry.group) is entry:
                self.model.vacate(entry, comes_again=True)  # the second call takes it out once more

    @rule(
        waits=st.lists(st.sampled_from([0.25, 1, 5]), min_size=2, max_size=3),
        scope=st.sampled_from(["group", "queue"]),
        by_hand=st.sampled_from([None, None, 0, 1]),
        twice=rarely,
    )
    def several_rate_limited(
        self, waits: list[float], scope: str, by_hand: float | None, twice: bool
    ) -> None:
        """Several tasks that run at once meet the limit; then somebody closes or opens by hand."""
        self.pop_many(len(waits), None, False)
        for index, retry_after in enumerate(waits):
            self.rate_limited(index, retry_after, scope, twice)
        if by_hand is not None and self.handed and self.handed[-1].group:
            self.close_group(self.handed[-1].group, by_hand, twice)

    @rule(
        scope=st.sampled_from(["group", "group", "queue"]),
        end=st.sampled_from(["ack", "ack", "fail", "lapse", "429"]),
    )
    def probe(self, scope: str, end: str) -> None:
        """A task meets a limit, a probe runs after that, and ends; others would run as well."""
        self.rate_limited(-1, 0.25, scope, False)
        self.advance(250)
        self.pop_many(2, None, False)
        if end == "ack":
            self.ack(0, False)
        elif end == "fail":
            self.fail(0, None, 1, None, False)
        elif end == "429":
            self.rate_limited(0, 0.25, "task", False)
        else:
            self.advance(5000)
        self.pop_many(3, None, False)

    @rule(
        drawn=st.tuples(st.integers(3, 14), st.integers(1, 3)),
        scope=st.sampled_from(["group", "group", "queue"]),
        step=st.sampled_from([250, 500, 1000]),
        twice=rarely,
    )
    def always_refused(self, drawn: tuple[int, int], scope: str, step: int, twice: bool) -> None:
        """One task is refused whenever it runs, while the others end well."""
        rounds, most = drawn
        self.pop(None, False)
        refused = self.handed[-1].id if self.handed else None
        for _ in range(rounds):
            for back, task in enumerate(reversed(self.handed[-6:])):
                entry = self.model.tasks.get(task.id)
                if entry is None or entry.state != INVISIBLE or entry.token != task.token:
                    continue
                if task.id == refused:
                    self.rate_limited(back, 0.25, scope, twice)
                else:
                    self.ack(back, False)
            self.advance(step)
            self.pop_many(most, None, False)

    # Time

    def moments(self) -> list[int]:
        """When limits, closings, leases and delays let something happen, in whole ms."""
        heads = [*self.model.heads().values(), *self.model.free(None)[:1]]
        found = {self.model.moment(scope, e, self.now) for e in heads for scope in {None, e.group}}
        found |= set(self.model.closed.values())
        found |= {
            Fraction(e.until) for e in self.model.tasks.values() if e.state in (DELAYED, INVISIBLE)
        }
        return sorted({ceil(at) for at in found if self.now < at < UNTIL_RELEASED})

    @rule(index=st.integers(0, 3), most=st.integers(1, 3), early=st.booleans())
    def pop_at_the_moment(self, index: int, most: int, early: bool) -> None:
        """Pop when something happens, and if told so a millisecond before."""
        self.look()
        if moments := self.moments():
            self.now = moments[index % len(moments)] - 1
            if self.model.aging:  # aging in doubles: quarters
                self.now += 249 - self.now % 250
            elif early:
                self.pop_many(most, None, False)
                self.look()
            self.now += 1
        self.pop_many(most, None, False)

    # Looking

    def state(self, name: str | None) -> LimitState:
        return next(iter(self.eyes.admin.limits())) if name is None else self.eyes.admin.group(name)

    def see_limit(self, state: LimitState) -> None:
        """What is shown of the limit of a scope is so."""
        model, name = self.model, state.group
        rules = model.rules(name) if name != "*" else model.limits["*"]
        assert (state.windows, state.concurrency) == (rules.windows, rules.concurrency)
        assert state.in_order is rules.in_order
        assert state.default is (name not in (None, "*", *model.limits) and "*" in model.limits)
        if name == "*":
            return
        gate: Gate = model.gate(name)
        reason, until = model.shut(name, self.now)
        assert (state.open, state.reason) == (reason is None, reason), state
        assert is_near(state.opens_at, until), (state, until)
        for i in range(len(rules.windows)):
            assert abs(state.units_left[i] - gate.units_left(i, self.now)) < 1e-5, (state, i)
        assert [shown.quota for shown in state.quotas] == list(rules.quotas)
        for quota, shown in zip(rules.quotas, state.quotas, strict=True):
            counted = gate.count(quota, self.now)
            assert shown.left == quota.amount - counted.count, (state, quota)
            assert is_near(shown.resets_at, Fraction(counted.reset))
        waiting = sum(
            (e.state == FREE and name in (None, e.group))
            or (name is None and e.state in (DELAYED, INVISIBLE) and e.until <= self.now)
            for e in model.tasks.values()
        )
        assert (state.waiting, state.in_flight) == (waiting, model.in_flight(name))

    @invariant()
    def limits_hold(self) -> None:
        if hasattr(self, "q"):
            if self.steps % 2:
                states = self.eyes.admin.limits()
                assert {state.group for state in states} == {None, *self.model.limits}
            else:
                states = [self.eyes.admin.group(GROUPS[self.steps // 2 % len(GROUPS)])]
            for state in states:
                self.see_limit(state)


def machine_on(
    redis: Redis, name_prefix: str, name_end: str = "", **always: Any
) -> type[LimitMachine]:
    """The machine on one server, in queues whose names begin with the prefix."""
    given = {"redis": redis, "name_prefix": name_prefix, "name_end": name_end, "always": always}
    return type("Machine", (LimitMachine,), given)
