"""The error of a batch."""

from dpq.model.errors import DPQError

__all__ = ["BatchError"]


class BatchError(DPQError):
    """The file of requests, its results or the queue do not fit. Nothing was sent."""
