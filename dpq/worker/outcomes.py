"""The ends of deliveries, as few operations as possible. Both workers call it. No I/O.

An ack may be impossible, such as that of a recurring task whose time zone is unknown here. It must
not hold up the others. So acks that are refused together are sent one by one. A task whose end is
refused alone becomes a dead letter, where a person sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import RedisError

from dpq.limits.signals import RateLimited, Reject
from dpq.model.errors import LeaseLostError, NotConfirmedError
from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.script.error_source import source_of

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.limits.budget import Budget
    from dpq.model.task import Cost, Task
    from dpq.script.command import Steps

log = logging.getLogger(__name__)


class GivenBack(BaseException):
    """The sign for a task that an ending worker gives back, uncounted."""


class CannotBeEnded(Reject):
    """The error for a delivery whose end was refused, but not by the server."""


class Done(NamedTuple):
    """A delivery whose work has ended: the index of its queue, its task, its error or None.

    Attributes:
        alone: Its end is sent in an operation of its own.
        budgets: The budgets that its host named; they are sent once, before its end.
        cost: What it has spent, or None.
        kept: The line of its result, or "".
        delay: Seconds until the next attempt if this one has failed; None takes the task's backoff.
    """

    queue_index: int
    task: Task[Any]
    error: BaseException | None
    alone: bool = False
    budgets: Sequence[Budget] = ()
    cost: Cost | None = None
    kept: str = ""
    delay: float | timedelta | None = None

    def closes(self, queue_index: int, task: Task[Any]) -> bool:
        """Return True if `task` would hit the limit that this handler has hit."""
        if not isinstance(self.error, RateLimited) or queue_index != self.queue_index:
            return False
        scope = self.error.scope
        if scope == "member" and self.task.member is not None:
            return (task.group, task.member) == (self.task.group, self.task.member)
        whole = scope == "queue" or self.task.group is None
        return scope != "task" and (whole or task.group == self.task.group)


class Ending(NamedTuple):
    """One operation, and the deliveries that it ends.

    Attributes:
        error: The error that decides how it ends its only delivery; None if it acks or gives back.
    """

    operation: Steps[Any]
    done: list[Done]
    error: BaseException | None = None


def endings(
    done: Sequence[Done], queues: Sequence[Operations[Any]], worker: str = ""
) -> list[Ending]:
    """Make the operations that end deliveries: acks together, the others one by one.

    Errors are kept with the name of the `worker`. The budgets that hosts named go first: `observe`
    counts the deliveries that are under way.
    """
    told: list[Ending] = []
    acks: dict[int, list[Done]] = {}
    others: list[Ending] = []
    for each in done:
        if each.budgets:
            told.append(Ending(queues[each.queue_index].observe(each.task, each.budgets), []))
        if each.error is None and not each.alone:
            acks.setdefault(each.queue_index, []).append(each)
        else:
            others.append(_end(each, queues[each.queue_index], worker))
    together = [
        Ending(
            queues[queue_index].ack_many(
                [each.task for each in some], _costs(some), _results(some)
            ),
            some,
        )
        for queue_index, some in acks.items()
    ]
    return told + together + others


def _costs(done: Sequence[Done]) -> list[Cost | None] | None:
    costs = [each.cost for each in done]
    return None if costs.count(None) == len(costs) else costs


def _results(done: Sequence[Done]) -> list[str] | None:
    lines = [each.kept for each in done]
    return lines if any(lines) else None


def _end(done: Done, queue: Operations[Any], worker: str) -> Ending:
    """End a delivery by the error of its handler; fail it if that error makes no sense."""
    error = done.error
    try:
        if error is None or isinstance(error, Exception | GivenBack):
            decides = None if isinstance(error, GivenBack) else error
            ended = queue.finish(done.task, error, done.cost, done.kept, done.delay, worker)
            return Ending(ended, [done], decides)
    except Exception as nonsense:
        error = nonsense
    source = source_of(error, worker)
    failed = queue.fail(done.task, error_line(error), None, done.cost, None, source)
    return Ending(failed, [done], error)


def to_send_again(name: str, sent: Sequence[Ending], results: Sequence[Any]) -> list[Done]:
    """Return the deliveries whose end must be sent once more: it may not have reached the server.

    Args:
        name: The name of the worker, for the log.
        sent: The operations.
        results: For each operation its result, or the error that it ended with.
    """
    again: list[Done] = []
    for (_, done, _), result in zip(sent, results, strict=True):
        if not isinstance(result, Exception) or isinstance(result, LeaseLostError):
            continue  # `Deliveries` logs a lost lease
        if isinstance(result, NotConfirmedError):  # a second try would not confirm it
            log.warning("%s: %s", name, result, extra=fields("not_confirmed", worker=name))
            continue
        if not done:
            log.warning(
                "%s: cannot tell what a host has left: %s",
                *(name, error_line(result)),
                extra=fields("not_observed", worker=name, error=error_line(result)),
            )
            continue
        log.warning(
            "%s: cannot end %d deliveries now: %s",
            *(name, len(done), error_line(result)),
            extra=fields("not_ended", worker=name, count=len(done), error=error_line(result)),
        )
        if isinstance(result, RedisError):
            # Without memory a server refuses a result, and nothing else of an ack.
            full = "maxmemory" in str(result)
            again += (each._replace(budgets=(), kept="" if full else each.kept) for each in done)
        elif len(done) > 1:
            again += (each._replace(alone=True, budgets=()) for each in done)
        # If a second ending failed, the lease may run out.
        elif not isinstance(done[0].error, CannotBeEnded):
            reason = CannotBeEnded(f"the delivery cannot be ended: {error_line(result)}")
            again.append(done[0]._replace(error=reason, budgets=()))
    return again


def hits_limit(done: Sequence[Done]) -> bool:
    """Return True if a handler hit a limit: the server must know it before it gets another pop.

    In one round trip the pop might run alone, if the server has forgotten the first script.
    """
    return any(isinstance(each.error, RateLimited) for each in done if each.error is not None)
