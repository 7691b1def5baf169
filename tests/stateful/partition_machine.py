"""The machine of a queue with partitions: each partition beside a model of its own.

What belongs to the whole queue is compared over all of them: nothing is lost or doubled, a group
has one partition, its order and its limit hold as in a queue of one, and a pop says that there is
nothing only when there is nothing anywhere. Upkeep is done whenever the clock moves: what is lazy
about it is queue_machine's.
"""

import math
import random
import uuid
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from limit_machine import WINDOWS
from limit_model import Rules
from queue_machine import (
    BACKOFF,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_VISIBILITY,
    GROUPS,
    REFUSED,
    START_MS,
    STATES,
    TOTALS,
    supply,
)
from queue_model import DEAD, Entry, Model
from redis import Redis

from dpq import DPQ, LeaseLostError, Push, Task, TaskNotFoundError
from dpq.protocol.placement import home_of, partition_of, tags_of

STALE = 5
recent = st.integers(0, STALE)
"""A delivery, the newest first: a live one, or for the last index any."""

waits = st.sampled_from([0, 0, 0.25, 1, 5])


class PartitionMachine(RuleBasedStateMachine):
    """DPQ with partitions beside the models. Subclassed with a client by `parted_on`."""

    redis: Redis
    name_prefix: str
    always: ClassVar[dict[str, Any]] = {}  # what is not left to chance: count, ask, limited

    @initialize(
        count=st.sampled_from([2, 3, 3]),
        ask=st.sampled_from([1, 2, 2, 3, 3]),
        order=st.sampled_from(["fifo", "min", "lifo"]),
        seed=st.integers(0, 10_000),
        limited=st.booleans(),
    )
    def create(self, count: int, ask: int, order: Any, seed: int, limited: bool) -> None:
        count, ask = self.always.get("count", count), self.always.get("ask", ask)
        self.now, self.count = START_MS, count
        self.q: DPQ[Any] = DPQ(
            self.redis,
            f"{self.name_prefix}-{uuid.uuid4().hex}",
            default_visibility=DEFAULT_VISIBILITY,
            default_max_attempts=DEFAULT_MAX_ATTEMPTS,
            backoff=BACKOFF,
            partitions=count,
            ask=ask,
            order=order,
            clock=lambda: self.now,
        )
        self.tags = tags_of(self.q.queue_name, count)
        sign = -1 if order == "min" else 1
        self.models = [Model(lifo=order == "lifo", sign=sign) for _ in range(count)]
        self.handed: list[Task[Any]] = []
        self.ids: list[str] = []
        self.newest = [0] * count  # tokens
        self.pushed = self.steps = 0
        chance = random.Random(seed)
        self.supply = supply(chance)
        for scope in ("*", "a", "a b") if self.always.get("limited", limited) else ():
            windows = chance.choice([[], [], *WINDOWS])
            concurrency = chance.choice([1, 1, 2] if not windows else [None, 1])
            self.q.set_limit(windows or None, group=scope, concurrency=concurrency)
            for model in self.models:
                model.limits[scope] = Rules.of(windows, concurrency)
        self.push(9)

    # Helpers

    def model_of(self, task_id: str) -> Model:
        return self.models[partition_of(task_id, self.count)]

    def look(self) -> None:
        """See which groups the last call has closed, in each partition."""
        for tag, model in zip(self.tags, self.models, strict=True):
            found = self.redis.zrange(f"dpq:{{{tag}}}:closed", 0, -1, withscores=True)
            closed = {name.decode(): Fraction(at) for name, at in found}
            model.see_closed(closed, self.now)

    def call(self, operation: Callable[[], Any]) -> Any:
        """What an operation answers, or the class of its refusal."""
        self.look()
        try:
            return operation()
        except REFUSED as refusal:
            return type(refusal)

    def drawn(self) -> dict[str, Any]:
        """The next push; nothing expires here."""
        self.pushed += 1
        drawn = {**next(self.supply), "payload": self.pushed, "expires_in": None}
        drawn |= {"priority": drawn["priority"][1], "every": None, "batch": None, "after": None}
        return drawn | {
            "unique_for": (None, 5, math.inf)[self.pushed % 3] if drawn["key"] else None
        }

    def added(self, push: dict[str, Any], task_id: str) -> None:
        place = partition_of(task_id, self.count)
        home = home_of(push["group"], push["key"], self.count)
        assert home in (None, place), "a group or a key is in another partition"
        model = self.models[place]
        assert model.holder(push["key"]) or model.seen_by(push) or task_id not in self.ids
        assert model.push(task_id, push, self.now, DEFAULT_MAX_ATTEMPTS) == task_id
        if task_id not in self.ids:
            self.ids.append(task_id)

    # Adding

    @rule(most=st.integers(1, 4))
    def push(self, most: int) -> None:
        """One by one, with and without keys, which may be taken."""
        for _ in range(most):
            push = self.drawn()
            answer = self.call(lambda push=push: self.q.push(**push))
            home = home_of(push["group"], push["key"], self.count)
            for model in self.models:
                model.free_seen(self.now)
            refused = home is not None and self.models[home].refusal([push]) is not None
            assert isinstance(answer, type) is refused, answer
            if not refused:
                self.added(push, answer)

    @rule(most=st.integers(1, 8))
    def push_many(self, most: int) -> None:
        pushes = [{**self.drawn(), "key": None, "unique_for": None} for _ in range(most)]
        answer = self.call(lambda: self.q.push_many(Push(**push) for push in pushes))
        for push, task_id in zip(pushes, answer, strict=True):
            self.added(push, task_id)

    # Taking

    def taken_from(self, place: int, most: int) -> list[Entry]:
        lease = round(DEFAULT_VISIBILITY * 1000)
        return self.models[place].pop(most, self.now, lease, lambda entry: False)

    def best_rank(self, model: Model) -> Any:
        """Of what this partition lets run now."""
        heads = [h for group, h in model.heads().items() if model.may_run(group, h, self.now)]
        free = sorted([*model.free(None)[:1], *heads], key=model.rank)
        runs = free and model.paused_until <= self.now and model.may_run(None, free[0], self.now)
        return model.rank(free[0])[0] if runs else None

    @rule(most=st.sampled_from([1, 1, 1, 2, 4]))
    def pop(self, most: int) -> None:
        best = [self.best_rank(model) for model in self.models]
        tasks = self.call(lambda: self.q.pop_many(most))
        assert len(tasks) <= most
        by_place: dict[int, list[Task[Any]]] = {}
        for task in tasks:
            by_place.setdefault(partition_of(task.id, self.count), []).append(task)
        for place, some in by_place.items():
            entries = self.taken_from(place, len(some))
            assert [task.id for task in some] == [entry.id for entry in entries]
            for task, entry in zip(some, entries, strict=True):
                self.leased(place, task, entry)
        if len(tasks) < most:
            assert [self.taken_from(place, 1) for place in range(self.count)] == [[]] * self.count
        if most == 1 and tasks and self.q.ask >= self.count:
            mine = -self.models[0].sign * tasks[0].priority
            assert all(other is None or mine <= other for other in best)

    def leased(self, place: int, task: Task[Any], entry: Entry) -> None:
        assert task.token > self.newest[place], "a token grows with every delivery"
        self.newest[place] = entry.token = task.token
        seen = (task.payload, task.priority, task.group, task.key, task.attempt)
        assert seen == (entry.payload, entry.priority, entry.group, entry.key, entry.attempts + 1)
        seen = (task.deliveries, task.deferrals, round(task.visible_until.timestamp() * 1000))
        assert seen == (entry.deliveries, entry.deferrals, entry.until)
        self.handed.append(task)

    # Ending or going on with a delivery, live or stale

    def act(self, index: int, verb: str, operation: Callable[[Task[Any]], Any]) -> Any:
        """Let a delivery act, a live one but for the last index; its model's entry when it may."""
        live = self.live() if index < STALE else self.handed
        if not live:
            self.pop(1)
            live = self.handed
        if not live:
            return None
        task = live[-1 - index % len(live)]
        model = self.model_of(task.id)
        verdict = model.fence(task.id, task.token, verb)
        answer = self.call(lambda: operation(task))
        assert (answer is LeaseLostError) is (verdict == "lost"), (verdict, answer)
        return model.tasks[task.id] if verdict == "go" else None

    def live(self) -> list[Task[Any]]:
        """The deliveries that nobody has ended."""
        return [t for t in self.handed if self.model_of(t.id).fence(t.id, t.token, "") == "go"]

    @rule(index=recent)
    def ack(self, index: int) -> None:
        held = self.live() if index < STALE else self.handed
        if held:
            task = held[-1 - index % len(held)]
            answer = self.call(lambda: self.q.ack(task))
            expected = self.model_of(task.id).ack(task.id, task.token, self.now)
            assert answer is {"done": True, "gone": False, "lost": LeaseLostError}[expected]

    @rule(indexes=st.lists(recent, max_size=4, unique=True))
    def ack_many(self, indexes: list[int]) -> None:
        """Of several partitions at once: each in its own, and those that are lost by name."""
        held = [self.handed[-1 - i % len(self.handed)] for i in indexes if self.handed]
        tasks = list({task.id: task for task in held}.values())
        again = {i for m in self.models for i, entry in m.tasks.items() if entry.rerun is not None}
        tasks = [task for task in tasks if task.id not in again]
        self.look()
        codes = [self.model_of(t.id).ack(t.id, t.token, self.now) for t in tasks]
        lost = {task.id for task, code in zip(tasks, codes, strict=True) if code == "lost"}
        if lost:
            with pytest.raises(LeaseLostError) as refusal:
                self.q.ack_many(tasks)
            assert set(refusal.value.task_ids) == lost
        else:
            assert self.q.ack_many(tasks) == [code == "done" for code in codes]

    @rule(index=recent, seconds=st.sampled_from([0.25, 5, 30]))
    def extend(self, index: int, seconds: float) -> None:
        entry = self.act(index, "extend", lambda task: self.q.extend(task, seconds))
        if entry:
            self.model_of(entry.id).extend(entry, self.now, round(seconds * 1000))

    @rule(index=recent, seconds=waits)
    def set_visibility(self, index: int, seconds: float) -> None:
        entry = self.act(index, "set_visibility", lambda task: self.q.set_visibility(task, seconds))
        if entry:
            self.model_of(entry.id).set_visibility(entry, self.now, round(seconds * 1000))

    @rule(index=recent, delay=waits)
    def release(self, index: int, delay: float) -> None:
        entry = self.act(index, "release", lambda task: self.q.release(task, delay))
        if entry:
            self.model_of(entry.id).release(entry, self.now, round(delay * 1000), None)

    @rule(index=recent, delay=waits)
    def fail(self, index: int, delay: float) -> None:
        entry = self.act(index, "fail", lambda task: self.q.fail(task, "boom", delay))
        if entry:
            self.model_of(entry.id).fail(entry, self.now, round(delay * 1000), "boom")

    @rule(index=recent)
    def bury(self, index: int) -> None:
        entry = self.act(index, "bury", lambda task: self.q.bury(task, "no good"))
        if entry:
            self.model_of(entry.id).give_up(entry, self.now, "no good", None)

    @rule(
        index=recent,
        seconds=st.sampled_from([0.25, 1, 5]),
        scope=st.sampled_from(["group", "group", "task", "queue"]),
    )
    def rate_limited(self, index: int, seconds: float, scope: Any) -> None:
        """A 429 of the queue, or of a task without a group, closes every partition."""
        entry = self.act(
            index, "rate_limited", lambda task: self.q.rate_limited(task, seconds, scope)
        )
        if not entry:
            return
        own, ms = self.model_of(entry.id), round(seconds * 1000)
        own.rate_limited(entry, self.now, ms, scope)
        if scope == "queue" or (scope == "group" and entry.group is None):
            for model in self.models:
                if model is not own:
                    model.gate(None).refused(self.now, ms, False)
        self.pop(2)

    # Changing

    @precondition(lambda self: self.ids)
    @rule(index=recent, priority=st.integers(-2, 3), delay=st.sampled_from([None, None, 0, 1]))
    def update(self, index: int, priority: int, delay: float | None) -> None:
        task_id = self.ids[-1 - index % len(self.ids)]
        answer = self.call(lambda: self.q.update(task_id, priority=priority, delay=delay))
        wait = None if delay is None else round(delay * 1000)
        refusal = self.model_of(task_id).update(task_id, self.now, priority, wait)
        assert isinstance(answer, type) is (refusal is not None), (answer, refusal)

    @precondition(lambda self: self.ids)
    @rule(index=recent)
    def cancel(self, index: int) -> None:
        task_id = self.ids[-1 - index % len(self.ids)]
        answer = self.call(lambda: self.q.cancel(task_id))
        found = self.model_of(task_id).cancel(task_id, self.now)
        assert answer is (None if found else TaskNotFoundError)

    @rule(group=st.sampled_from(GROUPS), seconds=st.sampled_from([0, 0, 1, 5]))
    def delay_group(self, group: str, seconds: float) -> None:
        self.call(lambda: self.q.delay_group(group, seconds))
        home = home_of(group, None, self.count)
        self.models[home or 0].gate(group).close_by_hand(self.now, round(seconds * 1000))

    @rule(seconds=st.sampled_from([None, 0.25, 5]))
    def pause_or_resume(self, seconds: float | None) -> None:
        paused = self.models[0].paused_until > self.now
        self.call(self.q.resume if paused else lambda: self.q.pause(seconds))
        until = float("inf") if seconds is None else self.now + round(seconds * 1000)
        for model in self.models:
            if paused:
                model.resume()
            else:
                model.paused_until = until

    @rule(state=st.sampled_from(STATES))
    def purge(self, state: str) -> None:
        answer = self.call(lambda: self.q.purge(state))
        assert answer == sum(model.purge(state, self.now) for model in self.models)

    @rule(some=st.booleans())
    def replay(self, some: bool) -> None:
        dead = [entry.id for model in self.models for entry in model.in_state(DEAD)]
        chosen = dead[::2] if some else dead
        assert self.call(lambda: self.q.dead.replay(chosen if some else None)) == len(chosen)
        for model in self.models:
            mine = [task_id for task_id in chosen if self.model_of(task_id) is model]
            assert model.replay(mine, self.now, 0) == len(mine)

    @rule(step=st.sampled_from([1, 250, 250, 1000, 5000, 30_000]))
    def advance(self, step: int) -> None:
        """Time passes, and all upkeep that is due is done."""
        self.look()
        self.now += step
        for _ in range(100):
            if self.q.promote() == 0:
                break
        for model in self.models:
            model.upkeep(self.now)

    # After every step

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "q"):
            return
        self.look()
        self.steps += 1
        if self.steps % 3 == 0:  # it asks each partition thirteen times
            problems = self.q.check()
            assert not problems, problems
        stats = self.q.stats()
        for state in STATES:
            assert getattr(stats, state) == sum(model.counts()[state] for model in self.models)
        for name in TOTALS:
            assert getattr(stats, name) == sum(model.totals[name] for model in self.models), name
        for state in ("ready", STATES[1 + self.steps % 4]):
            self.peek(state)
        waits = [model.next_event(self.now) for model in self.models]
        soonest = min((wait for wait in waits if wait is not None), default=None)
        assert self.q.next_event() == (None if soonest is None else soonest / 1000)

    def peek(self, state: str) -> None:
        """Each task is shown once, those of a partition in their order there."""
        shown = [task.id for task in self.q.peek(1000, state)]
        for place, model in enumerate(self.models):
            mine = [task_id for task_id in shown if partition_of(task_id, self.count) == place]
            assert mine == [entry.id for entry in model.in_state(state)], (place, state)

    def teardown(self) -> None:
        if hasattr(self, "q"):
            assert self.q.check() == []
            self.q.drop()
            self.q.close()
            assert self.redis.keys(f"dpq:{{{self.q.queue_name}*") == []


def parted_on(redis: Redis, name_prefix: str, **always: Any) -> type[PartitionMachine]:
    """The machine on one server, in queues whose names begin with the prefix."""
    given = {"redis": redis, "name_prefix": name_prefix, "always": always}
    return type("Machine", (PartitionMachine,), given)
