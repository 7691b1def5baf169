"""push_plain, pop_plain and ack_plain: they do what push, pop and ack do, or nothing."""

import pytest

from dpq import DPQ, Push, RateLimit

REFUSED = [-5]


def taken(probe, clock, name, most=3, max_bytes=10**6):
    """What a raw pop answers, and what is stored then."""
    args = [clock(), most, 30_000, max_bytes]
    args += [] if name == "pop_plain" else [100, ""]
    return probe.call(name, *args), probe.stored()


@pytest.fixture
def plain(q, clock, probe):
    """A queue of plain tasks, whose next event is known."""
    for i in range(40):
        q.push(i, priority=i % 7)
    q.pop(visibility=20)
    return q


@pytest.mark.parametrize(("most", "max_bytes"), [(1, 10**6), (3, 10**6), (40, 10**6), (40, 23)])
def test_as_pop(plain, clock, probe, redis, most, max_bytes):
    """It answers and stores what pop does: tasks, tokens, leases, times, whatever bounds it."""
    kept = {part: redis.dump(probe.key(part)) for part in probe.stored()}
    long = taken(probe, clock, "pop", most, max_bytes)
    redis.delete(*map(probe.key, probe.stored()))
    for part, dump in kept.items():
        redis.restore(probe.key(part), 0, dump)
    assert taken(probe, clock, "pop_plain", most, max_bytes) == long
    assert len(long[0]) > 2 * min(most, 12)


GROUPED = {
    "groups": [],
    "each group": [{"rate": [RateLimit(20, 10, 2)], "group": "*"}],
    "closing": [{"rate": [RateLimit(1, 10)], "group": "*"}],
    "concurrency": [{"rate": [RateLimit(50, 10, 50)], "group": "*", "concurrency": 2}],
    "own": [{"rate": [RateLimit(3, 10)], "group": "g1"}],
    "queue": [{"rate": [RateLimit(30, 10, 12)]}],
    "moving": [
        {"rate": [RateLimit(30, 10, moving=True)]},
        {"rate": [RateLimit(3, 10, moving=True)], "group": "*", "concurrency": 2},
    ],
    "own moving": [{"rate": [RateLimit(4, 10, moving=True)], "group": "g1"}],
    "all": [
        {"rate": [RateLimit(30, 10, 12)]},
        {"rate": [RateLimit(30, 10, 3)], "group": "*", "concurrency": 2},
        {"rate": [RateLimit(3, 10)], "group": "g1"},
    ],
}


@pytest.mark.parametrize("kind", GROUPED)
def test_groups_as_pop(plain, clock, probe, redis, kind):
    """With groups, windows and concurrency, it answers and stores what pop does, or refuses."""
    for limit in GROUPED[kind]:
        plain.set_limit(**limit)
    plain.push_many([Push(i, group=f"g{i % 5}", priority=i % 9) for i in range(60)])
    served = 0
    for _ in range(12):
        kept = {part: redis.dump(probe.key(part)) for part in probe.stored()}
        short = taken(probe, clock, "pop_plain", 2)
        redis.delete(*map(probe.key, probe.stored()))
        for part, dump in kept.items():
            redis.restore(probe.key(part), 0, dump)
        long = taken(probe, clock, "pop", 2)
        if short[0] == REFUSED:
            continue
        served += 1
        if len(short[0]) == len(long[0]):
            assert short == long
        else:
            assert short[0] == long[0][: len(short[0])]
    assert served > 3


REASONS = {
    "empty": lambda q, clock, probe: q.pop_many(99),
    "paused": lambda q, clock, probe: q.pause(),
    "limit": lambda q, clock, probe: q.set_limit(concurrency=9),
    "spent": lambda q, clock, probe: [q.set_limit(1, 99), q.pop()],
    "costs": lambda q, clock, probe: [
        q.set_limit(9, 1, group="*"),
        q.push("c", cost=2),
        q.push("g", priority=9, group="g"),
    ],
    "own limit": lambda q, clock, probe: [
        q.set_limit(concurrency=1, group="g"),
        q.push("g", priority=9, group="g"),
    ],
    "many in groups": lambda q, clock, probe: q.push_many([Push(i, group="g") for i in range(9)]),
    "upkeep": lambda q, clock, probe: clock.advance(20),
    "delivered": lambda q, clock, probe: q.release(q.pop().task),
    "full": lambda q, clock, probe: q.push("k", priority=99, key="k"),
    "long": lambda q, clock, probe: q.push("x" * 600, priority=99),
    "no event": lambda q, clock, probe: q.redis.hdel(probe.key("conf"), "next_event"),
    "sooner": lambda q, clock, probe: q.redis.hset(probe.key("conf"), "next_event", "9e15"),
    "format": lambda q, clock, probe: q.redis.hset(probe.key("conf"), "format", "1"),
}


@pytest.mark.damaged
@pytest.mark.parametrize("reason", REASONS)
def test_refused(plain, clock, probe, reason):
    """Whatever is not plain is left to pop, and nothing has changed."""
    REASONS[reason](plain, clock, probe)
    before = probe.stored()
    most = 17 if reason == "many in groups" else 3
    assert taken(probe, clock, "pop_plain", most) == (REFUSED, before)


PUSHED = ["a", "-3", " 3\t\n1", "b", "7", "4 -7\t\n2"]


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_as_push(q, clock, probe, redis, order):
    """It answers and stores what push does."""
    DPQ(redis, q.queue_name, order=order, clock=clock).push("before", priority=5)
    kept = {part: redis.dump(probe.key(part)) for part in probe.stored()}
    found = []
    for name in ("push", "push_plain"):
        redis.delete(*map(probe.key, probe.stored()))
        for part, dump in kept.items():
            redis.restore(probe.key(part), 0, dump)
        found.append((probe.call(name, clock(), *PUSHED), probe.stored()))
    assert found[0] == found[1]
    assert found[0][0] == [0]
    tasks = [(task.payload, task.max_attempts) for task in q.pop_many(9)]
    assert tasks == [("before", 10), (1, 10), (2, 4)]


UNPUSHED = {
    "known": lambda probe: [probe.call("push", 0, *PUSHED[3:]), *PUSHED][1:],
    "full": lambda probe: [*PUSHED, "c", '{"priority":"0","max_attempts":9}', "1"],
    "costs": lambda probe: [*PUSHED, "?"],
    "payloads": lambda probe: [probe.redis.hset(probe.key("conf"), "payloads", "apart"), *PUSHED][
        1:
    ],
    "aging": lambda probe: [probe.redis.hset(probe.key("conf"), "aging", "0.5"), *PUSHED][1:],
    "turns": lambda probe: [
        probe.redis.hset(probe.key("conf"), "fairness", "round_robin"),
        *PUSHED,
    ][1:],
    "format": lambda probe: [probe.redis.hset(probe.key("conf"), "format", "1"), *PUSHED][1:],
}


@pytest.mark.damaged
@pytest.mark.parametrize("reason", UNPUSHED)
def test_unpushed(plain, clock, probe, reason):
    """Whatever is not plain is left to push, and nothing has changed."""
    args = UNPUSHED[reason](probe)
    before = probe.stored()
    assert probe.call("push_plain", clock(), *args) == REFUSED
    assert probe.stored() == before


def test_ack_refuses(plain, probe, clock):
    """What ack_plain does not know is left to ack, and nothing has changed."""
    tasks = plain.pop_many(3)
    plain.set_visibility(tasks[1], 9)
    plain.ack(tasks[2])
    before = probe.stored()
    wrong = [(tasks[0], tasks[0].token - 1), (tasks[1], tasks[1].token), (tasks[2], tasks[2].token)]
    for task, token in wrong:
        assert probe.call("ack_plain", clock(), task.id, token) == REFUSED
    assert probe.stored() == before
    assert probe.call("ack_plain", clock(), tasks[0].id, tasks[0].token) == []
    assert plain.ack(tasks[0]) is False


REOPENED = {
    "full": {"rate": [RateLimit(50, 10, 50)], "concurrency": 1},
    "own": {"rate": [RateLimit(50, 10, 50)], "concurrency": 2, "group": "g"},
    "window": {"rate": [RateLimit(1, 10)], "concurrency": 1},
    "moving": {"rate": [RateLimit(1, 10, moving=True)], "concurrency": 1},
    "not full": {"rate": [RateLimit(1, 10)], "concurrency": 2},
}


@pytest.mark.parametrize("waits", [0, 2])
@pytest.mark.parametrize("kind", REOPENED)
def test_ack_of_a_closed_group(plain, clock, probe, redis, kind, waits):
    """It opens a group that was full as ack does, or says when its window lets it open."""
    plain.set_limit(**({"group": "*"} | REOPENED[kind]))
    for i in range(REOPENED[kind]["concurrency"] + waits):
        plain.push(i, group="g", priority=9)
    tasks = plain.pop_many(1 if kind == "not full" else REOPENED[kind]["concurrency"])
    assert {task.group for task in tasks} == {"g"}
    if waits:
        assert probe.stored()["closed"]
    kept = {part: redis.dump(probe.key(part)) for part in probe.stored()}
    found = []
    for name in ("ack", "ack_plain"):
        redis.delete(*map(probe.key, probe.stored()))
        for part, dump in kept.items():
            redis.restore(probe.key(part), 0, dump)
        found.append((probe.call(name, clock(), tasks[0].id, tasks[0].token), probe.stored()))
    assert found[0] == found[1]
    assert found[0][0] == []


def test_other_groups_of_a_queue_with_closed_ones(plain, clock, probe):
    """A 429 of one group sends no pop of other groups the long way."""
    plain.push_many([Push(i, group=f"g{i}", priority=9) for i in range(3)])
    plain.rate_limited(plain.pop().task, 60)
    reply, stored = taken(probe, clock, "pop_plain", 2)
    assert len(reply) == 5
    assert [group for group, _ in stored["closed"]] == [b"g0"]
