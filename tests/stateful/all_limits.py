"""Random work under limits of all kinds at once, judged by what was granted and spent.

Nothing here knows how a limit is stored or computed: the judge adds up what was handed out, at
which moment of real time, and what was told of it later. A seed is the same run each time, but for
what a server draws at random.
"""

import math
import random
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from string import ascii_letters, digits
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from kit.periods import period_of

from dpq import (
    DPQ,
    Adaptive,
    Backoff,
    LeaseLostError,
    LimitTimeoutError,
    Quota,
    RateLimit,
    RateLimited,
    Reserve,
    Task,
    TaskNotFoundError,
)
from dpq.limits import permit
from dpq.limits.permit import Caller, PermitRequest
from dpq.script.keys import key_of
from dpq.testing import Clock
from dpq.verbs import queue

BEGIN = 1_772_900_000_000  # some hours before clocks change in Los Angeles
DAY = 86_400.0
GROUPS = [None, "a", "a", "b", "c"]
NAMED = ["a", "b", "c"]
MEMBERS = ["k1", "k2", "k3"]
SCOPES = [None, "*", "a", "a", "b", "c"]
COSTS: list[Any] = [1, 1, 1, 2, 5, {"t": 3}, {"t": 1, "u": 2}, {"": 2, "t": 8}, {"t": 30}]
TOLD: list[dict[str, int]] = [
    *({"t": 0}, {"t": 1}, {"t": 2, "u": 0}, {"": 0}, {"": 1, "t": 7}, {"u": 1}, {"t": 40})
]

Step = tuple[str, int, int]


@dataclass
class Limit:
    """What `set_limit` was given."""

    rules: list[RateLimit | Quota]
    concurrency: int | None
    members: list[str] | None
    weight: float | None

    @classmethod
    def of(cls, chance: random.Random, scope: str | None) -> "Limit":
        """Make any limit that the scope may have."""
        learns = chance.random() < 0.15
        windows: list[RateLimit | Quota] = []
        for n in range(chance.choice([0, 1, 1, 2, 3])):
            unit = "" if learns and n == 0 else chance.choice(["", "", "t", "u"])
            moving = not (learns and n == 0) and chance.random() < 0.4
            rate = chance.choice([1, 2, 3, 10, 0.5]) if not learns or n else 2
            rate = max(1, rate) if moving else rate
            burst = 1 if moving or (learns and n == 0) else chance.choice([1, 2, 3, 8])
            at_once = rate if moving else burst
            windows.append(
                RateLimit(
                    rate,
                    0.25 if learns and n == 0 else chance.choice([0.5, 1, 1, 2, 5, 30]),
                    burst,
                    Reserve(1, 1) if at_once > 1 and chance.random() < 0.2 else None,
                    Adaptive(floor=1, ceiling=4) if learns and n == 0 else None,
                    chance.choice([None, None, 0, 0.125]),
                    unit,
                    chance.choice([0, 0, 3]) if unit else 0,
                    moving,
                )
            )
        for _ in range(chance.choice([0, 0, 0, 1, 2])):
            amount = chance.choice([4, 9, 30])
            windows.append(
                Quota(
                    amount,
                    chance.choice(["hour", "day"]),
                    chance.choice(["UTC", "America/Los_Angeles", "Asia/Kolkata"]),
                    unit=chance.choice(["", "", "t", "u"]),
                    reserve=Reserve(2, 1) if chance.random() < 0.2 else None,
                    spread=chance.random() < 0.3,
                )
            )
        windows = list(
            {
                (type(w), getattr(w, "period", 0), w.unit): w
                for w in windows
                if isinstance(w, Quota)
            }.values()
        ) + [w for w in windows if isinstance(w, RateLimit)]
        named = scope not in (None, "*")
        members = (
            chance.sample(MEMBERS, chance.randint(1, 3))
            if named and (chance.random() < 0.5)
            else None
        )
        weight = chance.choice([None, None, 0.4, 3]) if scope is not None else None
        concurrency = chance.choice([None, None, 1, 2, 3])
        if not windows and concurrency is None:
            concurrency = 2
        return cls(windows, concurrency, members, weight)


@dataclass(eq=False)
class Grant:
    """Units that were handed out."""

    moment: float  # of real time, ms
    clock: float  # of the server's
    group: str | None
    member: str | None
    reserved: dict[str, int]
    charged: int  # the number of that event
    told: dict[str, int] = field(default_factory=dict)
    task: Task[Any] | None = None
    ends: float = 0.0  # of its lease, by the clock; 0 without one
    live: bool = True

    def units(self, unit: str, most: int) -> int:
        """What counts in a bound: what was spent in the end, not more than was reserved."""
        reserved = min(self.reserved.get(unit, 0), most)
        return min(self.told.get(unit, reserved), reserved)

    def is_of(self, scope: tuple[str | None, str | None]) -> bool:
        group, member = scope
        return group is None or (group == self.group and member in (None, self.member))


@dataclass
class Told:
    """What a host has said, by the clock."""

    scope: tuple[str | None, str | None]
    unit: str
    left: int
    until: float
    since: int  # the number of that event


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Draw ids, and the pauses of callers, by a seed."""
    chance = random.Random(seed)

    def text(length: int) -> str:
        return "".join(chance.choices(ascii_letters + digits, k=length))

    def new_ids(count: int) -> list[str]:
        return [text(20) for _ in range(count)]

    secrets = SimpleNamespace(token_urlsafe=lambda count: text(count * 4 // 3))
    with patch.object(queue, "new_ids", new_ids), patch.object(permit, "secrets", secrets):
        yield


class World:
    """A queue, its holders and callers, and a judge."""

    def __init__(self, redis: Any, seed: int = 0) -> None:
        self.redis, self.seed = redis, seed
        self.clock, self.real = Clock(BEGIN), 0.0
        chance = random.Random(seed)
        fairness = chance.choice([None, "round_robin"])
        self.name = f"all-{uuid.uuid4().hex}"
        self.q: DPQ[Any] = DPQ(
            redis,
            self.name,
            clock=self.clock,
            fairness=fairness,
            backoff=Backoff(jitter=0),
            default_max_attempts=50,
            default_visibility=30,
        )
        self.limits: dict[str | None, Limit] = {}
        self.since: dict[str | None, int] = {}  # the number of its last change
        self.stepped = 0  # when the clock was set back
        self.grants: list[Grant] = []
        self.told: list[Told] = []
        self.callers: list[tuple[float, Caller]] = []
        self.permits: list[tuple[Caller, Grant]] = []
        self.asked = 0
        self.moments: dict[str, float] = {}
        self.number = 0
        self.booked: dict[str, int] = {}
        self.pushed: set[str] = set()
        self.gone: set[str] = set()

    def close(self) -> None:
        self.q.admin.drop()
        self.q.close()

    def next_number(self) -> int:
        self.number += 1
        return self.number

    # Steps

    def run(self, steps: Sequence[Step]) -> None:
        with repeatable(self.seed):
            for name, a, b in steps:
                getattr(self, "do_" + name)(a, b)
                self.judge()
            self.settle()

    def twice(self, b: int, call: Callable[[], Any]) -> Any:
        """Make a call; the answer may get lost, and then the client sends it again."""
        answer = call()
        if b % 7 == 0:
            with suppress(LeaseLostError, TaskNotFoundError):
                call()
        return answer

    def do_set_limit(self, a: int, b: int) -> None:
        self.move(1)  # quotas tell grants of before by their ms
        scope = SCOPES[a % len(SCOPES)]
        limit = Limit.of(random.Random(a * 1000 + b), scope)
        self.twice(
            b,
            lambda: self.q.set_limit(
                limit.rules or None,
                group=scope,
                concurrency=limit.concurrency,
                members=limit.members,
                weight=limit.weight,
            ),
        )
        self.limits[scope] = limit
        self.changed(scope)

    def do_clear_limit(self, a: int, b: int) -> None:
        if self.limits:
            self.move(1)
            scope = list(self.limits)[a % len(self.limits)]
            self.twice(b, lambda: self.q.clear_limit(scope))
            del self.limits[scope]
            self.changed(scope)

    def changed(self, scope: str | None) -> None:
        for each in NAMED if scope == "*" else [scope]:
            if scope != "*" or each not in self.limits:
                self.since[each] = self.next_number()

    def do_push(self, a: int, b: int) -> None:
        for n in range(1 + a % 4):
            group = GROUPS[(a + n) % 5]
            self.pushed.add(
                self.q.push(
                    n,
                    (b + n) % 3,
                    group=group,
                    cost=COSTS[(a // 5 + b) % 9],
                    member=MEMBERS[b % 3] if b % 11 == 0 and group else None,
                    delay=[0, 0, 0, 0.4, 3][b % 5],
                )
            )

    def do_merge(self, a: int, b: int) -> None:
        """Push a task whose key may be taken."""
        mode: Any = ["keep", "update", "raise_priority", "rerun"][b % 4]
        task_id = self.twice(
            b + 1,
            lambda: self.q.push(
                b,
                b % 3,
                group=NAMED[a % 3],
                cost=COSTS[b % 9],
                key=f"key-{a % 3}",
                on_duplicate=mode,
                member=MEMBERS[b % 3] if b % 13 == 0 else None,
            ),
        )
        self.pushed.add(task_id)
        self.gone.discard(task_id)

    def do_pop(self, a: int, b: int) -> None:
        live = [grant for grant in self.grants if grant.live]
        lease = [1.0, 4.0, 30.0, 300.0][b % 4]
        ahead = [0, 40, 900, 4000][a % 4]  # as a worker that is far away asks
        more = {"ahead_ms": ahead, "beyond": b % 3} if ahead else {}
        pop = self.q._operations.pop
        batch = self.q._session.run(pop, 1 + a % 5, lease, "-" if ahead else "", **more)
        tasks, waits = batch.tasks, batch.waits_ms or [0] * len(batch.tasks)
        assert sum(wait == 0 for wait in waits) <= 1 + a % 5
        assert all(wait <= ahead + ahead / 100 for wait in waits), waits
        for grant in live:
            if grant.ends and grant.ends <= self.clock.ms:
                grant.live = False
        for task, wait in zip(tasks, waits, strict=True):
            for grant in self.grants:
                if grant.task and grant.task.id == task.id:
                    grant.live = False
            grant = Grant(
                self.real + wait,
                self.clock.ms + wait,
                task.group,
                task.member,
                self.reserved(task),
                self.next_number(),
                task=task,
                ends=self.clock.ms + lease * 1000,
            )
            self.granted(grant)

    def reserved(self, task: Task[Any]) -> dict[str, int]:
        """What a record says of its delivery, with what nobody named."""
        raw = self.redis.hget(key_of(self.name, "meta"), task.id).decode()
        cost = re.match(r"[^\t\n]*f\d+ \d+ \d+ \S+ (\S+)", raw)
        units = {"": 1}
        for n, part in enumerate(cost[1].split(",") if cost else []):
            name, number = re.fullmatch(r"([a-z]*)[=~]?(\d+)", part).groups()
            units[name if n else ""] = int(number)
        return units

    def granted(self, grant: Grant) -> None:
        for scope, limit in self.scopes(grant):
            if limit.concurrency:
                since = self.since.get(scope[0], 0)  # of permits of before the server knows nothing
                out = [
                    each
                    for each in self.grants
                    if each.live
                    and each.ends > self.clock.ms
                    and each.is_of(scope)
                    and (each.task or each.charged >= since)
                ]
                assert len(out) < limit.concurrency, f"{len(out) + 1} at once in {scope}"
        for told in self.told:
            if grant.is_of(told.scope) and grant.clock < told.until:
                mine = sum(
                    g.reserved.get(told.unit, 0)
                    for g in self.grants
                    if g.charged > told.since and g.is_of(told.scope) and g.clock < told.until
                )
                assert mine + grant.reserved.get(told.unit, 0) <= told.left, f"beyond {told}"
        self.grants.append(grant)
        self.bounds(grant)

    def scopes(self, grant: Grant) -> list[tuple[tuple[str | None, str | None], Limit]]:
        found: list[tuple[tuple[str | None, str | None], Limit]] = []
        if None in self.limits:
            found.append(((None, None), self.limits[None]))
        if grant.group and (limit := self.limits.get(grant.group, self.limits.get("*"))):
            if limit.members:
                assert grant.member in limit.members, grant
                found.append(((grant.group, grant.member), limit))
            else:
                assert grant.member is None, grant
                found.append(((grant.group, None), limit))
        return found

    def bounds(self, grant: Grant) -> None:
        """No window, and no period, has got more than it may have."""
        for scope, limit in self.scopes(grant):
            since = self.since.get(scope[0], 0)
            if grant.charged < since:  # booked under another limit
                continue
            mine = [g for g in self.grants if g.charged >= since and g.is_of(scope)]
            for rule in limit.rules:
                if isinstance(rule, Quota):
                    self.period_holds(rule, grant, scope)
                    continue
                top = rule.adaptive.ceiling if rule.adaptive else rule.rate
                most = max(1, math.ceil(top) + rule.burst - 1)
                each = 1 if rule.adaptive else most
                per = rule.per * 1000
                for first in mine:
                    begin = first.moment
                    if not grant.moment - per < begin <= grant.moment + per:
                        continue
                    units = sum(
                        g.units(rule.unit, each) for g in mine if begin <= g.moment < begin + per
                    )
                    assert units <= most, f"{units} units in a window of {rule} of {scope}"

    def period_holds(
        self, quota: Quota, grant: Grant, scope: tuple[str | None, str | None]
    ) -> None:
        start, end = period_of(quota.period, quota.timezone, math.floor(grant.clock))
        first = max(self.since.get(scope[0], 0), self.stepped)
        units = sum(
            g.units(quota.unit, quota.amount)
            for g in self.grants
            if g.charged >= first and g.is_of(scope) and start <= g.clock < end
        )
        assert units <= quota.amount, f"{units} units in a period of {quota} of {scope}"

    # Ends

    def held(self, a: int) -> Grant | None:
        mine = [grant for grant in self.grants if grant.task and grant.live]
        return mine[a % len(mine)] if mine else None

    def tell(self, grant: Grant, told: dict[str, int]) -> None:
        for unit, units in told.items():
            grant.told.setdefault(unit, units)

    def end(
        self,
        a: int,
        b: int,
        call: Callable[[Task[Any], Any], Any],
        told: dict[str, int] | None,
        implied: bool = False,
    ) -> Grant | None:
        grant = self.held(a)
        if grant is None or grant.task is None:
            return None
        task = grant.task
        try:
            self.twice(b, lambda: call(task, told))
        except (LeaseLostError, TaskNotFoundError):
            grant.live = False
            return None
        self.tell(grant, told or {})
        if implied:
            self.tell(grant, {unit: 0 for unit in grant.reserved if unit})
        return grant

    def do_ack(self, a: int, b: int) -> None:
        told = TOLD[b % len(TOLD)] if b % 3 else None
        if grant := self.end(a, b, self.q.ack, told):
            grant.live = False
            with suppress(TaskNotFoundError):  # pushed again while it ran
                self.q.get(grant.task.id)
                return
            self.gone.add(grant.task.id)

    def do_spent(self, a: int, b: int) -> None:
        told = TOLD[b % len(TOLD)]
        self.end(a, b, self.q.spent, told)

    def do_fail(self, a: int, b: int) -> None:
        told = TOLD[b % len(TOLD)] if b % 2 else None
        wait = [0, 0.5, 5][b % 3]
        if grant := self.end(a, b, lambda t, c: self.q.fail(t, "x", wait, cost=c), told):
            grant.live = False

    def do_release(self, a: int, b: int) -> None:
        wait = [0, 0, 0.5][b % 3]
        told = TOLD[b % len(TOLD)] if b % 2 else None
        if grant := self.end(a, b, lambda t, c: self.q.release(t, wait, cost=c), told):
            grant.live = False

    def do_set_visibility(self, a: int, b: int) -> None:
        if grant := self.end(a, b, lambda t, c: self.q.set_visibility(t, 0.5), None):
            grant.ends = 0.0

    def do_bury(self, a: int, b: int) -> None:
        if grant := self.end(a, b, lambda t, c: self.q.bury(t, "x"), None):
            grant.live = False
            self.q.dead.replay(grant.task.id) if b % 2 else None

    def do_rate_limited(self, a: int, b: int) -> None:
        wait = [0, 0.25, 1, 5, 40][b % 5]
        scope: Any = ["member", "member", "group", "queue", "task"][a % 5]
        told = TOLD[b % len(TOLD)] if b % 4 == 0 else None
        call = lambda t, c: self.q.rate_limited(t, wait, scope, cost=c)  # noqa: E731
        if grant := self.end(a // 5, b, call, told, implied=True):
            grant.ends = 0.0

    def do_extend(self, a: int, b: int) -> None:
        if (grant := self.held(a)) and grant.task:
            seconds = [0.5, 3, 60][b % 3]
            with suppress(LeaseLostError, TaskNotFoundError):
                self.q.extend(grant.task, seconds)
                grant.ends = self.clock.ms + seconds * 1000

    def do_cancel(self, a: int, b: int) -> None:
        live = sorted(self.pushed - self.gone)
        if live:
            task_id = live[a % len(live)]
            with suppress(TaskNotFoundError):
                self.q.cancel(task_id)
                self.gone.add(task_id)
                for grant in self.grants:
                    if grant.task and grant.task.id == task_id:
                        grant.live = False

    def do_update(self, a: int, b: int) -> None:
        live = sorted(self.pushed - self.gone)
        if live:
            with suppress(TaskNotFoundError):
                self.q.update(live[a % len(live)], priority=b % 4, cost=COSTS[b % 9])

    # Hosts

    def do_observe(self, a: int, b: int) -> None:
        scope, unit = (GROUPS[a % 5], None), ["requests", "tokens"][0]
        left, seconds = b % 6, [1, 3, 20][b % 3]
        headers = {
            f"x-ratelimit-remaining-{unit}": str(left),
            f"x-ratelimit-reset-{unit}": f"{seconds}s",
        }
        budgets = self.q.observe(scope[0], headers=headers)
        until = self.clock.ms + seconds * 1000
        for budget in budgets:
            fresh = Told(scope, budget.unit, budget.left, until, self.next_number())
            before = [
                t
                for t in self.told
                if (t.scope, t.unit) == (scope, budget.unit) and t.until > self.clock.ms
            ]
            if before and until > max(t.until for t in before) + 2000:
                self.told = [t for t in self.told if t not in before]
            for each in before:  # the host says a sooner one
                each.until = min(each.until, until)
            if before:
                fresh.until = min(fresh.until, min(t.until for t in before))
            self.told.append(fresh)

    def do_close(self, a: int, b: int) -> None:
        group, limit = NAMED[a % 3], self.limits.get(NAMED[a % 3])
        member = MEMBERS[b % 3] if limit and limit.members and b % 2 else None
        seconds = [0, 0, 0.5, 5, None][a % 5]
        if member is None and seconds is None:
            seconds = 1.0
        self.q.delay_group(group, seconds, member=member)
        if seconds == 0:
            self.forget(group, member)

    def forget(self, group: str | None, member: str | None) -> None:
        self.told = [told for told in self.told if told.scope != (group, member)]

    def do_pause(self, a: int, b: int) -> None:
        if a % 2:
            self.q.pause([0.5, None][b % 2])
        else:
            self.q.resume()

    # Permits

    def do_acquire(self, a: int, b: int) -> None:
        timeout = [None, 0, 2.5, 20][a % 4]
        request = PermitRequest(GROUPS[b % 5], COSTS[(a + b) % 9], timeout, b % 3, 20.0)
        self.ask(Caller(request, self.real / 1000))

    def ask(self, caller: Caller) -> None:
        self.asked += 1
        assert self.asked < 40_000, f"{len(self.callers) + 1} callers starve"
        try:
            answer = self.q._session.run(self.q._operations.acquire, caller, self.real / 1000)
            pause = caller.receive(answer, self.real / 1000)
        except LimitTimeoutError:
            return
        if answer.code == 1 and answer.cost:
            self.booked[caller.id] = self.next_number()
        if answer.code == 0 and caller.request.timeout is None:
            pause = min(answer.wait, 3600.0)  # not every 30 s until a quota's period is over
        wait = math.ceil(pause * 1000 - 1e-6)
        if answer.code != 1 or answer.cost:  # else its booking stands, at the same moment
            self.moments[caller.id] = self.real + answer.wait * 1000
        self.callers.append((self.real + (wait if caller.granted else max(1, wait)), caller))

    def goes(self, caller: Caller) -> None:
        group, _, member = caller.scope.partition("\t")
        units = {"": 1}
        for n, part in enumerate(caller.cost.split(",")):
            name, number = re.fullmatch(r"([a-z]*)[=~]?(\d+)", part).groups()
            units[name if n else ""] = int(number)
        limit = self.limits.get(group, self.limits.get("*")) if group else None
        names = limit.members if limit and limit.members else None
        if (member or None) not in (names or [None]):  # other rules since
            return
        grant = Grant(
            self.moments[caller.id],
            float(caller.moment),
            group or None,
            member or None,
            units,
            self.booked.get(caller.id, 0),
        )
        if caller.held:
            grant.ends = float(caller.held[1:14])
        self.grants.append(grant)  # its lease and its units count since it asked
        self.bounds(grant)
        self.permits.append((caller, grant))

    def do_report(self, a: int, b: int) -> None:
        if not self.permits:
            return
        caller, grant = self.permits.pop(a % len(self.permits))
        told = TOLD[b % len(TOLD)] if b % 3 else {}
        text = ",".join(f"{unit}={units}" for unit, units in told.items())
        entries = self.redis.zrange(key_of(self.name, "tracked"), 0, -1)
        is_leased = caller.held and any(caller.held.encode() in each for each in entries)
        run, operations = self.q._session.run, self.q._operations
        if b % 4 == 0:
            wait = [0, 0.5, 3][a % 3]
            self.twice(
                b,
                lambda: run(
                    operations.met_limit,
                    caller,
                    RateLimited(wait, scope="member"),
                    caller.held,
                    text,
                ),
            )
            told = {**{unit: 0 for unit in grant.reserved if unit}, **told}
        elif caller.held:
            self.twice(b, lambda: run(operations.end_permit, caller, caller.held, text))
        if is_leased:
            self.tell(grant, told)
        grant.live = False

    def do_die(self, a: int, b: int) -> None:
        """A caller's process is killed."""
        if self.permits:
            self.permits.pop(a % len(self.permits))
        elif self.callers:
            self.callers.pop(a % len(self.callers))

    # Time, damage, mending

    def do_advance(self, a: int, b: int) -> None:
        self.advance([0.001, 0.05, 0.25, 0.333, 0.5, 1, 2, 5, 31, 61, 1800, 7200][a % 12])

    def do_step_back(self, a: int, b: int) -> None:
        self.clock.ms -= [50, 1000, 20_000, 4_000_000][a % 4]
        self.stepped = self.next_number()
        self.told = []

    def advance(self, seconds: float) -> None:
        end = self.real + round(seconds * 1000)
        while self.callers and (due := min(at for at, _ in self.callers)) <= end:
            self.move(max(0.0, due - self.real))
            due_now = [pair for pair in self.callers if pair[0] <= self.real]
            self.callers = [pair for pair in self.callers if pair not in due_now]
            for _, caller in due_now:
                if caller.granted:
                    self.goes(caller)
                else:
                    self.ask(caller)
        self.move(end - self.real)

    def move(self, ms: float) -> None:
        self.clock.ms += round(ms)
        self.real += round(ms)

    def do_check(self, a: int, b: int) -> None:
        self.q.promote()
        assert (found := self.q.check()) == [], found
        for state in [*self.q.admin.limits(), *self.q.admin.groups()]:
            assert state.in_flight >= 0
        self.q.admin.drain()

    # Judging

    def judge(self) -> None:
        stats = self.q.stats()
        known = stats.ready + stats.delayed + stats.invisible + stats.waiting + stats.dead
        live = self.pushed - self.gone
        assert known == len(live), f"{known} stored, {len(live)} not finished"

    def settle(self) -> None:
        """Everything that may run does run in the end, and nothing stays behind."""
        self.q.resume()
        assert (found := self.q.check()) == [], found
        for caller, _ in self.permits:
            if caller.held:
                self.q._session.run(self.q._operations.end_permit, caller, caller.held, "")
        self.permits = []
        for group in NAMED:
            for member in MEMBERS:
                self.q.delay_group(group, 0, member=member)
            self.q.delay_group(group, 0)
        self.told = []
        for task_id in self.pushed - self.gone:
            task = self.q.get(task_id)
            limit = self.limits.get(task.group or "")
            if task.pinned and limit and limit.members and task.pinned not in limit.members:
                self.q.cancel(task_id) if task.state != "dead" else None
                self.gone.add(task_id) if task.state != "dead" else None
        idle, began, count = 0.25, self.real, len(self.q) + len(self.callers)
        while len(self.q) or self.callers:
            tasks = self.q.pop_many(20, visibility=30)
            for task in tasks:
                self.q.ack(task)
            idle = 0.25 if tasks else min(idle * 2, 7200.0)
            self.advance(0.001 if tasks else idle)
            for caller, _ in self.permits:
                if caller.held:
                    self.q._session.run(self.q._operations.end_permit, caller, caller.held, "")
            self.permits = []
            assert self.real - began < (40 + 3 * count) * DAY * 1000, f"{len(self.q)} tasks starve"
        self.advance(5000)  # of permits whose caller has died the leases end
        for state in [*self.q.admin.limits(), *map(self.q.admin.group, NAMED)]:
            assert state.in_flight == 0, state
            assert [m.in_flight for m in state.members] == [0] * len(state.members)
        assert (found := self.q.check()) == [], found
        self.advance(3 * DAY)
        for _ in range(30):
            self.q.promote()
        self.q.pop()
        left = self.redis.zrange(key_of(self.name, "tracked"), 0, -1)
        assert all(name.startswith(b"\t") for name in left), left


WEIGHTS = {
    "push": 10,
    "merge": 3,
    "pop": 14,
    "ack": 8,
    "spent": 5,
    "fail": 2,
    "release": 2,
    "set_visibility": 1,
    "bury": 1,
    "rate_limited": 4,
    "extend": 2,
    "cancel": 1,
    "update": 2,
    "observe": 2,
    "close": 2,
    "pause": 1,
    "acquire": 7,
    "report": 5,
    "die": 1,
    "advance": 14,
    "step_back": 1,
    "set_limit": 4,
    "clear_limit": 1,
    "check": 2,
}
