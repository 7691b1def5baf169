"""`pop_first_async`: takes the best task of the first of several queues that has one.

It waits on the markers of all queues at once, as a worker of several queues does. Nothing here
decides about tasks.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from dpq.link.watches import (
    Marker,
    Watch,
    owned_of_queues,
    watches_after,
)
from dpq.model.errors import ConfigurationError
from dpq.model.task import P
from dpq.model.validation import milliseconds
from dpq.queue.base import check_one_client
from dpq.queue.queue_async import AsyncDPQ

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.queue.life_async import Sleep

__all__ = ["pop_first_async"]


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
    round_ = _Round(queues, visibility)
    await round_.ask("" if timeout == 0 else "-")
    if timeout != 0 and (not round_.over or round_.owed):
        async with queues[0]._waiters_on(round_.markers).take() as waiter:
            while not round_.over and await sleep(waiter, round_.watches, until):
                await round_.ask()
            await waiter.withdraw(round_.owed)
    return round_.result()


class _Round(Generic[P]):
    """Asks queues in their order, and keeps the watches of those that had no task."""

    def __init__(self, queues: Sequence[AsyncDPQ[P]], visibility: float | None) -> None:
        self._queues = queues
        self._visibility = visibility
        self._by_queue: list[list[Watch]] = [[] for _ in queues]
        self._found: tuple[AsyncDPQ[P], Task[P]] | None = None
        self._failed: Exception | None = None

    async def ask(self, waiter: str = "") -> None:
        """Pop from queue after queue, until one has a task; `waiter` is for the first round."""
        for index, queue in enumerate(self._queues):
            before = self._by_queue[index]
            who = before[0].mine if before else waiter
            batch = await queue._session.run(queue._operations.pop, 1, self._visibility, who)
            self._by_queue[index] = watches_after(batch, before)
            self._failed = batch.failed if not batch.tasks else None
            if not self._failed:
                self._found = next(((queue, task) for task in queue._readable(batch)), None)
            if self.over:
                return

    @property
    def over(self) -> bool:
        """True once there is a task, or a validator has raised an error."""
        return bool(self._found or self._failed)

    @property
    def markers(self) -> tuple[str, ...]:
        """The markers of all queues."""
        return tuple(queue._operations.marker for queue in self._queues)

    @property
    def watches(self) -> list[Watch]:
        """The watches of all queues, if none had a task."""
        return [watch for watches in self._by_queue for watch in watches]

    @property
    def owed(self) -> list[Marker]:
        """The wake-ups to pass on when the caller stops waiting."""
        return owned_of_queues(self._by_queue)

    def result(self) -> tuple[AsyncDPQ[P], Task[P]] | None:
        """Return the queue and its task, or None."""
        if self._failed:
            raise self._failed
        return self._found


async def _give_back(found: tuple[AsyncDPQ[Any], Task[Any]] | None) -> None:
    if found:
        queue, task = found
        await queue.release(task)
