"""Lost limits: what they have granted and learned stays, and they come back whole."""

import pytest
from kit.limits import LONG, fill, take
from kit.moments import first_after_429

from dpq import Adaptive, RateLimit

pytestmark = pytest.mark.damaged

TWO_WINDOWS = [RateLimit(1, 10, slack=0), RateLimit(100, 20, 100, slack=0)]


@pytest.mark.parametrize("way", ["promote", "ack", "429", "close"])
@pytest.mark.parametrize("lost", ["limits", "one", "limits and their note"])
def test_what_was_granted_stays(server, q, clock, probe, way, lost):
    """While a limit is lost, upkeep and holders forget nothing of what it has granted."""
    q.set_limit(TWO_WINDOWS, group="g")
    q.set_limit(1, 1, group="other")
    fill(q, 20)
    [task] = q.pop_many(9, visibility=LONG)
    if way == "ack":
        q.rate_limited(task, 0)
        clock.advance(10)
        [task] = q.pop_many(9, visibility=LONG)
    if lost == "one":
        probe.redis.hdel(probe.key("limits"), "group:g")
    else:
        probe.redis.delete(probe.key("limits"))
        probe.redis.hdel(probe.key("conf"), "limited" if "note" in lost else "")
    clock.advance(1)
    if way == "ack":
        q.ack(task)
    elif way == "429":
        q.rate_limited(task, 0)
    elif way == "close":
        q.delay_group("g", 5)
        q.delay_group("g", 0)
    for _ in range(5):
        q.promote()
    assert q.pop_many(9) == []
    clock.advance(8)
    assert q.pop_many(9) == []
    clock.advance(1)
    assert len(q.pop_many(9)) == 1
    assert q.check() == []


@pytest.mark.parametrize("way", ["nothing", "promote", "ack", "429", "close"])
@pytest.mark.parametrize("kind", ["slack", "rate"])
def test_what_was_learned_stays(server, q, clock, probe, way, kind):
    """So it is with a learned rate and a learned slack."""
    q.set_limit(10, 1, group="g", adaptive=Adaptive(1, 20) if kind == "rate" else None)
    fill(q, 20)
    q.ack(first_after_429(q, clock, seconds=1))
    clock.advance(0.5)
    task = take(q)
    if way == "ack":
        q.rate_limited(task, 0)
        clock.advance(0.5)
        task = take(q)
    before = q.group("g")
    probe.redis.delete(probe.key("limits"))
    if way == "ack":
        q.ack(task)
    elif way == "429":
        q.rate_limited(task, 0, "task")
    elif way == "close":
        q.delay_group("g", 60)
        q.delay_group("g", 0)
    elif way == "promote":
        clock.advance(2)
        for _ in range(5):
            q.promote()
    q.repair()
    after = q.group("g")
    assert (after.rate, after.slack, after.windows) == (before.rate, before.slack, before.windows)
    assert q.check() == []


@pytest.mark.parametrize("way", ["pop", "repair", "set_limit"])
def test_they_come_back_whole(server, q, clock, probe, way):
    """With all that was said of each window, be it by the next pop, a repair or another limit."""
    windows = [
        RateLimit(4, 1, 5, adaptive=Adaptive(1, 8), slack=0.05),
        RateLimit(9, 60, 5, slack=0),
        RateLimit(50, 3600),
    ]
    q.set_limit(windows, group="g", concurrency=3)
    q.set_limit(9, 1, slack=0.25)
    fill(q, 20)
    before = q.limits()
    stored = probe.stored()["limits"], probe.stored()["conf"][b"queue_rules"]
    probe.redis.delete(probe.key("limits"))
    probe.redis.hdel(probe.key("conf"), "queue_rules")
    if way == "pop":
        assert q.pop_many(20)
    elif way == "repair":
        assert q.repair()
    else:
        q.set_limit(1, 1, group="x")
        q.pop()
        q.clear_limit("x")
    assert (probe.stored()["limits"], probe.stored()["conf"][b"queue_rules"]) == stored
    if way == "repair":
        assert [(s.windows, s.slack) for s in q.limits()] == [(s.windows, s.slack) for s in before]
    assert q.check() == []


@pytest.mark.parametrize("scope", ["g", "*"])
def test_a_limit_of_all_does_not_take_the_place_of_a_lost_one(server, q, clock, probe, scope):
    """Upkeep under the limit of all groups forgets nothing of a group whose own limit is lost."""
    q.set_limit(TWO_WINDOWS, group=scope)
    q.set_limit(50, 1, 50, group="g" if scope == "*" else "*")
    fill(q, 20)
    assert len(q.pop_many(9, visibility=LONG)) == (1 if scope == "g" else 9)
    probe.redis.hdel(probe.key("limits"), "group:g")
    q.rate_limited(q.peek(1, "invisible")[0], 0)
    for _ in range(3):
        q.promote()
        clock.advance(2)
    clock.advance(3.9)
    assert len(q.pop_many(9)) == (0 if scope == "g" else 1)
    assert q.check() == []
