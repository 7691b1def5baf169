"""Queues of format 3 go on as such, until they are upgraded; then they have all they had.

What they hold is what the last DPQ that knew no other format has written: kit/format3.py.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kit.format3 import NOW, VARIANTS, plant
from kit.records import read_record

from dpq import DPQ, ConfigurationError, LeaseLostError, Push, Task, TaskState
from dpq.protocol.keys import key_of
from dpq.protocol.placement import tags_of
from dpq.protocol.scripts import script
from dpq.server import Server
from dpq.testing import Clock

SINGLE = [name for name in VARIANTS if name != "partitions"]


class Old:
    """A queue of format 3 with a client of now."""

    def __init__(self, redis: Any, name: str, clock: Clock, variant: str) -> None:
        self.redis, self.name, self.clock, self.variant = redis, name, clock, variant
        clock.ms = NOW
        self.ids = plant(redis, name, variant)
        self.q: DPQ[Any] = DPQ(redis, name, clock=clock)
        self.tags = tags_of(name, 3 if variant == "partitions" else 1)

    def kinds(self) -> set[str]:
        """The kinds of all records: "" is format 3."""
        raws = (self.redis.hvals(key_of(tag, "meta")) for tag in self.tags)
        return {read_record(raw)["kind"] for page in raws for raw in page}

    def format(self) -> set[bytes]:
        return {self.redis.hget(key_of(tag, "conf"), "format") for tag in self.tags}

    def apart(self) -> list[bytes]:
        """All payloads that have a field of their own."""
        return [b for tag in self.tags for b in self.redis.hvals(key_of(tag, "payload"))]

    def shown(self) -> dict[str, list[Task[Any]]]:
        """All tasks, state by state, each in its order."""
        return {state.value: self.q.peek(1000, state) for state in TaskState}

    def running(self, *names: str) -> list[Task[Any]]:
        """The leases that the old DPQ gave out, as their holders know them."""
        found = {task.id: task for task in self.q.peek(99, "invisible")}
        return [found[self.ids[name]] for name in names]


@pytest.fixture
def old(redis: Any, queue_name: str, clock: Clock, request: Any) -> Iterator[Old]:
    made = Old(redis, queue_name, clock, getattr(request, "param", "fifo"))
    yield made
    assert made.q.check() == []
    made.q.drop()
    made.q.close()


each = pytest.mark.parametrize("old", VARIANTS, indirect=True)
single = pytest.mark.parametrize("old", SINGLE, indirect=True)


def emptied(old: Old) -> list[Any]:
    """Payloads, attempts and deliveries of all that is popped until nothing comes, in its order."""
    found = []
    for _ in range(80):
        while task := old.q.pop().task:
            found.append((task.payload, task.attempt, task.deliveries, task.last_error))
            if task.every or task.cron:
                old.q.cancel(task.id)
            else:
                old.q.ack(task)
        old.clock.advance(60)
    return found


@each
def test_it_is_sound(old: Old) -> None:
    """A check finds nothing, a repair changes nothing, all tasks are seen, the format stays."""
    before = old.shown()
    assert {task.id for tasks in before.values() for task in tasks} == set(old.ids.values())
    assert old.q.repair() == []
    assert old.shown() == before
    assert (old.format(), old.kinds()) == ({b"3"}, {""})


def test_what_is_shown(old: Old) -> None:
    """All that a record of format 3 says is read."""
    q, ids = old.q, old.ids
    dead = q.get(ids["dead long"])
    assert (dead.state, dead.reason, dead.last_error) == (TaskState.DEAD, "spent", "e1")
    assert (dead.attempts, dead.payload) == (1, "x" * 600)
    failed = q.get(ids["failed"])
    assert (failed.state, failed.attempt, failed.deliveries) == (TaskState.DELAYED, 2, 1)
    assert (failed.last_error, failed.max_attempts) == ("it broke", 7)
    options = q.get(ids["options"])
    assert (options.visibility, options.time_limit, options.priority) == (77, 5, 0)
    assert q.get(ids["best"]).priority == 2**53 + 1
    assert (q.get(ids["half"]).priority, q.get(ids["heavy"]).cost) == (2.5, 3)
    hidden = q.get(key="hidden")
    assert (hidden.id, hidden.deferrals, hidden.attempt) == (ids["hidden"], 1, 1)
    assert (q.get(ids["every"]).every, q.get(ids["cron"]).cron) == (60, "0 * * * * UTC")
    assert q.get(ids["lapsed"]).attempt == 2
    assert q.get(ids["third"]).group == "b"
    assert q.get(ids["rerun"]).payload == "rerun again"


@each
def test_pushes_are_of_format_3(old: Old) -> None:
    """An older DPQ that has the queue open can read all that this one writes."""
    q = old.q
    q.push_many([Push(n, group="g", priority=n / 2, delay=n % 2) for n in range(6)])
    plain = q.push("plain", priority=2)
    q.push("long" * 300)
    q.push("keyed", key="k", every=60, visibility=4)
    q.push("keyed" * 300, key="k", on_duplicate="update")
    q.push("short", key="k", on_duplicate="update")
    assert (old.format(), old.kinds()) == ({b"3"}, {""})
    assert len(old.apart()) == sum(1 for tasks in old.shown().values() for _ in tasks)
    assert q.get(plain).payload == "plain"
    assert (q.get(key="k").payload, q.get(key="k").every) == ("short", None)


def test_verbs_keep_the_format(old: Old) -> None:
    """Each verb rewrites a record in the form that it had, and its payload stays where it is."""
    q = old.q
    tasks = q.pop_many(6, visibility=600)
    assert [task.payload for task in tasks][:3] == ["best", "better", "lapsed"]
    q.fail(tasks[0], "no", delay=0)
    q.release(tasks[1], priority=2.5)
    q.rate_limited(tasks[2], 1, "task")
    q.set_visibility(tasks[3], 1)
    q.bury(tasks[4], "no")
    q.extend(tasks[5], 99)
    q.update(tasks[0].id, priority=-5, cost=2)
    q.update(key="delayed", delay=1)
    assert q.dead.replay() == 3
    old.clock.advance(700)
    q.promote()
    assert (old.format(), old.kinds()) == ({b"3"}, {""})
    assert len(old.apart()) == q.size()
    assert q.check() == []
    q.ack_many(q.pop_many(3))
    assert len(old.apart()) == q.size()


@single
@pytest.mark.parametrize("upgraded", [False, True])
def test_who_holds_a_task_ends_it(old: Old, upgraded: bool) -> None:
    """A lease that an older DPQ gave out is extended and ended, before and after an upgrade."""
    q = old.q
    if upgraded:
        assert q.upgrade() == 5
    one, two, three, four, five = old.running(
        "running", "running long", "rerun", "every", "failed group"
    )
    q.extend(one, 100)
    assert q.ack(one)
    q.fail(two, "no", delay=5)
    assert q.ack(three)
    assert q.ack(four)
    q.bury(five, "no")
    assert not q.ack(four)
    for task in (two, five):
        with pytest.raises(LeaseLostError):
            q.release(task)
    assert q.get(old.ids["running long"]).last_error == "no"
    assert q.get(old.ids["rerun"]).state == TaskState.DELAYED
    assert q.get(old.ids["every"]).scheduled_at.timestamp() * 1000 == NOW - 2000 + 60_000
    assert q.get(old.ids["failed group"]).reason == "no"
    assert q.check() == []


# The upgrade


@each
def test_upgrade(old: Old) -> None:
    """All stand where they stood, with all that they had; only who runs keeps the old record."""
    before, settings = old.shown(), [old.q.stats(), old.q.groups(), old.q.limits()]
    running = len(before["invisible"])
    assert running > 0
    assert old.q.upgrade() == running
    assert old.format() == {b"4"}
    assert "" in old.kinds()
    assert old.shown() == before
    assert [old.q.stats(), old.q.groups(), old.q.limits()] == settings
    assert old.q.check() == []
    long = [body for body in old.apart() if len(body) > 512]
    assert len(old.apart()) == len(long) + sum(
        len(str(task.payload)) < 500 for task in before["invisible"]
    )
    assert old.q.upgrade() == running  # twice does no harm
    assert old.shown() == before
    old.q.purge("invisible")
    assert old.q.upgrade() == 0
    assert "" not in old.kinds()


@each
@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_same_order(
    old: Old, when: str, server: Server, redis: Any, queue_name: str, clock: Clock
) -> None:
    """What comes, when and how often, is the same without an upgrade, and with one at any time."""
    twin = Old(redis, queue_name + "-2", Clock(), old.variant)
    for each_one in (twin, old):
        each_one.q.dead.replay()
    expected = [twin.q.pop().task.payload for _ in range(3)]
    twin.clock.advance(700)
    expected += emptied(twin)
    if when == "before":
        old.q.upgrade()
    found = [old.q.pop().task.payload for _ in range(3)]
    if when == "between":
        old.q.upgrade()
    old.clock.advance(700)
    if when == "after":
        old.q.upgrade()
    found += emptied(old)
    twin.q.drop()
    twin.q.close()
    if old.variant == "partitions":  # which is the first to be asked is a matter of chance
        assert Counter(each[0] for each in found[3:]) == Counter(each[0] for each in expected[3:])
    else:
        assert found == expected
    assert len(found) >= 12


@single
def test_a_task_that_ran_is_upgraded_later(old: Old) -> None:
    """Once a lease is over, a second upgrade rewrites what is left."""
    q = old.q
    q.upgrade()
    q.fail(old.running("running long")[0], "no", delay=5)
    old.clock.advance(700)
    q.promote()
    assert "" in old.kinds()
    assert q.upgrade() == 0
    assert old.kinds() == ({"f"} if old.variant == "aging" else {"p", "f"})
    assert all(len(body) > 512 for body in old.apart())
    assert q.check() == []


def test_new_pushes_after_an_upgrade(old: Old) -> None:
    """From then on all is written as format 4, and a key finds its holder of before."""
    old.q.upgrade()
    task_id = old.q.push("new", priority=10**6)
    assert read_record(old.redis.hget(key_of(old.name, "meta"), task_id))["kind"] == "p"
    again = old.q.push("again" * 200, key="delayed", on_duplicate="update")
    assert again == old.ids["delayed"]
    assert old.q.get(again).payload == "again" * 200
    old.q.push("again", key="delayed", on_duplicate="update")
    assert old.redis.hget(key_of(old.name, "payload"), again) is None
    assert old.q.get(again).payload == "again"


def test_a_push_that_was_sent_again_after_an_upgrade(old: Old) -> None:
    """What a push has stored before an upgrade is not stored twice."""
    command = next(old.q._operations.push_many([Push("once", key="once")]))
    old.q._session.connections.call_all([command])
    size = old.q.size()
    old.q.upgrade()
    old.q._session.connections.call_all([command])
    assert old.q.size() == size


@single
def test_an_upgrade_goes_in_steps(old: Old) -> None:
    """Between its steps all goes on: pushes, pops, acks, and a second upgrade."""
    q = old.q
    q.push_many(Push(f"more {n}", priority=n % 3, group="abc"[n % 3]) for n in range(300))
    probe_keys = [key_of(old.name, p) for p in ("conf", "stats", "meta", "payload", "invisible")]
    called = script("upgrade")
    assert called.parts == ("conf", "stats", "meta", "payload", "invisible")
    cursor: Any = "0"
    steps, seen = 0, set()
    while steps == 0 or cursor != b"0":
        cursor, left = old.redis.eval(called.text, 5, *probe_keys, cursor, 10)
        steps += 1
        assert left <= len(q.peek(1000, "invisible"))
        q.push(f"between {steps}")
        tasks = q.pop_many(2)
        seen |= {task.id for task in tasks}
        q.ack_many(tasks)
        assert q.check() == []
    assert steps > 5
    assert q.upgrade() == 5
    old.clock.advance(3600)
    for _ in range(700):
        tasks = q.pop_many(100)
        assert not seen & {task.id for task in tasks} - {old.ids["rerun"]}
        for task in tasks:
            q.cancel(task.id) if task.every or task.cron else q.ack(task)
        seen |= {task.id for task in tasks}
        old.clock.advance(1)
    assert q.size() == 0


def test_a_format_to_come(old: Old) -> None:
    """A queue of a format to come is neither opened nor upgraded, and stays as it is."""
    old.redis.hset(key_of(old.name, "conf"), "format", "5")
    before = old.redis.hgetall(key_of(old.name, "meta"))
    with pytest.raises(ConfigurationError, match="in format 5, and this DPQ knows format 4"):
        old.q.upgrade()
    assert old.redis.hget(key_of(old.name, "conf"), "format") == b"5"
    assert old.redis.hgetall(key_of(old.name, "meta")) == before
    old.redis.hset(key_of(old.name, "conf"), "format", "3")


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_lost_format_comes_back(old: Old, upgraded: bool) -> None:
    """Its copy says which it was, before and after an upgrade."""
    if upgraded:
        old.q.upgrade()
    old.redis.hdel(key_of(old.name, "conf"), "format")
    assert [found.subject for found in old.q.check()] == ["format"]
    assert old.q.pop().task
    assert old.format() == {b"4" if upgraded else b"3"}


@pytest.mark.parametrize("upgraded", [False, True])
def test_damage_is_mended(old: Old, upgraded: bool) -> None:
    """A record or a payload that is lost is a dead letter, whatever the format of the rest."""
    if upgraded:
        old.q.upgrade()
    meta, payload = (key_of(old.name, part) for part in ("meta", "payload"))
    old.redis.hset(meta, old.ids["running"], "junk")
    old.redis.hdel(meta, old.ids["ready long"])
    old.redis.hdel(payload, old.ids["running long"])
    old.q.repair()
    assert old.q.check() == []
    reasons = {task.id: task.reason for task in old.q.dead.list()}
    assert reasons[old.ids["running"]] == reasons[old.ids["ready long"]] == "bad record"
    assert reasons[old.ids["running long"]] == "payload missing"
    assert old.q.dead.list()[-1].payload in ("", "running", "x" * 600)
    old.q.dead.purge()
    assert old.q.check() == []


def test_upgrade_of_a_new_queue(q: DPQ[Any], probe: Any) -> None:
    """Nothing changes, whether it is there or not."""
    assert q.upgrade() == 0
    assert probe.stored() == {}
    q.push("x")
    q.pop()
    q.push("y" * 600, key="k")
    before = probe.stored()
    assert q.upgrade() == 0
    assert probe.stored() == before
