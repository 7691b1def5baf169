"""Results: what an ack names is kept for its time, in order, within caps; a dead task says why."""

import pytest

from dpq import NO_RESULT, ResultTimeoutError, TaskDeadError, TaskNotFoundError
from dpq.script.assembly import script

FIELDS = 3
"""Fields of a result, beside the one of all results."""


def finish(q, probe, value, *, keep=3600.0, **push):
    """Push a task, pop it, and ack it with a result; return its id."""
    q.push("x", **push)
    task = probe.pop()
    assert q.ack(task, result=value, keep=keep)
    return task.id


def test_what_an_ack_names(q, probe):
    """Any JSON comes back as it was, None too; without `result=` nothing is kept."""
    for value in (None, 0, "", [1, {"a": None}], 1.5, "ü\n\x1d\t", True):
        assert q.result(finish(q, probe, value)) == value
    q.push("x")
    task = probe.pop()
    q.ack(task)
    with pytest.raises(TaskNotFoundError, match="finished without a result"):
        q.result(task.id)


def test_its_time(q, clock, probe):
    """A result is known until its time is over, and no longer."""
    short, long = finish(q, probe, 1, keep=10), finish(q, probe, 2, keep=20)
    clock.advance(9.999)
    assert q.result(short) == 1
    clock.advance(0.001)
    with pytest.raises(TaskNotFoundError, match="no longer kept"):
        q.result(short)
    assert [result.value for result in q.results()] == [2]
    assert q.result(long) == 2


def test_over_times_are_removed(q, clock, probe):
    """Each ack with a result removes some whose time is over, wherever they stand."""
    kept = finish(q, probe, "kept", keep=1000)
    for _ in range(10):
        finish(q, probe, "over", keep=1)
    clock.advance(2)
    for _ in range(100):
        finish(q, probe, "new", keep=1000)
    stored = probe.redis.hvals(probe.key("results"))
    assert stored.count(b'"over"') < 5  # each stays with a chance of 1 %
    assert q.result(kept) == "kept"


@pytest.fixture
def capped(probe):
    """Call keep_results with smaller caps: 9 results, 100 bytes, 12 numbers."""
    text = script("ack").text
    for before, after in (("300000, 67108864, 1000000, 6", "28, 100, 12, 6"),):
        assert text.count(before) == 1
        text = text.replace(before, after)

    def ack(task, lines):
        keys = [probe.key(part) for part in script("ack").parts]
        now = probe.q._operations._now()
        return probe.redis.eval(text, len(keys), *keys, now, task.id, task.token, lines)

    return ack


def values_of(q):
    return [result.value for result in q.results()]


def test_a_cap_of_number(q, probe, capped):
    """Over the cap of their number, the oldest results go first."""
    for i in range(30):
        q.push(i)
        capped(probe.pop(), f"60000 {i}\n")
    assert values_of(q) == list(range(21, 30))
    assert probe.redis.hlen(probe.key("results")) == 9 * FIELDS + 1


def test_many(q, probe):
    """Of several tasks each has its own result, or none; those that are not finished have none."""
    for i in range(5):
        q.push(i, group="g" if i % 2 else None)
    tasks = q.pop_many(5)
    q.set_visibility(tasks[1], 0)
    again = probe.pop()
    assert again.id == tasks[1].id
    with pytest.raises(Exception, match="cannot ack task"):
        q.ack_many(tasks, results=["a", "b", NO_RESULT, "d", "e"])
    assert values_of(q) == ["a", "d", "e"]
    assert q.ack_many([*tasks[:1], again, again], results=["new", "b", "c"])[0] is False
    assert values_of(q) == ["a", "d", "e", "b"]


@pytest.mark.parametrize("reason", ["by hand", "lease expired", "expired", "attempts spent"])
def test_each_death(q, clock, probe, reason):
    """A dead task is told with its reason, whatever it died of."""
    task_id = q.push(
        "x",
        max_attempts=1,
        expires_in=5 if reason == "expired" else None,
        delay=6 if reason == "expired" else 0,
    )
    if reason == "expired":
        clock.advance(7)
        q.promote()
    else:
        task = probe.pop()
        if reason == "by hand":
            q.bury(task, reason)
        elif reason == "attempts spent":
            q.fail(task, "no luck")
        else:
            clock.advance(31)
            q.promote()
    with pytest.raises(TaskDeadError) as caught:
        q.result(task_id)
    assert (caught.value.task_id, caught.value.reason) == (task_id, reason)
    assert caught.value.last_error == ("no luck" if reason == "attempts spent" else None)
    q.dead.replay([task_id])
    with pytest.raises(ResultTimeoutError, match="has not ended"):
        q.result(task_id)


def test_pages(q, clock, probe):
    """A reader goes on behind the last result that it has seen, and misses and repeats none."""
    for i in range(25):
        finish(q, probe, i, keep=1 if i % 5 == 2 else 100)
    clock.advance(2)
    seen, after = [], ""
    while page := q.results(after, 4):
        seen += [result.value for result in page]
        after = page[-1].id
    assert seen == [i for i in range(25) if i % 5 != 2]
    assert q.results(after) == []
    finish(q, probe, "new")
    assert [result.value for result in q.results(after)] == ["new"]


@pytest.mark.parametrize("more", [0, 3, 5, 9])
@pytest.mark.parametrize("back", [0, 5])
def test_a_server_that_has_lost_its_newest_writes(q, clock, probe, more, back):
    """A reader that has read lost results gets all that come in their place, and some twice."""
    key = probe.key("results")
    for i in range(5):
        finish(q, probe, i)
    there = probe.redis.dump(key)
    clock.advance(1)
    for i in range(5):
        finish(q, probe, f"lost {i}")
    after = q.results()[-1].id
    probe.redis.restore(key, 0, there, replace=True)
    clock.ms += 1 - 1000 * back
    for i in range(more):
        finish(q, probe, f"new {i}")
    read = []
    while page := q.results(after, 4):
        after = page[-1].id
        read += [result.value for result in page]
    assert read == [*range(5), *(f"new {i}" for i in range(more))]


# Progress


@pytest.mark.parametrize("end", ["release", "fail", "bury", "ack", "lease"])
def test_progress_ends_with_its_delivery(q, clock, probe, end):
    """After its end a delivery tells nothing, and what it has told is not shown."""
    q.push("x", max_attempts=5)
    task = probe.pop()
    q.progress(task, 1, 2)
    if end == "lease":
        clock.advance(31)
    else:
        getattr(q, end)(*(task, "why")[: 1 + (end == "bury")])
    if end == "bury":
        assert q.get(task.id).progress is None
    elif end != "ack":
        clock.advance(60)
        again = probe.pop()
        assert (again.id, q.get(task.id).progress) == (task.id, None)
    with pytest.raises(Exception, match="cannot tell the progress of task"):
        q.progress(task, 2, 2)
