"""`dpq dead`: lists and replays the dead letters."""

from typing import Annotated, Any

import typer

from dpq import DPQ, TaskState
from dpq.cli._existing import on_queue
from dpq.cli._options import TAKES_IDS, Json, OfGroup, OfReason, TaskIds, flag, option
from dpq.cli._terminal import talk
from dpq.cli.look import show_tasks
from dpq.queue.inside import operations_of, session_of
from dpq.verbs.stored import chosen_by

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
    any_of_them = reason is None and group is None
    skipped = max(0, q.stats().dead - count) if any_of_them else 0
    listed = operations_of(q).dead_list
    found = session_of(q).run(listed, 10**9, chosen_by(reason, group, None), skipped)
    show_tasks(q.queue_name, TaskState.DEAD, found[: -count - 1 : -1], json)
    if (more := skipped + len(found) - count) > 0:
        talk(f"{more} more: dpq dead list -n {count + more}")


@app.command(context_settings=TAKES_IDS)
@on_queue
def replay(
    q: DPQ[Any],
    ids: TaskIds = None,
    everything: Annotated[bool, flag("All dead tasks.", "--all")] = False,
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
