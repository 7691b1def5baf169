"""One queue as a plain dict: what the design and the docstrings of `DPQ` promise, without Redis.

Time is handed in. What the server does lazily is lazy here too: a due task moves when upkeep runs,
and upkeep runs in pop and promote only. Who may run is decided here. When the server
finds that out, and moves a group out of ready or back, is its own affair: `see_closed` is told of
it, and says whether it is right.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise
from math import ceil
from typing import Any

from limit_model import Gate, Refusals, Rules, named

from dpq.types import Cost

FREE, DELAYED, INVISIBLE, DEAD = "free", "delayed", "invisible", "dead"  # free: ready or waiting

Number = int | float

MOST_REQUESTS = 3
"""The most requests that a task takes, of those that the machine pushes."""

UNTIL_RELEASED = 90_000_000_000_000
"""When a task is due that waits for the end of a batch, ms."""


@dataclass
class Granted:
    """What a delivery was charged: its number, when, its cost, under which limits; and what it has
    told since."""

    number: int
    at: Fraction
    cost: Cost
    changes: int
    told: set[str] = field(default_factory=set)


@dataclass
class Entry:
    """A stored task."""

    id: str
    payload: Any
    priority: Number
    place: int
    group: str | None
    key: str | None
    max_attempts: float
    enqueued: int
    first_due: int
    expires: int | None
    cost: Cost = 1
    every: int | None = None  # ms from one run to the next
    grid: int = 0  # the first of its times
    slack: int | None = None  # ms from each time in which it must start
    turn: int = 0  # when it was pushed, in calls
    came_due: bool = False  # its push had no delay; a later push of the same call may change that
    visibility: float | None = None  # of its own, seconds
    time_limit: float | None = None
    unique_for: float | None = None
    backoff: tuple[float, ...] | None = None  # of its own, seconds
    state: str = "new"
    until: int = 0  # due, lease end or time of death
    token: int = 0
    attempts: int = 0
    deliveries: int = 0
    deferrals: int = 0
    settled: str | None = None  # the verb that settled this delivery
    counted: bool = False  # this delivery has cost an attempt
    deferred: bool = False  # this delivery has been deferred
    rerun: int | None = None  # wanted once more, due then
    granted: Granted | None = None
    batch: str | None = None
    delay: int = 0  # from the end of what it waits for
    after: list[str] = field(
        default_factory=list
    )  # it waits for these, while it is until UNTIL_RELEASED
    on_dead: str = "bury"
    followed: bool = False  # others wait for it, or have waited
    reason: str = ""
    error: str | None = None
    max_lapses: int | None = None
    lapses: int = 0
    errors: list[tuple[str, int, str]] = field(default_factory=list)  # kind, attempt, text
    refusals: Refusals = field(default_factory=Refusals)
    holds: bool = False  # it waits for its retry, and no other of its group runs


@dataclass
class Batch:
    """What has become of the tasks that are not stored any more, and whether it is over."""

    sealed: bool = False
    finished: bool = False
    callback: str | None = None
    gone: Counter[str] = field(default_factory=Counter)  # done, dead, removed


@dataclass
class Model:
    """The queue beside the queue."""

    lifo: bool = False
    sign: int = 1  # -1: the smallest priority runs first
    aging: float = 0
    in_turn: bool = False  # groups take turns
    by_share: bool = False  # by what groups spend: fairness="units"
    dead_max_tasks: int = 100_000
    dead_max_age: int = 90 * 86_400_000
    max_tasks: int | None = None
    max_waiting: int | None = None
    drops: bool = False  # when_full="drop_worst"
    tasks: dict[str, Entry] = field(default_factory=dict)
    results: list[tuple[str, Any, int]] = field(
        default_factory=list
    )  # task, value, end of its time
    progress: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # task -> token, what it told
    closed: dict[str, Fraction] = field(default_factory=dict)  # as the server has it
    charged_closed: set[str] = field(default_factory=set)  # by a pop by id, since they were closed
    limits: dict[str | None, Rules] = field(default_factory=dict)  # None: the queue; "*": any group
    gates: dict[str | None, Gate] = field(default_factory=dict)
    grants: int = 0  # counts deliveries
    pops: int = 0
    changes: int = 0  # of limits
    turn: int = 0  # counts calls
    turns: dict[str, tuple[int, int]] = field(
        default_factory=dict
    )  # a group's, since when: from, to
    line: list[str] = field(default_factory=list)  # who stands where, as last seen
    shares: Counter[str] = field(default_factory=Counter)  # requests of each group
    beside: dict[tuple[str, str], list[int]] = field(
        default_factory=dict
    )  # of two groups beside each other: what one has taken more than the other, least and most
    paused_until: float = 0
    last_place: int = 0
    totals: Counter[str] = field(default_factory=Counter)
    batches: dict[str, Batch] = field(default_factory=dict)
    seen: dict[str, tuple[str, float]] = field(
        default_factory=dict
    )  # key of a finished task -> its id, until
    follows: set[tuple[str, str]] = field(default_factory=set)  # a task, and who waits for it
    over: set[tuple[str, str]] = field(default_factory=set)  # how a task has ended, and its id

    # Batches

    def batch_counts(self, name: str) -> tuple[int, int, int, int]:
        """How many tasks are left, done, dead and removed."""
        stored = [entry.state == DEAD for entry in self.tasks.values() if entry.batch == name]
        gone = self.batches[name].gone
        dead = sum(stored)
        return len(stored) - dead, gone["done"], dead + gone["dead"], gone["removed"]

    def lose(self, entry: Entry, kind: str) -> None:
        """A task of a batch is not stored any more, or not in that batch."""
        if entry.batch is not None:
            self.batches[entry.batch].gone[kind] += 1

    def into(self, entry: Entry, name: str | None) -> None:
        """Move a task into a batch, or into none."""
        if entry.batch != name:
            self.lose(entry, "removed")
            entry.batch = name
        if name is not None:
            self.batches.setdefault(name, Batch())

    def seal(
        self, name: str, new_id: str | None, push: dict[str, Any], now: int, default_max: int
    ) -> None:
        """No more tasks are to come but from its own; a first task may wait for its end."""
        batch = self.batches.setdefault(name, Batch())
        if new_id is not None and batch.callback is None:
            batch.callback = new_id
            self.push(new_id, {**push, "delay": 1}, now, default_max)  # it takes no turn
            entry = self.tasks[new_id]
            entry.delay = round(push["delay"] * 1000)
            entry.first_due = now + entry.delay
            self.move(entry, DELAYED, UNTIL_RELEASED)
            if batch.finished:
                self.release_end(new_id, now)
        batch.sealed = True
        self.settle(now)

    def settle(self, now: int) -> bool:
        """Finish the batches of which nothing is left; whether a task is due for that."""
        released = False
        for name, batch in self.batches.items():
            if batch.sealed and not batch.finished and self.batch_counts(name)[0] == 0:
                batch.finished = True
                released = self.release_end(batch.callback, now) or released
        return released

    def release_end(self, task_id: str | None, now: int) -> bool:
        """The task that waits for the end of a batch waits for nothing but its delay."""
        entry = self.tasks.get(task_id or "")
        if entry is None or entry.state != DELAYED or entry.until < UNTIL_RELEASED:
            return False
        entry.until = entry.first_due = now + entry.delay
        return True

    # Tasks that wait for others

    def waits(self, entry: Entry) -> list[str]:
        """The tasks that it waits for."""
        return entry.after if entry.state == DELAYED and entry.until >= UNTIL_RELEASED else []

    def link(self, task_id: str) -> None:
        """A new task begins to wait; a task that is dead already ends now."""
        for ahead in self.tasks[task_id].after:
            self.tasks[ahead].followed = True
            self.follows.add((ahead, task_id))
            if self.tasks[ahead].state == DEAD:
                self.end(self.tasks[ahead], "dead")

    def end(self, entry: Entry, how: str) -> None:
        """A task ends; upkeep tells those who wait for it."""
        if entry.followed:
            self.over.add((how, entry.id))

    def unfollow(self, entry: Entry) -> None:
        """It waits for none any more."""
        self.follows -= {(ahead, entry.id) for ahead in entry.after}

    def free_followers(self, now: int) -> int:
        """Release or bury who waits for a task that has ended; how many were looked at."""
        seen = 0
        while self.over:
            how, ahead = min(self.over)
            for task_id in sorted(task_id for id_, task_id in self.follows if id_ == ahead):
                self.follows.discard((ahead, task_id))
                seen += 1
                entry = self.tasks.get(task_id)
                if entry is None or ahead not in self.waits(entry):
                    continue
                if how != "done" and entry.on_dead == "bury":
                    self.unfollow(entry)
                    entry.after = []
                    verb = "died" if how == "dead" else "was cancelled"
                    self.bury(entry, now, f"task {ahead}, which it waited for, {verb}")
                    continue
                entry.after.remove(ahead)
                if not entry.after:
                    entry.until = entry.first_due = now + entry.delay
            self.over.discard((how, ahead))
            seen += 1
        return seen

    # Looking

    def rank(self, entry: Entry) -> tuple[Any, int]:
        """The smaller, the sooner it runs."""
        place = -entry.place if self.lifo else entry.place
        if self.aging:
            aged = Fraction(self.aging) * entry.first_due / 1000 - self.sign * Fraction(
                entry.priority
            )
            return aged, place
        return -self.sign * entry.priority, place

    def shown(self, entry: Entry) -> tuple[Any, int]:
        """The same among those in ready, where groups may take turns."""
        if not self.in_turn:
            return self.rank(entry)
        name = self.in_line(entry)
        return -self.sign * entry.priority, self.line.index(name) if name in self.line else len(
            self.line
        )

    def in_line(self, entry: Entry) -> str:
        """Who stands in line: a task, or its group."""
        return entry.id if entry.group is None else f"group {entry.group}"

    def free(self, group: str | None) -> list[Entry]:
        """The tasks of a group, or of none, that wait for nothing but their turn, best first."""
        held = [e for e in self.tasks.values() if e.state == FREE and e.group == group]
        return sorted(held, key=self.rank)

    def heads(self) -> dict[str, Entry]:
        """The best task of each group."""
        groups = {e.group for e in self.tasks.values() if e.state == FREE and e.group is not None}
        return {group: self.free(group)[0] for group in groups}

    def in_state(self, state: str) -> list[Entry]:
        """The tasks of one public state, in the order in which peek shows them."""
        if state in (DELAYED, INVISIBLE, DEAD):
            held = [entry for entry in self.tasks.values() if entry.state == state]
            return sorted(held, key=lambda entry: (entry.until, entry.id))
        heads = [head for group, head in self.heads().items() if group not in self.closed]
        ready = sorted(self.free(None) + heads, key=self.shown)
        if state == "ready":
            return ready
        waiting = [e for e in self.tasks.values() if e.state == FREE and e not in ready]
        return sorted(waiting, key=lambda entry: ((entry.group or "").encode(), self.rank(entry)))

    def state_of(self, entry: Entry) -> str:
        """The public state of one task."""
        if entry.state != FREE:
            return entry.state
        return "ready" if entry in self.in_state("ready") else "waiting"

    def counts(self, now: int) -> dict[str, int]:
        """How many tasks each public state has; what is due and was not moved counts as ready."""
        states = ("ready", "delayed", "invisible", "waiting", "dead")
        found = {state: len(self.in_state(state)) for state in states}
        for state in (DELAYED, INVISIBLE):
            due = sum(entry.until <= now for entry in self.in_state(state))
            found[state], found["ready"] = found[state] - due, found["ready"] + due
        return found

    def holder(self, key: str | None) -> Entry | None:
        """The task that holds a unique key."""
        return next((e for e in self.tasks.values() if key and e.key == key), None)

    def free_seen(self, now: int) -> None:
        """Free the seen keys whose time is over."""
        self.seen = {key: found for key, found in self.seen.items() if found[1] > now}

    def seen_by(self, push: dict[str, Any]) -> str | None:
        """The task that was finished under the key of a push, if that answers the push."""
        anew = push["key"] is None or push["on_duplicate"] in ("update", "rerun")
        return None if anew else self.seen.get(push["key"], (None, 0))[0]

    def next_event(self, now: int) -> int | None:
        """Milliseconds until time alone changes what is ready."""
        if self.over:
            return 0
        moments: list[Fraction | int] = list(self.closed.values())
        moments += [e.until for e in self.tasks.values() if e.state in (DELAYED, INVISIBLE)]
        moments = [moment for moment in moments if moment < UNTIL_RELEASED]
        return max(ceil(min(moments) - now), 0) if moments else None

    # Limits

    def rules(self, scope: str | None) -> Rules:
        """What holds for a group, or for the queue (None)."""
        default = self.limits.get("*", Rules()) if scope is not None else Rules()
        return self.limits.get(scope, default)

    def gate(self, scope: str | None) -> Gate:
        """What its limit has granted, under the rules of this moment."""
        gate = self.gates.setdefault(scope, Gate())
        gate.rules = self.rules(scope)
        return gate

    def in_flight(self, scope: str | None) -> int:
        """Leases out."""
        running = [e for e in self.tasks.values() if e.state == INVISIBLE]
        return sum(scope is None or e.group == scope for e in running)

    def held(self, scope: str | None) -> list[Entry]:
        """The tasks that hold a group in order."""
        return [
            e for e in self.tasks.values() if e.holds and scope is not None and e.group == scope
        ]

    def full(self, scope: str | None) -> bool:
        """Until a lease ends, nothing of this scope may run."""
        most, out = self.rules(scope).concurrency, self.in_flight(scope) + len(self.held(scope))
        return bool(self.gate(scope).probe) or (most is not None and out >= most)

    def moment(self, scope: str | None, entry: Entry | None, now: int) -> Fraction:
        """When closing and windows of a scope let a task run; None is the lightest there may be."""
        if entry is None:
            return self.gate(scope).moment(now)
        aging = Fraction(self.aging)
        priority = self.sign * Fraction(entry.priority) + aging * (now - entry.first_due) / 1000
        return self.gate(scope).moment(now, entry.cost, priority, aging, self.sign)

    def may_run(self, scope: str | None, entry: Entry, now: int) -> bool:
        """The scope lets this task run now."""
        return not self.full(scope) and self.moment(scope, entry, now) <= now

    def shut(self, scope: str | None, now: int) -> tuple[str | None, Fraction | None]:
        """Why a scope lets no task run, and until when; the latter is None when a lease must end.

        If its best task needs more than one unit, and a pop met it, the group opens for that one.
        """
        gate, at = self.gate(scope), self.moment(scope, None, now)
        if gate.opens > now:
            return gate.reason, at
        back = max((e.until for e in self.held(scope)), default=None)
        if back is not None and gate.rules.in_order and not gate.probe:
            return "in order", Fraction(back) if back > now else None
        if self.full(scope):
            return ("probe" if gate.probe else "concurrency"), None
        if scope is not None:
            at = max(at, self.closed.get(scope, at))
        counts = [gate.count(quota, now) for quota in gate.rules.quotas]
        by_quota = any(at in (counted.reset, counted.next) for counted in counts)
        return ("quota" if by_quota else "spent", at) if at > now else (None, None)

    def ended(self, entry: Entry, lapsed: bool = False) -> None:
        """A lease is over, maybe that of a probe."""
        for scope in (None, entry.group):
            if self.gate(scope).probe == entry.id:
                self.gate(scope).ended(lapsed)

    def see_closed(self, closed: dict[str, Fraction], now: int) -> None:
        """The groups that the server has out of ready, and until when: it must be right in that."""
        for group, head in self.heads().items():
            at = closed.get(group)
            if at is None:
                assert self.gate(group).opens <= now, (
                    f"{group!r} is closed, and has a head in ready"
                )
            elif at <= now:
                assert self.closed.get(group) == at, f"{group!r} could be open"
            elif not self.full(group):
                moment = self.moment(group, head, now)
                # A head does not know the cost of a task. A pop by id charges a closed group, whose
                # moment stays: it is looked at once too often then.
                early = group in self.charged_closed and at < moment
                assert early or at == moment, f"{group!r} opens at another moment"
                if at == moment:
                    self.charged_closed.discard(group)
        self.charged_closed &= closed.keys()
        self.closed = closed

    def see_ready(self, ids: list[str]) -> None:
        """The order in ready, where groups take turns: who came first is first, or it is a draw."""
        self.turns = {g: t for g, t in self.turns.items() if g not in self.closed}
        latest, place, equals = 0, 0, None
        for entry in map(self.tasks.__getitem__, ids):
            if entry.group is not None:
                self.turns.setdefault(entry.group, (self.turn, self.turn))
            if equals != entry.priority:
                latest, place, equals = 0, 0, entry.priority
            earliest, last = self.since(entry)
            assert latest <= last, f"{entry} stands behind one that came later"
            latest = max(latest, earliest)
            if entry.group is None:
                assert place < entry.place, f"{entry} stands behind a later push"
                place = entry.place
        self.line = [self.in_line(self.tasks[task_id]) for task_id in ids]

    def see_shares(self, ids: list[str]) -> None:
        """The order in ready, where groups take turns by units: tasks without a group come first,
        and groups that stand beside each other take the same, within one task of each.
        """
        tasks = [self.tasks[task_id] for task_id in ids]
        for one, other in pairwise(tasks):
            if one.priority == other.priority and other.group is None:
                assert one.group is None, f"{other} stands behind a group"
                assert one.place < other.place, f"{other} stands behind a later push"
        heads = sorted((str(e.group), e.priority) for e in tasks if e.group is not None)
        pairs = [(a, b) for (a, level), (b, same) in combinations(heads, 2) if level == same]
        before, self.beside = self.beside, {}
        for pair in pairs:
            ahead = self.shares[pair[0]] - self.shares[pair[1]]
            least, most = before.get(pair, (ahead, ahead))
            self.beside[pair] = [min(least, ahead), max(most, ahead)]
            bound = 2 * MOST_REQUESTS
            unequal = max(most, ahead) - min(least, ahead) > bound
            assert not unequal, f"{pair} share unequally"
        self.line = [self.in_line(task) for task in tasks]

    def since(self, entry: Entry) -> tuple[int, int]:
        """When it took its turn, or its group did: not before, not after."""
        return (entry.turn, entry.turn) if entry.group is None else self.turns[entry.group]

    def vacate(self, entry: Entry, comes_again: bool = False) -> None:
        """A task leaves ready: the next of its group takes a turn, or itself if it comes again."""
        group = entry.group
        if group is None or group in self.closed or self.heads()[group] is not entry:
            return
        first, _ = self.turns.pop(group, (self.turn, self.turn))
        if comes_again:  # whether it has kept its turn is left open
            self.turns[group] = first, self.turn
        elif (name := self.in_line(entry)) in self.line:
            self.line.remove(name)
            if len(self.free(group)) > 1:
                self.line.append(name)

    # Moving

    def move(self, entry: Entry, state: str, until: int = 0, lapsed: bool = False) -> None:
        """From one state to another."""
        if entry.state == INVISIBLE != state:
            self.ended(entry, lapsed)
        if entry.state == FREE != state:
            self.vacate(entry)
        entry.state, entry.until, entry.holds = state, until, False

    def hold(self, entry: Entry) -> None:
        """A task that its holder has sent back holds a group in order until it is due."""
        waits = entry.state == DELAYED and entry.group is not None and entry.deliveries > 0
        entry.holds = waits and self.rules(entry.group).in_order

    def lift(self, entry: Entry, wait: int) -> None:
        """Out of ready, if it is there, and in `wait` ms to stand somewhere else."""
        if entry.state == FREE:
            self.vacate(entry, comes_again=not wait)
            entry.state = "lifted"

    def revise(self, entry: Entry, now: int, priority: Number | None, wait: int | None) -> None:
        """Another priority, another time to be due, or both; a running task stays where it is."""
        free = entry.state == FREE
        if free or wait is not None:
            self.lift(entry, wait or 0)
        if priority is not None:
            entry.priority = priority
        if wait is not None:
            self.redate(entry, now, wait)
        elif free:
            self.put(entry, now, 0)

    def put(self, entry: Entry, now: int, wait: int, lapsed: bool = False) -> None:
        """Ready now, or due in `wait` ms."""
        self.move(entry, *((DELAYED, now + wait) if wait else (FREE, 0)), lapsed=lapsed)

    def bury(self, entry: Entry, now: int, reason: str, lapsed: bool = False) -> None:
        """Into the dead letters, under their caps; or anew, if it was pushed again meanwhile."""
        if entry.rerun is not None and entry.state != DEAD:
            token, settled = entry.token, entry.settled
            error = entry.error if settled == "fail" else None
            self.come_again(entry, now, error, lapsed)
            if not lapsed:
                entry.token, entry.settled = token, settled
            return
        self.move(entry, DEAD, now, lapsed)
        entry.reason = reason
        self.totals["buried"] += 1
        self.end(entry, "dead")
        self.trim(now, 2)
        self.settle(now)

    def remove(self, entry: Entry, kind: str = "removed") -> None:
        """It is gone."""
        self.lose(entry, "dead" if entry.state == DEAD and kind == "removed" else kind)
        self.move(entry, "gone")
        self.end(entry, "done" if kind == "done" else "cancelled")
        if kind != "done":
            self.unfollow(entry)
        del self.tasks[entry.id]

    def trim(self, now: int, most: int) -> int:
        """Drop the longest dead: those over the age, or over the number when those are more."""
        dead = self.in_state(DEAD)
        surplus = len(dead) - self.dead_max_tasks
        drop = [e for e in dead if e.until <= now - self.dead_max_age][:most]
        if surplus > len(drop):
            drop = dead[: min(surplus, most)]
        for entry in drop:
            self.lose(entry, "dead")
            del self.tasks[entry.id]
        self.totals["dropped"] += len(drop)
        return len(drop)

    def upkeep(self, now: int) -> int:
        """Everything whose time has come moves; how many those are."""
        leases = [e for e in self.in_state(INVISIBLE) if e.until <= now]
        moved = 0
        opened = [group for group, opens in self.closed.items() if opens <= now]
        for entry in leases:
            self.totals["expired_leases"] += 1
            if not entry.counted:
                self.tell_error(entry, "lease_expired", f"delivery {entry.deliveries}")
                entry.counted = True
                if entry.max_lapses:
                    entry.lapses += 1
                else:
                    entry.attempts += 1
            if entry.max_lapses and entry.lapses >= entry.max_lapses:
                self.bury(entry, now, "lapses spent", lapsed=True)
            elif entry.attempts >= entry.max_attempts:
                self.bury(entry, now, "lease expired", lapsed=True)
            else:
                self.put(entry, now, 0, lapsed=True)
        while True:
            freed = self.free_followers(now)
            due = [e for e in self.in_state(DELAYED) if e.until <= now]
            moved += len(due) + freed
            if not due and not freed:
                break
            for entry in due:
                if self.too_late(entry, now):
                    self.bury(entry, now, "expired")
                else:
                    self.put(entry, now, 0)
        for group in opened:
            del self.closed[group]
        return len(leases) + moved + len(opened)

    def tell_error(self, entry: Entry, kind: str, text: str) -> None:
        """An attempt has ended, and an event says how."""
        entry.errors.append((kind, max(entry.attempts + (not entry.counted), 1), text))

    def too_late(self, entry: Entry, now: int) -> bool:
        """It should have started before now, and has not."""
        return entry.expires is not None and entry.deliveries == 0 and entry.expires <= now

    # Adding

    def refusal(self, pushes: list[dict[str, Any]]) -> str | None:
        """Why a batch is refused whole: "duplicate", "group", "full" or not at all."""
        claims: dict[str, str | None] = {}
        over = {name for name, batch in self.batches.items() if batch.finished}
        if any(push["batch"] in over for push in pushes):
            return "batch"
        fresh = []
        for push in pushes:
            key = push["key"]
            if key is None:
                fresh.append(push)
                continue
            held = self.holder(key)
            if held is None and key not in claims and self.seen_by(push):
                if push["on_duplicate"] == "error":
                    return "duplicate"
            elif held is None and key not in claims:
                claims[key] = push["group"]
                fresh.append(push)
            elif push["on_duplicate"] == "error":
                return "duplicate"
            elif push["on_duplicate"] == "keep":
                continue
            elif claims.get(key, held and held.group) != push["group"]:
                return "group"
        live = sum(entry.state != DEAD for entry in self.tasks.values())
        ahead = [id_ for push in fresh for id_ in push["after"] or ()]
        new = [pushes[id_]["every"] for id_ in ahead if isinstance(id_, int)]
        if any(new) or any(id_ in self.tasks and self.tasks[id_].every for id_ in ahead):
            return "after"
        full = self.max_tasks is not None and live + len(fresh) > self.max_tasks
        if self.max_waiting is not None and not self.drops:
            coming = Counter(push["group"] for push in fresh if push["group"] and not push["delay"])
            for group, count in coming.items():
                full = full or len(self.free(group)) + count > self.max_waiting
        return "full" if full and fresh else None

    def drop_worst(self, ids: list[str], now: int) -> None:
        """Bury the worst of each group that is full, at most as many as these that have come."""
        entries = [self.tasks[task_id] for task_id in ids]
        coming = Counter(entry.group for entry in entries if entry.group and entry.came_due)
        for group, count in coming.items():
            surplus = len(self.free(group)) - (self.max_waiting or 10**9)
            for entry in self.free(group)[::-1][: max(0, min(surplus, count))]:
                self.bury(entry, now, "group full")

    def push(self, new_id: str, push: dict[str, Any], now: int, default_max: int) -> str:
        """Add one task, or do to the key's holder what the push says; whose id answers it."""
        wait = round(push["delay"] * 1000)
        expires = None if push["expires_in"] is None else now + round(push["expires_in"] * 1000)
        most = push["max_attempts"] or default_max
        every = None if push["every"] is None else round(push["every"] * 1000)
        slack = None if expires is None else expires - now
        if every and slack is not None:
            expires = now + wait + slack
        held = self.holder(push["key"])
        if held is None and (seen := self.seen_by(push)):
            return seen
        if held is None:
            self.seen.pop(push["key"], None)
            self.last_place += 1
            entry = Entry(
                id=new_id,
                payload=push["payload"],
                priority=push["priority"],
                place=self.last_place,
                group=push["group"],
                key=push["key"],
                max_attempts=most,
                enqueued=now,
                first_due=now + wait,
                expires=expires,
                cost=push["cost"],
                every=every,
                grid=now + wait,
                slack=slack,
                turn=self.turn,
                visibility=push["visibility"],
                time_limit=push["time_limit"],
                unique_for=push["unique_for"],
                backoff=push["backoff"],
                max_lapses=push["max_lapses"],
            )
            self.tasks[new_id] = entry
            self.into(entry, push["batch"])
            entry.after = [id_ for id_ in dict.fromkeys(push["after"] or ()) if id_ in self.tasks]
            entry.on_dead, entry.delay, entry.came_due = push["on_dead"], wait, not wait
            if entry.after:
                self.move(entry, DELAYED, UNTIL_RELEASED)
            else:
                self.put(entry, now, wait)
            self.totals["pushed"] += 1
            return new_id
        mode = push["on_duplicate"]
        keeps = False
        if "debounce_max" in push and held.state not in (INVISIBLE, DEAD):
            keeps = held.state != DELAYED or held.until <= now or held.deliveries > 0
            bound = held.enqueued + round((push["debounce_max"] or 10**9) * 1000)
            wait = 0 if keeps else max(min(wait, bound - now), 0)
        better = self.sign * push["priority"] > self.sign * held.priority
        if mode == "raise_priority" and held.state != DEAD and better:
            self.revise(held, now, push["priority"], None)
        same = every is not None and held.every == every and not wait and held.state != DEAD
        if mode in ("update", "rerun"):
            held.visibility, held.time_limit = push["visibility"], push["time_limit"]
            held.unique_for = push["unique_for"]
            held.backoff = push["backoff"]
            held.refusals = Refusals()
        if mode in ("update", "rerun") and every:
            held.slack = slack
            if mode == "rerun" or not same:
                held.every, held.grid, held.expires = every, now + wait, expires
        elif mode == "update":
            held.every = None
        if mode in ("update", "rerun"):
            held.unique_for = None if held.every else held.unique_for
            self.into(held, None if held.every else push["batch"] or held.batch)
        if mode == "update" and same:
            held.payload, held.cost = push["payload"], push["cost"]
            self.revise(held, now, push["priority"], None)
        elif mode in ("update", "rerun"):
            self.lift(held, wait)
            held.priority = push["priority"]
            held.payload, held.cost = push["payload"], push["cost"]
            if held.state == DEAD:
                self.start_over(held, now)
                held.first_due, held.max_attempts, held.expires = now + wait, most, expires
                held.reason, held.error, held.max_lapses = "", None, push["max_lapses"]
                held.after = []
                self.put(held, now, wait)
            elif held.state == INVISIBLE:
                if mode == "rerun":
                    held.rerun, held.max_attempts, held.expires = now + wait, most, expires
                    if push["max_lapses"] is None:
                        held.lapses = 0
                    held.max_lapses = push["max_lapses"]
            else:
                if mode == "rerun":
                    self.disown(held)
                if self.waits(held) and not held.every:
                    held.delay, held.first_due = wait, held.enqueued + wait
                elif keeps and held.state == DELAYED:
                    pass
                elif keeps:
                    self.put(held, now, 0)
                else:
                    held.after = []
                    self.redate(held, now, wait)
        return held.id

    def start_over(self, entry: Entry, now: int) -> None:
        """As a new task: nothing has been tried, and no old token is live."""
        entry.attempts = entry.deliveries = entry.deferrals = entry.lapses = 0
        entry.enqueued = now
        self.disown(entry)

    def disown(self, entry: Entry) -> None:
        """Whoever had it is too late."""
        entry.token = 0
        entry.settled, entry.counted, entry.deferred, entry.rerun = None, False, False, None

    def redate(self, entry: Entry, now: int, wait: int) -> None:
        """Due in `wait` ms instead; aging counts from the moment it was first due."""
        if now < entry.first_due or (entry.state == DELAYED and entry.until >= UNTIL_RELEASED):
            entry.first_due = now + wait
        self.come_back(entry, now, wait)

    def resume(self) -> None:
        """Hand out tasks again: it ends a pause, and what a 429 of the whole queue has closed."""
        self.paused_until = 0
        gate = self.gate(None)
        if gate.reason:
            gate.opens, gate.reason, gate.probe = 0, None, None

    # Taking and settling

    def pop(
        self, most: int, now: int, visibility: int, buried: Callable[[Entry], bool]
    ) -> list[Entry]:
        """Lease the best of all that may run; tokens are filled in by the caller.

        `buried` says whether the server has met a task that is too late, of a group that lets none
        run, which it may not have known, or that takes turns.
        """
        if self.paused_until > now:
            return []
        self.upkeep(now)
        self.pops += 1
        taken: list[Entry] = []
        self.pop_best(most, now, visibility, buried, taken)
        while not taken and (self.over or any(e.until <= now for e in self.in_state(DELAYED))):
            self.upkeep(now)  # a death has ended a batch: what waited for it is due
            self.pop_best(most, now, visibility, buried, taken)
        return taken

    def pop_best(
        self,
        most: int,
        now: int,
        visibility: int,
        buried: Callable[[Entry], bool],
        taken: list[Entry],
    ) -> None:
        """Lease the best of those that are free."""
        passed: set[str] = set()
        while len(taken) < most:
            heads = [head for group, head in self.heads().items() if group not in passed]
            best = sorted(self.free(None) + heads, key=self.shown)
            if not best:
                break
            entry = best[0]
            late = self.too_late(entry, now)
            drawn = late and self.in_turn  # the turn of a head that came just now is not known
            if entry.group and (drawn or not self.may_run(entry.group, entry, now)):
                if late and buried(entry):
                    self.bury(entry, now, "expired")
                else:
                    passed.add(entry.group)
            elif late:
                self.bury(entry, now, "expired")
            elif self.may_run(None, entry, now):
                self.grant(entry, now, visibility)
                taken.append(entry)
            else:
                break

    def grant(self, entry: Entry, now: int, visibility: int) -> None:
        """Lease the task as a pop does, and charge its limits; it may be what a `rerun` ordered."""
        if entry.rerun is not None and entry.rerun <= now:
            entry.rerun = None
        own = entry.visibility
        self.take(entry, now + (visibility if own is None else round(own * 1000)))
        self.grants += 1
        if entry.group is not None:
            self.shares[entry.group] += max(1, named(entry.cost)[""])
        entry.granted = Granted(self.grants, Fraction(now), entry.cost, self.changes)
        for scope in {None, entry.group}:
            self.gate(scope).charge(entry.id, entry.cost, now, self.grants, self.pops)
        self.totals["popped"] += 1

    def pop_task(self, task_id: str, force: bool, now: int, visibility: int) -> list[Entry]:
        """Lease this task, wherever it stands, if its limits let it run."""
        self.beside.clear()  # its group may be ahead then
        if self.paused_until > now:
            return []
        self.upkeep(now)
        self.pops += 1
        entry = self.tasks.get(task_id)
        if entry is None or entry.state not in (FREE, *((DELAYED,) if force else ())):
            return []
        scopes = {None, entry.group}
        late, held, entry.holds = self.too_late(entry, now), entry.holds, False
        if late:
            self.bury(entry, now, "expired")
        elif all(self.may_run(scope, entry, now) for scope in scopes):
            self.grant(entry, now, visibility)
            return [entry]
        else:
            entry.holds = held
        return []

    def take(self, entry: Entry, until: int) -> None:
        """Under a lease."""
        self.move(entry, INVISIBLE, until)
        entry.deliveries += 1
        entry.settled, entry.counted, entry.deferred = None, False, False

    def fence(self, task_id: str, token: int, verb: str) -> str:
        """May this delivery act? "go", "done" (the same call once more) or "lost"."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.token != token or token == 0:
            return "lost"
        if entry.settled is not None and entry.settled == verb:
            return "done"
        return "lost" if entry.settled or entry.state == DEAD else "go"

    def ack(self, task_id: str, token: int, now: int) -> str:
        """ "done", "gone" or "lost"."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.token == 0:
            return "gone"
        if entry.token != token:
            return "lost"
        if entry.deliveries == 0:  # its run has failed for good
            return "gone"
        self.totals["acked"] += 1
        if entry.rerun is None and entry.every is None:
            self.remove(entry, "done")
            if entry.key and entry.unique_for:
                self.seen[entry.key] = entry.id, now + entry.unique_for * 1000
        else:
            self.come_again(entry, now, None)
        return "done"

    def kept(self, now: int) -> list[tuple[str, Any]]:
        """The results whose time is not over, in their order."""
        return [(task_id, value) for task_id, value, until in self.results if until > now]

    def outcome(self, task_id: str, now: int) -> tuple[str, Any]:
        """What has become of a task: its state, with the reason or the result."""
        entry = self.tasks.get(task_id)
        if entry and entry.state == DEAD:
            return "dead", entry.reason
        newest = [(value, until) for id_, value, until in self.results if id_ == task_id][-1:]
        if newest and newest[0][1] > now:
            return "done", newest[0][0]
        if entry is None:
            return "", None
        token, told = self.progress.get(task_id, (-1, 0))
        return "live", told if entry.state == INVISIBLE and token == entry.token else None

    def come_again(self, entry: Entry, now: int, error: str | None, lapsed: bool = False) -> None:
        """As a new task: at the moment that a `rerun` wanted, or at its next time."""
        if entry.rerun is not None:
            wait = max(entry.rerun - now, 0)
        else:
            assert entry.every
            at, after = entry.grid, max(now, entry.first_due)
            while at <= after:
                at += entry.every
            wait = at - now
            entry.expires = None if entry.slack is None else at + entry.slack
        self.start_over(entry, now)
        self.last_place += 1
        if entry.state == FREE:
            self.vacate(entry)
        entry.turn = self.turn
        entry.place, entry.first_due, entry.error = self.last_place, now + wait, error
        self.put(entry, now, wait, lapsed)
        self.totals["pushed"] += 1

    def extend(self, entry: Entry, now: int, lease: int) -> None:
        """The lease now ends `lease` ms from now."""
        self.move(entry, INVISIBLE, now + lease)

    def defer(self, entry: Entry) -> bool:
        """One deferral for each delivery; was it the first?"""
        if entry.deferred:
            return False
        entry.deferred = True
        entry.deferrals += 1
        self.totals["deferred"] += 1
        return True

    def set_visibility(self, entry: Entry, now: int, wait: int) -> None:
        """Hidden, uncounted."""
        self.defer(entry)
        self.come_back(entry, now, wait)
        self.hold(entry)

    def spent(self, entry: Entry, told: dict[str, int], now: int) -> bool:
        """What a delivery has spent, once for each unit; False if it has told all before."""
        self.beside.clear()  # a group may move by that
        granted = entry.granted
        assert granted
        fresh = {unit: units for unit, units in told.items() if unit not in granted.told}
        granted.told |= set(fresh)
        for scope in {None, entry.group} if fresh else ():
            self.gate(scope).spent(
                granted.cost, fresh, granted.number, self.grants, granted.at, now
            )
        return bool(fresh)

    def rate_limited(self, entry: Entry, now: int, wait: int, scope: str) -> None:
        """Given back, uncounted; its group or the queue closes, or only the task waits.

        A probe has found nothing open then, whatever it was that closed.
        """
        assert entry.granted
        self.spent(entry, {unit: 0 for unit in named(entry.granted.cost) if unit}, now)
        live = not entry.deferred and not entry.counted
        self.defer(entry)
        if scope == "task":
            self.come_back(entry, now, wait, lapsed=True)
            self.hold(entry)
            return
        at = entry.group if scope == "group" else None
        gate, others = self.gate(at), self.others_wait(entry, at)
        if live:
            entry.refusals.refused(entry.deliveries, gate.probe == entry.id, others)
        alone = entry.refusals.alone(entry.deliveries)
        if alone >= 5 and not entry.every and entry.rerun is None:
            self.ended(entry, lapsed=True)
            gate.refused(now, wait)
            entry.settled, entry.refusals, entry.error = "rate_limited", Refusals(), "HTTP 429"
            self.bury(entry, now, "always rate limited")
            return
        away = min(max(2 * wait, 1000), 60_000)
        steps_back = alone >= 2 and (others or alone >= 3)
        self.come_back(entry, now, wait + away if steps_back else 0, lapsed=True)
        self.hold(entry)
        gate.refused(now, wait)

    def others_wait(self, entry: Entry, scope: str | None) -> bool:
        """Another task of the group, or of the queue, could run in place of this one."""
        if scope is not None and self.rules(scope).in_order:
            return False
        others = [e for e in self.tasks.values() if e.state == FREE and e is not entry]
        return any(scope is None or e.group == scope for e in others)

    def come_back(self, entry: Entry, now: int, wait: int, lapsed: bool = False) -> None:
        """From wherever it is; who is ready already lines up again."""
        self.lift(entry, wait)
        self.put(entry, now, wait, lapsed)

    def release(self, entry: Entry, now: int, wait: int, priority: Number | None) -> None:
        """Given back, uncounted, in its old place."""
        entry.settled = "release"
        self.lift(entry, wait)
        if priority is not None:
            entry.priority = priority
        self.put(entry, now, wait)
        self.hold(entry)

    def fail(
        self, entry: Entry, now: int, wait: int, error: str | None, priority: Number | None = None
    ) -> None:
        """One attempt is spent, unless the end of the lease has counted it."""
        if priority is not None:
            entry.priority = priority
        self.tell_error(entry, "failed", error or "")
        if not entry.counted:
            entry.attempts, entry.counted = entry.attempts + 1, True
        entry.settled, entry.error = "fail", error
        self.totals["failed"] += 1
        if entry.attempts >= entry.max_attempts and entry.every and entry.rerun is None:
            token = entry.token
            self.come_again(entry, now, error)
            entry.token, entry.settled = token, "fail"
        elif entry.attempts >= entry.max_attempts:
            self.bury(entry, now, "attempts spent")
        else:
            self.come_back(entry, now, wait)
            self.hold(entry)

    def give_up(self, entry: Entry, now: int, reason: str, priority: Number | None) -> None:
        """The holder buries it."""
        if priority is not None:
            entry.priority = priority
        self.tell_error(entry, "dead" if entry.rerun is None else "failed", reason)
        entry.settled = "bury"
        self.bury(entry, now, reason)

    # Changing

    def update(
        self, task_id: str, now: int, priority: Number | None, wait: int | None
    ) -> str | None:
        """Change in place; "missing" or "running" when that cannot be."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.state == DEAD:
            return "missing"
        if entry.state == INVISIBLE and wait is not None:
            return "running"
        if entry.every and wait is not None:
            entry.grid = now + wait
            entry.expires = None if entry.slack is None else entry.grid + entry.slack
        if wait is not None:
            entry.after = []
        self.revise(entry, now, priority, wait)
        return None

    def cancel(self, task_id: str, now: int) -> bool:
        """Remove a live task."""
        entry = self.tasks.get(task_id)
        if entry is None or entry.state == DEAD:
            return False
        self.remove(entry)
        self.settle(now)
        return True

    def purge(self, state: str | None, now: int) -> int:
        """Remove the tasks of one state, or all, with the results that are kept."""
        gone = list(self.tasks.values()) if state is None else self.in_state(state)
        if state is None:
            self.seen.clear()
        if state is None:
            self.results.clear()
        for entry in gone:
            self.remove(entry)
        self.settle(now)
        return len(gone)

    def replay(self, ids: list[str], now: int, spacing: float) -> int:
        """Dead tasks live again, one after the other."""
        done = 0
        for task_id in ids:
            entry = self.tasks.get(task_id)
            if entry is None or entry.state != DEAD:
                continue
            before = re.match(r"task (\S+), which it waited for, died$", entry.reason)
            ahead = self.tasks.get(before[1]) if before else None
            entry.attempts, entry.expires, entry.reason, entry.rerun = 0, None, "", None
            entry.lapses = 0
            if ahead and ahead.state != DEAD:
                entry.after, entry.on_dead = [ahead.id], "bury"
                self.link(task_id)
                self.move(entry, DELAYED, UNTIL_RELEASED)
            else:
                self.put(entry, now, int(done * spacing))
            done += 1
        self.totals["replayed"] += done
        return done
