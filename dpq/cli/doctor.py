"""`dpq doctor`: problems of the server and of a queue, their meaning, and the repair."""

from typing import Annotated, Any

import typer

from dpq import DPQ, Problem
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url, option
from dpq.cli._terminal import Failed, emit, say, talk
from dpq.model.diagnosis import explain
from dpq.registry.all_queues import inspect_server, missing_queue


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend the queue. It loses no task.")
    ] = False,
    partitions: Annotated[
        int | None,
        option(
            "N", "The queue's number of partitions, if its settings are lost.", unset="as it has"
        ),
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Check the server and all that the queue stores; explain each problem and its way out.

    The exit code is 1 if there are problems; with --repair, if some are left. It is safe while the
    queue is in use, and safe to repeat.
    """
    with DPQ[Any].from_url(url, queue, partitions=partitions) as q:
        mended = q.repair() if repair else []
        left = q.check()
        of_server, missing = inspect_server(q)
        unknown = missing_queue(q)
        left += of_server
    for problem in mended:
        _tell(problem, json, mended=True)
    for problem in left:
        _tell(problem, json, mended=False)
    if mended:
        talk(f"mended {len(mended)} problems of {queue!r}")
    where = f"{queue!r}{'' if missing else ' and its server'}"
    if missing:
        seen = "" if "+info" in missing else " in full"
        talk(f"warning: the server was not checked{seen}: the Redis user needs {' '.join(missing)}")
    if left:
        raise Failed(f"{len(left)} problems in {where}")
    talk(unknown or f"no problems {'left ' if mended else ''}in {where}")


def _tell(problem: Problem, json: bool, *, mended: bool) -> None:
    meaning, way_out = explain(problem)
    if json:
        emit(problem.model_dump() | {"meaning": meaning, "way_out": way_out, "mended": mended})
        return
    say(f"{'mended:' if mended else 'problem:'} {problem.kind} {problem.subject}")
    say(f"  {meaning}")
    if not mended:
        say(f"  {way_out}")
