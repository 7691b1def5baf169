"""The errors of a task, which are events of it, and the leases that may run out (`max_lapses`)."""

from typing import Any

import pytest

from dpq import ConfigurationError
from dpq.types import DeadTask


def told(q: Any, task_id: str) -> list[tuple[str, int | None, str]]:
    """The events of a task: kind, attempt and detail, the newest first."""
    found = q.admin.events(task_id=task_id)
    return [(each.kind, each.attempt, each.detail) for each in reversed(found)]


def thrown(error: Exception, depth: int = 1) -> Exception:
    """The same error, with the frames of so many calls."""

    def call(left: int) -> None:
        if left > 1:
            call(left - 1)
        raise error

    try:
        call(depth)
    except type(error) as met:
        return met
    raise AssertionError


def test_each_way_to_fail_is_told(q, probe, clock):
    """fail, bury, a 429 and a lease that runs out are told apart, with their time and attempt."""
    task_id = q.push("x")
    q.fail(probe.pop(), thrown(ValueError("no name")), delay=0)
    q.rate_limited(probe.pop(), 5, "task", status=503)
    clock.advance(5)
    probe.pop(visibility=3)
    clock.advance(4)
    q.bury(probe.pop(), "no use")
    assert told(q, task_id) == [
        ("dead", 3, "no use"),
        ("lease_expired", 2, "delivery 3"),
        ("rate_limited", None, "503, 5000 ms, this task alone"),
        ("failed", 1, "no name"),
    ]
    found = q.admin.events(task_id=task_id)
    assert found[0].frames[0].startswith("tests/lua/test_errors.py:")
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert (found[-1].at, found[-1].frames) == (q.get(task_id).died_at, ())


def test_a_failed_attempt_names_the_member_that_it_ran_as(q, probe):
    """Of a pool each attempt that fails says which key or proxy it had."""
    q.set_limit(60, 60, 9, group="g", members=["a", "b"])
    for n in range(2):
        q.push(n, group="g", member="ab"[n])
    for _ in range(2):
        q.fail(probe.pop(), "no", delay=9)
    assert [(each.kind, each.member) for each in q.admin.events()[1:]] == [
        ("failed", "a"),
        ("failed", "b"),
    ]


def test_what_goes_well_has_no_event(q, probe):
    """A plain task that is pushed, runs, is given back and is acked writes nothing but itself."""
    q.push("x")
    q.release(probe.pop())
    q.ack(probe.pop())
    q.push("y", key="k", group="g")
    q.cancel(q.get(key="k").id)
    assert q.admin.events() == []
    assert not probe.redis.exists(probe.key("events"))


def test_a_429_names_its_task(q, probe, clock):
    """So the task that has closed a group says so, too."""
    task_id = q.push("x", group="g")
    q.rate_limited(probe.pop(), 5)
    [event] = q.admin.events(task_id=task_id)
    assert (event.kind, event.group) == ("rate_limited", "g")


def test_a_buried_task_that_was_pushed_again(q, probe):
    """It begins anew: its attempt has failed, and nobody is told of a death."""
    task_id = q.push("x", key="k")
    task = probe.pop()
    q.push("x", key="k", on_duplicate="rerun")
    q.bury(task, "no")
    assert told(q, task_id) == [("failed", 1, "no")]


def test_events_of_one_task_in_a_long_stream(q, probe, clock, monkeypatch):
    """They are found in bounded steps, in both directions, of some kinds or of all."""
    monkeypatch.setattr("dpq.verbs.browse.MAX_EVENTS", 10)
    task_id, _ = q.push("x", 9), q.push("y", 8, max_attempts=99)
    q.fail(probe.pop(), "a", delay=60)
    for n in range(25):
        q.fail(probe.pop(), str(n), delay=0)
    q.pause()
    q.resume()
    clock.advance(60)
    q.fail(probe.pop(), "b", delay=0)
    assert [each.detail for each in q.admin.events(task_id=task_id, limit=10)] == ["a", "b"]
    assert [each.detail for each in q.admin.events(task_id=task_id, limit=1)] == ["b"]
    start = q.admin.events(task_id=task_id, limit=2)[0].id
    assert [each.detail for each in q.admin.events(start, 10, task_id=task_id)] == ["b"]
    assert [each.detail for each in q.admin.events(start, 3, kinds="failed")] == ["0", "1", "2"]
    assert [each.kind for each in q.admin.events(kinds=["paused", "none"], limit=10)] == ["paused"]
    assert q.admin.events(task_id="nobody", limit=10) == []
    with pytest.raises(ConfigurationError):
        q.admin.events(task_id="")


VERBS = {
    "fail": lambda q, task: q.fail(task, "no", delay=0),
    "bury": lambda q, task: q.bury(task, "no"),
    "rate_limited": lambda q, task: q.rate_limited(task, 0, "task"),
}


def test_bounds_of_an_error(q, probe):
    """Text, worker and frames are cut; the handler's frame and the innermost stay."""
    task_id = q.push("é" * 9)
    error = thrown(ValueError("é" * 2000), depth=40)
    task = probe.pop()
    q._session.run(q._operations.finish, task, error, worker="w\t" * 300)
    [failure] = q.admin.events(task_id=task_id)
    assert failure.detail == "ValueError: " + "é" * 244
    assert len(failure.worker) == 100
    assert len(failure.frames) == 5
    assert failure.frames[-1].endswith("in thrown")
    assert all(frame.endswith("thrown.<locals>.call") for frame in failure.frames[:-1])
    q.ack(task)


def test_lapses_are_counted_apart(q, probe, clock):
    """A task that kills its worker dies of its lapses; failures of a handler count apart."""
    task_id = q.push("x", max_lapses=2, max_attempts=2)
    probe.pop(visibility=3)
    clock.advance(4)
    task = probe.pop(visibility=3)
    assert (task.attempt, task.lapses, task.max_lapses, task.deliveries) == (1, 1, 2, 2)
    q.fail(task, "broken", delay=0)
    task = probe.pop(visibility=3)
    assert (task.attempt, task.lapses) == (2, 1)
    clock.advance(4)
    q.promote()
    dead = q.get(task_id)
    assert isinstance(dead, DeadTask)
    assert (dead.reason, dead.attempts, dead.lapses) == ("lapses spent", 1, 2)
    assert (q.stats().buried, q.stats().buried_lapses_spent) == (1, 1)
    q.dead.replay()
    task = probe.pop()
    assert (task.attempt, task.lapses, task.max_lapses) == (1, 0, 2)
