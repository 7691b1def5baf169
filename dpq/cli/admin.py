"""`dpq admin`: moves of operators on a whole queue."""

import sys
import time
from datetime import UTC
from typing import Annotated, Any

import typer

from dpq import DPQ
from dpq.cli._existing import on_new_queue, on_queue
from dpq.cli._options import Json, argument, flag, option
from dpq.cli._terminal import emit, talk
from dpq.cli.bulk import bulk
from dpq.cli.daemon import metrics, scheduler
from dpq.cli.transfer import export, import_
from dpq.model.display import shown
from dpq.model.moments import moment_of, say_moment
from dpq.types import Event
from dpq.views.events import event_text
from dpq.views.words import this_user

app = typer.Typer(no_args_is_help=True, help="Pause, change many tasks, export, run daemons.")

AT_ONCE = 1000
"""Events in one call, which is the most that a call returns."""

LOOK_SECONDS = 0.5
"""Seconds between two looks of --follow: soon enough for a reader, and cheap for the server."""


@app.command()
@on_new_queue
def pause(
    q: DPQ[Any],
    seconds: Annotated[
        float | None, argument("[SECONDS]", "The length of the pause.", unset="until resume")
    ] = None,
) -> None:
    """Pause the queue: no consumer gets a task."""
    q.pause(seconds, by=this_user("dpq admin pause"))
    how_long = "until `dpq admin resume`" if seconds is None else f"for {seconds:g} s"
    talk(f"paused {q.queue_name!r} {how_long}")


@app.command()
@on_new_queue
def resume(q: DPQ[Any]) -> None:
    """End a pause: consumers get tasks again."""
    q.resume(by=this_user("dpq admin resume"))
    talk(f"resumed {q.queue_name!r}")


app.command()(bulk)


@app.command()
@on_queue
def events(
    q: DPQ[Any],
    after: Annotated[
        str, option("ID", "Only what came after this event.", unset="the newest")
    ] = "",
    count: Annotated[int, option("COUNT", "Events at most.", "-n", min=1, max=AT_ONCE)] = 100,
    follow: Annotated[
        bool, flag("Go on with what happens, until Ctrl-C.", "--follow", "-f")
    ] = False,
    task: Annotated[str | None, option("ID", "Only the events of this task.", unset="all")] = None,
    kind: Annotated[
        list[str] | None, option("KIND", "Only events of this kind, such as failed; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Show what happened: failed attempts, deaths, 429s, limits set; the oldest first.

    The queue keeps about the last 10 000.
    """
    chosen: Any = {"task_id": task, "kinds": kind or ()}
    found = q.admin.events(after, count, **chosen)
    if not found:
        talk(f"nothing has happened to {q.queue_name!r} that people want to see")
    while True:
        for event in found:
            emit(event) if json else print(_line(event))
        if not follow:
            return
        sys.stdout.flush()
        after = found[-1].id if found else after
        if len(found) < AT_ONCE:
            time.sleep(LOOK_SECONDS)
        found = q.admin.events(after, AT_ONCE, **chosen)


def _line(event: Event) -> str:
    kind, detail, until_ms = event_text(event)
    if until_ms is not None:
        detail += f" {say_moment(moment_of(until_ms), event.at)}"
    words = (kind, event.task_id, event.group, event.member, detail)
    at = event.at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
    return " ".join((f"{at} UTC", *(shown(word) for word in words if word)))


app.command()(export)
app.command("import")(import_)
app.command()(scheduler)
app.command()(metrics)
