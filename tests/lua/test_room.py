"""Bounds of a queue: which pushes they refuse, what is dropped, and whom a freed place calls."""

import pickle

import pytest

from dpq import ConfigurationError, Push, QueueFullError
from dpq.model.producer import Producer
from dpq.types import Bounds


def stand(q, group=""):
    """A producer that stands in the line of a full queue or group."""
    producer = Producer(0, None)
    producer.group = group
    assert q._session.run(q._operations.await_room, producer)
    return producer


def line(q, probe):
    """The ids of the producers that wait, in the order in which they are called."""
    entries = q.redis.zrange(probe.key("tracked"), 0, -1)
    return [entry.decode().split("\x0b")[1].split("\x0e")[0] for entry in entries]


def test_a_full_queue_takes_nothing(q, probe):
    """A push beyond `max_tasks` is refused with size and bound, and nothing is written."""
    q.admin.set_bounds(max_tasks=3)
    q.push("a")
    q.push("b", delay=9)
    q.push("c", group="g")
    probe.pop()  # a running task counts, too
    before = probe.stored()
    for how in ({}, {"delay": 5}, {"group": "g"}, {"key": "k"}):
        with pytest.raises(QueueFullError, match="holds 3 of at most 3 tasks") as caught:
            q.push("x", **how)
        assert (caught.value.size, caught.value.bound, caught.value.group) == (3, 3, None)
    assert probe.stored() == before
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (str(copy), copy.stored) == (str(caught.value), {})


def test_a_batch_is_added_whole_or_not_at_all(q, clock):
    """Earlier batches of a `push_many` stay, and the error names their tasks."""
    q.admin.set_bounds(max_tasks=200)
    with pytest.raises(QueueFullError, match="125 of at most 200") as caught:
        q.push_many(Push(i) for i in range(250))
    stored = caught.value.stored
    assert sorted(stored) == list(range(125))
    assert q.size() == 125
    assert all(q.get(id_).payload == index for index, id_ in stored.items())
    q.admin.set_bounds(max_tasks=100)
    with pytest.raises(QueueFullError, match="push at most 100 at once"):
        q.push_many(Push(i) for i in range(125))


def test_a_full_group_takes_nothing(q, probe):
    """`max_waiting` counts the due tasks of a group that no consumer has: its head, and behind."""
    q.admin.set_bounds(max_waiting=2)
    ids = [q.push(i, group="g") for i in range(2)]
    with pytest.raises(QueueFullError, match=r"group 'g' .* waiting 2 of at most 2") as caught:
        q.push("x", group="g")
    assert (caught.value.group, caught.value.size) == ("g", 2)
    with pytest.raises(QueueFullError, match=r"0 of at most 2 .* 3 more"):
        q.push_many([Push("y", group="h"), *[Push("x", group="g2")] * 3])
    q.push("other", group="h")
    q.push("later", group="g", delay=5)  # it does not wait yet
    q.delay_group("g", 60)  # a closed group has no head, and as many tasks
    with pytest.raises(QueueFullError, match="waiting 2 of"):
        q.push("x", group="g")
    q.delay_group("g", 0)
    assert q.pop().task.id == ids[0]
    q.push("now", group="g")


def test_the_worst_task_of_a_full_group_is_dropped(q, probe):
    """With `drop_worst` a full group keeps its best tasks; the others are dead letters."""
    q.admin.set_bounds(max_waiting=2, when_full="drop_worst")
    ids = [q.push(i, priority=i, group="g", key=f"k{i}") for i in (3, 1, 2, 0)]
    assert [(d.id, d.reason) for d in q.dead.list()] == [
        (ids[1], "group full"),
        (ids[3], "group full"),
    ]
    assert (q.stats().buried, q.size()) == (2, 2)
    q.push_many([Push("a", 9, group="g"), Push("b", group="g"), Push("c", 8, group="g")])
    assert q.stats().dead == 5
    assert probe.drain() == ["a", "c"]


def test_a_push_does_not_pay_for_tasks_that_came_back(q, probe):
    """A push into a group that is far above its bound drops as many tasks as it brings."""
    q.push_many(Push(i, group="g") for i in range(9))
    q.admin.set_bounds(max_waiting=2, when_full="drop_worst")
    q.push("x", 5, group="g")
    assert (q.stats().dead, q.size()) == (1, 9)


def test_bounds_are_set_anew(q):
    """What is not named stays, 0 removes a bound, and a queue of bounds keeps its settings."""
    assert q.admin.bounds() == Bounds(None, None, "refuse")
    q.admin.set_bounds(max_tasks=5)
    q.admin.set_bounds(max_waiting=2, when_full="drop_worst")
    q.admin.set_bounds(max_tasks=6)
    assert q.admin.bounds() == Bounds(6, 2, "drop_worst")
    q.admin.set_bounds(max_tasks=0)
    assert q.admin.bounds() == Bounds(None, 2, "drop_worst")
    for wrong in ({"max_tasks": -1}, {"max_waiting": 1.5}, {"when_full": "drop"}, {}):
        with pytest.raises(ConfigurationError):
            q.admin.set_bounds(**wrong)


ENDS = {
    "ack": lambda q, probe: q.ack(probe.pop()),
    "cancel": lambda q, probe: q.cancel(q.peek(1)[0].id),
    "purge": lambda q, probe: q.purge(),
    "bury": lambda q, probe: q.bury(probe.pop(), "r"),
    "fail": lambda q, probe: q.fail(probe.pop(), "e"),
}


@pytest.mark.parametrize("how", ENDS)
def test_whatever_ends_a_task_makes_room(q, probe, how):
    """Each verb that ends a task of a full queue calls the producer that waits."""
    q.admin.set_bounds(max_tasks=1)
    q.push("x", max_attempts=1)
    producer = stand(q)
    assert line(q, probe) == [producer.id]
    assert q.check() == []
    ENDS[how](q, probe)
    assert line(q, probe) == []


def test_a_pop_makes_room_in_its_group(q, probe):
    """A pop of a group's head calls a producer of this group, and of no other."""
    q.admin.set_bounds(max_waiting=1)
    q.push("x", group="g")
    q.push("x", group="h")
    one, other = stand(q, "g"), stand(q, "h")
    assert line(q, probe) == [one.id, other.id]
    assert q.pop().task.group == "g"
    assert line(q, probe) == [other.id]
    q.update(q.peek(1)[0].id, delay=5)
    assert line(q, probe) == []


def test_a_producer_that_died_is_passed_over(q, probe, clock):
    """A producer that has not asked again in time is forgotten, and costs no room."""
    q.admin.set_bounds(max_tasks=1)
    q.push("x")
    dead = stand(q)
    clock.advance(3600)
    alive = stand(q)
    assert line(q, probe) == [dead.id, alive.id]
    q.ack(probe.pop())
    assert line(q, probe) == []


def test_no_more_are_called_than_there_is_room_for(q, probe):
    """One place calls one producer that hears; the others stay in the line."""
    q.admin.set_bounds(max_tasks=2)
    q.push("x")
    q.push("x")
    listener = q.redis.pubsub()
    listener.subscribe("dpq:calls:ear")
    listener.get_message(timeout=60)
    producers = []
    for _ in range(3):
        producer = Producer(0, None)
        producer.channel = "ear"
        assert q._session.run(q._operations.await_room, producer)
        producers.append(producer.id)
    before = line(q, probe)
    assert sorted(before) == sorted(producers)
    q.ack(probe.pop())
    assert line(q, probe) == before[1:]
    leaver = Producer(0, None)
    q._session.run(q._operations.await_room, leaver, leave=True)  # it takes no room
    assert line(q, probe) == before[2:]
    listener.close()


def test_a_producer_that_nobody_hears_takes_no_room(q, probe):
    """If the connection of a called producer is gone, the next one is called instead."""
    q.admin.set_bounds(max_tasks=1)
    q.push("x")
    for channel in ("gone", "gone", ""):
        producer = Producer(0, None)
        producer.channel = channel
        assert q._session.run(q._operations.await_room, producer)
    q.ack(probe.pop())
    assert line(q, probe) == []
