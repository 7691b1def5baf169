"""Bad input to the public calls: a clear error that names value and bound, and nothing is sent."""

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import pytest
from fakeredis import FakeRedis
from kit.scripted import a_task
from redis.asyncio import Redis as AsyncRedis

from dpq import DPQ, ConfigurationError, Push, TaskState
from dpq.model.task import task_state
from dpq.model.validation import label, milliseconds, one_line, whole_number


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
BAD_WAIT = [-0.001, 315_360_001, math.inf, *NOT_NUMBERS]
BAD_DURATION = [0, *BAD_WAIT]
BAD_PRIORITY = [2**63, -(2**63) - 1, math.inf, *NOT_NUMBERS]
NO_WAIT, NO_DURATION, NO_PRIORITY = ([*bad, None] for bad in (BAD_WAIT, BAD_DURATION, BAD_PRIORITY))
"""Where None is refused too; elsewhere it stands for a default."""

NO_LABEL = ["", 5, "x" * 201, "é" * 101, "a\tb", "a\nb", "\0", "\x7f", "\x85", "\ud800", b"g"]
NO_ID = ["", None, 5, "é", "x" * 201, b"id"]
TEN_YEARS = r"to 315360000 \(10 years\)"

Call = Callable[[DPQ, Any], Any]
CASES: list[tuple[str, str, Call, list[Any]]] = [
    ("push priority", "from -2", lambda q, v: q.push(1, v), NO_PRIORITY),
    ("push delay", f"delay .* from 0 {TEN_YEARS}", lambda q, v: q.push(1, 0, v), NO_WAIT),
    ("push group", "group is", lambda q, v: q.push(1, group=v), NO_LABEL),
    ("push key", "key is", lambda q, v: q.push(1, key=v), NO_LABEL),
    (
        "push on_duplicate",
        "on_duplicate .* one of keep, update, raise_priority, rerun, error",
        lambda q, v: q.push(1, on_duplicate=v),
        ["", "k", None, 1],
    ),
    (
        "push max_attempts",
        "max_attempts .* from 1 to 1000000",
        lambda q, v: q.push(1, max_attempts=v),
        [0, -1, 1_000_001, 1.0, True, "3"],
    ),
    (
        "push expires_in",
        f"expires_in .* from 0.001 {TEN_YEARS}",
        lambda q, v: q.push(1, expires_in=v),
        BAD_DURATION,
    ),
    (
        "push_many priority",
        "priority is",
        lambda q, v: q.push_many([Push(payload=1), Push(payload=1, priority=v)]),
        NO_PRIORITY,
    ),
    ("pop timeout", f"timeout .* from 0 {TEN_YEARS}", lambda q, v: q.pop(v), BAD_WAIT),
    ("pop visibility", "visibility .* from 0.001", lambda q, v: q.pop(0, v), BAD_DURATION),
    (
        "pop_many max_tasks",
        "max_tasks .* from 1 to 1000",
        lambda q, v: q.pop_many(v),
        [0, -1, 1001, 1.0, True, None, "1"],
    ),
    ("extend", "seconds .* 0.001", lambda q, v: q.extend(TASK, v), NO_DURATION),
    ("set_visibility", "seconds .* 0", lambda q, v: q.set_visibility(TASK, v), NO_WAIT),
    ("release delay", "delay .* from 0", lambda q, v: q.release(TASK, v), NO_WAIT),
    ("release priority", "priority is", lambda q, v: q.release(TASK, priority=v), BAD_PRIORITY),
    ("fail delay", "delay .* from 0", lambda q, v: q.fail(TASK, None, v), BAD_WAIT),
    ("get", "id is", lambda q, v: q.get(v), NO_ID),
    ("cancel", "id is", lambda q, v: q.cancel(v), NO_ID),
    ("update id", "id is", lambda q, v: q.update(v, priority=1), NO_ID),
    ("update priority", "priority is", lambda q, v: q.update("id", priority=v), BAD_PRIORITY),
    ("update delay", "delay is", lambda q, v: q.update("id", delay=v), BAD_WAIT),
    ("peek n", "n is .* from 0 to", lambda q, v: q.peek(v), [-1, 1.0, True, None, 10**9 + 1]),
    (
        "peek state",
        "one of ready, delayed, invisible, waiting, dead",
        lambda q, v: q.peek(state=v),
        ["", "READY", None, 1],
    ),
    ("purge state", "state is", lambda q, v: q.purge(v), ["", "all", 1]),
    ("pause", "seconds .* from 0.001", lambda q, v: q.pause(v), BAD_DURATION),
    ("delay_group group", "group is", lambda q, v: q.delay_group(v, 1), [*NO_LABEL, None]),
    ("delay_group", "seconds .* from 0", lambda q, v: q.delay_group("g", v), BAD_WAIT),
    (
        "delay_group member",
        "member is",
        lambda q, v: q.delay_group("g", 1, member=v),
        [*NO_LABEL, "x" * 101, "~a"],
    ),
    (
        "push member",
        "member is",
        lambda q, v: q.push(1, group="g", member=v),
        [*NO_LABEL, "é" * 51],
    ),
    (
        "members",
        "members is .*: it must be a list of names",
        lambda q, v: q.set_limit(1, 1, group="g", members=v),
        ["ab", b"ab", 5, {"a"}],
    ),
    (
        "a member",
        "member is",
        lambda q, v: q.set_limit(1, 1, group="g", members=["a", v]),
        [*NO_LABEL, "x" * 101, "~a"],
    ),
    ("dead.list n", "n is", lambda q, v: q.dead.list(v), [-1, True, None]),
    ("dead.replay ids", "id is", lambda q, v: q.dead.replay([v]), NO_ID),
    ("dead.purge ids", "id is", lambda q, v: q.dead.purge(["id", v]), NO_ID),
    (
        "dead.replay rate",
        "rate .* from 0.001 to 1000000",
        lambda q, v: q.dead.replay(rate=v),
        [0, -1, 0.0009, 10**6 + 1, math.nan, math.inf, True, "1"],
    ),
]


@pytest.mark.parametrize(
    ("bound", "call", "bad"),
    [
        pytest.param(bound, call, bad, id=f"{name}={ascii(bad)[:20]}")
        for name, bound, call, values in CASES
        for bad in values
    ],
)
def test_bad_argument(q, bound, call, bad):
    """A bad argument is refused with its value and its bound before anything is sent."""
    with pytest.raises(ConfigurationError, match=bound) as caught:
        call(q, bad)
    shown = repr(bad)
    assert shown in str(caught.value) or shown[:40] in str(caught.value)


def test_update_of_nothing(q):
    """An update without a change is refused."""
    with pytest.raises(ConfigurationError, match="give priority, delay or cost"):
        q.update("id")


SETTINGS: list[tuple[str, str, list[Any]]] = [
    ("queue_name", "queue_name is", [*NO_LABEL, None, "a{b", "a}b"]),
    ("default_visibility", f"from 0.001 {TEN_YEARS}", NO_DURATION),
    ("default_max_attempts", "from 1 to 1000000", [0, 1_000_001, 1.0, True, None]),
    ("order", "'fifo' or 'lifo'", ["", "random", 1]),
    ("aging", "from 0 to 1000000", [-0.1, 10**6 + 1, math.inf, math.nan, True, "1"]),
    ("backoff", "must be a Backoff", [None, 5]),
    ("max_payload_bytes", "from 1 to 67108864", [0, 2**26 + 1, 1.0, True, None]),
    ("dead_max_tasks", "from 0 to 1000000000", [-1, 10**9 + 1, 1.0, True]),
    ("dead_max_age", "dead_max_age .* from 0.001", [0, -1, math.inf, math.nan, True]),
]


@pytest.mark.parametrize(
    ("name", "bound", "bad"),
    [
        pytest.param(name, bound, bad, id=f"{name}={ascii(bad)[:20]}")
        for name, bound, values in SETTINGS
        for bad in values
    ],
)
def test_bad_setting(name, bound, bad):
    """A bad setting is refused when the queue is built, with name, value and bound."""
    with pytest.raises(ConfigurationError, match=bound) as caught:
        DPQ(Nowhere(), **({"queue_name": "name"} | {name: bad}))
    assert name in str(caught.value)
    assert repr(bad)[:40] in str(caught.value)


@pytest.mark.parametrize("bad", [None, "redis://localhost", object()])
def test_no_client(bad):
    """What is not a client is refused with a hint at from_url."""
    with pytest.raises(ConfigurationError, match="from_url"):
        DPQ(bad, "name")


def test_asyncio_client():
    """A client of the other kind is refused by its name."""
    with pytest.raises(ConfigurationError, match=r"redis\.asyncio.*blocking"):
        DPQ(AsyncRedis(), "name")


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


def test_bounds_are_allowed():
    """The bounds themselves are allowed."""
    assert milliseconds("x", 315_360_000) == 315_360_000_000
    assert milliseconds("x", 0.001, least=0.001) == 1
    assert [whole_number("x", value, 1, 3) for value in (1, 3)] == [1, 3]


class Size(IntEnum):
    """A whole number that is no plain int."""

    TWO = 2


def test_whole_numbers_of_any_type():
    """An IntEnum is taken wherever an int is, as the int it stands for; a bool is not."""
    q = DPQ(FakeRedis(), "q", default_max_attempts=Size.TWO, dead_max_tasks=Size.TWO)
    ids = [q.push(n, cost=Size.TWO, max_attempts=Size.TWO) for n in range(3)]
    assert len(q.peek(Size.TWO)) == 2
    q.update(ids[0], cost=Size.TWO)
    tasks = q.pop_many(Size.TWO)
    assert [(task.cost, task.max_attempts) for task in tasks] == [(2, 2)] * 2
    assert type(whole_number("x", Size.TWO, 1, 3)) is int
    with pytest.raises(ConfigurationError, match="cost is True"):
        q.push(1, cost=True)


@pytest.mark.parametrize("state", [*TaskState, "ready", "dead"])
def test_task_state(state):
    """A state may be given by its name."""
    assert task_state(state) is TaskState(state)


def test_one_line():
    """A text that is kept with a task has no control characters and at most 1000 characters."""
    assert one_line("a\tb\r\nc\x00d\x85e") == "a b  c d e"
    assert one_line(ValueError("x")) == "x"
    assert one_line("é☃" * 1000) == "é☃" * 500
    assert one_line("\ud800") == "?"


def test_read_only_attributes():
    """The arguments of a queue can be read and not be written."""
    q = DPQ(Nowhere(), "name", default_visibility=5, default_max_attempts=3, payload_type=int)
    assert (q.queue_name, q.default_visibility, q.default_max_attempts) == ("name", 5, 3)
    assert (q.order, q.aging, q.dead_max_tasks, q.payload_type) == ("fifo", 0, 100_000, int)
    assert (q.dead_max_age, q.max_payload_bytes) == (90 * 86_400, 2**20)
    assert repr(q) == "DPQ('name')"
    assert bool(q) is True
    with pytest.raises(AttributeError):
        q.queue_name = "other"  # type: ignore[misc]
