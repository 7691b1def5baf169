"""`TaskFailure`: pydantic data, loaded when the first queue is made (see model/task.py)."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict


class TaskFailure(BaseModel):
    """One of the last 8 errors of a task.

    Attributes:
        at: When it was stored, by the server's clock, UTC.
        attempt: The number of the attempt, from 1.
        kind: `failed`; `buried`, by `bury` or `Reject`; `lease expired`, if the consumer died or
            hung; or `rate limited`. Of several answers of a limit in a row only the last is kept.
        worker: The name of the worker, or None: the call came from no worker, or the lease ran out.
        text: The first 500 bytes of its text.
        frames: Where it happened, the last call first: `file:line in function`. The last of them
            is the handler. Empty if no exception was given.
    """

    model_config = ConfigDict(frozen=True)

    at: datetime
    attempt: int
    kind: Literal["failed", "buried", "lease expired", "rate limited"]
    worker: str | None
    text: str
    frames: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" on {self.worker}" if self.worker else ""
        return f"attempt {self.attempt}{by}: {self.text}"
