"""`dpq doctor`: problems of the server and of a queue, their meaning, and the way out.

With `--quick` a few checks in bounded time, for alarms and containers.
"""

import socket
import time
import warnings
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any, NamedTuple

import typer
from redis.exceptions import ResponseError
from rich.progress import SpinnerColumn

from dpq import DPQ, DPQError, TaskState
from dpq.cli import _command as cmd
from dpq.cli._progress import Bar
from dpq.cli._terminal import FAILED, Failed, emit, say, server_away_by, talk
from dpq.explain.incidents import OF_SERVER
from dpq.explain.operations import Operations
from dpq.link.connect import open_url
from dpq.link.connections import load_scripts as load_all
from dpq.model.diagnosis import clock_problems, explain
from dpq.model.filter import Filter
from dpq.model.masking import mask
from dpq.model.rates import many
from dpq.model.validation import error_line, one_line
from dpq.queue.inside import operations_of, session_of
from dpq.registry.all_queues import ask_queues, inspect_server, missing_queue
from dpq.script.command import Steps
from dpq.types import Problem, Verdict, VerdictState, WorkerInfo
from dpq.verbs.base import PAGE
from dpq.verbs.batches import CHECK_PAGE
from dpq.verbs.browse import LOOK_MOST


@cmd.command
def doctor(
    ctx: typer.Context,
    quick: bool = False,
    worker: cmd.Positive | None = None,
    host: cmd.Name | None = None,
    oldest: cmd.Positive | None = None,
    timeout: Annotated[float, cmd.option("SECONDS", min=0.001)] = 5.0,  # a probe waits longer
    load_scripts: bool = False,
    json: bool = False,
    queue: cmd.Queues = None,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """Check the server and all that the queue stores; explain each problem and its way out.

    It also judges the queue, as `dpq why` does. The exit code is 1 if there are problems, or if the
    queue needs attention. It changes nothing, and is safe while the queue is in use.

    Args:
        quick: Only see that the server answers: for alarms and containers.
        worker: With --quick: fail if a queue has no worker on this host with a heartbeat younger
            than this. Workers send one every 10 s.
        host: The host for --worker; by default this one.
        oldest: With --quick: fail if a task of a queue has been due for this long.
        timeout: With --quick: fail if the server does not answer within this.
        load_scripts: Only load all scripts into the server, for users without EVAL; prints how
            many.
    """
    names = cmd.named_queues(ctx, queue) or [cmd.DEFAULT_QUEUE]
    if load_scripts:
        with closing(open_url(url)) as opened:
            print(load_all(opened.client))
    elif quick:
        warnings.simplefilter("ignore")  # a probe would repeat a warning a thousand times a day
        here = host or socket.gethostname()

        def look() -> list[Check]:
            try:
                return _checks(url, names, worker, here, oldest)
            except Exception as error:
                text = str(server_away_by(error) or error_line(error)).replace(url, mask(url))
                return [Check("server", None, ok=False, detail=text)]

        late = Check("server", None, ok=False, detail=f"no answer within {timeout:g} s")
        checks = cmd.within(timeout, look) or [late]
        for each in checks:
            said = ("ok" if each.ok else "failed", each.check, each.queue or "-", each.detail)
            emit(each._asdict()) if json else say(*said)
        if not all(each.ok for each in checks):
            raise typer.Exit(FAILED)
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
    where = f"{queue!r}{'' if missing else ' and its server'}"
    if missing:
        seen = "" if "+info" in missing else " in full"
        talk(f"warning: the server was not checked{seen}: the Redis user needs {' '.join(missing)}")
    problems = [(each, *explain(each)) for each in found]
    if verdict and verdict.needs_person and not unknown:
        judged = Problem(kind=verdict.state, subject=queue, detail=verdict.who)
        problems.append((judged, str(verdict), verdict.what_to_do))
    elif verdict and not unknown:
        talk(f"{verdict}. {verdict.what_to_do}".removesuffix(". "))
    for problem, meaning, way_out in problems:
        if json:
            emit({**problem.model_dump(), "meaning": meaning, "way_out": way_out})
        else:
            say(f"problem: {problem.kind} {problem.subject}")
            say(f"  {meaning}")
            say(f"  {way_out}")
    if problems:
        raise Failed(f"{many(len(problems), 'problem')} in {where}")
    talk(unknown or f"no problems in {where}")


def _dead_schedules(q: DPQ[Any]) -> list[Problem]:
    """Find recurring tasks among the dead letters; the verdict looks at the newest ones only."""
    chosen = Filter(TaskState.DEAD, recurring=True)
    try:
        found = session_of(q).run(operations_of(q).search, chosen, None, PAGE, LOOK_MOST)
    except (DPQError, ResponseError):
        return []
    dead: list[Any] = found.tasks
    return [Problem(kind="schedule died", subject=each.id, detail=each.reason) for each in dead]


def _watched(steps: Steps[Any], bar: Bar) -> Steps[Any]:
    """Show how much a check has looked at."""
    answer, entries = None, 0
    while True:
        try:
            answer = yield steps.send(answer)
        except StopIteration as end:
            return end.value
        entries += CHECK_PAGE
        bar.show(f"checked {entries} entries")


def _judge(q: DPQ[Any], found: list[Problem]) -> Verdict | None:
    """Make the verdict on a queue; None if its keys are damaged. Add a clock that is far off."""
    try:
        seen, verdict = session_of(q).run(operations_of(q).judged)
    except (DPQError, ResponseError):
        return None
    found += clock_problems(seen.survey.now_ms, time.time() * 1000)
    return verdict


class Check(NamedTuple):
    """The result of one check."""

    check: str
    queue: str | None
    ok: bool
    detail: str


def _checks(
    url: str, names: Sequence[str], worker: float | None, host: str, oldest: float | None
) -> list[Check]:
    with closing(open_url(url)) as opened:
        began = time.monotonic()
        raw = [name.encode("utf-8", "surrogateescape") for name in dict.fromkeys(names)]
        answers = list(ask_queues(opened.client, raw, Operations.judged))
    ms = (time.monotonic() - began) * 1000
    checks = [Check("server", None, ok=True, detail=f"answers in {ms:.1f} ms")]
    for name, answer in answers:
        if isinstance(answer, Exception):
            checks.append(Check("queue", name, ok=False, detail=one_line(answer)))
            continue
        (stats, _, workers), verdict = answer
        if verdict.state is VerdictState.SERVER_REFUSES:
            checks.append(Check("server", name, ok=False, detail=verdict.because))
        # A container must not be restarted for these, so they are no failures
        for kind in sorted(OF_SERVER.intersection(verdict.warnings)):
            checks.append(Check("server", name, ok=True, detail=f"warning: {kind}, see dpq why"))
        age = stats.oldest_ready_seconds
        if oldest is not None:
            said = "no task is ready" if age is None else f"the oldest has been due for {age:.1f} s"
            checks.append(Check("oldest", name, age is None or age < oldest, said))
        if worker is not None:
            checks.append(_worker(name, workers, host, worker))
    return checks


def _worker(name: str, workers: Sequence[WorkerInfo], host: str, seconds: float) -> Check:
    here = [each for each in workers if each.host == host]
    if not here:
        return Check("worker", name, ok=False, detail=f"no heartbeat of a worker on {host}")
    last = min(here, key=lambda each: each.seen_seconds)
    said = f"heartbeat of {last.name} {last.seen_seconds:.1f} s ago"
    return Check("worker", name, last.seen_seconds < seconds, said)
