"""How deliveries that have ended are settled: in as few calls as it can be. No I/O.

An ack that cannot be made, as of a recurring task in a time zone that is unknown here, must not
keep those of others: what is refused together is tried one by one, and what is refused alone goes
to the dead letters, where somebody sees it.
"""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from dpq.model.errors import LeaseLostError, NotConfirmedError, RateLimited, Reject
from dpq.model.task import Task
from dpq.model.validation import error_line
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import Steps

log = logging.getLogger(__name__)


class GivenBack(BaseException):
    """The worker ends: a task that it holds goes back, uncounted."""


class CannotBeSettled(Reject):
    """The end of a delivery was refused, other than by the server."""


class Done(NamedTuple):
    """A delivery whose work has ended: from which queue, which task, and how.

    Attributes:
        alone: Not together with others.
    """

    place: int
    task: Task[Any]
    error: BaseException | None
    alone: bool = False

    def shuts(self, place: int, task: Task[Any]) -> bool:
        """Whether its limit, which it has hit, is that of another task."""
        if not isinstance(self.error, RateLimited) or place != self.place:
            return False
        whole = self.error.scope == "queue" or self.task.group is None
        return self.error.scope != "task" and (whole or task.group == self.task.group)


class Settling(NamedTuple):
    """One operation, and what it settles."""

    operation: Steps[Any]
    done: list[Done]


def settling(done: Sequence[Done], queues: Sequence[QueueOperations[Any]]) -> list[Settling]:
    """How to settle what is done: acks together, the others one by one."""
    acks: dict[int, list[Done]] = {}
    others: list[Settling] = []
    for each in done:
        if each.error is None and not each.alone:
            acks.setdefault(each.place, []).append(each)
        else:
            others.append(Settling(_end(each, queues[each.place]), [each]))
    together = [
        Settling(queues[place].ack_many([each.task for each in some]), some)
        for place, some in acks.items()
    ]
    return together + others


def _end(done: Done, queue: QueueOperations[Any]) -> Steps[Any]:
    """What a handler raises says how its task goes on, if it makes sense."""
    error = done.error
    try:
        if error is None or isinstance(error, Exception | GivenBack):
            return queue.settle(done.task, error)
    except Exception as nonsense:
        error = nonsense
    return queue.fail(done.task, error_line(error), None)


def unsettled(name: str, asked: Sequence[Settling], results: Sequence[Any]) -> list[Done]:
    """What is to be settled once more, by how it went: it may not have reached the server.

    Args:
        name: Who asks, for the log.
        asked: What was asked for.
        results: Its results, or what it ended with.
    """
    again: list[Done] = []
    for (_, done), result in zip(asked, results, strict=True):
        if not isinstance(result, Exception):
            continue
        if isinstance(result, LeaseLostError | NotConfirmedError):  # done, and tried once
            log.warning("%s: %s", name, result)
            continue
        log.warning("%s: cannot settle %d tasks now: %s", name, len(done), error_line(result))
        if isinstance(result, RedisError):
            again += done
        elif len(done) > 1:
            again += (each._replace(alone=True) for each in done)
        elif not isinstance(done[0].error, CannotBeSettled):  # else its lease may run out
            reason = CannotBeSettled(f"cannot be settled: {error_line(result)}")
            again.append(done[0]._replace(error=reason))
    return again


def shuts_something(done: Sequence[Done]) -> bool:
    """Whether a limit was hit: the server is told before it is asked for anything more.

    In one round trip the second script might run alone, when the server has forgotten the first.
    """
    return any(isinstance(each.error, RateLimited) for each in done)
