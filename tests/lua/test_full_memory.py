"""At full memory all goes on that holds, ends or guards work; what adds is refused.

Each call is made twice in the same state, the second time while the server has no memory left:
what comes of it, and what is stored then, must be the same.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from dpq import DPQ, Adaptive, DPQError, Push, RateLimited, Task, TaskState
from dpq.limits.permit import Caller, PermitAnswer, PermitRequest
from dpq.model.producer import Producer
from dpq.script.assembly import script_names
from dpq.script.command import CommandMaker, same
from dpq.script.keys import PARTS, REGISTRY, key_of
from dpq.testing import Clock, QueueFactory, _stored

Build = Callable[[DPQ[Any], Clock], object]

LEFT = {"x-ratelimit-remaining": "2", "x-ratelimit-reset": "60"}

READY = 18
"""Tasks without a group: pop takes sixteen in one step."""


def fill(q: DPQ[Any], clock: Clock) -> None:
    """Some tasks, three of them under a lease, of which one is the last of its batch."""
    q.push_many([Push(i, priority=i % 3) for i in range(READY)])
    q.push("held", 9, group="a")
    q.push("keyed", 8, key="k")
    q.push("of batch", 7, batch="b", max_attempts=1)
    q.seal_batch("b", on_finish=Push("at its end"))
    q.pop_many(3)


def grouped(q: DPQ[Any], clock: Clock) -> None:
    """Groups with tasks behind their heads, taking turns; a lease of each is out."""
    q.push_many([Push(i, priority=5, group="abc"[i % 3]) for i in range(9)])
    q.pop_many(3)


def closed(q: DPQ[Any], clock: Clock) -> None:
    """A group is closed by hand, with a lease out and tasks behind it."""
    grouped(q, clock)
    q.delay_group("a", 60)


def limited(q: DPQ[Any], clock: Clock) -> None:
    """Limits of the queue and of groups, with a reserve, partly spent."""
    q.set_limit(1000, 1, burst=100)
    q.set_limit(1, 10, burst=2, group="*")
    grouped(q, clock)


def spent(q: DPQ[Any], clock: Clock) -> None:
    """The queue's limit is spent, and a waiting consumer sleeps by that."""
    fill(q, clock)
    q.set_limit(1, 60)
    q.push("more", 99)
    q.pop(timeout=0.001)
    q.pop(timeout=0.001)


def full(q: DPQ[Any], clock: Clock) -> None:
    """As many leases are out as may be, of the queue and of a group."""
    q.set_limit(concurrency=1, group="a")
    q.set_limit(concurrency=2)
    fill(q, clock)
    q.push("behind", 10, group="a")


def due(q: DPQ[Any], clock: Clock) -> None:
    """Delayed tasks are due, leases have run out, a closed group is to open: nobody has looked."""
    grouped(q, clock)
    fill(q, clock)
    q.push_many([Push(i, delay=i / 10) for i in range(20)])
    q.push("recurs", 3, every=20)
    q.push("expires", delay=5, expires_in=1)
    q.delay_group("b", 20)
    clock.advance(31)


def hit(q: DPQ[Any], clock: Clock) -> None:
    """A 429 has closed a group and the queue, a learned limit was halved; the probe is to come."""
    q.set_limit(10, 1, burst=9, group="a", adaptive=Adaptive(1, 20))
    grouped(q, clock)
    held = {task.group: task for task in _stored(q, TaskState.INVISIBLE)}
    q.rate_limited(held["a"], 30)
    q.rate_limited(held["b"], 5, scope="queue")


def learned(q: DPQ[Any], clock: Clock) -> None:
    """Known limits of the queue and of groups have learned a slack, and go on."""
    q.set_limit(100, 1, burst=9)
    q.set_limit(10, 1, burst=3, group="*")
    grouped(q, clock)
    held = {task.group: task for task in _stored(q, TaskState.INVISIBLE)}
    q.rate_limited(held["a"], 0)
    q.rate_limited(held["b"], 0, scope="queue")
    clock.advance(0.2)
    q.ack(q.pop_many(1)[0])
    clock.advance(0.2)


def paused(q: DPQ[Any], clock: Clock) -> None:
    """The queue is paused, for a time that a waiter may watch for."""
    fill(q, clock)
    q.pause(3)


def dead(q: DPQ[Any], clock: Clock) -> None:
    """Dead letters, more than may stay."""
    fill(q, clock)
    for held in _stored(q, TaskState.INVISIBLE):
        q.bury(held, "no")
    q.push("cron", 99, cron="* * * * *", key="cron")
    clock.advance(61)
    q.pop()


def followed(q: DPQ[Any], clock: Clock) -> None:
    """Tasks wait for leases that are out, and for two tasks that ended since the last upkeep."""
    fill(q, clock)
    done, died, *rest = [q.push(name, 20) for name in ("done", "dead", "left", "left, too")]
    tasks = q.pop_many(4)
    q.push("of one", after=[done])
    q.push("of a dead one", after=[died])
    q.push("of a dead one, and runs", after=[died], on_dead="run")
    q.push("of three", after=[done, *rest], group="a", key="follower")
    q.push("of it", after=[q.push("of one that is left", after=rest[:1])])
    q.ack(tasks[0])
    q.bury(tasks[1], "no")


def refused(q: DPQ[Any], clock: Clock) -> None:
    """The probe was refused four times while others passed: once more, and it is dead."""
    q.push_many([Push(i, priority=9 - i, group="a", batch="b") for i in range(9)])
    for others in (0, 0, 0, 1, 0, 1, 0, 1):
        clock.advance(1)
        if others:
            q.ack(q.pop().task)
            clock.advance(2)
        q.rate_limited(q.pop().task, 1)
    clock.advance(1)
    q.pop()


def stale(q: DPQ[Any], clock: Clock) -> None:
    """What conf says of the next event is wrong, or lost."""
    fill(q, clock)
    q.redis.hset(key_of(q.queue_name, "conf"), "next_event", "0")


WORLDS: list[Build] = [
    *(fill, grouped, closed, limited, spent, full, due, hit, paused, dead, stale, learned, followed)
]


def asked(q: DPQ[Any], group: str | None) -> PermitAnswer:
    """What a caller of acquire is told; its permit has always the same id."""
    caller = Caller(PermitRequest(group, 1, None, 0, 60.0), 0.0)
    caller.id = "permit"
    return q._session.run(q._operations.acquire, caller, 0.0)


def _short(q: DPQ[Any], name: str, *args: Any) -> object:
    """What a short way answers."""
    partition = q._operations
    return q._session.run(lambda: partition._ask(name, [partition._now(), *args], same))


def each_held(act: Callable[[DPQ[Any], Task[Any]], object]) -> Callable[[DPQ[Any]], object]:
    """Act on each lease that is out."""

    def call(q: DPQ[Any]) -> object:
        held = sorted(_stored(q, TaskState.INVISIBLE), key=lambda task: task.token)
        return [tried(lambda task=task: act(q, task)) for task in held]

    return call


def tried(call: Callable[[], object]) -> object:
    """What comes of a call: its result, or DPQ's own refusal."""
    try:
        return call()
    except DPQError as refusal:
        return type(refusal).__name__


def payloads(tasks: list[Task[Any]]) -> list[Any]:
    return [task.payload for task in tasks]


def of_first(q: DPQ[Any], state: TaskState, act: Callable[[str], object]) -> object:
    return [tried(lambda id_=task.id: act(id_)) for task in q.peek(1, state)]


def caller(group: str | None) -> Caller:
    """One that was granted something a second ago."""
    made = Caller(PermitRequest(group, 1, None, 0, 60.0), 0.0)
    made.moment = "1699999999000"
    return made


def waits_for_room(q: DPQ[Any]) -> list[bool]:
    """A producer that stands in the line of a full queue, and leaves it."""
    q.admin.set_bounds(max_tasks=1)
    producer = Producer(0, 0)
    producer.id = "producer"
    ask = q._operations.await_room
    return [q._session.run(ask, producer, leave=leave) for leave in (False, True)]


GOES_ON: dict[str, list[Callable[[DPQ[Any]], object]]] = {
    "acquire": [
        lambda q: asked(q, "a"),
        lambda q: asked(q, "new"),
        lambda q: [asked(q, None) for _ in range(3)],
    ],
    "permit": [
        lambda q: q._session.run(
            q._operations.end_permit, caller("a"), "~1700000009000~permit", "t=1"
        )
    ],
    "met_limit": [
        lambda q: q._session.run(
            q._operations.met_limit, caller("a"), RateLimited(5, scope="group"), "", ""
        ),
        lambda q: q._session.run(
            q._operations.met_limit, caller(None), RateLimited(5, scope="queue"), "", ""
        ),
    ],
    "ack": [each_held(lambda q, task: q.ack(task))],
    "await_room": [waits_for_room],
    "beat": [
        lambda q: q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0),
        lambda q: q._session.run(q._operations.leave, "w"),
    ],
    "bury": [each_held(lambda q, task: q.bury(task, "no"))],
    "cancel": [
        lambda q: tried(lambda: q.cancel(key="k")),
        *(
            (lambda q, state=state: of_first(q, state, q.cancel))
            for state in (TaskState.READY, TaskState.WAITING, TaskState.DELAYED)
        ),
    ],
    "configure": [
        lambda q: (
            DPQ(
                q.redis, q.queue_name, order="fifo", clock=q._operations.description.clock
            ).settings.order
        )
    ],
    "delay_group": [
        lambda q: q.delay_group("a", 30),
        lambda q: q.delay_group("a", 0),
        lambda q: q.delay_group("new", 5),
    ],
    "observe": [
        lambda q: tried(lambda: q.observe(None, headers=LEFT)),
        lambda q: tried(lambda: q.observe("a", headers=LEFT)),
        lambda q: tried(lambda: q.observe("new", headers=LEFT)),
    ],
    "drop": [lambda q: q.admin.drop()],
    "extend": [each_held(lambda q, task: q.extend(task, 100))],
    "fail": [
        each_held(lambda q, task: q.fail(task, "error", delay=5)),
        each_held(lambda q, task: q.fail(task, "error", delay=0)),
    ],
    "ack_plain": [each_held(lambda q, task: _short(q, "ack_plain", task.id, task.token))],
    "pop_plain": [lambda q: _short(q, "pop_plain", 3, 30_000, 10**6, 0)],
    "quiet": [
        lambda q: (
            q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0),
            [q.admin.quiet("w"), q.admin.unquiet("w"), q.admin.quiet("w")],
        )
    ],
    "pause": [lambda q: q.pause(), lambda q: q.pause(60), lambda q: q.resume()],
    "pop": [
        lambda q: payloads(q.pop_many(1)),
        lambda q: payloads(q.pop_many(READY)),
        lambda q: payloads(q.pop_many(100)),
        lambda q: [payloads(q.pop_many(1)) for _ in range(READY + 5)],
        lambda q: (
            q._session.run(q._operations.pop, 100, None, "-").next_event_ms
        ),  # as one that will wait
        lambda q: (
            q._session.run(q._operations.pop, 100, None, "0").next_event_ms
        ),  # as one that has waited
    ],
    "promote": [lambda q: [q.promote() for _ in range(3)]],
    "purge": [*((lambda q, state=state: q.purge(state)) for state in TaskState)],
    "forget": [lambda q: q.admin.forget("seen"), lambda q: q.purge()],
    "rate_limited": [
        each_held(lambda q, task, scope=scope: q.rate_limited(task, 20, scope))
        for scope in ("group", "queue", "task")
    ],
    "register": [lambda q: q._session.run(q._operations.register)],
    "release": [
        each_held(lambda q, task: q.release(task)),
        each_held(lambda q, task: q.release(task, 5, priority=7)),
    ],
    "replay": [lambda q: q.dead.replay(), lambda q: q.dead.replay(rate=1)],
    "set_limit": [
        lambda q: q.set_limit(5, 1, group="*"),
        lambda q: q.set_limit(500, 1, burst=3, concurrency=50),
        lambda q: q.set_limit(concurrency=50, group="a"),
        lambda q: q.clear_limit(),
        lambda q: q.clear_limit("*"),
    ],
    "spent": [each_held(lambda q, task: q.spent(task, 3, tokens=5))],
    "set_visibility": [
        each_held(lambda q, task: q.set_visibility(task, 50)),
        each_held(lambda q, task: q.set_visibility(task, 0)),
    ],
    "unregister": [lambda q: q._session.run(q._operations.unregister)],
    "update": [
        lambda q: tried(lambda: q.update(key="k", priority=-1)),
        *(
            (
                lambda q, state=state, change=change: of_first(
                    q, state, lambda id_: q.update(id_, **change)
                )
            )
            for state in (TaskState.READY, TaskState.WAITING, TaskState.DELAYED)
            for change in ({"priority": 50}, {"delay": 5})
        ),
        lambda q: of_first(q, TaskState.INVISIBLE, lambda id_: q.update(id_, priority=50)),
    ],
}
"""By script: whatever holds, ends or guards work, and whatever looks after it."""

EXPORTED = [
    '{"dpq_export":1,"export":"x","paused_until":null}',
    '{"id":"a","state":"ready","priority":"5","sequence":7,"enqueued_ms":1,"key":"n","payload":1}',
    '{"id":"b","state":"delayed","due_ms":9,"priority":"5","sequence":8,"enqueued_ms":1,"payload":1}',
    '{"end":true,"lines":4,"tasks":2,"limits":0,"damaged":0}',
]
"""An export of two tasks."""

ADDS: dict[str, list[Callable[[DPQ[Any]], object]]] = {
    "push": [
        lambda q: q.push("x"),
        lambda q: q.push("x", delay=5, group="a", key="other"),
        lambda q: q.push_many([Push(i, group=f"g{i}") for i in range(5)]),
        lambda q: q.push_many([Push(1, key="k", on_duplicate="rerun"), Push(2)]),
    ],
    "push_plain": [lambda q: q.push("x"), lambda q: q.push_many([Push(1), Push(2)])],
    "seal_batch": [lambda q: q.seal_batch("new")],
    "import": [lambda q: q.admin.import_(EXPORTED, follow=True)],
    "remember": [lambda q: q._session.run(q._operations.remember)],
    "ack": [each_held(lambda q, task: q.ack(task, result="x"))],
    "progress": [each_held(lambda q, task: q.progress(task, 1, 2, "x"))],
}
"""By script: what may be refused, and then has changed nothing."""


Snapshot = dict[str, bytes]
"""All keys of a queue, by part."""

_built: dict[tuple[str, Build], tuple[Snapshot, int]] = {}
"""By server and world: what is stored, and the time."""


class Stage:
    """A queue that is put back into the same state for each call."""

    def __init__(self, redis: Redis, name: str) -> None:
        self.redis, self.name = redis, name
        self.server = str(redis.info("server")["run_id"])
        self.clock = Clock()
        self.q: DPQ[Any] = DPQ(redis, name, clock=self.clock)

    def set_up(self, build: Build) -> None:
        """Put the queue into one of the worlds."""
        at = (self.server, build)
        if at not in _built:
            self.clock.ms = 1_700_000_000_000
            with QueueFactory(self.redis, self.clock) as make:
                q = make(default_max_attempts=2, dead_max_tasks=1 if build is dead else None)
                build(q, self.clock)
                keys = {part: key_of(q.queue_name, part) for part in PARTS}
                dumped = {part: self.redis.dump(key) for part, key in keys.items()}
            found = {part: dump for part, dump in dumped.items() if dump}
            _built[at] = found, self.clock.ms
        found, self.clock.ms = _built[at]
        with self.redis.pipeline() as all_at_once:
            all_at_once.delete(*(key_of(self.name, part) for part in PARTS))
            all_at_once.sadd(REGISTRY, self.name)
            for part, dump in found.items():
                all_at_once.restore(key_of(self.name, part), 0, dump)
            all_at_once.execute()
        self.q.stats()  # who it is, and what server, is known from here on

    def seen(self) -> list[Any]:
        """All that is stored; a list of a set is sorted."""
        with self.redis.pipeline(transaction=False) as all_at_once:
            for part in PARTS:
                key = key_of(self.name, part)
                if part in HASHES:
                    all_at_once.hgetall(key)
                elif part in ("events", "changes"):
                    all_at_once.xrange(key)
                else:
                    all_at_once.zrange(key, 0, -1, withscores=True)
            found = dict(zip(PARTS, all_at_once.execute(), strict=True))
        found["conf"].pop(b"asked", None)  # the short way of pop may ask once more
        for part in ("events", "changes"):  # ids are times
            found[part] = [fields for _, fields in found[part]]
        return [*found.values()]

    @contextmanager
    def full(self) -> Iterator[None]:
        """The server has no memory left."""
        self.redis.config_set("maxmemory", 1)
        try:
            yield
        finally:
            self.redis.config_set("maxmemory", 0)

    def both(self, build: Build, call: Callable[[DPQ[Any]], object]) -> list[Any]:
        """What comes of a call, with memory and without."""
        came = []
        for memory in (nullcontext(), self.full()):
            self.set_up(build)
            with memory:
                result = call(self.q)
            came.append((result, self.seen()))
        return came


HASHES = {
    "groups",
    "payload",
    "meta",
    "keys",
    "conf",
    "stats",
    "limits",
    "gates",
    "workers",
    "results",
    "progress",
    "history",
    "batches",
}


@pytest.fixture
def stage(redis: Redis, queue_name: str) -> Iterator[Stage]:
    stage = Stage(redis, queue_name)
    with stage.q:
        yield stage
        stage.q.admin.drop()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the scripts that are called."""
    names: set[str] = set()
    original = CommandMaker._command

    def noted(self: Any, name: str, *rest: Any) -> Any:
        names.add(name)
        return original(self, name, *rest)

    monkeypatch.setattr(CommandMaker, "_command", noted)
    return names


@pytest.mark.parametrize("name", GOES_ON)
def test_goes_on(name: str, stage: Stage, used: set[str]) -> None:
    """At full memory each verb that holds, ends or guards work does what it does with memory."""
    for build in WORLDS:
        for call in GOES_ON[name]:
            plenty, short = stage.both(build, call)
            assert short == plenty, build.__name__
    assert name in used


def test_a_task_dies_that_was_always_refused(stage: Stage) -> None:
    """So does its burial, by the last 429."""
    plenty, short = stage.both(refused, each_held(lambda q, task: q.rate_limited(task, 1)))
    assert short == plenty
    assert any("always rate limited" in repr(seen) for seen in short)


def test_waiting_goes_on(stage: Stage) -> None:
    """At full memory a waiting pop brings what it brings with memory, and is not refused.

    Only a marker that it hands on as it goes may be lost, as when a waiter dies: at most 5 s.
    """
    wake = PARTS.index("wake")
    for build in WORLDS:
        for most in (1, 100):
            came = stage.both(build, lambda q, n=most: payloads(q.pop_many(n, timeout=0.001)))
            plenty, short = [(result, [*seen[:wake], *seen[wake + 1 :]]) for result, seen in came]
            assert short == plenty, build.__name__


@pytest.mark.parametrize("name", ADDS)
def test_adds(name: str, stage: Stage, used: set[str]) -> None:
    """What would add is refused at full memory, and has changed nothing."""
    for build in WORLDS:
        for call in ADDS[name]:
            stage.set_up(build)
            before = stage.seen()
            with stage.full(), pytest.raises(ResponseError, match="maxmemory"):
                call(stage.q)
            assert stage.seen() == before, build.__name__
    assert name in used


def test_a_name_that_is_lost_keeps_nobody_from_a_queue(stage: Stage) -> None:
    """At full memory a queue is not put into the list of names, and can be opened all the same."""
    stage.set_up(fill)
    stage.redis.srem(REGISTRY, stage.name)
    with stage.full(), DPQ[Any](stage.redis, stage.name, clock=stage.clock) as other:
        assert other.pop().task
    assert not stage.redis.sismember(REGISTRY, stage.name)
    with DPQ[Any](stage.redis, stage.name, clock=stage.clock) as other:
        other.stats()
    assert stage.redis.sismember(REGISTRY, stage.name)


LOOKS: list[Callable[[DPQ[Any]], object]] = [
    *(DPQ.check, DPQ.stats, DPQ.next_event, DPQ.results, DPQ.peek),
    *(
        lambda q, name=name: getattr(q.admin, name)()
        for name in ["limits", "groups", "drain", "workers", "held", "history", "events", "batches"]
    ),
    *(lambda q: list(q.admin.export())[1:], lambda q: q.get(key="k").id),
]


def test_looks(stage: Stage) -> None:
    """At full memory whatever looks sees what it sees with memory."""
    for look in LOOKS:
        plenty, short = stage.both(fill, look)
        assert short == plenty


def test_no_verb_is_left_out() -> None:
    """Each script is asked at full memory, or only looks: one that is new must be named."""
    looking = (
        "absent batches check dead_kinds drain events export find_groups"
        " get glance held history names next_event result results scopes search"
        " stats survey types view why workers"
    )
    assert sorted({*GOES_ON, *ADDS, *looking.split()}) == script_names()
