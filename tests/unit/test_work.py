"""What both workers decide, without a server: handlers, order of queues, ends, bounds."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import fakeredis
import pytest
from kit.scripted import a_task

from dpq import DPQ, AsyncDPQ, AsyncWorker, Backoff, ConfigurationError, Reject, Tasks, Worker
from dpq.queue import lease_renewal
from dpq.worker.handlers import finder
from dpq.worker.run_state import AskOrder, RunState
from dpq.worker.telling import Telling


@pytest.fixture
def q() -> DPQ[Any]:
    return DPQ(fakeredis.FakeRedis(), "emails", backoff=Backoff(base=2, jitter=0))


@pytest.fixture
def aq() -> AsyncDPQ[Any]:
    return AsyncDPQ(fakeredis.FakeAsyncRedis(), "emails")


# Handlers


class Handling:
    def method(self, task: Any) -> None: ...

    def both(self, task: Any, context: Any) -> None: ...

    def __call__(self, task: Any, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_context"),
    [
        (lambda task: None, False),
        (lambda task, context: None, True),
        (lambda task, retries=3: None, False),
        (lambda task, context, retries=3: None, True),
        (lambda *args: None, False),
        (lambda task, *, verbose=True: None, False),
        (Handling().method, False),
        (Handling().both, True),
        (Handling(), True),
        (print, False),
        (repr, False),
    ],
)
def test_a_handler_takes_the_context_if_it_must(
    function: Callable[..., Any], takes_context: bool
) -> None:
    """A handler gets the context when it cannot be called without."""
    handler = finder(function)(a_task())
    assert (handler.call, handler.takes_context) == (function, takes_context)


@pytest.mark.parametrize(
    "function",
    [
        None,
        "handler",
        lambda: None,
        lambda task, context, more: None,
        lambda task, *, more: None,
        lambda **options: None,
    ],
)
def test_what_cannot_handle_is_refused(function: Any) -> None:
    """What no task could be given to is refused before the first one comes."""
    for handlers in (function, {"a": function}):
        with pytest.raises(ConfigurationError, match="handler"):
            finder(handlers)


@pytest.mark.parametrize("payload", [{"task": "b"}, {"task": ["a"]}, {"task": None}, {}, "a", None])
def test_a_payload_that_names_no_handler_is_rejected(payload: Any) -> None:
    """Whatever stands in `payload["task"]`: without a handler of that name it is a `Reject`."""
    with pytest.raises(Reject, match="unknown task"):
        finder({"a": print})(a_task(payload))


async def handle_async(task: Any) -> None: ...


class HandlingAsync:
    async def __call__(self, task: Any) -> None: ...


def of_async_functions() -> list[Any]:
    tasks = Tasks()
    tasks.task("plain")(print_it)
    tasks.task("fetch")(handle_async)
    return [handle_async, {"a": print, "b": handle_async}, HandlingAsync(), tasks]


def print_it(text: str) -> None: ...


@pytest.mark.parametrize("kind", range(4))
def test_threads_refuse_coroutine_functions(q: DPQ[Any], aq: AsyncDPQ[Any], kind: int) -> None:
    """`Worker` says at its construction that it needs plain functions, and who takes others."""
    handlers = of_async_functions()[kind]
    with pytest.raises(ConfigurationError, match=r"coroutine function.* AsyncWorker"):
        Worker(q, handlers)
    AsyncWorker(aq, handlers)


# The order of queues


def firsts(weights: list[int], count: int, *, strict: bool = False) -> list[int]:
    queues = AskOrder(dict(enumerate(weights)), strict=strict)
    seen = []
    for _ in range(count):
        seen.append(queues.queues()[0])
        queues.charge(seen[-1], 1)
    return seen


def test_the_order_of_queues() -> None:
    """Strict order never changes; the others give each queue its share, evenly spread."""
    assert firsts([1, 1, 1], 4, strict=True) == [0, 0, 0, 0]
    assert firsts([1, 1, 1], 6) == [0, 1, 2, 0, 1, 2]
    assert firsts([5, 1, 1], 7) == [0, 0, 0, 1, 2, 0, 0]
    shares = [7, 3, 2]
    seen = firsts(shares, 1200)
    assert Counter(seen) == {0: 700, 1: 300, 2: 200}
    for start in range(0, 1188, 12):
        assert Counter(seen[start : start + 12]) == {0: 7, 1: 3, 2: 2}


# The constructor


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 10_001}, "concurrency"),
        ({"concurrency": 1.0}, "concurrency"),
        ({"prefetch": -1}, "prefetch"),
        ({"prefetch": 1001}, "prefetch"),
        ({"order": "best"}, "order"),
        ({"visibility": 0}, "visibility"),
        ({"time_limit": 0}, "time_limit"),
        ({"time_limit": float("nan")}, "time_limit"),
        ({"backoff": [1, 5]}, r"backoff is \[1, 5\].* to the queue"),
        ({"backoff": asyncio.sleep}, "no coroutine"),
        ({"grace": -1}, "grace"),
        ({"grace": None}, "grace"),
    ],
)
def test_options_have_bounds(
    q: DPQ[Any], aq: AsyncDPQ[Any], wrong: dict[str, Any], named: str
) -> None:
    """An option that is out of its bounds is named, by both workers."""
    with pytest.raises(ConfigurationError, match=named):
        Worker(q, print, **wrong)
    with pytest.raises(ConfigurationError, match=named):
        AsyncWorker(aq, print, **wrong)


def test_workers_that_begin_together_do_not_beat_together() -> None:
    """Their second heartbeats are spread over half a period, later ones drift apart, and none is
    late: a tenth before the period at most."""
    chances = [random.Random(seed).random for seed in range(100)]
    parts: Any = (RunState(), None, None)
    workers = [Telling(*parts, chance) for chance in chances]
    first = sorted(each.pause(10) for each in workers)
    assert 5 <= first[0] < 5.5
    assert 9.5 < first[-1] <= 10
    assert max(b - a for a, b in pairwise(first)) < 0.5
    later = [each.pause(10) for each in workers]
    assert (9 <= min(later) < 9.1, 9.9 < max(later) <= 10) == (True, True)


def test_extensions_are_spread_before_a_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that began together are extended at moments of their own: at 0.3 of their time at the
    earliest, and never after the third."""
    monkeypatch.setattr(lease_renewal, "chance", random.Random(1).random)
    dues = [lease_renewal.Lease(a_task(), 30, now=100).due for _ in range(100)]
    assert (109 <= min(dues) < 109.1, 109.9 < max(dues) <= 110) == (True, True)
