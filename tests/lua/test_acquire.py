"""acquire: units of a limit without a task, now or booked for a moment soon."""

from typing import Any

import pytest
from kit.limits import SCOPES, fill, payloads, take
from redis.exceptions import ResponseError

from dpq import DPQ, LimitTimeoutError, RateLimit, Reserve
from dpq.model.permit import Caller, HeldPermit, PermitAnswer, PermitRequest


class Asker:
    """A caller that does not sleep: the test moves the clock."""

    def __init__(
        self, q: DPQ[Any], group: str | None = "g", timeout: float | None = None, **more: Any
    ) -> None:
        given = {"cost": 1, "priority": 0, "lease": 60.0, **more}
        self.q = q
        self.caller = Caller(PermitRequest.checked(group, timeout=timeout, **given), 0.0)

    def ask(self) -> PermitAnswer:
        answer = self.q._session.run(self.q._operations.acquire, self.caller, 0.0)
        self.caller.receive(answer, 0.0)
        return answer

    def end(self, told: str = "") -> None:
        self.q._session.run(self.q._operations.end_permit, self.caller, self.caller.held, told)

    def extend(self, seconds: float) -> str:
        held = HeldPermit(self.caller.id, self.caller.request.group, self.caller.held, "g")
        kept = self.q._session.run(self.q._operations.extend_many, [(held, seconds)])
        self.caller.held = held.member if kept[0] else ""
        return self.caller.held

    def met(self, retry_after: float, scope: Any = "member", told: str = "") -> None:
        self.q._session.run(
            *(self.q._operations.met_limit, self.caller, scope, retry_after),
            *(self.caller.held, told),
        )


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


def test_without_a_limit(q, clock, probe):
    """Without a limit callers go at once, and nothing is stored about them."""
    assert asks(q, 3) == [0, 0, 0]
    assert asks(q, 3, None) == [0, 0, 0]
    assert set(probe.stored()) <= {"conf", "stats"}
    assert b"queue_gate" not in probe.stored()["conf"]


def test_the_queue_alone(q, clock):
    """Without a group a caller takes the queue's limit only."""
    q.set_limit(1, 1, group="*")
    q.set_limit(10, 1)
    assert asks(q, 2, None) == pytest.approx([0, 0.1], abs=0.001)


def test_tasks_and_permits_share_a_limit(q, clock):
    """What a permit has taken no task takes, and the other way round."""
    q.set_limit(10, 1, burst=2, group="g")
    fill(q, 9)
    assert asks(q, 1) == [0]
    assert payloads(q) == [0]
    assert asks(q, 1)[0] == pytest.approx(0.1, abs=0.001)
    clock.advance(0.15)
    assert payloads(q) == []
    clock.advance(0.05)
    assert payloads(q) == [1]


def test_units_of_several_kinds(q, clock):
    """All units of group and queue are booked for one moment."""
    q.set_limit([RateLimit(600, 60, 9), RateLimit(60, 60, 10, unit="tokens")], group="g")
    assert asks(q, 3, cost={"tokens": 5}) == [0, 0, 5]
    assert Asker(q, cost={"": 0, "tokens": 1}).ask().code == 0
    assert q.check() == []


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


def test_no_farther_than_five_seconds(q, clock):
    """Beyond that nothing is charged: the caller comes back when it can book, one after another."""
    q.set_limit(1, 2, group="g")
    assert asks(q, 3) == [0, 2, 4]
    before = q.group("g").units_left
    late = [Asker(q) for _ in range(3)]
    answers = [each.ask() for each in late]
    assert [answer.code for answer in answers] == [0, 0, 0]
    assert q.group("g").units_left == before
    tickets = [float(answer.moment) for answer in answers]
    assert tickets[1] - tickets[0] == pytest.approx(2000, abs=1)
    assert tickets[2] - tickets[1] == pytest.approx(2000, abs=1)
    for n, each in enumerate(late):
        clock.advance(max(0.0, (tickets[n] - clock()) / 1000) + 0.001)
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


def test_a_closed_group_charges_nothing(q, clock):
    """The caller asks again at the opening."""
    q.set_limit(10, 1, group="g")
    q.delay_group("g", 30)
    caller = Asker(q)
    assert caller.ask()[:2] == (0, 30)
    with pytest.raises(LimitTimeoutError):
        Asker(q, timeout=29).ask()
    clock.advance(30)
    assert caller.ask()[:2] == (1, 0)


def test_a_closing_moves_a_booking(q, clock):
    """Who asks again with its booking goes, unless its group was closed meanwhile."""
    q.set_limit(1, 2, group="g")
    first, second, third = Asker(q), Asker(q), Asker(q)
    assert [each.ask().wait for each in (first, second, third)] == [0, 2, 4]
    clock.advance(2)
    left = q.group("g").units_left
    assert second.ask()[:2] == (1, 0)
    assert q.group("g").units_left == left, "a booking is charged once"
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


def test_a_reserve_holds_for_callers(q, clock):
    """Callers of a lower priority leave the units that are reserved."""
    q.set_limit(60, 60, 4, reserve=Reserve(2, priority=5), group="g")
    assert asks(q, 2) == [0, 0]
    assert asks(q, 2, priority=5) == [0, 0]
    assert Asker(q, priority=5).ask().wait == 1
    assert Asker(q).ask().wait > 3


@pytest.mark.many_calls
def test_tasks_get_their_turn(q, clock):
    """Where tasks wait for the same units, callers do not book all of them."""
    q.set_limit(10, 1, group="g")
    fill(q, 250)
    done = {"task": 0, "permit": 0}
    waiting: list[tuple[float, Asker | None]] = [(clock(), Asker(q)) for _ in range(8)]
    end = clock() + 20_000
    while clock() < end:
        done["task"] += len(payloads(q))
        for n, (at, asker) in enumerate(waiting):
            if at > clock() or asker is None:
                continue
            if asker.caller.granted:
                done["permit"] += 1
                asker = Asker(q)
            answer = asker.ask()
            waiting[n] = (clock() + answer.wait * 1000, asker)
        clock.advance(0.005)
    assert 180 <= done["task"] + done["permit"] <= 201
    assert min(done.values()) > 50
    assert q.check() == []


def test_callers_go_on_where_nobody_pops(q, clock):
    """Tasks that nobody takes cost the callers little."""
    q.set_limit(10, 1, group="g")
    fill(q, 5)
    permits, waiting = 0, [(clock(), Asker(q)) for _ in range(8)]
    end = clock() + 30_000
    while clock() < end:
        for n, (at, asker) in enumerate(waiting):
            if at <= clock():
                if asker.caller.granted:
                    permits += 1
                    asker = Asker(q)
                waiting[n] = (clock() + asker.ask().wait * 1000, asker)
        clock.advance(0.005)
    assert permits > 270


def test_a_full_group(q, clock):
    """A permit counts as a lease of the group, until it ends."""
    q.set_limit(concurrency=2, group="g")
    first, second, third = Asker(q), Asker(q), Asker(q)
    assert (first.ask().code, second.ask().code) == (1, 1)
    fill(q, 1)
    assert third.ask().code == 2
    assert payloads(q) == []
    assert q.group("g").reason == "concurrency"
    first.end()
    assert payloads(q) == [0]
    assert third.ask().code == 2
    second.end()
    assert third.ask().code == 1
    assert q.check() == []


def test_a_full_queue(q, clock):
    """A permit of any group counts towards the queue's concurrency, beside leases of tasks."""
    q.set_limit(concurrency=2)
    first, second = Asker(q, "a"), Asker(q, None)
    q.push("x", group="b")
    assert first.ask().code == 1
    take(q)
    assert second.ask().code == 2
    first.end()
    assert second.ask().code == 1
    q.push("y")
    assert payloads(q) == []
    second.end()
    assert payloads(q) == ["y"]


@pytest.mark.parametrize("scope", ["g", None])
def test_a_dead_caller(q, clock, scope):
    """Its permit comes back when its lease ends, for callers and for tasks."""
    q.set_limit(concurrency=1, group=scope)
    assert Asker(q, lease=20).ask().code == 1
    assert Asker(q).ask().code == 2
    clock.advance(19.9)
    assert Asker(q).ask().code == 2
    clock.advance(0.2)
    assert Asker(q, lease=20).ask().code == 1
    fill(q, 1)
    assert payloads(q) == []
    clock.advance(51)
    assert payloads(q) == [0]
    assert q.check() == []


def test_a_permit_is_extended(q, clock, probe):
    """An extension moves its end; one whose reply is lost is repeated."""
    q.set_limit(concurrency=1, group="g")
    first = Asker(q, lease=20)
    first.ask()
    before = first.caller.held
    clock.advance(15)
    after = first.extend(20)
    assert after != before
    first.caller.held = before
    assert first.extend(20) == after
    clock.advance(15)
    assert Asker(q).ask().code == 2
    assert q.check() == []
    first.end()
    assert first.extend(20) == ""
    assert probe.count("tracked") == 0


def test_a_429_closes_for_all(q, clock):
    """Tasks and callers wait; then one caller is the probe, and the others wait for its end."""
    q.set_limit(10, 1, burst=5, group="g")
    first, probe, other = Asker(q), Asker(q), Asker(q)
    first.ask()
    first.met(30)
    fill(q, 3)
    assert payloads(q) == []
    assert (q.group("g").reason, other.ask()[:2]) == ("rate limited", (0, 30))
    clock.advance(30)
    assert probe.ask()[:2] == (1, 0)
    assert probe.caller.held
    assert q.group("g").reason == "probe"
    assert other.ask().code == 2
    assert payloads(q) == []
    probe.end()
    assert other.ask().code == 1
    assert q.check() == []
    assert q.group("g").slack > 0, "a 429 under a limit that was kept teaches slack"


def test_a_probe_that_meets_a_429(q, clock):
    """It closes the group once more, and the next one is the probe."""
    first, probe, other = Asker(q), Asker(q), Asker(q)
    first.ask()
    first.met(30)
    clock.advance(30)
    probe.ask()
    probe.met(10)
    assert other.ask()[:2] == (0, 10)
    clock.advance(10)
    assert other.ask().code == 1
    assert other.caller.held
    other.end()
    assert q.group("g").open


def test_a_probe_that_dies(q, clock):
    """When its lease is over, the next caller or task is the probe."""
    first = Asker(q)
    first.ask()
    first.met(5)
    clock.advance(5)
    assert Asker(q, lease=20).ask().code == 1
    assert Asker(q).ask().code == 2
    clock.advance(21)
    fill(q, 2)
    assert payloads(q) == [0], "one task is the probe"
    assert Asker(q).ask().code == 2
    assert q.check() == []


def test_a_429_of_the_queue(q, clock):
    """It closes the queue for tasks and for callers of any group."""
    first = Asker(q, "a")
    first.ask()
    first.met(30, "queue")
    fill(q, 1)
    assert payloads(q) == []
    assert Asker(q, "b").ask()[:2] == (0, 30)
    assert Asker(q, None).ask()[:2] == (0, 30)


def test_the_slow_group_does_not_hold_the_queue(q, clock):
    """A booking far ahead in a group would leave the queue's limit idle: the caller asks later."""
    q.set_limit(100, 1)
    q.set_limit(1, 1, group="slow")
    assert asks(q, 1, "slow") == [0]
    assert Asker(q, "slow").ask().code == 0
    assert asks(q, 1, "quick")[0] <= 0.011


def test_lost_limits(q, clock, redis, probe):
    """Nothing is granted before lost limits are restored."""
    q.set_limit(1, 2, group="g")
    asks(q, 1)
    redis.delete(probe.key("limits"))
    assert asks(q, 1) == [2]


def test_a_queue_of_format_3(q, clock, redis, probe):
    """It refuses permits, since older versions cannot read what they write."""
    q.push("x")
    redis.hset(probe.key("conf"), "format", "3")
    redis.hset(probe.key("stats"), "kept.format", "3")
    with pytest.raises(ResponseError, match="run dpq upgrade"):
        Asker(q).ask()
    redis.hset(probe.key("conf"), "format", "4")
    redis.hset(probe.key("stats"), "kept.format", "4")


def test_damaged_bookings_count_as_spent(q, clock, redis, probe):
    """A gate with an unreadable booking grants nothing for a while, and a repair mends it."""
    q.set_limit(1, 2, group="g")
    asks(q, 2)
    text = redis.hget(probe.key("gates"), "g").decode()
    assert " B:" in text
    redis.hset(probe.key("gates"), "g", text.replace(" B:", " X:"))
    assert [problem.kind for problem in q.check()] == ["bad gate"]
    assert Asker(q).ask().wait >= 2
    q.repair()
    assert q.check() == []


# What a permit has spent, and members of pools


def left(q: DPQ[Any]) -> list[float]:
    return [round(units) for units in q.group("g").units_left]


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


def test_a_permit_that_names_no_units(q, clock):
    """It reserves the estimate of the group, and what it tells counts for the next ones."""
    q.set_limit([RateLimit(1, 60, 1000, unit="t", estimate=100)], group="g")
    asker = Asker(q)
    asker.ask()
    assert left(q) == [900]
    asker.end("t=20")
    assert left(q) == [980]
    asker = Asker(q)
    asker.ask()
    assert left(q) == [880]
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


def test_a_429_of_a_member(q, clock):
    """It closes the member alone; the next permit runs as another one."""
    q.set_limit(1, 1, 5, group="g", members=["a", "b"], concurrency=1)
    first = Asker(q)
    assert first.ask().scope == "g\ta"
    assert Asker(q).ask().scope == "g\tb"
    assert Asker(q).ask().code == 2  # both are out
    first.met(60)
    assert [state.reason for state in q.group("g").members] == ["rate limited", "concurrency"]
    clock.advance(60)
    again = Asker(q)
    assert again.ask().scope == "g\ta"
    again.end()
    assert [state.reason for state in q.group("g").members] == ["spent", None]
    assert q.check() == []


def test_a_booking_of_a_member_is_asked_again(q, clock):
    """It keeps its member; a closing of that member moves it."""
    q.set_limit(1, 10, group="g", members=["a"])
    q.set_limit(1, 2, group="h", members=["a", "b"])
    askers = [Asker(q, "h") for _ in range(4)]
    assert [asker.ask().wait for asker in askers] == [0, 0, 2, 2]
    clock.advance(2)
    third, fourth = askers[2:]
    assert (third.ask().wait, third.caller.scope) == (0, "h\ta")
    q.delay_group("h", 30, member="b")
    answer = fourth.ask()
    assert (answer.code, answer.scope, round(answer.wait)) == (1, "h\ta", 2)
    assert q.check() == []
