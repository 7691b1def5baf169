"""A choice of tasks: for actions on many at once, for searches, and for the dashboard.

`q.admin.bulk`, `dpq admin bulk` and the pages of tasks take it. The server applies it, by
lua/search.lua.
"""

from dataclasses import dataclass, replace
from typing import Any

from dpq.model.errors import ConfigurationError
from dpq.model.priority import encode_priority
from dpq.model.task import TaskState, task_state
from dpq.model.validation import MAX_SECONDS, label, number


class _Any(str):
    """The text of a filter that was not given. A text that is given may not be empty."""

    __slots__ = ()


ANY = _Any()


def filter_text(name: str, value: Any) -> str:
    """Check a text to look for: an empty one, as of an unset variable, would choose everything."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(
            f"{name} is {value!r:.200}: it must be a text of 1 character or more; leave it out for "
            "all tasks"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(f"{name} is {value!r:.200}: it must be valid Unicode") from None
    return value


def group_filter(value: Any) -> str:
    """Check the name of a group to look for."""
    return label("group", filter_text("group", value))


@dataclass(frozen=True)
class Filter:
    """A choice of tasks: those that pass all that it names.

    Attributes:
        state: Their state; None: every state that the action takes.
        group: Their group.
        least: Their smallest priority, or None.
        text: A part of their stored group, key, error or payload, or 8 characters or more of the
            beginning of their id.
        reason: The reason of dead tasks, with "#" for each number.
        fault: The first 200 bytes of their last error, in the same way; "" for tasks without one.
        recurring: Recurring tasks only.
        payloads: Look for the text in payloads, too. Many searches find a payload letter by letter.
        most: Their biggest priority, or None.
        key_prefix: The beginning of their key.
        older_than: Seconds since they were pushed, or, of dead tasks, died, at least; or None.
    """

    state: TaskState | None = None
    group: str = ANY
    least: float | None = None
    text: str = ANY
    reason: str = ANY
    fault: str | None = None
    recurring: bool = False
    payloads: bool = True
    most: float | None = None
    key_prefix: str = ANY
    older_than: float | None = None

    def __post_init__(self) -> None:
        """Check the values; raise ConfigurationError for a wrong one."""
        if self.state is not None:
            object.__setattr__(self, "state", task_state(self.state))
        for name in ("text", "reason", "key_prefix"):
            if (value := getattr(self, name)) is not ANY:
                filter_text(name, value)
        if self.group is not ANY:
            group_filter(self.group)
        if self.fault not in (None, ""):
            filter_text("fault", self.fault)
        for name in ("recurring", "payloads"):
            if type(value := getattr(self, name)) is not bool:
                raise ConfigurationError(f"{name} is {value!r:.200}: it must be True or False")
        for priority in (self.least, self.most):
            if priority is not None:
                encode_priority(priority)
        if self.older_than is not None:
            number("older_than", self.older_than, "seconds", 0, MAX_SECONDS)

    @property
    def of_state(self) -> TaskState:
        """The state to search: ready if none is named."""
        return self.state or TaskState.READY

    def of(self, state: TaskState) -> "Filter":
        """Make the same filter for one state."""
        return replace(self, state=state)

    @property
    def everything(self) -> bool:
        """Return True if all tasks of the state pass."""
        return self == Filter(self.state, payloads=self.payloads)


EVERY_TASK = Filter()
"""The filter that all tasks pass."""
