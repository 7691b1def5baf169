# Made from first_async.py by `make twins`: change that file, not this one.
"""`pop_first`: takes the best task of the first of several queues that has one.

It waits on the markers of all queues at once, as a worker of several queues does. Nothing here
decides about tasks.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from dpq.model.errors import ConfigurationError
from dpq.model.task import P
from dpq.model.validation import milliseconds
from dpq.queue.base import check_one_client
from dpq.queue.queue import DPQ, look_or_wait

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.script.replies import Batch


def pop_first(
    queues: Iterable[DPQ[P]], timeout: float | None = 0, visibility: float | None = None
) -> tuple[DPQ[P], Task[P]] | tuple[None, None]:
    """Take the best ready task of the first queue that has one, and lease it.

    The queues are asked in the order given, so a task of the first queue always comes before one
    of the second. End the delivery at the queue that is returned: `queue.ack(task)`.

    Args:
        queues: Queues with one client. A call waits on one connection for all of them (in a
            cluster: one for each slot).
        timeout: Seconds to wait for a task of any of them, on the server and without polling; 0
            does not wait, None waits for ever.
        visibility: Seconds of the lease, from 0.001; None takes the default of the task's queue.

    Returns:
        The queue and its task, or twice None. A call never leases two tasks. If a waiting caller
        dies, that costs a wake-up at most, never a lease.

    Raises:
        ConfigurationError: An argument is wrong, or the queues have different clients.
        Exception: As `pop`.
    """
    named = _checked(queues)
    if timeout is not None:
        milliseconds("timeout", timeout)
    look = partial(look_or_wait, named, 1, timeout, visibility)
    if found := named[0]._shielded(look, _give_back):
        queue, batch = found
        for task in queue._readable(batch):
            return queue, task
    return None, None


def _checked(queues: Iterable[DPQ[P]]) -> list[DPQ[P]]:
    named = list(queues) if isinstance(queues, Iterable) else []
    if not named or not all(isinstance(queue, DPQ) for queue in named):
        raise ConfigurationError(
            f"queues is {queues!r}: it must be a list of at least one {DPQ.__name__}"
        )
    check_one_client(named, DPQ)
    return named


def _give_back(found: tuple[DPQ[Any], Batch[Any]] | None) -> None:
    if found:
        queue, batch = found
        for task in batch.tasks:
            queue.release(task)
