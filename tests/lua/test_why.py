"""why: what keeps a task from running, in one sentence."""

import re

import pytest
from kit.limits import LONG

from dpq import Push, Quota, RateLimit, TaskNotFoundError


def attend(q):
    """Let a worker send a heartbeat, so that the queue has a consumer."""
    q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 0, 2, 4.0)


def test_nobody_takes_it(q):
    """Without any consumer it is not "next": the sentence says that nobody takes tasks."""
    ids = [q.push(i) for i in range(2)]
    nobody = "nobody takes it: 2 tasks are due, and no consumer has ever asked for one"
    assert q.why(ids[0]) == f"it is ready, but {nobody}"
    assert q.why(ids[1]) == f"it is ready behind 1 ready task, but {nobody}"
    attend(q)
    assert q.why(ids[0]) == "it is ready: next"


def test_next(q):
    """The first of an open queue is next, with a group or without."""
    attend(q)
    task_id = q.push("x")
    assert q.why(task_id) == "it is ready: next"
    task_id = q.push("y", priority=1, group="g")
    assert q.why(task_id) == "it is ready: next"


def test_behind(q):
    """Behind others: how many ready ones, and how many of its own group."""
    attend(q)
    first = q.push("first", priority=3)
    second = q.push("second", priority=2, group="g")
    third = q.push("third", priority=1, group="g")
    last = q.push("last", group="g")
    alone = q.push("alone", priority=-1)
    assert q.why(first) == "it is ready: next"
    assert q.why(second) == "it is ready: behind 1 ready task"
    assert q.why(third) == ("it is waiting: behind 1 task of its group and 1 other ready task")
    assert q.why(last) == "it is waiting: behind 2 tasks of its group and 1 other ready task"
    assert q.why(alone) == "it is ready: behind at least 2 ready tasks"


def test_delayed(q, clock):
    """Delayed: until it is due, also behind a closed group."""
    task_id = q.push("x", delay=60, group="g")
    clock.advance(12.34)
    assert q.why(task_id) == "it is delayed: due in 47.7 s"
    q.delay_group("g", 600)
    assert q.why(task_id) == "it is delayed: due in 47.7 s"
    clock.advance(100)
    assert q.why(task_id) == "it is delayed: due in 0.0 s"


def test_running(q, clock):
    """Running: until its lease ends."""
    task_id = q.push("x")
    q.pop(visibility=30)
    clock.advance(10)
    assert q.why(task_id) == "it is running: its lease ends in 20.0 s"
    clock.advance(25)
    assert q.why(task_id) == "it is running: its lease ends in 0.0 s"


@pytest.mark.parametrize(
    ("seconds", "told"), [(None, "until it is resumed"), (90, "for another 90.0 s")]
)
def test_paused(q, clock, seconds, told):
    """Paused: for how long, and where it stands then."""
    ids = [q.push(i) for i in range(2)]
    q.pause(seconds)
    assert q.why(ids[0]) == f"the queue is paused {told}, and it is first then"
    assert q.why(ids[1]) == f"the queue is paused {told}, and it is behind 1 ready task then"
    if seconds:
        clock.advance(90)
        attend(q)
        assert q.why(ids[0]) == "it is ready: next"


def test_group_closed_by_a_429(q, clock):
    """In a group that a 429 has closed, and while its probe runs."""
    ids = [q.push(i, group="g") for i in range(2)]
    q.rate_limited(q.pop().task, 60)
    assert q.why(ids[1]) == (
        "its group 'g' is closed (rate limited by its host) for another 60.0 s, and it is behind 1 "
        "task of its group "
        "then"
    )
    clock.advance(60)
    assert q.pop(visibility=LONG).task.id == ids[0]
    assert q.why(ids[1]) == (
        "its group 'g' is closed (the first task after a rate limit is still running), and it is "
        "first "
        "then"
    )


def test_group_spent(q, clock):
    """In a group whose rate is spent: until the next unit."""
    ids = [q.push(i, group="g") for i in range(3)]
    q.set_limit(1, 10, group="*")
    q.pop()
    clock.advance(4)
    told = "its group 'g' is closed (1/10s is spent) for another 6.0 s, and it is"
    assert q.why(ids[1]) == f"{told} first then"
    assert q.why(ids[2]) == (
        f"{told} behind 1 task of its group then, so it may run after about 16 s"
    )


def test_order_is_that_of_pop(q):
    """Over groups and priorities `behind at least n` counts heads in the order of pop."""
    attend(q)
    q.push_many(
        Push(payload=i, priority=(i * 7) % 5, group="abc"[i % 3] if i % 4 else None)
        for i in range(24)
    )
    heads = q.peek(100)
    told = ["it is ready: next", "it is ready: behind at least 1 ready task"]
    told += [f"it is ready: behind at least {n} ready tasks" for n in range(2, len(heads))]
    assert [q.why(task.id) for task in heads] == told


def test_unknown(q):
    """An id that is not stored is a TaskNotFoundError."""
    with pytest.raises(TaskNotFoundError, match="cannot explain task 'nobody'"):
        q.why("nobody")


@pytest.mark.parametrize(
    ("kind", "group"),
    [("even", None), ("even", "g"), ("closed", "g"), ("quota", None), ("costs", "g")],
)
def test_about_when(q, clock, kind, group):
    """Behind others, it says about when the limits let it run."""
    if kind == "closed":
        q.delay_group("g", 60)
    limit = Quota(2, "hour") if kind == "quota" else RateLimit(10, 60, 1)
    q.set_limit(limit, group=group)
    if kind == "quota":
        q.push_many(Push(payload=i, group=group, priority=9) for i in range(2))
        q.ack_many(q.pop_many(2))
    before = 20 if kind == "even" else 7
    cost = 9 if kind == "costs" else 1
    q.push_many(Push(payload=i, group=group, cost=cost) for i in range(before))
    task_id = q.push("x", group=group)
    attend(q)
    told = re.search(
        r"so it may run after about ((\d+) h ?)?((\d+) m ?)?((\d+) s)?$", q.why(task_id)
    )
    assert told
    seconds = sum(int(told[i] or 0) * by for i, by in ((2, 3600), (4, 60), (6, 1)))
    start = clock()
    while True:
        popped = q.pop(visibility=LONG).task
        if popped and popped.id == task_id:
            break
        clock.advance(0 if popped else q.next_event() or (60 if kind == "quota" else 1))
        if popped:
            q.ack(popped)
    took = (clock() - start) / 1000
    assert took / 1.5 <= seconds <= took * 1.5


def test_nobody_and_a_limit(q):
    """Without a consumer, it says that and what the limit says."""
    ids = [q.push(i) for i in range(21)]
    q.set_limit(10, 60)
    told = q.why(ids[-1])
    assert "behind 20 ready tasks, so it may run after about 2 m, but nobody takes it" in told
    q.delay_group("g", 60)
    told = q.why(q.push("x", group="g"))
    assert "closed (by hand) for another 60.0 s" in told
    assert "but nobody takes it" in told


def test_tasks_behind_the_heads_of_others(q):
    """Of other groups only heads are counted, and it says so."""
    attend(q)
    q.push_many(Push(payload=i, group="h", priority=1) for i in range(100))
    ids = [q.push(i, group="g") for i in range(40)]
    told = "it is waiting: behind 39 tasks of its group and at least 1 other ready task"
    assert q.why(ids[-1]) == told
    q.set_limit(60, 60)
    assert q.why(ids[-1]) == f"{told}, so it may run after at least 40 s"
