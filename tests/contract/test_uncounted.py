"""Costs that a limit does not count as they are: the call that meets both warns, once."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dpq import DPQ, CostWarning, Push, RateLimit

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
