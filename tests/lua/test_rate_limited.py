"""rate_limited: a task met a limit; it goes back uncounted, and its group or the queue closes."""

from urllib.error import HTTPError

import pytest
from kit.limits import fill, payloads, take
from kit.moments import exactly_after, first_after_429, task_after

from dpq import Push, RateLimited


@pytest.fixture
def tasks(q):
    """Six tasks of group g, and two of none that are worse."""
    q.push_many(Push(payload=f"g{i}", priority=9 - i, group="g") for i in range(6))
    q.push_many(Push(payload=f"free{i}") for i in range(2))


def spot(probe, task_id):
    """What of a task's record is its priority and its place."""
    record = probe.record(task_id)
    return record["priority"], record["order"]


# What is told


def test_the_status_is_told(q, clock, probe, tasks):
    """Events and the totals name the status of the answer, of tasks and of permits; a
    429 is what a program that names none has met."""
    opens = int(clock.ms) + 5000
    for n, status in enumerate((503, None, 429, 529)):
        clock.advance(2)
        q.rate_limited(take(q), *((5, "queue") if n == 0 else (1, "task")), status=status)
        clock.advance(5 * (n == 0))
    with q.lease() as task:
        assert task
        raise RateLimited(1, "task", 420)
    with q.acquire("p", priority=99) as permit:  # before the tasks
        permit.report(403, {"retry-after": "9"})
    details = [event.detail for event in q.admin.events() if event.kind == "rate_limited"]
    alone = "1000 ms, this task alone"
    assert details[:-1] == [
        f"503, closed until {opens + 2000}",
        *(alone, alone, f"529, {alone}", f"420, {alone}"),
    ]
    assert details[-1].startswith("403, closed until ")
    stats = q.stats()
    assert (stats.rate_limited, stats.rate_limited_503, stats.rate_limited_529) == (5, 1, 1)
    assert (stats.rate_limited_403, stats.rate_limited_other) == (0, 1)
    assert q.check() == []


# What closes


def test_group(q, clock, probe, tasks):
    """The task's group is closed for everybody until just then; others run."""
    task = take(q)
    q.rate_limited(task, 5)
    assert probe.state(task.id) == "waiting"
    assert payloads(q) == ["free0", "free1"]
    assert exactly_after(q, clock, 5) == ["g0"]


def test_queue(q, clock, probe, tasks):
    """With scope "queue" nothing of the queue runs until just then; the best task is first."""
    q.push("other", group="h", priority=100)
    other, task = take(q), take(q)
    q.rate_limited(task, 5, "queue")
    assert probe.state(task.id) == "ready"
    assert payloads(q) == []
    q.ack(other)
    clock.advance(4.999)
    q.push("best", priority=50)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == ["best"]


# How long


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_a_longer_closing_is_never_shortened(q, clock, tasks, scope):
    """Of several 429s the one that closes longest decides, in whatever order they come."""
    tasks = [take(q) for _ in range(3)]
    q.rate_limited(tasks[0], 2, scope)
    q.rate_limited(tasks[1], 20, scope)
    q.rate_limited(tasks[2], 10, scope)
    assert "g0" not in payloads(q)
    assert exactly_after(q, clock, 20) == ["g0"]


# The task


@pytest.mark.parametrize("scope", ["group", "queue", "task"])
def test_uncounted_in_its_place(q, clock, probe, scope):
    """The attempt does not count; priority, place, payload and key stay; one deferral counts."""
    for i in range(3):
        q.push(i, priority=3.5, group="g", key=f"k{i}", max_attempts=1)
    before = q.peek()[0]
    at = spot(probe, before.id)
    task = take(q)
    q.rate_limited(task, 5, scope)
    clock.advance(5)
    again = take(q)
    assert again.id == task.id
    assert spot(probe, task.id) == at
    assert (again.payload, again.key, again.group) == (0, "k0", "g")
    assert (again.attempt, again.deliveries, again.deferrals) == (1, 2, 1)
    assert (q.stats().deferred, q.stats().failed) == (1, 0)
    q.rate_limited(again, 5, scope)
    assert q.get(task.id).deferrals == 2


@pytest.mark.parametrize(
    ("signal", "state", "open_"),
    [
        (RateLimited(5), "waiting", False),
        (HTTPError("http://h/", 429, "", {"Retry-After": "5"}, None), "waiting", False),
        (RateLimited(5, "queue"), "ready", True),
        (RateLimited(5, "task"), "delayed", True),
    ],
    ids=["group", "an error", "queue", "task"],
)
def test_raised_in_a_lease(q, probe, tasks, signal, state, open_):
    """Raised in the body of `lease`, the signal does the same, and goes no further."""
    with q.lease() as task:
        raise signal
    assert probe.state(task.id) == state
    assert q.admin.group("g").open is open_
    assert q.get(task.id).deferrals == 1


# The probe


def close(q, scope="group"):
    """Close g, or the queue, by a 429 for 10 s."""
    q.rate_limited(take(q), 10, scope)


OPENING = {
    "ack": lambda q, task: q.ack(task),
    "fail": lambda q, task: q.fail(task, "no", 60),
    "release": lambda q, task: q.release(task, 60),
    "bury": lambda q, task: q.bury(task, "no"),
    "set_visibility": lambda q, task: q.set_visibility(task, 60),
    "cancel": lambda q, task: q.cancel(task.id),
    "purge": lambda q, task: q.purge("invisible"),
}


@pytest.mark.parametrize("scope", ["group", "queue"])
@pytest.mark.parametrize("way", OPENING)
def test_probe(q, clock, probe, scope, way):
    """After the closing one task runs alone; when it is over, without a 429, all others may."""
    fill(q, 4)
    task = first_after_429(q, clock, scope)
    assert task.payload == 0
    assert payloads(q) == []
    clock.advance(25)
    assert payloads(q) == []
    probe.woken()

    OPENING[way](q, task)

    assert probe.woken()
    assert payloads(q) == [1, 2, 3]
    assert q.admin.limits()[0].open
    assert q.admin.group("g").open


@pytest.mark.parametrize("permits", [False, True])
def test_closings_without_a_time(q, clock, permits):
    """Each in a row is twice as long, up to five minutes; after a good answer it is 5 s again."""
    fill(q, 1)

    def seconds_closed():
        if permits:
            with q.acquire("g", priority=99, timeout=0) as permit:
                assert permit.report(429, {}).guessed
        else:
            with q.lease():
                raise RateLimited
        return q.admin.group("g").opens_at.timestamp() - clock.ms / 1000

    for guess in (5, 10, 20, 40, 80, 160, 300, 300):
        seconds = seconds_closed()
        assert 0.87 * guess <= seconds <= guess + 0.001
        clock.advance(seconds + 0.001)
    q.ack(take(q))
    fill(q, 1)
    assert seconds_closed() == pytest.approx(5)


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_probe_whose_lease_is_lost(q, clock, scope):
    """A probe that came to nothing because its lease ran out is followed by another probe."""
    fill(q, 3)
    lost = first_after_429(q, clock, scope, visibility=20)
    probe = task_after(q, clock, 20)
    assert (probe.payload, probe.attempt) == (0, 2)
    assert probe.token > lost.token
    assert payloads(q) == []
    q.ack(probe)
    assert payloads(q) == [1, 2]


@pytest.mark.parametrize("paused", [False, True])
def test_resume_opens_the_queue(q, clock, probe, tasks, paused):
    """`resume` opens a queue that a 429 has closed, without a probe, and wakes."""
    close(q, "queue")
    if paused:
        q.pause()
    q._session.run(q._operations.pop, 1, None, "-")
    assert payloads(q) == []
    probe.woken()
    q.resume()
    assert probe.woken()
    assert q.admin.limits()[0].open
    q.push("worst", priority=-9)
    assert probe.woken()
    assert payloads(q) == ["g0", "g1", "g2", "g3", "g4", "g5", "free0", "free1", "worst"]


# Pace


@pytest.mark.parametrize("scope", ["group", "queue"])
def test_no_burst_after_opening(q, clock, scope):
    """When it opens the limit's own pace holds: no burst of everything that has waited."""
    q.set_limit(4, 1, burst=5, group="g" if scope == "group" else None, slack=0)
    fill(q, 9)
    close(q, scope)
    clock.advance(2)
    assert payloads(q) == []
    q.push(9, group="g")
    clock.advance(8)
    q.ack(take(q))
    for i in range(1, 4):
        assert payloads(q) == []
        assert exactly_after(q, clock, 0.25) == [i]
