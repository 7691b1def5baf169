"""`dpq events` and `dpq history`: what happened to a queue, and its counts minute by minute."""

import sys
import time
from collections.abc import Callable
from datetime import UTC
from typing import Annotated

import typer

from dpq import Event, Slot
from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url, option
from dpq.cli._render import slots_table
from dpq.cli._terminal import emit, tables, talk
from dpq.model.display import shown
from dpq.model.moments import moment_of, say_moment
from dpq.views.event_text import event_text

AT_ONCE = 1000
"""Events in one call, which is the most that a call returns."""

LOOK_SECONDS = 0.5
"""Seconds between two looks of --follow: soon enough for a reader, and cheap for the server."""

After = Annotated[str, option("ID", "Only what came after this event.", unset="the newest")]
Count = Annotated[int, option("COUNT", "Events at most.", "-n", min=1, max=AT_ONCE)]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
]


def events(
    after: After = "",
    count: Count = 100,
    follow: Follow = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show what happened to the queue: 429s, closings, deaths, limits set; the oldest first.

    The queue keeps the last thousand or so.
    """
    with existing(url, queue) as q:
        if not tell(q.events, after, count, follow, json):
            talk(f"nothing has happened to {queue!r} that people want to see")


def tell(
    read: Callable[[str, int], list[Event]], after: str, count: int, follow: bool, json: bool
) -> int:
    """Print events as lines, and go on with new ones on demand; return how many there were."""
    found = read(after, count)
    told = len(found)
    while True:
        say_events(found, json)
        if not follow:
            return told
        sys.stdout.flush()
        after = found[-1].id if found else after
        if len(found) < AT_ONCE:
            time.sleep(LOOK_SECONDS)
        found = read(after, AT_ONCE)


def say_events(found: list[Event], json: bool) -> None:
    """Print events as lines."""
    for event in found:
        if json:
            emit(event)
        else:
            print(_line(event))


def _line(event: Event) -> str:
    kind, detail, until_ms = event_text(event)
    if until_ms is not None:
        detail += f" {say_moment(moment_of(until_ms), event.at)}"
    words = (kind, event.task_id, event.group, event.member, detail)
    at = event.at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
    return " ".join((f"{at} UTC", *(shown(word) for word in words if word)))


def history(
    seconds: Annotated[
        float,
        option(
            "SECONDS", "How far back: minutes up to a day (86400), else quarters of an hour.", min=1
        ),
    ] = 3600,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show what the queue counted and held, minute by minute, the oldest first.

    Workers, the scheduler and the dashboard keep it while they run.
    """
    with existing(url, queue) as q:
        found: list[Slot] = q.history(seconds)
    if not found:
        talk(f"no history of {queue!r}: workers, the scheduler and the dashboard keep it")
    elif json:
        for slot in found:
            emit(slot)
    else:
        tables().print(slots_table(f"history of {queue}", found))
