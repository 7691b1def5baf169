"""`dpq dead`: list, replay and purge the dead letters."""

from typing import Annotated, Any

import typer

from dpq import TaskState
from dpq.cli._existing import existing
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    TAKES_IDS,
    Json,
    OfGroup,
    OfReason,
    Queue,
    TaskIds,
    Url,
    Yes,
    option,
)
from dpq.cli.change import confirm
from dpq.cli.look import show_tasks

app = typer.Typer(no_args_is_help=True, help="List, replay or purge dead letters.")


@app.command("list")
def list_dead(
    count: Annotated[int, option("COUNT", "Show at most so many tasks.", "-n")] = 100,
    reason: OfReason = None,
    group: OfGroup = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show dead tasks with their reason and last error; the oldest first."""
    with existing(url, queue) as q:
        show_tasks(queue, TaskState.DEAD, q.dead.list(count, reason=reason, group=group), json)


@app.command(context_settings=TAKES_IDS)
def replay(
    ids: TaskIds = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead tasks.")] = False,
    reason: OfReason = None,
    group: OfGroup = None,
    rate: Annotated[
        float | None, option("NUMBER", "Tasks per second.", unset="all at once")
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Make dead tasks ready again, with all their attempts; prints how many."""
    chosen = _chosen(ids, everything, reason, group)
    with existing(url, queue) as q:
        print(q.dead.replay(**chosen, rate=rate))


@app.command(context_settings=TAKES_IDS)
def purge(
    ids: TaskIds = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead tasks.")] = False,
    reason: OfReason = None,
    group: OfGroup = None,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Delete dead tasks; prints how many. Needs --yes."""
    chosen = _chosen(ids, everything, reason, group)
    confirm(yes, f"removes dead tasks of {queue!r}")
    with existing(url, queue) as q:
        print(q.dead.purge(**chosen))


def _chosen(
    ids: list[str] | None, everything: bool, reason: str | None, group: str | None
) -> dict[str, Any]:
    ways = [bool(ids), everything, reason is not None or group is not None]
    if sum(ways) != 1:
        raise typer.BadParameter("name the tasks: give ids, or --all, or --reason and --group")
    return {"ids": ids or None, "reason": reason, "group": group}
