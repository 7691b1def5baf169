"""Tasks, results and progress: pydantic data, loaded when the first queue is made (see task.py)."""

import math
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Generic, NoReturn

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, SkipValidation

from dpq.model.task_state import P, TaskState


class Frozen(BaseModel):
    """Data that does not change: the base of what calls return."""

    model_config = ConfigDict(frozen=True)


Attempts = Annotated[
    int | float,
    BeforeValidator(lambda value: math.inf if value is None else value),
    PlainSerializer(lambda value: None if value == math.inf else value, return_type=int | None),
]
"""A bound of failed attempts; `math.inf` is null in dumps, since JSON has no infinity."""


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


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


class Task(BaseModel, Generic[P]):
    """A task as it was at the moment of the call that returned it.

    Attributes:
        id: Its id, made by the client that pushed it.
        payload: The validated payload.
        priority: Its priority; bigger runs first (with order "min" smaller); an int stays an int.
        group: The name under which tasks share a limit, or None.
        key: Its unique key, or None.
        attempt: The number of this attempt, from 1; deliveries that were given back do not count.
        max_attempts: The failed attempts after which it is dead; `math.inf` is null in JSON.
        deliveries: The number of its pops, with this one.
        deferrals: The number of deliveries that ended at a limit, uncounted.
        enqueued_at: The time of its push, by the server's clock, UTC.
        visible_until: The end of its lease, or when a delayed task is due, UTC; else None.
        last_error: The text of its last failure, or None.
        state: Its state.
        token: Proof of this delivery: above every earlier one of its queue, below 2^53; 0 before
            any.
        cost: Requests that it takes of every limit.
        costs: Its other units by name, as in `{"tokens": 1800}`, or None.
        member: The member of its group's pool that this delivery runs as, or None.
        pinned: The member that its push named, or None.
        every: Seconds from one run of a recurring task to the next, or None.
        cron: Its cron expression and zone, as in `*/5 * * * * Europe/Berlin`, or None.
        scheduled_at: The time when this run of a recurring task was due, UTC, or None.
        visibility: Seconds of its leases; None takes those of its consumers.
        time_limit: Seconds that its handler may run in a worker; None takes the worker's limit.
        batch: The name of its batch, or None.
        unique_for: Seconds for which its key stays taken after its ack; `math.inf`; or None.
        after: The ids of the tasks whose end it waits for, or None.
        backoff: Its own delays after failures, seconds, the last repeats; None: of whoever fails
            it.
        trace: The W3C traceparent of the span that pushed it, or None (docs/tracing.md).
        max_lapses: The leases that may run out until it is dead; None: each is a failed attempt.
        lapses: With `max_lapses`: how many leases have run out.
        progress: How far the work on it is, if its handler has said so. Only `get` reads it.
    """

    # Bytes as a payload need not be UTF-8, and `unique_for` may be infinite.
    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", ser_json_inf_nan="strings")

    def __repr__(self) -> str:
        """Say in one line which task it is."""
        named = ((name, getattr(self, name)) for name in ("group", "key") if getattr(self, name))
        parts = [("payload", self.payload), *named, ("state", str(self.state))]
        said = ", ".join(f"{name}={_short(value)}" for name, value in parts)
        return (
            f"{type(self).__name__.partition('[')[0]}({self.id!r}, {said}, attempt={self.attempt})"
        )

    __str__ = __repr__

    if not TYPE_CHECKING:  # checkers refuse it themselves

        def __getitem__(self, name: object) -> NoReturn:
            """Say where the payload is: in the first DPQ a task was its payload."""
            raise TypeError(f"a Task is not its payload: write task.payload[{name!r}]")

    id: str
    payload: SkipValidation[P]
    priority: int | float
    group: str | None
    key: str | None
    attempt: int
    max_attempts: Attempts
    deliveries: int
    deferrals: int
    enqueued_at: datetime
    visible_until: datetime | None
    last_error: str | None
    state: TaskState
    token: int
    cost: int = 1
    every: float | None = None
    cron: str | None = None
    scheduled_at: datetime | None = None
    visibility: float | None = None
    time_limit: float | None = None
    costs: dict[str, int] | None = None
    member: str | None = None
    pinned: str | None = None
    batch: str | None = None
    unique_for: float | None = None
    after: list[str] | None = None
    backoff: tuple[float, ...] | None = None
    trace: str | None = None
    max_lapses: int | None = None
    lapses: int = 0
    progress: Progress | None = None


class DeadTask(Task[P], Generic[P]):
    """A dead letter.

    Attributes:
        payload: The payload; the raw JSON text if it cannot be validated.
        reason: `attempts spent`, `lease expired` (of the last attempt), `lapses spent`, `expired`
            (not started in time), `payload missing`, `always rate limited`, or the reason given to
            `bury`.
        attempts: The number of failed attempts.
        died_at: The time of its death, by the server's clock, UTC.
    """

    reason: str
    attempts: int
    died_at: datetime


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
