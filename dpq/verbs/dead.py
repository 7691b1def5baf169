"""The choice of dead letters: by their ids, or by filters.

`DeadLetters` and `AsyncDeadLetters` call it. It sends nothing.
"""

from collections.abc import Callable, Iterable, Sequence

from dpq.model.errors import ConfigurationError
from dpq.model.filter import filter_text, group_filter
from dpq.model.task import DeadTask, P
from dpq.script.command import task_id


def chosen_by(
    reason: str | None, group: str | None, where: Callable[[DeadTask[P]], bool] | None
) -> Callable[[DeadTask[P]], bool]:
    """Make a function that returns True for a dead task which passes all filters."""
    if reason is not None:
        filter_text("reason", reason)
    if group is not None:
        group_filter(group)
    if where is not None and not callable(where):
        raise ConfigurationError(f"where is {where!r:.200}: it must be a function of a dead task")
    return lambda task: (
        (reason is None or task.reason == reason)
        and (group is None or task.group == group)
        and (where is None or where(task))
    )


def some_ids(ids: Iterable[str] | str | None) -> Sequence[str] | None:
    """Make a list of one id or several, without duplicates; None for all."""
    if ids is None:
        return None
    several = isinstance(ids, Iterable) and not isinstance(ids, str)
    return list(dict.fromkeys(map(task_id, ids if several else [ids])))
