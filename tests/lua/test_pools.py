"""Pools: a group whose tasks run as one of several members, each with a limit of its own."""

from collections import Counter
from typing import Any

from kit.limits import LONG, fill, take

from dpq import DPQ
from dpq.types import MemberState

KEYS = ["key-a", "key-b", "key-c"]


def members(q: DPQ[Any], most: int = 1000) -> list[str | None]:
    """The members as which tasks run now, under leases that do not end."""
    return [task.member for task in q.pop_many(most, visibility=LONG)]


def member(q: DPQ[Any], name: str = "key-a") -> MemberState:
    """What is shown of one member of group g."""
    return next(state for state in q.admin.group("g").members if state.name == name)


def test_each_member_has_the_whole_limit(q, clock):
    """Three members give three times the rate, each its own; bursts, too."""
    q.set_limit(60, 60, burst=2, group="g", members=KEYS)
    fill(q, 100)
    assert members(q) == KEYS * 2
    for _ in range(5):
        clock.advance(0.999)
        assert members(q) == []
        clock.advance(0.001)
        assert members(q) == KEYS
    assert [state.units_left for state in q.admin.group("g").members] == [(0.0,)] * 3
    assert q.check() == []


def test_the_one_that_was_granted_least_recently(q, clock):
    """Open members take turns, whatever the size of the pops, also in one millisecond and after the
    clock was set back; a new one comes first."""
    q.set_limit(600, 60, burst=50, group="g", members=KEYS)
    fill(q, 100)
    seen = []
    for n, most in enumerate((1, 1, 2, 1, 4, 1, 3, 7)):
        seen += members(q, most)
        clock.advance((0.001, 0, -0.002)[n % 3])
    assert seen == [KEYS[i % 3] for i in range(20)]
    q.set_limit(600, 60, burst=50, group="g", members=[*KEYS, "new"])
    assert members(q, 5) == ["new", "key-c", "key-a", "key-b", "new"]


def test_the_member_is_part_of_the_delivery(q, clock):
    """It is shown while the delivery is live, also by get and peek; the next one has its own."""
    q.set_limit(60, 60, group="g", members=["a", "b"])
    q.push({"x": 1}, group="g")
    task = take(q)
    assert (task.member, task.pinned) == ("a", None)
    assert q.get(task.id).member == "a"
    assert q.peek(1, "invisible")[0].member == "a"
    q.release(task)
    assert take(q).member == "b"
    q.push("no group", 9)
    assert take(q).member is None


def test_an_ended_lease_frees_its_member(q, clock, probe):
    """Concurrency is counted for each member, and each way to end a lease gives its place back."""
    q.set_limit(concurrency=1, group="g", members=["a", "b"])
    fill(q, 30)
    tasks = q.pop_many(9, visibility=LONG)
    assert [task.member for task in tasks] == ["a", "b"]
    assert probe.redis.zrange(probe.key("tracked"), 0, -1) == [
        f"g\t{task.member}\t{task.id}".encode() for task in tasks
    ]
    ends: list[Any] = [
        q.ack,
        lambda task: q.ack_many([task]),
        q.fail,
        q.release,
        lambda task: q.bury(task, "no"),
        lambda task: q.set_visibility(task, 50),
        lambda task: q.cancel(task.id),
        lambda task: q.rate_limited(task, 0, "task"),
    ]
    for end in ends:
        state = q.admin.group("g")
        assert (state.open, state.reason, state.in_flight) == (False, "concurrency", 2)
        assert [(m.in_flight, m.reason) for m in state.members] == [(1, "concurrency")] * 2
        assert q.pop().task is None
        assert q.check() == []
        end(tasks[0])
        assert member(q, str(tasks[0].member)).open
        tasks = [tasks[1], take(q)]
        assert tasks[1].member in {"a", "b"} - {tasks[0].member}
    q.extend(tasks[0], 5)
    clock.advance(5)
    assert take(q).member == tasks[0].member
    assert q.check() == []


def test_a_429_closes_the_member_alone(q, clock):
    """The others go on; its first task afterwards is a probe of that member."""
    q.set_limit(60, 60, burst=3, group="g", members=KEYS)
    fill(q, 100)
    first = take(q)
    q.rate_limited(first, 10)
    assert (member(q).reason, member(q, "key-b").reason) == ("rate limited", None)
    assert q.admin.group("g").open
    assert Counter(members(q)) == {"key-b": 3, "key-c": 3}
    clock.advance(9.999)
    assert "key-a" not in members(q)
    clock.advance(0.001)
    probe = take(q)
    assert (probe.member, member(q).reason) == ("key-a", "probe")
    clock.advance(5)
    assert "key-a" not in members(q)
    q.ack(probe)
    assert "key-a" in members(q)
    assert q.check() == []


def test_a_pinned_task_runs_as_its_member(q, clock):
    """Whatever was granted less recently; its group waits for it, since its best task is first."""
    q.set_limit(60, 60, burst=1, group="g", members=KEYS)
    for payload, name in enumerate(["key-b", "key-b", None, "key-a"]):
        q.push(payload, group="g", member=name)
    task = take(q)
    assert (task.payload, task.member, task.pinned) == (0, "key-b", "key-b")
    waits = q.peek(1, "waiting")[0].id
    assert q.pop().task is None
    told = q.why(waits)
    assert told.startswith("it runs only as 'key-b', which is closed (60/min is spent) for ")
    clock.advance(1)
    assert [(t.payload, t.member) for t in q.pop_many(9, visibility=LONG)] == [
        (1, "key-b"),
        (2, "key-a"),
    ]
    clock.advance(1)
    assert [(t.payload, t.member) for t in q.pop_many(9, visibility=LONG)] == [(3, "key-a")]
    assert q.check() == []


def test_a_pin_without_a_pool_and_outside_of_it(q, clock):
    """Without members it means nothing; while the pool lacks it, the task waits, and says so."""
    task_id = q.push(1, group="g", member="gone")
    task = take(q)
    assert (task.member, task.pinned) == (None, "gone")
    q.release(task)
    q.set_limit(60, 60, group="g", members=["a"])
    assert q.pop().task is None
    assert "'gone', which is no member of its group's pool" in q.why(task_id)
    clock.advance(10**6)
    assert q.pop().task is None
    q.set_limit(60, 60, group="g", members=["a", "gone"])
    assert take(q).member == "gone"
    assert q.check() == []


def test_members_that_stay_keep_their_past(q, clock):
    """A changed pool loses no grant, and a member that comes back too soon still owes its own."""
    q.set_limit(1, 60, group="g", members=["a", "b"])
    fill(q, 100)
    assert members(q) == ["a", "b"]
    q.delay_group("g", 1, member="a")
    q.set_limit(1, 60, group="g", members=["b", "c"])
    assert members(q) == ["c"]
    for _ in range(9):  # prune looks at it
        q.promote()
    clock.advance(1)
    q.set_limit(1, 60, group="g", members=["a", "b", "c"])
    assert members(q) == []
    clock.advance(59)
    assert sorted(members(q)) == ["a", "b", "c"]
