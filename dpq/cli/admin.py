"""`dpq admin`: pauses, events, and a queue as lines of JSON: `export` and `import`."""

import sys
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic_core import from_json

from dpq import DPQ
from dpq.cli import _command as cmd
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, emit, talk
from dpq.cli.produce import open_lines
from dpq.model.display import shown
from dpq.model.moments import moment_of, say_moment
from dpq.types import Event
from dpq.views.events import event_text
from dpq.views.words import this_user

AT_ONCE = 1000
"""Events in one call, which is the most that a call returns."""

LOOK_SECONDS = 0.5
"""Seconds between two looks of --follow: soon enough for a reader, and cheap for the server."""

SHOWN = 5
"""Ids of damaged tasks that are named."""


@cmd.on_new_queue
def pause(q: DPQ[Any], seconds: cmd.ForSeconds = None) -> None:
    """Pause the queue: no consumer gets a task.

    Args:
        seconds: The length of the pause; if not given, until resume.
    """
    q.pause(seconds, by=this_user("dpq admin pause"))
    how_long = "until `dpq admin resume`" if seconds is None else f"for {seconds:g} s"
    talk(f"paused {q.queue_name!r} {how_long}")


@cmd.on_new_queue
def resume(q: DPQ[Any]) -> None:
    """End a pause: consumers get tasks again."""
    q.resume(by=this_user("dpq admin resume"))
    talk(f"resumed {q.queue_name!r}")


@cmd.on_queue
def events(
    q: DPQ[Any],
    after: cmd.Id | None = None,
    count: Annotated[int, cmd.option("COUNT", "-n", min=1, max=AT_ONCE)] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
    task: cmd.Id | None = None,
    kind: Annotated[list[str] | None, cmd.option("KIND")] = None,
    json: cmd.Json = False,
) -> None:
    """Show what happened: failed attempts, deaths, 429s, limits set; the oldest first.

    The queue keeps about the last 10 000.

    Args:
        after: Only what came after this event; if not given, the newest.
        count: Events at most.
        follow: Go on with what happens, until Ctrl-C.
        task: Only the events of this task.
        kind: Only events of this kind, such as failed; repeat it for more.
    """
    chosen: Any = {"task_id": task, "kinds": kind or ()}
    found = q.admin.events(after or "", count, **chosen)
    if not found:
        talk(f"nothing has happened to {q.queue_name!r} that people want to see")
    while True:
        for event in found:
            emit(event) if json else print(_line(event))
        if not follow:
            return
        sys.stdout.flush()
        after = found[-1].id if found else after or ""
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


class _Counted:
    """Lines that show on stderr how many were read or written."""

    def __init__(self, lines: Any, what: str) -> None:
        self._lines, self._what = lines, what
        self.seekable = getattr(lines, "seekable", lambda: False)

    def __iter__(self) -> Iterator[Any]:
        with Bar() as bar:
            for done, line in enumerate(self._lines, 1):
                yield line
                bar.show(f"{done} lines {self._what}", done)

    def tell(self) -> int:
        """Return the place in the file, to come back to it."""
        return int(self._lines.tell())

    def seek(self, place: int) -> None:
        """Go back to a place."""
        self._lines.seek(place)


@cmd.on_queue
def export(q: DPQ[Any]) -> None:
    """Write a queue to stdout, as lines of JSON: settings, limits and all tasks.

    Send stdout to a file; `dpq admin import` reads it. Pause the queue first for an exact copy: a
    task that moves during the export is written as it was at some moment, a new one perhaps not.
    """
    first, line, queue = "", "{}", q.queue_name
    damaged: list[str] = []
    for line in _Counted(q.admin.export(), "written"):
        sys.stdout.write(line)
        first = first or line
        if line.startswith('{"damaged":') and len(damaged) < SHOWN:
            damaged.append(ascii(from_json(line)["damaged"])[1:-1])
    sys.stdout.flush()
    end = from_json(line)
    talk(f"exported {end['tasks']} tasks and {end['limits']} limits of {queue!r}")
    if end["damaged"]:
        raise Failed(
            f"{end['damaged']} tasks or seen keys are damaged, and an import leaves them out: "
            f"{', '.join(damaged)}{', ...' * (end['damaged'] > SHOWN)}; see `dpq doctor --queue "
            f"{queue}`"
        )
    if end["changed"] and from_json(first)["paused_until"]:
        changes = ", ".join(f"{total} {count:+}" for total, count in end["changed"].items())
        raise Failed(
            f"this is no exact copy: the queue has changed meanwhile ({changes}); stop producers, "
            "and wait until no task is running, then export again"
        )


@cmd.on_new_queue
def import_(
    q: DPQ[Any],
    file: Annotated[Path | None, cmd.option("PATH")] = None,
    follow: bool = False,
    keep: bool = False,
    again: bool = False,
    order: cmd.NewOrder | None = None,
) -> None:
    """Add the tasks of an export to a queue, from stdin; nothing is added twice.

    A queue that does not exist gets the settings and limits of the export. After an error, give the
    same command again: it goes on where it was.

    Args:
        file: The export; without it, or for -, stdin is read.
        follow: Keep the queue's settings and limits, not the export's.
        keep: Leave out tasks whose id or key another task has.
        again: Also add tasks that were imported before, if they are no longer stored.
    """
    queue = q.queue_name
    with open_lines(file, "give an export on stdin (< FILE), or --file PATH") as stream:
        report = q.admin.import_(_Counted(stream, "read"), follow=follow, keep=keep, again=again)
    paused = not report.before and q.why().state == "paused"
    talk(f"imported {report.added} tasks and {report.limits} limits into {queue!r}")
    for count, why in (
        (report.stored, "were left as they are: the queue has them"),
        (report.before, "were imported before; --again adds those that are not stored any more"),
        (report.damaged, "were damaged in the export, and are left out"),
    ):
        if count:
            talk(f"{count} tasks {why}")
    if paused:
        talk(f"the queue is paused, as the exported one was: dpq admin resume --queue {queue}")
