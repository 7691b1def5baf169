"""fail: this attempt failed: the task comes back later, or is dead when its attempts are spent."""

from kit.moments import task_after

from dpq import DPQ, Backoff


def test_comes_back_counted(q, clock, probe):
    """A failed task comes back after its delay with one attempt more and the error."""
    task_id = q.push("x", priority=3)
    q.fail(probe.pop(), ValueError("bad page"), delay=5)
    assert probe.state(task_id) == "delayed"
    again = task_after(q, clock, 5)
    assert (again.attempt, again.deliveries, again.last_error) == (2, 2, "bad page")
    assert q.stats().failed == 1


def test_at_once(q, probe):
    """With a delay of 0 it is ready at once, in its old place, and wakes."""
    q.push("x")
    q.push("y")
    task = probe.pop()
    probe.woken()
    q.fail(task, delay=0)
    assert probe.woken()
    assert probe.drain() == ["x", "y"]


def test_backoff(q, clock, probe):
    """Without a delay it waits as the queue's backoff says, longer from attempt to attempt."""
    queue = DPQ(q.redis, q.queue_name, clock=clock, backoff=Backoff(1, 3, 20, jitter=0))
    queue.push("x")
    waits = []
    for _ in range(5):
        queue.fail(queue.pop().task)
        waits.append(queue.next_event())
        clock.advance(waits[-1])
    assert waits == [1, 3, 9, 20, 20]


def test_attempts_spent(q, clock, probe):
    """The last failed attempt makes it dead, with the number of attempts and the last error."""
    task_id = q.push("x", max_attempts=3)
    for i in range(3):
        q.fail(probe.pop(), f"error {i}", delay=0)
    letter = q.get(task_id)
    assert (letter.state, letter.reason) == ("dead", "attempts spent")
    assert (letter.attempts, letter.last_error) == (3, "error 2")


def test_twice(q, probe):
    """The same failure again succeeds and changes nothing, while the task lives."""
    q.push("x")
    task = probe.pop()
    q.fail(task, "first", delay=3)
    before = probe.stored()
    q.fail(task, "second", delay=9)
    assert probe.stored() == before


def test_twice_the_last(q, probe):
    """The same failure again changes nothing when the first made the task dead."""
    q.push("x", max_attempts=1)
    task = probe.pop()
    q.fail(task)
    before = probe.stored()
    q.fail(task)
    assert probe.stored() == before


def test_after_the_lease_ran_out(q, clock, probe):
    """A failure after the end of the lease was counted does not count again."""
    task_id = q.push("x")
    task = probe.pop()
    clock.advance(30)
    q.promote()
    q.fail(task, "late", delay=5)
    again = q.get(task_id)
    assert (again.attempt, again.state, again.last_error) == (2, "delayed", "late")


def test_after_a_deferral(q, clock, probe):
    """A delivery that deferred and then failed counts one deferral and one attempt."""
    task_id = q.push("x")
    task = probe.pop()
    q.set_visibility(task, 10)
    q.fail(task, delay=20)
    again = q.get(task_id)
    assert (again.attempt, again.deferrals) == (2, 1)
    assert q.next_event() == 20


def test_after_deferral_and_expiry(q, clock, probe):
    """A delivery that deferred, went on and outlived its lease does not count twice."""
    task_id = q.push("x")
    task = probe.pop()
    q.set_visibility(task, 10)
    q.extend(task, 10)
    clock.advance(10)
    q.promote()
    q.fail(task, delay=0)
    again = q.get(task_id)
    assert (again.attempt, again.deferrals) == (2, 1)


def test_late_head(q, clock, probe):
    """A late failure of the head of a group makes the next one ready, also when it is the last."""
    for last in (10, 1):
        q.push("head", group="g", priority=1, max_attempts=last)
        task = probe.pop()
        q.set_visibility(task, 0)
        q.push("next", group="g")
        probe.woken()
        q.fail(task, delay=60)
        assert [ready.payload for ready in q.peek()] == ["next"]
        assert probe.woken()
        q.purge()


def test_error_is_one_bounded_line(q, probe):
    """An error is kept without control characters, up to 1000 characters; None is none."""
    task_id = q.push("x")
    q.fail(probe.pop(), "a\tb\nc\0d" + "é" * 2000, delay=0)
    assert q.get(task_id).last_error == "a b c d" + "é" * 993
    q.fail(probe.pop(), delay=0)
    assert q.get(task_id).last_error is None
