"""The counts of one batch, as `batch`, `batches` and `seal_batch` return them."""

from datetime import datetime

from dpq.model.frozen import Frozen


class BatchState(Frozen):
    """A batch of tasks at the moment of the call: what has become of them.

    Attributes:
        name: The name that its pushes have.
        left: Live tasks: ready, waiting, delayed or running.
        done: Tasks that were finished by an ack.
        dead: Tasks that became dead letters, and were not replayed; also if they were dropped
            since.
        removed: Live tasks that were cancelled, purged, moved into another batch, or made
            recurring.
        sealed: `seal_batch` was called: once nothing is left, the batch is finished.
        began_at: The time of its first push, by the server's clock, UTC.
        changed_at: The time of its last change, UTC.
        finished_at: The time when it was sealed and nothing was left, UTC; None before.
        callback: The id of the task that waits for its end, or ran behind it; None without one.
    """

    name: str
    left: int
    done: int
    dead: int
    removed: int
    sealed: bool
    began_at: datetime
    changed_at: datetime
    finished_at: datetime | None = None
    callback: str | None = None

    @property
    def pushed(self) -> int:
        """All tasks that were ever in the batch."""
        return self.left + self.done + self.dead + self.removed

    @property
    def finished(self) -> bool:
        """Return True once the batch was sealed and nothing was left of it."""
        return self.finished_at is not None
