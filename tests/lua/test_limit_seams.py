"""What limits of several kinds do together: each case was found by tests/stateful/all_limits.py,
or by reading for it."""

import pytest
from kit.limits import fill, payloads, take

from dpq import DPQ, Adaptive, LimitTimeoutError, Push, Quota, RateLimit, RateLimited
from dpq.model.permit import Caller, HeldPermit, PermitRequest


def ask(q: DPQ, group: str | None = "g", cost=1, lease=60.0, timeout=None, rank=0) -> Caller:
    """One call of a caller."""
    caller = Caller(PermitRequest.checked(group, cost, timeout, rank, lease), 0.0)
    caller.receive(q._session.run(q._operations.acquire, caller, 0.0), 0.0)
    return caller


def test_a_permit_of_a_group_without_a_limit_leaves_a_sound_queue(q, clock):
    """Its lease stands in a gate, which pops must know of."""
    q.push(1)
    caller = ask(q, cost={"tokens": 3})
    assert caller.held
    assert q.check() == []


def test_a_permit_whose_caller_died_does_not_count_for_ever(q, clock):
    """Its lease ends by itself, also where only tasks come afterwards."""
    q.set_limit(group="g", concurrency=1)
    ask(q, lease=5.0)
    fill(q, 3)
    assert payloads(q) == []
    clock.advance(40)
    for _ in range(3):
        q.ack(take(q))
    assert q.size() == 0


def test_a_permit_whose_caller_died_leaves_nothing_behind(q, clock, probe):
    """Neither its lease nor its gate: a group may never be used again."""
    ask(q, cost={"tokens": 3}, lease=5.0)
    q.push(1)
    clock.advance(100)
    q.promote()
    q.pop()
    assert probe.stored().keys() & {"tracked", "gates"} == set(), probe.stored()


def test_a_permit_of_a_member_counts_for_a_group_that_is_no_pool_any_more(q, clock):
    """Until it ends; if its caller has died, until its lease does."""
    q.set_limit(group="g", concurrency=1, members=["k"])
    ask(q, lease=5.0)
    q.set_limit(group="g", concurrency=1)
    fill(q, 2)
    assert payloads(q) == []
    clock.advance(40)
    assert payloads(q) == [0]
    q.clear_limit("g")
    assert payloads(q) == [1]


def test_a_permit_of_a_dissolved_pool_does_not_count_for_ever(q, clock):
    """Its caller has died, its group has no limit any more, and later that of all groups."""
    q.set_limit(10, 1, group="g", concurrency=1, members=["k"])
    ask(q, lease=5.0)
    q.clear_limit("g")
    q.set_limit(group="*", concurrency=1)
    clock.advance(40)
    assert ask(q).granted


@pytest.mark.parametrize("scope", [None, "g"])
def test_callers_do_the_upkeep_that_they_wait_for(q, clock, scope):
    """A consumer has died with its task, and there is no other one: its lease ends for callers."""
    q.set_limit(group=scope, concurrency=1)
    fill(q, 1)
    take(q, visibility=5)
    assert ask(q).moment == ""
    clock.advance(6)
    ask(q, rank=1)
    assert ask(q, rank=2).granted


def test_a_quota_gives_back_only_what_it_has_counted(q, clock):
    """A task that began before the limit was set was never counted, so nothing of it comes back."""
    q.push(0, group="g", cost={"tokens": 4})
    early = take(q)
    clock.advance(1)
    q.set_limit(Quota(4, "day", unit="tokens"), group="g")
    fill(q, 9, cost={"tokens": 1})
    assert len(payloads(q)) == 4
    q.ack(early, cost={"tokens": 0})
    assert payloads(q) == []


def test_a_raised_quota_gives_back_no_more_than_was_charged(q, clock):
    """A task above the amount was charged the amount, as it was then."""
    q.set_limit(Quota(4, "day", unit="tokens"), group="g")
    q.push(0, group="g", cost={"tokens": 30})
    early = take(q)
    clock.advance(1)
    q.set_limit(Quota(30, "day", unit="tokens"), group="g")
    fill(q, 60, cost={"tokens": 1})
    assert len(payloads(q)) == 26
    q.ack(early, cost={"tokens": 0})
    assert len(payloads(q)) <= 4


def test_the_same_quota_set_again_gives_back_what_it_has_counted(q, clock):
    """Every process may set the same limit at its start."""
    q.set_limit(Quota(4, "day", unit="tokens"), group="g")
    q.push(0, group="g", cost={"tokens": 4})
    early = take(q)
    clock.advance(1)
    q.set_limit(Quota(4, "day", unit="tokens"), group="g")
    fill(q, 9, cost={"tokens": 1})
    assert payloads(q) == []
    q.ack(early, cost={"tokens": 1})
    assert len(payloads(q)) == 3


def most_in_a_window(grants: list[tuple[int, int]], per: int) -> int:
    """The most units in any half-open window, of moments in ms and units."""
    return max(sum(u for at, u in grants if s <= at < s + per) for s, _ in grants)


@pytest.mark.parametrize("unit", ["", "t"])
@pytest.mark.parametrize("adaptive", [None, Adaptive(floor=10, ceiling=100)])
def test_a_window_that_slows_down_after_a_429_keeps_to_its_bound(q, clock, unit, adaptive):
    """A longer interval makes what may be saved up longer in time, and not larger."""
    q.set_limit([RateLimit(100, 60, 50, unit=unit, adaptive=adaptive)], group="g")
    fill(q, 400, cost={"": 1, unit: 1})
    grants: list[tuple[int, int]] = []
    refused = 0
    for step in range(300):
        for task in q.pop_many(100, visibility=3600):
            if step > 190 and refused < 5:
                q.rate_limited(task, 0)
                refused += 1
                grants.append((clock(), 1 if unit == "" else 0))
            else:
                q.ack(task)
                grants.append((clock(), 1))
        clock.advance(0.3)
    assert most_in_a_window(grants, 60_000) <= 149


def test_a_probe_of_a_member_that_is_no_member_any_more_leaves_a_sound_queue(q, clock):
    """The end of its lease then tells the member nothing: its next task is the probe."""
    q.set_limit(group="g", concurrency=1, members=["k"])
    fill(q, 2)
    q.rate_limited(take(q), 1)
    clock.advance(1)
    probe = take(q)
    q.set_limit(group="g", concurrency=1)
    q.ack(probe)
    assert q.check() == []
    q.set_limit(group="g", concurrency=1, members=["k"])
    assert payloads(q) == [1]


@pytest.mark.parametrize("seconds", [None, 3600])
def test_a_caller_hears_that_a_closed_group_was_opened(q, clock, seconds):
    """Nobody wakes it, so it asks now and then, also where the closing has no end."""
    q.delay_group("g", seconds)
    caller = Caller(PermitRequest.checked("g", 1, None, 0, 60.0), 0.0)
    answer = q._session.run(q._operations.acquire, caller, 0.0)
    assert answer.wait >= 3600
    assert 1 <= caller.receive(answer, 0.0) <= 30
    q.delay_group("g", 0)
    caller.receive(q._session.run(q._operations.acquire, caller, 0.0), 0.0)
    assert caller.granted


def test_a_429_of_a_permit_gives_back_units_whose_names_end_alike(q, clock):
    """Of `tokens` it tells what it has spent; `out_tokens` count as not spent."""
    units = ("tokens", "out_tokens")
    q.set_limit([RateLimit(1, 60, 100, unit=unit, slack=0) for unit in units], group="g")
    caller = ask(q, cost={"tokens": 50, "out_tokens": 50})
    q._session.run(
        q._operations.met_limit, caller, RateLimited(0, scope="group"), caller.held, "tokens=20"
    )
    left = q.group("g").units_left
    assert [round(each) for each in left] == [100, 80], "in the order of the names"


def test_a_task_gives_back_nothing_that_lies_before_a_permit(q, clock):
    """Tokens of tasks run ahead of a clock that was set back, and permits come after them."""
    q.set_limit([RateLimit(1, 1, 8, unit="t", slack=0)], group="g")
    fill(q, 1)
    q.ack(take(q))
    clock.advance(-3600)
    fill(q, 1, cost={"t": 8})
    early = take(q)
    clock.advance(60)
    assert ask(q, cost={"t": 8}).granted
    q.ack(early, cost={"t": 0})
    with pytest.raises(LimitTimeoutError):
        ask(q, cost={"t": 8}, timeout=0)


def test_a_429_gives_back_what_was_reserved_though_the_cost_was_changed(q, clock):
    """The cost of a running task was changed: that is for its next run."""
    q.set_limit([RateLimit(1, 60, 50, unit="tokens", slack=0)], group="g")
    q.push(0, group="g", cost={"tokens": 40})
    for cost in (1, {"tokens": 50}):
        q.set_limit([RateLimit(1, 60, 50, unit="tokens", slack=0)], group="g")
        task = take(q)
        charged = (task.costs or {}).get("tokens", 0)
        q.update(task.id, cost=cost)
        q.rate_limited(task, 0)
        assert round(q.group("g").units_left[0]) == 50, charged
        clock.advance(1)


@pytest.mark.parametrize("concurrency", [None, 5])
def test_what_is_under_way_in_a_pool_counts_once(q, clock, concurrency):
    """A host says what is left for a whole pool: its running tasks and permits are subtracted."""
    q.set_limit(100, 1, 9, group="g", members=["k", "l"], concurrency=concurrency)
    fill(q, 9)
    for _ in range(2):
        q.pop_many(2)
        permit = ask(q) if concurrency else None
        q.observe("g", headers={"x-ratelimit-remaining": "30", "x-ratelimit-reset": "9"})
    left = q.group("g").budgets[0].left
    assert left == (30 - 4 - 2 if permit else 30 - 4)


def test_a_429_of_a_permit_ends_a_lease_that_was_extended(q, clock):
    """The answer to the extension was lost, so the caller has an old name of its lease."""
    q.set_limit(100, 1, group="g", concurrency=1)
    caller = ask(q)
    for _ in range(2):
        clock.advance(1)
        held = HeldPermit(caller.id, "g", caller.held, caller.scope)
        q._session.run(q._operations.extend_many, [(held, 60)])
    q._session.run(q._operations.met_limit, caller, RateLimited(0, scope="group"), caller.held, "")
    clock.advance(1)
    assert ask(q).granted


@pytest.mark.parametrize("members", [None, ["k"]])
def test_a_429_of_a_permit_that_is_told_twice_teaches_once(q, clock, members):
    """The answer was lost, and the client has sent it again."""
    learns = Adaptive(floor=1, ceiling=100)
    q.set_limit(RateLimit(40, 1, adaptive=learns), group="g", members=members)
    caller = ask(q)
    for _ in range(3):
        q._session.run(q._operations.met_limit, caller, RateLimited(0, scope="member"), "", "")
        clock.advance(0.1)
    state = q.group("g")
    assert (state.members[0] if members else state).rate == 20
    clock.advance(1)
    q._session.run(q._operations.met_limit, ask(q), RateLimited(0, scope="member"), "", "")
    state = q.group("g")
    assert (state.members[0] if members else state).rate == 10


@pytest.mark.parametrize("scopes", [("*", "*"), ("g", None), ("*", "g")])
def test_another_quota_of_a_group_gives_back_nothing_of_before(q, clock, scopes):
    """Also where the limit of all groups was changed while the group was open, or its own went."""
    first, second = scopes
    q.set_limit(Quota(4, "day", unit="tokens"), group=first)
    if second is None:
        q.set_limit(Quota(30, "day", unit="tokens"), group="*")
    q.push(0, group="g", cost={"tokens": 30})
    early = take(q)
    clock.advance(1)
    if second is None:
        q.clear_limit("g")
    else:
        q.set_limit(Quota(30, "day", unit="tokens"), group=second)
    fill(q, 60, cost={"tokens": 1})
    assert len(payloads(q)) == 26
    q.ack(early, cost={"tokens": 0})
    assert len(payloads(q)) <= 4


@pytest.mark.parametrize("members", [None, ["k", "l"]])
def test_permits_are_in_flight(q, clock, members):
    """Else nobody sees what fills a concurrency."""
    q.set_limit(100, 1, 9, group="g", concurrency=2, members=members)
    fill(q, 1)
    take(q)
    ask(q, lease=20.0)
    state = q.group("g")
    assert (state.in_flight, state.open) == (2, members is not None)
    assert [member.in_flight for member in state.members] == ([1, 1] if members else [])
    clock.advance(21)
    assert q.group("g").in_flight == 1


def test_a_spent_group_says_when_its_best_task_may_run(q, clock):
    """One unit is there sooner, but nobody waits for one unit."""
    q.set_limit([RateLimit(1, 1, 20, unit="tokens", slack=0)], group="g")
    q.push_many([Push(n, group="g", cost={"tokens": 20}) for n in range(2)])
    take(q)
    state = q.group("g")
    assert state.reason == "spent"
    assert state.opens_at.timestamp() * 1000 == clock() + 20_000
    assert "for another 20.0 s" in q.why(q.peek(1, state="waiting")[0].id)
