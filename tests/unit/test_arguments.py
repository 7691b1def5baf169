"""Bad input to the public calls: a clear error that names value and bound, and nothing is sent."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from kit.scripted import a_task

from dpq import DPQ, ConfigurationError, Push, RateLimited
from dpq.model.validation import label, milliseconds


class Nowhere:
    """A client that must not be used."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        raise AssertionError(f"sent: {args[:1]} {args[2:]}")


@pytest.fixture
def q() -> DPQ:
    queue: DPQ = DPQ(Nowhere(), "name")
    queue._operations.settings = {}  # as after the first call
    return queue


TASK = a_task(1, "some-id")

NOT_NUMBERS = [math.nan, True, "1", [1]]
BAD_WAIT = [-1, -0.001, 315_360_001, math.inf, -math.inf, *NOT_NUMBERS]
BAD_DURATION = [0, *BAD_WAIT]
BAD_PRIORITY = [2**63, -(2**63) - 1, 10**400, math.inf, -math.inf, *NOT_NUMBERS]
BAD_COUNT = [0, -1, 1_000_001, 1.0, True, "3"]
NO_WAIT, NO_DURATION, NO_PRIORITY = ([*bad, None] for bad in (BAD_WAIT, BAD_DURATION, BAD_PRIORITY))
"""Where None is refused too; elsewhere it stands for a default."""

NO_NAME = ["", 5, b"g"]
TOO_LONG = ["x" * 201, "é" * 101]
NO_TEXT = ["a\tb", "a\nb", "\0", "\x7f", "\x85"]
NO_ID = ["", None, 5, "é", "x" * 201, b"id"]
NO_STATE = ["", "READY", "all", 1]
TEN_YEARS = r"to 315360000 \(10 years\)"
A_WAIT, A_DURATION = f"from 0 {TEN_YEARS}", f"from 0.001 {TEN_YEARS}"
A_PRIORITY = r"priority is .* from -2\^63 to 2\^63-1 or a finite float"
A_STATE = "state is .* one of ready, delayed, invisible, waiting, dead"
AN_ID = "id is .*string that push returned"

Case = tuple[str, str, Callable[[DPQ, Any], Any], list[Any]]


def pushes(argument: str, bound: str, bad: list[Any], **more: Any) -> list[Case]:
    """A push with each of these values, by itself and behind a good one."""
    return [
        (f"push {argument}", bound, lambda q, v: q.push(1, **more, **{argument: v}), bad),
        (
            f"push_many {argument}",
            bound,
            lambda q, v: q.push_many([Push(1), Push(1, **more, **{argument: v})]),
            bad,
        ),
    ]


def labels(name: str, call: Callable[[DPQ, Any], Any], *more: Any) -> list[Case]:
    """A call with each text that is no name of a group, a key or a member, and with more."""
    return [
        (f"{name} that is none", "1 to [0-9]+ bytes", call, NO_NAME),
        (f"{name} that is too long", "bytes .* at most [12]00", call, [*TOO_LONG, *more]),
        (f"{name} of no text", "control characters", call, NO_TEXT),
        (f"{name} of half a character", "must be valid Unicode", call, ["\ud800"]),
    ]


CASES: list[Case] = [
    *pushes("priority", A_PRIORITY, NO_PRIORITY),
    *pushes("delay", f"delay is .* {A_WAIT}", NO_WAIT),
    *pushes("expires_in", f"expires_in is .* {A_DURATION}", BAD_DURATION),
    *pushes("max_attempts", "max_attempts is .* from 1 to 1000000", BAD_COUNT),
    *pushes("cost", "cost .* 1 to 1000000000", [0, -1, 10**9 + 1, 1.5, True, "3", None]),
    *pushes("every", f"every is .* {A_DURATION}", [0, -1, 315_360_001, math.nan, "5", True]),
    *pushes("cron", "five fields", ["", "* * * *", "61 * * * *", 5]),
    *pushes("timezone", "give cron", ["Europe/Berlin", None]),
    *pushes(
        "on_duplicate",
        "on_duplicate .* one of keep, update, raise_priority, rerun, error",
        ["", "k", "replace", None, 1],
    ),
    *labels("push group", lambda q, v: q.push(1, group=v)),
    *labels("push_many group", lambda q, v: q.push_many([Push(1), Push(1, group=v)])),
    *labels("push key", lambda q, v: q.push(1, key=v)),
    *labels("push_many key", lambda q, v: q.push_many([Push(1), Push(1, key=v)])),
    *labels("push member", lambda q, v: q.push(1, group="g", member=v), "é" * 51),
    ("pop timeout", f"timeout is .* {A_WAIT}", lambda q, v: q.pop(v), BAD_WAIT),
    ("pop visibility", f"visibility is .* {A_DURATION}", lambda q, v: q.pop(0, v), BAD_DURATION),
    (
        "pop_many max_tasks",
        "max_tasks is .* from 1 to 1000",
        lambda q, v: q.pop_many(v),
        [0, -1, 1001, 1.0, True, None, "1"],
    ),
    ("pop_many timeout", f"timeout is .* {A_WAIT}", lambda q, v: q.pop_many(3, v), BAD_WAIT),
    ("extend", f"seconds is .* {A_DURATION}", lambda q, v: q.extend(TASK, v), NO_DURATION),
    ("set_visibility", f"is .* {A_WAIT}", lambda q, v: q.set_visibility(TASK, v), NO_WAIT),
    ("release delay", f"delay is .* {A_WAIT}", lambda q, v: q.release(TASK, v), NO_WAIT),
    ("release priority", A_PRIORITY, lambda q, v: q.release(TASK, priority=v), BAD_PRIORITY),
    ("fail delay", f"delay is .* {A_WAIT}", lambda q, v: q.fail(TASK, None, v), BAD_WAIT),
    ("rate_limited", f"retry_after is .* {A_WAIT}", lambda q, v: q.rate_limited(TASK, v), NO_WAIT),
    (
        "rate_limited scope",
        "scope is .*'group', 'queue' or 'task'",
        lambda q, v: q.rate_limited(TASK, 5, v),
        ["", "Group", "host", None, 3],
    ),
    ("rate_limited task", "task", lambda q, v: q.rate_limited(v, 5), [None, "id"]),
    (
        "RateLimited",
        "retry_after is .*0 or more",
        lambda q, v: RateLimited(v),
        [-1, math.inf, True],
    ),
    ("get", AN_ID, lambda q, v: q.get(v), NO_ID),
    ("why", AN_ID, lambda q, v: q.why(v), [each for each in NO_ID if each is not None]),
    ("cancel", AN_ID, lambda q, v: q.cancel(v), NO_ID),
    ("update id", AN_ID, lambda q, v: q.update(v, priority=1), NO_ID),
    ("update priority", A_PRIORITY, lambda q, v: q.update("id", priority=v), BAD_PRIORITY),
    ("update delay", f"delay is .* {A_WAIT}", lambda q, v: q.update("id", delay=v), BAD_WAIT),
    ("peek n", "n is .* from 0 to", lambda q, v: q.peek(v), [-1, 1.0, True, None, 10**9 + 1]),
    ("peek state", A_STATE, lambda q, v: q.peek(state=v), [*NO_STATE, None]),
    ("purge state", A_STATE, lambda q, v: q.purge(v), NO_STATE),
    ("pause", f"seconds is .* {A_DURATION}", lambda q, v: q.pause(v), BAD_DURATION),
    ("delay_group", f"seconds is .* {A_WAIT}", lambda q, v: q.delay_group("g", v), BAD_WAIT),
    ("delay_group None", "1 to 200 bytes", lambda q, v: q.delay_group(v, 1), [None]),
    *labels("delay_group group", lambda q, v: q.delay_group(v, 1)),
    *labels("delay_group member", lambda q, v: q.delay_group("g", 1, member=v), "x" * 101),
    ("delay_group tilde", "member is", lambda q, v: q.delay_group("g", 1, member=v), ["~a"]),
    *labels("set_limit group", lambda q, v: q.set_limit(1, 1, group=v)),
    *labels("clear_limit group", lambda q, v: q.clear_limit(v)),
    *labels("group", lambda q, v: q.admin.group(v)),
    (
        "members",
        "members is .*: it must be a list of names",
        lambda q, v: q.set_limit(1, 1, group="g", members=v),
        ["ab", b"ab", 5, {"a"}],
    ),
    *labels("a member", lambda q, v: q.set_limit(1, 1, group="g", members=["a", v]), "x" * 101),
    ("tilde", "member is", lambda q, v: q.set_limit(1, 1, group="g", members=["a", v]), ["~a"]),
    (  # all else of a limit is in test_limits.py
        "set_limit rate",
        "rate is .* from 0.001 to 1000000000",
        lambda q, v: q.set_limit(v, 1),
        [0, -1, 0.0009, 10**9 + 1, math.nan, math.inf, True],
    ),
    ("dead.list n", "n is .*from 0 to", lambda q, v: q.dead.list(v), [-1, 1.5, True, None]),
    ("dead.replay ids", AN_ID, lambda q, v: q.dead.replay([v]), NO_ID),
    ("dead.purge ids", AN_ID, lambda q, v: q.dead.purge(["id", v]), NO_ID),
    (
        "dead.replay rate",
        "rate is .* from 0.001 to 1000000",
        lambda q, v: q.dead.replay(rate=v),
        [0, -1, 0.0009, 10**6 + 1, math.nan, math.inf, True, "1"],
    ),
]


@pytest.mark.parametrize(
    ("bound", "call", "values"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_bad_argument(q, bound, call, values):
    """A bad argument is refused with its value and its bound before anything is sent."""
    for bad in values:
        with pytest.raises(ConfigurationError, match=bound) as caught:
            call(q, bad)
        told = str(caught.value)
        named = (
            repr(bad)[:30] in told or f"is {len(str(bad).encode(errors='replace'))} byte" in told
        )
        assert named, (bad, told)


SETTINGS: list[tuple[str, str, list[Any]]] = [
    ("queue_name", "1 to 200 bytes", [*NO_NAME, None]),
    ("queue_name", "bytes .* at most 200", TOO_LONG),
    ("queue_name", "control characters", NO_TEXT),
    ("queue_name", "braces", ["a{b", "a}b", "{a}"]),
    ("default_visibility", A_DURATION, NO_DURATION),
    ("default_max_attempts", "from 1 to 1000000, or math.inf for no limit", [-math.inf, math.nan]),
    ("default_max_attempts", "from 1 to 1000000", [0, 1_000_001, 1.0, True, None]),
    ("order", "'fifo', 'lifo' or 'min'", ["", "random", 1]),
    ("aging", "from 0 to 1000000", [-0.1, 10**6 + 1, math.inf, math.nan, True, "1"]),
    ("fairness", "fairness is", ["fair", True]),
    ("payloads", "payloads is", ["private"]),
    ("payload_type", "payload_type", [type("Unknown", (), {})]),
    ("backoff", "must be a Backoff, or a list of 1 to 16", [None, 5, "15", [], [1] * 17]),
    ("max_payload_bytes", "from 1 to 67108864", [0, 2**26 + 1, 1.0, True, None]),
    ("dead_max_tasks", "from 0 to 1000000000", [-1, 10**9 + 1, 1.0, True]),
    ("dead_max_age", "dead_max_age .* from 0.001", [0, -1, math.inf, math.nan, True]),
]


@pytest.mark.parametrize(
    ("name", "bound", "values"), SETTINGS, ids=[f"{name}: {bound}" for name, bound, _ in SETTINGS]
)
def test_bad_setting(name, bound, values):
    """A bad setting is refused when the queue is built, with name, value and bound."""
    for bad in values:
        with pytest.raises(ConfigurationError, match=bound) as caught:
            DPQ(Nowhere(), **({"queue_name": "name"} | {name: bad}))
        assert name in str(caught.value)
        assert repr(bad)[:30] in str(caught.value) or "bytes" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["g", "x" * 200, "é" * 100, "a b", "::", "%s", "{x}", "☃", "\u2028"]
)
def test_label(name):
    """1 to 200 bytes of anything but control characters is a name."""
    assert label("group", name) == name


@pytest.mark.parametrize(
    ("seconds", "ms"), [(0, 0), (1e-9, 1), (0.0005, 1), (1, 1000), (1.2345, 1234), (0.0015, 2)]
)
def test_milliseconds(seconds, ms):
    """Seconds become whole ms, rounded; what is above zero stays above zero."""
    assert milliseconds("delay", seconds) == ms
