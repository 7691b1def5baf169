"""The read-only operations for the pages of tasks: their trails, and the workers that have them.

No I/O.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq.model.history import Event
from dpq.model.reports import LeaseInfo
from dpq.model.task import DeadTask, Task
from dpq.operations.browse import LOOK
from dpq.operations.queue import QueueOperations
from dpq.operations.workers import lease_info
from dpq.protocol.command import Steps
from dpq.protocol.remembered import read_events

TRAIL_LOOK = 100_000
"""Events of a trail that are looked at for one task at most: half a second of server time, in a
hundred steps."""

LATE_MS = 1000
"""ms by which an entry of the stream may be later than the moment that it names."""


class Trail(NamedTuple):
    """The events of one task.

    Attributes:
        events: The events, the oldest first.
        looked: Events of the queue's trail that were looked at; 0 if the queue keeps no trail.
        whole: False if older events of the trail were not looked at.
    """

    events: list[Event]
    looked: int
    whole: bool


def task_trail(
    queue: QueueOperations[Any],
    id_: str,
    task: Task[Any] | None = None,
    look: int = TRAIL_LOOK,
) -> Steps[Trail]:
    """Read the trail of a task, from its newest event back, among up to `look` events.

    Args:
        queue: The queue.
        id_: The id of the task.
        task: The task, if it is known: nothing is older than its push, or newer than its death.
        look: Events of the trail to look at.
    """
    found: list[Event] = []
    looked, before, whole = 0, "", False
    since_ms = task.enqueued_at.timestamp() * 1000 if task else 0.0
    if isinstance(task, DeadTask) and queue.description.clock is None:
        before = f"{round(task.died_at.timestamp() * 1000) + LATE_MS}-0"
    while not whole and looked < look:
        count, oldest, at, *page = yield from queue.task_trail(id_, before, LOOK)
        found += read_events(page)
        looked, before = looked + count, oldest.decode()
        pushed = bool(found) and found[-1].kind == "pushed"
        whole = not before or pushed or (at.isdigit() and int(at) < since_ms)
    return Trail(found[::-1], looked, whole)


def holder(queue: QueueOperations[Any], task: Task[Any], now_ms: float) -> Steps[LeaseInfo]:
    """Read which worker has a running task, by the heartbeats of the queue's workers."""
    told = yield from queue.told(str(task.token))
    return lease_info(queue.queue_name, task, now_ms, told)


def holders(
    queue: QueueOperations[Any], tasks: Sequence[Task[Any]], now_ms: float
) -> Steps[list[LeaseInfo]]:
    """Read which worker has each of some running tasks."""
    told = yield from queue.told()
    return [lease_info(queue.queue_name, task, now_ms, told) for task in tasks]
