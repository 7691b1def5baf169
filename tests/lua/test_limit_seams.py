"""What limits of several kinds do together: each case was found by tests/stateful/all_limits.py,
or by reading for it."""

import pytest
from kit.limits import fill, take

from dpq import DPQ
from dpq.limits.permit import Caller, PermitRequest


def ask(q: DPQ, group: str | None = "g", cost=1, lease=60.0, timeout=None, rank=0) -> Caller:
    """One call of a caller."""
    caller = Caller(PermitRequest(group, cost, timeout, rank, lease), 0.0)
    caller.receive(q._session.run(q._operations.acquire, caller, 0.0), 0.0)
    return caller


def test_a_permit_whose_caller_died_leaves_nothing_behind(q, clock, probe):
    """Neither its lease nor its gate: a group may never be used again."""
    ask(q, cost={"tokens": 3}, lease=5.0)
    q.push(1)
    clock.advance(100)
    q.promote()
    q.pop()
    assert probe.stored().keys() & {"tracked", "gates"} == set(), probe.stored()


@pytest.mark.parametrize("scope", [None, "g"])
def test_callers_do_the_upkeep_that_they_wait_for(q, clock, scope):
    """A consumer has died with its task, and there is no other one: its lease ends for callers."""
    q.set_limit(group=scope, concurrency=1)
    fill(q, 1)
    take(q, visibility=5)
    assert ask(q).moment == ""
    clock.advance(6)
    ask(q, rank=1)
    assert ask(q, rank=2).granted


@pytest.mark.parametrize("seconds", [None, 3600])
def test_a_caller_hears_that_a_closed_group_was_opened(q, clock, seconds):
    """Nobody wakes it, so it asks now and then, also where the closing has no end."""
    q.delay_group("g", seconds)
    caller = Caller(PermitRequest("g", 1, None, 0, 60.0), 0.0)
    answer = q._session.run(q._operations.acquire, caller, 0.0)
    assert answer.wait >= 3600
    assert 1 <= caller.receive(answer, 0.0) <= 30
    q.delay_group("g", 0)
    caller.receive(q._session.run(q._operations.acquire, caller, 0.0), 0.0)
    assert caller.granted


@pytest.mark.parametrize("members", [None, ["k", "l"]])
def test_permits_are_in_flight(q, clock, members):
    """Else nobody sees what fills a concurrency."""
    q.set_limit(100, 1, 9, group="g", concurrency=2, members=members)
    fill(q, 1)
    take(q)
    ask(q, lease=20.0)
    state = q.admin.group("g")
    assert (state.in_flight, state.open) == (2, members is not None)
    assert [member.in_flight for member in state.members] == ([1, 1] if members else [])
    clock.advance(21)
    assert q.admin.group("g").in_flight == 1
