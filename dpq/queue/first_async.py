"""`pop_first_async`: takes the best task of the first of several queues that has one.

It waits on the markers of all queues at once, as a worker of several queues does. Nothing here
decides about tasks.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from dpq.link.watches import Watch, owned_of_queues, watches_after
from dpq.model.errors import ConfigurationError
from dpq.model.task import P
from dpq.model.validation import milliseconds
from dpq.queue.base import check_one_client
from dpq.queue.queue_async import AsyncDPQ

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.queue.life_async import Sleep


async def pop_first_async(
    queues: Iterable[AsyncDPQ[P]], timeout: float | None = 0, visibility: float | None = None
) -> tuple[AsyncDPQ[P], Task[P]] | tuple[None, None]:
    """Take the best ready task of the first queue that has one, and lease it.

    The queues are asked in the order given, so a task of the first queue always comes before one
    of the second. End the delivery at the queue that is returned: `await queue.ack(task)`.

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
    return await named[0]._shielded(
        partial(_look_or_wait, named, timeout, visibility), _give_back
    ) or (None, None)


def _checked(queues: Iterable[AsyncDPQ[P]]) -> list[AsyncDPQ[P]]:
    named = list(queues) if isinstance(queues, Iterable) else []
    if not named or not all(isinstance(queue, AsyncDPQ) for queue in named):
        raise ConfigurationError(
            f"queues is {queues!r}: it must be a list of at least one {AsyncDPQ.__name__}"
        )
    check_one_client(named, AsyncDPQ)
    return named


async def _look_or_wait(
    queues: Sequence[AsyncDPQ[P]],
    timeout: float | None,
    visibility: float | None,
    sleep: Sleep,
) -> tuple[AsyncDPQ[P], Task[P]] | None:
    """Ask queue after queue; if none has a task, wait for a marker of any with `sleep`."""
    until = math.inf if timeout is None else time.monotonic() + timeout
    by_queue: list[list[Watch]] = [[] for _ in queues]

    async def ask(waiter: str = "") -> tuple[AsyncDPQ[P], Task[P]] | Exception | None:
        for index, queue in enumerate(queues):
            before = by_queue[index]
            who = before[0].mine if before else waiter
            batch = await queue._session.run(queue._operations.pop, 1, visibility, who)
            by_queue[index] = watches_after(batch, before)
            if batch.failed and not batch.tasks:  # a validator has raised an error
                failed: Exception = batch.failed
                return failed
            for task in queue._readable(batch):
                return queue, task
        return None

    found = await ask("" if timeout == 0 else "-")
    if timeout != 0 and (found is None or owned_of_queues(by_queue)):
        markers = tuple(queue._operations.marker for queue in queues)
        async with queues[0]._waiters_on(markers).take() as waiter:
            while found is None and await sleep(waiter, list(chain(*by_queue)), until):
                found = await ask()
            await waiter.withdraw(owned_of_queues(by_queue))
    if isinstance(found, Exception):
        raise found
    return found


async def _give_back(found: tuple[AsyncDPQ[Any], Task[Any]] | None) -> None:
    if found:
        queue, task = found
        await queue.release(task)
