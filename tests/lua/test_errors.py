"""The kept errors of a task, and the leases that may run out (`max_lapses`)."""

from typing import Any

import pytest

from dpq import DeadTask, TaskNotFoundError


def told(q: Any, task_id: str) -> list[tuple[str, int, str]]:
    """The errors of a task: kind, attempt and text, the newest first."""
    return [(each.kind, each.attempt, each.text) for each in q.get(task_id).errors]


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


def kept(probe: Any) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = probe.redis.hgetall(probe.key("errors"))
    return found


def test_each_way_to_fail_is_kept(q, probe, clock):
    """fail, bury, a 429 and a lease that runs out are told apart, with their time and attempt."""
    task_id = q.push("x")
    q.fail(probe.pop(), thrown(ValueError("no name")), delay=0)
    q.rate_limited(probe.pop(), 5, "task", status=503)
    clock.advance(5)
    probe.pop(visibility=3)
    clock.advance(4)
    q.bury(probe.pop(), "no use")
    task = q.get(task_id)
    assert told(q, task_id) == [
        ("buried", 3, "no use"),
        ("lease expired", 2, "lease expired"),
        ("rate limited", 2, "503: retry after 5 s"),
        ("failed", 1, "no name"),
    ]
    assert task.errors[-1].frames[0].startswith("tests/lua/test_errors.py:")
    assert [each.at for each in task.errors] == sorted((e.at for e in task.errors), reverse=True)
    assert (task.errors[0].at, task.errors[0].frames) == (task.died_at, ())


def test_the_last_eight_stay(q, probe):
    """The oldest goes first; an error like the one before it takes little room, and is whole."""
    task_id = q.push("x", max_attempts=99)
    for n in range(5):
        q.fail(probe.pop(), f"a {n}", delay=0)
    for _ in range(6):
        q.fail(probe.pop(), "b" * 900, delay=0)
    assert told(q, task_id) == [
        *(("failed", n, "b" * 500) for n in range(11, 5, -1)),
        ("failed", 5, "a 4"),
        ("failed", 4, "a 3"),
    ]
    [text] = kept(probe).values()
    assert text.count(b"\t=\n") == 5


VERBS = {
    "fail": lambda q, task: q.fail(task, "no", delay=0),
    "bury": lambda q, task: q.bury(task, "no"),
    "rate_limited": lambda q, task: q.rate_limited(task, 0, "task"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_failure_that_is_sent_twice_is_one_error(q, probe, verb):
    """A retry after a lost reply fills no second place."""
    task_id = q.push("x")
    task = probe.pop()
    VERBS[verb](q, task)
    if verb != "rate_limited":
        VERBS[verb](q, task)
    else:
        q._session.run(q._operations.rate_limited, task, 0, "task")
    assert len(told(q, task_id)) == 1


def test_bounds_of_an_error(q, probe):
    """Text, worker and frames are cut; the handler's frame and the innermost stay."""
    task_id = q.push("é" * 9)
    error = thrown(ValueError("é" * 2000), depth=40)
    task = probe.pop()
    q._session.run(q._operations.finish, task, error, worker="w\t" * 300)
    [failure] = q.get(task_id).errors
    assert failure.text == "ValueError: " + "é" * 244
    assert len(failure.worker) == 100
    assert len(failure.frames) == 5
    assert failure.frames[-1].endswith("in thrown")
    assert all(frame.endswith("thrown.<locals>.call") for frame in failure.frames[:-1])
    [text] = kept(probe).values()
    assert len(text) < 1250
    q.ack(task)


ENDS = {
    "ack": lambda q, task: q.ack(q.pop().task),
    "ack_many": lambda q, task: q.ack_many(q.pop_many(9)),
    "cancel": lambda q, task: q.cancel(task.id),
    "purge": lambda q, task: q.purge("ready"),
    "dead.purge": lambda q, task: (q.bury(q.pop().task, "no"), q.dead.purge()),
    "dead_max_tasks": lambda q, task: (
        q.bury(q.pop().task, "no"),
        q._redis.hset(f"dpq:{{{q.queue_name}}}:conf", "dead_max_tasks", 0),
        q.promote(),
    ),
    "replay, ack": lambda q, task: (
        q.bury(q.pop().task, "no"),
        q.dead.replay(),
        q.ack(q.pop().task),
    ),
    "late ack": lambda q, task: q.ack(task),
}


@pytest.mark.parametrize("options", [{}, {"key": "k", "batch": "b"}], ids=["plain", "full"])
@pytest.mark.parametrize("how", ENDS)
def test_errors_go_with_their_task(q, probe, clock, how, options):
    """However a task goes, nothing of its errors stays; and what never failed keeps none."""
    task_id = q.push("x", **options)
    task = probe.pop(visibility=3)
    clock.advance(4)  # the lease runs out: without an error text the record could be a short one
    q.promote()
    assert list(kept(probe)) == [task_id.encode()]
    ENDS[how](q, task)
    assert kept(probe) == {}
    with pytest.raises(TaskNotFoundError):
        q.get(task_id)
    q.push("fine")
    q.ack(q.pop().task)
    assert kept(probe) == {}


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
