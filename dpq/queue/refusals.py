"""The log of tasks that a validator refused. `DPQ` and the workers call it."""

import logging
from typing import Any

from dpq.model.validation import error_line
from dpq.protocol.replies import Batch

log = logging.getLogger(__name__)


def log_refused(queue_name: str, batch: Batch[Any]) -> None:
    """Log the error of a validator: the caller gets the other tasks of the pop, not the error."""
    if batch.failed:
        log.warning(
            "%s: a validator of the payload failed, which counts as a failed attempt: %s",
            queue_name,
            error_line(batch.failed),
        )
