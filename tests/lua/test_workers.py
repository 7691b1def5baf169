"""workers: which workers are alive, one page at a time."""

from datetime import UTC, datetime, timedelta

from dpq.types import WorkerInfo


def tell(q, worker="w", name="name", age=4.0):
    q._session.run(q._operations.beat, worker, name, "host", 77, "0.1", 2, 8, age)


def test_what_it_says(q, clock):
    """All that a worker told is there, by the server's clock."""
    tell(q)
    now = datetime.fromtimestamp(clock.ms / 1000, UTC)
    clock.advance(7)
    assert q.admin.workers() == [
        WorkerInfo(
            id="w",
            name="name",
            host="host",
            pid=77,
            version="0.1",
            queue=q.queue_name,
            running=2,
            concurrency=8,
            since=now - timedelta(seconds=4),
            seen=now,
            seen_seconds=7,
        )
    ]


def test_dead_ones(q, clock):
    """A worker that was not seen for 60 s is not listed, though nobody has forgotten it yet."""
    tell(q)
    clock.advance(59.999)
    assert len(q.admin.workers()) == 1
    clock.advance(0.001)
    assert q.admin.workers() == []
