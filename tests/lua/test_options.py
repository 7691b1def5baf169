"""The options of one task: its visibility and its time limit, kept in its record."""

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum
from fractions import Fraction
from typing import Any, cast

import pytest
from kit.records import full_record, read_record
from redis import Redis

from dpq import DPQ, ConfigurationError, Push, Release, Retry, TaskNotFoundError
from dpq.protocol.keys import key_of
from dpq.server import Server

LIMIT = {"visibility": 300.0, "time_limit": 7.5}


def options(task: Any) -> tuple[float | None, float | None]:
    return task.visibility, task.time_limit


def test_a_task_has_a_lease_of_its_own(q: DPQ[Any], clock: Any) -> None:
    """Its own visibility comes before what its consumer asks for; others keep theirs."""
    q.push("own", priority=9, visibility=300)
    q.push("plain")
    own, plain = q.pop_many(2, visibility=20)
    assert own.visible_until.timestamp() * 1000 == clock() + 300_000
    assert plain.visible_until.timestamp() * 1000 == clock() + 20_000
    assert q.get(own.id).visible_until == own.visible_until
    clock.advance(20)
    q.promote()
    assert [task.payload for task in q.peek(state="invisible")] == ["own"]
    clock.advance(280)
    assert own.id in [task.id for task in q.pop_many(2)]
    assert q.check() == []


def test_a_short_lease_of_its_own_ends_in_time(q: DPQ[Any], clock: Any) -> None:
    """The next event is the end of the shortest lease."""
    q.push("own", visibility=0.5)
    q.pop(visibility=100)
    assert q.next_event() == 0.5
    clock.advance(0.5)
    assert q.pop().task.attempt == 2


@pytest.mark.parametrize("given", [LIMIT, {"visibility": 5.0}, {"time_limit": 5.0}])
def test_options_survive_every_way(q: DPQ[Any], clock: Any, given: dict[str, float]) -> None:
    """Failures, returns, a limit, updates, the dead letters and a replay keep them,
    beside the last error and the schedule."""
    wanted = (given.get("visibility"), given.get("time_limit"))
    [task_id] = q.push_many([Push("a", group="g", key="k", every=60, max_attempts=3, **given)])
    for end in (
        lambda task: q.release(task),
        lambda task: q.fail(task, "once", delay=0),
        lambda task: q.rate_limited(task, 0),
        lambda task: q.set_visibility(task, 0),
        lambda task: q.ack(task),
    ):
        clock.advance(60)
        task = q.pop().task
        assert options(task) == wanted
        end(task)
    q.update(task_id, priority=3, delay=0, cost=2)
    task = q.pop().task
    assert (options(task), task.every, task.cost) == (wanted, 60, 2)
    q.fail(task, "boom", delay=0)
    task = q.pop().task
    assert (options(task), task.last_error, task.every) == (wanted, "boom", 60)
    q.bury(task, "enough")
    [dead] = q.dead.list()
    assert (options(dead), dead.last_error, dead.reason) == (wanted, "boom", "enough")
    q.dead.replay()
    task = q.pop().task
    assert (options(task), task.last_error, task.every) == (wanted, "boom", 60)
    assert q.check() == []


def test_an_update_by_key_brings_its_options(q: DPQ[Any]) -> None:
    """As it brings cost and payload: what names none has none."""
    q.push("a", key="k", **LIMIT)
    q.push("b", key="k")
    assert options(q.get(key="k")) == (300, 7.5)
    q.push("b", key="k", on_duplicate="update", visibility=5)
    assert options(q.get(key="k")) == (5, None)
    q.push("b", key="k", on_duplicate="update")
    assert options(q.get(key="k")) == (None, None)


@pytest.mark.parametrize(
    "text", ["", "x y", "0 0", "9999999999999 9999999999999", "5", "\x1f\x1f", "٣ ٣"]
)
def test_damaged_options_hold_nobody_up(
    q: DPQ[Any], redis: Redis, server: Server, text: str
) -> None:
    """What somebody wrote there counts as none; the task comes and goes."""
    task_id = q.push("a")
    meta = key_of(q.queue_name, "meta")
    record = redis.hget(meta, task_id)
    record = record if isinstance(record, bytes) else record.encode()
    fields = read_record(record) | {"kind": "f"}
    fields["error"] = f"\x1f{text}"
    redis.hset(meta, task_id, full_record(fields))
    task = q.pop().task
    assert task.payload == "a"
    assert options(task) in ((None, None), (0.005, None))
    q.fail(task, "x", delay=0)
    assert q.ack(q.pop().task)
    assert q.check() == []


def test_a_task_is_found_by_its_key(q: DPQ[Any]) -> None:
    """In every state, with its id; an unknown key is told by name."""
    task_id = q.push("a", key="k", group="g")
    assert (q.get(key="k").id, q.get(key="k").state) == (task_id, "ready")
    q.bury(q.pop().task, "no")
    assert (q.get(key="k").id, q.get(key="k").reason) == (task_id, "no")
    with pytest.raises(TaskNotFoundError, match="the task with key 'other'"):
        q.get(key="other")


def test_a_cost_changes_in_place(q: DPQ[Any], clock: Any) -> None:
    """A waiting or ready task takes its new cost of the limit; a running one at its next run."""
    q.set_limit(10, 10, burst=10, group="g")
    first, second = q.push("a", group="g"), q.push("b", group="g")
    q.update(first, cost=7)
    task = q.pop().task
    assert (task.id, task.cost) == (first, 7)
    assert q.group("g").units_left[0] == pytest.approx(3)
    q.update(first, cost=2)
    q.release(task)
    assert q.get(first).cost == 2
    q.update(second, cost=5, priority=9)
    assert q.pop().task is None
    assert q.check() == []
    clock.advance(20)
    assert q.pop().task.id == second
    assert q.check() == []


@pytest.mark.many_calls
def test_pages_of_peek_follow_each_other(q: DPQ[Any]) -> None:
    """`after` goes on behind the last one, in each state; one that has gone is told."""
    ids = [q.push(n, priority=-n) for n in range(250)]
    later = [q.push(n, delay=n + 1) for n in range(5)]
    seen: list[str] = []
    while page := q.peek(90, after=seen[-1] if seen else None):
        seen += [task.id for task in page]
        assert len(seen) <= len(ids)
    assert seen == ids
    assert [t.id for t in q.peek(2, "delayed", after=later[1])] == later[2:4]
    q.cancel(ids[5])
    for state, after in (("ready", ids[5]), ("delayed", ids[6])):  # gone; live, in another state
        told = f"cannot peek after task .* has no such {state} task now; start again from"
        with pytest.raises(TaskNotFoundError, match=told):
            q.peek(5, state, after=after)


def test_a_moment_is_counted_by_the_servers_clock(q: DPQ[Any], clock: Any) -> None:
    """`at` is due then, one that has passed is due now; a batch asks for the time once, and a
    recurring task counts from there."""
    now = datetime.fromtimestamp(clock() / 1000, UTC)
    far = timezone(timedelta(hours=-11))
    q.push("at", at=(now + timedelta(seconds=60)).astimezone(far))
    q.push("passed", at=now - timedelta(days=1))
    q.push("every", every=10, at=now + timedelta(seconds=5))
    assert [task.payload for task in q.peek(state="ready")] == ["passed"]
    assert {t.payload: t.visible_until for t in q.peek(state="delayed")} == {
        "at": now + timedelta(seconds=60),
        "every": now + timedelta(seconds=5),
    }
    clock.advance(5)
    q.pop_many(2)
    assert q.check() == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"at": datetime(2030, 1, 1)}, "with a time zone"),  # noqa: DTZ001 - that is refused
        ({"at": 5}, "it must be a datetime"),
        ({"at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 5}, "at and delay are both given"),
        (
            {"at": datetime(2030, 1, 1, tzinfo=UTC), "cron": "* * * * *"},
            "at and cron are both given",
        ),
        ({"at": datetime(2930, 1, 1, tzinfo=UTC)}, "more than 10 years from now"),
        ({"delay": timedelta(days=4000)}, "seconds from 0 to"),
        ({"delay": -timedelta(seconds=1)}, "seconds from 0 to"),
        ({"visibility": timedelta(seconds=5)}, "it must be seconds"),
        ({"visibility": 0}, "visibility is 0"),
        ({"time_limit": "5"}, "time_limit is '5'"),
        ({"time_limit": 10**9}, "time_limit is"),
        ({"backoff": 5}, "backoff is 5: it must be a list of 1 to 16 delays"),
        ({"backoff": [5, -1]}, r"backoff\[1\] is -1: it must be seconds from 0"),
        ({"backoff": [math.nan]}, r"backoff\[0\] is nan: it must be seconds from 0"),
        ({"backoff": [1, "5"]}, r"backoff\[1\] is '5': it must be seconds from 0"),
    ],
)
def test_what_is_no_moment_or_option_is_refused(
    q: DPQ[Any], given: dict[str, Any], told: str
) -> None:
    """With the reason, and nothing is pushed."""
    with pytest.raises(ConfigurationError, match=told):
        q.push("a", **given)
    assert q.size() == 0


def test_a_delay_may_be_a_timedelta(q: DPQ[Any], clock: Any) -> None:
    """Wherever a call or a signal has a `delay`; one of nothing is none."""
    day = timedelta(days=1)
    ids = [q.push("a", delay=day), *q.push_many([Push("b", delay=day)])]
    ids.append(q.push("c"))
    q.update(ids[2], delay=day)
    ids += [q.push(n) for n in range(4)]
    released, failed, *_ = q.pop_many(2)
    q.release(released, day)
    q.fail(failed, delay=day)
    for signal in (Retry(day), Release(day)):
        with q.lease():
            raise signal
    until = datetime.fromtimestamp(clock() / 1000, UTC) + day
    assert [q.get(each).visible_until for each in ids] == [until] * 7
    nothing = timedelta(0)
    q.push("at", at=until, delay=nothing)
    q.push("cron", cron="* * * * *", delay=nothing)
    with pytest.raises(ConfigurationError, match="delay is"):
        Release(-day)


def test_a_duration_that_is_no_delay_is_seconds(q: DPQ[Any]) -> None:
    """A timedelta is refused at once: before a task is taken, whose lease nobody would keep."""
    minute = cast("Any", timedelta(minutes=1))
    task_id = q.push("a")
    for take in (
        lambda: q.pop(visibility=minute),
        lambda: q.pop(minute),
        lambda: q.pop_many(1, visibility=minute),
        lambda: q.lease(visibility=minute).__enter__(),
        lambda: q.leases(minute),
        lambda: DPQ(q.redis, "any", default_visibility=minute),
    ):
        with pytest.raises(ConfigurationError, match="it must be seconds"):
            take()
    assert q.get(task_id).state == "ready"


class Rank(IntEnum):
    LOW = 1
    HIGH = 9


def test_priorities_are_any_whole_numbers(q: DPQ[Any]) -> None:
    """An IntEnum, or a number of another library, counts as its int; what is none is refused."""
    q.push("low", Rank.LOW)
    q.push("high", priority=Rank.HIGH)
    first = q.pop().task
    assert (first.payload, first.priority, type(first.priority)) == ("high", 9, int)
    for wrong in (True, "3", Fraction(1, 2), None):
        with pytest.raises(ConfigurationError, match="priority is"):
            q.push("a", priority=wrong)


def test_a_task_says_where_its_payload_is(q: DPQ[Any]) -> None:
    """In the first DPQ a task was its payload."""
    q.push({"body": "hello"})
    with pytest.raises(TypeError, match=r"write task.payload\['body'\]"):
        q.pop().task["body"]
