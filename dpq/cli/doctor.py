"""The doctor: what is wrong with the server and with a queue, what it means, and mending it."""

import warnings
from typing import Annotated, Any

import typer

from dpq import DPQ, Problem, ServerWarning
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url
from dpq.cli._terminal import Failed, emit, say, talk
from dpq.model.diagnosis import explain
from dpq.protocol.keys import STORAGE_FORMAT
from dpq.queue.queue import inspect_server


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend the queue; no task is lost by it.")
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many the queue has, when its settings are lost.",
            show_default="as it has",
        ),
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Look at the server and at all that is stored, say what is wrong and the way out.

    Ends with 1 when there are problems, with --repair when some are left. Safe while the queue is
    in use, and safe to run again.
    """
    warnings.simplefilter("ignore", ServerWarning)  # they are told below
    with DPQ[Any].from_url(url, queue, partitions=partitions) as q:
        mended = q.repair() if repair else []
        left = q.check()
        of_server, missing = inspect_server(q)
        left += of_server
    for problem in mended:
        _tell(problem, json, mended=True)
    for problem in left:
        _tell(problem, json, mended=False)
    if mended:
        talk(f"{len(mended)} mended in {queue!r}")
    where = f"{queue!r}{'' if missing else ' and its server'}"
    if missing:
        seen = "" if "+info" in missing else " in full"
        talk(f"warning: the server was not looked at{seen}: that needs {' '.join(missing)}")
    if left:
        raise Failed(f"{len(left)} problems in {where}")
    talk(f"no problems {'left ' if mended else ''}in {where}")


def upgrade(url: Url = DEFAULT_URL, queue: Queue = DEFAULT_QUEUE) -> None:
    """Raise the storage format of a queue, once no older DPQ uses it: docs/operations.md.

    Safe while the queue is in use, and safe to run again. Older programs are refused from then on.
    """
    with DPQ[Any].from_url(url, queue) as q:
        left = q.upgrade()
    if left:
        raise Failed(f"{left} tasks of {queue!r} are running: run this again when they have ended")
    talk(f"{queue!r} is stored in format {STORAGE_FORMAT}")


def _tell(problem: Problem, json: bool, *, mended: bool) -> None:
    meaning, way_out = explain(problem)
    if json:
        emit(problem.model_dump() | {"meaning": meaning, "way_out": way_out, "mended": mended})
        return
    say(f"{'mended:' if mended else 'problem:'} {problem.kind} {problem.subject}")
    say(f"  {meaning}")
    if not mended:
        say(f"  {way_out}")
