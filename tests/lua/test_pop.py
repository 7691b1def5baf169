"""pop: take the best ready tasks under a lease, after all upkeep that is due."""

import pytest
from kit.moments import task_after

from dpq import DPQ, LeaseLostError, Push

LOTS = 10**6


def raw_pop(probe, clock, most=1, max_bytes=LOTS, batch=100, waiter=""):
    return probe.call("pop", clock(), most, 30_000, max_bytes, batch, waiter)


def bodies(reply):
    """The payloads of a reply of pop, each behind a record."""
    return [value.partition(b"\n")[2] for value in reply[2::2]]


def test_lease(q, clock, probe):
    """A popped task is under a lease: nobody gets it before the lease ends, and then anybody."""
    task_id = q.push("x", priority=4)
    task = probe.pop(visibility=12)
    assert (task.id, task.state, task.attempt, task.deliveries) == (task_id, "invisible", 1, 1)
    assert task.visible_until.timestamp() * 1000 == clock.ms + 12_000
    again = task_after(q, clock, 12)
    assert (again.id, again.attempt, again.deliveries) == (task_id, 2, 2)
    assert again.token > task.token
    assert q.stats().expired_leases == 1


def test_tokens_grow_while_the_clock_steps_back(q, clock, probe):
    """A clock that was set back stops no token from growing."""
    q.push(1)
    before = probe.pop()
    clock.advance(-3600)
    q.push(2)
    assert q.pop().task.token > before.token


def test_tokens_grow_past_a_failover(q, clock, probe):
    """A server that has lost the newest deliveries gives none of their tokens a second time."""
    for n in range(9):
        q.push(n)
    redis = probe.redis
    replicated = {key: redis.dump(key) for key in redis.keys("dpq:*")}
    lost = q.pop_many(3)
    redis.delete(*redis.keys("dpq:*"))
    for key, value in replicated.items():
        redis.restore(key, 0, value)
    clock.advance(0.001)
    again = q.pop_many(9)
    assert {task.id for task in lost} < {task.id for task in again}
    assert min(task.token for task in again) > max(task.token for task in lost)
    with pytest.raises(LeaseLostError):
        q.ack(lost[0])


def test_upkeep_before_choice(q, clock, probe):
    """With more due than one batch it says -5 until all is caught up; then it takes the best."""
    for i in range(7):
        q.push(i, priority=i, delay=10 + i)
    q.push("ready", priority=3)
    clock.advance(100)
    assert raw_pop(probe, clock, batch=3) == [-5]
    assert raw_pop(probe, clock, batch=3) == [-5]
    assert q.stats().popped == 0
    reply = raw_pop(probe, clock, batch=3)
    assert bodies(reply) == [b"6"]
    assert probe.drain() == [5, 4, 3, "ready", 2, 1, 0]


@pytest.mark.parametrize("priority", [5, 2**53 + 1], ids=["plain", "full"])
@pytest.mark.parametrize("size", [98, 998], ids=["short", "long"])
def test_bytes_bound(q, probe, clock, size, priority):
    """A batch ends where its payloads pass the bound; the rest is put back in its place."""
    for i in range(4):
        q.push(f"{i}" * size, priority=priority, group="g" if i > 1 else None)
    before = probe.stored()["ready"]
    reply = raw_pop(probe, clock, most=10, max_bytes=2.5 * size)
    assert [body[1:2] for body in bodies(reply)] == [b"0", b"1"]
    assert [member for member, _ in probe.stored()["ready"]] == [before[2][0]]
    reply = raw_pop(probe, clock, most=10, max_bytes=1.5 * size)
    assert [body[1:2] for body in bodies(reply)] == [b"2"]
    assert [body[1:2] for body in bodies(raw_pop(probe, clock, most=10, max_bytes=1))] == [b"3"]


def test_expired_when_ready(q, clock, probe):
    """A task that was not started in time is dead, and the next one is popped."""
    task_id = q.push("late", expires_in=5, priority=1)
    q.push("next")
    clock.advance(5)
    assert probe.pop().payload == "next"
    assert q.get(task_id).reason == "expired"


@pytest.mark.damaged
@pytest.mark.parametrize("options", [{}, {"cost": 2}, {"group": "g"}], ids=["plain", "full", "g"])
@pytest.mark.parametrize("payload", ["x", "x" * 998], ids=["short", "long"])
def test_missing_payload(q, probe, payload, options):
    """A task whose payload is gone is dead with that reason, and the next one is popped."""
    task_id = q.push(payload, priority=1, **options)
    q.push("next", **options)
    probe.lose_body(task_id)
    assert probe.pop().payload == "next"
    assert probe.record(task_id)["reason"] == "payload missing"
    assert probe.count("dead") == 1


UNREADABLE = {
    "priority": ["1-2", "1.2.3", "1e", "0x10", "1e400", "1" * 400],
    "attempts": ["9" * 14],
    "deliveries": ["9" * 14],
    "deferrals": ["9" * 5000],
    "max": ["9" * 5000],
    "enqueued": ["9" * 5000],
    "aging": ["nan@1", "1.2.3@1", "1e7@1"],
    "order": ["1" + "0" * 16, "0" * 16, "1" * 19],
}


@pytest.mark.damaged
@pytest.mark.parametrize("state", ["ready", "delayed", "invisible"])
@pytest.mark.parametrize("group", [None, "g"])
def test_records_that_cannot_be_read(q, clock, probe, group, state):
    """`check` names each, pop and upkeep give them up, and those beside them come."""
    texts = [(field, text) for field, texts in UNREADABLE.items() for text in texts]
    delay = 5 if state == "delayed" else 0
    bad = [q.push(0, 1, delay, group=group) for _ in texts]
    q.push_many(Push(n, delay=delay, group=group) for n in (1, 2))
    if state == "invisible":
        q.pop_many(99, visibility=5)
    for task_id, (field, text) in zip(bad, texts, strict=True):
        probe.damage(task_id, field, text)
    if not group:  # nothing says which group it has
        probe.redis.hset(probe.key("meta"), bad[-1], "junk\n0")
    assert {p.subject for p in q.check() if p.kind == "bad record"} == {*bad}
    clock.advance(10)
    q.promote()
    assert sorted(task.payload for task in q.pop_many(99)) == [1, 2]
    assert {(task.id, task.payload) for task in q.dead.list(99, reason="bad record")} == {
        (task_id, 0) for task_id in bad
    }
    assert q.check() == []


def test_lease_expiry_to_death(q, clock, probe):
    """Each delivery whose lease runs out costs one attempt; the last one is its death."""
    task_id = q.push("x", max_attempts=3)
    for attempt in (1, 2, 3):
        assert probe.pop().attempt == attempt
        clock.advance(30)
    assert q.pop().task is None
    letter = q.get(task_id)
    assert (letter.reason, letter.attempts) == ("lease expired", 3)
    assert q.stats().expired_leases == 3


def test_woken_chain(q, clock, probe):
    """A pop that follows a wait wakes the next consumer when work remains, else not."""
    for i in range(3):
        q.push(i)
    probe.woken()
    raw_pop(probe, clock, waiter="-")
    assert not probe.woken()
    raw_pop(probe, clock, waiter=0)
    assert probe.woken()
    raw_pop(probe, clock, waiter=0)
    assert not probe.woken()


def test_upkeep_wakes(q, clock, probe):
    """A pop whose upkeep made more ready than it takes wakes a waiting consumer."""
    for i in range(2):
        q.push(i, delay=10)
    clock.advance(10)
    probe.pop()
    assert probe.woken()


def test_aging(q, clock, probe):
    """With aging a task gains so many points for each second of waiting, and keeps its age."""
    queue = DPQ(q.redis, q.queue_name, aging=2, clock=clock)
    queue.push("old")
    clock.advance(10)
    queue.push("better by 21", priority=21)
    queue.push("better by 19", priority=19)
    first = queue.pop().task
    queue.release(first)
    assert probe.drain() == ["better by 21", "old", "better by 19"]


def test_aging_of_a_delayed_task(q, clock, probe):
    """Age counts from the moment the task was first due, whatever happens afterwards."""
    queue = DPQ(q.redis, q.queue_name, aging=1, clock=clock)
    queue.push("delayed", delay=50)
    clock.advance(45)
    queue.push("older by 5")
    clock.advance(5)
    assert [task.payload for task in queue.pop_many(9)] == ["older by 5", "delayed"]
    queue.purge()
    queue.push("delayed", delay=50)
    task_id = queue.push("moved", delay=50)
    queue.update(task_id, delay=10)
    clock.advance(60)
    assert [task.payload for task in queue.pop_many(9)] == ["moved", "delayed"]
