"""What the verbs of a holder have in common: at once, after a delay, twice, and late."""

import pytest
from kit.deliveries import put_back
from kit.moments import task_after

pytestmark = pytest.mark.fakeredis

GIVE_BACK = {
    "release": (lambda q, task, delay: q.release(task, delay), (1, 0, None)),
    "fail": (lambda q, task, delay: q.fail(task, ValueError("bad"), delay), (2, 0, "bad")),
    "set_visibility": (lambda q, task, delay: q.set_visibility(task, delay), (1, 1, None)),
    "rate_limited": (lambda q, task, delay: q.rate_limited(task, delay, "task"), (1, 1, None)),
}
"""How a task is given back, and the attempt, the deferrals and the last error that it has then."""


@pytest.mark.parametrize("verb", GIVE_BACK)
@pytest.mark.parametrize("delay", [0, 45])
def test_given_back(q, clock, probe, verb, delay):
    """It comes again just then, or at once, which wakes, in its old place; a failure counts."""
    give_back, counted = GIVE_BACK[verb]
    q.push("x")
    task = probe.pop()
    q.push("equal", delay=delay)
    probe.woken()
    give_back(q, task, delay)
    assert probe.state(task.id) == ("delayed" if delay else "ready")
    assert probe.woken() is not bool(delay)
    again = task_after(q, clock, delay) if delay else probe.pop()
    assert (again.id, again.attempt, again.deferrals, again.last_error) == (task.id, *counted)
    assert again.deliveries == 2
    assert again.token > task.token
    assert probe.drain() == ["equal"]
    assert (q.stats().failed, q.stats().deferred) == (counted[0] - 1, counted[1])


AGAIN = {
    "ack": (lambda q, task: q.ack(task), lambda q, task: q.ack(task)),
    "release": (lambda q, task: q.release(task, 5), lambda q, task: q.release(task, 9, priority=3)),
    "fail": (lambda q, task: q.fail(task, "a", 3), lambda q, task: q.fail(task, "b", 9)),
    "bury": (lambda q, task: q.bury(task, "a"), lambda q, task: q.bury(task, "b")),
}
"""The same verb twice: what is said first, and then."""


LATE = {
    "extend": (lambda q, task: q.extend(task, 45), "invisible"),
    "set_visibility": (lambda q, task: q.set_visibility(task, 45), "delayed"),
    "release": (lambda q, task: q.release(task, 45), "delayed"),
    "fail": (lambda q, task: q.fail(task, "late", delay=45), "delayed"),
    "bury": (lambda q, task: q.bury(task, "late"), "dead"),
}
"""What a holder may say late, and where the task is then; late acks are in test_ack.py."""


@pytest.mark.parametrize("verb", LATE)
@pytest.mark.parametrize("state", ["ready", "waiting", "delayed"])
def test_late(q, clock, probe, verb, state):
    """After its lease, or a deferral, all works until somebody pops the task; it counts once."""
    q.push("x", group="g")
    task = probe.pop()
    put_back(q, clock, task, state)
    say, wanted = LATE[verb]
    for _ in range(2):
        say(q, task)
        found = q.get(task.id)
        assert found.state == wanted
        if wanted == "dead":
            assert found.reason == "late"
            continue
        assert found.visible_until.timestamp() * 1000 == clock.ms + 45_000
        assert found.attempt == (1 if state == "delayed" and verb != "fail" else 2)
        assert found.deferrals == int(state == "delayed" or verb == "set_visibility")
    assert q.ack(task) is True


LEAVE = {verb: say for verb, (say, _) in LATE.items()} | {"ack": lambda q, task: q.ack(task)}


@pytest.mark.parametrize("verb", LEAVE)
@pytest.mark.parametrize("last", [False, True], ids=["not the last attempt", "the last attempt"])
def test_of_a_head_late(q, clock, probe, verb, last):
    """When the head of a group goes late, the next one of the group becomes ready, and wakes."""
    q.push("head", group="g", priority=1, max_attempts=1 if last else 10)
    task = probe.pop()
    if last:
        q.set_visibility(task, 0)  # the end of its lease would bury it
    else:
        put_back(q, clock, task, "ready")
    q.push("next", group="g")
    assert [ready.payload for ready in q.peek()] == ["head"]
    probe.woken()
    LEAVE[verb](q, task)
    assert [ready.payload for ready in q.peek()] == ["next"]
    assert probe.woken()
