"""`dpq bulk`: an action on all tasks that pass a filter, with its progress."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.progress import BarColumn, TextColumn

from dpq import BulkProgress, Filter, TaskState
from dpq.cli._existing import existing
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    NewPriority,
    OfGroup,
    OfReason,
    Queue,
    Url,
    Yes,
    option,
)
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, talk
from dpq.cli.change import confirm
from dpq.model.filter import ANY
from dpq.operations.bulk import BURIED, OF_STATES
from dpq.views.words import this_user

DESTROYS = ("cancel", "bury", "purge")
"""Actions that need --yes."""


class Action(StrEnum):
    """The actions; typer needs an enum."""

    CANCEL = "cancel"
    UPDATE = "update"
    RUN = "run"
    RELEASE = "release"
    BURY = "bury"
    REPLAY = "replay"
    PURGE = "purge"


def bulk(
    action: Annotated[
        Action,
        typer.Argument(
            help="cancel or update live tasks, run delayed ones now, release or bury running ones, "
            "replay or purge dead ones."
        ),
    ],
    state: Annotated[
        TaskState | None,
        option("STATE", "ready, delayed, invisible, waiting or dead.", unset="any"),
    ] = None,
    group: OfGroup = None,
    key_prefix: Annotated[
        str | None, option("TEXT", "Only tasks whose key begins so.", unset="any")
    ] = None,
    least: Annotated[
        float | None, option("NUMBER", "Only from this priority on.", unset="any")
    ] = None,
    most: Annotated[
        float | None, option("NUMBER", "Only up to this priority.", unset="any")
    ] = None,
    older_than: Annotated[
        float | None,
        option("SECONDS", "Only tasks that were pushed, or died, so long ago.", unset="any"),
    ] = None,
    text: Annotated[
        str | None, option("TEXT", "Only with this in group, key, error or payload.", unset="any")
    ] = None,
    reason: OfReason = None,
    priority: NewPriority = None,
    because: Annotated[str | None, option("TEXT", "The reason of bury.", unset=BURIED)] = None,
    rate: Annotated[
        float | None, option("NUMBER", "Of replay: tasks per second.", unset="all at once")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the tasks, and print their number.")
    ] = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Act on all tasks that pass the filters, in steps; prints how many were changed.

    They are counted first, and no more are changed. Ctrl-C stops after the step that is running.
    """
    if (priority is not None) != (action is Action.UPDATE):
        raise typer.BadParameter("update needs a --priority, and no other action has one")
    chosen = Filter(
        state,
        ANY if group is None else group,
        least,
        ANY if text is None else text,
        ANY if reason is None else reason,
        most=most,
        key_prefix=ANY if key_prefix is None else key_prefix,
        older_than=older_than,
    )
    if action in DESTROYS and not dry_run:
        confirm(yes, f"{action}s tasks of {queue!r}")
    with existing(url, queue) as q:
        if dry_run:
            states = [each for each in OF_STATES[action] if state in (None, each)]
            print(sum(q.count(chosen.of(each)) for each in states))
            return
        with _shown() as shown:
            made = q.bulk(
                *(action.value, chosen),
                priority=priority,
                reason=because,
                rate=rate,
                progress=shown,
                by=this_user("dpq bulk"),
            )
    print(made.done)
    if made.missed:
        talk(f"{made.missed} tasks had changed meanwhile, and were left")
    if made.stopped:
        raise Failed(f"stopped: {made.done} of {made.count} tasks were changed")


class _Shown:
    """Shows the progress; returns False once the action is to stop."""

    def __init__(self) -> None:
        self.stops = False
        self.bar = Bar(
            BarColumn(), TextColumn("{task.fields[told]}"), lines=False, told="", total=1
        )

    def __call__(self, now: BulkProgress) -> bool:
        acted = now.done + now.missed
        told = f"{acted} of {now.count} done" if acted else f"{now.count} found"
        self.bar.show(told, told=told, completed=acted, total=max(1, now.count))
        return not self.stops


@contextmanager
def _shown() -> Iterator[_Shown]:
    """Show the progress of the body; Ctrl-C stops it after a step, a second one at once."""
    shown = _Shown()

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        shown.stops = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield shown
    finally:
        signal.signal(signal.SIGINT, before)
        shown.bar.stop()
