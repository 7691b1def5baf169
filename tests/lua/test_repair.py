"""repair: every kind of damage is mended, no payload is lost, and a second repair finds nothing."""

import random
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from damage import (
    DAMAGES,
    LIMIT_DAMAGES,
    LONG,
    PADS,
    SETTINGS_DAMAGES,
    fill,
    fill_limits,
    fill_settings,
)
from hypothesis import settings
from redis.exceptions import RedisError

from dpq import DPQ, DPQError, Push, TaskState
from dpq.operations.repair import CHECKED_PARTS
from dpq.protocol.keys import PARTS

pytestmark = pytest.mark.damaged

SOAK = settings.get_current_profile_name() == "soak"


def kept(probe) -> Counter[bytes]:
    """Every payload, by how often it is stored."""
    return Counter(probe.bodies().values())


def shown(q: DPQ) -> dict[str, str]:
    """Every task that a look at the states shows: its id and its state."""
    return {task.id: state.value for state in TaskState for task in q.peek(10_000, state)}


def mended(probe) -> set[tuple[str, str]]:
    """Repair, and see that it is sound then, all at once, and complete."""
    before = kept(probe)
    done = probe.q.repair()
    assert probe.q.check() == []
    assert kept(probe) - Counter({b"": 10**6}) == before
    assert set(shown(probe.q)) == set(probe.bodies())
    stored = probe.stored()
    assert probe.q.repair() == []
    assert probe.stored() == stored
    return {(p.kind, p.subject) for p in done}


@pytest.mark.parametrize("pad", PADS, ids=["short", "long"])
@pytest.mark.parametrize("plant", DAMAGES, ids=lambda plant: plant.__name__)
def test_mends(q, probe, plant: Callable, pad: str):
    """Planted damage is named and gone, every payload is in some state, and all is done at once."""
    ids = fill(q, pad)
    expected = plant(probe, ids)
    done = mended(probe)
    follows = {found for found in expected if found[0] == "event not noticed" and found not in done}
    assert expected - follows <= done
    assert done  # an event of a place that was wrong goes with it


@pytest.mark.parametrize("plant", LIMIT_DAMAGES, ids=lambda plant: plant.__name__)
def test_mends_limits(server, q, clock, probe, plant: Callable):
    """Planted damage to what limits keep is named and gone, and no task is touched."""
    ids = fill_limits(q, clock)
    expected = plant(probe, ids)
    before = shown(q)
    assert {found[:2] for found in expected} <= mended(probe)
    assert shown(q) == before


@pytest.mark.parametrize("plant", SETTINGS_DAMAGES, ids=lambda plant: plant.__name__)
def test_mends_settings(server, q, clock, probe, plant: Callable):
    """Lost settings and limits are named and are what they were; no task is touched."""
    ids = fill_settings(probe, clock)
    people_set = {part: probe.redis.hgetall(probe.key(part)) for part in ("conf", "limits")}
    expected = plant(probe, ids)
    before = shown(q)
    assert expected <= mended(probe)
    assert shown(q) == before
    for part, fields in people_set.items():
        assert fields.items() <= probe.redis.hgetall(probe.key(part)).items()


def test_sound_queue(q, probe, clock):
    """A repair of a sound queue names nothing and changes nothing."""
    fill(q)
    stored = probe.stored()
    assert q.repair() == []
    assert probe.stored() == stored


def test_nothing_there(q, probe):
    """A repair of a queue that is not there makes none."""
    assert q.repair() == []
    assert probe.stored() == {}


# Keys of another type


@pytest.mark.parametrize("pad", PADS, ids=["short", "long"])
def test_keys_of_another_type(q, probe, pad):
    """Each is named by its key, alone, and goes; no other payload is lost, new tasks go behind."""
    for part in PARTS:
        ids = fill(q, pad)
        q.set_limit(9, 1, 9, group="open")
        before = kept(probe)
        probe.redis.delete(probe.key(part))
        probe.redis.set(probe.key(part), "junk")
        named = q.check()
        assert [(p.kind, p.subject) for p in named] == [("wrong type", probe.key(part))]
        assert q.repair()[:1] == named
        assert (q.check(), q.repair()) == ([], [])
        if part == "meta":  # the long payloads are in the dead letters, the short ones are lost
            assert kept(probe) == (before if pad else {})
        elif part == "payload" and pad:
            assert {dead.reason for dead in q.dead.list(99)} == {"payload missing"}
            assert q.stats().dead == len(ids)
        else:
            assert before == kept(probe)
            q.push("last", group="open")
            first = ids["invisible"] if part == "invisible" else ids["ready"]
            tasks = q.pop_many(9)
            assert (tasks[0].id, tasks[-1].payload) == (first, "last"), part
            limited = {state.group for state in q.groups() if state.windows}
            assert limited == {"open"}, part
        q.drop()


def test_lost_settings_keep_no_limit_from_holding(q, probe):
    """Of `conf` all is lost, but limits of groups hold."""
    q.set_limit(1, 60, group="g")
    q.push_many(Push(n, group="g") for n in range(3))
    probe.redis.delete(probe.key("conf"))
    probe.redis.set(probe.key("conf"), "junk")
    with DPQ(probe.redis, q.queue_name, order="fifo", fairness="round_robin") as named:
        assert [problem.kind for problem in named.check()] == ["wrong type"]
    q.repair()
    assert len(q.pop_many(3)) == 1


# Where a task goes


def test_record_lost(q, probe):
    """A payload without a record becomes a dead letter `bad record`, and can be run again."""
    payload = {"a": PADS[1]}
    task_id = q.push(payload, group="g", key="k")
    probe.redis.hdel(probe.key("meta"), task_id)
    mended(probe)
    [dead] = q.dead.list()
    assert (dead.id, dead.payload, dead.reason) == (task_id, payload, "bad record")
    assert q.dead.replay() == 1
    assert probe.pop().payload == payload


@pytest.mark.parametrize("pad", PADS, ids=["short", "long"])
def test_record_spoilt(q, probe, pad):
    """A payload behind a record that cannot be read becomes a dead letter, and can be run again."""
    payload = {"a": "\n\t\x1f" + pad}
    task_id = q.push(payload, group="g", key="k")
    raw = probe.redis.hget(probe.key("meta"), task_id)
    line, feed, body = raw.partition(b"\n")
    probe.redis.hset(probe.key("meta"), task_id, line.replace(b" ", b"-") + feed + body)
    assert mended(probe) > {("bad record", task_id)}
    [dead] = q.dead.list()
    assert (dead.id, dead.payload, dead.reason) == (task_id, payload, "bad record")
    assert q.dead.replay() == 1
    assert probe.pop().payload == payload


def test_record_lost_with_its_payload(q, probe):
    """Of a short payload nothing is left when its record is lost: its id goes, its key is free."""
    task_id = q.push(1, group="g", key="k")
    probe.redis.hdel(probe.key("meta"), task_id)
    assert mended(probe) >= {("no record", task_id)}
    assert (q.size(), probe.stored().get("keys", {})) == (0, {})


@pytest.mark.parametrize("pad", PADS, ids=["short", "long"])
@pytest.mark.parametrize("state", ["ready", "delayed", "invisible", "head", "waiting", "dead"])
def test_payload_lost(q, probe, clock, state, pad):
    """A record without its payload becomes a dead letter, from every state, and runs nowhere."""
    task_id = fill(q, pad)[state]
    probe.lose_body(task_id)
    mended(probe)
    [dead] = q.dead.list(reason="payload missing")
    assert dead.id == task_id
    assert (dead.last_error == "r") is (state == "dead")  # what it had died of before
    q.dead.replay([task_id])
    clock.advance(60)
    tasks = q.pop_many(100)
    assert task_id not in {task.id for task in tasks}
    assert q.get(task_id).state == TaskState.DEAD


def test_record_and_payload_lost(q, probe):
    """An id of which nothing is left goes from its set."""
    task_id = q.push(PADS[1])
    probe.redis.hdel(probe.key("meta"), task_id)
    probe.redis.hdel(probe.key("payload"), task_id)
    assert mended(probe) == {("no record", task_id)}
    assert q.stats().ready == 0


def test_records_and_totals_lost(q, probe):
    """One repair is enough: the tasks that come back find a sequence."""
    q.push(PADS[1])
    probe.redis.delete(probe.key("meta"), probe.key("stats"))
    assert ("settings lost", "pushed") in mended(probe)
    assert q.stats().dead == 1


def test_lost_from_ready(q, probe):
    """A task in no set is ready again, at its old place."""
    for i in range(3):
        q.push(i)
    first = probe.redis.zpopmin(probe.key("ready"))[0][0].decode()[16:]
    probe.woken()
    assert mended(probe) == {("in 0 states", first)}
    assert probe.woken()
    assert probe.drain() == [0, 1, 2]


def test_lost_from_delayed(q, probe, clock):
    """A task that was not due yet is delayed again, until its old moment, and that is noticed."""
    task_id = q.push(1, delay=60)
    probe.redis.delete(probe.key("delayed"), probe.key("conf"))
    clock.advance(20)
    mended(probe)
    assert (probe.state(task_id), q.next_event()) == ("delayed", 40)


def test_lost_from_dead(q, probe):
    """A task with a reason to be dead is a dead letter again."""
    task_id = q.push(1)
    q.bury(probe.pop(), "enough")
    probe.redis.delete(probe.key("dead"))
    mended(probe)
    assert [(dead.id, dead.reason) for dead in q.dead.list()] == [(task_id, "enough")]


def test_lost_lease(q, probe):
    """A task without its lease is due again, and its holder may still ack it."""
    q.push(1)
    task = probe.pop()
    probe.redis.delete(probe.key("invisible"))
    mended(probe)
    assert probe.state(task.id) == "ready"
    assert q.ack(task)
    assert q.size() == 0
    assert q.check() == []


def test_lost_from_waiting(q, probe):
    """A task of a group in no set stands behind its head again, or leads when it is the best."""
    ids = [q.push(i, -i, group="g") for i in range(3)]
    probe.redis.delete(probe.key("waiting"))
    mended(probe)
    assert [probe.state(task_id) for task_id in ids] == ["ready", "waiting", "waiting"]
    probe.redis.delete(probe.key("ready"), probe.key("groups"))
    mended(probe)
    assert probe.drain() == [0, 1, 2]


def test_lost_head(q, probe):
    """A group without its head has the best of its tasks as head, whatever hid them."""
    for i in range(3):
        q.push(i, i, group="g")
    q.push(9, 9, group="shut")
    q.delay_group("shut", 60)
    probe.redis.delete(probe.key("groups"))
    probe.redis.delete(probe.key("ready"))
    mended(probe)
    assert probe.drain() == [2, 1, 0]
    assert q.stats().waiting == 1


SAFEST = [
    ({"dead", "ready"}, "dead"),
    ({"invisible", "ready"}, "invisible"),
    ({"invisible", "delayed", "ready"}, "invisible"),
    ({"delayed", "ready"}, "delayed"),
]


BY = ["dead", "invisible", "all", "delayed"]


@pytest.mark.parametrize(("states", "stays"), SAFEST, ids=BY)
@pytest.mark.parametrize("group", [None, "g"])
def test_in_several_sets(q, probe, clock, states, stays, group):
    """Of several sets the safest stays: dead with a reason, then its lease, then its delay."""
    q.push("first", group=group)
    task = probe.pop()
    q.bury(task, "r") if "dead" in states else q.release(task)
    member = probe.record(task.id)["order"] + task.id
    for state in states - {"dead"}:
        entry = member if state == "ready" else task.id
        probe.redis.zadd(probe.key(state), {entry: 0 if state == "ready" else clock() + 9000})
    mended(probe)
    assert probe.state(task.id) == stays


def test_dead_without_a_reason_and_ready(q, probe, clock):
    """A task that was made live again stays live: a dead letter has a reason."""
    task_id = q.push(1)
    probe.redis.zadd(probe.key("dead"), {task_id: clock()})
    mended(probe)
    assert probe.state(task_id) == "ready"


def test_malformed_members(q, probe):
    """What is no member at all goes from ready and waiting, and nothing else does."""
    for i in range(2):
        q.push(i, group="g")
    for part in ("ready", "waiting"):
        probe.redis.zadd(probe.key(part), {"nonsense": 0, "g\tnonsense": 0, "": 0, "g\t": 0})
    mended(probe)
    assert probe.drain() == [0, 1]


def test_second_place_of_a_head(redis, queue_name, clock, probe):
    """With round robin, the head's own place in ready beside its turn is found and goes."""
    with DPQ(redis, queue_name + "-2", clock=clock, fairness="round_robin") as q:
        probe = type(probe)(redis, q)
        task_id = q.push(1, group="g")
        place = "1" + "0" * 14 + "7" + task_id
        probe.redis.zadd(probe.key("ready"), {place: 0})
        assert mended(probe) == {("stale place", task_id)}
        assert probe.drain() == [1]


def test_waiting_at_a_stale_score(q, probe):
    """A member of waiting that its record does not say is found and goes."""
    q.push(1, 5, group="g")
    task_id = q.push(2, group="g")
    [member] = probe.redis.zrange(probe.key("waiting"), 0, 0)
    probe.redis.zadd(probe.key("waiting"), {member.replace(b"8000", b"8001"): 0})
    assert mended(probe) == {("stale place", task_id)}
    assert probe.drain() == [1, 2]


def test_two_tasks_with_one_key(q, probe):
    """Of two tasks with one key its holder keeps it, and the other stays without."""
    holder, other = q.push(1, key="k"), q.push(2, key="x")
    record = probe.redis.hget(probe.key("meta"), other).replace(b"\tx\t", b"\tk\t")
    probe.redis.hset(probe.key("meta"), other, record)
    mended(probe)
    assert (q.get(holder).key, q.get(other).key) == ("k", None)


# Limits


def test_a_probe_that_is_nowhere(server, q, clock, probe):
    """When the probe after a 429 is lost, the next task is the probe."""
    q.push_many(Push(payload=i, group="g") for i in range(3))
    q.rate_limited(probe.pop(), 1)
    clock.advance(1)
    lost = probe.pop(visibility=LONG)
    assert q.pop_many(9) == []
    probe.redis.zrem(probe.key("invisible"), lost.id)
    mended(probe)
    assert len(q.pop_many(9)) == 1
    assert q.check() == []


def test_a_lost_lease_gives_its_share_back(server, q, probe):
    """A group that waits for a lease that is not there any more opens."""
    q.set_limit(concurrency=1, group="g")
    q.push_many(Push(payload=i, group="g") for i in range(2))
    lost = probe.pop(visibility=LONG)
    assert q.pop_many(9) == []
    probe.redis.zrem(probe.key("invisible"), lost.id)
    mended(probe)
    assert len(q.pop_many(9)) == 1


# Any loss


class Loser:
    """Loses by chance what a server or a hand can lose, and goes on working."""

    def __init__(self, probe: Any, seed: int) -> None:
        self.probe = probe
        self.random = random.Random(seed)

    def strike(self) -> str:
        """Lose a key, or an entry of it, by deletion or as the server ends a script there."""
        redis, chance = self.probe.redis, self.random
        part: str = chance.choice([part for part in PARTS if part not in ("events", "trail")])
        key = self.probe.key(part)
        kind = redis.type(key)
        if chance.random() < 0.5 or kind == b"none":
            redis.delete(key)
        elif kind == b"hash":
            redis.hdel(key, chance.choice(redis.hkeys(key)))
        else:
            redis.zrem(key, chance.choice(redis.zrange(key, 0, -1)))
        if chance.random() < 0.2:
            redis.delete(key)
            redis.set(key, "junk")
            self.work()  # each script breaks off where it needs the key
            redis.delete(key)
        self.work()
        return part

    def work(self) -> None:
        """Use the queue a little, whatever it answers."""
        q, chance = self.probe.q, self.random
        for _ in range(chance.randint(0, 5)):
            group = chance.choice([None, "g1", "g2", "g3"])
            with suppress(DPQError, RedisError):
                q.push(
                    uuid.uuid4().hex, chance.randint(0, 2), group=group, key=f"k{chance.random()}"
                )
            with suppress(DPQError, RedisError):
                for task in q.pop_many(3, visibility=60)[1:]:
                    q.ack(task)
            with suppress(DPQError, RedisError):
                q.delay_group("g3", chance.choice([0, 50]))


@pytest.mark.parametrize("seed", range(15 if SOAK else 5))
@pytest.mark.parametrize("fairness", ["none", "round_robin"])
def test_any_loss(server, redis, queue_name, clock, probe, seed, fairness):
    """After any few losses one repair leaves a sound queue that gives out every task it has."""
    with DPQ(redis, queue_name + "-2", clock=clock, fairness=fairness) as q:
        probe = type(probe)(redis, q)
        q.set_limit(3, 1, burst=9, group="g1")
        q.set_limit(concurrency=1, group="g2")
        for i in range(40):
            q.push(
                uuid.uuid4().hex * (1 if i % 2 else 20),
                i % 3,
                [0, 0, 0, 5][i % 4],
                group=[None, "g1", "g2", "g3"][i % 7 % 4],
                key=f"k{i}" if i % 5 == 0 else None,
            )
        for n, task in enumerate(q.pop_many(8, visibility=60)[::2]):
            q.bury(task, "r") if n % 2 else q.fail(task, "e", 9)
        q.delay_group("g3", 50)
        q.push("due", group="g1")
        assert q.check() == []
        loser = Loser(probe, seed)
        struck = [loser.strike() for _ in range(loser.random.randint(1, 6))]
        before = kept(probe)
        q.repair()
        assert q.check() == [], struck
        assert before - kept(probe) == Counter(), struck
        assert q.repair() == [], struck
        q.dead.replay()
        clock.advance(10**6)
        for _ in range(60):
            clock.advance(60)
            q.ack_many(q.pop_many(100))
        assert q.size() == 0, struck
        assert {dead.payload for dead in q.dead.list(1000)} <= {""}, struck


# How it walks


def test_bounded_steps(q, probe, clock):
    """One call looks at about `count` entries and says where to go on."""
    for i in range(1000):
        q.push(i)
    probe.redis.delete(probe.key("ready"))
    cursor, *found = probe.call("check", clock(), "meta", "0", 10, 1)
    assert cursor != b"0"
    assert len(found) <= 3 * 40
    while cursor != b"0":
        cursor = probe.call("check", clock(), "meta", cursor, 10, 1)[0]
    assert q.stats().ready == 1000
    assert q.check() == []


def test_many_lost_records(q, probe):
    """Payloads whose records are lost are all found, some in each step."""
    payloads = [f"{i:0600}" for i in range(700)]
    q.push_many(map(Push, payloads))
    probe.redis.delete(probe.key("meta"))
    q.repair()
    assert sorted(dead.payload for dead in q.dead.list(1000)) == payloads
    assert q.check() == []


def test_in_use(q, probe, clock):
    """Between its steps others may push, pop and ack: nothing is lost and nothing comes twice."""
    want = set(range(300))
    for i in range(300):
        q.push(i, group="abc"[i % 3] if i % 2 else None)
    probe.redis.delete(probe.key("ready"))
    seen: list[int] = []
    number = 1000
    for name, part in CHECKED_PARTS:
        cursor: Any = "0"
        while True:
            cursor = probe.call(name, clock(), part, cursor, 20, 1)[0]
            tasks = q.pop_many(2)
            seen += [task.payload for task in tasks]
            q.ack_many(tasks)
            q.push(number, group="a", key=f"k{number}")
            want.add(number)
            number += 1
            if cursor == b"0":
                break
    assert q.check() == []
    seen += probe.drain()
    assert sorted(seen) == sorted(want)
