"""Tasks, and the data of the calls about them. Frozen, and without a connection inside.

`Task` and `DeadTask` stand in model/task_data.py. They are loaded at the first use of their names,
with pydantic: an import of `DPQ` and `Worker` does without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, NoReturn, TypedDict

from typing_extensions import TypeVar  # pydantic brings it along; typing's own has no default yet

from dpq.model.errors import ConfigurationError
from dpq.model.late import late
from dpq.model.task_state import P as P
from dpq.model.task_state import TaskState as TaskState

if TYPE_CHECKING:
    from dpq.model.task_data import DeadTask as DeadTask
    from dpq.model.task_data import Task as Task
    from dpq.model.validation import Delays


Nothing = TypeVar("Nothing", default=None)
"""The type of `task` if a pop found none: None, or Never if the pop waits for ever."""

OnDuplicate = Literal["keep", "update", "raise_priority", "rerun", "error"]
"""The action of a push whose key is taken."""

OnDead = Literal["bury", "run"]
"""The fate of a task if one of the tasks that it waits for dies or is cancelled."""

MOST_AFTER = 16
"""Tasks that one task may wait for; lua/push/options.lua has the same number."""

Cost = int | Mapping[str, int]
"""The units that a task takes of every limit: a number of requests, or numbers by unit. The unit
`""` is requests, 1 if it is not named."""


def task_state(value: Any) -> TaskState:
    """Check the name of a state."""
    try:
        return TaskState(value)
    except ValueError:
        raise ConfigurationError(
            f"state is {value!r}: it must be one of {', '.join(TaskState)}"
        ) from None


class Popped(NamedTuple, Generic[P, Nothing]):
    """A leased task and two calls for it, or three times None if there is no task.

    Attributes:
        task: The task.
        on_success: `on_success()` is `ack(task)`.
        set_visibility: `set_visibility(seconds)` hides the task for so long, uncounted.
    """

    task: Task[P] | Nothing
    on_success: Callable[..., Any]  # None if task is None; typed for use after a check of task
    set_visibility: Callable[[float], Any]

    def __repr__(self) -> str:
        return f"Popped(task={self.task!r})"


def _not_of_popped(self: Any, name: str) -> NoReturn:
    raise AttributeError(f"a Popped has no {name}: write popped.task.{name}, if there is a task")


if not TYPE_CHECKING:  # checkers refuse it themselves
    Popped.__getattr__ = _not_of_popped


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
    max_attempts: float | None = None
    expires_in: float | None = None
    cost: Cost = 1
    every: float | None = None
    cron: str | None = None
    timezone: str = "UTC"
    at: datetime | None = None
    visibility: float | None = None
    time_limit: float | None = None
    member: str | None = None
    batch: str | None = None
    unique_for: float | None = None
    after: Sequence[str | int] | None = None
    on_dead: OnDead = "bury"
    backoff: Delays | None = None
    max_lapses: int | None = None
    debounce: float | None = None
    debounce_max: float | None = None


class KeyOptions(TypedDict, total=False):
    """The options of a push that have no place, only a name, for type checkers."""

    group: str | None
    key: str | None
    on_duplicate: OnDuplicate
    max_attempts: float | None
    expires_in: float | None
    cost: Cost
    every: float | None
    cron: str | None
    timezone: str
    at: datetime | None
    visibility: float | None
    time_limit: float | None
    member: str | None
    batch: str | None
    unique_for: float | None
    after: Sequence[str] | None
    on_dead: OnDead
    backoff: Delays | None
    max_lapses: int | None
    debounce: float | None
    debounce_max: float | None


class TaskName(NamedTuple):
    """The name of a task in a call: its id or its key; the other one is empty."""

    id: str
    key: str

    def __str__(self) -> str:
        return f"the task with key {self.key!r}" if self.key else f"task {self.id}"


if not TYPE_CHECKING:  # a type checker would take any name for one of this module
    __getattr__ = late(__name__, {"model.task_data": "Task DeadTask"})
