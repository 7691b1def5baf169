"""The states of tasks, and the type of their payloads: what `Task` and the calls about it share."""

from enum import StrEnum
from typing import Any

from typing_extensions import TypeVar  # pydantic brings it along; typing's own has no default yet

P = TypeVar("P", default=Any)
"""The type of a queue's payloads; any type if none is named."""


class TaskState(StrEnum):
    """The state of a stored task. Every task is in exactly one state."""

    READY = "ready"
    DELAYED = "delayed"
    INVISIBLE = "invisible"
    WAITING = "waiting"
    DEAD = "dead"
