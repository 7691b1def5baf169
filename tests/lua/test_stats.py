"""stats: how many tasks are in each state, the running totals, the oldest ready task."""

import pytest

from dpq import DPQ


def test_totals(q, clock, probe):
    """Each total counts its own event."""
    for i in range(8):
        q.push(i)
    acked, failed, buried, deferred, _ = q.pop_many(5, visibility=50)
    q.ack(acked)
    q.fail(failed)
    q.bury(buried, "r")
    q.set_visibility(deferred, 10)
    q.dead.replay()
    clock.advance(50)
    q.promote()
    stats = q.stats()
    assert (stats.pushed, stats.popped, stats.acked, stats.failed) == (8, 5, 1, 1)
    assert (stats.deferred, stats.expired_leases, stats.buried) == (1, 1, 1)
    assert (stats.replayed, stats.dropped) == (1, 0)


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_oldest(q, clock, order):
    """The oldest is found wherever it stands among a few priorities, first or last of its own."""
    queue = DPQ(q.redis, q.queue_name, order=order, clock=clock)
    assert queue.stats().oldest_ready_seconds is None
    oldest = queue.push("oldest", priority=3)
    clock.advance(10)
    for i in range(200):
        queue.push(i, priority=i % 7)
    clock.advance(5)
    assert queue.stats().oldest_ready_seconds == 15
    queue.cancel(oldest)
    assert queue.stats().oldest_ready_seconds == 5
