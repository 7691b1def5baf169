"""Actions on many tasks: on some by their ids, or on all that pass a filter, in steps of 200.

An action on a filter first counts the tasks that pass, and acts on at most that many: so it ends.
It can be stopped after each step. No I/O.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from dpq.model.errors import ConfigurationError, LeaseLostError, TaskNotFoundError
from dpq.model.filter import Filter
from dpq.model.priority import encode_priority
from dpq.model.reports import BulkProgress
from dpq.model.task import TaskState
from dpq.model.validation import label
from dpq.script.command import Steps, together
from dpq.verbs.browse import LOOK_A_PAGE, Position
from dpq.verbs.queue import QueueOperations
from dpq.verbs.stored import chosen_by, spacing_of

BulkAction = Literal["cancel", "update", "run", "release", "bury", "replay", "purge"]
"""An action on many tasks."""

STEP = 200
"""Tasks in one step: 5 to 20 ms of server time, in calls for one task each."""

LIVE = (TaskState.WAITING, TaskState.READY, TaskState.DELAYED, TaskState.INVISIBLE)
"""Waiting tasks first: if the head of a group goes, the next one of them becomes ready."""

OF_STATES: dict[str, tuple[TaskState, ...]] = {
    "cancel": LIVE,
    "update": LIVE,
    "run": (TaskState.DELAYED,),
    "release": (TaskState.INVISIBLE,),
    "bury": (TaskState.INVISIBLE,),
    "replay": (TaskState.DEAD,),
    "purge": (TaskState.DEAD,),
}
"""The states of the tasks that each action takes."""

EVENTS = {
    "cancel": "cancelled {count}",
    "bury": "buried {count} running: {reason}",
    "replay": "replayed {count}",
    "purge": "purged {count} dead",
}
"""The details of events, of the actions that have one: one at the end, whatever the number of
steps."""

BURIED = "buried by hand"
"""The reason of `bury`, unless one is given."""


def act(
    operations: QueueOperations[Any],
    action: str,
    ids: Sequence[str],
    value: Any = None,
    *,
    alone: bool = False,
    rate: float | None = None,
    before: int = 0,
) -> Steps[tuple[int, int]]:
    """Do an action on some tasks; `tell` adds the one event of all such steps."""
    if action in ("replay", "purge"):
        some, every = list(dict.fromkeys(ids)), chosen_by(None, None, None)
        if action == "replay":
            done = yield from operations.dead_replay(some, every, rate, before=before, tells=False)
        else:
            done = yield from operations.dead_purge(some, every, tells=False)
        return done, len(ids) - done
    steps: list[Steps[Any]]
    if action == "cancel":
        steps = [operations.cancel(id_, None) for id_ in ids]
    elif action in ("update", "run"):
        change: tuple[Any, Any] = (None, 0) if action == "run" else (value, None)
        steps = [operations.update(id_, None, *change, None) for id_ in ids]
    else:
        found = (yield from together([operations.get(id_, None) for id_ in ids])) if ids else []
        running = [task for task in found if getattr(task, "state", None) is TaskState.INVISIBLE]
        if action == "release":
            steps = [operations.release(task, 0, None, None) for task in running]
        else:
            bury = operations.bury if alone else operations.bury_silently
            steps = [bury(task, value or BURIED) for task in running]
    done = 0
    for result in (yield from together(steps)) if steps else ():
        if not isinstance(result, Exception):
            done += 1
        elif isinstance(result, ConfigurationError) and action == "run":
            pass  # the task runs by now
        elif not isinstance(result, TaskNotFoundError | LeaseLostError):
            raise result
    return done, len(ids) - done


def tell(
    operations: QueueOperations[Any], action: str, done: int, value: Any, by: str
) -> Steps[None]:
    """Add the one event of an action, if it has one: how many tasks it has changed, and by whom."""
    if done and action in EVENTS:
        detail = EVENTS[action].format(count=done, reason=value or BURIED)
        yield from operations.tell_by_hand(detail, by)


class Bulk:
    """An action on all tasks that pass a filter: `run`; or `count_some`, then `step`.

    `value` is the new priority of `update`, or the reason of `bury`; `rate` is tasks per second of
    a replay. The counts are those of `BulkProgress`.
    """

    def __init__(
        self,
        operations: QueueOperations[Any],
        action: str,
        chosen: Filter,
        value: Any = None,
        rate: float | None = None,
        by: str | None = None,
    ) -> None:
        if not isinstance(chosen, Filter):
            raise ConfigurationError(
                f"chosen is {chosen!r:.200}: it must be a Filter; leave it out for all tasks"
            )
        if action not in tuple(OF_STATES):
            names = ", ".join(get_args(BulkAction))
            raise ConfigurationError(f"action is {action!r}: it must be one of {names}")
        if chosen.state not in (None, *OF_STATES[action]):
            raise ConfigurationError(f"{action!r} takes no tasks that are {chosen.state}")
        if action == "update":
            encode_priority(value)
        elif value is not None and action != "bury":
            raise ConfigurationError(
                f"{action!r} takes no reason: to choose tasks by theirs, give Filter(reason=...)"
            )
        spacing_of(rate)  # raises if it is wrong
        self.action, self.chosen, self.value, self.rate = action, chosen, value, rate
        self.count = self.searched = self.left = self.done = self.missed = 0
        self.counted = False
        self.by = "" if by is None else label("by", by)
        self._operations = operations
        self._begin()

    def _begin(self) -> None:
        chosen = self.chosen.state
        self._states = list(OF_STATES[self.action]) if chosen is None else [chosen]
        self._position: Position = None
        self.left = 0

    def progress(self, *, stopped: bool = False) -> BulkProgress:
        names = BulkProgress.model_fields.keys() - {"stopped"}
        return BulkProgress(stopped=stopped, **{name: getattr(self, name) for name in names})

    def run(self, progress: Callable[[BulkProgress], object] | None) -> Steps[BulkProgress]:
        """Count the tasks, then act on them; end early if `progress` returns False."""

        def goes_on() -> bool:
            return progress is None or progress(self.progress()) is not False

        going = True
        while going and (yield from self.count_some()):
            going = goes_on()
        while going and (yield from self.step()):
            going = goes_on()
        yield from self.tell()
        return self.progress(stopped=not going)

    def count_all(self) -> Steps[int]:
        while (yield from self.count_some()):
            pass
        return self.count

    def count_some(self) -> Steps[bool]:
        """Count tasks that pass, in one step; return False once all are counted."""
        state = self._states[0]
        chosen = self.chosen.of(state)
        if chosen.everything:
            stats = yield from self._operations.stats()
            passed = getattr(stats, state.value)
            self.count, self.searched = self.count + passed, self.searched + passed
            self._states.pop(0)
        else:
            found = yield from self._operations.search(chosen, self._position, 0, LOOK_A_PAGE)
            self._go_on(found)
            self.count += found.passed
        if not self._states:
            self.counted = True
            self._begin()
        return not self.counted

    def step(self) -> Steps[bool]:
        """Act on up to 200 tasks; return False at the end."""
        left = self.count - self.done - self.missed
        if not self._states or left <= 0:
            return False
        chosen = self.chosen.of(self._states[0])
        found = yield from self._operations.search(chosen, self._position, STEP, LOOK_A_PAGE)
        ids = [task.id for task in found.tasks if not self._is_so(task)][:left]
        some = self._operations, self.action, ids, self.value
        done, missed = yield from act(*some, rate=self.rate, before=self.done)
        self._go_on(found)
        self.done, self.missed = self.done + done, self.missed + missed
        return True

    def _go_on(self, found: Any) -> None:
        self._position, self.left = found.position, found.left
        self.searched += found.looked
        if not found.left or not (found.looked or found.tasks):
            self._states.pop(0)
            self._position = None

    def _is_so(self, task: Any) -> bool:
        """Return True for a task that has the new priority already: a task may come twice."""
        return self.action == "update" and bool(task.priority == self.value)

    def tell(self) -> Steps[None]:
        return tell(self._operations, self.action, self.done, self.value, self.by)
