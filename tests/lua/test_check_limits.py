"""check_limits: every kind of damage to what limits keep is found, and a sound queue has none."""

from collections.abc import Callable

import pytest

from dpq import Adaptive, Problem, Push, RateLimit

Found = tuple[str, str, str]  # kind, subject and detail
LONG = 10**8  # seconds of a lease that does not end by itself


@pytest.fixture
def ids(q, clock) -> dict[str, str]:
    """The ids of running tasks: of a counted group, of a group's probe, and of the queue's."""
    ids = {}
    for name in ("probe", "counted", "free"):
        ids[name] = q.push(name, group=None if name == "free" else name)
    q.set_limit([RateLimit(3, 1, burst=2), RateLimit(5, 10, burst=2)], group="probe")
    q.set_limit(2, 1, 9, concurrency=7, adaptive=Adaptive(1, 5))
    q.set_limit(concurrency=2, group="counted")
    q.rate_limited(q.pop().task, 1)
    clock.advance(1)
    assert len(q.pop_many(3, visibility=LONG)) == 3
    q.push("x", group="closed")
    q.delay_group("closed", 60)
    assert q.check() == []
    return ids


def bad_gate(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("gates"), "g", "nonsense")
    return {("bad gate", "g", "nonsense")}


def gate_with_an_exponent(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("gates"), "g", "- 1e+17 ")
    return {("bad gate", "g", "- 1e+17 ")}


def bad_gate_of_the_queue(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("conf"), "queue_gate", "5 x")
    return {("bad gate", "", "5 x")}


def probe_without_a_lease(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("gates"), "g", "0 - nobody 0 0 0 ")
    return {("probe without a lease", "g", "nobody")}


def queues_probe_without_a_lease(probe, ids) -> set[Found]:
    probe.redis.hset(probe.key("conf"), "queue_gate", "0 l nobody 0 0 0 7.25 ")
    return {("probe without a lease", "", "nobody")}


def lease_that_has_ended(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("tracked"), {"counted\tgone": 0})
    return {("lease that has ended", "counted\tgone", "in tracked")}


def counted_but_not_running(probe, ids) -> set[Found]:
    task_id = probe.q.push("delayed", group="counted", delay=60)
    probe.redis.zadd(probe.key("tracked"), {f"counted\t{task_id}": 0})
    return {("lease that has ended", f"counted\t{task_id}", "in tracked")}


def counted_for_another_group(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("tracked"), {f"other\t{ids['counted']}": 0})
    return {("lease that has ended", f"other\t{ids['counted']}", "in tracked")}


def no_member_at_all(probe, ids) -> set[Found]:
    probe.redis.zadd(probe.key("tracked"), {"nonsense": 0})
    return {("lease that has ended", "nonsense", "in tracked")}


def lease_not_counted(probe, ids) -> set[Found]:
    probe.redis.zrem(probe.key("tracked"), f"counted\t{ids['counted']}")
    return {("lease not counted", ids["counted"], "counted")}


DAMAGES = [
    bad_gate,
    gate_with_an_exponent,
    bad_gate_of_the_queue,
    probe_without_a_lease,
    queues_probe_without_a_lease,
    lease_that_has_ended,
    counted_but_not_running,
    counted_for_another_group,
    no_member_at_all,
    lease_not_counted,
]


@pytest.mark.damaged
@pytest.mark.parametrize("plant", DAMAGES, ids=lambda plant: plant.__name__)
def test_finds(q, probe, ids, plant: Callable):
    """Planted damage is reported with its kind, subject and detail, and nothing else is."""
    expected = plant(probe, ids)
    assert {(found.kind, found.subject, found.detail) for found in q.check()} == expected


def test_sound(q, clock, probe, ids):
    """What limits keep in every kind of state is sound: waiters at a full queue included."""
    q.set_limit(concurrency=3)
    q.push("more")
    assert q._drive(q._commands.pop(1, None, "-")).tasks == []
    assert b"\t" in {member for member, _ in probe.stored()["tracked"]}
    assert q.check() == []
    q.clear_limit("counted")
    q.clear_limit("probe")
    assert q.check() == []
    q.purge()
    assert q.check() == []


@pytest.mark.damaged
def test_finds_damage_on_a_later_page(server, q, probe):
    """The cursor is followed to the end in each part."""
    q.set_limit(concurrency=700, group="g")
    q.push_many(Push(payload=i, group="g") for i in range(500))
    tasks = [task for _ in range(2) for task in q.pop_many(250, visibility=LONG)]
    gates = {f"g{i}": "- 5 " for i in range(500)}
    probe.redis.hset(probe.key("gates"), mapping=gates | {"g456": "bad"})
    probe.redis.zrem(probe.key("tracked"), f"g\t{tasks[321].id}")
    probe.redis.zadd(probe.key("tracked"), {"g\tgone": 0})
    assert sorted(q.check(), key=lambda found: found.kind) == [
        Problem(kind="bad gate", subject="g456", detail="bad"),
        Problem(kind="lease not counted", subject=tasks[321].id, detail="g"),
        Problem(kind="lease that has ended", subject="g\tgone", detail="in tracked"),
    ]


def test_page_is_bounded(server, q, clock, probe):
    """One call looks at about `count` entries and says where to go on."""
    q.push_many(Push(payload=i) for i in range(600))
    for _ in range(3):
        q.pop_many(200, visibility=LONG)
    cursor, *found = probe.call("check_limits", clock(), "invisible", "0", 10)
    assert cursor != b"0"
    assert found == []


def test_changes_nothing(q, clock, probe, ids):
    """A check leaves everything as it was."""
    clock.advance(100)
    before = probe.stored()
    q.check()
    assert probe.stored() == before
