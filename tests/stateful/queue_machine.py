"""The machine: hypothesis calls every operation of a queue on a real server, beside the model.

After each step `check()` finds nothing and every count and total is the model's. No upkeep is done
to make them agree: what the server has not moved yet, the model has not moved either.
"""

import json
import math
import random
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from limit_model import named
from queue_model import DEAD, DELAYED, INVISIBLE, UNTIL_RELEASED, Entry, Model
from redis import Redis

from dpq import (
    DPQ,
    Backoff,
    BatchFinishedError,
    ConfigurationError,
    DuplicateTaskError,
    LeaseLostError,
    Push,
    QueueFullError,
    Task,
    TaskNotFoundError,
)
from dpq.script.keys import key_of
from dpq.types import DeadTask

BATCH_CHANGED = r'("batch":.*,"text":"(?:\d+ ){4}\w \d+) \d+'
START_MS = 1_700_000_000_000
GROUPS = ("a", "b", "a b", "é")
DEFAULT_MAX_ATTEMPTS = 2
DEFAULT_VISIBILITY = 5.0
BACKOFF = Backoff(base=1, factor=2, cap=4, jitter=0)
STATES = ("ready", "delayed", "invisible", "waiting", "dead")
TOTALS = ("pushed", "popped", "acked", "failed", "deferred", "expired_leases", "buried", "replayed")
GROUP_OF_KEY = {"k": None, "l": "a", "m": "b"}
REFUSED = (
    *(BatchFinishedError, ConfigurationError, DuplicateTaskError),
    *(LeaseLostError, QueueFullError, TaskNotFoundError),
)

small = st.integers(-2, 3)
WILD = [
    *(2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, -(2**53), -(2**53) - 1),
    *(2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 1_700_000_000_000_000_001),
    *(0.5, -0.5, 1.5, -0.0, 0.0, 1.0, 2.0**53, 2.0**63, 1e300, -1e300, 5e-324, -5e-324),
]
TAME = [-2, -1, 0, 1, 2, 3, 0.5, -0.25, -0.0]  # exact in doubles, with aging too
NEIGHBOURS = [2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, -(2**53) - 1, -(2**53)]
SUPPLIES = [[0, 0, 0, 1], NEIGHBOURS, WILD]  # places decide, residuals do, or all there is
wild = st.sampled_from(WILD)
tame = st.sampled_from(TAME)
changes = st.one_of(st.none(), st.tuples(tame, small | wild))
"""No new priority, or what `priority` makes one of."""
waits = st.sampled_from([0, 0, 0, 0.25, 1, 5, 30])
leases = st.sampled_from([0.25, 1, 5, 30])
recent = st.integers(0, 5)
delivery = st.sampled_from([-3, -2, -1, -1, -1, -1, 0, 0, 0, 1, 2, 3, 5])
rarely = st.sampled_from([False] * 7 + [True])
WEIGHTED: dict[str, list[Any]] = {
    "delay": [0, 0, 0, 0.25, 1, 5, 30],
    "group": [None, None, "a", "a", *GROUPS],  # often several in one
    "key": [None, None, None, "k", "l", "m"],
    "on_duplicate": ["keep", "update", "raise_priority", "rerun", "error"],
    "max_attempts": [None, None, 1, 3, math.inf],
    "max_lapses": [None, None, None, 1, 2],
    "expires_in": [None, None, None, None, 0.25, 5, 30],
    "cost": [1, 1, 1, 1, 2, 3, {"t": 1}, {"t": 7}, {"": 2, "t": 3, "u": 1}, {"": 0, "t": 2}],
    "visibility": [None, None, None, None, None, None, 0.25, 30],
    "time_limit": [None, None, None, 7.5],
    "batch": [None, None, None, "b", "c"],
    "after": [None, None, None, None, [0], [1], [0, 2], [3, 7, 3]],  # of the newest tasks
    "on_dead": ["bury", "bury", "run"],
    "backoff": [None, None, None, (3,), (0.25, 5)],
}
BOUNDS: list[dict[str, Any]] = [
    *({}, {}, {"max_tasks": 6}, {"max_waiting": 2}),
    {"max_tasks": 9, "max_waiting": 2, "when_full": "drop_worst"},
]
EVERY = (None, 5, None, 0.25, 30, None, 5)
"""The periods of the tasks of a machine whose tasks come back, one after the other."""

UNIQUE_FOR = (None, 5, None, math.inf)
"""For how long keys stay taken after an ack, one after the other."""

DEBOUNCE_MAX = (5, None, 6, 5)
"""The bounds of pushes with debounce, one after the other."""

push_arguments = st.fixed_dictionaries(
    {
        "priority": st.tuples(tame, st.one_of(small, small, wild)),
        **{name: st.sampled_from(values) for name, values in WEIGHTED.items()},
    }
)


def supply(chance: random.Random) -> Iterator[dict[str, Any]]:
    """Pushes without end, which hypothesis need not draw."""
    priorities = chance.choice(SUPPLIES)
    while True:
        drawn = {name: chance.choice(values) for name, values in WEIGHTED.items()}
        yield {"priority": (chance.choice(TAME), chance.choice(priorities)), **drawn}


class Twice:
    """A client that loses replies on demand: a call is then sent twice, and the second answers."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.on = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._redis, name)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        if self.on:
            self._redis.execute_command(*args, **options)
        return self._redis.execute_command(*args, **options)


class QueueMachine(RuleBasedStateMachine):
    """DPQ beside the model: all but limits, which `limit_machine` adds."""

    redis: Redis
    name_prefix: str
    always: ClassVar[dict[str, Any]] = {}  # what is not left to chance: kind, limited, recurring

    @initialize(
        kind=st.sampled_from(
            [
                *({}, {}, {"order": "lifo"}, {"aging": 0.5}, {"aging": 2.0}, {"order": "fifo"}),
                *({"fairness": "round_robin"}, {"fairness": "round_robin"}),
                *({"fairness": "units"}, {"order": "min"}),
                *({"order": "min", "aging": 0.5}, {"order": "min", "fairness": "round_robin"}),
            ]
        ),
        caps=st.sampled_from([{}, {}, {"dead_max_tasks": 2}, {"dead_max_age": 10}]),
        bounds=st.sampled_from(BOUNDS),
        seed=st.integers(0, 10_000),
        limited=st.booleans(),
    )
    def create(
        self,
        kind: dict[str, Any],
        caps: dict[str, Any],
        bounds: dict[str, Any],
        seed: int,
        limited: bool,
    ) -> None:
        kind, limited = self.always.get("kind", kind), self.always.get("limited", limited)
        self.now = START_MS
        self.client = Twice(self.redis)
        self.q: DPQ[Any] = DPQ(
            self.client,
            f"{self.name_prefix}-{uuid.uuid4().hex}",
            default_visibility=DEFAULT_VISIBILITY,
            default_max_attempts=DEFAULT_MAX_ATTEMPTS,
            backoff=BACKOFF,
            clock=lambda: self.now,
            **kind,
            **caps,
        )
        self.eyes: DPQ[Any] = DPQ(self.redis, self.q.queue_name, clock=lambda: self.now)
        self.has_looked = False
        self.model = Model(
            lifo=kind.get("order") == "lifo",
            sign=-1 if kind.get("order") == "min" else 1,
            aging=kind.get("aging", 0),
            in_turn="fairness" in kind,
            by_share=kind.get("fairness") == "units",
            dead_max_tasks=caps.get("dead_max_tasks", 100_000),
            dead_max_age=caps.get("dead_max_age", 90 * 86_400) * 1000,
            max_tasks=bounds.get("max_tasks"),
            max_waiting=bounds.get("max_waiting"),
            drops="when_full" in bounds,
        )
        if bounds:
            self.q.admin.set_bounds(**bounds)
        self.handed: list[Task[Any]] = []  # every delivery there ever was, stale ones too
        self.ids: list[str] = []  # every id there ever was
        self.newest_token = 0
        self.limited = limited
        self.steps = 0
        self.pushed = 0
        self.supply = supply(random.Random(seed))
        self.begin(random.Random(seed))
        for _ in range(6):
            self.push(next(self.supply), False, False)

    def begin(self, chance: random.Random) -> None:
        """What is set before the first push; nothing here."""

    # Helpers

    def call(self, twice: bool, operation: Callable[[], Any]) -> Any:
        """What an operation answers, or the class of its refusal."""
        self.look()
        return self.call_unseen(twice, operation)

    def call_unseen(self, twice: bool, operation: Callable[[], Any]) -> Any:
        """The same, when the model is ahead of the server already."""
        self.has_looked = False
        self.client.on = twice
        try:
            return operation()
        except REFUSED as refusal:
            self.refusal: Any = refusal
            return type(refusal)
        finally:
            self.client.on = False

    def look(self) -> None:
        """See what the last call has made of groups that may not run, and of turns."""
        if self.has_looked:
            return
        self.has_looked = True
        key = key_of(self.q.queue_name, "closed")
        found = self.redis.zrange(key, 0, -1, withscores=True)
        self.model.see_closed({name.decode(): Fraction(at) for name, at in found}, self.now)
        if self.model.in_turn:
            see = self.model.see_shares if self.model.by_share else self.model.see_ready
            see([task.id for task in self.eyes.peek(100)])
        self.model.turn += 1

    def priority(self, drawn: Any) -> Any:
        """A drawn pair (tame, any) -> what this queue can order exactly, and often equal in one
        that takes turns; None stays None."""
        if drawn is None:
            return None
        if self.model.in_turn:
            return int(drawn[0] >= 1)
        return drawn[0] if self.model.aging else drawn[1]

    def stock_up(self) -> None:
        """Hypothesis turns some operations off in each run; the others must still find work."""
        if sum(entry.state != DEAD for entry in self.model.tasks.values()) < 4:
            self.push(next(self.supply), False, False)

    def pick_id(self, index: int) -> str:
        return self.ids[-1 - index % len(self.ids)]

    def see(self, task: Task[Any], entry: Entry, state: str = "") -> None:
        """A task that the queue shows is the model's, in every field."""
        state = state or self.model.state_of(entry)
        until = datetime.fromtimestamp(entry.until / 1000, UTC)
        expected = {
            "id": entry.id,
            "payload": entry.payload,
            "priority": entry.priority,
            "group": entry.group,
            "key": entry.key,
            "attempt": entry.attempts + 1,
            "max_attempts": None if entry.max_attempts == math.inf else entry.max_attempts,
            "deliveries": entry.deliveries,
            "deferrals": entry.deferrals,
            "enqueued_at": datetime.fromtimestamp(entry.enqueued / 1000, UTC),
            "visible_until": until
            if state in (DELAYED, INVISIBLE) and entry.until < UNTIL_RELEASED
            else None,
            "last_error": entry.error,
            "state": state,
            "token": entry.token,
            "cost": named(entry.cost)[""],
            "costs": {unit: n for unit, n in named(entry.cost).items() if unit} or None,
            "every": entry.every and entry.every / 1000,
            "cron": None,
            "scheduled_at": None,
            "visibility": entry.visibility,
            "time_limit": entry.time_limit,
            "member": None,
            "pinned": None,
            "batch": entry.batch,
            "unique_for": entry.unique_for,
            "after": self.model.waits(entry) or None,
            "backoff": entry.backoff,
            "trace": None,
            "max_lapses": entry.max_lapses,
            "lapses": entry.lapses,
        }
        if entry.every:
            expected["scheduled_at"] = datetime.fromtimestamp(entry.first_due / 1000, UTC)
        if state == DEAD:
            expected |= {"reason": entry.reason, "attempts": entry.attempts, "died_at": until}
        assert isinstance(task, DeadTask) is (state == DEAD)
        assert task.model_dump(exclude={"progress"}) == expected  # see the rules `result`, `get`
        assert type(task.priority) is type(entry.priority)

    def payload(self) -> int | str:
        """Each third is too long to stand in its record."""
        return self.pushed if self.pushed % 3 else f"{self.pushed:600}"

    def take(self, tasks: list[Task[Any]], entries: list[Entry]) -> None:
        """These tasks, and no others, were popped in this order."""
        assert [task.id for task in tasks] == [entry.id for entry in entries]
        for task, entry in zip(tasks, entries, strict=True):
            assert task.token > self.newest_token, "a token grows with every delivery"
            self.newest_token = entry.token = task.token
            if entry.granted:
                entry.granted.at = Fraction(task.token / 1000)  # as the scripts compute it
            self.see(task, entry)
            self.handed.append(task)

    # Adding

    def arguments(self, drawn: dict[str, Any], strange_group: bool) -> dict[str, Any]:
        self.pushed += 1
        push = {**drawn, "priority": self.priority(drawn["priority"]), "payload": self.payload()}
        push["every"] = EVERY[self.pushed % len(EVERY)] if self.always.get("recurring") else None
        if push["batch"]:  # rarely one that may be finished
            late = self.pushed % 7 == 0
            push["batch"] = None if push["every"] else self.batch_name(push["batch"], late)
        taken = push["key"] and push["on_duplicate"] in ("update", "rerun")
        if push["every"] or taken or not self.ids:
            push["after"] = None
        push["after"] = push["after"] and [self.pick_id(index) for index in push["after"]]
        if push["key"] and not strange_group:
            push["group"] = GROUP_OF_KEY[push["key"]]
        keeps = push["key"] and not push["every"]
        push["unique_for"] = UNIQUE_FOR[self.pushed % len(UNIQUE_FOR)] if keeps else None
        if keeps and self.pushed % 3 == 0 and not push["after"]:
            push |= {"delay": 5, "debounce_max": DEBOUNCE_MAX[self.pushed % len(DEBOUNCE_MAX)]}
            push |= {"on_duplicate": "rerun", "unique_for": None}
        return push

    def said(self, push: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a push; for the model a debounce is a `rerun` with a delay."""
        if "debounce_max" not in push:
            return push
        return {**push, "delay": 0, "on_duplicate": "keep", "debounce": push["delay"]}

    def batch_name(self, letter: str, late: bool = False) -> str:
        """The batch of a letter that is not finished, or the one before it."""
        over = sum(name[0] == letter and b.finished for name, b in self.model.batches.items())
        return f"{letter}{max(over - late, 0)}"

    def added(self, push: dict[str, Any], task_id: str) -> None:
        known = self.model.holder(push["key"]) or self.model.seen_by(push)
        assert known or task_id not in self.ids
        assert self.model.push(task_id, push, self.now, DEFAULT_MAX_ATTEMPTS) == task_id
        if task_id not in self.ids:
            self.ids.append(task_id)

    def refused(self, pushes: list[dict[str, Any]], answer: Any) -> bool:
        expected = {
            "duplicate": DuplicateTaskError,
            "group": ConfigurationError,
            "batch": BatchFinishedError,
            "after": ConfigurationError,
            "full": QueueFullError,
            None: None,
        }
        self.model.free_seen(self.now)
        refusal = expected[self.model.refusal(pushes)]
        if refusal is None:
            assert not isinstance(answer, type), answer
        else:
            assert answer is refusal, (answer, refusal, getattr(self, "refusal", None))
        return refusal is not None

    @rule(drawn=push_arguments, strange_group=rarely, twice=rarely)
    def push(self, drawn: dict[str, Any], strange_group: bool, twice: bool) -> None:
        push = self.arguments(drawn, strange_group)
        twice = twice and push["on_duplicate"] != "error"  # sent again, it may meet itself
        twice = twice and not self.model.drops  # or find that it was dropped, and forgotten
        known = {*self.ids}
        answer = self.call(twice, lambda: self.q.push(**self.said(push)))
        if not self.refused([push], answer):
            self.added(push, answer)
            self.link([answer], known)
            self.drop_worst([answer], known)
            if twice and push["key"]:  # the second one met the task of the first
                self.added(push, answer)
            self.model.settle(self.now)

    @rule(
        drawn=push_arguments,
        mode=st.sampled_from(["update", "raise_priority", "rerun", "rerun"]),
        running=st.booleans(),
        finish=st.booleans(),
        twice=rarely,
    )
    def push_again(
        self, drawn: dict[str, Any], mode: str, running: bool, finish: bool, twice: bool
    ) -> None:
        """Push with a key that is taken, if need be by a task that runs now, and let it end."""
        if running:
            self.pop_many(2, None, False)
            self.push(next(self.supply), False, False)
        holders = [entry for entry in self.model.tasks.values() if entry.key]
        holders.sort(key=lambda entry: (entry.state == INVISIBLE) is running)
        if holders:
            drawn = {**drawn, "priority": (0, 0)} if finish else drawn
            self.push({**drawn, "key": holders[-1].key, "on_duplicate": mode}, False, twice)
            live = [task for task in self.handed if task.token == holders[-1].token]
            if finish and live and live[-1].token:
                self.settle(live[-1], False)

    @rule(drawn=st.lists(push_arguments, max_size=6), strange_group=rarely, twice=rarely)
    def push_many(self, drawn: list[dict[str, Any]], strange_group: bool, twice: bool) -> None:
        pushes = [self.arguments(one, strange_group) for one in drawn]
        for number, push in enumerate(pushes):  # some wait for earlier tasks of the same call
            if push["after"] and number % 2 and not pushes[number - 1]["key"]:
                push["after"] = [number - 1, *push["after"]]
        twice, known = twice and not self.model.drops, {*self.ids}
        answer = self.call(
            twice, lambda: self.q.push_many(Push(**self.said(push)) for push in pushes)
        )
        if not self.refused(pushes, answer):
            for push, task_id in zip(pushes, answer, strict=True):
                ahead = push["after"] or ()
                ahead = [answer[id_] if isinstance(id_, int) else id_ for id_ in ahead]
                self.added({**push, "after": ahead}, task_id)
            self.link(answer, known)
            self.drop_worst(answer, known)
            self.model.settle(self.now)

    @rule(
        letter=st.sampled_from("bc"),
        drawn=st.one_of(st.none(), push_arguments),
        late=rarely,
        twice=rarely,
    )
    def seal_batch(
        self, letter: str, drawn: dict[str, Any] | None, late: bool, twice: bool
    ) -> None:
        """Seal a batch, with or without a task at its end; it may be sealed or finished already."""
        name, push = self.batch_name(letter, late), {}
        if drawn is not None:
            push = self.arguments({**drawn, "key": None}, True)
            push |= {"every": None, "batch": None, "after": None}
        end = Push(**push) if push else None
        state = self.call(twice, lambda: self.q.seal_batch(name, on_finish=end))
        if isinstance(state, type):  # the task at its end finds no room
            assert state is QueueFullError
            assert push
            assert self.model.max_tasks or self.model.max_waiting
            return
        batch = self.model.batches.get(name)
        new = state.callback if push and (batch is None or batch.callback is None) else None
        if new:
            self.ids.append(new)
        self.model.seal(name, new, push, self.now, DEFAULT_MAX_ATTEMPTS)

    @invariant()
    def batches_count(self) -> None:
        """Each batch counts what the model does."""
        if not hasattr(self, "eyes"):
            return
        found = {b.name: b for b in self.eyes.admin.batches()}
        assert found.keys() == self.model.batches.keys()
        for name, batch in self.model.batches.items():
            seen = found[name]
            assert (seen.left, seen.done, seen.dead, seen.removed) == self.model.batch_counts(name)
            assert (seen.sealed, seen.finished) == (batch.sealed, batch.finished), name
            assert seen.callback == batch.callback

    def link(self, answer: list[str], known: set[str]) -> None:
        for task_id in dict.fromkeys(answer):
            if task_id not in known:
                self.model.link(task_id)

    def drop_worst(self, answer: list[str], known: set[str]) -> None:
        if self.model.drops:
            fresh = dict.fromkeys(task_id for task_id in answer if task_id not in known)
            self.model.drop_worst(list(fresh), self.now)

    # Taking

    def pop_from_model(self, most: int, visibility: float | None) -> list[Entry]:
        seconds = DEFAULT_VISIBILITY if visibility is None else visibility
        return self.model.pop(most, self.now, round(seconds * 1000), self.is_buried)

    def is_buried(self, entry: Entry) -> bool:
        """The server has put this task into the dead letters (and may have dropped it there)."""
        try:
            return self.eyes.get(entry.id).state == DEAD
        except TaskNotFoundError:
            return True

    def before_pop(self) -> None:
        """There is work; and turns are seen, which upkeep inside of the pop would give unseen."""
        self.stock_up()
        if self.model.in_turn:
            self.promote(False)

    def lose(self, entries: list[Entry]) -> None:
        """The reply of this pop was lost: the leases are there, and nobody knows."""
        self.take([self.q.get(entry.id) for entry in entries], entries)

    @rule(visibility=st.one_of(st.none(), leases), twice=rarely)
    def pop(self, visibility: float | None, twice: bool) -> None:
        self.before_pop()
        twice = twice and not self.model.by_share  # the model does not know who comes second
        popped = self.call(twice, lambda: self.q.pop(visibility=visibility))
        if twice:
            self.lose(self.pop_from_model(1, visibility))
        self.take([popped.task] if popped.task else [], self.pop_from_model(1, visibility))

    @rule(most=st.integers(1, 4), visibility=st.one_of(st.none(), leases), twice=rarely)
    def pop_many(self, most: int, visibility: float | None, twice: bool) -> None:
        self.before_pop()
        most, twice = (1, False) if self.model.by_share else (most, twice)
        tasks = self.call(twice, lambda: self.q.pop_many(most, visibility=visibility))
        if twice:
            self.lose(self.pop_from_model(most, visibility))
        self.take(tasks, self.pop_from_model(most, visibility))

    @rule(index=recent, force=st.booleans(), visibility=st.one_of(st.none(), leases), twice=rarely)
    def pop_by_id(self, index: int, force: bool, visibility: float | None, twice: bool) -> None:
        self.before_pop()
        wanted = self.pick_id(index)
        ms = round((DEFAULT_VISIBILITY if visibility is None else visibility) * 1000)
        popped = self.call(twice, lambda: self.q.pop(visibility=visibility, id=wanted, force=force))
        if twice:
            self.lose(self.model.pop_task(wanted, force, self.now, ms))
        entries = self.model.pop_task(wanted, force, self.now, ms)
        self.model.charged_closed |= {each.group for each in entries if each.group}
        self.take([popped.task] if popped.task else [], entries)

    # Ending or going on with a delivery, live or stale

    def hold(self, index: int) -> Task[Any] | None:
        """A delivery, the newest first; -1 pops one for the purpose, -2 lets it run out, too, and
        -3 lets others have it then."""
        if index < 0:
            self.pop(None, False)
        if index <= -2:
            self.advance(round(DEFAULT_VISIBILITY * 1000))
            self.promote(False)
        if not self.handed:
            return None
        task = self.handed[-1 - max(index, 0) % len(self.handed)]
        if index == -3:
            self.pop_many(4, None, False)
        return task

    @rule(index=delivery, twice=rarely, keep=st.sampled_from([None, None, None, 1, 20, 3600]))
    def ack(self, index: int, twice: bool, keep: int | None = None) -> None:
        task = self.hold(index)
        if task is not None:
            self.settle(task, twice, keep)

    def settle(self, task: Task[Any], twice: bool, keep: int | None = None) -> None:
        result = {"result": self.steps, "keep": keep} if keep else {}
        answer = self.call(twice, lambda: self.q.ack(task, **result))
        expected = self.model.ack(task.id, task.token, self.now)
        if keep and expected == "done":
            self.model.results.append((task.id, self.steps, self.now + 1000 * keep))
        if twice:
            expected = self.model.ack(task.id, task.token, self.now)
        self.model.settle(self.now)
        assert answer is {"done": True, "gone": False, "lost": LeaseLostError}[expected]

    @rule(indexes=st.lists(recent, max_size=4, unique=True))
    def ack_many(self, indexes: list[int]) -> None:
        held = filter(None, map(self.hold, indexes))
        chosen = {task.id: task for task in held}  # of one task one delivery
        wanted_again: list[Task[Any]] = []
        for task in list(chosen.values()):
            entry = self.model.tasks.get(task.id)
            again = entry and (entry.rerun is not None or entry.every)
            if again and entry.token == task.token:
                wanted_again.append(task)
        for task in wanted_again[1:]:  # the order among several new places is nobody's promise
            del chosen[task.id]
        tasks = list(chosen.values())
        self.look()
        codes = {task.id: self.model.ack(task.id, task.token, self.now) for task in tasks}
        self.model.settle(self.now)
        lost = tuple(task_id for task_id, code in codes.items() if code == "lost")
        answer = self.call_unseen(False, lambda: self.q.ack_many(tasks))
        if lost:
            assert answer is LeaseLostError
            assert self.refusal.task_ids == lost
        else:
            assert answer == [code == "done" for code in codes.values()]

    @rule(index=delivery, twice=rarely)
    def progress(self, index: int, twice: bool) -> None:
        """Only the live delivery tells of it, and get shows it while that runs."""
        told = self.steps
        entry = self.act(index, "progress", twice, lambda task: self.q.progress(task, told))
        if entry:
            self.model.progress[entry.id] = entry.token, told

    @rule(index=recent)
    def result(self, index: int) -> None:
        """Of each task there ever was: dead, done, live or unknown, with what belongs to it."""
        if not self.ids:
            return
        task_id = self.pick_id(index)
        outcome = self.eyes._session.run(self.eyes._operations.outcome, task_id)
        state, expected = self.model.outcome(task_id, self.now)
        assert outcome.state == state
        if state == "live":
            progress = self.eyes.get(task_id).progress
            assert (progress and progress.done) == expected
        elif state:
            assert (outcome.result.value if outcome.result else outcome.reason) == expected

    def act(self, index: int, verb: str, twice: bool, operation: Callable[[Task[Any]], Any]) -> Any:
        """Let a delivery act; the model's entry when it may, else None."""
        task = self.hold(index)
        if task is None:
            return None
        verdict = self.model.fence(task.id, task.token, verb)
        answer = self.call(twice, lambda: operation(task))
        assert (answer is LeaseLostError) is (verdict == "lost"), (verdict, answer)
        return self.model.tasks[task.id] if verdict == "go" else None

    @rule(index=delivery, seconds=leases, twice=rarely)
    def extend(self, index: int, seconds: float, twice: bool) -> None:
        ends: list[datetime] = []
        entry = self.act(
            index, "extend", twice, lambda task: ends.append(self.q.extend(task, seconds))
        )
        if entry:
            self.model.extend(entry, self.now, round(seconds * 1000))
            assert ends == [datetime.fromtimestamp(entry.until / 1000, UTC)]

    @rule(index=delivery, seconds=waits, twice=rarely)
    def set_visibility(self, index: int, seconds: float, twice: bool) -> None:
        entry = self.act(
            index, "set_visibility", twice, lambda task: self.q.set_visibility(task, seconds)
        )
        if entry:
            self.model.set_visibility(entry, self.now, round(seconds * 1000))

    @rule(index=delivery, delay=waits, drawn=changes, twice=rarely)
    def release(self, index: int, delay: float, drawn: Any, twice: bool) -> None:
        priority = self.priority(drawn)
        entry = self.act(
            index, "release", twice, lambda task: self.q.release(task, delay, priority=priority)
        )
        if entry:
            self.model.release(entry, self.now, round(delay * 1000), priority)

    @rule(
        index=delivery,
        error=st.sampled_from([None, "boom", ValueError("a\tb")]),
        delay=st.one_of(st.none(), waits),
        drawn=changes,
        twice=rarely,
    )
    def fail(self, index: int, error: Any, delay: float | None, drawn: Any, twice: bool) -> None:
        failing: list[Task[Any]] = []
        priority = self.priority(drawn)
        twice = twice and self.model.dead_max_tasks > 2  # the cap may drop the newly dead

        def fail(task: Task[Any]) -> None:
            failing.append(task)
            self.q.fail(task, error, delay, priority=priority)

        entry = self.act(index, "fail", twice, fail)
        if entry:
            n, own = failing[0].attempt, failing[0].backoff
            wait = own[min(n, len(own)) - 1] if own else min(4, 2 ** (n - 1))
            wait = wait if delay is None else delay
            kept = None if error is None else str(error).replace("\t", " ")
            self.model.fail(entry, self.now, round(wait * 1000), kept, priority)

    @rule(index=delivery, drawn=changes, twice=rarely)
    def bury(self, index: int, drawn: Any, twice: bool) -> None:
        priority = self.priority(drawn)
        twice = twice and self.model.dead_max_tasks > 2  # the cap may drop the newly dead
        entry = self.act(
            index, "bury", twice, lambda task: self.q.bury(task, "no good", priority=priority)
        )
        if entry:
            self.model.give_up(entry, self.now, "no good", priority)

    # Looking and changing

    @precondition(lambda self: self.ids)
    @rule(index=recent)
    def get(self, index: int) -> None:
        task_id = self.pick_id(index)
        answer = self.call(False, lambda: self.q.get(task_id))
        entry = self.model.tasks.get(task_id)
        if entry:
            self.see(answer, entry)
            events = self.q.admin.events(limit=1000, task_id=task_id)
            told = [(each.kind, each.attempt, each.detail) for each in events if each.attempt]
            assert told == entry.errors
            self.handed.append(answer)  # whoever looks at a task may act for its live delivery
        else:
            assert answer is TaskNotFoundError

    @rule(state=st.sampled_from(STATES), n=st.sampled_from([0, 1, 100]))
    def peek(self, state: str, n: int) -> None:
        entries = self.model.in_state(state)[:n]
        tasks = self.eyes.peek(n, state)
        assert [task.id for task in tasks] == [entry.id for entry in entries]
        for task, entry in zip(tasks, entries, strict=True):
            self.see(task, entry, state)

    @precondition(lambda self: self.ids)
    @rule(index=recent, drawn=changes, delay=st.one_of(st.none(), waits), twice=rarely)
    def update(self, index: int, drawn: Any, delay: float | None, twice: bool) -> None:
        task_id = self.pick_id(index)
        priority = self.priority(drawn)
        answer = self.call(twice, lambda: self.q.update(task_id, priority=priority, delay=delay))
        if priority is None and delay is None:
            assert answer is ConfigurationError
            return
        wait = None if delay is None else round(delay * 1000)
        refusal = self.model.update(task_id, self.now, priority, wait)
        expected = {"missing": TaskNotFoundError, "running": ConfigurationError, None: None}
        assert answer is expected[refusal]

    @precondition(lambda self: self.ids)
    @rule(index=recent, running=st.booleans(), twice=rarely)
    def cancel(self, index: int, running: bool, twice: bool) -> None:
        task_id = self.pick_id(index)
        answer = self.call(twice, lambda: self.q.cancel(task_id, running=running))
        entry = self.model.tasks.get(task_id)
        if entry and entry.state == INVISIBLE and not running:
            assert answer is ConfigurationError
            return
        found = self.model.cancel(task_id, self.now)
        assert answer is (None if found and not twice else TaskNotFoundError)

    # The whole queue

    @rule(seconds=st.sampled_from([None, 0.25, 5]), twice=rarely)
    def pause_or_resume(self, seconds: float | None, twice: bool) -> None:
        if self.model.paused_until > self.now:
            self.call(twice, self.q.resume)
            self.model.resume()
        else:
            self.call(twice, lambda: self.q.pause(seconds))
            self.model.paused_until = (
                float("inf") if seconds is None else self.now + round(seconds * 1000)
            )

    @rule(state=st.sampled_from([*STATES, *STATES, None]))
    def purge(self, state: str | None) -> None:
        answer = self.call(False, lambda: self.q.purge(state))
        assert answer == self.model.purge(state, self.now)

    @rule(
        index=st.integers(0, 3),
        again=st.booleans(),
        seconds=st.sampled_from([0, 1, 5, 30]),
        twice=rarely,
    )
    def delay_group(self, index: int, again: bool, seconds: float, twice: bool) -> None:
        """Close or open a group, at best one that is closed already."""
        closed = [group for group in GROUPS if self.model.gate(group).reason]
        groups = closed if again and closed else GROUPS
        self.close_group(groups[index % len(groups)], seconds, twice)

    def close_group(self, group: str, seconds: float, twice: bool) -> None:
        self.call(twice, lambda: self.q.delay_group(group, seconds))
        self.model.gate(group).close_by_hand(self.now, round(seconds * 1000))
        if seconds == 0:
            self.pop_many(3, None, False)

    @rule(twice=rarely)
    def promote(self, twice: bool) -> None:
        seen_keys = self.eyes.stats().seen_keys
        answer = self.call(twice, self.q.promote)
        forgotten = seen_keys - self.eyes.stats().seen_keys
        moved = self.model.upkeep(self.now)
        dropped = self.model.trim(self.now, 200)
        expected = 0 if twice else max(moved, dropped, forgotten)
        assert answer == expected, (answer, moved, dropped, forgotten)

    @rule()
    def next_event(self) -> None:
        wait = self.model.next_event(self.now)
        assert self.q.next_event() == (None if wait is None else wait / 1000)

    @rule(step=st.sampled_from([1, 250, 250, 1000, 5000, 30_000]))
    def advance(self, step: int) -> None:
        self.look()
        self.now += max(step, 250) if self.model.aging else step  # aging in doubles: quarters

    # Dead letters

    @rule(n=st.sampled_from([1, 100]), reason=st.sampled_from([None, "no good", "expired"]))
    def list_dead(self, n: int, reason: str | None) -> None:
        entries = [e for e in self.model.in_state(DEAD) if reason in (None, e.reason)][:n]
        tasks = self.q.dead.list(n, reason=reason)
        assert [task.id for task in tasks] == [entry.id for entry in entries]
        for task, entry in zip(tasks, entries, strict=True):
            self.see(task, entry)

    def dead_ids(self, indexes: list[int] | None, reason: str | None) -> list[str]:
        """Whom a replay or purge means: some ids (not all dead), or all that a filter chooses."""
        if indexes is not None and self.ids:
            return list(dict.fromkeys(map(self.pick_id, indexes)))
        return [e.id for e in self.model.in_state(DEAD) if reason in (None, e.reason)]

    chosen_dead = st.one_of(st.none(), st.none(), st.lists(recent, max_size=3))

    @rule(
        indexes=chosen_dead,
        reason=st.sampled_from([None, None, "no good"]),
        rate=st.sampled_from([None, 4, 1, 0.1]),
        twice=rarely,
    )
    def replay(
        self, indexes: list[int] | None, reason: str | None, rate: float | None, twice: bool
    ) -> None:
        ids = self.dead_ids(indexes, reason)
        by_id = ids if indexes is not None and self.ids else None
        replayed = self.call(twice, lambda: self.q.dead.replay(by_id, reason=reason, rate=rate))
        expected = self.model.replay(ids, self.now, 1000 / rate if rate else 0)
        assert replayed == (0 if twice else expected)

    @rule(indexes=chosen_dead, reason=st.sampled_from([None, "no good"]))
    def purge_dead(self, indexes: list[int] | None, reason: str | None) -> None:
        ids = self.dead_ids(indexes, reason)
        by_id = ids if indexes is not None and self.ids else None
        gone = {i for i in ids if i in self.model.tasks and self.model.tasks[i].state == DEAD}
        answer = self.call(False, lambda: self.q.dead.purge(by_id, reason=reason))
        assert answer == len(gone)
        for task_id in gone:
            self.model.remove(self.model.tasks[task_id])

    @rule(key=st.sampled_from("klm"), twice=rarely)
    def forget(self, key: str, twice: bool) -> None:
        """A seen key is free again."""
        self.model.free_seen(self.now)
        known = bool(self.model.seen.pop(key, None))
        freed = self.call(twice, lambda: self.q.admin.forget(key))
        assert freed or twice or not known

    # Export and import

    @precondition(lambda self: self.steps % 3 == 2)  # it takes many calls
    @rule()
    def comes_over(self) -> None:
        """An import into another queue gives the same export again, and the tasks of the model."""
        lines = [*self.eyes.admin.export()]
        name = self.eyes.queue_name.replace(self.name_prefix, f"{self.name_prefix}b", 1)
        with DPQ[Any](self.redis, name, clock=lambda: self.now) as other:
            try:
                other.admin.import_(lines)
                again, before = (
                    {re.sub(BATCH_CHANGED, r"\1", line) for line in export[1:-1]}
                    for export in ([*other.admin.export()], lines)
                )
                differing = again ^ before
                differing -= {each for each in differing if self.is_over(json.loads(each))}
                assert not differing, differing
                assert (found := other.check()) == [], found
                assert other.admin.import_(lines).before == len(self.model.tasks)
                self.see_all(other)
            finally:
                other.admin.drop()

    def is_over(self, line: dict[str, Any]) -> bool:
        """A seen key whose time is over: an import may free it."""
        return "seen" in line and line["until_ms"] <= self.now

    def see_all(self, other: DPQ[Any]) -> None:
        """The other queue has each task, and its groups in order are held as they were."""
        found = [task for state in STATES for task in other.peek(1000, state)]
        assert {task.id for task in found} == self.model.tasks.keys()
        for task in found:
            entry = self.model.tasks[task.id]
            if entry.state in (DELAYED, DEAD):
                self.see(task, replace(entry, token=0))
            else:  # a lease stays behind
                assert task.state in ("ready", "waiting")
        for group in GROUPS:
            waits = [entry for entry in self.model.held(group) if entry.until > self.now]
            if waits and self.model.rules(group).in_order:
                assert group not in {task.group for task in other.pop_many(100)}

    # After every step

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "q"):
            return
        problems = self.eyes.check()
        assert not problems, problems
        self.look()
        self.steps += 1
        self.peek("ready", 100)
        self.peek(STATES[1 + self.steps % 4], 100)
        stats = self.eyes.stats()
        assert {state: getattr(stats, state) for state in STATES} == self.model.counts(self.now)
        names = (*TOTALS, "dropped")
        assert {name: getattr(stats, name) for name in names} == {
            name: self.model.totals[name] for name in names
        }
        kept = [(result.task_id, result.value) for result in self.eyes.results()]
        assert kept == self.model.kept(self.now)
        ready = self.model.in_state("ready")
        assert (stats.oldest_ready_seconds is None) is (not stats.ready)
        if ready and stats.ready == len(ready):
            assert 0 <= stats.oldest_ready_seconds <= self.longest_ready(ready)

    def longest_ready(self, ready: list[Entry]) -> float:
        return max(0, *(self.now - entry.first_due for entry in ready)) / 1000

    def teardown(self) -> None:
        if hasattr(self, "q"):
            self.q.admin.drop()
            self.q.close()
            self.eyes.close()
            key = key_of(self.q.queue_name, "*")
            assert self.redis.keys(key.replace("{", "[{]")) == []
