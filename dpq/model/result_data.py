"""`Result` and `Progress`: pydantic data, loaded when the first queue is made (see results.py)."""

from datetime import datetime
from typing import Any

from dpq.model.frozen import Frozen


class Result(Frozen):
    """The result of a finished task.

    Attributes:
        id: Its place among the results; `results(after=...)` goes on behind it.
        task_id: The task.
        value: The result, as JSON gives it back.
        at: When the task was finished, by the server's clock, UTC.
        kept_until: Until when the result is kept, UTC.
    """

    id: str
    task_id: str
    value: Any
    at: datetime
    kept_until: datetime


class Progress(Frozen):
    """The progress of the work on a running task, as its handler has told it.

    Attributes:
        done: The units of work that are done.
        total: All units of work, or None if the handler does not know.
        text: What it does now; "" for nothing.
        at: When the server has taken note of it, UTC.
    """

    done: float
    total: float | None
    text: str
    at: datetime

    @property
    def share(self) -> float | None:
        """The share of the work that is done, from 0 to 1; None without a total."""
        return min(1.0, self.done / self.total) if self.total else None

    def __str__(self) -> str:
        share = "" if self.share is None else f" ({self.share:.0%})"
        total = "" if self.total is None else f" of {self.total:.10g}"
        return f"{self.done:.10g}{total}{share}{': ' * bool(self.text)}{self.text}"
