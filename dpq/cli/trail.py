"""`dpq trail`: what happened to each task of a queue that keeps that."""

import sys
import time
from typing import Annotated, Any

import typer

from dpq import DPQ, Event
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url
from dpq.cli._terminal import emit, talk
from dpq.model.display import shown

AT_ONCE = 1000
"""Events in one call: as many as a call may bring."""

LOOK_SECONDS = 0.5
"""Seconds between two looks of --follow: soon enough for who reads along, and cheap."""


def trail(
    after: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Only what came after this event.", show_default="the newest"
        ),
    ] = "",
    count: Annotated[
        int, typer.Option("-n", metavar="COUNT", min=1, max=AT_ONCE, help="Events at most.")
    ] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
    ] = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show what happened to each task: pushes, deliveries, ends; the oldest first.

    Only a queue made with `DPQ(..., trail_max_events=N)` keeps that. `dpq events` has the rare
    things of every queue.
    """
    with DPQ[Any].from_url(url, queue) as q:
        found = q.trail(after, count)
        if not found and not follow:
            talk(f"nothing in the trail of {queue!r}: is it made with trail_max_events?")
        while True:
            for event in found:
                if json:
                    emit(event)
                else:
                    print(_line(event))
            if not follow:
                return
            sys.stdout.flush()
            after = found[-1].id if found else after
            if len(found) < AT_ONCE:
                time.sleep(LOOK_SECONDS)
            found = q.trail(after, AT_ONCE)


def _line(event: Event) -> str:
    at = event.at.astimezone().isoformat(" ", "milliseconds")
    words = (event.kind, event.task_id, event.group, event.member, event.detail)
    return " ".join((at, *(shown(word) for word in words if word)))
