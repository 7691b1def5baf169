"""When a waiter is to look again by itself, and which moments have a watcher."""

from typing import Any

import pytest
from redis import Redis

from dpq import DPQ
from dpq.script.keys import key_of
from dpq.script.replies import Batch


def asks(q: DPQ[Any]) -> Batch[Any]:
    """A pop of a consumer that is about to wait."""
    batch: Batch[Any] = q._session.run(q._operations.pop, 1, None, "-")
    return batch


def test_within(redis: Redis, q: DPQ[Any]) -> None:
    """In 10 s, once there is a queue."""
    assert asks(q).recheck_ms is None  # there is no queue
    q.push(1)
    q.ack(q.pop().task)
    assert asks(q).recheck_ms == 10_000


@pytest.mark.parametrize(("delay", "watcher"), [(9.9, True), (10, False), (6, True), (60, False)])
def test_moments_until_the_next_look_have_a_watcher(
    redis: Redis, q: DPQ[Any], delay: float, watcher: bool
) -> None:
    """A waiter looks again in 10 s: what is due before needs one, what is due later does not."""
    q.push(1)
    q.ack(q.pop().task)
    asks(q)
    q.push(2, delay=delay)
    assert (redis.zscore(key_of(q.queue_name, "wake"), "e") is not None) == watcher
    redis.delete(key_of(q.queue_name, "wake"))
    redis.hdel(key_of(q.queue_name, "conf"), "watched")
    assert (asks(q).next_event_ms or 0) == delay * 1000
    assert redis.hexists(key_of(q.queue_name, "conf"), "watched") == watcher


def test_a_short_lease_has_a_watcher(redis: Redis, q: DPQ[Any]) -> None:
    """Its end comes before the waiters look again, though it is not the first event."""
    q.push(1, delay=0.5)
    q.push(2)
    q.pop(visibility=9)
    assert redis.zscore(key_of(q.queue_name, "wake"), "e") is not None
