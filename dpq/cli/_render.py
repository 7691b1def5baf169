"""Tasks and counts as rich tables. Text from the queue goes in without control characters."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic_core import to_json
from rich.table import Table

from dpq import DeadTask, LimitState, QueueStats, Task
from dpq._arguments import one_line
from dpq.cli._rates import per_text, rate_text

STATES = ("ready", "delayed", "invisible", "waiting", "dead")


def _table(
    title: str, *columns: str, numbers: Sequence[str] = (), wraps: Sequence[str] = ()
) -> Table:
    """An empty table; `numbers` names the columns that stand to the right, `wraps` those that give
    way where it is narrow, on more lines."""
    made = Table(title=title, title_justify="left", title_style="bold", pad_edge=False, box=None)
    for name in columns:
        side: Literal["left", "right"] = "right" if name in numbers else "left"
        gives = name in wraps
        overflow: Literal["fold", "ellipsis"] = "fold" if gives else "ellipsis"
        made.add_column(name, justify=side, no_wrap=not gives, overflow=overflow)
    return made


def _cells(values: Iterable[object]) -> Iterable[str]:
    return (_cell(value) for value in values)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:%Y-%m-%d %H:%M:%S}Z" if isinstance(value, datetime) else one_line(value)


def _json(payload: Any) -> str:
    return to_json(payload, inf_nan_mode="constants").decode()


def live_tasks(title: str, tasks: Sequence[Task[Any]]) -> Table:
    """Tasks that are not dead."""
    names = ("id", "priority", "group", "key", "attempt", "until (UTC)", "last error", "payload")
    made = _table(title, *names)
    for task in tasks:
        about = (
            task.id,
            task.priority,
            task.group,
            task.key,
            f"{task.attempt}/{task.max_attempts}",
        )
        made.add_row(*_cells((*about, task.visible_until, task.last_error, _json(task.payload))))
    return made


def dead_tasks(title: str, tasks: Sequence[DeadTask[Any]]) -> Table:
    """Dead letters."""
    names = ("id", "died (UTC)", "attempts", "reason", "last error", "priority", "group", "payload")
    made = _table(title, *names)
    for task in tasks:
        about = (task.id, task.died_at, task.attempts, task.reason, task.last_error)
        made.add_row(*_cells((*about, task.priority, task.group, _json(task.payload))))
    return made


def counts(name: str, stats: QueueStats, before: QueueStats | None, seconds: float) -> Table:
    """All counts of one queue; with an earlier look, how fast the totals grow."""
    made = _table(
        f"queue {name}",
        "count",
        "tasks",
        *(["per second"] if before else []),
        numbers=("tasks", "per second"),
    )
    for field, value in stats.model_dump(exclude={"oldest_ready_seconds"}).items():
        growth = [] if before is None or field in STATES else [value - getattr(before, field)]
        made.add_row(field, str(value), *(f"{more / seconds:.1f}" for more in growth))
    oldest = stats.oldest_ready_seconds
    made.add_row("oldest ready", "-" if oldest is None else f"{oldest:.1f} s")
    return made


def all_queues(found: dict[str, QueueStats]) -> Table:
    """The states of many queues, one on each line."""
    numbers = (*STATES, "pushed", "acked")
    made = _table("queues", "queue", *numbers, numbers=numbers)
    for name, stats in found.items():
        made.add_row(*_cells([name, *(getattr(stats, field) for field in numbers)]))
    return made
