"""The choice of dead letters: by their ids, or by filters.

`DeadLetters` and `AsyncDeadLetters` call it. It sends nothing.
"""

from collections.abc import Callable, Iterable, Sequence

from dpq.model.filter import filter_text
from dpq.model.task import DeadTask, P
from dpq.model.validation import label


def chosen_by(
    reason: str | None, group: str | None, where: Callable[[DeadTask[P]], bool] | None
) -> Callable[[DeadTask[P]], bool]:
    """Make a function that returns True for a dead task which passes all filters.

    Raises:
        ConfigurationError: A filter is empty or of the wrong type.
    """
    if reason is not None:
        filter_text("reason", reason)
    if group is not None:
        label("group", group)
    return lambda task: (
        (reason is None or task.reason == reason)
        and (group is None or task.group == group)
        and (where is None or where(task))
    )


def some_ids(ids: Iterable[str] | str | None) -> Sequence[str] | None:
    """Make a list of one id or several, without duplicates; None for all."""
    if ids is None:
        return None
    return [ids] if isinstance(ids, str) else list(dict.fromkeys(ids))
