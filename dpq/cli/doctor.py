"""`dpq doctor`: problems of the server and of a queue, their meaning, and the way out.

With `--quick` a few checks in bounded time, for alarms and containers.
"""

import json as json_writer
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Annotated, Any, NamedTuple, TypeVar

import typer
from redis.exceptions import ResponseError
from rich.progress import SpinnerColumn

from dpq import DPQ, DPQError, TaskState
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
from dpq.cli._terminal import FAILED, Failed, emit, say, server_away_by, talk
from dpq.explain.operations import Operations
from dpq.link.asking import load_scripts as load_all
from dpq.link.connect import open_url
from dpq.model.diagnosis import clock_problems, explain
from dpq.model.filter import Filter
from dpq.model.masking import mask
from dpq.model.validation import error_line, one_line
from dpq.queue.inside import operations_of, session_of
from dpq.registry.all_queues import ask_queues, inspect_server, missing_queue
from dpq.script.command import Steps
from dpq.types import Problem, QueueStats, Verdict, VerdictState, WorkerInfo
from dpq.verbs.base import PAGE
from dpq.verbs.browse import LOOK_MOST, Browser

T = TypeVar("T")


WITHIN_SECONDS = 5.0
"""Seconds for all checks, unless --timeout names others: less than a probe usually waits."""


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
        found += of_server + _dead_schedules(q)
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
        talk(f"{verdict}. {verdict.what_to_do}".removesuffix(". "))
    if found or stuck:
        raise Failed(f"{len(found) + stuck} problems in {where}")
    talk(unknown or f"no problems in {where}")


def _dead_schedules(q: DPQ[Any]) -> list[Problem]:
    """Find recurring tasks among the dead letters; the verdict looks at the newest ones only."""
    chosen = Filter(TaskState.DEAD, recurring=True)
    try:
        found = session_of(q).run(Browser(operations_of(q)).search, chosen, None, PAGE, LOOK_MOST)
    except (DPQError, ResponseError):
        return []
    return [
        Problem(kind="schedule died", subject=t.id, detail=getattr(t, "reason", ""))
        for t in found.tasks
    ]


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


class Check(NamedTuple):
    """The result of one check."""

    check: str
    queue: str | None
    ok: bool
    detail: str


def show_health(
    url: str, names: Sequence[str], timeout: float, limits: "Limits", json: bool
) -> None:
    """Make the checks, and print a line for each; exit with 1 if one has failed."""
    warnings.simplefilter("ignore")  # a probe would repeat a warning a thousand times a day
    checks = _within(timeout, lambda: _checks(url, names, limits), url)
    for each in checks:
        if json:
            print(json_writer.dumps(each._asdict()))
        else:
            say("ok" if each.ok else "failed", each.check, each.queue or "-", each.detail)
    if not all(each.ok for each in checks):
        raise typer.Exit(FAILED)


class Limits(NamedTuple):
    """The bounds of the checks; None: not checked."""

    worker: float | None
    host: str
    oldest: float | None


def _within(seconds: float, look: Callable[[], list[Check]], url: str) -> list[Check]:
    """Look in another thread, so that a silent server or name server cannot delay the answer."""
    found: list[list[Check]] = []

    def run() -> None:
        try:
            found.append(look())
        except Exception as error:
            text = str(server_away_by(error) or error_line(error)).replace(url, mask(url))
            found.append([Check("server", None, ok=False, detail=text)])

    looking = threading.Thread(target=run, name="dpq-look", daemon=True)
    looking.start()
    looking.join(seconds)
    late = Check("server", None, ok=False, detail=f"no answer within {seconds:g} s")
    return found[0] if found else [late]


def _checks(url: str, names: Sequence[str], limits: Limits) -> list[Check]:
    opened = open_url(url)
    with closing(opened):
        began = time.monotonic()
        raw = [name.encode("utf-8", "surrogateescape") for name in dict.fromkeys(names)]
        answers = list(ask_queues(opened.client, raw, Operations.judged))
    ms = (time.monotonic() - began) * 1000
    checks = [Check("server", None, ok=True, detail=f"answers in {ms:.1f} ms")]
    for name, answer in answers:
        checks += _of_queue(name, answer, limits)
    return checks


def _of_queue(name: str, answer: Any, limits: Limits) -> Iterator[Check]:
    if isinstance(answer, Exception):
        yield Check("queue", name, ok=False, detail=one_line(answer))
        return
    (stats, _, workers), verdict = answer
    if verdict.state is VerdictState.SERVER_REFUSES:
        yield Check("server", name, ok=False, detail=verdict.because)
    if limits.oldest is not None:
        yield _oldest(name, stats, limits.oldest)
    if limits.worker is not None:
        yield _worker(name, workers, limits.host, limits.worker)


def _oldest(name: str, stats: QueueStats, seconds: float) -> Check:
    age = stats.oldest_ready_seconds
    said = "no task is ready" if age is None else f"the oldest is due for {age:.1f} s"
    return Check("oldest", name, age is None or age < seconds, said)


def _worker(name: str, workers: Sequence[WorkerInfo], host: str, seconds: float) -> Check:
    here = [each for each in workers if each.host == host]
    if not here:
        return Check("worker", name, ok=False, detail=f"no heartbeat of a worker on {host}")
    last = min(here, key=lambda each: each.seen_seconds)
    said = f"heartbeat of {last.name} {last.seen_seconds:.1f} s ago"
    return Check("worker", name, last.seen_seconds < seconds, said)
