"""When a waiter is to look again by itself, and which moments have a watcher."""

from typing import Any

import pytest
from redis import Redis

from dpq import DPQ
from dpq.link.blocks import handing_on, read_marker
from dpq.link.watches import Watch, watches_after
from dpq.script.keys import key_of
from dpq.script.replies import Batch
from dpq.testing import Clock


def asks(q: DPQ[Any], waiter: str = "-") -> Batch[Any]:
    """A pop of a consumer that is about to wait."""
    batch: Batch[Any] = q._session.run(q._operations.pop, 1, None, waiter)
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


def test_the_second_watcher_is_the_first_of_the_next_moment(
    redis: Redis, q: DPQ[Any], clock: Clock
) -> None:
    """If its marker comes to the second watcher, it asks at the moment, not 300 ms later."""
    q.push(1, delay=1)
    q.push(2, delay=3)
    wake = key_of(q.queue_name, "wake")
    redis.delete(wake)
    redis.hdel(key_of(q.queue_name, "conf"), "watched")
    (first,), (second,) = watches_after(asks(q)), watches_after(asks(q))
    assert (first.second, second.second) == (False, True)
    clock.advance(1)
    assert asks(q, first.mine).tasks
    ((member, moment),) = redis.zpopmin(wake)
    marker = read_marker([wake], [wake.encode(), member, moment])
    second.marker_received(marker.moment, marker.second)
    clock.advance(0.3)
    batch = asks(q, second.mine)
    assert (batch.next_event_ms, batch.second) == (1700, False)


def test_a_moment_that_has_come_is_no_moment_to_watch(
    redis: Redis, q: DPQ[Any], clock: Clock
) -> None:
    """A delayed push after it wakes a waiter now: one that watches a later moment keeps that."""
    q.push(1, delay=1)
    wake = key_of(q.queue_name, "wake")
    redis.delete(wake)
    clock.advance(1)
    q.push(2, delay=1)
    assert redis.zrange(wake, 0, -1, withscores=True) == [(b"w", 0)]


def test_the_first_watcher_keeps_its_moment() -> None:
    """A marker of a second watcher is none of its own; such a marker is put back as what it is."""
    watch = Watch(0, 2000)
    for moment, second in ((2300, True), (1500, True), (2500, False)):
        watch.marker_received(moment, second)
        assert (watch.moment, watch.second) == (2000, False)
    watch.marker_received(1700)
    assert watch.moment == 1700
    watch = Watch(0, 4)  # on the server, its moment has come
    look_at = watch.look_at
    watch.marker_received(500)
    assert (watch.moment, watch.look_at) == (500, look_at)
    marker = read_marker(["wake"], [b"wake", b"d", b"1500"])
    assert list(handing_on(["wake"], [marker])) == [("ZADD", "wake", "NX", "1500.000", "d")]
