"""in_order: while a task waits for its retry, no other task of its group runs."""

import pytest

WAYS = {
    "fail": lambda q, task: q.fail(task, "no", 30),
    "release": lambda q, task: q.release(task, 30),
    "set_visibility": lambda q, task: q.set_visibility(task, 30),
    "a 429 of the task": lambda q, task: q.rate_limited(task, 30, "task"),
    "a 429 of the group": lambda q, task: q.rate_limited(task, 30, "group"),
}


def ready(q):
    """The payloads of what a pop gives now."""
    return [task.payload for task in q.pop_many(10)]


@pytest.fixture
def group(q):
    """A group in order with the tasks 0 to 3, beside a task of another group."""
    q.set_limit(group="g", in_order=True)
    return [q.push(n, group="g") for n in range(4)]


@pytest.mark.parametrize("way", WAYS)
def test_one_never_runs_before_nought(q, clock, group, way):
    """However a task comes back later, it comes first, and none of its group before it."""
    task = q.pop().task
    WAYS[way](q, task)
    other = q.push("other", group="h")
    assert ready(q) == ["other"]
    q.cancel(other)
    clock.advance(29)
    q.promote()
    assert ready(q) == []
    clock.advance(1)
    again = q.pop().task
    assert (again.payload, again.id) == (0, group[0])
    assert q.pop().task is None
    q.ack(again)
    assert q.pop().task.payload == 1


@pytest.mark.parametrize(
    "end",
    [
        lambda q, id_: q.cancel(id_),
        lambda q, id_: q.purge("delayed"),
        lambda q, id_: q.update(id_, delay=600),
        lambda q, id_: q.clear_limit("g"),
    ],
    ids=["cancel", "purge", "update", "clear_limit"],
)
def test_what_opens_the_group(q, clock, group, end):
    """Once its first task is gone, or postponed by hand, the next one goes."""
    q.fail(q.pop().task, "no", 300)
    assert ready(q) == []
    end(q, group[0])
    assert q.pop().task.payload == 1


def test_a_dead_task_lets_the_next_go(q, clock):
    """Attempts that are spent, or a burial, end the wait."""
    q.set_limit(group="*", in_order=True)
    q.push("a", group="g", max_attempts=2)
    q.push("b", group="g")
    q.push("c", group="g")
    q.fail(q.pop().task, "no", 5)
    clock.advance(5)
    q.fail(q.pop().task, "no", 5)
    task = q.pop().task
    assert task.payload == "b"
    q.bury(task, "no")
    assert ready(q) == ["c"]


def test_new_delays_hold_nothing(q, clock):
    """A task that is pushed with a delay, replayed, or comes back as a recurring one holds none."""
    q.set_limit(group="g", in_order=True)
    q.push("later", delay=60, group="g")
    q.push("often", every=60, group="g", priority=1)
    q.push("now", group="g")
    task = q.pop().task
    assert task.payload == "often"
    q.ack(task)
    task = q.pop().task
    assert task.payload == "now"
    q.bury(task, "no")
    q.push("last", group="g")
    q.dead.replay(rate=0.001)
    assert ready(q) == ["now"]
