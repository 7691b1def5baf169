"""Lost and unreadable settings: no limit opens, and what is shown is so."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpq import DPQ, ConfigurationError, Push, RateLimit, Worker
from dpq.model.limits import read_rules
from dpq.protocol.keys import key_of

pytestmark = pytest.mark.damaged

SCOPES = {"queue": None, "group": "g", "every": "*"}
MANY = 20


def limited(q: DPQ, scope: str) -> None:
    """Twenty tasks of a group, of which two may run in a minute."""
    q.set_limit(2, 60, 2, group=SCOPES[scope])
    q.push_many(Push(n, group="g") for n in range(MANY))


def rules_at(probe: Any, scope: str) -> tuple[str, str]:
    """Where the rules of a scope stand."""
    field = {"queue": "queue_rules", "group": "group:g", "every": "groups"}[scope]
    return probe.key("conf" if scope == "queue" else "limits"), field


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "lost", ["conf", "limits", "gated", "queue_rules", "format", "limited", "the rules"]
)
def test_a_loss_opens_no_limit(server, q, clock, probe, scope, lost):
    """Whatever is lost of settings and limits, never more is granted than the limit allows."""
    limited(q, scope)
    if lost in ("conf", "limits"):
        probe.redis.delete(probe.key(lost))
    elif lost == "the rules":
        probe.redis.hdel(*rules_at(probe, scope))
    else:
        probe.redis.hdel(probe.key("conf"), lost)
    granted = len(q.pop_many(MANY))
    clock.advance(29)
    granted += len(q.pop_many(MANY))
    assert granted <= 2
    q.repair()
    assert granted + len(q.pop_many(MANY)) <= 2
    clock.advance(120)
    assert len(q.pop_many(MANY)) == 2
    assert q.check() == []


LOSSES = [
    ("limits", None),
    ("the rules", None),
    *(("conf", name) for name in ("limited", "gated", "queue_rules")),
    ("conf", None),
    ("conf", "format"),
    ("conf", "limited=junk"),
]
"""A key, or a field of it, or a field with what is written there instead."""

OF_LIMITS = 5
"""Those that concern limits alone come first."""


def lose(probe: Any, scope: str, part: str, field: str | None) -> None:
    key = probe.key(part)
    if part == "the rules":
        probe.redis.hdel(*rules_at(probe, scope))
    elif field is None:
        probe.redis.delete(key)
    elif "=" in field:
        probe.redis.hset(key, *field.split("="))
    else:
        probe.redis.hdel(key, field)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("before", ["nothing", "granted", "closed", "emptied"])
def test_no_two_losses_open_a_limit(server, q, clock, probe, scope, before):
    """Whatever two things are lost at once, no more is granted, and a repair leaves no problem."""
    losses = LOSSES if before in ("nothing", "granted") else LOSSES[:OF_LIMITS]
    for two in itertools.combinations(losses, 2):
        limited(q, scope)
        granted = len(q.pop_many(1)) if before == "granted" else 0
        if before == "closed":
            q.delay_group("g", 1)
            clock.advance(1)
        elif before == "emptied":  # whose gate is looked at, and goes
            q.push("alone", 1, group="alone")
            q.delay_group("alone", 1)
            clock.advance(1)
            q.promote()
            q.cancel(q.peek(1)[0].id)
        for loss in two:
            lose(probe, scope, *loss)
        granted += len(q.pop_many(MANY))
        clock.advance(29)
        granted += len(q.pop_many(MANY))
        assert granted <= 2, two
        q.repair()
        assert q.check() == [], two
        assert granted + len(q.pop_many(MANY)) <= 2, two
        clock.advance(120)
        assert len(q.pop_many(MANY)) == 2, two
        q.drop()


def test_a_lost_note_of_the_limits_is_named(server, q, probe):
    """Limits are noted in two fields: the first is named if it is lost, and a repair has both."""
    limited(q, "queue")
    for lost in (["limited"], ["limited", "gated"]):
        probe.redis.hdel(probe.key("conf"), *lost)
        assert [(p.kind, p.subject) for p in q.check()] == [("settings lost", "limited")]
        assert q.repair()
        assert q.check() == []
        assert probe.redis.hmget(probe.key("conf"), "limited", "gated") == [b"q0", b"q0="]


@pytest.mark.parametrize("scope", SCOPES)
def test_limits_lost_with_both_notes_are_named(server, q, probe, scope):
    """The one loss of three things that opens a limit is named, and mended."""
    limited(q, scope)
    lose(probe, scope, "the rules", None)
    probe.redis.hdel(probe.key("conf"), "limited", "gated")
    assert {p.kind for p in q.check()} == {"settings lost", "limits not in force"}
    q.repair()
    assert q.check() == []
    assert len(q.pop_many(MANY)) == 2


@pytest.mark.parametrize("scope", SCOPES)
def test_a_cleared_limit_leaves_no_note(server, q, probe, scope):
    """After the last limit is cleared nothing says that there are any."""
    q.set_limit(2, 60, 2, group=SCOPES[scope])
    q.clear_limit(SCOPES[scope])
    assert probe.redis.hmget(probe.key("conf"), "limited", "gated") == [None, None]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("met", ["by hand", "a 429", "a 429 of an hour ago"])
def test_what_was_granted_outlives_the_rules(server, q, clock, probe, scope, met):
    """A closing while the rules are lost forgets nothing of what they have granted."""
    limited(q, scope)
    tasks = q.pop_many(MANY)
    assert len(tasks) == 2
    probe.redis.hdel(*rules_at(probe, scope))
    if met == "by hand":
        q.delay_group("g", 0.001)
    else:
        q.rate_limited(tasks[0], 0.001, "queue" if scope == "queue" else "group")
    clock.advance(3600 if "hour" in met else 1)
    q.promote()
    after = q.pop_many(MANY)
    if "hour" in met:
        assert 1 <= len(after) <= 2
    else:
        assert after == []
        q.repair()
        assert q.pop_many(MANY) == []


def test_a_repair_marks_limits_that_come_back(server, q, probe):
    """Limits of groups that are lost with their mark are in force after one repair."""
    limited(q, "group")
    probe.redis.delete(probe.key("limits"))
    probe.redis.hdel(probe.key("conf"), "gated")
    q.repair()
    assert q.check() == []


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "text", ["", "junk", "0", "0|0 1000 1", "0|nan 1000 1", "0|1 1000 1 x", "-1"]
)
def test_unreadable_rules_close_their_scope_and_say_so(server, q, clock, probe, scope, text):
    """Nothing runs; check, limits and why name the cause; a repair opens as the limit says."""
    limited(q, scope)
    key, field = rules_at(probe, scope)
    probe.redis.hset(key, field, text)
    other = q.push("other", -1, group="other")
    for _ in range(3):
        tasks = q.pop_many(MANY)
        assert {task.group for task in tasks} <= ({"other"} if scope == "group" else set())
        clock.advance(40)
    [state] = [state for state in q.limits() if state.group == SCOPES[scope]]
    assert (state.open, state.reason, state.windows) == (False, "unreadable", ())
    [waiting] = q.peek(1, "waiting") or q.peek(1, "ready")
    assert "its stored limit cannot be read" in q.why(waiting.id)
    assert [problem.kind for problem in q.check()] == ["limit cannot be read"]
    assert q.get(other).state in ("ready", "waiting", "invisible")
    q.repair()
    assert q.check() == []
    q.purge("invisible")
    assert len([task for task in q.pop_many(MANY) if task.group == "g"]) == 2


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("clear", [False, True])
def test_without_a_copy_a_limit_is_set_again_or_cleared(server, q, probe, scope, clear):
    """A repair leaves an unreadable limit that has no copy, and closed; a person has the word."""
    limited(q, scope)
    key, field = rules_at(probe, scope)
    probe.redis.hset(key, field, "junk")
    probe.redis.hdel(probe.key("stats"), f"kept.{field}")
    assert q.repair() == []
    assert [problem.kind for problem in q.check()] == ["limit cannot be read"]
    assert q.pop_many(MANY) == []
    q.clear_limit(SCOPES[scope]) if clear else q.set_limit(3, 60, 3, group=SCOPES[scope])
    if scope == "every":
        q.delay_group("g", 0)  # it has closed for 30 s
    assert len(q.pop_many(MANY)) == (MANY if clear else 3)
    assert q.check() == []


def test_what_was_granted_counts_as_spent(q, clock, probe):
    """With `conf` all is lost that the queue has granted: its window begins as if it were spent."""
    q.set_limit(2, 60, 2)
    q.push_many(Push(n) for n in range(MANY))
    assert len(q.pop_many(MANY)) == 2
    probe.redis.delete(probe.key("conf"))
    assert q.pop_many(MANY) == []
    clock.advance(59)
    assert q.pop_many(MANY) == []
    clock.advance(2)
    assert len(q.pop_many(MANY)) == 1


@pytest.mark.parametrize(
    "text", ["junk", "- 60000:1.2.3 ", "5 x", "- 60000:nan ", "0 - - 0 0 0 lost"]
)
@pytest.mark.parametrize("scope", ["queue", "group"])
def test_an_unreadable_gate_counts_as_spent(server, q, clock, probe, scope, text):
    """What was granted and cannot be read is all that the window may grant, before any repair."""
    limited(q, scope)
    if scope == "queue":
        probe.redis.hset(probe.key("conf"), "queue_gate", text)
    else:
        probe.redis.hset(probe.key("gates"), "g", text)
    assert q.pop_many(MANY) == []
    clock.advance(59)
    assert q.pop_many(MANY) == []
    clock.advance(2)
    assert len(q.pop_many(MANY)) == 1
    assert q.check() == []


def test_a_closing_of_the_queue_survives(q, clock, probe):
    """A 429 of the queue and a pause hold on though `conf` is lost; so they end when they would."""
    q.push_many(Push(n) for n in range(3))
    q.rate_limited(probe.pop(), 30, "queue")
    probe.redis.delete(probe.key("conf"))
    assert q.pop().task is None
    clock.advance(31)
    assert len(q.pop_many(3)) == 1  # the probe
    q.pause(10)
    probe.redis.delete(probe.key("conf"))
    clock.advance(9)
    assert q.pop().task is None
    q.resume()
    probe.redis.delete(probe.key("conf"))
    assert len(q.pop_many(3)) == 2
    assert q.check() == []


def test_order_and_pause_come_back_by_a_repair(q, clock, probe):
    """A lost order and a lost pause are named, and are what they were after a repair."""
    with DPQ(probe.redis, q.queue_name, order="lifo", clock=clock) as named:
        named.push_many(Push(n) for n in range(2))
        named.pause()
        probe.redis.hdel(probe.key("conf"), "order", "paused_until")
        assert {(p.kind, p.subject) for p in q.check()} == {
            ("settings lost", "order"),
            ("settings lost", "paused_until"),
        }
        assert len(q.repair()) == 2
        assert q.pop().task is None
        q.resume()
        q.push(2)
        assert probe.drain() == [2, 1, 0]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("order", "junk"),
        ("fairness", "0"),
        ("payloads", "elsewhere"),
        ("dead_max_tasks", "x"),
        ("paused_until", ""),
        ("paused_until", "nan"),
    ],
)
def test_an_unreadable_setting_comes_back(server, redis, queue_name, clock, field, text):
    """What cannot be read counts as lost: check names it, a repair restores it from its copy."""
    settings = {"order": "fifo", "fairness": "none", "payloads": "apart", "dead_max_tasks": 7}
    with DPQ(redis, queue_name, clock=clock, **settings) as q:
        q.push(1)
        q.pause()
        conf = key_of(queue_name, "conf")
        before = redis.hget(conf, field)
        redis.hset(conf, field, text)
        assert [(p.kind, p.subject) for p in q.check()] == [("settings lost", field)]
        assert q.repair()
        assert q.check() == []
        assert redis.hget(conf, field) == before
        assert q.pop().task is None


def test_turns_that_are_no_number_begin_again(server, redis, queue_name):
    """Nothing breaks off in its middle: all tasks of all groups come."""
    with DPQ(redis, queue_name, fairness="round_robin") as q:
        q.push_many(Push(n, group=f"g{n % 2}") for n in range(8))
        redis.hset(key_of(queue_name, "conf"), "turns", "x")
        assert len(q.pop_many(8)) == 8
        assert q.check() == []


def test_an_expired_pause_is_not_lost(q, clock, probe):
    """What is over, or was ended, is nothing that a queue misses."""
    q.push(1)
    q.pause(5)
    clock.advance(6)
    probe.redis.hdel(probe.key("conf"), "paused_until")
    assert q.check() == []


def test_limits_lost_with_their_copies(server, q, clock, probe):
    """Nothing runs, and an error says why; after the limit is set again and a repair, it does."""
    limited(q, "group")
    probe.redis.delete(probe.key("limits"), probe.key("stats"))
    probe.redis.hset(probe.key("stats"), "pushed", MANY)
    with pytest.raises(ConfigurationError, match="set them again"):
        q.pop()
    assert [(p.kind, p.subject) for p in q.check()] == [("limits not in force", "limited")]
    q.set_limit(2, 60, 2, group="g")
    q.repair()
    assert q.check() == []
    assert len(q.pop_many(MANY)) == 2


def test_lost_limits_are_shown(q, probe):
    """A limit that comes back before anything runs is shown as it will hold."""
    limited(q, "group")
    q.set_limit(5, 1)
    before = q.limits()
    probe.redis.delete(probe.key("limits"))
    probe.redis.hdel(probe.key("conf"), "queue_rules")
    assert q.limits() == before
    assert q.groups() == before[1:]


@pytest.mark.parametrize("field", ["ready", "dead", "oldest_ready_seconds", "junk", b"\xff"])
def test_totals_of_any_name(q, probe, field):
    """A field of `stats` that is no total changes nothing that is shown, and ends every drain."""
    q.push(1)
    before = q.stats()
    probe.redis.hset(probe.key("stats"), field, "x")
    assert q.stats() == before
    assert Worker(q, lambda payload: None).run(until_empty=True, signals=False) == 1


def test_no_group_is_shown_that_cannot_be(q, probe):
    """What stands in `limits` or `closed` under a name that no group has is not shown as one."""
    q.push(1, group="g")
    q.delay_group("g", 9)
    for name in ("", "a\tb", "x" * 201):
        probe.redis.hset(probe.key("limits"), f"group:{name}", "5")
        probe.redis.zadd(probe.key("closed"), {name: 9e12})
    assert [state.group for state in q.groups()] == ["g"]
    assert [state.group for state in q.limits()] == [None]


def test_a_task_in_no_set_is_not_called_ready(q, probe):
    """why says that it stands nowhere, of a group or not."""
    for group in (None, "g"):
        task_id = q.push(1, group=group)
        probe.redis.delete(probe.key("ready"))
        assert "it stands nowhere" in q.why(task_id)


@pytest.mark.parametrize(
    "stored", ["9" * 13 + " 0 1 1 1\th\tn", "{now} 0 " + "9" * 5000 + " 1 1\th\tn"]
)
def test_workers_of_the_future(q, clock, probe, stored):
    """A worker that was seen in the far future, or counts beyond all bounds, is not shown."""
    probe.redis.hset(probe.key("workers"), "w", stored.format(now=clock()))
    assert q.workers() == []


# A sound queue has no problems

looks = st.tuples(
    st.one_of(st.integers(1, 1000), st.floats(1, 1000)),
    st.sampled_from([1, 60, 3600]),
    st.integers(2, 5),
)


def rounded_apart(q: DPQ, clock: Any, probe: Any, rate: tuple[float, float, int]) -> list[bytes]:
    """Look, each time that a group of such a limit has closed, whether its opening is noticed."""
    units, per, burst = rate
    q.set_limit(units, per, burst, group="g")
    q.push_many(Push(n, group="g") for n in range(60))
    found = []
    for _ in range(60):
        q.pop_many(burst, visibility=10**8)
        _, *problems = probe.call("check", clock(), "events", "0", 10, 0)
        found += problems
        clock.advance(math.ceil(per / units * 1000) / 1000)
    q.drop()
    return found


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(looks)
@example((29, 1, 3))
@example((52, 1, 3))
@example((19, 60, 3))
def test_no_moment_is_rounded_apart(server, q, clock, probe, rate):
    """Under a limit of any rate, no look at a group that has just closed finds a problem."""
    assert rounded_apart(q, clock, probe, rate) == []


# Lua and Python read the same

texts = st.one_of(
    st.from_regex(
        r"[0-9]{1,3}(~[0-9. ]{1,12})?"
        r"(\|[0-9.]{1,4} [0-9]{1,6} [0-9]{1,3}( [0-9] -?[0-9e]{1,4})?){0,2}"
    ),
    st.lists(
        st.builds(RateLimit, st.floats(0.001, 1e6), st.floats(0.001, 3e7), st.just(1)), max_size=3
    ).map(
        lambda windows: "|".join(
            ["3", *(f"{w.rate!r} {math.ceil(w.per * 1000)} 1" for w in windows)]
        )
    ),
    st.text("0123456789|~ .-e", max_size=30),
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts)
def test_what_lua_reads_python_shows(server, q, probe, text):
    """A limit is shown as it holds, or as unreadable: never as another one, nor as none."""
    q.set_limit(1, 1, group="g")
    probe.redis.hset(probe.key("limits"), "group:g", text)
    state = q.group("g")
    if state.reason == "unreadable":
        assert (state.windows, state.concurrency) == ((), None)
    else:
        assert (state.windows, state.concurrency) == read_rules(text)
        assert state.windows or state.concurrency
