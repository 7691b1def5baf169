"""The data of public calls: tasks, pushes, statistics. Frozen, and without a connection inside."""

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
"""The type of a queue's payloads; any type if none is named."""

Nothing = TypeVar("Nothing", default=None)
"""The type of `task` if a pop found none: None, or Never if the pop waits for ever."""

OnDuplicate = Literal["keep", "update", "raise_priority", "rerun", "error"]
"""The action of a push whose key is taken."""

Order = Literal["fifo", "lifo"]
"""The order of equal priorities: first in, first out; or last in, first out."""


Fairness = Literal["none", "round_robin"]
"""The order of groups of equal priority: by the order of their tasks, or in turn."""


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
        cost: Units that it takes of every limit.
        every: Seconds from one run of a recurring task to the next, or None.
        cron: Its cron expression and zone, as in `*/5 * * * * Europe/Berlin`, or None.
        scheduled_at: The time when this run of a recurring task was due, UTC, or None. It is
            different for each run.
        visibility: Seconds of its leases; None takes those of its consumers.
        time_limit: Seconds that its handler may run in a worker; None takes the worker's limit.
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
    cost: int = 1
    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    at: datetime | None = None
    visibility: float | None = None
    time_limit: float | None = None


class QueueStats(BaseModel):
    """The number of tasks in each state, and running totals since the queue began.

    Attributes:
        ready: Tasks that could be popped now (of each group, only the first).
        delayed: Tasks that are not due yet.
        invisible: Tasks under a lease.
        waiting: Tasks behind the first of their group, or in a closed group.
        dead: Dead letters.
        pushed: Tasks that were added; pushes whose key was taken do not count.
        popped: Deliveries.
        acked: Finished tasks.
        failed: Calls of `fail`.
        deferred: Deliveries given back by `set_visibility` or `rate_limited`.
        expired_leases: Leases that ran out.
        buried: Tasks that became dead letters, for any reason.
        replayed: Dead tasks made live again.
        dropped: Dead letters removed by the limits on their number and age.
        oldest_ready_seconds: Seconds since the oldest ready task became due, or None. If more than
            200 tasks are ready, only the first task of each of the 100 best priorities and of the
            worst is looked at.
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
        kind: The kind of the problem, in a few words.
        subject: The task's id, the group's name, or the key.
        detail: The value that was found there.
    """

    model_config = ConfigDict(frozen=True)

    kind: str
    subject: str
    detail: str = ""


class WorkerInfo(BaseModel):
    """A worker of a queue, by its last heartbeat.

    Attributes:
        id: The id of one run of a worker; the same in all of its queues.
        name: The worker's `name`, or its host and process.
        host: The machine that it runs on.
        pid: Its process there.
        queue: The queue that was asked.
        running: Handlers that ran on tasks of this queue.
        concurrency: Handlers that may run at once, on tasks of all its queues together.
        since: The time when it began, by the server's clock, UTC.
        seen: The time of its last heartbeat, UTC. It sends one every 10 s; after 60 s without one
            it is forgotten.
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
    """The name of a task in a call: its id or its key; the other one is empty."""

    id: str
    key: str

    def __str__(self) -> str:
        return f"the task with key {self.key!r}" if self.key else f"task {self.id}"
