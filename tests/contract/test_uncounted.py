"""Units that are likely to be misspelt, which no limit would count: the call warns, once."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpq import DPQ, CostWarning, Push


@contextmanager
def told() -> Iterator[list[str]]:
    """The warnings of the calls in it; each names this file as its place."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield texts
    assert {each.category for each in caught} <= {CostWarning}
    assert {each.filename for each in caught} <= {__file__}
    texts += [str(each.message) for each in caught]


def test_a_push_with_a_misspelt_unit(q: DPQ[Any]) -> None:
    """It names the usual unit, once for each line of a program; the task runs."""
    with told() as texts:
        q.push_many(Push(n, cost={"tokns": 5}) for n in range(700))
        q.push(1, cost={"requests": 5})
    assert texts == [
        "a cost in 'tokns' counts only in a limit of 'tokns'; did you mean 'tokens'?",
        "a cost in 'requests' counts only in a limit of 'requests'; without a unit, costs and "
        "limits count requests",
    ]
    assert q.size() == 701


def test_set_limit_of_a_misspelt_unit(q: DPQ[Any]) -> None:
    """It is like one that hosts name."""
    with told() as texts:
        q.set_limit("token=6000/m", group="g")
    assert texts == ["a cost in 'token' counts only in a limit of 'token'; did you mean 'tokens'?"]
