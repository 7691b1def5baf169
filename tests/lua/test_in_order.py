"""in_order: while a task waits for its retry, no other task of its group runs."""

import random

import pytest

from dpq import LeaseLostError

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


@pytest.mark.parametrize("seed", range(2))
def test_strict_order_whatever_happens(q, clock, seed):
    """Tasks of a key are finished or given up in the order of their pushes, over any course."""
    chance = random.Random(seed)
    q.set_limit(group="*", in_order=True)
    ended = {"a": set(), "b": set()}
    begun = {"a": -1, "b": -1}
    pushed = {"a": 0, "b": 0}
    held = []
    for _ in range(250):
        step = chance.randrange(8)
        name = chance.choice("ab")
        if step < 2:
            q.push(pushed[name], group=name, max_attempts=3)
            pushed[name] += 1
        elif step < 5:
            for task in q.pop_many(chance.randint(1, 3), visibility=7):
                assert task.payload >= begun[task.group], "none runs before the one ahead of it"
                assert task.payload == len(ended[task.group]), "all before it have ended"
                begun[task.group] = task.payload
                held.append(task)
        elif step == 5:
            clock.advance(chance.choice([0.5, 3, 8]))
        elif held:
            task = held.pop()  # the newest: older ones have lost their leases
            way = chance.choice(["ack", "ack", "ack", "fail", "fail", "release", "hide", "429"])
            try:
                if way == "ack" and q.ack(task):
                    ended[task.group].add(task.payload)
                elif way == "fail":
                    q.fail(task, "no", chance.choice([0, 2, 5]))
                elif way == "release":
                    q.release(task, chance.choice([0, 2]))
                elif way == "hide":
                    q.set_visibility(task, chance.choice([0, 4]))
                elif way == "429":
                    q.rate_limited(task, 2, chance.choice(["task", "group"]))
            except LeaseLostError:
                pass
        q.promote()
        for dead in q.dead.list(1000):
            ended[dead.group].add(dead.payload)
        assert q.check() == []
    assert sum(map(len, ended.values())) > 5
