"""view: what limits, closings and probes allow now, as `limits`, `groups` and `group` say it."""

from datetime import UTC, datetime

import pytest
from kit.limits import LONG, SCOPES, fill

from dpq import Adaptive, RateLimit, Reserve
from dpq.types import LimitState


def moment(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


def state_of(q, scope):
    """The state of the queue, or of group g."""
    return q.admin.group("g") if scope else q.admin.limits()[0]


def test_nothing_is_limited(q):
    """A queue without limits is named by itself, open; so is any group that is asked for."""
    assert q.admin.limits() == [LimitState(group=None, windows=(), concurrency=None)]
    assert q.admin.groups() == []
    assert q.admin.group("g") == LimitState(group="g", windows=(), concurrency=None)


def test_settings(q):
    """What was set is read back whole, shortest window first: the queue, `*`, groups by name."""
    hour = RateLimit(5000, 3600, burst=100, reserve=Reserve(20, 2.5))
    q.set_limit([hour, RateLimit(10, 1)], concurrency=4)
    q.set_limit(2.5, 60, burst=2, group="b", adaptive=Adaptive(0.5, 10, 0.25))
    q.set_limit(concurrency=3, group="*")
    q.set_limit(1, 0.001, 7, group="a")
    queue, default, a, b = q.admin.limits()
    assert [state.group for state in (queue, default, a, b)] == [None, "*", "a", "b"]
    assert (queue.windows, queue.concurrency) == ((RateLimit(10, 1), hour), 4)
    assert (default.windows, default.concurrency, default.default) == ((), 3, False)
    assert (a.windows, a.concurrency) == ((RateLimit(1, 0.001, 7),), None)
    assert b.windows == (RateLimit(2.5, 60, 2, adaptive=Adaptive(0.5, 10, 0.25)),)
    assert (a.rate, b.rate) == (None, 2.5)
    assert q.admin.groups() == [a, b]
    assert q.admin.group("a") == a


def test_default(q):
    """A group without its own limit shows the default's, and says so."""
    q.set_limit(10, 1, group="*", concurrency=2)
    q.set_limit(5, 1, group="own")
    found = q.admin.group("g")
    assert (found.default, found.windows, found.concurrency) == (True, (RateLimit(10, 1),), 2)
    found = q.admin.group("own")
    assert (found.default, found.windows, found.concurrency) == (False, (RateLimit(5, 1),), None)
    assert [state.group for state in q.admin.groups()] == ["own"]


@pytest.mark.parametrize("scope", SCOPES)
def test_units_left(q, clock, scope):
    """Units are what each window would grant at once; they come back with time, to the burst."""
    q.set_limit([RateLimit(1, 10, burst=3), RateLimit(2, 100, burst=2)], group=scope)
    fill(q, 9)
    assert state_of(q, scope).units_left == (3, 2)
    q.pop()
    assert state_of(q, scope).units_left == (2, 1)
    clock.advance(5)
    assert state_of(q, scope).units_left == (2.5, 1.1)
    clock.advance(1000)
    assert state_of(q, scope).units_left == (3, 2)


@pytest.mark.parametrize("scope", SCOPES)
def test_spent(q, clock, scope):
    """Spent: closed until the next unit, by its moment."""
    q.set_limit(4, 1, group=scope)
    fill(q, 3)
    assert state_of(q, scope).open
    q.pop(visibility=LONG)
    state = state_of(q, scope)
    assert (state.open, state.reason) == (False, "spent")
    assert state.opens_at == moment(clock.ms + 250)
    clock.advance(0.25)
    state = state_of(q, scope)
    assert (state.open, state.reason, state.opens_at) == (True, None, None)


@pytest.mark.parametrize("scope", SCOPES)
def test_concurrency(q, clock, scope):
    """As many leases as may be: closed, and no clock says until when."""
    q.set_limit(concurrency=2, group=scope)
    fill(q, 4)
    tasks = q.pop_many(4, visibility=LONG)
    state = state_of(q, scope)
    assert (state.open, state.reason, state.opens_at) == (False, "concurrency", None)
    assert (state.in_flight, state.waiting) == (2, 2)
    q.ack(tasks[0])
    assert state_of(q, scope).open


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_a_429_and_its_probe(q, clock, scope):
    """After a 429: closed until its time, then open for the probe, then closed by the probe."""
    where = "g" if scope == "group" else None
    fill(q, 4)
    q.rate_limited(q.pop().task, 10, scope)
    state = state_of(q, where)
    assert (state.open, state.reason) == (False, "rate limited")
    assert state.opens_at == moment(clock.ms + 10_000)
    clock.advance(10)
    assert state_of(q, where).open
    probe = q.pop(visibility=LONG).task
    state = state_of(q, where)
    assert (state.open, state.reason, state.opens_at) == (False, "probe", None)
    q.ack(probe)
    assert state_of(q, where).open


def test_waiting_and_in_flight(q, clock):
    """Counted are due tasks that have not begun, and leases: of the queue all, of a group its own.

    Delayed and dead ones are not.
    """
    fill(q, 5)
    fill(q, 2, group="h")
    q.push("alone")
    q.push("later", delay=60, group="g")
    q.pop_many(2, visibility=LONG)
    q.bury(q.pop().task, "no")
    q.push("running", priority=9)
    q.pop(visibility=LONG)
    counts = {s.group: (s.waiting, s.in_flight) for s in [q.admin.limits()[0], q.admin.group("g")]}
    assert counts == {None: (5, 3), "g": (2, 2)}
    q.delay_group("g", 60)
    assert (q.admin.group("g").waiting, q.admin.group("h").waiting) == (2, 2)
