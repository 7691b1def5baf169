"""Costs that a limit does not count as they are: the call that meets both warns, once."""

import asyncio
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kit.awaited import asyncio_queue
from kit.limits import payloads
from redis import Redis

from dpq import DPQ, Budget, CostWarning, Push, Quota, RateLimit

TOKENS = RateLimit(100, 60, 20, unit="tokens")
"""A window that grants 119 at most."""


@contextmanager
def told() -> Iterator[list[str]]:
    """The warnings of the calls in it; each names this file as its place."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    assert {each.category for each in caught} <= {CostWarning}
    assert {each.filename for each in caught} <= {__file__}
    texts += [str(each.message) for each in caught]


def calls_of(q: DPQ[Any]) -> list[str]:
    """The scripts that a queue calls from now on."""
    called: list[str] = []
    original = q._session.connections.call_all

    def call_all(commands: Any) -> Any:
        called.extend(command.script.name for command in commands)
        return original(commands)

    q._session.connections.call_all = call_all  # type: ignore[method-assign]
    return called


def test_a_push_above_a_window(q: DPQ[Any]) -> None:
    """It names the cost and the bound, in the same call; the task runs, and is told of once."""
    q.set_limit([RateLimit(10, 1), TOKENS], group="g")
    q.push("the queue is there")
    called = calls_of(q)
    with told() as texts:
        q.push("large", group="g", cost={"tokens": 5000})
        q.push("again", group="g", cost={"tokens": 6000})
    assert texts == [
        "a cost of 5000 tokens is more than the limit of group 'g' ever grants, 119: no more than "
        "119 are charged, and it runs. Split the task, or set a larger limit"
    ]
    assert called == ["push", "push"]


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        (RateLimit(7, 60), 7),
        (RateLimit(2.5, 60, 3), 5),
        (Quota(7, "day"), 7),
        (RateLimit(7, 60, moving=True), 7),
    ],
)
@pytest.mark.parametrize("scope", [None, "*", "g"])
def test_the_bound_itself_is_no_news(
    q: DPQ[Any], scope: str | None, limit: RateLimit | Quota, most: int
) -> None:
    """One unit more is, of each kind of limit, whoever it holds for."""
    q.set_limit([limit], group=scope)
    with told() as texts:
        q.push(1, group="g", cost=most)
    assert texts == []
    with told() as texts:
        q.push(1, group="g", cost=most + 1)
    assert len(texts) == 1
    assert f"a cost of {most + 1} requests is more than" in texts[0]
    assert f" {most}: " in texts[0]


def test_a_push_with_a_misspelt_unit(q: DPQ[Any]) -> None:
    """The nearest unit is named; and none if the limit counts nothing but requests."""
    q.set_limit([TOKENS], group="g")
    q.set_limit(10, 1, group="h")
    with told() as texts:
        q.push_many(Push(n, group="g", cost={"tokns": 5}) for n in range(700))
        q.push(1, group="h", cost={"tokns": 5})
        q.push(1, cost={"tokns": 5})
        q.push(1, group="g", cost={"tokens": 5, "usd": 3})
    assert texts == [
        "no limit that holds for group 'g' counts 'tokns', so that cost limits nothing; did you "
        "mean 'tokens'?"
    ]


def test_the_limit_of_the_queue_counts_too(q: DPQ[Any]) -> None:
    """A unit that it counts is not misspelt for a group."""
    q.set_limit([TOKENS])
    q.set_limit([RateLimit(9, 1, unit="usd")], group="g")
    with told() as texts:
        q.push(1, group="g", cost={"tokens": 5})
        q.push(1, group="g", cost={"words": 5})
    assert texts == [
        "no limit that holds for group 'g' counts 'words', so that cost limits nothing: its limit "
        "counts 'tokens', 'usd'"
    ]


def test_a_pool_and_a_learned_rate(q: DPQ[Any]) -> None:
    """Each member's bound; the highest rate that may be learned."""
    from dpq import Adaptive

    q.set_limit(5, 1, group="p", members=["a", "b"])
    q.set_limit(5, 1, group="l", adaptive=Adaptive(1, 50))
    with told() as texts:
        q.push(1, group="p", cost=5)
        q.push(1, group="l", cost=50)
    assert texts == []
    with told() as texts:
        q.push(1, group="p", cost=6)
    assert len(texts) == 1


def test_the_server_looks_at_larger_costs_only(q: DPQ[Any]) -> None:
    """A producer asks about a cost that is larger than those before, of its group and unit."""
    asked: list[bool] = []
    original = q._session.connections.call_all

    def call_all(commands: Any) -> Any:
        pushes = (command for command in commands if command.script.name == "push")
        asked.extend(command.args[-1] == "?" for command in pushes)
        return original(commands)

    q.set_limit([RateLimit(10, 1, 10), TOKENS], group="g")
    q.push("the queue is there")
    q._session.connections.call_all = call_all  # type: ignore[method-assign]
    for cost in (3, 3, 2, 4, {"tokens": 7}, {"tokens": 7}, {"": 4, "tokens": 7}, {"tokens": 8}):
        q.push(1, group="g", cost=cost)
    q.push(1, group="h", cost=2)
    assert asked == [True, False, False, True, True, False, False, True, True]


@pytest.mark.parametrize("cost", [{"tokens": 5000}, {"tokns": 5}, 800])
def test_acquire(q: DPQ[Any], cost: Any) -> None:
    """The grant tells it, at no further call."""
    q.set_limit([RateLimit(1, 60, 100), RateLimit(1, 60, 100, unit="tokens")], group="g")
    q.push("the queue is there")
    called = calls_of(q)
    with told() as texts, q.acquire("g", cost=cost, timeout=0):
        assert called == ["acquire"]
    assert len(texts) == 1


def test_set_limit_looks_at_what_waits(q: DPQ[Any]) -> None:
    """Tasks that were pushed before the limit came; of the queue as well."""
    q.push(1, group="g", cost={"tokens": 5000})
    q.push(2, group="g", cost={"tokns": 5})
    q.push(3, cost=20)
    with told() as texts:
        q.set_limit([TOKENS], group="g")
    assert len(texts) == 2
    with told() as texts:
        q.set_limit(10, 1)
    assert len(texts) == 1
    assert f"the limit of queue {q.queue_name!r} ever grants, 10" in texts[0]


def test_set_limit_of_a_misspelt_unit(q: DPQ[Any]) -> None:
    """It is like one that hosts name; other units are the caller's own words."""
    with told() as texts:
        q.set_limit("token=6000/m", group="g")
        q.set_limit("requests=10/s", group="g")
        q.set_limit([RateLimit(10, 1, unit="usd"), RateLimit(9, 1, unit="cached_tokens")])
        q.set_limit([TOKENS, RateLimit(9, 1, unit="input_tokens")])
    assert texts == [
        "a limit of 'token' counts only tasks with a cost in 'token'; did you mean 'tokens'?",
        "a limit of 'requests' counts only tasks with a cost in 'requests'; requests are what a "
        "limit without a unit counts",
    ]


def test_a_budget_of_the_host_may_count_a_unit(q: DPQ[Any]) -> None:
    """Where a limit counts requests alone, a cost in tokens is no mistake."""
    q.set_limit(10, 1, group="g")
    headers = {"x-ratelimit-remaining-tokens": "100", "x-ratelimit-reset-tokens": "60"}
    assert q.observe("g", headers=headers) == [Budget("tokens", 100, 60)]
    with told() as texts:
        q.push(1, group="g", cost={"tokens": 5})
    assert texts == []
    assert payloads(q) == [1]


async def test_the_asyncio_face(redis: Redis, queue_name: str) -> None:
    """The same of AsyncDPQ, at the caller's line."""
    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit([TOKENS], group="g")
        with told() as texts:
            await q.push(1, group="g", cost={"tokens": 5000})
            async with q.acquire("g", cost={"tokns": 5}, timeout=0):
                await asyncio.sleep(0)
        assert len(texts) == 2
