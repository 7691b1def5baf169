"""`q.leases()`: a loop over tasks, each under a lease that is kept alive while the body runs.

Both queues call it. A `for` does not tell its iterator how its body has ended: a next step means
that the body came to its end, and that is the only thing that acks. So a loop that is left early
never acks the task it was left with. `with` does tell: then that task is settled at once.
Nothing here sends anything while an object is deleted.
"""

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from dpq.model.errors import LeaseLostError, NotConfirmedError, signal_of
from dpq.model.task import P, QueueStats, Task
from dpq.model.validation import milliseconds
from dpq.queue.lease_renewal import Leases

if TYPE_CHECKING:
    from dpq.queue.queue import DPQ
    from dpq.queue.queue_async import AsyncDPQ

log = logging.getLogger(__name__)

RECHECK_SECONDS = 1.0
"""Seconds between two looks for live tasks that others hold: no wake-up tells of their acks."""


def _none_live(stats: QueueStats) -> bool:
    return not (stats.ready + stats.delayed + stats.invisible + stats.waiting)


class _Held(Generic[P]):
    """The task that a loop has handed out last."""

    _task: Task[P] | None = None
    _over = False

    def __init__(self, queue: Any, visibility: float | None, until_empty: bool) -> None:
        if visibility is not None:
            milliseconds("visibility", visibility, least=0.001)
        self._queue: Any = queue
        self._visibility = visibility
        self._until_empty = until_empty

    def _hold(self, tasks: list[Task[P]]) -> Task[P]:
        (self._task,) = tasks
        seconds = self._visibility or self._queue.default_visibility
        self._queue._leases.hold(self._task, seconds)
        return self._task

    def _hand_back(self) -> Task[P] | None:
        task, self._task = self._task, None
        return task

    def _leave(self) -> None:
        """Let the lease of the task run out that an earlier `for` was left with."""
        if (task := self._hand_back()) is not None:
            Leases.let_go(self._queue._leases, task)  # the keeper's would wait for a lock

    def _tell(self, error: Exception) -> None:
        log.warning("%s: %s", self._queue.queue_name, error)

    def __del__(self) -> None:
        self._leave()


class LeaseLoop(_Held[P]):
    """The tasks of a queue, one after the other; see `DPQ.leases`."""

    _queue: "DPQ[P]"

    def __iter__(self) -> Self:
        self._leave()
        return self

    def __next__(self) -> Task[P]:
        """Ack the task before, and take the next one.

        Raises:
            StopIteration: `until_empty`, and no live task is left; or the loop is closed.
        """
        queue, done = self._queue, self._hand_back()
        if done is not None and queue._leases.let_go(done):
            try:
                queue.ack(done)
            except (LeaseLostError, NotConfirmedError) as error:  # done, or another's by now
                self._tell(error)
        while not self._over:
            if tasks := queue._take(1, 0 if self._until_empty else None, self._visibility):
                return self._hold(tasks)
            if _none_live(queue.stats()):
                self._over = True
            elif tasks := queue._take(1, RECHECK_SECONDS, self._visibility):
                return self._hold(tasks)
        raise StopIteration

    def close(self, error: BaseException | None = None) -> None:
        """End the loop; a task that was not finished goes back at once.

        Args:
            error: How its body has ended, which says what becomes of it, as in `lease()`; without
                one it is given back, uncounted.
        """
        self._over = True
        task = self._hand_back()
        if task is not None and self._queue._leases.let_go(task):
            told = GeneratorExit() if error is None else signal_of(error)
            try:
                self._queue._session.run(self._queue._operations.settle, task, told)
            except (LeaseLostError, NotConfirmedError) as unsure:
                self._tell(unsure)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(error)


class AsyncLeaseLoop(_Held[P]):
    """Async `LeaseLoop`; see `DPQ.leases`."""

    _queue: "AsyncDPQ[P]"

    def __aiter__(self) -> Self:
        self._leave()
        return self

    async def __anext__(self) -> Task[P]:
        """Async `LeaseLoop.__next__`."""
        queue, done = self._queue, self._hand_back()
        if done is not None and queue._leases.let_go(done):
            try:
                await queue._finish(queue.ack(done))
            except (LeaseLostError, NotConfirmedError) as error:
                self._tell(error)
        while not self._over:
            if tasks := await queue._take(1, 0 if self._until_empty else None, self._visibility):
                return self._hold(tasks)
            if _none_live(await queue.stats()):
                self._over = True
            elif tasks := await queue._take(1, RECHECK_SECONDS, self._visibility):
                return self._hold(tasks)
        raise StopAsyncIteration

    async def close(self, error: BaseException | None = None) -> None:
        """Async `LeaseLoop.close`; also when it is cancelled."""
        self._over = True
        task = self._hand_back()
        if task is not None and self._queue._leases.let_go(task):
            told = GeneratorExit() if error is None else signal_of(error)
            try:
                await self._queue._finish(self._queue._settle(task, told))
            except (LeaseLostError, NotConfirmedError) as unsure:
                self._tell(unsure)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(error)
