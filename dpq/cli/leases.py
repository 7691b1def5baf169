"""`dpq leases` lists running tasks; `release_all` is the part of `dpq release` for many tasks."""

from typing import Annotated, Any

import typer

from dpq import DPQ
from dpq.cli import _terminal
from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url, option
from dpq.cli._render import leases_table
from dpq.cli._terminal import emit, tables, talk
from dpq.model.display import shown
from dpq.operations.workers import MOST_NAMED, RELEASED_AT_ONCE

MOST = 10**9


def leases(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[QUEUE]", help="The queue.", show_default="that of --queue"),
    ] = None,
    count: Annotated[int, option("COUNT", "Show at most so many leases.", "-n", min=0)] = 100,
    worker: Annotated[
        str | None, option("NAME", "Only those of the worker of this name.", unset="all")
    ] = None,
    older_than: Annotated[
        float | None,
        option("SECONDS", "Only of tasks that were popped so long ago.", unset="all", min=0),
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show the running tasks, the longest held first: which worker holds each, and since when.

    A worker reports its leases every 10 seconds. A lease without a worker is younger than that, or
    its holder is no worker, or its worker is gone.
    """
    with existing(url, name or queue) as q:
        found = q.held(count, worker=worker, older_than=older_than)
    for lease in found if json else ():
        emit(lease)
    if not found:
        talk(f"no such lease in {q.queue_name!r}")
    elif not json:
        tables().print(leases_table(f"leases in {q.queue_name}", found))
        if len(found) == count:
            talk(f"perhaps more leases: dpq leases -n {10 * count}")


def release_all(q: DPQ[Any], worker: str | None, older_than: float | None, yes: bool) -> None:
    """Give back all leases of a worker or of an age, in steps; ask before."""
    found = q.held(MOST, worker=worker, older_than=older_than)
    more = _unnamed(q, worker) if worker is not None else 0
    if not found:
        talk(f"nothing to give back in {q.queue_name!r}")
    elif _agreed(f"gives back {len(found)} running tasks of {q.queue_name!r}", yes):
        step, done = 10 * RELEASED_AT_ONCE, 0
        for first in range(0, len(found), step):
            done += q.release_held(found[first : first + step])
            if len(found) > step:
                talk(f"gave back {done}, looked at {min(first + step, len(found))} of {len(found)}")
        talk(f"gave back {done}; {len(found) - done} had ended meanwhile")
        print(done)
    if more:
        talk(f"it holds {more} more: a heartbeat names {MOST_NAMED}. Do it again in 10 s")


def _unnamed(q: DPQ[Any], worker: str) -> int:
    told = [each for each in q.workers() if worker in (each.name, each.id)]
    return sum(max(0, each.holds - MOST_NAMED) for each in told)


def _agreed(what: str, yes: bool) -> bool:
    """Ask at a terminal; elsewhere demand `--yes`."""
    if yes:
        return True
    if not _terminal.asks():
        raise typer.BadParameter(f"this {what}: to do it, add --yes", param_hint="--yes")
    return typer.confirm(shown(f"This {what}; they may run again at once. Do it?"), err=True)
