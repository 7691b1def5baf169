"""The deliveries of a worker: their leases are extended until the server has answered their end.

The fetchers and the runners of both workers call it. It sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpq.limits.signals import RateLimited
from dpq.model.errors import LeaseLostError, NotConfirmedError
from dpq.queue.end_log import EndLog
from dpq.queue.inside import leases_of, operations_of
from dpq.worker.outcomes import Done, Ending, GivenBack, endings, to_send_again

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.queue.base import QueueBase
    from dpq.queue.lease_renewal import Lease


class Taken(NamedTuple):
    """A leased task: the index of its queue, its lease, and when it may begin (monotonic)."""

    queue_index: int
    lease: Lease
    at: float = 0.0


class Deliveries:
    """The leases that a worker holds.

        hold      a pop has brought tasks: extend their leases
        claim     the work on a task has ended: no other caller may end its delivery now
        endings   make the operations that end deliveries; send them
        answered  stop to extend the leases of the deliveries that the server has ended

    Args:
        name: The name of the worker, for the log.
        queues: The queues of the worker.
        visibility: Seconds of a lease; None takes each queue's default.
        named: The tasks have names, for the log.
    """

    def __init__(
        self,
        name: str,
        queues: Sequence[QueueBase[Any]],
        visibility: float | None,
        *,
        named: bool = False,
    ) -> None:
        self._name = name
        self._queues = queues  # `leases_of` is called late, since a forked child has other leases
        self._seconds = [visibility or queue.settings.default_visibility for queue in queues]
        self._operations = [operations_of(queue) for queue in queues]
        self._log = EndLog(name, named=named)

    def hold(
        self,
        queue_index: int,
        tasks: Sequence[Task[Any]],
        waits_ms: Sequence[float] = (),
        granted: float = 0.0,
    ) -> list[Taken]:
        """Keep the leases of a pop alive; tasks may begin so many ms after they were `granted`."""
        leases, seconds = leases_of(self._queues[queue_index]), self._seconds[queue_index]
        held = leases.hold(tasks, seconds)
        return [
            Taken(queue_index, lease, granted + wait / 1000 if wait else 0.0)
            for lease, wait in zip(held, waits_ms or [0] * len(held), strict=True)
        ]

    def claim(self, done: Done) -> bool:
        """Claim the end of a delivery, whose work has ended; False if another caller ends it."""
        leases = leases_of(self._queues[done.queue_index])
        # An extension under way would undo the new end of the lease.
        if isinstance(done.error, RateLimited):
            return leases.let_go(done.task)
        return leases.ending(done.task)

    def claim_back(self, taken: Iterable[Taken]) -> list[Done]:
        """Claim tasks to be given back, uncounted; leave out those that another caller ends."""
        back = [Done(queue_index, lease.task, GivenBack()) for queue_index, lease, _ in taken]
        return list(filter(self.claim, back))

    def endings(self, done: Sequence[Done]) -> list[Ending]:
        """Make the operations that end deliveries."""
        for each in done:
            if each.error is not None and isinstance(each.error, RateLimited):
                leases_of(self._queues[each.queue_index]).let_go(each.task)
        return endings(done, self._operations, self._name)

    def answered(self, sent: Sequence[Ending], results: Sequence[Any]) -> list[Done]:
        """Take in the answers; return the deliveries whose end must be sent once more."""
        self._log_ends(sent, results)
        again = to_send_again(self._name, sent, results)
        waiting = {id(each.task) for each in again}
        for _, done, _ in sent:
            self.forget([each for each in done if id(each.task) not in waiting] if again else done)
        for each in again:
            if isinstance(each.error, RateLimited):
                self.hold(each.queue_index, [each.task])
        return again

    def _log_ends(self, sent: Sequence[Ending], results: Sequence[Any]) -> None:
        for ending, result in zip(sent, results, strict=True):
            if isinstance(result, LeaseLostError):
                for each in ending.done:
                    if each.task.id in result.task_ids:
                        self._log.lost(self._name_of(each), each.task, result.action)
            elif ending.error is not None and (
                not isinstance(result, Exception) or isinstance(result, NotConfirmedError)
            ):  # a change without confirmation was made all the same
                task = ending.done[0].task
                self._log.ended(self._name_of(ending.done[0]), task, ending.error, result)

    def _name_of(self, done: Done) -> str:
        return self._queues[done.queue_index].queue_name

    def forget(self, done: Sequence[Done]) -> None:
        """Stop to extend the leases of ended deliveries."""
        for each in done:
            leases_of(self._queues[each.queue_index]).ended(each.task)
