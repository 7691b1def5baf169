"""What tests of moments share: what may run then, and not one ms before."""

from typing import Any

from kit.limits import LONG, payloads, take

from dpq import DPQ, Task
from dpq.testing import Clock


def exactly_after(q: DPQ[Any], clock: Clock, seconds: float) -> list[Any]:
    """What may run in so many seconds; one ms before, nothing may. Under leases without end."""
    clock.advance(seconds - 0.001)
    early = payloads(q)
    assert early == [], f"{early} came one ms too early"
    clock.advance(0.001)
    return payloads(q)


def task_after(q: DPQ[Any], clock: Clock, seconds: float, visibility: float = 30) -> Task[Any]:
    """The task that comes in so many seconds: there must be one, and none one ms before."""
    clock.advance(seconds - 0.001)
    early = q.pop().task
    assert early is None, f"{early} came one ms too early"
    clock.advance(0.001)
    return take(q, visibility)


def first_after_429(
    q: DPQ[Any], clock: Clock, scope: str = "group", seconds: float = 10, visibility: float = LONG
) -> Task[Any]:
    """The probe after a 429, which the best task has met, and the closing by it."""
    q.rate_limited(take(q), seconds, scope)
    clock.advance(seconds)
    return take(q, visibility)
