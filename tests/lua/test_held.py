"""held: the leases of the running tasks, one page at a time; and who holds them, by the beats."""

from datetime import UTC, datetime

from dpq.types import LeaseInfo
from dpq.verbs.workers import Doing


def beat(q, worker, *tasks, name=None, running=0, longest_ms=None, longest_task=None):
    """Tells of a worker that holds tasks."""
    doing = Doing([(task.id, task.token) for task in tasks], longest_ms, longest_task)
    about = (worker, name or worker, "host", 77, "0.1", running, 8, 4.0, doing)
    q._session.run(q._operations.beat, *about)


def test_what_it_says(q, clock):
    """A lease shows its task, its delivery, its holder, and since when by the server's clock."""
    id_ = q.push("secret", group="g", max_attempts=3)
    task = q.pop(visibility=60).task
    popped = datetime.fromtimestamp(clock.ms / 1000, UTC)
    beat(q, "w", task, name="the bee")
    clock.advance(7)
    [lease] = q.admin.held()
    assert abs((lease.since - popped).total_seconds()) < 0.001
    assert abs(lease.held_seconds - 7) < 0.001
    assert lease == LeaseInfo(
        id=id_,
        token=task.token,
        queue=q.queue_name,
        group="g",
        attempt=1,
        max_attempts=3,
        since=lease.since,
        until=task.visible_until,
        held_seconds=lease.held_seconds,
        worker="the bee",
        worker_id="w",
        host="host",
        pid=77,
    )


def test_the_longest_held_first(q, clock):
    """They come by their age; `n`, `worker` and `older_than` choose among them."""
    for n in range(3):
        q.push(n)
        task = q.pop(visibility=1000).task
        beat(q, f"w{n}", task)
        clock.advance(10)
    assert [lease.worker for lease in q.admin.held()] == ["w0", "w1", "w2"]
    assert [lease.worker for lease in q.admin.held(2)] == ["w0", "w1"]
    assert [lease.worker for lease in q.admin.held(worker="w1")] == ["w1"]
    assert [lease.worker for lease in q.admin.held(older_than=15)] == ["w0", "w1"]
    assert (
        q.admin.held(worker="w2", older_than=15)
        == q.admin.held(worker="nobody")
        == q.admin.held(0)
        == []
    )


def test_release_held(q):
    """Leases go back uncounted, and keep their place; what has ended meanwhile is left alone."""
    for n in range(4):
        q.push(n, group="g" if n % 2 else None)
    tasks = q.pop_many(4)
    held = q.admin.held()
    q.ack(tasks[0])
    assert q.admin.release_held(held) == 3
    assert q.admin.release_held(held) == 3  # the same call again: done before
    assert (q.admin.held(), q.size(), q.stats().failed) == ([], 3, 0)
    again = q.pop().task
    assert (again.payload, again.attempt, again.deliveries) == (tasks[1].payload, 1, 2)
    assert q.admin.release_held(held) == 2  # another delivery has it: not touched
    assert [lease.id for lease in q.admin.held()] == [again.id]
    assert q.check() == []
