"""Every public argument with anything in it: a clear error, or a call that works."""

import contextlib
import math
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import pytest
from fuzz_settings import examples
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.exceptions import RedisError
from typer.testing import CliRunner

from dpq import (
    DPQ,
    Adaptive,
    Backoff,
    DPQError,
    PayloadError,
    Push,
    RateLimit,
    RateLimited,
    Reserve,
    Retry,
    Scheduler,
    Worker,
)
from dpq.cli import app
from dpq.link.connect import open_url
from dpq.queue.base import QueueSettings
from dpq.server import Server

ALLOWED = (DPQError, RedisError)

NAME = "fuzz"

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**400]),
    st.floats(),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0]),
    st.text(max_size=20),
    st.text(alphabet=st.characters(categories=["Cs", "Cc", "Lu"]), max_size=5),
    st.sampled_from(["", "*", "\t", "a\tb", "{}", "é" * 101, "x" * 201, "\ud800", "keep", "rerun"]),
    st.binary(max_size=9),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.builds(object),
    st.just(int),
)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def some(names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these keyword arguments, with anything in them."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names.split(), anything))


PUSHES = " ".join(["timeout", *Push._fields[1:]])

TASK = st.just("TASK")


def call(names: str, *plain: Any, named: str = "") -> st.SearchStrategy[Any]:
    """One of these methods, its positional arguments, and some of its keyword arguments."""
    return st.tuples(st.sampled_from(names.split()), st.tuples(*plain), some(named))


calls = st.one_of(
    call("push", json_like | anything, named=PUSHES),
    call("pop", named="visibility"),
    call("pop_many", anything, named="visibility"),
    call("extend set_visibility release fail bury", TASK | anything, anything),
    call("rate_limited", TASK, anything, named="scope"),
    call("release", TASK, named="delay priority"),
    call("fail", TASK, named="error delay"),
    call("ack get peek cancel", anything),
    call("pause admin.group why clear_limit purge", anything),
    call("peek delay_group", anything, anything),
    call("update", st.just("ID") | anything, named="priority delay"),
    call("set_limit", named="rate per burst group concurrency adaptive reserve"),
)
"""A wait is never long."""


@pytest.fixture(scope="module")
def redis(first_server: Server) -> Iterator[Redis]:
    with Redis.from_url(first_server.url) as client:
        yield client
        client.flushall()


def goes_on(redis: Redis) -> None:
    """A queue that anything was said to is whole, and hands out what is pushed."""
    q: DPQ[Any] = DPQ(redis, NAME)
    assert q.check() == []
    q.resume()
    for state in (None, "*", *(limit.group for limit in q.admin.limits() if limit.group)):
        q.clear_limit(state)
    q.purge()
    q.push("after")
    assert q.pop().task.payload == "after"
    q.admin.drop()


@examples(30)
@given(st.lists(calls, min_size=1, max_size=6))
def test_any_call(redis, made):
    """Any arguments to any method: a DPQError, or the call works; and the queue goes on."""
    q: DPQ[Any] = DPQ(redis, NAME)
    q.push_many([Push(n, group="g") for n in range(3)])
    task = q.pop().task
    known = {"TASK": task, "ID": task.id}
    for name, arguments, named in made:
        plain = [known.get(a, a) if isinstance(a, str) else a for a in arguments]
        with contextlib.suppress(*ALLOWED):
            attrgetter(name)(q)(*plain, **named)
    goes_on(redis)


@examples(40)
@given(anything, some(" ".join(QueueSettings.__annotations__)))
def test_any_queue(redis, name, settings):
    """Any arguments to the constructor: a DPQError, or a queue that works."""
    with contextlib.suppress(*ALLOWED):
        q: DPQ[Any] = DPQ(redis, name, **settings)
        try:
            q.push(1)
        except PayloadError:  # it does not fit `payload_type`, or is longer than it may be
            assert {"payload_type", "max_payload_bytes"} & settings.keys()
        else:
            task = q.pop().task
            assert task
            assert task.payload == 1
            assert q.ack(task) is True
        q.admin.drop()


@examples(40)
@given(st.lists(anything, min_size=3, max_size=3))
def test_any_value(redis, values):
    """The small values, signals, workers and URLs refuse what they cannot take with a DPQError."""
    q: DPQ[Any] = DPQ(redis, NAME)
    first, second, third = values
    for make in (
        lambda: RateLimit(first, second, third),
        lambda: Reserve(first, second),
        lambda: Adaptive(first, second, third),
        lambda: Backoff(first, second),
        lambda: RateLimited(first, second),
        lambda: Retry(first),
        lambda: Scheduler(redis, [first]),
        lambda: Worker(first, lambda task: None),
        lambda: Worker(q, lambda task: None, concurrency=first, prefetch=second, order=third),
        lambda: Worker(q, lambda task: None, visibility=first, time_limit=second, grace=third),
        lambda: open_url(first) if "embedded" not in str(first) else None,
    ):
        with contextlib.suppress(*ALLOWED):
            make()


SPOKEN = (
    "push pop task admin ack fail release rate-limited bury extend peek get why stats queues "
    "update cancel pause resume bulk limit group dead set list clear undo close open replay "
    "doctor {} [] null "
    "--priority --delay --group --key --json -n --state --cost 10/s 5/m 1 -1 1e9 nan inf "
    "--visibility --reason --rate --per --burst --help --yes"
)
words = st.lists(
    st.one_of(
        st.sampled_from(SPOKEN.split()),
        st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8),
    ),
    max_size=6,
)


@examples(15)
@given(words, st.binary(max_size=60))
def test_any_command_line(first_server, redis, line, stdin):
    """Any words after `dpq`, with any input: it ends with 0, 1 or 2, and without a traceback."""
    if {"--wait", "--watch", "scheduler", "metrics", "web", "--url"} & set(line):
        return
    where = ["--url", first_server.url, "--queue", NAME]
    result = CliRunner().invoke(app, [*where, *line], input=stdin)
    assert result.exit_code in (0, 1, 2), (line, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), line
    assert "Traceback" not in result.stderr
