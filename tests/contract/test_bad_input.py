"""Bad input gets an error that names the value and the bound, and changes nothing."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from dpq import (
    DPQ,
    Adaptive,
    Backoff,
    ConfigurationError,
    PayloadError,
    Push,
    RateLimit,
    Reserve,
    TaskNotFoundError,
)

Call = Callable[[DPQ[Any], Any], Any]  # queue, a task that is running

TEN_YEARS = "315360000"
INT_BOUND = "from -2^63 to 2^63-1 or a finite float"
NOT_A_DURATION = [-1, -0.001, math.nan, math.inf, -math.inf, 315_360_001, True, "5"]
NOT_A_COUNT = [0, -1, 1_000_001, 1.5, True, "3"]
NOT_A_STATE = ["", "READY", "gone", 3]
STATES = "ready, delayed, invisible, waiting, dead"
NOT_AN_ID = ["", 5, None, b"x", "é", "x" * 201]
ID = "string that push returned"
NOT_A_LABEL = [
    ("", "1 to 200 bytes"),
    ("x" * 201, "200"),
    ("é" * 101, "200"),
    ("a\tb", "control characters"),
    ("a\nb", "control characters"),
    ("\ud800", "must be valid Unicode"),
    (5, "1 to 200 bytes"),
    (b"a", "1 to 200 bytes"),
]


def said(value: Any) -> str:
    """How an error may name a value: itself, or the beginning of a long one."""
    return repr(value)[:30].rstrip("'")


def each(call: Callable[[DPQ[Any], Any, Any], Any], values: list[Any], bound: str) -> list[Any]:
    """A call with each of these values."""
    return [(lambda q, t, v=value: call(q, t, v), value, bound) for value in values]


def durations(call: Callable[[DPQ[Any], Any, Any], Any], values: list[Any]) -> list[Any]:
    return each(call, values, TEN_YEARS)


def labels(call: Callable[[DPQ[Any], Any, Any], Any]) -> list[Any]:
    return [case for value, bound in NOT_A_LABEL for case in each(call, [value], bound)]


def pushes(argument: str, values: list[Any], bound: str) -> list[Any]:
    """A push with each of these values, by itself and among good ones."""
    good = Push(payload=1)
    return [
        *each(lambda q, t, v: q.push(1, **{argument: v}), values, bound),
        *each(lambda q, t, v: q.push_many([good, Push(1, **{argument: v})]), values, bound),
    ]


REFUSED: list[tuple[Call, Any, str]] = [
    *pushes("every", [0, -1, 315_360_001, math.nan, "5", True], "0.001 to 315360000"),
    *pushes("cron", ["", "* * * *", "61 * * * *", 5], "five fields"),
    *pushes("timezone", ["Europe/Berlin", None], "give cron"),
    *pushes(
        "priority",
        [math.nan, math.inf, -math.inf, 2**63, -(2**63) - 1, 10**400, True, False, "1", None],
        INT_BOUND,
    ),
    *pushes("delay", NOT_A_DURATION, TEN_YEARS),
    *pushes("expires_in", [0, *NOT_A_DURATION], TEN_YEARS),
    *pushes("max_attempts", NOT_A_COUNT, "1 to 1000000"),
    *pushes("cost", [0, -1, 10**9 + 1, 1.5, True, "3", 1.0, None], "1 to 1000000000"),
    *pushes("on_duplicate", ["", "replace", None, 3], "keep, update, raise_priority, rerun, error"),
    *[case for value, bound in NOT_A_LABEL for case in pushes("group", [value], bound)],
    *[case for value, bound in NOT_A_LABEL for case in pushes("key", [value], bound)],
    *durations(lambda q, t, v: q.pop(timeout=v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.pop(visibility=v), [0, *NOT_A_DURATION]),
    *durations(lambda q, t, v: q.pop_many(3, timeout=v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.extend(t, v), [0, *NOT_A_DURATION]),
    *durations(lambda q, t, v: q.set_visibility(t, v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.release(t, v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.fail(t, "no", v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.update(q.peek(1)[0].id, delay=v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.pause(v), [0, *NOT_A_DURATION]),
    *durations(lambda q, t, v: q.delay_group("g", v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.rate_limited(t, v), NOT_A_DURATION),
    *durations(lambda q, t, v: q.set_limit(1, v, group="a"), [0, 0.0009, *NOT_A_DURATION]),
    *each(lambda q, t, n: q.pop_many(n), [0, -1, 1001, 1.0, True], "1 to 1000"),
    *each(lambda q, t, p: q.release(t, priority=p), [math.nan, math.inf, 2**63, True], INT_BOUND),
    *each(
        lambda q, t, p: q.update(q.peek(1)[0].id, priority=p),
        [math.nan, -math.inf, -(2**63) - 1, True],
        INT_BOUND,
    ),
    *each(
        lambda q, t, r: q.dead.replay(rate=r),
        [0, -1, 0.0001, math.nan, math.inf, 10**7, True, "1"],
        "from 0.001 to 1000000",
    ),
    *each(lambda q, t, s: q.purge(s), NOT_A_STATE, STATES),
    *each(lambda q, t, s: q.peek(1, s), NOT_A_STATE, STATES),
    *each(lambda q, t, i: q.get(i), NOT_AN_ID, ID),
    *each(lambda q, t, i: q.cancel(i), NOT_AN_ID, ID),
    *each(lambda q, t, i: q.update(i, priority=1), NOT_AN_ID, ID),
    *each(lambda q, t, i: q.dead.replay([i]), NOT_AN_ID, ID),
    *each(lambda q, t, i: q.dead.purge([i]), NOT_AN_ID, ID),
    *each(lambda q, t, i: q.why(i), NOT_AN_ID, ID),
    *each(lambda q, t, n: q.peek(n), [-1, 1.5, True], "from 0 to"),
    *each(lambda q, t, n: q.dead.list(n), [-1, 1.5, True], "from 0 to"),
    *each(
        lambda q, t, s: q.rate_limited(t, 5, s),
        ["", "Group", "host", None, 3],
        "'group', 'queue' or 'task'",
    ),
    *each(
        lambda q, t, r: q.set_limit(r, 1),
        [0, -1, 0.0009, 10**9 + 1, math.nan, math.inf, True],
        "from 0.001 to 1000000000",
    ),
    *each(
        lambda q, t, b: q.set_limit(1, 1, b, group="*"),
        [0, 10**9 + 1, 1.5, True, None],
        "1 to 1000000000",
    ),
    *each(lambda q, t, c: q.set_limit(concurrency=c), NOT_A_COUNT, "1 to 1000000"),
    *labels(lambda q, t, v: q.delay_group(v, 5)),
    *labels(lambda q, t, v: q.set_limit(1, 1, group=v)),
    *labels(lambda q, t, v: q.clear_limit(v)),
    *labels(lambda q, t, v: q.group(v)),
    (lambda q, t: q.set_limit(5), 5, "per is missing"),
    (lambda q, t: q.set_limit([5]), 5, "RateLimit"),
    (lambda q, t: q.set_limit("ten/s"), "ten/s", "UNITS/TIME"),
    (lambda q, t: q.set_limit([RateLimit(1, 1)] * 9), 9, "at most 8"),
    (lambda q, t: q.set_limit(1, 1, adaptive=5), 5, "Adaptive"),
    (lambda q, t: q.set_limit(1, 1, reserve=5), 5, "Reserve"),
    (lambda q, t: q.set_limit(1, 1, 3, reserve=Reserve(3, 1)), 3, "burst is 3"),
    (lambda q, t: q.set_limit(3, 1, adaptive=Adaptive(4, 9)), 3, "from adaptive.floor 4"),
]


@pytest.fixture
def running(q: DPQ[Any]) -> Any:
    """A queue with a task in every state; the one that is running."""
    q.push("to be buried")
    q.bury(q.pop().task, "no good")
    q.push("running", priority=9, key="running")
    task = q.pop().task
    q.push("delayed", delay=60)
    q.push("ready", group="a")
    q.push("waiting", group="a")
    return task


@pytest.fixture
def unchanged(redis: Redis, queue_name: str, running: Any) -> Iterator[None]:
    """Every key of the queue holds at the end what it held before."""

    def dump() -> dict[bytes, Any]:
        read = {
            b"hash": redis.hgetall,
            b"stream": redis.xrange,
            b"zset": lambda key: redis.zrange(key, 0, -1, False, True),
        }
        return {
            key: read[redis.type(key)](key)  # not its DUMP: a hash has no order to rely on
            for key in redis.keys(f"dpq:{{{queue_name}}}:*")
        }

    before = dump()
    yield
    assert dump() == before


def test_a_bad_argument_is_refused_and_changes_nothing(
    q: DPQ[Any], running: Any, unchanged: None
) -> None:
    """Each call out of its bounds is a ConfigurationError that names the value and the bound."""
    wrong = []
    for call, value, bound in REFUSED:
        try:
            wrong.append((value, call(q, running)))
        except ConfigurationError as error:
            short = said(value) in str(error) or f"is {len(str(value).encode())} bytes" in str(
                error
            )
            if bound not in str(error) or not short:
                wrong.append((value, str(error)))
        except Exception as error:  # collected, and shown together below
            wrong.append((value, repr(error)))
    assert not wrong, "\n".join(f"{value!r:.60}: {got}" for value, got in wrong)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("", "1 to 200 bytes"),
        ("x" * 201, "200"),
        ("a{b", "braces"),
        ("a}b", "braces"),
        ("{a}", "braces"),
        ("a\nb", "control characters"),
        (None, "1 to 200 bytes"),
        (b"a", "1 to 200 bytes"),
    ],
)
def test_a_bad_queue_name_is_refused(redis: Redis, name: Any, bound: str, queue_name: str) -> None:
    """A queue's name has 1 to 200 bytes and neither braces nor control characters."""
    with pytest.raises(ConfigurationError, match=f"queue_name is .*{re.escape(bound)}"):
        DPQ(redis, name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"default_visibility": 0},
        {"default_visibility": math.inf},
        {"default_max_attempts": 0},
        {"default_max_attempts": True},
        {"order": "random"},
        {"aging": -1},
        {"aging": math.nan},
        {"aging": True},
        {"order": "lifo", "aging": 1.0},
        {"fairness": "fair"},
        {"fairness": True},
        {"payloads": "private"},
        {"fairness": "round_robin", "order": "lifo"},
        {"fairness": "round_robin", "aging": 0.5},
        {"backoff": 5},
        {"max_payload_bytes": 0},
        {"max_payload_bytes": 2**40},
        {"dead_max_tasks": -1},
        {"dead_max_age": 0},
        {"payload_type": type("Unknown", (), {})},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_a_bad_setting_is_refused_at_construction(
    redis: Redis, queue_name: str, wrong: dict[str, Any]
) -> None:
    """A wrong setting fails at start with its name and value, and nothing is written."""
    with pytest.raises(ConfigurationError) as refused:
        DPQ(redis, queue_name, **wrong)
    assert next(iter(wrong)) in str(refused.value)
    assert redis.keys(f"dpq:{{{queue_name}}}:*") == []


@pytest.mark.parametrize("name", ["base", "factor", "cap", "jitter"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1"])
def test_a_bad_backoff_is_refused(name: str, value: Any) -> None:
    """A backoff out of its bounds names the argument, the value and the bounds."""
    with pytest.raises(ConfigurationError, match=f"{name} is {re.escape(repr(value))}: .* from"):
        Backoff(**{name: value})


@pytest.mark.parametrize(
    "call",
    [
        lambda q: q.set_limit(),
        lambda q: q.set_limit([]),
        lambda q: q.set_limit(per=5),
        lambda q: q.set_limit(concurrency=3, burst=2),
        lambda q: q.set_limit([RateLimit(1, 1)], 1),
        lambda q: q.set_limit([RateLimit(1, 1), RateLimit(1, 2, adaptive=Adaptive(1, 2))]),
        lambda q: q.rate_limited(None, 5),
        lambda q: q.rate_limited("id", 5),
    ],
)
def test_a_call_that_says_too_little_or_too_much_is_refused(
    q: DPQ[Any], unchanged: None, call: Callable[[DPQ[Any]], Any]
) -> None:
    """A limit without a word, one said twice, and a task that is none: refused, nothing changes."""
    with pytest.raises(ConfigurationError):
        call(q)


def test_a_client_that_is_none_is_refused(queue_name: str) -> None:
    """A URL where a client belongs is refused, and the error says what opens one."""
    with pytest.raises(ConfigurationError, match="from_url"):
        DPQ("redis://localhost", queue_name)


def endless() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (object(), "object has no JSON form"),
        (lambda: 0, "function has no JSON form"),
        (endless(), "list has no JSON form"),
        ({"a": object()}, "dict has no JSON form"),
        ("\ud800", "str has no JSON form"),
        ("x" * 1_048_577, "1048579 bytes, and max_payload_bytes is 1048576"),
    ],
    ids=["object", "function", "endless", "nested", "surrogate", "oversized"],
)
def test_a_payload_without_a_json_form_is_refused(
    q: DPQ[Any], unchanged: None, payload: Any, told: str
) -> None:
    """What JSON cannot say, or is too long, is a PayloadError that says which and the bound."""
    with pytest.raises(PayloadError, match=told):
        q.push(payload)
    with pytest.raises(PayloadError, match=told):
        q.push_many([Push(payload="good"), Push(payload=payload)])


@pytest.mark.parametrize("payload", ["5", 1.5, None, [1]])
def test_a_payload_of_the_wrong_type_is_refused(
    redis: Redis, queue_name: str, q: DPQ[Any], unchanged: None, payload: Any
) -> None:
    """A typed queue takes its type only."""
    typed: DPQ[dict[str, int]] = DPQ(redis, queue_name, payload_type=dict[str, int])
    with pytest.raises(PayloadError, match="does not fit the queue's type"):
        typed.push(payload)


@pytest.mark.parametrize("action", ["get", "update", "cancel"])
def test_an_unknown_id_is_named(q: DPQ[Any], unchanged: None, action: str) -> None:
    """An id that nothing is stored under is a TaskNotFoundError with the id and the queue."""
    arguments = {"priority": 1} if action == "update" else {}
    with pytest.raises(TaskNotFoundError, match=f"cannot {action} task 'nobody'") as error:
        getattr(q, action)("nobody", **arguments)
    assert error.value.task_id == "nobody"
    assert q.queue_name in str(error.value)


def test_an_unknown_id_has_no_reason(q: DPQ[Any], unchanged: None) -> None:
    """So is an id that somebody asks about."""
    with pytest.raises(TaskNotFoundError, match="cannot explain task 'nobody'") as error:
        q.why("nobody")
    assert q.queue_name in str(error.value)


def test_a_dead_task_is_no_live_one(q: DPQ[Any], unchanged: None) -> None:
    """Update and cancel of a dead task say that it is not found."""
    dead = q.dead.list()[0].id
    with pytest.raises(TaskNotFoundError, match=dead):
        q.update(dead, priority=1)
    with pytest.raises(TaskNotFoundError, match=dead):
        q.cancel(dead)


def test_an_update_that_cannot_be_is_refused(q: DPQ[Any], running: Any, unchanged: None) -> None:
    """A delay for a running task, and an update of nothing, are refused."""
    with pytest.raises(ConfigurationError, match=f"{running.id} is running"):
        q.update(running.id, delay=5)
    with pytest.raises(ConfigurationError, match="give priority, delay or cost"):
        q.update(running.id)


def test_a_key_of_another_group_is_refused(q: DPQ[Any], running: Any, unchanged: None) -> None:
    """A push cannot carry a key into another group; the error names the key and its holder."""
    for mode in ("keep", "update", "raise_priority", "rerun"):
        with pytest.raises(ConfigurationError, match=f"'running' belongs to task {running.id}"):
            q.push("x", key="running", group="other", on_duplicate=mode)


def test_an_unknown_id_among_the_dead_is_passed_over(q: DPQ[Any], running: Any) -> None:
    """Replay and purge of ids that are not dead do nothing, and say so."""
    before = q.stats()
    assert q.dead.replay(["nobody", running.id]) == 0
    assert q.dead.purge(["nobody", running.id]) == 0
    assert q.stats() == before
