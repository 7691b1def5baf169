"""What the library hands out and takes in: frozen data without a connection inside."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn

from pydantic import BaseModel, ConfigDict, SkipValidation
from typing_extensions import TypeVar  # pydantic brings it along; typing's own has no default yet

__all__ = [
    "DeadTask",
    "Fairness",
    "OnDuplicate",
    "Order",
    "Popped",
    "Problem",
    "Push",
    "QueueStats",
    "Task",
    "TaskState",
    "WorkerInfo",
]

P = TypeVar("P", default=Any)
"""Payloads of a queue: of any type, where none is named."""

Nothing = TypeVar("Nothing", default=None)
"""The task of a pop that found none: None, or Never of a pop that waits for ever."""

OnDuplicate = Literal["keep", "update", "raise_priority", "rerun", "error"]
"""What a push does when its key is taken."""

Order = Literal["fifo", "lifo"]
"""Which of equal priorities runs first: the first or the last one in."""


Fairness = Literal["none", "round_robin"]
"""Whether groups of equal priority take turns, or go by the order of their tasks."""


class TaskState(StrEnum):
    """Where a stored task is. Every task is in exactly one state."""

    READY = "ready"
    DELAYED = "delayed"
    INVISIBLE = "invisible"
    WAITING = "waiting"
    DEAD = "dead"


class Task(BaseModel, Generic[P]):
    """A task as it was at the moment of the call that returned it.

    Attributes:
        id: Made by the client that pushed it.
        payload: The validated payload.
        priority: Bigger runs first; an int stays an int.
        group: What shares a limit with it, or None.
        key: Its unique key, or None.
        attempt: The number of this try, from 1; tries that were given back do not count.
        max_attempts: How many may fail before the task is dead.
        deliveries: How often it has been popped, this time included.
        deferrals: How many of the deliveries ended, uncounted, at a limit.
        enqueued_at: When it was pushed, by the server's clock, UTC.
        visible_until: When the lease ends, or a delayed task is due, UTC; None in other states.
        last_error: What the last failure said, or None.
        state: Where it is.
        token: Proof of this delivery: above that of every earlier one of its queue, and below 2^53.
            0 before the first.
        cost: Units that it takes of every limit.
        every: Seconds from one run to the next of a recurring task, or None.
        cron: Its cron expression and zone, as in `*/5 * * * * Europe/Berlin`, or None.
        scheduled_at: When this run of a recurring task was due, UTC, or None. Each run has another.
        visibility: Seconds of its leases, or None: as its consumers say.
        time_limit: Seconds that a worker lets its handler run, or None: as the worker says.
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


class DeadTask(Task[P], Generic[P]):
    """A task in the dead letters.

    Attributes:
        payload: The payload; the raw JSON text when it cannot be validated.
        reason: Why it is dead: `attempts spent`, `lease expired` (of the last attempt), `expired`
            (not started in time), `payload missing`, or what the caller of `bury` said.
        attempts: How many attempts have failed.
        died_at: When, by the server's clock, UTC.
    """

    reason: str
    attempts: int
    died_at: datetime


class Popped(NamedTuple, Generic[P, Nothing]):
    """A leased task and what may be done with it, or three times None when there is nothing to do.

    Attributes:
        task: The task.
        on_success: `on_success()` is `ack(task)`.
        set_visibility: `set_visibility(seconds)` hides it, uncounted, for so long.
    """

    task: Task[P] | Nothing
    on_success: Callable[[], Any]  # None beside a None task; typed for use after that check
    set_visibility: Callable[[float], Any]


class Push(NamedTuple, Generic[P]):
    """One push of `push_many`; the arguments are those of `push`, and are checked there.

    A tuple, since one is made for every task of a batch: 0.4 us, where a model takes 1.3.
    """

    payload: P
    priority: int | float = 0
    delay: float | timedelta = 0
    group: str | None = None
    key: str | None = None
    on_duplicate: OnDuplicate = "keep"
    max_attempts: int | None = None
    expires_in: float | None = None
    cost: int = 1
    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    at: datetime | None = None
    visibility: float | None = None
    time_limit: float | None = None


class QueueStats(BaseModel):
    """How many tasks are in each state, and running totals since the queue began.

    Attributes:
        ready: Could be popped now (of each group, only the first).
        delayed: Not due yet.
        invisible: Under a lease.
        waiting: Behind the first of their group, or in a closed group.
        dead: In the dead letters.
        pushed: Tasks that entered; pushes that met their key do not count.
        popped: Deliveries.
        acked: Finished.
        failed: Calls of `fail`.
        deferred: Deliveries given back by `set_visibility` or `rate_limited`.
        expired_leases: Leases that ran out.
        buried: Tasks that went to the dead letters, for whatever reason.
        replayed: Dead tasks made live again.
        dropped: Dead letters removed by the caps on number and age.
        oldest_ready_seconds: How long the oldest ready task has been due, or None. Of more than 200
            ready tasks, only the first to come in of each of the 100 best priorities and of the
            worst are looked at.
    """

    model_config = ConfigDict(frozen=True)

    ready: int
    delayed: int
    invisible: int
    waiting: int
    dead: int
    pushed: int = 0
    popped: int = 0
    acked: int = 0
    failed: int = 0
    deferred: int = 0
    expired_leases: int = 0
    buried: int = 0
    replayed: int = 0
    dropped: int = 0
    oldest_ready_seconds: float | None = None


class Problem(BaseModel):
    """A broken invariant found by `check()`.

    Attributes:
        kind: What is wrong, in a few words.
        subject: The task's id, the group's name, or the key.
        detail: What was found there.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    subject: str
    detail: str = ""


class WorkerInfo(BaseModel):
    """A worker, as one queue knows it from what the worker last told.

    Attributes:
        id: Of one run of a worker; the same in all of its queues.
        name: As it was made, or host and process.
        host: The machine that it runs on.
        pid: Its process there.
        queue: The queue that was asked.
        running: Handlers that ran on tasks of this queue.
        concurrency: Handlers that may run at once, on tasks of all its queues together.
        since: When it began, by the server's clock, UTC.
        seen: When it last told of itself, UTC; it does every 10 s, and is forgotten after 60.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    host: str
    pid: int
    queue: str
    running: int
    concurrency: int
    since: datetime
    seen: datetime


class TaskName(NamedTuple):
    """Which task a call means: by its id or by its key; the other one is empty."""

    id: str
    key: str

    def __str__(self) -> str:
        return f"the task with key {self.key!r}" if self.key else f"task {self.id}"
