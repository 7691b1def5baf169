"""Batches: each task counts once, whatever becomes of it, and one task runs when none is left."""

import pytest

from dpq import BatchFinishedError, Push


def counts(q, name="b"):
    """What has become of the tasks of a batch: left, done, dead and removed."""
    state = q.batch(name)
    return state.left, state.done, state.dead, state.removed


def sealed(q, *payloads, name="b", **options):
    """A sealed batch of these tasks: their ids, and the id of the task that waits for its end."""
    ids = q.push_many([Push(payload, batch=name, **options) for payload in payloads])
    return ids, q.seal_batch(name, on_finish=Push("end")).callback


def test_done(q, clock, probe):
    """Tasks that are acked are done; when none is left, the waiting task is due at that moment."""
    began = q.push_many([Push(i, batch="b") for i in range(3)])
    assert counts(q) == (3, 0, 0, 0)
    clock.advance(1)
    state = q.seal_batch("b", on_finish=Push("end", 99))
    assert (state.sealed, state.finished, state.pushed) == (True, False, 3)
    assert (q.get(state.callback).state, q.get(state.callback).visible_until) == ("delayed", None)
    assert q.next_event() is None
    for left in (2, 1, 0):
        task = probe.pop()
        assert (task.id in began, task.batch) == (True, "b")
        assert q.ack(task) is True
        assert counts(q) == (left, 3 - left, 0, 0)
    clock.advance(5)
    end = probe.pop()
    assert (end.id, end.payload, end.batch) == (state.callback, "end", None)
    assert (q.batch("b").finished_at - q.batch("b").began_at).total_seconds() == 1
    q.ack(end)
    assert (q.pop().task, counts(q)) == (None, (0, 3, 0, 0))


def test_tasks_push_tasks(q, probe):
    """A sealed batch takes the tasks that its own tasks push, until it is finished; then none."""
    sealed(q, 0)
    for i in range(3):
        task = probe.pop()
        if i < 2:
            q.push(i + 1, batch=task.batch)
        q.ack(task)
    before = probe.stored()
    with pytest.raises(BatchFinishedError, match=r"'b' of queue .* is finished") as refused:
        q.push("late", batch="b")
    with pytest.raises(BatchFinishedError):
        q.push_many([Push("other"), Push("late", batch="b")])
    assert (refused.value.batch, counts(q)) == ("b", (0, 3, 0, 0))
    assert probe.stored() == before


@pytest.mark.parametrize("how", ["fail", "bury", "lease", "expired"])
def test_dead(q, clock, probe, how):
    """A task that dies is dead, whatever the reason, and the end of the batch does not wait."""
    _, callback = sealed(q, "x", max_attempts=1, expires_in=50)
    if how != "expired":
        task = probe.pop()
    if how == "fail":
        q.fail(task, "broken")
    elif how == "bury":
        q.bury(task, "no")
    clock.advance(60)
    assert q.pop().task.id == callback
    assert counts(q) == (0, 0, 1, 0)


def test_the_oldest_goes(q, clock, probe):
    """No more than 10 000 batches without live tasks are kept: the oldest goes first."""
    for i in range(3):
        q.seal_batch(f"b{i}")
        clock.advance(1)
    fields = probe.redis.hgetall(probe.key("batches"))
    first, last = map(int, fields[b"\t"].split())
    probe.redis.hset(probe.key("batches"), "\t", f"{first} {first + 10_000}")
    at = fields[f"\t{last}".encode()].partition(b" ")[0]
    probe.redis.hset(probe.key("batches"), f"\t{first + 10_000}", at + b" b2")
    q.promote()
    assert {state.name for state in q.admin.batches()} == {"b1", "b2"}
    probe.redis.hset(probe.key("batches"), "\t", f"{first + 1} {last}")
    probe.redis.hdel(probe.key("batches"), f"\t{first + 10_000}")
