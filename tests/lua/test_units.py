"""Limits of several units: tokens beside requests, and what a task takes of each."""

import pytest
from kit.limits import LONG, SCOPES, payloads

from dpq import DPQ, Push, RateLimit

TOKENS = [RateLimit(500, 60, burst=20), RateLimit(6000, 60, burst=1000, unit="tokens")]
"""500 requests and 6000 tokens a minute: a token each 10 ms."""


def left(q: DPQ, scope: str | None = "g") -> tuple[float, ...]:
    """The units that each window of a scope would grant now."""
    return next(state for state in q.admin.limits() if state.group == scope).units_left


@pytest.mark.parametrize("scope", SCOPES)
def test_the_scarce_unit_decides(q, clock, scope):
    """Tasks run until the first unit is spent, and go on when it has enough for the next one."""
    q.set_limit(TOKENS, group=scope)
    q.push_many(Push(n, group="g", cost={"tokens": 400}) for n in range(9))
    assert payloads(q) == [0, 1]
    clock.advance(1.99)
    assert payloads(q) == []
    clock.advance(0.01)
    assert payloads(q) == [2]
    clock.advance(4)
    assert payloads(q) == [3]
    assert q.check() == []


def test_all_units_or_none(q, clock):
    """A task that lacks units of the queue takes none of its group, and the other way round."""
    q.set_limit([RateLimit(60, 60, 9), RateLimit(60, 60, 5, unit="a")], group="*")
    q.set_limit([RateLimit(60, 60, 9), RateLimit(60, 60, 3, unit="b")])
    q.push("first", 9, group="g", cost={"a": 1, "b": 3})
    q.push("second", 8, group="g", cost={"a": 1, "b": 1})
    assert payloads(q) == ["first"]
    assert (left(q, None), q.admin.group("g").units_left) == ((8, 0), (8, 4))
    clock.advance(1)
    assert payloads(q) == ["second"]
    assert q.check() == []


@pytest.mark.parametrize("text", ["0|5 1000T 2", "0|5 1000to-ken 2", "0|5 tokens 2", "0|5 1000  2"])
@pytest.mark.damaged
def test_rules_with_a_strange_unit(q, probe, text):
    """They cannot be read, so nothing runs until they are set again."""
    q.set_limit(TOKENS, group="g")
    q.push("x", group="g")
    probe.redis.hset(probe.key("limits"), "group:g", text)
    assert payloads(q) == []
    assert [each.kind for each in q.check()][-1] == "limit cannot be read"
    q.set_limit(TOKENS, group="g")
    assert payloads(q) == ["x"]


@pytest.mark.damaged
def test_a_gate_with_junk_counts_as_spent(q, clock, probe):
    """Letters belong to the units of windows only."""
    q.set_limit(TOKENS, group="g")
    q.push_many(Push(n, group="g", cost={"tokens": 10}) for n in range(3))
    assert len(q.pop_many(1, visibility=LONG)) == 1
    gate = probe.redis.hget(probe.key("gates"), "g")
    probe.redis.hset(probe.key("gates"), "g", gate.replace(b"tokens:", b"tokens:junk"))
    assert left(q)[1] <= 0
    assert payloads(q) == []
