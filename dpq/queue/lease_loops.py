# Made from lease_loops_async.py by `make twins`: change that file, not this one.
"""`q.leases()`: a loop over tasks, whose leases are extended while the body runs.

A `for` does not tell its iterator how the body has ended. But if it takes a next step, the body
came to its end: only such a step acks a task, so the last one of a loop that is left early is not
acked. A `with` knows how its body was left. Nothing is sent while an object is deleted.
"""

from typing import Any, Generic, Self

from dpq.limits.signals import signal_of
from dpq.model.errors import LeaseLostError, NotConfirmedError
from dpq.model.task import P, Task
from dpq.model.validation import milliseconds
from dpq.queue.lease_renewal import Leases

RECHECK_SECONDS = 1.0
"""Seconds between two looks for live tasks of other consumers: their acks wake no waiter."""


class LeaseLoop(Generic[P]):
    """The tasks of a queue, one after the other; see `DPQ.leases`."""

    _task: Task[P] | None = None  # that it has handed out last
    _over = False

    def __init__(self, queue: Any, visibility: float | None, until_empty: bool) -> None:
        if visibility is not None:
            milliseconds("visibility", visibility, least=0.001)
        self._queue = queue
        self._visibility = visibility
        self._until_empty = until_empty

    def _hold(self, tasks: list[Task[P]]) -> Task[P]:
        (self._task,) = tasks
        seconds = self._visibility or self._queue._described.default_visibility
        self._queue._leases.hold((self._task,), seconds)
        return self._task

    def _hand_back(self) -> Task[P] | None:
        task, self._task = self._task, None
        return task

    def _leave(self) -> None:
        """Stop to extend the last task of an earlier `for`, so that its lease runs out."""
        if (task := self._hand_back()) is not None:
            # The `let_go` of the keeper would wait for a lock.
            Leases.let_go(self._queue._leases, task)

    def __iter__(self) -> Self:
        self._leave()
        return self

    def __next__(self) -> Task[P]:
        """Ack the last task, and take the next one.

        Raises:
            StopIteration: `until_empty`, and no live task is left; or the loop is closed.
        """
        queue, done = self._queue, self._hand_back()
        if done is not None and queue._leases.let_go(done):
            try:
                queue._finish(queue.ack, done)
            # The task is done, or another consumer has it.
            except (LeaseLostError, NotConfirmedError) as doubt:
                queue._end_log.doubtful(queue.queue_name, done, doubt)
        while not self._over:
            if tasks := queue._take(1, 0 if self._until_empty else None, self._visibility):
                return self._hold(tasks)
            if not queue.size():
                self._over = True
            elif tasks := queue._take(1, RECHECK_SECONDS, self._visibility):
                return self._hold(tasks)
        raise StopIteration

    def close(self, error: BaseException | None = None) -> None:
        """End the loop; a task that was not finished goes back at once.

        Args:
            error: The error of the body, which ends the delivery as in `lease()`; None gives the
                task back, uncounted.
        """
        self._over = True
        task = self._hand_back()
        if task is not None:
            outcome = GeneratorExit() if error is None else signal_of(error)
            self._queue._end_lease(task, outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close(error)

    def __del__(self) -> None:
        self._leave()
