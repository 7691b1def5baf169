"""The log of how deliveries have ended: 429s, closings, deaths and lost leases. No I/O.

Both workers tell it what the server has answered. A line says what has happened, not what a handler
has asked for.
"""

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dpq.model.errors import LeaseLostError, NotConfirmedError
from dpq.model.log_fields import fields
from dpq.model.signals import RateLimited, Reject, Release
from dpq.model.task import Task
from dpq.model.validation import error_line, one_line

if TYPE_CHECKING:
    from dpq.worker.outcomes import Done, Ending

log = logging.getLogger(__name__)

MOST_CLOSED = 1000
"""Closings that are remembered, so that each is told once."""

SAME_SECONDS = 1.0
"""Seconds that a closing must be longer than one that was told, to be told again: of many tasks
that meet a limit together, each names a time of its own."""


class EndLog:
    """The log lines of one worker about ended deliveries.

    Args:
        worker: The name of the worker.
        queue_names: The names of its queues.
    """

    def __init__(self, worker: str, queue_names: Sequence[str]) -> None:
        self._worker = worker
        self._queue_names = queue_names
        self._closed: dict[tuple[str, str], float] = {}  # until when, monotonic seconds

    def answered(self, sent: Sequence["Ending"], results: Sequence[Any]) -> None:
        """Log what the server has done; `results` has an error where it has refused."""
        for ending, result in zip(sent, results, strict=True):
            if isinstance(result, LeaseLostError):
                self._lost(ending.done, result)
            elif ending.error is not None and (
                not isinstance(result, Exception) or isinstance(result, NotConfirmedError)
            ):  # what is not confirmed is done as well
                self._ended(ending.done[0], ending.error)

    def _lost(self, done: Sequence["Done"], error: LeaseLostError) -> None:
        for each in done:
            if each.task.id in error.task_ids:
                queue = self._queue_names[each.queue_index]
                log.warning(
                    "%s: lease of task %s lost: cannot %s it: another consumer has it, or the "
                    "delivery was ended before",
                    *(queue, each.task.id, error.action),
                    extra=self._about("lease_lost", queue, each.task, reason=error.action),
                )

    def _ended(self, done: "Done", error: BaseException) -> None:
        queue, task = self._queue_names[done.queue_index], done.task
        if isinstance(error, RateLimited):
            self._rate_limited(queue, task, error)
        elif isinstance(error, Reject):
            self.died(queue, task, one_line(error.reason))
        elif (
            not isinstance(error, Release)
            and task.attempt >= task.max_attempts
            and not (task.every or task.cron)
        ):
            self.died(queue, task, "attempts spent", error_line(error))

    def died(self, queue: str, task: Task[Any], reason: str, error: str | None = None) -> None:
        """Log that a task is dead."""
        log.info(
            "%s: task %s is dead after attempt %d of %d: %s%s",
            *(
                queue,
                task.id,
                task.attempt,
                task.max_attempts,
                reason,
                f": {error}" if error else "",
            ),
            extra=self._about("died", queue, task, reason=reason, error=error),
        )

    def _rate_limited(self, queue: str, task: Task[Any], error: RateLimited) -> None:
        seconds, scope, status = error.retry_after, error.scope, error.status
        limit = f"a rate limit ({status})" if status else "a rate limit"
        about = self._about(
            "rate_limited", queue, task, scope=scope, seconds=seconds, status=status
        )
        log.info(
            "%s: task %s met %s: again in %g s",
            *(queue, task.id, limit, round(seconds, 3)),
            extra=about,
        )
        if scope == "task":
            return
        group = None if scope == "queue" else task.group
        member = task.member if scope == "member" else None
        closed = "the queue" if group is None else f"group {group!r}"
        closed += f", member {member!r}," if member else ""
        now = time.monotonic()
        told = self._closed.get((queue, closed), 0.0)
        if not seconds or (told > now and now + seconds <= told + SAME_SECONDS):
            return
        if len(self._closed) >= MOST_CLOSED:
            self._closed = {key: until for key, until in self._closed.items() if until > now}
        if len(self._closed) >= MOST_CLOSED:
            self._closed.clear()
        self._closed[queue, closed] = now + seconds
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        log.info(
            "%s: %s is closed for %g s, until %s: %s",
            *(queue, closed),
            *(round(seconds, 3), f"{until:%Y-%m-%d %H:%M:%S}Z", limit),
            extra=fields(
                "closed",
                worker=self._worker,
                queue=queue,
                group=group,
                member=member,
                scope="queue" if group is None else "member" if member else "group",
                reason="rate limit",
                status=status,
                seconds=seconds,
                until=f"{until:%Y-%m-%dT%H:%M:%S}Z",
            ),
        )

    def _about(self, event: str, queue: str, task: Task[Any], **more: Any) -> dict[str, Any]:
        about: dict[str, Any] = {
            "worker": self._worker,
            "queue": queue,
            "task_id": task.id,
            "group": task.group,
        }
        about |= {"attempt": task.attempt, "max_attempts": task.max_attempts}
        return fields(event, **about, **more)
