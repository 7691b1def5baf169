"""history, remember, events, and the times in stats: what a queue remembers of itself."""

from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis

from dpq import DPQ, ConfigurationError, Push
from dpq.script.keys import key_of
from dpq.testing import Clock


def remember(q: DPQ[Any]) -> int:
    return q._session.run(q._operations.remember)


def test_times(q: DPQ, clock: Clock) -> None:
    """Waits count from the due moment to the first delivery, runs from the pop to the end."""
    assert (q.stats().wait, q.stats().run) == (None, None)
    q.push_many([Push(1), Push(2, delay=3), Push(3, group="a", key="k")])
    clock.advance(7)
    first, second, third = sorted(q.pop_many(3), key=lambda task: task.payload)
    wait = q.stats().wait
    assert wait
    assert wait.count == 3
    assert [count for bound, count in wait.buckets if bound in (2.5, 5, 10)] == [0, 1, 3]
    clock.advance(0.2)
    q.ack(first)
    q.fail(second, delay=0)
    q.bury(third, "no")
    clock.advance(60)
    again = q.pop().task
    assert again
    assert q.stats().wait == wait  # only first deliveries wait
    q.ack(again)
    q.ack(again)  # it is gone: a retried ack counts no run
    run = q.stats().run
    assert run
    assert [count for bound, count in run.buckets if bound in (0.1, 0.25)] == [1, 4]
    assert run.since(None) == run
    assert run.since(run) is None


def test_history(q: DPQ, clock: Clock) -> None:
    """Each minute has a slot, each quarter one as well; both come to an end."""
    clock.ms = 1_700_000_000_000 // 900_000 * 900_000
    assert remember(q) == 0  # nothing of it is stored yet
    q.push_many([Push(n, group="g") for n in range(3)])
    assert remember(q) == 1
    assert remember(q) == 0  # in the same minute
    clock.advance(150)
    q.delay_group("g", 60)
    q.ack(q.pop().task) if q.peek(1) else None
    assert remember(q) == 1
    first, last = q.admin.history()
    assert (first.at, first.seconds) == (
        datetime.fromtimestamp((clock.ms - 150_000) / 1000, UTC),
        60,
    )
    assert (first.pushed, first.ready, first.waiting, first.closed_groups) == (3, 1, 2, 0)
    assert (last.waiting, last.closed_groups, last.oldest_due_seconds) == (3, 1, None)
    assert q.admin.history(60) == [last]
    assert [slot.at for slot in q.admin.history(86_401)] == [first.at]
    clock.advance(86_400)
    remember(q)
    assert len(q.admin.history(86_400)) == 1  # the others are a day ago, and more
    assert len(q.admin.history(14 * 86_400)) == 2
    with pytest.raises(ConfigurationError, match="seconds is 0"):
        q.admin.history(0)


def test_history_is_bounded(q: DPQ, clock: Clock, redis: Redis) -> None:
    """Rings of fields: 20 days of quarters leave no more than 14 days of them."""
    q.push(1)
    for _ in range(1400):
        clock.advance(900)
        remember(q)
    assert redis.hlen(key_of(q.queue_name, "history")) == 1344 + 96
    assert len(q.admin.history(14 * 86_400)) == 1344


def test_upkeep_remembers(q: DPQ, clock: Clock) -> None:
    """Promote stores a slot by itself: a scheduler is enough."""
    q.push(1, delay=5)
    clock.advance(6)
    q.promote()
    [slot] = q.admin.history()
    assert slot.ready == 1


def test_events(q: DPQ) -> None:
    """What people want to see is told, the oldest first; a task that succeeds tells nothing."""
    q.push_many([Push(n, group="g") for n in range(4)])
    q.ack(q.pop().task)
    q.rate_limited(q.pop().task, 5)
    q.delay_group("g", 0)
    q.bury(q.pop().task, "HTTP 404")
    q.pause(9)
    q.resume()
    q.set_limit(5, 1, group="g")
    q.set_limit(5, 1)
    q.clear_limit("g")
    q.dead.replay()
    q.purge("ready")
    found = q.admin.events()
    assert [(event.kind, event.group) for event in found] == [
        ("rate_limited", "g"),
        ("opened", "g"),
        ("dead", "g"),
        ("paused", ""),
        ("resumed", ""),
        ("limit_set", "g"),
        ("limit_set", ""),
        ("limit_set", "g"),
        ("by_hand", ""),
        ("by_hand", ""),
    ]
    assert found[2].detail == "HTTP 404"
    assert (found[5].detail, found[7].detail) == ("0|5 1000 1", "removed")
    assert q.admin.events(limit=2) == found[-2:]
    assert q.admin.events(after=found[3].id, limit=2) == found[4:6]
    assert q.admin.events(after=found[-1].id) == []
    with pytest.raises(ConfigurationError, match="id of an event"):
        q.admin.events(after="yesterday")


def test_a_storm_is_one_event_a_second(q: DPQ, clock: Clock) -> None:
    """Many 429s of one group are told once a second, and counted each."""
    q.push_many([Push(n, group="g") for n in range(6)])
    tasks = q.pop_many(6)
    for task in tasks[:4]:
        q.rate_limited(task, 5)
    clock.advance(1)
    q.rate_limited(tasks[4], 5)
    clock.ms -= 3_600_000  # somebody sets the clock: nothing is silent for an hour
    q.rate_limited(tasks[5], 5)
    assert [event.kind for event in q.admin.events()] == ["rate_limited"] * 3
    assert q.stats().rate_limited == 6


def test_the_stream_is_capped(q: DPQ, redis: Redis) -> None:
    """It keeps about the last ten thousand."""
    key = key_of(q.queue_name, "events")
    with redis.pipeline(transaction=False) as many:
        for _ in range(10_500):
            many.xadd(key, {"kind": "paused"})
        many.execute()
    q.pause(1)
    assert 10_000 <= redis.xlen(key) < 10_200
