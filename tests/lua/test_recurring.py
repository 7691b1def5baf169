"""Recurring tasks: what push, ack, fail, update and the others do with a schedule.

The clock begins at 2023-11-14 22:13:20 UTC.
"""

from datetime import UTC, datetime, timedelta

import pytest
from kit.limits import take

from dpq import LeaseLostError

START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
LINE = "*/5 * * * * UTC"


def due(q, task_id):
    """Seconds from the start until a delayed task is due."""
    task = q.get(task_id)
    assert task.state == "delayed"
    return (task.visible_until - START).total_seconds()


def at(clock, seconds):
    """Let the time be so many seconds after the start."""
    clock.ms = round((START.timestamp() + seconds) * 1000)


def pop_at(q, clock, seconds, visibility=30):
    """The task that is due so many seconds after the start."""
    at(clock, seconds)
    return take(q, visibility)


def run(q):
    """One run, acked."""
    task = take(q)
    assert q.ack(task) is True
    return task


def run_at(q, clock, seconds):
    """One run, acked, so many seconds after the start."""
    at(clock, seconds)
    return run(q)


# every


def test_every_does_not_pile_up(q, clock, probe):
    """After an outage the task runs once for all that was missed, and then at its times."""
    task_id = q.push("x", every=60)
    run(q)
    task = run_at(q, clock, 100_000)
    assert task.scheduled_at == START + timedelta(seconds=60)
    assert q.pop().task is None
    assert due(q, task_id) == 100_020


@pytest.mark.parametrize("verb", ["ack", "fail"])
def test_place_in_lifo(q, clock, probe, verb):
    """In a LIFO queue it stands before equals from before its return, and behind later ones."""
    lifo = type(q)(q.redis, q.queue_name, order="lifo", clock=clock, default_max_attempts=1)
    lifo.push("recurring", every=10)
    task = lifo.pop().task
    lifo.push("before", delay=10)
    getattr(lifo, verb)(task)
    lifo.push("after", delay=10)
    at(clock, 10)
    lifo.push("after that")
    payloads = [task.payload for task in lifo.pop_many(4)]
    assert payloads == ["after that", "after", "recurring", "before"]


# cron


def test_cron(q, clock, probe):
    """A cron task is first due at its next time, and then at each following one."""
    task_id = q.push("x", cron="*/5 * * * *")
    assert due(q, task_id) == 100  # 22:15:00
    task = pop_at(q, clock, 103)
    assert (task.cron, task.every) == (LINE, None)
    assert task.scheduled_at == START + timedelta(seconds=100)
    q.ack(task)
    assert due(q, task_id) == 400
    assert q.peek(state="delayed")[0].cron == LINE


@pytest.mark.parametrize(
    ("how", "due_at", "back_to", "following"),
    [({"every": 60, "delay": 60}, 60, -500, 120), ({"cron": "*/5 * * * *"}, 100, 50, 400)],
)
def test_the_clock_steps_back(q, clock, how, due_at, back_to, following):
    """A time that has had its run has no other one when the clock steps back."""
    task_id = q.push("x", **how)
    task = pop_at(q, clock, due_at)
    at(clock, back_to)
    q.ack(task)
    assert due(q, task_id) == following


# Failure


def test_spent_attempts(q, clock, probe):
    """A run whose attempts are spent is given up: the task waits for its next time, all new."""
    task_id = q.push("x", every=60, max_attempts=2, priority=5)
    q.fail(probe.pop(), "first", delay=1)
    task = pop_at(q, clock, 1)
    q.fail(task, "second", delay=1)
    assert due(q, task_id) == 60
    again = q.get(task_id)
    assert (again.attempt, again.deliveries, again.last_error) == (1, 0, "second")
    stats = q.stats()
    assert (stats.failed, stats.dead, stats.buried, stats.acked) == (2, 0, 0, 0)
    before = probe.stored()
    q.fail(task, "again", delay=1)  # a retry
    assert q.ack(task) is False
    with pytest.raises(LeaseLostError):
        q.bury(task, "too late")
    with pytest.raises(LeaseLostError):
        q.extend(task, 5)
    assert probe.stored() == before
    assert run_at(q, clock, 60).last_error == "second"
    assert q.get(task_id).last_error is None


def test_dead(q, clock, probe):
    """A poison pill is loud: buried, or its lease run out for good, it is dead; replay revives its
    schedule with it."""
    task_id = q.push("x", every=60, max_attempts=1)
    task = probe.pop(visibility=5)
    at(clock, 5)
    q.promote()
    assert q.get(task_id).reason == "lease expired"
    at(clock, 500)
    assert q.dead.replay() == 1
    task = probe.pop()
    assert task.every == 60
    q.bury(task, "bad")
    assert q.get(task_id).reason == "bad"
    at(clock, 1000)
    q.dead.replay()
    run(q)
    assert due(q, task_id) == 1020


# Keys


def test_another_schedule(q, clock, probe):
    """An update replaces the schedule in place: every by every, by cron, and cron by every."""
    task_id = q.push("x", every=60, delay=5, key="k")
    q.push("y", every=7, delay=1, key="k", on_duplicate="update")
    assert (due(q, task_id), q.get(task_id).every) == (1, 7)
    run_at(q, clock, 1)
    assert due(q, task_id) == 8
    q.push("y", cron="*/5 * * * *", key="k", on_duplicate="update")
    assert (due(q, task_id), q.get(task_id).cron, q.get(task_id).every) == (100, LINE, None)
    q.push("z", every=50, delay=9, key="k", on_duplicate="update")
    assert (due(q, task_id), q.get(task_id).cron) == (10, None)
    assert run_at(q, clock, 10).payload == "z"
    assert due(q, task_id) == 60


# Change by hand


# Never twice
