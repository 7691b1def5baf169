"""set_visibility: nobody sees the task for a while; this delivery does not count as a failure."""


def test_counted_once(q, clock, probe):
    """Any number of calls in one delivery is one deferral, and the last time counts."""
    q.push("x")
    task = probe.pop()
    for seconds in (45, 0, 10, 20):
        q.set_visibility(task, seconds)
        clock.advance(1)
    assert q.next_event() == 19
    assert (q.get(task.id).deferrals, q.stats().deferred) == (1, 1)


def test_once_in_each_delivery(q, probe):
    """Each delivery counts a deferral of its own."""
    q.push("x")
    for _ in range(3):
        q.set_visibility(probe.pop(), 0)
    assert (q.peek()[0].deferrals, q.peek()[0].attempt) == (3, 1)


def test_after_the_lease_ran_out_then_fail(q, clock, probe):
    """A delivery whose lease ran out, which then deferred and failed, costs one attempt."""
    q.push("x")
    task = probe.pop()
    clock.advance(30)
    q.promote()
    q.set_visibility(task, 45)
    q.fail(task, delay=0)
    again = q.get(task.id)
    assert (again.attempt, again.deferrals) == (2, 1)
