"""Tasks, and the data of the calls about them. Frozen, and without a connection inside."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn

from pydantic import BaseModel, ConfigDict, SkipValidation
from typing_extensions import TypeVar  # pydantic brings it along; typing's own has no default yet

__all__ = [
    "Cost",
    "DeadTask",
    "Fairness",
    "OnDuplicate",
    "Order",
    "Payloads",
    "Popped",
    "Push",
    "Task",
    "TaskState",
]

P = TypeVar("P", default=Any)
"""The type of a queue's payloads; any type if none is named."""

Nothing = TypeVar("Nothing", default=None)
"""The type of `task` if a pop found none: None, or Never if the pop waits for ever."""

OnDuplicate = Literal["keep", "update", "raise_priority", "rerun", "error"]
"""The action of a push whose key is taken."""

Order = Literal["fifo", "lifo"]
"""The order of equal priorities: first in, first out; or last in, first out."""

Fairness = Literal["none", "round_robin"]
"""The order of groups of equal priority: by the order of their tasks, or in turn."""

Cost = int | Mapping[str, int]
"""The units that a task takes of every limit: a number of requests, or numbers by unit. The unit
`""` is requests, 1 if it is not named."""

Payloads = Literal["inline", "apart"]
"""The place of short payloads: in the records of their tasks, or apart from them."""


class TaskState(StrEnum):
    """The state of a stored task. Every task is in exactly one state."""

    READY = "ready"
    DELAYED = "delayed"
    INVISIBLE = "invisible"
    WAITING = "waiting"
    DEAD = "dead"


class Task(BaseModel, Generic[P]):
    """A task as it was at the moment of the call that returned it.

    Attributes:
        id: Its id, made by the client that pushed it.
        payload: The validated payload.
        priority: Its priority; bigger runs first; an int stays an int.
        group: The name under which tasks share a limit, or None.
        key: Its unique key, or None.
        attempt: The number of this attempt, from 1; deliveries that were given back do not count.
        max_attempts: The number of failed attempts after which the task is dead.
        deliveries: The number of its pops, with this one.
        deferrals: The number of deliveries that ended at a limit, uncounted.
        enqueued_at: The time of its push, by the server's clock, UTC.
        visible_until: The time when its lease ends, or when a delayed task is due, UTC; None in
            other states.
        last_error: The text of its last failure, or None.
        state: Its state.
        token: Proof of this delivery: above every earlier token of its queue, and below 2^53. 0
            before the first delivery.
        cost: Requests that it takes of every limit.
        costs: Its other units by name, as in `{"tokens": 1800}`, or None.
        member: The member of its group's pool that this delivery runs as, or None.
        pinned: The member that its push named, or None.
        every: Seconds from one run of a recurring task to the next, or None.
        cron: Its cron expression and zone, as in `*/5 * * * * Europe/Berlin`, or None.
        scheduled_at: The time when this run of a recurring task was due, UTC, or None. It is
            different for each run.
        visibility: Seconds of its leases; None takes those of its consumers.
        time_limit: Seconds that its handler may run in a worker; None takes the worker's limit.
        trace: The W3C traceparent of the span that pushed it, or None (docs/tracing.md).
    """

    model_config = ConfigDict(frozen=True)

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
    max_attempts: int
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
    trace: str | None = None


class DeadTask(Task[P], Generic[P]):
    """A dead letter.

    Attributes:
        payload: The payload; the raw JSON text if it cannot be validated.
        reason: The reason of its death: `attempts spent`, `lease expired` (of the last attempt),
            `expired` (not started in time), `payload missing`, or the reason given to `bury`.
        attempts: The number of failed attempts.
        died_at: The time of its death, by the server's clock, UTC.
    """

    reason: str
    attempts: int
    died_at: datetime


class Popped(NamedTuple, Generic[P, Nothing]):
    """A leased task and two calls for it, or three times None if there is no task.

    Attributes:
        task: The task.
        on_success: `on_success()` is `ack(task)`.
        set_visibility: `set_visibility(seconds)` hides the task for so long, uncounted.
    """

    task: Task[P] | Nothing
    on_success: Callable[[], Any]  # None if task is None; typed for use after a check of task
    set_visibility: Callable[[float], Any]


class Push(NamedTuple, Generic[P]):
    """One push of `push_many`, which checks it; the arguments are those of `push`.

    It is a tuple, since one is made for each task of a batch: 0.4 us; a model takes 1.3 us.
    """

    payload: P
    priority: int | float = 0
    delay: float | timedelta = 0
    group: str | None = None
    key: str | None = None
    on_duplicate: OnDuplicate = "keep"
    max_attempts: int | None = None
    expires_in: float | None = None
    cost: Cost = 1
    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    at: datetime | None = None
    visibility: float | None = None
    time_limit: float | None = None
    member: str | None = None


class TaskName(NamedTuple):
    """The name of a task in a call: its id or its key; the other one is empty."""

    id: str
    key: str

    def __str__(self) -> str:
        return f"the task with key {self.key!r}" if self.key else f"task {self.id}"
