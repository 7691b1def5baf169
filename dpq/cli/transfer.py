"""`dpq admin export` and `dpq admin import`: a queue as lines of JSON, to stdout and from stdin."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from dpq import DPQ
from dpq.cli._existing import on_new_queue, on_queue
from dpq.cli._options import NewOrder, flag, option
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, talk
from dpq.cli.produce import open_lines

SHOWN = 5
"""Ids of damaged tasks that are named."""


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


@on_queue
def export(q: DPQ[Any]) -> None:
    """Write a queue to stdout, as lines of JSON: settings, limits and all tasks.

    Send stdout to a file; `dpq admin import` reads it. Unless the queue is paused it is no
    snapshot: a task that moves meanwhile is written as it is at some moment, a new one perhaps not.
    """
    first, line, queue = "", "{}", q.queue_name
    damaged: list[str] = []
    for line in _Counted(q.admin.export(), "written"):
        sys.stdout.write(line)
        first = first or line
        if line.startswith('{"damaged":') and len(damaged) < SHOWN:
            damaged.append(ascii(json.loads(line)["damaged"])[1:-1])
    sys.stdout.flush()
    end = json.loads(line)
    talk(f"exported {end['tasks']} tasks and {end['limits']} limits of {queue!r}")
    if end["damaged"]:
        raise Failed(
            f"{end['damaged']} tasks or seen keys are damaged, and an import leaves them out: "
            f"{', '.join(damaged)}{', ...' * (end['damaged'] > SHOWN)}; see `dpq doctor --queue "
            f"{queue}`"
        )
    if end["changed"] and json.loads(first)["paused_until"]:
        changes = ", ".join(f"{total} {count:+}" for total, count in end["changed"].items())
        raise Failed(
            f"this is no exact copy: the queue has changed meanwhile ({changes}); stop producers, "
            "and wait until no task is running, then export again"
        )


@on_new_queue
def import_(
    q: DPQ[Any],
    file: Annotated[Path | None, option("PATH", "The export; - is stdin.", unset="stdin")] = None,
    follow: Annotated[
        bool, flag("Keep the queue's settings and limits, not the export's.", "--follow")
    ] = False,
    keep: Annotated[
        bool, flag("Leave out tasks whose id or key another task has.", "--keep")
    ] = False,
    again: Annotated[
        bool, flag("Add what is not stored, also what was imported before.", "--again")
    ] = False,
    order: NewOrder = None,
) -> None:
    """Add the tasks of an export to a queue, from stdin; nothing is added twice.

    A queue that does not exist gets the settings and limits of the export. After an error, give the
    same command again: it goes on where it was.
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
