"""observe: what a host says is left, obeyed before its first 429."""

import pytest
from kit.limits import fill, payloads, take

from dpq import DPQ, Budget, Push, Quota, RateLimit

SCOPES = [None, "g"]


def says(left, seconds, unit=""):
    """Headers of a host that counts requests, or other units."""
    more = f"-{unit}" if unit else ""
    return {f"x-ratelimit-remaining{more}": str(left), f"x-ratelimit-reset{more}": f"{seconds}s"}


def left(q, scope="g"):
    """What is left by unit, of a group or the queue."""
    state = q.limits()[0] if scope is None else q.group(scope)
    return {budget.unit: (budget.left, budget.seconds) for budget in state.budgets}


@pytest.mark.parametrize("scope", SCOPES)
def test_as_many_as_are_left(q, clock, scope):
    """Then nothing until the reset; after it the host is not known to limit anything."""
    fill(q, 8, scope)
    last = q.push(8, group=scope)
    assert q.observe(scope, headers=says(3, 60)) == [Budget("", 3, 60)]
    assert payloads(q) == [0, 1, 2]
    assert left(q, scope) == {"": (0, 60)}
    state = q.limits()[0] if scope is None else q.group(scope)
    assert (state.open, state.reason) == (False, "observed")
    assert "its host has said that no more is left" in q.why(last)
    clock.advance(59.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [3, 4, 5, 6, 7, 8]
    assert left(q, scope) == {}


def refills(left, seconds, full):
    """Headers of a host whose requests come back evenly."""
    return says(left, seconds, "requests") | {"x-ratelimit-limit-requests": str(full)}


def run_all(q, clock, seconds=10):
    """Run and end each task as soon as it may: the ms when each one began, from now."""
    begun, first = [], clock.ms
    while clock.ms <= first + seconds * 1000:
        for task in q.pop_many(20):
            begun.append(clock.ms - first)
            q.ack(task)
        clock.advance(0.25)
    return begun


@pytest.mark.parametrize("scope", SCOPES)
def test_units_that_come_back_evenly(q, clock, scope):
    """Half a second for each: what is left runs at once, and then no sooner than they come."""
    fill(q, 8, scope)
    assert q.observe(scope, headers=refills(3, 4.5, 12)) == [Budget("", 3, 4.5, 12)]
    assert left(q, scope) == {"": (3, 4.5)}
    moments = [each.starts_at for each in q.forecast(8)]
    assert [round((each - moments[0]).total_seconds(), 3) for each in moments] == [
        *(0, 0, 0, 0.5, 1, 1.5, 2, 2.5)
    ]
    assert len(q.pop_many(8)) == 3
    state = q.limits()[0] if scope is None else q.group(scope)
    assert (state.open, state.reason, left(q, scope)) == (False, "observed", {"": (0, 6)})
    assert state.budgets[0].full == 12
    assert run_all(q, clock) == [500, 1000, 1500, 2000, 2500]


def test_the_newest_answer_of_such_a_host_counts(q, clock):
    """Also if it says more; each other lease counts as one that the host does not know."""
    fill(q, 9, "g")
    tasks = q.pop_many(3)
    q.observe(tasks[0], headers=refills(2, 10, 12))  # one in a second
    assert left(q) == {"": (0, 12)}
    q.ack_many(tasks)
    q.observe("g", headers=refills(5, 3.5, 12))
    assert left(q) == {"": (5, 3.5)}
    assert run_all(q, clock) == [0, 0, 0, 0, 0, 500]


@pytest.mark.parametrize("scope", SCOPES)
def test_what_is_under_way_counts(q, clock, scope):
    """The host may not know it yet; the task that has the answer is known to it."""
    fill(q, 9, scope)
    tasks = [take(q) for _ in range(4)]
    q.observe(tasks[0], headers=says(5, 60))
    assert left(q, scope)[""][0] == 2
    q.ack(tasks[0])
    q.observe(tasks[1], headers=says(4, 59))
    assert left(q, scope)[""][0] == 2
    later = q.pop_many(2)
    for task in (*tasks[1:], *later):
        q.observe(task, headers=says(0, 30))
        q.ack(task)
    assert payloads(q) == []


def test_leases_are_counted_from_the_first_answer_on(q, redis, clock):
    """Those from before are found; of other groups none count."""
    fill(q, 3, "g")
    fill(q, 3, "h")
    running = q.pop_many(6)
    q.observe("g", headers=says(8, 60))
    assert left(q)[""][0] == 5
    fill(q, 9, "g")
    more = q.pop_many(2)
    q.observe("g", headers=says(8, 90))
    assert left(q)[""][0] == 3
    for task in (*running, *more):
        q.ack(task)
    q.observe("g", headers=says(8, 120))
    assert left(q)[""][0] == 8


def test_an_older_answer_never_raises_it(q, clock):
    """Of the same reset the lower number counts; a later reset is another window."""
    q.observe("g", headers=says(5, 60))
    q.observe("g", headers=says(9, 60))
    q.observe("g", headers=says(9, 61))
    q.observe("g", headers=says(9, 59))
    assert left(q) == {"": (5, 60)}
    q.observe("g", headers=says(4, 61.5))
    assert left(q) == {"": (4, 60)}
    q.observe("g", headers=says(9, 62.001))
    assert left(q) == {"": (9, 62.001)}
    q.observe("g", headers=says(50, 30))
    assert left(q) == {"": (9, 30)}


def test_own_limits_hold_beside_it(q, clock):
    """It loosens none, and both are charged."""
    clock.ms -= clock.ms % 86_400_000
    q.set_limit([RateLimit(60, 60, 2), Quota(4, "day")], group="g")
    q.observe("g", headers=says(1000, 60))
    fill(q, 9)
    assert payloads(q) == [0, 1]
    q.observe("g", headers=says(3, 60))  # two are under way
    clock.advance(5)
    assert payloads(q) == [2]
    clock.advance(60)
    assert payloads(q) == [3]
    assert q.group("g").quotas[0].left == 0


def test_units(q, clock):
    """Each unit has its budget; a task that needs more than is left waits for the reset."""
    q.observe("g", headers=says(100, 60) | says(1000, 30, "tokens"))
    for n, tokens in enumerate([600, 600, 300]):
        q.push(n, group="g", cost={"tokens": tokens})
    first = take(q)
    assert first.payload == 0
    assert payloads(q) == []
    assert "host" in q.why(q.peek(1, state="waiting")[0].id)
    q.observe(first, headers=says(800, 30, "tokens"))
    assert left(q) == {"": (99, 60), "tokens": (400, 30)}
    clock.advance(30)
    assert payloads(q) == [1, 2]


def test_a_task_that_needs_more_than_there_ever_is(q, clock):
    """It waits for one reset only."""
    q.observe("g", headers=says(5, 60))
    q.push("huge", group="g", cost=10**9)
    assert payloads(q) == []
    clock.advance(60)
    assert payloads(q) == ["huge"]


def test_opened_by_hand(q, clock):
    """Who opens a group knows better: the budget is forgotten. Closing keeps it."""
    fill(q, 9)
    q.observe("g", headers=says(0, 60))
    q.delay_group("g", 5)
    clock.advance(5)
    assert payloads(q) == []
    q.delay_group("g", 0)
    assert len(payloads(q)) == 9
    assert left(q) == {}


def test_a_429_keeps_it(q, clock):
    """The later of both moments holds, and then the probe goes first."""
    fill(q, 9)
    task = take(q)
    q.observe(task, headers=says(0, 60))
    q.rate_limited(task, 5)
    clock.advance(59)
    assert payloads(q) == []
    clock.advance(1)
    assert payloads(q) == [0]
    assert q.group("g").reason == "probe"


def test_a_new_budget_wakes_a_waiting_queue(q, clock):
    """Of the queue: what it slept by is forgotten."""
    fill(q, 3, None)
    q.observe(None, headers=says(0, 60))
    assert payloads(q) == []
    q.observe(None, headers=says(2, 90))
    assert payloads(q) == [0, 1]


def test_a_lost_delivery_still_tells(q, clock):
    """The answer is true whoever has the task now; its new delivery is under way."""
    fill(q, 2)
    old = take(q, visibility=1)
    clock.advance(31)
    assert len(q.pop_many(2)) == 2
    q.observe(old, headers=says(5, 60))
    assert left(q)[""][0] == 3


def test_ends_are_bounded(q, clock):
    """A day at most, and nothing that is over."""
    assert q.observe("g", headers=says(0, 0)) == []
    assert left(q) == {}
    q.observe("g", headers=says(7, 10**8))
    assert left(q) == {"": (7, 86_400)}
    clock.advance(-3600)  # the clock was set back: nobody knows until when it holds
    assert left(q) == {}


def test_it_is_forgotten(q, redis, queue_name, clock):
    """With its last word a gate without a limit goes; budgets that hold stay."""
    q.push_many(Push(n, group=f"g{n}") for n in range(20))
    for n in range(20):
        q.observe(f"g{n}", headers=says(9, 60 if n else 600))
    assert len(payloads(q)) == 20
    gates = f"dpq:{{{queue_name}}}:gates"
    for _ in range(5):
        q.push("x", group="h")
        payloads(q)
        q.promote()
    assert redis.hlen(gates) == 20
    clock.advance(60)
    for _ in range(60):
        q.push("x", group="h")
        payloads(q)
        q.promote()
    assert redis.hkeys(gates) == [b"g0"]


@pytest.mark.damaged
@pytest.mark.parametrize("token", ["O:1", "O:x:9", "O:1:2:3:4", "Otokens::"])
def test_an_unreadable_budget(q, redis, queue_name, clock, token):
    """The gate cannot be read: check says so, and repair mends it."""
    q.set_limit(60, 60, group="g")
    redis.hset(f"dpq:{{{queue_name}}}:gates", "g", f"- {token} ")
    fill(q, 2)
    assert [problem.kind for problem in q.check()] == ["bad gate"]
    assert payloads(q) == []
    assert [problem.kind for problem in q.repair()] == ["bad gate"] or q.check() == []
    assert q.check() == []


def test_in_partitions(redis, queue_name, clock):
    """Of the whole queue each partition gets its share; of a group its partition all."""
    with DPQ(redis, queue_name, partitions=3, clock=clock) as q:
        q.observe(None, headers=says(9, 60))
        assert left(q, None) == {"": (9, 60)}
        fill(q, 40, None)
        assert len(payloads(q, 100)) == 9
        q.observe("g", headers=says(7, 60))
        assert left(q) == {"": (7, 60)}
        assert q.check() == []
        q.drop()
