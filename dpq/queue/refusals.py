"""The log of tasks that a validator refused. `DPQ` and the workers call it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from dpq.model.log_fields import fields
from dpq.model.validation import error_line

if TYPE_CHECKING:
    from dpq.script.replies import Batch

log = logging.getLogger(__name__)


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
