"""rate_limited: a task whose own request is always refused lets the others go first, and dies."""

from typing import Any

import pytest
from kit.limits import fill, payloads, take
from kit.moments import task_after

from dpq import DPQ, Push, RateLimited, Task
from dpq.testing import Clock


@pytest.fixture
def bad(q: DPQ[Any]) -> str:
    """The best task of group g; the host refuses it whenever it runs."""
    return q.push("bad", priority=9, group="g")


def refuse(q: DPQ[Any], task: Task[Any], scope: Any = "group") -> None:
    assert task.payload == "bad"
    q.rate_limited(task, 5, scope, reason="too large")


def refuse_twice_as_probe(q: DPQ[Any], clock: Clock, scope: Any = "group") -> None:
    refuse(q, take(q), scope)
    for _ in range(2):
        refuse(q, task_after(q, clock, 5), scope)


def others_pass(q: DPQ[Any], clock: Clock, count: int = 1) -> None:
    """The next task is the probe, and opens; at most `count` tasks run until the bad one may."""
    clock.advance(5)
    for _ in range(count):
        task = take(q)
        assert task.payload != "bad"
        q.ack(task)
    clock.advance(10)


def refuse_alone(q: DPQ[Any], clock: Clock, seconds: float = 5) -> None:
    refuse(q, take(q))
    refuse(q, task_after(q, clock, seconds))


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_others_go_first(q, clock, probe, bad, scope):
    """After two refusals as a probe another task is the probe; then the task has its place
    again."""
    fill(q, 4)
    refuse_twice_as_probe(q, clock, scope)
    assert probe.state(bad) == "delayed"
    other = task_after(q, clock, 5)
    assert other.payload == 0
    q.ack(other)
    assert take(q).payload == 1
    clock.advance(9.999)
    assert take(q).payload == 2
    clock.advance(0.001)
    assert take(q).payload == "bad"
    assert q.check() == []


@pytest.mark.parametrize(("closed", "away"), [(0, 1), (0.25, 1), (5, 10), (30, 60), (3600, 60)])
def test_how_long(q, clock, bad, closed, away):
    """Others go first for twice the closing, for a second at least and a minute at most."""
    fill(q, 1)
    for _ in range(3):
        q.rate_limited(take(q), closed)
        clock.advance(closed)
    assert payloads(q) == [0]  # as the probe, whose lease does not end
    found = q.peek(1, "delayed")[0]
    assert found.payload == "bad"
    assert found.visible_until.timestamp() * 1000 == clock.ms + away * 1000


def test_dies(q, clock, probe, bad):
    """While others pass, the fifth refusal as a probe is the last one."""
    after = q.push("after", after=[bad])
    fill(q, 9)
    refuse_twice_as_probe(q, clock)
    for _ in range(3):
        assert q.stats().dead == 0
        others_pass(q, clock)
        refuse_alone(q, clock)
    dead = q.dead.list()[0]
    assert (dead.payload, dead.reason) == ("bad", "always rate limited")
    assert dead.last_error == "too large"
    assert (dead.attempts, dead.deliveries, q.stats().buried) == (0, 9, 1)
    assert [event.task_id for event in q.admin.events() if event.kind == "dead"] == [bad]
    assert not q.admin.group("g").open  # it was a 429
    clock.advance(5)
    q.promote()
    assert probe.state(after) == "dead"
    q.ack(take(q))  # the probe
    assert payloads(q) == [4, 5, 6, 7, 8]
    assert q.check() == []


def test_dies_as_the_last_one(q, clock, probe, bad):
    """If no other task is left, its next refusals count, too."""
    fill(q, 2)
    refuse_twice_as_probe(q, clock)
    others_pass(q, clock, 2)
    refuse_alone(q, clock)
    for _ in range(2):
        assert probe.state(bad) == "delayed"
        refuse(q, task_after(q, clock, 15))
    assert probe.state(bad) == "dead"


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_alone_it_is_the_probe(q, clock, probe, bad, scope):
    """If no other task could pass, it keeps its place, and never dies."""
    if scope == "group":
        q.push("free", group="h", priority=-1, delay=10**6)
    refuse(q, take(q), scope)
    for _ in range(20):
        refuse(q, task_after(q, clock, 5), scope)
    assert q.get(bad).deferrals == 21


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_a_host_that_refuses_everything(q, clock, scope):
    """No task dies, and all are there when the host answers again."""
    fill(q, 3)
    for _ in range(100):
        if task := q.pop().task:
            q.rate_limited(task, 5, scope)
        clock.advance(5)
    assert q.stats().dead == 0
    clock.advance(60)
    q.ack(take(q))
    assert len(payloads(q)) == 2


def test_a_host_that_refuses_what_comes_too_soon(q, clock, bad):
    """Refusals beside others say nothing of the task: only those as a probe count."""
    for _ in range(20):
        fill(q, 2)
        refuse(q, take(q))  # beside others
        clock.advance(5)
        q.delay_group("g", 0)  # open, without a probe
    assert q.stats().dead == 0


ENDS = {
    "fail": lambda q, task: q.fail(task, "no", 0),
    "release": lambda q, task: q.release(task),
    "set_visibility": lambda q, task: q.set_visibility(task, 0),
}


@pytest.mark.parametrize("end", ENDS)
def test_in_a_row(q, clock, probe, bad, end):
    """A delivery that ends in another way lets the count begin anew."""
    fill(q, 2)
    refuse(q, take(q))
    refuse(q, task_after(q, clock, 5))
    ENDS[end](q, task_after(q, clock, 5))
    refuse(q, take(q))
    refuse(q, task_after(q, clock, 5))
    assert probe.state(bad) == "waiting"
    refuse(q, task_after(q, clock, 5))
    assert probe.state(bad) == "delayed"


def die(q: DPQ[Any], clock: Clock) -> None:
    refuse_twice_as_probe(q, clock)
    for _ in range(3):
        others_pass(q, clock)
        refuse_alone(q, clock)


def test_replay(q, clock, probe, bad):
    """A replayed task starts anew."""
    fill(q, 9)
    die(q, clock)
    q.dead.replay(bad)
    refuse(q, task_after(q, clock, 5))
    assert probe.state(bad) == "waiting"


def test_a_new_payload(q, clock, probe):
    """An update is another request."""
    bad = q.push("bad", 9, group="g", key="k")
    fill(q, 2)
    refuse_twice_as_probe(q, clock)
    q.push("bad", 9, group="g", key="k", on_duplicate="update")
    refuse(q, task_after(q, clock, 5))
    assert probe.state(bad) == "waiting"


def test_rerun(q, clock, probe):
    """A task that is to run once more does not die before that."""
    bad = q.push("bad", 9, group="g", key="k")
    fill(q, 20)
    task = take(q)
    q.push("bad", 9, group="g", key="k", on_duplicate="rerun", delay=10**6)
    refuse(q, task)
    for _ in range(2):
        refuse(q, task_after(q, clock, 5))
    for _ in range(6):
        others_pass(q, clock)
        refuse_alone(q, clock)
        assert probe.state(bad) == "delayed"


def test_recurring(q, clock, probe):
    """A recurring task goes on letting others go first, and never dies."""
    bad = q.push("bad", 9, group="g", every=10**6)
    fill(q, 20)
    refuse_twice_as_probe(q, clock)
    for _ in range(12):
        others_pass(q, clock)
        refuse_alone(q, clock)
        assert probe.state(bad) == "delayed"


def test_in_order(q, clock, bad):
    """In strict order nothing of the group runs before it."""
    q.set_limit(concurrency=1, group="g", in_order=True)
    fill(q, 2)
    refuse(q, take(q))
    for _ in range(9):
        refuse(q, task_after(q, clock, 5))
    assert q.stats().dead == 0


def test_as_any_member(q, clock, probe, bad):
    """In a pool the refusals count whichever member the task runs as."""
    q.set_limit(100, 1, group="g", members=["a", "b"])
    fill(q, 30)
    for _ in range(60):
        clock.advance(1)
        for task in q.pop_many(2, visibility=10**6):
            if task.payload == "bad":
                q.rate_limited(task, 2)
            else:
                q.ack(task)
    assert probe.state(bad) == "dead"
    assert q.check() == []


def test_the_text_of_the_answer(q, clock):
    """It is the last error, in one line, and its beginning only."""
    q.push("bad", 9, group="g")
    fill(q, 9)
    limited = RateLimited(5, "group", 429, "too large:\n" + "x" * 1000)
    for n in range(9):
        if n in (3, 5, 7):
            others_pass(q, clock)
        elif n:
            clock.advance(5)
        with q.lease() as task:
            assert task.payload == "bad"
            raise limited
    assert q.dead.list()[0].last_error == "too large: " + "x" * 189


def test_a_batch(q, clock):
    """Its batch counts it as dead."""
    q.push_many(Push("bad" if n == 0 else n, 9 - n, group="g", batch="b") for n in range(9))
    q.seal_batch("b")
    die(q, clock)
    assert (q.batch("b").dead, q.batch("b").done) == (1, 3)
