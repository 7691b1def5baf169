"""Room for the way to a host: said as `slack`, or learned from 429s of a limit that was kept."""

import pytest
from kit.limits import LONG, SCOPES
from kit.moments import first_after_429

from dpq import Push


@pytest.fixture
def fill(q):
    q.push_many(Push(payload=i, group="g") for i in range(100))


def take(q):
    return q.pop(visibility=LONG).task


def learned(q, scope="g"):
    return (q.admin.group("g") if scope else q.admin.limits()[0]).slack


def interval(q, clock):
    """Seconds until the next unit, to the millisecond; it is taken then, and acked."""
    for ms in range(1, 100_000):
        clock.advance(0.001)
        if task := take(q):
            q.ack(task)
            return ms / 1000
    raise AssertionError("nothing came")


def refuse(q, clock, scope="g", seconds=1.0, pause=0.2):
    """A 429 of a task that is popped after a pause, its closing, and the probe after that."""
    clock.advance(pause)
    q.ack(first_after_429(q, clock, "group" if scope else "queue", seconds))


@pytest.mark.parametrize("scope", SCOPES)
def test_said(q, clock, fill, scope):
    """The window is so much longer: 4 units go in 1.2 s, one each 300 ms."""
    q.set_limit(4, 1, group=scope, slack=0.2)
    q.ack(take(q))
    assert [interval(q, clock) for _ in range(4)] == [0.3] * 4


@pytest.mark.parametrize("scope", SCOPES)
def test_learned(q, clock, fill, scope):
    """A 429 of a limit that was kept gives it a twentieth of its window, in every scope."""
    q.set_limit(10, 1, group=scope)
    assert learned(q, scope) == 0
    refuse(q, clock, scope)
    assert learned(q, scope) == 0.05
    assert [interval(q, clock) for _ in range(3)] == [0.105] * 3


def test_it_is_forgotten_slowly(q, clock, fill):
    """Half of it is left after 20 minutes, without a word in between, and nothing at last."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    for left in (0.025, 0.013):
        clock.advance(1200)
        q.ack(take(q))
        assert learned(q) == pytest.approx(left, abs=0.001)
    clock.advance(8 * 1200)
    assert learned(q) == 0
    q.ack(take(q))
    assert interval(q, clock) == 0.1


# What teaches nothing


def test_a_probe(q, clock, fill):
    """Nothing came close to a probe: that the host still refuses says nothing of the way."""
    q.set_limit(10, 1, group="g")
    refuse(q, clock)
    clock.advance(0.2)
    q.rate_limited(take(q), 1)  # soon after: it doubles
    for _ in range(3):
        clock.advance(1)
        q.rate_limited(take(q), 1)
    assert learned(q) == 0.1


# What is stored
