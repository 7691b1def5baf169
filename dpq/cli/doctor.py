"""`dpq doctor`: problems of the server and of a queue, their meaning, and the way out."""

import socket
import time
from contextlib import closing
from typing import Annotated, Any, TypeVar

import typer
from redis.exceptions import ResponseError
from rich.progress import SpinnerColumn

from dpq import DPQ, DPQError
from dpq.cli._health import WITHIN_SECONDS, Limits, show_health
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    Json,
    Queues,
    Url,
    flag,
    named_queues,
    option,
)
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, emit, say, talk
from dpq.link.asking import load_scripts as load_all
from dpq.link.connect import open_url
from dpq.model.diagnosis import clock_problems, explain
from dpq.queue.inside import operations_of, session_of
from dpq.registry.all_queues import inspect_server, missing_queue
from dpq.script.command import Steps
from dpq.types import Problem, Verdict
from dpq.verbs.base import PAGE

T = TypeVar("T")


def doctor(
    ctx: typer.Context,
    quick: Annotated[
        bool, flag("Only see that the server answers: for alarms, containers.", "--quick")
    ] = False,
    worker: Annotated[
        float | None,
        option(
            "SECONDS",
            "With --quick: each queue has a worker on this host with a younger heartbeat. Workers "
            "send one every 10 s.",
            unset="not checked",
            min=0,
        ),
    ] = None,
    host: Annotated[str | None, option("NAME", "The host for --worker.", unset="this one")] = None,
    oldest: Annotated[
        float | None,
        option(
            "SECONDS",
            "With --quick: the oldest ready task of each queue is due for less than this.",
            unset="not checked",
            min=0,
        ),
    ] = None,
    timeout: Annotated[
        float, option("SECONDS", "With --quick: the server answers within this.", min=0.001)
    ] = WITHIN_SECONDS,
    load_scripts: Annotated[
        bool,
        flag(
            "Only load all scripts into the server, for users without EVAL; prints how many.",
            "--load-scripts",
        ),
    ] = False,
    json: Json = False,
    queue: Queues = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Check the server and all that the queue stores; explain each problem and its way out.

    It also judges the queue, as `dpq why` does. The exit code is 1 if there are problems, or if the
    queue does not go on by itself. It changes nothing, and is safe while the queue is in use.
    """
    names = named_queues(ctx, queue) or [DEFAULT_QUEUE]
    if load_scripts:
        with closing(open_url(url)) as opened:
            print(load_all(opened.client))
    elif quick:
        limits = Limits(worker, host or socket.gethostname(), oldest)
        show_health(url, names, timeout, limits, json)
    else:
        _examine(url, names, json)


def _examine(url: str, names: list[str], json: bool) -> None:
    if len(names) != 1:
        raise typer.BadParameter("without --quick it takes one", param_hint="--queue")
    queue = names[0]
    with DPQ[Any].from_url(url, queue) as q:
        with Bar(SpinnerColumn()) as bar:
            found = session_of(q).run(lambda: _watched(operations_of(q).check(), bar))
        of_server, missing = inspect_server(q)
        unknown = missing_queue(q)
        found += of_server
        verdict = _judge(q, found)
    for problem in found:
        _tell(problem, json)
    where = f"{queue!r}{'' if missing else ' and its server'}"
    if missing:
        seen = "" if "+info" in missing else " in full"
        talk(f"warning: the server was not checked{seen}: the Redis user needs {' '.join(missing)}")
    stuck = verdict is not None and verdict.needs_person and not unknown
    if verdict and stuck:
        _tell_verdict(verdict, json)
    elif verdict and not unknown:
        talk(str(verdict))
    if found or stuck:
        raise Failed(f"{len(found) + stuck} problems in {where}")
    talk(unknown or f"no problems in {where}")


def _watched(steps: Steps[T], bar: Bar) -> Steps[T]:
    """Show how much a check has looked at."""
    answer, pages = None, 0
    while True:
        try:
            command = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found
        answer = yield command
        pages += 1
        bar.show(f"checked {pages * PAGE} entries")


def _judge(q: DPQ[Any], found: list[Problem]) -> Verdict | None:
    """Make the verdict on a queue; None if its keys are damaged. Add a clock that is far off."""
    try:
        seen, verdict = session_of(q).run(operations_of(q).judged)
    except (DPQError, ResponseError):
        return None
    found += clock_problems(seen.survey.now_ms, time.time() * 1000)
    return verdict


def _tell_verdict(verdict: Verdict, json: bool) -> None:
    if json:
        found = Problem(kind=verdict.state, subject=verdict.queue, detail=verdict.who)
        told = {"meaning": str(verdict), "way_out": verdict.what_to_do}
        emit(found.model_dump() | told)
        return
    say(f"problem: {verdict}")
    say(f"  {verdict.what_to_do}")


def _tell(problem: Problem, json: bool) -> None:
    meaning, way_out = explain(problem)
    if json:
        emit(problem.model_dump() | {"meaning": meaning, "way_out": way_out})
        return
    say(f"problem: {problem.kind} {problem.subject}")
    say(f"  {meaning}")
    say(f"  {way_out}")
