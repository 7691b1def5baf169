"""observe: what a host says is left, obeyed before its first 429."""

import pytest
from kit.limits import fill, payloads, take

from dpq import Push, Quota, RateLimit
from dpq.limits.permit import Caller, PermitRequest
from dpq.types import Budget

SCOPES = [None, "g"]


def says(left, seconds, unit=""):
    """Headers of a host that counts requests, or other units."""
    more = f"-{unit}" if unit else ""
    return {f"x-ratelimit-remaining{more}": str(left), f"x-ratelimit-reset{more}": f"{seconds}s"}


def left(q, scope="g"):
    """What is left by unit, of a group or the queue."""
    state = q.admin.limits()[0] if scope is None else q.admin.group(scope)
    return {budget.unit: (budget.left, budget.seconds) for budget in state.budgets}


@pytest.mark.parametrize("scope", SCOPES)
def test_as_many_as_are_left(q, clock, scope):
    """Then nothing until the reset; after it the host is not known to limit anything."""
    fill(q, 8, scope)
    last = q.push(8, group=scope)
    assert q.observe(scope, headers=says(3, 60)) == [Budget("", 3, 60)]
    assert payloads(q) == [0, 1, 2]
    assert left(q, scope) == {"": (0, 60)}
    state = q.admin.limits()[0] if scope is None else q.admin.group(scope)
    assert (state.open, state.reason) == (False, "observed")
    assert "its host has said that no more is left" in q.why(last)
    clock.advance(59.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [3, 4, 5, 6, 7, 8]
    assert left(q, scope) == {}


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
    assert q.admin.group("g").reason == "probe"


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


# The whole limit, window after window


def windows(left, seconds, limit=4, window=None):
    """Headers of a host that also says its limit, and perhaps its window."""
    if window is None:
        return says(left, seconds) | {
            "x-ratelimit-limit": str(limit),
            "x-ratelimit-reset": str(seconds),
        }
    return {
        "RateLimit-Policy": f'"p";q={limit};w={window}',
        "RateLimit": f'"p";r={left};t={seconds}',
    }


@pytest.mark.parametrize("scope", SCOPES)
def test_the_whole_limit_is_left_after_the_reset(q, clock, scope):
    """So many in each window, as long as it was told to come, until an hour after the last word."""
    fill(q, 40, scope)
    q.observe(scope, headers=windows(1, 10))
    assert payloads(q) == [0]
    clock.advance(9.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [1, 2, 3, 4]
    assert left(q, scope) == {"": (0, 10)}
    clock.advance(25)
    assert payloads(q) == [5, 6, 7, 8]
    assert left(q, scope) == {"": (0, 5)}
    clock.advance(3574.999)
    assert len(payloads(q)) == 4
    clock.advance(0.001)
    assert left(q, scope) == {}
    assert len(payloads(q, 40)) == 27


# Permits


def permit(q, group="g"):
    """One that is there now."""
    return q.acquire(group, timeout=0)


def test_permits_count_until_their_answer(q, redis, queue_name, clock):
    """The host may not know them; then they are no leases any more, at no further call."""
    q.observe("g", headers=windows(4, 10))
    with permit(q) as first, permit(q) as second:
        assert first.leased
        assert second.leased
        first.report(200, windows(3, 10))
        assert left(q) == {"": (2, 10)}
        assert not first.leased
        second.report(200, windows(3, 10))
        assert left(q) == {"": (2, 10)}
        assert not second.leased
    assert redis.zcard(f"dpq:{{{queue_name}}}:tracked") == 0
    with permit(q) as silent:
        silent.report(200, {})
        assert silent.leased
    assert redis.zcard(f"dpq:{{{queue_name}}}:tracked") == 0
    assert q.check() == []


def asked(q, lease=60.0):
    """A caller that waits, and the answer that it got."""
    caller = Caller(PermitRequest("g", 1, None, 0, lease), 0.0)
    return caller, ask(q, caller)


def ask(q, caller):
    """The answer that a caller gets now."""
    answer = q._session.run(q._operations.acquire, caller, 0.0)
    caller.receive(answer, 0.0)
    return answer


# What one answer may close


@pytest.mark.parametrize("scope", SCOPES)
def test_a_far_reset_is_asked_again_by_one(q, clock, scope):
    """One answer closes for a minute; then one task asks alone, and its answer decides."""
    fill(q, 9, scope)
    q.observe(scope, headers=says(0, 10**8))
    clock.advance(59.999)
    assert payloads(q) == []
    state = q.admin.limits()[0] if scope is None else q.admin.group(scope)
    assert (state.reason, round((state.opens_at.timestamp() - clock.ms / 1000) * 1000)) == (
        "observed",
        1,
    )
    clock.advance(0.001)
    probe = take(q)
    assert probe.payload == 0
    assert payloads(q) == []
    q.observe(probe, headers=says(0, 10**8))
    q.ack(probe)
    assert payloads(q) == []
    clock.advance(60)
    probe = take(q)
    assert payloads(q) == []
    q.ack(probe)
    assert payloads(q) == [2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "own", [RateLimit(5000, 3600), Quota(5000, "hour"), RateLimit(9, 3600, unit="t")]
)
def test_one_answer_is_believed_as_far_as_an_own_window_reaches(q, clock, own):
    """Whoever says an hour has a host that counts by the hour."""
    q.set_limit([own], group="g")
    fill(q, 3)
    q.observe("g", headers=says(0, 80_000))
    clock.advance(3599.999)
    assert payloads(q) == []
    clock.advance(0.001)
    assert payloads(q) == [0]


def test_a_429_says_for_how_long(q, clock):
    """Retry-After is no guess: it closes as long as it says."""
    fill(q, 3)
    q.rate_limited(take(q), 80_000)
    clock.advance(79_999)
    assert payloads(q) == []
    clock.advance(1)
    assert payloads(q) == [0]
