"""The kept errors of a task, and the leases that may run out (`max_lapses`)."""

from collections.abc import Iterator
from typing import Any

import pytest

from dpq import ConfigurationError, DeadTask, Push, Reject, TaskNotFoundError, TaskState
from dpq.testing import Clock, QueueFactory


@pytest.fixture
def make(redis: Any, queue_name: str, clock: Clock) -> Iterator[Any]:
    with QueueFactory(redis, clock) as factory:
        yield lambda name, **more: factory(f"{queue_name}-{name}", **more)


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


def test_a_row_of_429s_is_one_error(q, probe, clock):
    """So a limit that is met again and again hides no failure."""
    task_id = q.push("x")
    q.fail(probe.pop(), "broken", delay=0)
    for _ in range(9):
        q.rate_limited(probe.pop(), 1, "task")
        clock.advance(1)
    assert told(q, task_id) == [
        ("rate limited", 2, "429: retry after 1 s"),
        ("failed", 1, "broken"),
    ]


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


def test_a_lease_that_runs_out_twice_is_one_error(q, probe, clock):
    """The holder extends a lease that was over: its second end is the same attempt."""
    task_id = q.push("x")
    task = probe.pop(visibility=3)
    clock.advance(4)
    q.promote()
    q.extend(task, 3)
    clock.advance(4)
    q.promote()
    assert told(q, task_id) == [("lease expired", 1, "lease expired")]
    q.fail(task, "late")  # this is news, of the same attempt
    assert told(q, task_id)[0] == ("failed", 1, "late")


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


def test_errors_outlive_a_new_start(q, probe, clock):
    """A replay, a push of its key and the next run of a recurring task keep them."""
    task_id = q.push("x", key="k", every=60)
    q.fail(probe.pop(), "first", delay=0)
    q.ack(probe.pop())
    clock.advance(60)
    q.bury(probe.pop(), "second")
    q.push("x", key="k", on_duplicate="update")
    assert told(q, task_id) == [("buried", 1, "second"), ("failed", 1, "first")]
    assert probe.pop().attempt == 1


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


def test_failures_spend_attempts_beside_lapses(q, probe, clock):
    """With `max_lapses` a lapse counts towards nothing else."""
    task_id = q.push("x", max_lapses=9, max_attempts=1)
    for _ in range(3):
        probe.pop(visibility=3)
        clock.advance(4)
    q.fail(probe.pop(), "broken")
    assert q.get(task_id).reason == "attempts spent"


def test_without_max_lapses_both_count(q, probe, clock):
    """What others rely on stays: a lease that runs out is a failed attempt."""
    task_id = q.push("x", max_attempts=2)
    q.fail(probe.pop(), "broken", delay=0)
    probe.pop(visibility=3)
    clock.advance(4)
    q.promote()
    dead = q.get(task_id)
    assert (dead.reason, dead.attempts, dead.max_lapses, dead.lapses) == (
        "lease expired",
        2,
        None,
        0,
    )


def test_a_late_failure_counts_once(q, probe, clock):
    """A delivery whose lease ran out was counted then; its late failure is no second count."""
    task_id = q.push("x", max_lapses=2, max_attempts=2)
    task = probe.pop(visibility=3)
    clock.advance(4)
    q.promote()
    q.fail(task, "late", delay=0)
    assert (q.get(task_id).attempt, q.get(task_id).lapses) == (1, 1)
    assert [attempt for _, attempt, _ in told(q, task_id)] == [1, 1]


@pytest.mark.parametrize("state", ["live", "running", "dead"])
def test_max_lapses_of_a_key(q, probe, clock, state):
    """As with `max_attempts`: a revived task has what the push says, a live one keeps its own."""
    task_id = q.push("x", key="k", max_lapses=3)
    probe.pop(visibility=3)
    clock.advance(4)
    q.promote()
    if state == "running":
        probe.pop()
    elif state == "dead":
        q.bury(probe.pop(), "no")
    how = "rerun" if state == "running" else "update"
    q.push("y", key="k", on_duplicate=how, max_lapses=5)
    task = q.get(task_id)
    expected = {"live": (3, 1), "running": (5, 1), "dead": (5, 0)}[state]
    assert (task.max_lapses, task.lapses) == expected
    assert task.errors
    if state == "dead":
        q.bury(probe.pop(), "no")
        q.push("z", key="k", on_duplicate="update")
        assert (q.get(task_id).max_lapses, len(q.get(task_id).errors)) == (None, 3)


@pytest.mark.parametrize("value", [0, -1, 1.5, 10**7, True, "3"])
def test_bad_max_lapses(q, value):
    """The error names the value and the bounds, and nothing is stored."""
    with pytest.raises(ConfigurationError, match=r"max_lapses is .* 1 to 1 ?000 ?000"):
        q.push("x", max_lapses=value)
    assert q.size() == 0


def test_export_and_import(make, clock):
    """Errors and lapses come over, and go with their task there."""
    q, other = make("a"), make("b")
    ids = q.push_many([Push("x", max_lapses=3), Push("y")])
    for task in q.pop_many(2, visibility=3):
        assert task.id in ids
    clock.advance(4)
    for task in q.pop_many(2):
        q.fail(task, thrown(ValueError("broken")), delay=0)
    other.import_(q.export())
    for task_id in ids:
        mine, theirs = q.get(task_id), other.get(task_id)
        assert mine.errors == theirs.errors
        assert len(mine.errors) == 2
        assert (mine.lapses, mine.max_lapses) == (theirs.lapses, theirs.max_lapses)
    assert other.check() == []
    other.ack_many(other.pop_many(2))
    assert (other.check(), other.size(), q.size()) == ([], 0, 2)


def test_the_frames_of_a_reject(q, probe):
    """A handler that gives up says where."""
    task_id = q.push("x")
    q._session.run(q._operations.finish, probe.pop(), thrown(Reject("bad page")), worker="w 1")
    [failure] = q.get(task_id).errors
    assert (failure.kind, failure.text, failure.worker) == ("buried", "bad page", "w 1")
    assert failure.frames
    assert q.get(task_id).state is TaskState.DEAD
    assert str(failure) == "attempt 1 on w 1: bad page"
