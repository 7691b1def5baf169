"""A limit that learns: up after each window that was used and clean, halved at a 429."""

import pytest
from kit.limits import LONG, SCOPES

from dpq import DPQ, Adaptive, Push


@pytest.fixture
def learn(q):
    """Sets 8 a second that learn from 2 to 20, with a burst that is never the bound."""

    def set_limit(rate=8, scope="g", **more):
        settings = {"floor": 2, "ceiling": 20, "step": 1.0} | more
        q.set_limit(rate, 1, burst=1000, group=scope, adaptive=Adaptive(**settings))
        q.push_many(Push(payload=i, group="g") for i in range(100))

    return set_limit


def rate(q, scope="g"):
    return q.admin.group("g").rate if scope else q.admin.limits()[0].rate


def use(q, clock, units, seconds=1.0):
    """Take so many units at once, and let a time pass."""
    q.ack_many(q.pop_many(units, visibility=LONG)) if units else None
    clock.advance(seconds)


def hit(q, seconds=0.0, scope="group"):
    """A 429 of a task that is popped now."""
    task = q.pop(visibility=LONG).task
    q.rate_limited(task, seconds, scope)
    return task


@pytest.mark.parametrize("scope", SCOPES)
def test_up(q, clock, learn, scope):
    """Each window that was used at least half, and met no 429, adds a step, in every scope."""
    learn(scope=scope)
    seen = []
    for _ in range(4):
        use(q, clock, 7)
        seen.append(rate(q, scope))
    assert seen == [8, 9, 10, 11]


def test_ceiling(q, clock, learn):
    """The rate rises to the ceiling and no further, whatever the step."""
    learn(ceiling=10.5, step=2)
    seen = []
    for _ in range(4):
        use(q, clock, 9)
        seen.append(rate(q))
    assert seen == [8, 10, 10.5, 10.5]


@pytest.mark.parametrize("scope", SCOPES)
def test_halved(q, clock, learn, scope):
    """A 429 halves the rate, down to the floor, in every scope."""
    learn(16, scope=scope)
    seen = []
    for _ in range(5):
        task = hit(q, 1, "group" if scope else "queue")
        clock.advance(1)
        q.ack(task)
        seen.append(rate(q, scope))
    assert seen == [8, 4, 2, 2, 2]


def test_once_in_a_closing(q, clock, learn):
    """All that was under way when the limit was hit halves it once, however many 429s come."""
    learn(16)
    tasks = q.pop_many(8, visibility=LONG)
    for task in tasks[:4]:
        q.rate_limited(task, 10)
        clock.advance(1)
    assert rate(q) == 8
    clock.advance(20)
    q.rate_limited(tasks[4], 10)
    assert rate(q) == 4


def test_a_window_with_a_429_is_not_clean(q, clock, learn):
    """The window of a 429 adds nothing; the next one begins with the opening."""
    learn(16)
    use(q, clock, 12, seconds=0.5)
    hit(q, 2)
    clock.advance(2)
    for _ in range(8):
        use(q, clock, 1, seconds=0.125)
        assert rate(q) == 8
    use(q, clock, 1)
    assert rate(q) > 8


@pytest.mark.parametrize("scope", SCOPES)
def test_kept_when_the_limit_is_said_again(q, clock, learn, scope):
    """What was learned stays when a process says the same limit at its start, or another rate."""
    learn(16, scope=scope)
    hit(q, 1, "group" if scope else "queue")
    for start in (16, 12):
        learn(start, scope=scope)
        assert rate(q, scope) == 8
    other = DPQ(q.redis, q.queue_name, clock=clock)
    other.set_limit(16, 1, burst=1000, group=scope, adaptive=Adaptive(2, 20))
    assert rate(other, scope) == 8


# Where the limit may be: known from the last 429
