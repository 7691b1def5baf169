"""What each role of docs/security.md does, as calls: all of it must be allowed to its user."""

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis
from support import PATIENCE_S, wait_for

import dpq
from dpq import (
    DPQ,
    Adaptive,
    AsyncDPQ,
    DuplicateTaskError,
    Push,
    RateLimit,
    RateLimited,
    Reserve,
    ResultTimeoutError,
    Scheduler,
    TaskState,
    Worker,
    known_queues,
)
from dpq.link.connections import load_scripts
from dpq.link.server_check import scripts_there
from dpq.metrics import Exporter
from dpq.script.keys import REGISTRY, key_of
from dpq.testing import Clock
from dpq.views.sampler import Named

PAGE = (Path(dpq.__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
LINES = dict(re.findall(r"^ACL SETUSER (\S+) reset on >PASSWORD (.*)$", PAGE, re.MULTILINE))
MORE = {
    reason: " ".join(added.replace("\\|", "|").split())
    for reason, added in re.findall(r"^\| ([^|`]+) \| `([~+(].*?)` \| [a-z]", PAGE, re.MULTILINE)
}
LOADS = {role for role, line in LINES.items() if "+script|load" in line}
"""Who may load the scripts that a server has forgotten."""


def words_of(role: str, queue_name: str, version: str) -> list[str]:
    """The rules of a line of the page, as it says to change them; a selector is one word.

    Args:
        role: The user of the line.
        queue_name: The queue that it is to be for.
        version: Of the server: Redis 6.2 has no selectors.
    """
    return in_words(LINES[role], queue_name, version)


def in_words(line: str, queue_name: str, version: str) -> list[str]:
    """The rules of a text of the page; a selector is one word."""
    if version.startswith("6."):
        line = re.sub(r"[()]", "", line)
    return re.findall(r"\([^)]*\)|\S+", line.replace("emails", queue_name))


MORE_THAN_A_PAGE = 600
"""Workers, whose heartbeats are read in steps of about 200."""

LONG = "x" * 600
"""A payload that stands in a key of its own."""


class Stage(NamedTuple):
    """Where a role plays.

    Attributes:
        user: A client that is logged in as the role.
        root: A client that may do everything, on the same server.
        name: The queue.
        url: How the role's user logs in.
    """

    user: Redis
    root: Redis
    name: str
    url: str

    def queue(self, clock: Clock | None = None, **settings: Any) -> DPQ[Any]:
        return DPQ(self.user, self.name, clock=clock, **settings)

    def owner(self, clock: Clock | None = None, **settings: Any) -> DPQ[Any]:
        """The queue as one who may do everything has it."""
        return DPQ(self.root, self.name, clock=clock, **settings)


def plain_producer(stage: Stage) -> None:
    """Tasks without a group; a key that is taken stays as it is."""
    with stage.queue(fairness="round_robin") as q:
        q.push(1)
        q.push({"a": 1}, 17, 10, max_attempts=3, expires_in=60, cost=2)
        q.push_many([Push(n, delay=n % 2) for n in range(300)])
        q.push_many([Push(LONG, delay=n % 2) for n in range(3)])
        assert q.push("first", key="k") == q.push("second", key="k")
        with suppress(DuplicateTaskError):
            q.push("third", key="k", on_duplicate="error")


def producer(stage: Stage) -> None:
    """Every push there is, into limited and closed groups too."""
    plain_producer(stage)
    stage.owner().set_limit(1, 60, group="*", concurrency=2)
    stage.owner().delay_group("shut", 60)
    with stage.queue() as q:
        for group in ("a", "b", "shut"):
            for priority in (1, 3, 2, -(2**62)):
                q.push(priority, priority, group=group, cost=priority % 3 + 1)
        for mode in ("update", "raise_priority", "rerun"):
            q.push(mode, 5, key="k", on_duplicate=mode)
            q.push(LONG, 5, key="k", on_duplicate=mode)
            q.push(mode, 6, key="g", group="a", on_duplicate=mode)
            q.push(mode, 7, 9, key="g", group="a", on_duplicate=mode)
        [head] = [task for task in stage.owner().pop_many(400) if task.key == "k"]
        q.push("again", key="k", on_duplicate="rerun")
        stage.owner().ack(head)


def consumer(stage: Stage) -> None:
    """Everything between a pop and the end of a delivery, waits and workers included."""
    clock = Clock(1_700_000_000_000)
    with stage.owner(clock) as owner, stage.queue(clock, payload_type=int) as q:
        owner.set_limit(50, 60, burst=30, reserve=Reserve(2, 5))
        owner.set_limit([RateLimit(50, 1, adaptive=Adaptive(1, 60))], concurrency=9, group="*")
        owner.push_many([Push(n, n % 3, group=f"g{n % 7}", cost=n % 2 + 1) for n in range(60)])
        owner.push_many([Push(n, n % 3, expires_in=1 + n % 9) for n in range(40)])
        owner.push_many([Push(int("9" * 600), n, group=f"g{n % 7}") for n in range(20)])
        owner.push("not an int", 99)
        verbs: list[Callable[[Any], Any]] = [
            q.ack,
            lambda task: q.ack_many([task]),
            lambda task: q.ack(task, result=q.progress(task, 1, 2)),
            lambda task: q.extend(task, 5),
            lambda task: q.set_visibility(task, 3),
            lambda task: q.release(task, 1, priority=2**60),
            lambda task: q.release(task),
            lambda task: q.fail(task, "no", 1),
            lambda task: q.bury(task, "no"),
            lambda task: q.rate_limited(task, 2),
            lambda task: q.rate_limited(task, 2, "queue"),
            lambda task: None,  # its lease runs out
        ]
        for n in range(60):
            clock.advance(1)
            for task in q.pop_many(5, visibility=4):
                verbs[(task.deliveries + n) % len(verbs)](task)
        owner.clear_limit()
        for n in range(30):
            owner.push(n, group=f"h{n}")
        for round_ in range(60):
            clock.advance(3600)
            q.ack_many(q.pop_many(100))
            owner.push(1, group=f"last{round_}")  # groups come and go
        task = q.pop().task
        stage.root.hset(key_of(stage.name, "meta"), task.id, "no record")
        owner.set_limit(concurrency=1, group="last")
        owner.push_many([Push(1, group="last"), Push(1, group="last")])
        q.pop()
        clock.advance(3600)
        q.pop()
        owner.admin.drop()
    with stage.owner(fairness="units") as owner, stage.queue() as q:
        owner.push_many([Push(n, group=f"u{n % 3}" if n < 9 else None) for n in range(12)])
        while task := q.pop().task:
            q.ack(task, 3)
        owner.admin.drop()
    wait(stage)


def wait(stage: Stage) -> None:
    """Waiting pops of each kind, woken by a push and by the clock; a worker of each kind."""
    with stage.queue() as q, stage.owner() as owner:
        assert q.pop(timeout=0.01).task is None
        owner.push(1, delay=0.1)
        task, _, set_visibility = q.pop(timeout=PATIENCE_S)
        assert task is not None
        set_visibility(0.05)
        with q.lease(timeout=PATIENCE_S) as again:
            assert again is not None
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(q.pop(timeout=PATIENCE_S)))
        thread.start()
        wait_for(lambda: stage.root.info("clients")["blocked_clients"], lambda: got)
        owner.push(2)
        thread.join(PATIENCE_S)
        got[0].on_success()
        owner.push_many([Push(n, group=f"w{n % 2}") for n in range(6)])

        def handle(task: Any) -> None:
            if task.deliveries == 1:
                raise RateLimited(0.01, "task")

        Worker(q, handle, concurrency=2, prefetch=2).run(until_empty=True, signals=False)

        async def scene() -> None:
            async with AsyncDPQ.from_url(stage.url, stage.name) as aq:
                owner.push(3, delay=0.1)
                popped = await aq.pop(timeout=PATIENCE_S)
                await popped.on_success()

        asyncio.run(scene())
        assert q.pop().task is None


def scheduler(stage: Stage) -> None:
    """Upkeep of every queue, for which nobody pops, and its sleep."""
    clock = Clock(1_700_000_000_000)
    with stage.owner(clock, dead_max_tasks=3) as owner:
        owner.set_limit(1, 1, group="*", concurrency=3)
        owner.push_many([Push(n, 0, n % 9, group=f"g{n % 9}", cost=n % 2 + 1) for n in range(90)])
        owner.push_many([Push(n, 0, n % 9, expires_in=3, key=f"k{n}") for n in range(30)])
        owner.push(1, max_attempts=1)
        owner.push_many([Push(LONG, 9, max_attempts=1, expires_in=n or None) for n in range(9)])
        upkeep = stage.queue(clock)
        for n in range(40):
            clock.advance(1)
            owner.pop_many(20, visibility=1)
            if n == 20:
                [lease, *_] = owner.peek(1, "invisible")
                stage.root.hset(key_of(stage.name, "meta"), lease.id, "no record")
                clock.advance(1)
            upkeep.promote()
            upkeep.next_event()
        for _ in range(30):
            owner.ack_many(owner.pop_many(100))
            clock.advance(3600)
            upkeep.promote()
    with DPQ(stage.user, stage.name + "-2") as other:
        other.admin.register()
    DPQ(stage.root, stage.name + "-2").admin.drop()
    stage.root.sadd(REGISTRY, "a{b", stage.name + "-3")
    stage.root.script_flush()
    daemon = Scheduler(stage.user)
    assert stage.name in known_queues(stage.user)
    thread = threading.Thread(target=daemon.run, daemon=True)  # a failure must not hang
    thread.start()
    with stage.owner() as owner:
        owner.admin.drop()
        id_ = owner.push(1, delay=0.1)
        wait_for(lambda: owner.get(id_).state == "ready", owner.stats)
    wait_for(lambda: stage.root.info("clients")["blocked_clients"], daemon._upkeep.queues.keys)
    wait_for(lambda: stage.root.scard(REGISTRY) <= 1, lambda: known_queues(stage.root))
    wait_for(lambda: scripts_there(stage.root), daemon._upkeep.queues.keys)
    daemon.stop()
    thread.join(PATIENCE_S)


def overview(stage: Stage) -> None:
    """What tells how a queue is doing, without a payload."""
    with stage.queue() as q:
        q.stats()
        q.size()
        q.admin.limits()
        q.admin.groups()
        q.admin.group("a")
        q.next_event()
    furnish(stage)
    with stage.queue() as q:
        assert q.stats().ready
        for task in _each(stage):
            assert q.why(task.id)
        assert q.why().because
        assert q.admin.drain().backlog
        assert q.admin.history()
        assert q.admin.events(after=q.admin.events()[0].id)
        q.admin.limits()
        q.admin.groups()
        q.admin.group("a")
        q.next_event()
        assert [worker.name for worker in q.admin.workers()] == ["w"] * MORE_THAN_A_PAGE
        q.admin.held()
    assert stage.name in known_queues(stage.user)
    assert metered(stage)


def metered(stage: Stage) -> bool:
    """Whether a scrape of `dpq metrics` reads the queue."""
    with stage.queue() as q:
        text = Exporter(Named([q])).text().decode()
    return f'dpq_queue_up{{queue="{q.queue_name}",server=""}} 1.0' in text


def dashboard(stage: Stage) -> None:
    """Everything that looks and changes nothing."""
    overview(stage)
    with stage.queue() as q:
        for state in TaskState:
            for task in q.peek(300, state):
                assert q.get(task.id).payload == task.payload
        q.dead.list()
        assert q.check() == []


def furnish(stage: Stage) -> None:
    with stage.owner(order="lifo") as owner:
        owner.set_limit(2, 60, burst=2, reserve=Reserve(1, 9), group="a")
        owner.set_limit(1000, 60, concurrency=9)
        owner.delay_group("b", 60)
        owner.push_many([Push(n, n % 120, key=f"k{n}") for n in range(250)])
        owner.push_many([Push(n, group="ab"[n % 2]) for n in range(9)])
        owner.push(1, delay=60)
        owner.push_many([Push(LONG, 9, group="ab"[n % 2]) for n in range(4)])
        owner.bury(owner.pop().task, "to see it")
        owner.pop_many(2)
        owner._session.run(owner._operations.remember)
        for n in range(MORE_THAN_A_PAGE):
            owner._session.run(owner._operations.beat, f"id{n}", "w", "host", 1, "0.1", 2, 3, 4.0)


def damage(stage: Stage) -> None:
    """Leave damage of some kinds for `check` to find."""
    first, second, *_ = [task.id for task in stage.owner().peek(9)]
    stage.root.hset(key_of(stage.name, "meta"), first, "no record")
    record = stage.root.hget(key_of(stage.name, "meta"), second) or b""
    stage.root.hset(key_of(stage.name, "meta"), second, record.partition(b"\n")[0])
    stage.root.hdel(key_of(stage.name, "payload"), second)
    stage.root.delete(key_of(stage.name, "delayed"))
    stage.root.hset(key_of(stage.name, "gates"), "a", "no gate")


def _each(stage: Stage) -> list[Any]:
    return [task for state in TaskState for task in stage.owner().peek(3, state)]


def administrator(stage: Stage) -> None:
    """All of it, and the verbs that change a whole queue."""
    load_scripts(stage.user)
    producer(stage)
    stage.owner().admin.drop()
    scheduler(stage)
    stage.owner().admin.drop()
    consumer(stage)
    stage.owner().admin.drop()
    dashboard(stage)
    with stage.queue() as q:
        q.pause(1)
        q.resume()
        task = q.peek(1)[0]
        q.update(task.id, priority=3, delay=5)
        q.cancel(task.id)
        q.set_limit(5, 1, group="*", concurrency=2)
        q.set_limit(5, 1, group="a")
        q.clear_limit("a")
        q.delay_group("b", 0)
        q.clear_limit()
        q.dead.replay()
        q.push(1, 2**60)
        q.bury(q.pop().task, "once more")
        q.dead.purge()
        assert q.admin.workers()
        q.push("x" * 600)  # it stands apart
        q.admin.import_(list(q.admin.export()))
        q.resume()
        damage(stage)
        assert q.check()
        q.purge()
        q.admin.drop()


ROLES: dict[str, Callable[[Stage], None]] = {
    "dpq-blind-producer": plain_producer,
    "dpq-plain-producer": plain_producer,
    "dpq-producer": producer,
    "dpq-consumer": consumer,
    "dpq-scheduler": scheduler,
    "dpq-overview": overview,
    "dpq-dashboard": dashboard,
    "dpq-admin": administrator,
}


def asked_for(q: DPQ[Any], task_id: str) -> None:
    """Ask for the result of a task that runs; a subscription may be refused."""
    with suppress(ResultTimeoutError):
        q.result(task_id, timeout=0.001)


# What a client may call, for the table of docs/security.md: each on a queue that `furnished` made.

EXPORTED: list[str] = []
"""The lines of an export of the queue that `furnished` made."""

OF_EACH_STATE: list[str] = []
"""The ids of tasks in each state of the queue that `furnished` made."""

CALLS: dict[str, Callable[[DPQ[Any], Any], Any]] = {
    "push": lambda q, t: q.push(1),
    "push(group)": lambda q, t: q.push(1, 99, group="a"),
    "push(key, update)": lambda q, t: q.push(1, key="k", on_duplicate="update"),
    "pop": lambda q, t: q.pop(),
    "pop(timeout)": lambda q, t: q.pop(timeout=0.01),
    "ack": lambda q, t: q.ack(t),
    "ack(result)": lambda q, t: q.ack(t, result=1),
    "result": lambda q, t: asked_for(q, t.id),
    "results": lambda q, t: q.results(),
    "progress": lambda q, t: q.progress(t, 1),
    "batches": lambda q, t: q.admin.batches(),
    "seal_batch": lambda q, t: q.seal_batch("run-7"),
    "export": lambda q, t: list(q.admin.export()),
    "import_": lambda q, t: q.admin.import_(EXPORTED),
    "set_bounds": lambda q, t: q.admin.set_bounds(max_tasks=99, max_waiting=9),
    "bulk": lambda q, t: q.admin.bulk("cancel"),
    "extend": lambda q, t: q.extend(t, 5),
    "set_visibility": lambda q, t: q.set_visibility(t, 5),
    "release": lambda q, t: q.release(t),
    "spent": lambda q, t: q.spent(t, 3),
    "fail": lambda q, t: q.fail(t),
    "bury": lambda q, t: q.bury(t, "no"),
    "rate_limited": lambda q, t: q.rate_limited(t, 5),
    "workers": lambda q, t: q.admin.workers(),
    "held": lambda q, t: q.admin.held(),
    "stats": lambda q, t: q.stats(),
    "limits": lambda q, t: q.admin.limits(),
    "why": lambda q, t: [q.why(), *map(q.why, OF_EACH_STATE)],
    "drain": lambda q, t: q.admin.drain(),
    "history": lambda q, t: q.admin.history(),
    "events": lambda q, t: q.admin.events(after="0-1"),
    "next_event": lambda q, t: q.next_event(),
    "known_queues": lambda q, t: known_queues(q.redis),
    "peek": lambda q, t: q.peek(),
    "get": lambda q, t: q.get(t.id),
    "dead.list": lambda q, t: q.dead.list(),
    "check": lambda q, t: q.check(),
    "promote": lambda q, t: q.promote(),
    "update": lambda q, t: q.update(key="k", priority=3),
    "cancel": lambda q, t: q.cancel(t.id),
    "forget": lambda q, t: q.admin.forget("seen"),
    "pause": lambda q, t: q.pause(),
    "quiet": lambda q, t: q.admin.quiet("w"),
    "unquiet": lambda q, t: q.admin.unquiet("w"),
    "resume": lambda q, t: q.resume(),
    "set_limit": lambda q, t: q.set_limit(5, 1, group="a"),
    "clear_limit": lambda q, t: q.clear_limit("a"),
    "delay_group": lambda q, t: q.delay_group("a", 5),
    "observe": lambda q, t: q.observe("a", headers={"RateLimit": "limit=9, remaining=5, reset=9"}),
    "dead.replay": lambda q, t: q.dead.replay(),
    "dead.purge": lambda q, t: q.dead.purge(),
    "purge": lambda q, t: q.purge(),
    "drop": lambda q, t: q.admin.drop(),
    "register": lambda q, t: q.admin.register(),
}


SAVED: dict[str, tuple[Any, list[str], list[str], dict[bytes, bytes]]] = {}
"""By queue, what `furnished` made: the task, its two lists, and all keys."""


def furnished(stage: Stage) -> Any:
    """A queue with something of everything; returns a task under a lease."""
    pattern = key_of(stage.name, "*")
    if stage.name not in SAVED:
        with stage.owner() as owner:
            owner.set_limit(100, 1, burst=9, group="a")
            owner.push("dead", 9)
            owner.bury(owner.pop().task, "no")
            owner.push_many([Push(n, group="a") for n in range(3)])
            owner.push("running", 9, group="a", key="r")
            owner.push_many([Push(1, key="k"), Push(2), Push(3, delay=3600)])
            owner.ack(owner.pop(id=owner.push("seen", key="seen", unique_for=3600)).task)
            owner._session.run(owner._operations.beat, "w", "name", "host", 1, "0.1", 2, 3, 4.0)
            exported = list(owner.admin.export())
            running = owner.pop(visibility=3600).task
            ids = [task.id for state in TaskState for task in owner.peek(9, state)]
        dumped = {key: stage.root.dump(key) for key in stage.root.keys(pattern)}
        SAVED[stage.name] = running, exported, ids, dumped
    running, EXPORTED[:], OF_EACH_STATE[:], dumped = SAVED[stage.name]
    with stage.root.pipeline() as all_at_once:
        all_at_once.delete("none", *stage.root.keys(pattern))
        for key, dump in dumped.items():
            all_at_once.restore(key, 0, dump)
        all_at_once.sadd(REGISTRY, stage.name)
        all_at_once.execute()
    return running
