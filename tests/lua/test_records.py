"""Records: plain and full, with and without a payload behind them, and from one form to another."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dpq import DPQ

SIZES = (510, 511)
"""Characters of a payload; with its quotes it has two bytes more, and up to 512 stand inline."""

STATES = ("ready", "delayed", "invisible", "head", "waiting", "dead")


def stands(probe: Any, task_id: str) -> str:
    """The kind of a record, with a + if its payload stands in a field of its own."""
    apart = probe.redis.hexists(probe.key("payload"), task_id)
    record = probe.record(task_id)
    assert apart == (record["payload"] == "")
    return record["kind"] + "+" * apart


# From one form to another


def failed(q, task):
    q.fail(task, "broke", delay=5)


def released_with(priority):
    def call(q, task):
        q.release(task, delay=5, priority=priority)

    return call


def buried(q, task):
    q.bury(task, "no use")
    q.dead.replay([task.id])


def expired(q, task):
    q._operations.description.clock.advance(40)


def updated(**change):
    def call(q, task):
        q.update(task.id, **change)
        if change != {"priority": 2.5}:
            q.release(task, delay=5)

    return call


AFTER = {
    "fail": (failed, "f"),
    "fail without a text": (lambda q, task: q.fail(task, delay=5), "q"),
    "release": (lambda q, task: q.release(task, delay=5), "q"),
    "release, a whole priority": (released_with(-7), "q"),
    "release, a half": (released_with(2.5), "f"),
    "release, a large one": (released_with(2**60 + 1), "f"),
    "rate_limited": (lambda q, task: q.rate_limited(task, 5, "task"), "q"),
    "set_visibility": (lambda q, task: q.set_visibility(task, 5), "q"),
    "extend": (lambda q, task: q.extend(task, 50), "q"),
    "update, a half": (updated(priority=2.5), "f"),
    "update, cost": (updated(cost=3), "f"),
    "update, cost 1": (updated(cost=1), "q"),
    "expired lease": (expired, "q"),
    "bury, replay": (buried, "q"),
}
"""What may become of a running plain task, and the kind of its record then: f if it has more."""


@pytest.mark.parametrize("size", [5, 600], ids=["short", "long"])
@pytest.mark.parametrize("group", ["g"])
@pytest.mark.parametrize("name", AFTER)
def test_a_plain_task_becomes_full_and_plain_again(q, probe, clock, name, group, size):
    """Each verb writes the kind that its task needs; group, payload and counts stay what they were.

    Back again it goes as soon as nothing of it needs more than a plain record has.
    """
    act, kind = AFTER[name]
    payload = "\n\tp1 f2 \x1f" + "x" * size
    long = "+" if size > 500 else ""
    before = q.push("before", -99, group=group)
    task_id = q.push(payload, priority=4, group=group, max_attempts=9)
    assert stands(probe, task_id) == ("q" if not long else "f+")
    task = probe.pop(visibility=30)
    assert task.id == task_id
    act(q, task)
    q.promote()
    if long:
        kind = probe.record(task_id)["kind"]  # f until it was written again
        assert kind == "f" or AFTER[name][1] == "q"
    assert stands(probe, task_id) == kind + long
    now = q.get(task_id)
    assert (now.payload, now.group, now.max_attempts) == (payload, group, 9)
    assert q.check() == []
    q.update(task_id, priority=3)
    clock.advance(60)
    found = {each.id: each for each in q.pop_many(2)}
    assert found.keys() == {task_id, before}
    again = found[task_id]
    assert (again.payload, again.group, again.token > task.token) == (payload, group, True)
    assert again.deliveries == 2
    assert again.last_error == ("broke" if act is failed else None)
    assert again.cost == (3 if "cost" in name and kind == "f" else 1)
    q.ack_many(found.values())
    assert not {"meta", "payload"} & set(probe.stored())


MORE: dict[str, dict[str, Any]] = {
    "cost": {"cost": 2},
    "delay": {"delay": 5},
    "key": {"key": "k"},
    "expires_in": {"expires_in": 9},
    "visibility": {"visibility": 7},
    "time_limit": {"time_limit": 7},
    "backoff": {"backoff": (1, 5)},
    "every": {"every": 60},
    "cron": {"cron": "* * * * *"},
    "half a priority": {"priority": 0.5},
    "a large priority": {"priority": 2**53 + 1},
    "the largest float": {"priority": 1.7976931348623157e308},
    "the least float": {"priority": -5e-324},
}


@pytest.mark.parametrize("size", [5, 600], ids=["short", "long"])
@pytest.mark.parametrize("name", MORE)
def test_a_task_that_needs_more_is_full(q, probe, clock, name, size):
    """What a plain record has no room for is kept through all that a task may meet."""
    payload = "x" * size
    long = "+" if size > 500 else ""
    task_id = q.push(payload, **MORE[name])
    pushed = q.get(task_id)
    assert stands(probe, task_id) == "f" + long
    clock.advance(5 if "delay" in MORE[name] else 60 if "cron" in MORE[name] else 0)
    for step in range(3):
        task = probe.pop(visibility=600)
        if step == 0:
            q.release(task)
        elif step == 1:
            q.bury(task, "no")
            assert q.get(task_id).payload == payload
            q.dead.replay()
    fields = ("key", "cost", "priority", "visibility", "time_limit", "backoff", "every", "cron")
    for field in fields:
        assert getattr(task, field) == getattr(pushed, field), field
    if MORE[name].keys() <= {"every", "cron"}:
        assert stands(probe, task_id) == "f" + long
        q.cancel(task_id)
    else:
        assert q.ack(task)
    assert not {"meta", "payload", "keys"} & set(probe.stored())


# Where a payload stands


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", STATES)
def test_where_a_payload_stands(q, probe, clock, state, size):
    """Up to 512 bytes behind the record, more in a field of its own, from push to the end."""
    payload = "x" * size
    inline = size + 2 <= 512
    if state == "waiting":
        q.push("first", group="g")
    task_id = q.push(
        payload,
        delay=5 if state == "delayed" else 0,
        group="g" if state in ("head", "waiting") else None,
    )
    if state in ("invisible", "dead"):
        task = probe.pop()
    if state == "dead":
        q.bury(task, "no")
    where = {"head": "ready"}.get(state, state)
    assert stands(probe, task_id).endswith("+") is not inline
    assert probe.body(task_id) == f'"{payload}"'.encode()
    assert (q.get(task_id).payload, q.get(task_id).state) == (payload, where)
    assert [each.payload for each in q.peek(9, where) if each.id == task_id] == [payload]
    if state == "dead":
        assert q.dead.list()[0].payload == payload
        q.dead.replay()
    clock.advance(60)
    found = {task.id: task.payload for task in q.pop_many(1) + q.pop_many(1)}
    if state == "waiting":
        q.ack_many(q.peek(9, "invisible"))
        found |= {task.id: task.payload for task in q.pop_many(9)}
    assert found[task_id] == payload
    assert q.check() == []


def acked(q, clock):
    q.ack_many(q.pop_many(9))


def buried_and_purged(q, clock):
    for task in q.pop_many(9):
        q.bury(task, "no")
    q.dead.purge()


def cancelled(q, clock):
    for task in q.peek(9):
        q.cancel(task.id)


def capped(q, clock):
    with DPQ(q.redis, q.queue_name, clock=clock, dead_max_tasks=0):
        for task in q.pop_many(9):
            q.bury(task, "no")


ENDS: list[Callable[[DPQ[Any], Any], object]] = [
    acked,
    buried_and_purged,
    cancelled,
    capped,
    lambda q, clock: q.purge(),
    lambda q, clock: q.purge("ready"),
    lambda q, clock: q.admin.drop(),
]


# Priorities and names


PRIORITIES = [
    *(0, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)),
    *(0.1, -1e300, 5e-324, -0.0, 2.0**70, Decimal("1.5")),
]


# A queue that keeps all payloads apart

PUSHED: dict[str, dict[str, Any]] = {
    "plain": {},
    "group": {"group": "g"},
    "key": {"key": "k"},
    "cost": {"cost": 2},
    "delayed": {"delay": 5},
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PUSHED)
def test_all_payloads_apart(q, probe, clock, name, size):
    """No record has a payload behind it, from push to ack, whatever the task meets."""
    payload = "x" * size
    queue = DPQ(q.redis, q.queue_name, clock=clock, payloads="apart")
    task_id = q.push(payload, **PUSHED[name])  # a client that follows the queue
    assert stands(probe, task_id) == "f+"
    if name == "key":
        q.push(payload, key="k", on_duplicate="update")
    clock.advance(5)
    q.fail(probe.pop(), "broke", delay=1)
    clock.advance(1)
    q.release(probe.pop(), delay=1)
    clock.advance(1)
    q.bury(probe.pop(), "no")
    q.dead.replay()
    assert stands(probe, task_id).endswith("+")
    assert queue.get(task_id).payload == payload
    assert q.check() == []
    assert queue.ack(probe.pop())
    assert not {"meta", "payload", "keys"} & set(probe.stored())
