"""`dpq trail`: what happened to each task of a queue that keeps that, or to one task."""

from typing import Annotated, Any

import typer

from dpq import DPQ
from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url
from dpq.cli._terminal import talk
from dpq.cli.events import After, Count, Follow, say_events, tell
from dpq.operations.one_task import task_trail
from dpq.queue.inside import operations_of, session_of


def trail(
    task_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="Only this task.", show_default="all tasks"),
    ] = None,
    after: After = "",
    count: Count = 100,
    follow: Follow = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show what happened to each task: pushes, deliveries, ends; the oldest first.

    Only a queue made with `DPQ(..., trail_max_events=N)` keeps that. `dpq events` has the rare
    things of every queue. With an ID, it looks at the newest 100 000 events.
    """
    if task_id and (after or follow):
        raise typer.BadParameter("an ID goes with neither --after nor --follow")
    with existing(url, queue) as q:
        found = (
            _of_task(q, task_id, count, json)
            if task_id
            else tell(q.trail, after, count, follow, json)
        )
        if not found:
            about = f"of {task_id!r} in the trail" if task_id else "in the trail"
            talk(f"nothing {about} of {queue!r}: is it made with trail_max_events?")


def _of_task(q: DPQ[Any], task_id: str, count: int, json: bool) -> int:
    """Print the newest events of one task; return how many there were."""
    found = session_of(q).run(task_trail, operations_of(q), task_id)
    say_events(found.events[-count:], json)
    if not found.whole:
        talk(f"looked at the newest {found.looked} events of the trail; older ones were not read")
    return len(found.events)
