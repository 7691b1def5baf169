"""pop with `ahead`: limits also grant units for a moment that is near; the caller waits for it."""

import random
from bisect import bisect_left
from itertools import pairwise

import pytest
from kit.limits import LONG, fill, payloads, take

from dpq import Push, RateLimit, RateLimited


def ahead(q, ms, most=1, beyond=0, waiter="-"):
    """What a worker gets that asks so many ms ahead."""
    more = {"ahead_ms": ms, "beyond": beyond}
    return q._session.run(q._operations.pop, most, LONG, waiter, **more)


def waits(q, ms, most=8, beyond=0):
    """How long each task has to wait that a worker gets, in whole ms."""
    batch = ahead(q, ms, most, beyond)
    return [round(wait) for wait in batch.waits_ms or [0] * len(batch.tasks)]


@pytest.mark.parametrize("scope", [None, "g", "*"])
def test_units_of_the_next_ms(q, clock, scope):
    """All units of an even window that come within `ahead` are granted, each for its moment."""
    q.set_limit(100, 1, group=scope)
    fill(q, 20)
    assert waits(q, 35) == [0, 10, 20, 30]
    clock.advance(0.020)
    assert payloads(q) == []  # who does not ask ahead gets what is free now
    assert waits(q, 9) == []
    assert waits(q, 25) == [20]
    clock.advance(0.031)
    assert len(payloads(q)) == 1


@pytest.mark.parametrize("scope", [None, "g"])
def test_more_only_if_they_begin_later(q, clock, scope):
    """Beyond the tasks for idle threads there are some for threads that will be idle by then."""
    q.set_limit(100, 1, burst=3, group=scope)
    fill(q, 20)
    assert waits(q, 50, most=2, beyond=9) == [0, 0]  # the third could begin now
    assert waits(q, 50, most=2, beyond=9) == [0, 10, 20, 30, 40, 50]
    clock.advance(0.010)
    q.push("apart")
    q.clear_limit(scope)
    assert waits(q, 50, most=1, beyond=9) == [0]


def test_both_begin_then(q, clock):
    """A task that waits for its queue waits for its group, too, and the later moment counts."""
    q.set_limit(100, 1)
    q.set_limit(20, 1, group="g")
    fill(q, 5)
    fill(q, 5, group="h")
    assert waits(q, 30, most=3) == [0, 10, 20]
    clock.advance(0.031)
    assert payloads(q) == [2]  # of h: g has paid for longer


@pytest.mark.parametrize(
    "limit", [RateLimit(10, 1, moving=True), RateLimit(10, 1, unit="tokens"), RateLimit(100, 0.01)]
)
def test_only_even_windows_of_requests(q, clock, limit):
    """Whatever counts otherwise, or is shorter than `ahead`, is decided when a task begins."""
    q.set_limit([limit])
    q.push_many(Push(n, cost={"tokens": 1} if limit.unit else 1) for n in range(30))
    first = waits(q, 50, most=30)
    assert set(first) == {0}
    assert waits(q, 50) == []


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_no_task_is_granted_ahead_of_the_end_of_a_429(q, clock, scope):
    """The probe begins when the closing is over, and the others after the probe."""
    q.set_limit(100, 1, group="g")
    fill(q, 9)
    q.rate_limited(take(q), RateLimited(1, scope=scope).retry_after, scope)
    clock.advance(0.98)
    assert waits(q, 50) == []
    clock.advance(0.02)
    assert waits(q, 50) == [0]


def test_a_reply_with_tasks_says_when_to_ask_again(q, clock):
    """A worker with room left watches the next moment, and needs no second pop to learn of it."""
    q.set_limit(10, 1)
    fill(q, 9)
    batch = ahead(q, 50, most=8)
    assert (len(batch.tasks), batch.next_event_ms, batch.recheck_ms) == (1, 100, 10_000)
    watched = f"{clock.ms + 100:.3f}"
    clock.advance(0.060)
    again = ahead(q, 50, most=8, waiter=watched)
    assert (len(again.waits_ms), again.next_event_ms) == (1, pytest.approx(140.8))
    full = ahead(q, 200, most=1)
    assert (len(full.tasks), full.recheck_ms) == (1, None)  # another thread may find more


def test_one_thread_that_takes_more_later_needs_no_second_pop(q, clock):
    """With room for tasks of later moments a full reply says it, too, if none could begin now."""
    q.set_limit(10, 1, burst=3)
    fill(q, 9)
    batch = ahead(q, 50, most=2, beyond=4)
    assert (len(batch.tasks), batch.recheck_ms) == (2, None)  # the third could begin now
    batch = ahead(q, 50, most=1, beyond=4)
    assert (len(batch.tasks), batch.next_event_ms, batch.recheck_ms) == (1, 100, 10_000)


@pytest.mark.parametrize("seed", range(6))
def test_no_window_gets_more_at_the_moments_of_its_tasks(q, clock, seed):
    """Whoever asks, ahead or not: what begins within a window is never above its bound."""
    draw = random.Random(seed)
    limits = {
        None: RateLimit(draw.choice([20, 90]), 0.5, burst=draw.choice([1, 4])),
        "*": RateLimit(draw.choice([5, 30]), 0.3, burst=draw.choice([1, 2])),
    }
    for scope, limit in limits.items():
        q.set_limit(limit.rate, limit.per, limit.burst, group=scope)
    for n in range(900):
        q.push(n, group=f"g{draw.randrange(6)}", priority=draw.randrange(9))
    begun = []
    for _ in range(150):
        clock.advance(draw.randrange(20) / 1000)
        ms = draw.choice([0, 5, 20, 50])
        batch = ahead(q, ms, draw.randrange(1, 5), draw.randrange(4), waiter="-" if ms else "")
        times = batch.waits_ms or [0] * len(batch.tasks)
        begun += [(clock.ms + ms, task.group) for task, ms in zip(batch.tasks, times, strict=True)]
    assert any(moment % 1 for moment, _ in begun)
    for scope, limit in limits.items():
        for group in {group for _, group in begun} if scope else {None}:
            of_it = sorted(moment for moment, each in begun if group in (None, each))
            for n, moment in enumerate(of_it):
                inside = bisect_left(of_it, moment + limit.per * 1000) - n
                assert inside <= limit.rate + limit.burst - 1, (scope, group, moment)
    assert q.check() == []


@pytest.mark.parametrize("scope", [None, "g"])
def test_a_limit_is_reached_over_a_round_trip(q, clock, scope):
    """A worker that asks every 20 ms loses a hundredth at most; who gets what is free, a half."""
    q.set_limit(100, 1, group=scope)
    fill(q, 300)
    moments = []
    for _ in range(100):
        batch = ahead(q, 44, most=4, beyond=8)
        moments += [clock.ms + wait for wait in batch.waits_ms or [0] * len(batch.tasks)]
        clock.advance(0.020)
    assert len(moments) >= 198
    assert all(after - before >= 10 for before, after in pairwise(moments))
