"""Lost limits and settings beside what limits have granted and learned: none of it is forgotten."""

from typing import Any

import pytest

from dpq import DPQ, Adaptive, ConfigurationError, Push, RateLimit
from dpq.protocol.keys import STORAGE_FORMAT, key_of
from dpq.protocol.placement import tags_of

pytestmark = pytest.mark.damaged

LONG = 10**8


def fill(q: DPQ[Any], tasks: int = 20) -> None:
    q.push_many(Push(n, group="g") for n in range(tasks))


def refuse(q: DPQ[Any], clock: Any, scope: str = "group") -> None:
    """A 429, its closing and the probe after that."""
    [task] = q.pop_many(1, visibility=LONG)
    q.rate_limited(task, 1, scope)
    clock.advance(1)
    [probe] = q.pop_many(1, visibility=LONG)
    q.ack(probe)


@pytest.mark.parametrize("way", ["promote", "ack", "429", "close"])
@pytest.mark.parametrize("lost", ["limits", "one", "limits and their note"])
def test_what_was_granted_stays(server, q, clock, probe, way, lost):
    """While a limit is lost, upkeep and holders forget nothing of what it has granted."""
    q.set_limit([RateLimit(1, 10, slack=0), RateLimit(100, 20, 100, slack=0)], group="g")
    q.set_limit(1, 1, group="other")
    fill(q)
    [task] = q.pop_many(9, visibility=LONG)
    if way == "ack":
        q.rate_limited(task, 0)
        clock.advance(10)
        [task] = q.pop_many(9, visibility=LONG)
    if lost == "one":
        probe.redis.hdel(probe.key("limits"), "group:g")
    else:
        probe.redis.delete(probe.key("limits"))
        probe.redis.hdel(probe.key("conf"), "limited" if "note" in lost else "")
    clock.advance(1)
    if way == "ack":
        q.ack(task)
    elif way == "429":
        q.rate_limited(task, 0)
    elif way == "close":
        q.delay_group("g", 5)
        q.delay_group("g", 0)
    for _ in range(5):
        q.promote()
    assert q.pop_many(9) == []
    clock.advance(8)
    assert q.pop_many(9) == []
    clock.advance(1)
    assert len(q.pop_many(9)) == 1
    assert q.check() == []


@pytest.mark.parametrize("way", ["nothing", "promote", "ack", "429"])
@pytest.mark.parametrize("kind", ["slack", "rate"])
def test_what_was_learned_stays(server, q, clock, probe, way, kind):
    """So it is with a learned rate and a learned slack."""
    q.set_limit(10, 1, group="g", adaptive=Adaptive(1, 20) if kind == "rate" else None)
    fill(q)
    refuse(q, clock)
    clock.advance(0.5)
    [task] = q.pop_many(1, visibility=LONG)
    if way == "ack":
        q.rate_limited(task, 0)
        clock.advance(0.5)
        [task] = q.pop_many(1, visibility=LONG)
    before = q.group("g")
    probe.redis.delete(probe.key("limits"))
    if way == "ack":
        q.ack(task)
    elif way == "429":
        q.rate_limited(task, 0, "task")
    elif way == "promote":
        clock.advance(2)
        for _ in range(5):
            q.promote()
    q.repair()
    after = q.group("g")
    assert (after.rate, after.slack, after.windows) == (before.rate, before.slack, before.windows)
    assert q.check() == []


@pytest.mark.parametrize("way", ["pop", "repair", "set_limit"])
def test_a_slack_comes_back_whole(server, q, clock, probe, way):
    q.set_limit(
        [
            RateLimit(4, 1, 5, adaptive=Adaptive(1, 8), slack=0.05),
            RateLimit(9, 60, 5, slack=0),
            RateLimit(50, 3600),
        ],
        group="g",
        concurrency=3,
    )
    q.set_limit(9, 1, slack=0.25)
    fill(q)
    before = q.limits()
    stored = probe.stored()["limits"], probe.stored()["conf"][b"queue_rules"]
    probe.redis.delete(probe.key("limits"))
    probe.redis.hdel(probe.key("conf"), "queue_rules")
    if way == "pop":
        assert q.pop_many(20)
    elif way == "repair":
        assert q.repair()
    else:
        q.set_limit(1, 1, group="x")
        q.pop()
        q.clear_limit("x")
    assert (probe.stored()["limits"], probe.stored()["conf"][b"queue_rules"]) == stored
    if way == "repair":
        assert [(s.windows, s.slack) for s in q.limits()] == [(s.windows, s.slack) for s in before]
    assert q.check() == []


def test_said_after_learned(q, clock):
    """A slack that is said takes the place of what was learned, also in what is shown."""
    q.set_limit(10, 1, group="g")
    fill(q)
    refuse(q, clock)
    assert q.group("g").slack == 0.05
    q.set_limit(10, 1, group="g", slack=0)
    assert q.group("g").slack == 0


@pytest.mark.many_calls
def test_a_rate_is_learned_after_a_slack(q, clock):
    """A limit that learns its rate takes no slack for a rate at which it met a 429."""
    seen = []
    for group in ("fresh", "g"):
        q.push_many(Push(n, group=group) for n in range(200))
        if group == "g":
            q.set_limit(10, 1, group=group)
            refuse(q, clock)
        q.set_limit(2, 1, group=group, adaptive=Adaptive(1, 500))
        clock.advance(1000)
        rates = []
        for _ in range(60):
            q.ack_many(q.pop_many(9, visibility=LONG))
            clock.advance(0.25)
            rates.append(q.group(group).rate)
        q.purge()
        seen.append(rates)
    assert seen[0] == seen[1]


def test_a_clock_that_steps_back(q, clock):
    q.set_limit(10, 1, group="g")
    fill(q)
    refuse(q, clock)
    clock.advance(-86400)
    q.delay_group("g", 0)
    clock.advance(2)
    q.ack(q.pop().task)
    clock.advance(2 * 3600)
    assert q.group("g").slack < 0.005


@pytest.mark.parametrize("scope", ["g", "*"])
def test_a_limit_of_all_does_not_take_the_place_of_a_lost_one(q, clock, probe, scope):
    """Upkeep under the limit of all groups forgets nothing of a group whose own limit is lost."""
    q.set_limit([RateLimit(1, 10, slack=0), RateLimit(100, 20, 100, slack=0)], group=scope)
    q.set_limit(50, 1, 50, group="g" if scope == "*" else "*")
    fill(q)
    assert len(q.pop_many(9, visibility=LONG)) == (1 if scope == "g" else 9)
    probe.redis.hdel(probe.key("limits"), "group:g")
    held = q.peek(1, "invisible")[0]
    q.rate_limited(held, 0)
    for _ in range(3):
        q.promote()
        clock.advance(2)
    clock.advance(3.9)
    granted = len(q.pop_many(9))
    assert granted == (0 if scope == "g" else 1)
    assert q.check() == []


FORMATS = ["", "junk", "3.0", " 3", "3 ", "-3", "3\n", "٣", "²", "0x3"]


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("text", FORMATS)
def test_a_format_that_is_no_number_is_lost(server, q, clock, probe, redis, text, copy):
    """For every reader: it is named, comes back, and opens no limit; nobody is refused."""
    q.set_limit(2, 60, 2, group="g")
    fill(q)
    probe.redis.hset(probe.key("conf"), "format", text)
    if not copy:
        probe.redis.hdel(probe.key("stats"), "kept.format")
    with DPQ(redis, q.queue_name, clock=clock) as late:
        assert late.stats().ready + late.stats().waiting == 20
        assert [(p.kind, p.subject) for p in late.check()] == [("settings lost", "format")]
        q.push("x", group="other")
        probe.redis.hset(probe.key("conf"), "format", text)
        if not copy:
            probe.redis.hdel(probe.key("stats"), "kept.format")
        q.promote()
        assert sorted(task.group for task in late.pop_many(20)) == ["g", "g", "other"]
        assert late.check() == []
        probe.redis.hset(probe.key("conf"), "format", text)
        if not copy:
            probe.redis.hdel(probe.key("stats"), "kept.format")
        assert [(p.kind, p.subject) for p in late.repair()] == [("settings lost", "format")]
        assert late.check() == []
    assert probe.redis.hget(probe.key("conf"), "format") == str(STORAGE_FORMAT).encode()


@pytest.mark.parametrize("text", ["2", "5", "03", "04", "0", "99999999999999999999"])
def test_another_number_is_another_format(server, q, clock, probe, redis, text):
    """Both numbers are named, by who has the queue open and by who opens it; nothing is changed."""
    q.set_limit(2, 60, 2, group="g")
    fill(q)
    probe.redis.hset(probe.key("conf"), "format", text)
    before = probe.stored()
    message = f"is stored in format {text}, and this DPQ knows format {STORAGE_FORMAT}"
    with DPQ(redis, q.queue_name, clock=clock) as late:
        for client in (q, late):
            for call in (
                client.pop,
                client.promote,
                client.check,
                client.repair,
                lambda c=client: c.push(1),
            ):
                with pytest.raises(ConfigurationError, match=message):
                    call()
    assert probe.stored() == before


@pytest.mark.parametrize("text", ["5", "junk"])
def test_the_copy_of_another_format(q, clock, probe, redis, text):
    """A lost format is what its copy says: another number is refused with both, damage is none."""
    fill(q)
    probe.redis.hset(probe.key("stats"), "kept.format", text)
    probe.redis.hdel(probe.key("conf"), "format")
    with DPQ(redis, q.queue_name, clock=clock) as late:
        for client in (q, late):
            if text == "5":
                with pytest.raises(
                    ConfigurationError, match="format 5, and this DPQ knows format 4"
                ):
                    client.pop()
            else:
                assert client.pop().task
                probe.redis.hdel(probe.key("conf"), "format")
    if text == "junk":
        q.repair()
        assert q.check() == []


def test_partitions_lose_limits(redis, queue_name, clock):
    """The limits of one partition, or of all, come back whole; a gate keeps what it has learned."""
    with DPQ(redis, queue_name, partitions=3, clock=clock) as q:
        q.set_limit([RateLimit(10, 1, slack=None), RateLimit(500, 60, 500)], group="*")
        q.set_limit(5, 1, slack=0.25, group="g7")
        q.push_many(Push(n, group=f"g{n % 9}") for n in range(180))
        for task in q.pop_many(9, visibility=LONG):
            q.rate_limited(task, 1)
        clock.advance(1)
        q.ack_many(q.pop_many(9, visibility=LONG))
        before = {state.group: (state.windows, state.slack) for state in q.groups()}
        assert {slack for _, slack in before.values()} == {0.05, 0}
        tags = tags_of(queue_name, 3)
        for lost in (tags[1:2], tags):
            redis.delete(*(key_of(tag, "limits") for tag in lost))
            for tag in lost:
                redis.hset(key_of(tag, "conf"), "format", "junk")
            clock.advance(0.05)
            q.promote()
            assert {state.group: (state.windows, state.slack) for state in q.groups()} == before
            assert q.pop_many(9) == []  # they are closed: nothing is restored before it is needed
        clock.advance(0.2)
        assert sorted(task.group for task in q.pop_many(9)) == [f"g{n}" for n in range(9)]
        assert q.check() == []
        assert {state.group: (state.windows, state.slack) for state in q.groups()} == before
