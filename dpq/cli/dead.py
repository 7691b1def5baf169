"""`dpq dead`: lists and replays the dead letters."""

from typing import Annotated, Any

import typer

from dpq import DPQ, TaskState
from dpq.cli._existing import on_queue
from dpq.cli._options import TAKES_IDS, Json, OfGroup, OfReason, TaskIds, option
from dpq.cli._terminal import talk
from dpq.cli.look import show_tasks

app = typer.Typer(no_args_is_help=True, help="List or replay dead letters.")


@app.command("list")
@on_queue
def list_dead(
    q: DPQ[Any],
    count: Annotated[int, option("COUNT", "Tasks to show at most.", "-n", min=1)] = 20,
    reason: OfReason = None,
    group: OfGroup = None,
    json: Json = False,
) -> None:
    """Show dead tasks with their reason and last error; the newest first."""
    found = q.dead.list(10**9, reason=reason, group=group)
    show_tasks(q.queue_name, TaskState.DEAD, found[: -count - 1 : -1], json)
    if len(found) > count:
        talk(f"{len(found) - count} more: dpq dead list -n {len(found)}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def replay(
    q: DPQ[Any],
    ids: TaskIds = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead tasks.")] = False,
    reason: OfReason = None,
    group: OfGroup = None,
    rate: Annotated[
        float | None, option("NUMBER", "Tasks per second.", unset="all at once")
    ] = None,
) -> None:
    """Make dead tasks ready again, with all their attempts; prints how many."""
    if bool(ids) + everything + (reason is not None or group is not None) != 1:
        raise typer.BadParameter("name the tasks: give ids, or --all, or --reason and --group")
    print(q.dead.replay(ids or None, reason=reason, group=group, rate=rate))
