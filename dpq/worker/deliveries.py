"""The deliveries of a worker, from pop to the answer to their end. It sends nothing itself.

    hold      a pop has brought tasks: extend their leases
    claim     the work on a task has ended: no other caller may end its delivery now
    endings   make the operations that end deliveries, as few as possible; send them
    answered  stop extending the leases that the server has ended; return what to send again

An ack may be impossible, such as that of a recurring task whose time zone is unknown here. So acks
that are refused together are sent one by one. A task whose end is refused alone becomes a dead
letter, where a person sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import RedisError

from dpq.limits.signals import RateLimited, Reject
from dpq.model.errors import LeaseLostError, NotConfirmedError
from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.queue.end_log import EndLog
from dpq.queue.inside import leases_of, operations_of
from dpq.script.error_source import source_of

if TYPE_CHECKING:
    from dpq.limits.budget import Budget
    from dpq.model.task import Cost, Task
    from dpq.queue.base import QueueBase
    from dpq.queue.lease_renewal import Lease
    from dpq.script.command import Steps

log = logging.getLogger(__name__)


class GivenBack(BaseException):
    """The sign for a task that an ending worker gives back, uncounted."""


class CannotBeEnded(Reject):
    """The error for a delivery whose end was refused, but not by the server."""


class Taken(NamedTuple):
    """A leased task: its queue, its lease, and when it may begin (monotonic)."""

    queue: QueueBase[Any]
    lease: Lease
    at: float = 0.0

    @property
    def task(self) -> Task[Any]:
        return self.lease.task


class Done(NamedTuple):
    """A delivery whose work has ended."""

    queue: QueueBase[Any]
    task: Task[Any]
    error: BaseException | None
    alone: bool = False  # its end is sent in an operation of its own
    budgets: Sequence[Budget] = ()  # those that its host named; they are sent once, before its end
    cost: Cost | None = None  # what it has spent
    kept: str = ""  # the line of its result
    delay: float | timedelta | None = None  # seconds until the next attempt; None: its own backoff

    @property
    def hits_limit(self) -> bool:
        """True if the server must know of it before it gets another pop.

        In one round trip the pop might run alone, if the server has forgotten the first script.
        """
        return isinstance(self.error, RateLimited)

    def closes(self, other: Taken) -> bool:
        """Return True if another task would hit the limit that this handler has hit."""
        if not isinstance(self.error, RateLimited) or other.queue is not self.queue:
            return False
        scope, task = self.error.scope, other.task
        if scope == "member" and self.task.member is not None:
            return (task.group, task.member) == (self.task.group, self.task.member)
        whole = scope == "queue" or self.task.group is None
        return scope != "task" and (whole or task.group == self.task.group)


class Ending(NamedTuple):
    """One operation, and the deliveries that it ends."""

    operation: Steps[Any]
    done: list[Done]
    error: BaseException | None = None  # it decides how the only delivery ends; None: ack, or back


class Deliveries:
    """The leases that a worker holds. `named`: the tasks have names, for the log."""

    def __init__(
        self,
        name: str,
        queues: Sequence[QueueBase[Any]],
        visibility: float | None,
        *,
        named: bool = False,
    ) -> None:
        self._name = name
        self._seconds = {queue: visibility or queue.settings.default_visibility for queue in queues}
        self._log = EndLog(name, named=named)

    def hold(
        self,
        queue: QueueBase[Any],
        tasks: Sequence[Task[Any]],
        waits_ms: Sequence[float] = (),
        granted: float = 0.0,
    ) -> list[Taken]:
        """Keep the leases of a pop alive; tasks may begin so many ms after they were `granted`."""
        held = leases_of(queue).hold(tasks, self._seconds[queue])
        return [
            Taken(queue, lease, granted + wait / 1000 if wait else 0.0)
            for lease, wait in zip(held, waits_ms or [0] * len(held), strict=True)
        ]

    def claim(self, done: Done) -> bool:
        """Claim the end of a delivery, whose work has ended; False if another caller ends it."""
        leases = leases_of(done.queue)
        # An extension under way would undo the new end of the lease.
        return leases.let_go(done.task) if done.hits_limit else leases.ending(done.task)

    def claim_back(self, held: Iterable[Any]) -> list[Done]:
        """Claim what is held, to give it back, uncounted; leave out what another caller ends."""
        back = [Done(each.queue, each.task, GivenBack()) for each in held]
        return list(filter(self.claim, back))

    def endings(self, done: Sequence[Done]) -> list[Ending]:
        """Make the operations that end deliveries: acks together, the others one by one.

        The budgets that hosts named go first: `observe` counts the deliveries under way.
        """
        told: list[Ending] = []
        acks: dict[QueueBase[Any], list[Done]] = {}
        others: list[Ending] = []
        for each in done:
            if each.hits_limit:
                leases_of(each.queue).let_go(each.task)
            if each.budgets:
                observe = operations_of(each.queue).observe
                told.append(Ending(observe(each.task, each.budgets), []))
            if each.error is None and not each.alone:
                acks.setdefault(each.queue, []).append(each)
            else:
                others.append(self._end(each))
        together = [_ack(queue, some) for queue, some in acks.items()]
        return told + together + others

    def _end(self, done: Done) -> Ending:
        """End a delivery by the error of its handler; fail it if that error makes no sense."""
        error, queue = done.error, operations_of(done.queue)
        try:
            if error is None or isinstance(error, Exception | GivenBack):
                decides = None if isinstance(error, GivenBack) else error
                ended = queue.finish(done.task, error, done.cost, done.kept, done.delay, self._name)
                return Ending(ended, [done], decides)
        except Exception as nonsense:
            error = nonsense
        source = source_of(error, self._name)
        failed = queue.fail(done.task, error_line(error), None, done.cost, None, source)
        return Ending(failed, [done], error)

    def answered(self, sent: Sequence[Ending], results: Sequence[Any]) -> list[Done]:
        """Take in the answers; return the deliveries whose end must be sent once more."""
        again = [
            each._replace(budgets=())
            for ending, result in zip(sent, results, strict=True)
            for each in self._answered(ending, result)
        ]
        waiting = {id(each.task) for each in again}
        for _, done, _ in sent:
            self.forget(each for each in done if id(each.task) not in waiting)
        for each in again:
            if each.hits_limit:
                self.hold(each.queue, [each.task])
        return again

    def _answered(self, ending: Ending, result: Any) -> Sequence[Done]:
        """Log what has become of an ending; return the deliveries that it has not ended."""
        name, done = self._name, ending.done
        if isinstance(result, LeaseLostError):
            for each in done:
                if each.task.id in result.task_ids:
                    self._log.lost(each.queue.queue_name, each.task, result.action)
        elif not isinstance(result, Exception) or isinstance(result, NotConfirmedError):
            if isinstance(result, Exception):  # the change was made; a second try confirms nothing
                log.warning("%s: %s", name, result, extra=fields("not_confirmed", worker=name))
            if ending.error is not None:
                (only,) = done
                self._log.ended(only.queue.queue_name, only.task, ending.error, result)
        elif not done:
            line = error_line(result)
            about = fields("not_observed", worker=name, error=line)
            log.warning("%s: cannot tell what a host has left: %s", name, line, extra=about)
        else:
            line = error_line(result)
            about = fields("not_ended", worker=name, count=len(done), error=line)
            log.warning("%s: cannot end %d deliveries now: %s", name, len(done), line, extra=about)
            return _next_try(done, result)
        return ()

    def forget(self, done: Iterable[Done]) -> None:
        for each in done:
            leases_of(each.queue).ended(each.task)


def _ack(queue: QueueBase[Any], done: list[Done]) -> Ending:
    tasks, costs = [each.task for each in done], [each.cost for each in done]
    spent = None if costs.count(None) == len(costs) else costs
    lines = [each.kept for each in done] if any(each.kept for each in done) else None
    return Ending(operations_of(queue).ack_many(tasks, spent, lines), done)


def _next_try(done: Sequence[Done], error: Exception) -> Sequence[Done]:
    if isinstance(error, RedisError):
        # Without memory a server refuses a result, and nothing else of an ack.
        full = "maxmemory" in str(error)
        return [each._replace(kept="") if full else each for each in done]
    if len(done) > 1:
        return [each._replace(alone=True) for each in done]
    if isinstance(done[0].error, CannotBeEnded):  # a second ending has failed: its lease runs out
        return []
    reason = CannotBeEnded(f"the delivery cannot be ended: {error_line(error)}")
    return [done[0]._replace(error=reason)]
