"""acquire: units of a limit without a task, now or booked for a moment soon."""

from contextlib import suppress
from operator import itemgetter
from typing import Any

import pytest
from kit.askers import Asker
from kit.limits import SCOPES, fill, payloads

from dpq import DPQ, LimitTimeoutError, Quota, RateLimit
from dpq.link.listener import PREFIX


def full(q: DPQ[Any], group: str | None = "g") -> bool:
    """True if a caller that does not wait gets nothing."""
    with suppress(LimitTimeoutError):
        Asker(q, group, timeout=0).ask()
        return False
    return True


def asks(q: DPQ[Any], count: int, group: str | None = "g", **more: Any) -> list[float]:
    """The waits of so many callers, who all book."""
    answers = [Asker(q, group, **more).ask() for _ in range(count)]
    assert {answer.code for answer in answers} == {1}
    return [answer.wait for answer in answers]


@pytest.mark.parametrize("scope", SCOPES)
def test_units_are_booked_one_after_the_other(q, clock, scope):
    """The first caller goes at once, the next ones at the pace of the limit: first come first."""
    q.set_limit(10, 1, group=scope)
    assert asks(q, 5) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4], abs=0.001)
    clock.advance(0.25)
    assert asks(q, 1) == pytest.approx([0.25], abs=0.002)
    assert q.check() == []


def test_tasks_and_permits_share_a_limit(q, clock):
    """What a permit has taken no task takes, and the other way round."""
    q.set_limit(10, 1, burst=2, group="g")
    assert asks(q, 1) == [0]
    clock.advance(0.001)
    fill(q, 9)
    assert payloads(q) == [0]
    assert asks(q, 1, priority=1)[0] == pytest.approx(0.1, abs=0.002)
    clock.advance(0.15)
    assert payloads(q) == []
    clock.advance(0.05)
    assert payloads(q) == [1]


def test_a_booking_is_charged_for_its_moment(q, clock):
    """A window that was not short of units counts it when it happens, not when it was booked."""
    q.set_limit([RateLimit(8, 2, 2), RateLimit(1, 1, unit="tokens")], group="g")
    began = clock()
    moments = [began + 1000 * wait for wait in asks(q, 5, cost={"tokens": 1})]
    assert [at - began for at in moments] == [0, 1000, 2000, 3000, 4000]
    clock.advance(2)
    answers = [Asker(q).ask() for _ in range(20)]
    moments += [clock() + 1000 * answer.wait for answer in answers if answer.code == 1]
    assert sum(2000 <= at - began < 4000 for at in moments) <= 8 + 2 - 1


def test_a_freed_booking_goes_to_the_next_caller(q, clock, probe):
    """Of the same group and cost; without one it is forgotten."""
    q.set_limit(2, 2, group="g")
    askers = [Asker(q, "g") for _ in range(4)]
    assert [asker.ask().wait for asker in askers] == pytest.approx([0, 1, 2, 3], abs=0.002)
    askers[1].give_up()
    askers[2].give_up()
    assert q.check() == []
    assert Asker(q, "g", cost=2).ask().wait == pytest.approx(5, abs=0.002)
    assert asks(q, 1) == pytest.approx([1], abs=0.005)
    with pytest.raises(LimitTimeoutError):
        Asker(q, "g", timeout=1.5).ask()  # the other one is too far away
    clock.advance(1.5)
    assert asks(q, 1) == pytest.approx([0.5], abs=0.005)
    askers[3].give_up()
    clock.advance(5)
    assert asks(q, 1) == pytest.approx([0.5], abs=0.005)
    clock.advance(20)
    assert asks(q, 1) == [0]
    assert not [entry for entry in probe.stored().get("tracked", ()) if b"\x0c" in entry]
    assert q.check() == []


def test_no_farther_than_five_seconds(q, clock):
    """Beyond that nothing is charged: the caller comes back when it can book, one after another."""
    q.set_limit(1, 2, group="g")
    assert asks(q, 3) == [0, 2, 4]
    before = q.admin.group("g").units_left
    late, answers = [Asker(q) for _ in range(3)], []
    for each in late:
        answers.append(each.ask())
        clock.advance(0.001)
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert q.admin.group("g").units_left == pytest.approx(before, abs=0.01)
    assert [answer.wait for answer in answers] == pytest.approx([1, 3, 5], abs=0.003)
    began = clock() - 3
    for each, answer in zip(late, answers, strict=True):
        clock.advance(answer.wait + 0.003 - (clock() - began) / 1000)
        answer = each.ask()
        assert (answer.code, round(answer.wait)) == (1, 5)
    assert q.check() == []


def test_beyond_the_timeout(q, clock):
    """The error comes at once, and nothing is charged."""
    q.set_limit(1, 2, group="g")
    asks(q, 1)
    with pytest.raises(LimitTimeoutError) as raised:
        Asker(q, timeout=1.9).ask()
    assert raised.value.retry_after == pytest.approx(2, abs=0.001)
    assert (raised.value.group, raised.value.timeout) == ("g", 1.9)
    with pytest.raises(LimitTimeoutError, match=r"timeout=0 s: ask again in 2\.000 s"):
        Asker(q, timeout=0).ask()
    assert asks(q, 1, timeout=2) == [2]


def test_a_closing_moves_a_booking(q, clock):
    """Who asks again with its booking goes, unless its group was closed meanwhile."""
    q.set_limit(1, 2, group="g")
    first, second, third = Asker(q), Asker(q), Asker(q)
    assert [each.ask().wait for each in (first, second, third)] == [0, 2, 4]
    clock.advance(2)
    left = q.admin.group("g").units_left
    assert second.ask()[:2] == (1, 0)
    assert q.admin.group("g").units_left == left, "a booking is charged once"
    q.delay_group("g", 10)
    clock.advance(2)
    assert third.ask()[:2] == (0, 8)
    clock.advance(8)
    assert third.ask()[:2] == (1, 0)
    assert Asker(q).ask().wait == 2, "the time of the closing is no debt"


def test_a_booking_that_comes_late(q, clock):
    """A caller that was stopped for more than a second takes units anew: the bound holds."""
    q.set_limit(1, 2, group="g")
    asks(q, 1)
    late = Asker(q)
    assert late.ask().wait == 2
    clock.advance(3.1)
    assert late.ask().wait == pytest.approx(0.9, abs=0.001)


# The line: rank first, then who came first


ARRIVALS = [("a", "task", 0), ("b", "caller", 5), ("c", "caller", 0), ("d", "task", 5)]
ARRIVALS += [("e", "task", 0), ("f", "caller", 0), ("g", "caller", 9)]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("limit", [{"rate": 10, "per": 1}, {"concurrency": 1}])
def test_one_order_for_tasks_and_callers(q, clock, limit, scope):
    """The higher rank goes first; of equal ranks, who came first: under rates and a concurrency."""
    q.set_limit(**limit, group=scope)
    q.delay_group("g", 1)
    waiting: dict[str, Asker] = {}
    for name, kind, priority in ARRIVALS:
        clock.advance(0.001)
        if kind == "task":
            q.push(name, priority=priority, group="g")
        else:
            waiting[name] = Asker(q, priority=priority)
            assert waiting[name].ask().code == 0
    clock.advance(1)
    gone: list[tuple[float, str]] = []
    for _ in range(80):
        for name, asker in reversed(list(waiting.items())):
            if (answer := asker.ask()).code == 1:
                gone.append((clock() + 1000 * answer.wait, name))
                del waiting[name]
                if asker.caller.held:
                    asker.end()
        for task in q.pop_many(1):
            gone.append((clock(), task.payload))
            q.ack(task)
        clock.advance(0.01)
    gone.sort(key=itemgetter(0))
    assert [name for _, name in gone] == ["g", "b", "d", "a", "c", "e", "f"]


def test_a_booking_is_of_one_period(q, clock):
    """None goes beyond the end of a quota's period, in which it would not count."""
    q.set_limit([RateLimit(1, 2, slack=0), Quota(100, "hour")], group="g")
    clock.advance(3600 - clock() / 1000 % 3600 - 1)
    assert asks(q, 1) == [0]
    late = Asker(q)
    answer = late.ask()
    assert (answer.code, answer.wait) == (0, pytest.approx(1, abs=0.01))
    clock.advance(answer.wait)
    assert late.ask()[:2] == (1, pytest.approx(1, abs=0.01))
    clock.advance(1)
    assert q.admin.group("g").quotas[0].left == 99


def test_a_free_lease_waits_for_the_first_caller(q, clock):
    """A task behind it does not take the lease, nor a caller that comes later."""
    q.set_limit(concurrency=1, group="g")
    holder, first = Asker(q), Asker(q)
    holder.ask()
    assert first.ask().code == 2
    clock.advance(0.001)
    fill(q, 1)
    holder.end()
    assert payloads(q) == []
    assert full(q)
    assert first.ask().code == 1
    first.end()
    assert payloads(q) == [0]


@pytest.mark.parametrize("scope", ["g", None])
def test_a_caller_that_died_in_the_line(q, clock, scope):
    """Once it was called it has a second; then the lease is free for the next one."""
    q.set_limit(concurrency=1, group=scope)
    holder, dead, second = (Asker(q, scope) for _ in range(3))
    for asker in (holder, dead, second):
        asker.ask()
        clock.advance(0.001)
    q.push("x", group=scope)
    holder.end()
    clock.advance(0.999)
    assert second.ask().code == 2
    clock.advance(0.002)
    assert second.ask().code == 1
    second.end()
    assert payloads(q) == ["x"]
    assert dead.ask().code == 2
    assert dead.caller.place[18:34] == "1700000000001000", "it has kept its place"


def test_a_call_is_a_message(q, clock, redis):
    """The end of a lease calls the first caller by its id, and nobody else."""
    heard = redis.pubsub(ignore_subscribe_messages=True)
    heard.subscribe(PREFIX + "here")
    heard.get_message(timeout=60)
    q.set_limit(concurrency=1, group="g")
    holder, first, second = Asker(q), Asker(q), Asker(q)
    for asker in (holder, first, second):
        asker.caller.channel = "here"
        asker.ask()
        clock.advance(0.001)
    holder.end()
    message = heard.get_message(timeout=60)
    assert message["data"] in (first.caller.id, first.caller.id.encode())
    assert heard.get_message() is None
    heard.close()


def test_a_full_group(q, clock):
    """A permit counts as a lease of the group, until it ends."""
    q.set_limit(concurrency=2, group="g")
    first, second, third = Asker(q), Asker(q), Asker(q)
    assert (first.ask().code, second.ask().code) == (1, 1)
    fill(q, 1)
    assert third.ask().code == 2
    assert payloads(q) == []
    assert q.admin.group("g").reason == "concurrency"
    first.end()
    assert payloads(q) == [0]
    assert third.ask().code == 2
    second.end()
    assert third.ask().code == 1
    assert q.check() == []


@pytest.mark.parametrize("scope", ["g", None])
def test_a_dead_caller(q, clock, scope):
    """Its permit comes back when its lease ends, for callers and for tasks."""
    q.set_limit(concurrency=1, group=scope)
    assert Asker(q, lease=20).ask().code == 1
    assert full(q, scope)
    clock.advance(19.9)
    assert full(q, scope)
    clock.advance(0.2)
    assert Asker(q, lease=20).ask().code == 1
    fill(q, 1)
    assert payloads(q) == []
    clock.advance(51)
    assert payloads(q) == [0]
    assert q.check() == []


def test_a_429_closes_for_all(q, clock):
    """Tasks and callers wait; then one caller is the probe, and the others wait for its end."""
    q.set_limit(10, 1, burst=5, group="g")
    first, probe, other = Asker(q), Asker(q), Asker(q)
    first.ask()
    first.met(30)
    assert other.ask()[:2] == (0, 30)
    clock.advance(0.001)
    fill(q, 3)
    assert payloads(q) == []
    assert q.admin.group("g").reason == "rate limited"
    clock.advance(29.999)
    assert probe.ask().code == 2, "the other one came first"
    assert other.ask()[:2] == (1, 0)
    assert other.caller.held
    assert q.admin.group("g").reason == "probe"
    assert probe.ask().code == 2
    assert payloads(q) == []
    other.end()
    assert probe.ask().code == 2, "the tasks came first"
    clock.advance(0.4)
    assert payloads(q) == [0, 1, 2]
    assert probe.ask().code == 1
    assert q.check() == []
    assert q.admin.group("g").slack > 0, "a 429 under a limit that was kept teaches slack"


# What a permit has spent, and members of pools


def left(q: DPQ[Any]) -> list[float]:
    return [round(units) for units in q.admin.group("g").units_left]


def test_what_a_permit_has_spent(q, clock):
    """It replaces what was charged, once; a 429 gives all but the request back."""
    q.set_limit([RateLimit(1, 60, 9), RateLimit(1, 60, 100, unit="t")], group="g")
    first, second, third = (Asker(q, cost={"t": 30}) for _ in range(3))
    for asker in (first, second, third):
        assert asker.ask().wait == 0
    assert left(q) == [6, 10]
    held = first.caller.held
    first.end("t=10")
    assert left(q) == [6, 30]
    first.caller.held = held
    first.end("t=0")
    assert left(q) == [6, 30]
    second.end("t=40,=2")
    assert left(q) == [5, 20]
    third.met(0)
    assert left(q)[1] == 50
    assert q.check() == []


def test_members_take_turns(q, clock):
    """A permit runs as the member that was granted least recently, and books at the first one."""
    q.set_limit(1, 1, group="g", members=["a", "b", "c"])
    answers = [Asker(q).ask() for _ in range(5)]
    assert [answer.scope for answer in answers] == ["g\ta", "g\tb", "g\tc", "g\ta", "g\tb"]
    assert [answer.wait for answer in answers] == [0, 0, 0, 1, 1]
    fill(q, 4)
    assert payloads(q) == []
    clock.advance(1)
    assert payloads(q) == [0]  # c: the others are booked until then
    assert q.check() == []
