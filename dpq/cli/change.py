"""Commands that change stored tasks or the whole queue: update, cancel, pause, purge and more."""

import os
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any, cast

import typer

from dpq import DPQ, TaskState
from dpq.cli._existing import existing
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    AnyTaskId,
    Json,
    Key,
    NewPriority,
    Queue,
    Url,
    Yes,
    option,
    read_cost,
)
from dpq.cli._terminal import emit, say, talk
from dpq.model.queue_settings import WhenFull
from dpq.operations.queue import UPKEEP_BATCH
from dpq.protocol.scripts import script, script_names
from dpq.registry.all_queues import forget_queues
from dpq.transport.connect import open_url
from dpq.transport.script_loading import load_scripts
from dpq.views.words import this_user


def update(
    task_id: AnyTaskId = None,
    key: Key = None,
    priority: NewPriority = None,
    delay: Annotated[
        float | None,
        option("SECONDS", "Make it ready so many seconds from now.", unset="unchanged"),
    ] = None,
    cost: Annotated[
        Any,
        option(
            "UNITS",
            "Requests that it takes of every limit; or by unit, as in tokens=1800.",
            unset="unchanged",
            parser=read_cost,
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Change a stored task. If it is running, only priority and cost, for when it comes back."""
    with existing(url, queue) as q:
        q.update(task_id, key=key, priority=priority, delay=delay, cost=cost)
    talk(f"updated {task_id or key}")


def cancel(
    task_id: AnyTaskId = None,
    key: Key = None,
    not_running: Annotated[
        bool, typer.Option("--not-running", help="Leave the task alone if it is running.")
    ] = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Remove a task; a recurring task ends.

    If it is running, its handler is told within a third of the visibility, 10 s at most; its ack
    finds it gone.
    """
    with existing(url, queue) as q:
        q.cancel(task_id, key=key, running=not not_running)
    talk(f"cancelled {task_id or key}")


def forget(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key to free.")],
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Free a key that has stayed taken after its task's ack, so that a push adds a task again.

    Such a key is of a task that was pushed with --unique-for. The key of a stored task is not
    freed.
    """
    with existing(url, queue) as q:
        freed = q.forget(key)
    talk(f"{key!r} is free" if freed else f"{key!r} was not taken by a task that was acked")


def pause(
    seconds: Annotated[
        float | None,
        typer.Argument(metavar="[SECONDS]", help="Pause for so long.", show_default="until resume"),
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Pause the queue: no consumer gets a task."""
    with DPQ[Any].from_url(url, queue) as q:
        q.pause(seconds, by=this_user("dpq pause"))
    talk(f"paused {queue!r} " + ("until `dpq resume`" if seconds is None else f"for {seconds:g} s"))


def resume(url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE) -> None:
    """End a pause: consumers get tasks again."""
    with DPQ[Any].from_url(url, queue) as q:
        q.resume(by=this_user("dpq resume"))
    talk(f"resumed {queue!r}")


class WhenFullChoice(StrEnum):
    """The fate of a push into a full group; typer needs an enum."""

    REFUSE = "refuse"
    DROP_WORST = "drop_worst"


def bounds(
    max_tasks: Annotated[
        int | None, option("N", "The most live tasks; 0 for no bound.", unset="unchanged")
    ] = None,
    max_waiting: Annotated[
        int | None,
        option("N", "The most waiting tasks of each group; 0 for no bound.", unset="unchanged"),
    ] = None,
    when_full: Annotated[
        WhenFullChoice | None,
        option("MODE", "If a group is full: refuse, or drop_worst of it.", unset="unchanged"),
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show the bounds of the queue, or set them; producers that wait for room hear of it."""
    if (max_tasks, max_waiting, when_full) != (None, None, None):
        with DPQ[Any].from_url(url, queue) as q:
            q.set_bounds(
                max_tasks=max_tasks,
                max_waiting=max_waiting,
                when_full=cast("WhenFull | None", when_full and when_full.value),
            )
    with existing(url, queue) as q:
        found, size = q.bounds(), q.size()
    if json:
        emit({"queue": queue, "size": size, **found._asdict()})
        return
    most, waiting, how = found
    say(f"{size} of at most {most} tasks" if most else f"{size} tasks, without a bound")
    say(f"groups: at most {waiting} waiting tasks, then {how}" if waiting else "groups: no bound")


def purge(
    state: Annotated[
        TaskState | None, typer.Option(help="Only tasks of this state.", show_default="all")
    ] = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Remove the whole queue: tasks, settings, totals, name.")
    ] = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Remove all tasks, also dead ones; prints how many. Needs --yes."""
    if drop and state is not None:
        raise typer.BadParameter("--drop removes the whole queue: leave out --state")
    confirm(yes, f"removes {state or 'all'} tasks of {queue!r}{' and the queue' * drop}")
    with existing(url, queue) as q:
        if drop:  # first of all, since it may be refused
            stats = q.stats()
            q.drop()
            print(sum(getattr(stats, each) for each in TaskState))
        else:
            print(q.purge(state))


def confirm(yes: bool, what: str) -> None:
    """Refuse to delete unless `--yes` was given."""
    if not yes:
        raise typer.BadParameter(f"this {what}: to do it, add --yes", param_hint="--yes")


def promote(url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE) -> None:
    """Move all tasks that are due, as pop and the scheduler do; prints how many moved."""
    moved = 0
    with existing(url, queue) as q:
        while (step := q.promote()) >= UPKEEP_BATCH:
            moved += step
    print(moved + step)


def scripts(
    show: Annotated[
        str | None,
        option("NAME", "Print this script as a server gets it, and load nothing.", unset="none"),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Load all scripts into the server, for Redis users without EVAL; prints how many."""
    if show:
        if show not in script_names():
            raise typer.BadParameter(
                f"it must be one of {', '.join(script_names())}", param_hint="--show"
            )
        print(script(show).text, end="")
        return
    with closing(open_url(url)) as opened:
        print(load_scripts(opened.client))


def register(
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Remove the names from the list; the queues stay stored."),
    ] = False,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Names of queues; without any, the one of --queue."
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Make queues known to the scheduler and to `dpq queues`.

    Usually the first push does this; some producers lack the right. A queue that does not exist
    yet is created, without tasks. A removed name comes back when a client with the right opens the
    queue. A scheduler removes names that have no queue.
    """
    with closing(open_url(url)) as opened:
        for name in names or [queue]:
            if remove:
                known = forget_queues(opened.client, [os.fsencode(name)])
                talk(f"{name!r} is no longer known" if known else f"{name!r} was not known")
            else:
                with DPQ[Any](opened.client, name) as q:
                    q.register()
                talk(f"registered {name!r}")
