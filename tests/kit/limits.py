"""What tests of limits share: scopes, leases that do not end, and what may run now."""

from typing import Any

from dpq import DPQ, Push, Task

SCOPES = [None, "g", "*"]
"""Whose limit: the queue's, that of group g, and that of every group."""

LONG = 10**8  # seconds of a lease that does not end by itself


def payloads(q: DPQ[Any], most: int = 1000) -> list[Any]:
    """What may run now, under leases that do not end."""
    return [task.payload for task in q.pop_many(most, visibility=LONG)]


def take(q: DPQ[Any], visibility: float = LONG) -> Task[Any]:
    """A task that may run now: there must be one."""
    task = q.pop(visibility=visibility).task
    assert task is not None
    return task


def fill(q: DPQ[Any], count: int, group: str | None = "g", **more: Any) -> None:
    """Push so many equal tasks."""
    q.push_many(Push(payload=i, group=group, **more) for i in range(count))
