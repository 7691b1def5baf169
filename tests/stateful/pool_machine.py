"""A group with members beside a model: who runs as which member, and when each may."""

from collections import defaultdict
from fractions import Fraction
from math import ceil
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from limit_machine import is_near
from limit_model import NEXT, Gate, Refusals, Rules, named
from redis import Redis

from dpq import DPQ, RateLimit, Task, TaskState

LONG = 10**8  # seconds of a lease that does not end by itself
NAMES = ["a", "b", "c", "d"]
FOREVER = Fraction(10**30)
LIMITS = [
    Rules((RateLimit(1, 1, slack=0),)),
    Rules((RateLimit(2, 1, 2, slack=0),), 1),
    Rules((RateLimit(3, 1, 3, slack=0), RateLimit(4, 5, 4, slack=0))),
    Rules((RateLimit(2, 1, 2, slack=0), RateLimit(6, 1, 9, slack=0, unit="t")), 2),
    Rules((), 1),
]
COSTS: list[Any] = [1, 1, 2, {"t": 4}, {"": 1, "t": 9}]


class Member:
    """A member in the model: its gate, its last grant, and who runs as it."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.granted = (-1, -1)  # the moment, and the number of the grant
        self.running: set[str] = set()
        self.forever = False

    def moment(self, cost: Any, now: int) -> Fraction:
        """When it lets a task run; later than now while a lease must end first."""
        slots = self.gate.rules.concurrency
        if self.forever:
            return FOREVER
        if (self.gate.probe or NEXT) != NEXT or (slots and len(self.running) >= slots):
            return FOREVER - 1
        return self.gate.moment(now, cost)


class PoolMachine(RuleBasedStateMachine):
    """One pool, tasks of equal priority, leases that only their holders end."""

    redis: ClassVar[Redis]
    name_prefix: ClassVar[str]
    number = 0

    @initialize(limit=st.sampled_from(LIMITS), count=st.integers(1, 4))
    def begin(self, limit: Rules, count: int) -> None:
        type(self).number += 1
        self.now = 1_700_000_000_000
        name = f"{self.name_prefix}-pool-{self.number}"
        self.q: DPQ[Any] = DPQ(self.redis, name, clock=lambda: self.now)
        self.members: dict[str, Member] = {name: Member() for name in NAMES}
        self.whole = Gate()
        self.due: dict[str, tuple[Any, str | None]] = {}  # in their order: cost and pin
        self.order: list[str] = []  # of their pushes
        self.held: dict[str, Task[Any]] = {}
        self.refusals: defaultdict[str, Refusals] = defaultdict(Refusals)
        self.away: dict[str, tuple[int, Task[Any]]] = {}  # which let others go first, until when
        self.grants = self.pops = 0
        self.granted: dict[str, tuple[Any, int, Fraction]] = {}  # cost, number, moment
        self.change(limit, NAMES[:count])

    def teardown(self) -> None:
        if hasattr(self, "q"):
            self.q.drop()
            self.q.close()

    @rule(limit=st.sampled_from(LIMITS), names=st.lists(st.sampled_from(NAMES), min_size=1))
    def change_members(self, limit: Rules, names: list[str]) -> None:
        if limit == self.rules:  # what other windows make of the past is a matter of limit_machine
            self.change(limit, list(dict.fromkeys(names)))

    def change(self, limit: Rules, names: list[str]) -> None:
        for name in set(self.pool) - set(names) if hasattr(self, "pool") else ():
            if self.members[name].forever:  # whether it comes back open is left to upkeep
                self.close_member(name, 0)
        self.rules, self.pool = limit, names
        for name in names:
            self.members[name].gate.rules = limit
        self.q.set_limit(
            limit.windows or None, group="g", concurrency=limit.concurrency, members=names
        )

    @rule(
        count=st.integers(1, 4),
        cost=st.sampled_from(COSTS),
        pin=st.sampled_from([None, None, None, *NAMES]),
    )
    def push(self, count: int, cost: Any, pin: str | None) -> None:
        for _ in range(count):
            task_id = self.q.push(1, group="g", cost=cost, member=pin)
            self.order.append(task_id)
            self.due[task_id] = (cost, pin)

    def best(self) -> str | None:
        return next((task_id for task_id in self.order if task_id in self.due), None)

    def open_members(self, task_id: str) -> tuple[Fraction, list[str]]:
        """When the first member lets it run, and those that do so now."""
        cost, pin = self.due[task_id]
        asked = [name for name in self.pool if pin in (None, name)]
        moments = {name: self.members[name].moment(cost, self.now) for name in asked}
        return min(moments.values(), default=FOREVER), [
            name for name, moment in moments.items() if moment <= self.now
        ]

    @rule(most=st.integers(1, 5))
    def pop(self, most: int) -> None:
        expected: list[tuple[str, str]] = []
        self.pops += 1
        for _, task in [each for each in self.away.values() if each[0] <= self.now]:
            del self.away[task.id]
            self.back(task)
        while len(expected) < most and (task_id := self.best()):
            _, asked = self.open_members(task_id)
            probing = (self.whole.probe or NEXT) != NEXT
            if probing or self.whole.opens > self.now or not asked:
                break
            name = min(asked, key=lambda each: self.members[each].granted)
            member, cost = self.members[name], self.due.pop(task_id)[0]
            self.grants += 1
            self.whole.charge(task_id, cost, self.now, self.grants, self.pops)
            member.gate.charge(task_id, cost, self.now, self.grants, self.pops)
            self.granted[task_id] = (cost, self.grants, Fraction(self.now))
            member.granted = (self.now, self.grants)
            member.running.add(task_id)
            expected.append((task_id, name))
        tasks = self.q.pop_many(most, visibility=LONG)
        assert [(task.id, task.member) for task in tasks] == expected
        self.held |= {task.id: task for task in tasks}

    def take(self, index: int) -> tuple[Task[Any], Member] | None:
        """A held task, which is to end now."""
        if not self.held:
            return None
        task = self.held.pop(list(self.held)[index % len(self.held)])
        member = self.members[str(task.member)]
        member.running.remove(task.id)
        return task, member

    def freed(self, task: Task[Any], member: Member, lapsed: bool = False) -> None:
        for gate in (member.gate, self.whole):
            if gate.probe == task.id:
                gate.ended(lapsed or (gate.reason == "rate limited" and gate.opens > 0))

    def back(self, task: Task[Any]) -> None:
        self.due[task.id] = ({"": task.cost, **(task.costs or {})}, task.pinned)

    @rule(index=st.integers(0, 5), end=st.sampled_from(["ack", "release", "cancel", "bury"]))
    def end(self, index: int, end: str) -> None:
        if taken := self.take(index):
            task, member = taken
            self.freed(task, member)
            if end == "cancel":
                self.q.cancel(task.id)
            elif end == "bury":
                self.q.bury(task, "enough")
            else:
                getattr(self.q, end)(task)
            if end == "release":
                self.back(task)

    @rule(
        index=st.integers(0, 5),
        wait=st.sampled_from([0, 0.25, 1, 5]),
        scope=st.sampled_from(["member", "member", "group"]),
    )
    def rate_limited(self, index: int, wait: float, scope: Any) -> None:
        if taken := self.take(index):
            task, member = taken
            cost, grant, at = self.granted[task.id]
            told = {unit: 0 for unit in named(cost) if unit}
            if task.member in self.pool:  # the windows of one that has left are not known
                member.gate.spent(cost, told, grant, self.grants, at, self.now)
            gate = member.gate if scope == "member" else self.whole
            refusals, others, ms = self.refusals[task.id], bool(self.due), round(wait * 1000)
            refusals.refused(task.deliveries, gate.probe == task.id, others)
            alone = refusals.alone(task.deliveries)
            for each in (member.gate, self.whole):
                if each.probe == task.id:
                    each.ended(True)
            if scope == "member" and member.forever:  # closed until somebody opens it: that stays
                gate.probe = NEXT if gate.probe is None else gate.probe
            else:
                gate.refused(self.now, ms, False)
            self.q.rate_limited(task, wait, scope)
            if alone == 5:
                assert self.q.get(task.id).state is TaskState.DEAD
            elif alone >= 2 and (others or alone >= 3):
                self.away[task.id] = (self.now + ms + min(max(2 * ms, 1000), 60_000), task)
            else:
                self.back(task)

    @rule(name=st.sampled_from(NAMES), wait=st.sampled_from([0, 0, 0.5, 5, None]))
    def close_member(self, name: str, wait: float | None) -> None:
        member = self.members[name]
        if name in self.pool and not (member.forever and wait):
            member.forever = wait is None
            member.gate.close_by_hand(self.now, round((wait or 0) * 1000))
            if wait is None:
                member.gate.reason = "closed by hand"
            self.q.delay_group("g", wait, member=name)

    @rule(ms=st.sampled_from([1, 100, 250, 333, 500, 1000, 5000]))
    def advance(self, ms: int) -> None:
        self.now += ms

    @rule(most=st.integers(1, 3), early=st.booleans())
    def pop_at_the_moment(self, most: int, early: bool) -> None:
        """Pop when the best task may run, and perhaps a millisecond before."""
        if (task_id := self.best()) is None:
            return
        moment = max(self.open_members(task_id)[0], Fraction(self.whole.opens))
        if self.now < moment < FOREVER - 1:
            self.now = ceil(moment) - 1
            if early:
                self.pop(most)
            self.now += 1
        self.pop(most)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "q"):
            return
        state = self.q.group("g")
        assert [member.name for member in state.members] == self.pool
        assert (state.windows, state.concurrency) == (self.rules.windows, self.rules.concurrency)
        for seen in state.members:
            member = self.members[seen.name]
            assert seen.in_flight == len(member.running)
            for i, left in enumerate(seen.units_left):
                assert abs(left - member.gate.units_left(i, self.now)) < 1e-5, seen
            moment = member.moment(None, self.now)
            assert seen.open is (moment <= self.now), (seen, moment)
            if self.now < moment < FOREVER - 1:
                assert is_near(seen.opens_at, moment), seen
            elif moment == FOREVER:
                assert (seen.opens_at, seen.reason) == (None, "closed by hand")
        assert self.q.check() == []


def pools_on(redis: Redis, name_prefix: str) -> type[PoolMachine]:
    """The machine on one server, in queues whose names begin with the prefix."""
    return type("Machine", (PoolMachine,), {"redis": redis, "name_prefix": name_prefix})
