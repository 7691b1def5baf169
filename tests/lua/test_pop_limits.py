"""pop: limits are taken before a task is, and what may not run now gives way."""

from math import ceil

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kit.limits import SCOPES, fill, payloads
from kit.moments import exactly_after

from dpq import Adaptive, Push, RateLimit, Reserve
from dpq.script.command import once


def look(q, waiter=""):
    """What a pop of one task says, the time to the next look included."""
    return q._session.run(q._operations.pop, 1, None, waiter)


def units(q, group=None):
    """What the first window would grant at once."""
    state = q.admin.group(group) if group else q.admin.limits()[0]
    return state.units_left[0]


# Windows


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(("rate", "interval"), [(4, 0.25), (3, 0.334), (0.5, 2)])
def test_the_moment_of_a_unit(q, clock, scope, rate, interval):
    """A unit is granted at its moment and not one ms before, in whatever scope the limit is.

    A fraction of a ms is never given away: three in a second are 333.33 ms apart.
    """
    q.set_limit(rate, 1, group=scope)
    fill(q, 6)
    assert payloads(q) == [0]
    for i in range(1, 6 if rate == 4 else 3):
        assert exactly_after(q, clock, interval) == [i]


@pytest.mark.parametrize(("rate", "per"), [(50_000, 0.7), (100_000, 1), (900_000, 1.001)])
def test_fractions_do_not_add_up(q, clock, rate, per):
    """However short the time of a unit is, all units of a window take the whole of it."""
    q.set_limit(rate, per)
    q.push_many([Push("one"), Push("all", cost=rate), Push("last")])
    assert payloads(q) == ["one"]
    for payload in ("all", "last"):
        clock.advance(per - 0.001)
        assert payloads(q) == []
        clock.advance(0.002 + rate / 4096 / 1000)  # a unit is rounded up to 1/4096 ms
        assert payloads(q) == [payload]


def test_the_default_is_each_groups_own(q, clock):
    """With `*` every group has units of its own; a task without a group has no such limit."""
    q.set_limit(1, 10, group="*")
    q.push_many(Push(payload=f"{g}{i}", group=g) for i in range(2) for g in "abc")
    q.push_many(Push(payload=i) for i in range(2))
    assert payloads(q) == ["a0", "b0", "c0", 0, 1]
    clock.advance(10)
    assert payloads(q) == ["a1", "b1", "c1"]


def most_of(window):
    return max(1, ceil(window.rate) + window.burst - 1)


a_window = st.builds(
    RateLimit,
    rate=st.integers(1, 9) | st.floats(0.4, 9.5),
    per=st.integers(20, 3000).map(lambda ms: ms / 1000),
    burst=st.integers(1, 5),
)
costs = st.lists(st.sampled_from([1, 1, 1, 2, 3, 5, 20]), min_size=25, max_size=50)
gaps = st.lists(st.integers(0, 1500) | st.none(), min_size=15, max_size=30)
few = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes here
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("scope", SCOPES)
@few
@given(windows=st.lists(a_window, min_size=1, max_size=3), costs=costs, gaps=gaps)
def test_the_bound_of_every_window(server, q, clock, scope, windows, costs, gaps):
    """In no half-open window of `per` more than rate + burst - 1 units, and none granted late.

    A gap of None waits for the moment that the pop before has named: then one comes, and not one
    ms before. A task that costs more than a window ever grants counts as all of it.
    """
    q.admin.drop()
    q.set_limit(windows, group=scope)
    q.push_many(Push(payload=cost, cost=cost, group="g") for cost in costs)
    grants = []

    def take():
        found = payloads(q)
        grants.extend((clock.ms, cost) for cost in found)
        return found

    take()
    for gap in gaps:
        wait = look_again(q) if gap is None else None
        if wait is None:
            clock.ms += gap or 0
            take()
        else:
            clock.ms += wait - 1
            assert take() == []
            clock.ms += 1
            assert take()

    for window in windows:
        per_ms, most = round(window.per * 1000), most_of(window)
        for start, _ in grants:
            within = [min(c, most) for at, c in grants if start <= at < start + per_ms]
            assert sum(within) <= most, (window, grants)


def look_again(q):
    """Ms until the next unit, or None when no task is left; takes nothing, since none may run."""
    batch = look(q)
    assert batch.tasks == []
    return ceil(batch.next_event_ms) if q.stats().ready + q.stats().waiting else None


# Cost


def test_units_are_saved_for_the_best(q, clock):
    """While the queue cannot pay for its best task, cheaper and worse ones wait too."""
    q.set_limit(4, 1, burst=4)
    q.push("first", priority=3)
    q.push("dear", priority=2, cost=4)
    q.push("cheap", priority=1)
    assert payloads(q) == ["first"]
    assert units(q) == 3
    assert exactly_after(q, clock, 0.25) == ["dear"]
    clock.advance(0.25)
    assert payloads(q) == ["cheap"]


# Who gives way


def test_a_spent_group_gives_way(q, clock):
    """The best task of a spent group hides nobody, and comes first again when it may."""
    q.set_limit(1, 10, group="g")
    for i in range(3):
        q.push(f"g{i}", priority=9 - i, group="g")
        q.push(f"h{i}", priority=-i, group="h")
    assert payloads(q, 2) == ["g0", "h0"]
    clock.advance(10)
    assert payloads(q) == ["g1", "h1", "h2"]
    clock.advance(10)
    assert payloads(q) == ["g2"]


def test_past_hundreds_of_groups_that_may_not_run(q, clock):
    """More heads that may not run than one call passes: it says "again", and finds the one."""
    groups = [f"g{i}" for i in range(230)]
    q.set_limit(1, 1000, group="*")
    q.push_many(Push(payload=g, group=g, priority=1) for g in groups * 2)
    assert len(payloads(q, 1000)) == 230
    q.clear_limit("*")
    assert q.stats().ready == 230
    q.set_limit(1, 1000, group="*")
    q.push("free")
    command = next(q._operations.pop(1, None))
    assert q._session.send(once(command)).again
    assert payloads(q) == ["free"]
    assert (q.stats().ready, q.stats().waiting) == (0, 230)


def test_who_is_put_back_has_paid_nothing(q, clock, probe):
    """A task that is popped and put back for its bytes takes no unit; it stands where it stood."""
    q.set_limit(1, 1000, burst=10)
    q.set_limit(1, 1000, burst=10, group="g")
    for i in range(3):
        q.push(f"{i}" * 98, group="g" if i else None)
    reply = probe.call("pop", clock(), 10, 30_000, 150, 100, "")
    assert len(reply) == 3
    assert (units(q), units(q, "g")) == (9, 10)
    assert [task[0] for task in payloads(q)] == ["1", "2"]
    assert (units(q), units(q, "g")) == (7, 8)


def test_who_is_dead_has_paid_nothing(q, clock):
    """Neither an expired task nor one that cannot be read takes a unit."""
    q.set_limit(1, 1000, burst=2, group="g")
    q.set_limit(1, 1000, burst=9)
    q.push("late", priority=9, expires_in=1, group="g")
    q.push("late too", priority=8, expires_in=1)
    for i in range(3):
        q.push(i, group="g")
    clock.advance(1)
    assert payloads(q) == [0, 1]
    assert units(q) == 7
    assert q.stats().dead == 2


# Concurrency


def end_by_expiry(q, clock, task):
    clock.advance(30)
    q.promote()


ENDINGS = {
    "ack": lambda q, clock, task: q.ack(task),
    "fail": lambda q, clock, task: q.fail(task, "no", 60),
    "fail for good": lambda q, clock, task: q.fail(task, "no"),
    "release": lambda q, clock, task: q.release(task, 60),
    "bury": lambda q, clock, task: q.bury(task, "no"),
    "cancel": lambda q, clock, task: q.cancel(task.id),
    "set_visibility": lambda q, clock, task: q.set_visibility(task, 60),
    "rate_limited": lambda q, clock, task: q.rate_limited(task, 60, "task"),
    "purge": lambda q, clock, task: q.purge("invisible"),
    "expiry": end_by_expiry,
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("scope", ["g", None])
def test_the_end_of_a_lease_lets_the_next_run(q, clock, probe, scope, ending):
    """As many leases are out as may be; each way to end one lets one more run, and wakes."""
    q.set_limit(concurrency=2, group=scope)
    for i in range(5):
        q.push(i, group="g", max_attempts=1)
    first = probe.pop()
    if ending in ("purge", "expiry"):  # both leases end
        probe.pop(30)
    else:
        probe.pop(1000)
    assert payloads(q) == []
    probe.woken()

    ENDINGS[ending](q, clock, first)

    assert probe.woken()
    ended = 2 if ending in ("purge", "expiry") else 1
    assert payloads(q) == [2, 3][:ended]
    assert payloads(q) == []


# Reserve


@pytest.mark.parametrize("scope", SCOPES)
def test_reserve(q, clock, scope):
    """The reserved units of a window are left by low priorities, and taken by high ones."""
    q.set_limit(1, 10, burst=3, reserve=Reserve(2, 5), group=scope)
    q.push_many(Push(payload=f"low{i}", priority=4, group="g") for i in range(3))
    assert payloads(q) == ["low0"]
    q.push_many(Push(payload=f"high{i}", priority=5 + i, group="g") for i in range(3))
    assert payloads(q) == ["high2", "high1"]
    assert exactly_after(q, clock, 10) == ["high0"]
    assert exactly_after(q, clock, 30) == ["low1"]
    clock.advance(10)
    assert payloads(q) == ["low2"]


# When to come back


def test_a_push_into_a_spent_queue_wakes_nobody(q, clock, probe):
    """Once a waiter knows that the limit is spent, pushes wake nobody until it grants again."""
    q.set_limit(1, 10)
    fill(q, 2)
    q.pop()
    look(q, "-")
    probe.woken()
    q.push("plain")
    q.push("grouped", group="h")
    q.push("better", priority=9, group="g")
    assert not probe.woken()
    clock.advance(10)
    q.push("plain")
    assert probe.woken()


def test_a_spent_group_tells_when_it_opens(q, clock, probe):
    """A pop that spends its group's limit appoints a waiter for the moment, if it comes soon."""
    q.set_limit(1, 4.999, group="g")
    fill(q, 3)
    q.pop()
    assert probe.woken()
    q.set_limit(1, 100, group="g")
    clock.advance(200)
    probe.woken()
    q.pop()
    assert not probe.woken()


def test_a_waiter_hands_on_the_queues_next_unit(q, clock, probe):
    """A waiter that takes the unit it watched for appoints the next one for the next unit."""
    q.set_limit(1, 2)
    fill(q, 3)
    q.pop()
    moment = clock.ms + 2000
    assert look(q, "-").next_event_ms == 2000
    clock.advance(2)
    probe.woken()
    assert look(q, f"{moment}.000").tasks
    assert [(name, at) for name, at in probe.stored()["wake"]] == [(b"e", moment + 2000)]


# What is kept


def test_a_clock_that_steps_back(q, clock):
    """When the clock steps back by an hour the next unit is at most a window and a unit away."""
    q.set_limit(4, 1, burst=2)
    fill(q, 5)
    assert payloads(q) == [0, 1]
    clock.advance(-3600)
    assert payloads(q) == []
    clock.advance(1.25)
    assert payloads(q) == [2]


def run_groups(q, clock, names):
    """Each group comes with one task and goes; a second passes."""
    q.push_many(Push(payload=1, group=name) for name in names)
    q.ack_many(q.pop_many(1000))
    clock.advance(1)


def close_some(q, clock, names):
    for name in names:
        q.delay_group(name, 1)


@pytest.mark.parametrize("also", [None, close_some])
def test_gates_of_groups_that_are_gone_do_not_pile_up(server, q, clock, probe, also):
    """Of thousands of groups, each seen once, only about those of the last windows are kept."""
    q.set_limit(10, 1, group="*", slack=0)
    most = 0
    for step in range(30):
        names = [f"{step}-{i}" for i in range(100)]
        if also:
            also(q, clock, names[:10])
        run_groups(q, clock, names)
        most = max(most, probe.redis.hlen(probe.key("gates")))
    assert most <= 800
    for step in range(600):
        run_groups(q, clock, [f"late {step}"])
        if probe.redis.hlen(probe.key("gates")) <= 4:
            break
    assert probe.redis.hlen(probe.key("gates")) <= 4


def test_a_gate_that_says_something_is_kept(server, q, clock, probe):
    """A long window, a closing, a learned rate and a probe to come outlast the groups around."""
    q.set_limit(10, 1, group="*")
    q.set_limit(1, 7200, group="window")
    q.set_limit(10, 1, group="learned", adaptive=Adaptive(1, 100))
    for name in ("window", "learned", "probe"):
        q.push(1, group=name)
        task = q.pop().task
        if name == "window":
            q.ack(task)
        else:
            q.rate_limited(task, 1)
            q.cancel(task.id)
    q.delay_group("closed", 7200)
    kept = {b"window", b"learned", b"probe", b"closed"}

    def many_groups():
        for step in range(100):
            run_groups(q, clock, [f"{step}"])
        return kept & set(probe.redis.hkeys(probe.key("gates")))

    assert many_groups() == kept
    clock.advance(3600)
    assert many_groups() | {b"learned"} == kept
    assert q.admin.group("window").units_left[0] < 1
    clock.advance(2 * 86400)
    assert many_groups() == {b"learned"}  # its 429s go on to count


def test_an_interval_is_rounded_up(q, clock, probe):
    """To a 4096th of a millisecond: rounded down, 4000 units would gain a millisecond."""
    q.set_limit(3, 1, group="g", slack=0)
    q.push_many([Push(n, group="g") for n in range(2)])
    assert q.pop().task
    [(_, opens)] = probe.stored()["closed"]
    assert opens == clock.ms + ceil(4096 * 1000 / 3) / 4096
