"""The log of the ends of deliveries: failures, 429s, deaths and lost leases. No I/O.

Both workers, `lease()` and `leases()` call it. A failure of a handler or a body is logged at once.
All other lines say what the server has done, not what was asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dpq.limits.signals import RateLimited, Reject, Release, Signal
from dpq.model.display import attempt_of
from dpq.model.errors import DPQError, LeaseLostError
from dpq.model.log_fields import fields
from dpq.model.validation import MAX_NAME_BYTES, error_line, one_line
from dpq.script.refusals import GIVEN_UP

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.script.replies import Batch

log = logging.getLogger(__name__)


def name_of(task: Task[Any]) -> str | None:
    """Return the name by which a worker finds the handler of a task; None for an unnamed task."""
    name = task.payload.get("task") if isinstance(task.payload, Mapping) else None
    return name[:MAX_NAME_BYTES] if isinstance(name, str) else None  # longer ones have no handler


def in_words(task: Task[Any], name: str | None) -> str:
    """Return the id of a task, and the name of a named one."""
    return f"{task.id} ({name})" if name else task.id


def log_failed(
    worker: str | None,
    queue: str,
    task: Task[Any],
    error: BaseException,
    *,
    traceback: bool,
    name: str | None = None,
) -> None:
    """Log a failed attempt; a signal has no traceback. RateLimited and Release log nothing here."""
    if isinstance(error, RateLimited | Release):
        return
    line = error_line(error)
    log.warning(
        "%s: task %s, attempt %s: %s",
        *(queue, in_words(task, name), attempt_of(task.attempt, task.max_attempts), line),
        exc_info=error if traceback and not isinstance(error, Signal) else None,
        extra=about("attempt_failed", worker, queue, task, task=name, error=line),
    )


def about(event: str, worker: str | None, queue: str, of: Task[Any], **more: Any) -> dict[str, Any]:
    """Return the fields of a line about a task."""
    known: dict[str, Any] = {"worker": worker, "queue": queue}
    known |= {"task_id": of.id, "group": of.group}
    known |= {"attempt": of.attempt, "max_attempts": of.max_attempts}
    return fields(event, **known, **more)


class EndLog:
    """The log lines about ended deliveries, of one worker, or of the leases of one queue object.

    If the tasks are `named`, their names stand in their payloads.
    """

    def __init__(self, worker: str | None = None, *, named: bool = False) -> None:
        self._worker = worker
        self._named = named

    def _log(
        self,
        level: int,
        event: str,
        queue: str,
        task: Task[Any],
        text: str,
        *words: Any,
        **more: Any,
    ) -> None:
        name = name_of(task) if self._named else None
        about_it = about(event, self._worker, queue, task, task=name, **more)
        log.log(level, text, queue, in_words(task, name), *words, extra=about_it)

    def lost(self, queue: str, task: Task[Any], action: str) -> None:
        """Log that a delivery could not be ended, since its lease is lost."""
        text = (
            "%s: lease of task %s lost: cannot %s it: another consumer has it, or the "
            "delivery was ended before"
        )
        self._log(logging.WARNING, "lease_lost", queue, task, text, action, reason=action)

    def doubtful(self, queue: str, task: Task[Any], error: DPQError) -> None:
        """Log that the end of a delivery came too late, or is not confirmed."""
        if isinstance(error, LeaseLostError):
            self.lost(queue, task, error.action)
        else:
            self._log(logging.WARNING, "not_confirmed", queue, task, "%s: task %s: %s", error)

    def ended(
        self, queue: str, task: Task[Any], error: BaseException, reply: object = None
    ) -> None:
        """Log what the server has done with a task after an error, by its reply."""
        if isinstance(error, RateLimited):
            self._rate_limited(queue, task, error)
            if reply == GIVEN_UP:
                self.died(queue, task, "always rate limited", one_line(error.reason))
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
        attempt = attempt_of(task.attempt, task.max_attempts)
        said = f"{reason}: {error}" if error else reason
        text = "%s: task %s is dead after attempt %s: %s"
        self._log(
            logging.INFO, "died", queue, task, text, attempt, said, reason=reason, error=error
        )

    def _rate_limited(self, queue: str, task: Task[Any], error: RateLimited) -> None:
        seconds, scope, status = round(error.retry_after, 3), error.scope, error.status
        limit = f"a rate limit ({status})" if status else "a rate limit"
        more = " or more" if error.guessed else ""  # the server knows how often it was in vain
        what = "the queue" if scope == "queue" or not task.group else f"group {task.group!r}"
        if scope == "member" and task.member:
            what = f"member {task.member!r} of {what}"
        said, until = f"again in {seconds:g} s{more}", None
        if scope != "task" and seconds:
            until = f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
            said = f"{what} is closed for {seconds:g} s{more}, until {until}"
        more_of_it = {"scope": scope, "seconds": seconds, "status": status, "until": until}
        text, words = "%s: task %s met %s: %s", (limit, said)
        self._log(logging.INFO, "rate_limited", queue, task, text, *words, **more_of_it)


def log_refused(queue_name: str, batch: Batch[Any]) -> None:
    """Log the tasks that a pop has refused: the caller gets the other tasks, and not the errors."""
    if batch.failed:
        line = error_line(batch.failed)
        log.warning(
            "%s: a validator of the payload failed, which counts as a failed attempt: %s",
            *(queue_name, line),
            extra=fields("attempt_failed", queue=queue_name, error=line),
        )
    for task_id, text in batch.buried:
        reason = text.partition("\n")[0]  # the other lines show a part of the payload
        log.info(
            "%s: task %s is dead: %s",
            *(queue_name, task_id, reason),
            extra=fields("died", queue=queue_name, task_id=task_id, reason=reason),
        )
