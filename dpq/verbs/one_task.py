"""The read-only operations for the pages of tasks: the workers that have them. No I/O."""

from collections.abc import Sequence
from typing import Any

from dpq.model.reports import LeaseInfo
from dpq.model.task import Task
from dpq.script.command import Steps
from dpq.verbs.queue import QueueOperations
from dpq.verbs.workers import lease_info


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
