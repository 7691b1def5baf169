"""Tasks that wait for others: none runs too early, and each end is told to all who wait for it."""

import json

import pytest

from dpq import ConfigurationError, Push


def waits_for(q, task_id):
    """The tasks that a task waits for, or its state."""
    task = q.get(task_id)
    return task.after or task.state


def buried(q):
    """The dead letters that their parents have taken along, with the reason."""
    q.promote()
    return {task.payload: task.reason for task in q.dead.list(100) if "waited for" in task.reason}


def test_done(q, clock, probe):
    """A task runs once all tasks before it are acked; its delay counts from the last ack."""
    first, second = q.push_many([Push("first", 2), Push("second", 1)])
    late = q.push("late", 9, delay=5, after=[first, second, first])
    assert (waits_for(q, late), q.get(late).visible_until) == ([first, second], None)
    assert (q.next_event(), q.stats().delayed) == (None, 1)
    assert q.why(late) == f"it waits for 2 tasks to end: {first}, {second}"
    q.ack(probe.pop())
    assert q.next_event() == 0
    assert q.promote() == 2  # the task that waits, and the end that it has waited for
    assert waits_for(q, late) == [second]
    assert q.why(late) == f"it waits for the end of task {second}"
    clock.advance(60)
    task = probe.pop()
    assert task.payload == "second"
    assert q.pop().task is None
    q.ack(task)
    assert q.pop().task is None
    assert q.next_event() == 5
    clock.advance(5)
    assert (probe.pop().id, probe.count("followers")) == (late, 0)


@pytest.mark.parametrize("end", ["bury", "fail", "lease", "expired", "cancel", "purge", "full"])
@pytest.mark.parametrize("on_dead", ["bury", "run"])
def test_dead(q, clock, probe, end, on_dead):
    """If a task dies or is cancelled, those behind it are buried, or it counts as ended."""
    first = q.push("first", max_attempts=1, expires_in=50, group="g")
    other = q.push("other", delay=100)
    late = q.push("late", after=[first, other], on_dead=on_dead)
    if end in ("bury", "fail"):
        getattr(q, end)(probe.pop(), "no good")
    elif end == "lease":
        probe.pop()
    elif end == "cancel":
        q.cancel(first)
    elif end == "expired":
        clock.advance(60)
        assert q.pop().task is None
    elif end == "purge":
        assert q.purge("ready") == 1
    elif end == "full":
        q.admin.set_bounds(max_waiting=1, when_full="drop_worst")
        q.push("better", 1, group="g")
        q.cancel(q.peek(1)[0].id)
    clock.advance(60)
    verb = "was cancelled" if end in ("cancel", "purge") else "died"
    reason = f"task {first}, which it waited for, {verb}"
    assert buried(q) == ({} if on_dead == "run" else {"late": reason})
    clock.advance(60)
    assert probe.drain() == (["other", "late"] if on_dead == "run" else ["other"])
    assert (probe.count("followers"), late in probe.bodies()) == (0, on_dead == "bury")


def test_chain(q, clock, probe):
    """A death goes down a chain in bounded steps; a replayed follower runs by itself."""
    q.push_many([Push(0), *(Push(n, after=[n - 1]) for n in range(1, 40))])
    q.bury(probe.pop(), "no good")
    steps = [probe.call("promote", clock(), 10, 1)[0] for _ in range(10)]
    assert steps == [*[10] * 7, 8, 0, 0]  # 39 entries, 39 ends: the last has no follower
    assert len(buried(q)) == 39
    dead = {task.payload: task for task in q.dead.list(100)}
    assert dead[3].reason == f"task {dead[2].id}, which it waited for, died"
    assert q.dead.replay(dead[3].id) == 1
    assert probe.drain() == [3]


def test_many_followers(q, clock, probe):
    """The end of a task with many followers is one mark; upkeep releases them step by step."""
    first = q.push("first")
    q.push_many([Push(n, after=[first]) for n in range(700)])
    task = probe.pop()
    before = probe.count("followers")
    q.ack(task)
    assert (before, probe.count("followers")) == (700, 701)
    assert probe.call("promote", clock(), 200, 1)[0] == 200  # a client dies here
    assert (probe.count("followers"), q.next_event()) == (501, 0)
    assert sorted(probe.drain()) == list(range(700))


def test_in_one_call(q, probe):
    """A number names an earlier push of the same call, also beyond its round trips."""
    q.push("held", key="k")
    pushes = [Push("first"), Push("k", key="k"), Push("late", after=[0, 1]), *[Push(0)] * 200]
    ids = q.push_many([*pushes, Push("last", after=[2])])
    held = ids[1]
    assert (waits_for(q, ids[2]), waits_for(q, ids[-1])) == ([ids[0], held], [ids[2]])
    before = probe.stored()
    for n, after in enumerate(([0], [-1], [2], [1])):
        with pytest.raises(ConfigurationError, match=rf"after of .* has {after[0]}: "):
            q.push_many([*[Push(0)] * (n > 2), Push(1, after=after)])
    assert probe.stored() == before


def test_refused(q, probe):
    """Whatever could never end, or turn in a circle, is refused by name, and changes nothing."""
    tick, plain = q.push("tick", every=60), q.push("plain")
    before = probe.stored()
    for options, says in [
        ({"after": [tick]}, f"task {tick}, which recurs"),
        ({"after": "abc"}, "must be a list of ids"),
        ({"after": [""]}, "after"),
        ({"after": [plain] * 17}, "up to 16"),
        ({"after": [plain], "every": 5}, "every is 5"),
        ({"after": [plain], "key": "k", "on_duplicate": "update"}, "on_duplicate is 'update'"),
        ({"after": [plain], "on_dead": "ignore"}, "on_dead is 'ignore'"),
    ]:
        with pytest.raises(ConfigurationError, match=says):
            q.push("late", **options)
    with pytest.raises(ConfigurationError, match="after is"):
        q.seal_batch("b", on_finish=Push("end", after=[plain]))
    for own in ("a", "b"):
        spec = json.dumps({"priority": "0", "after": [own]})
        refused = probe.call("push", "", "a", spec, "1", "b", '{"priority":"0"}', "2")
        assert refused == [-12, 1, own.encode()]
    assert probe.stored() == before
