"""`dpq doctor`: problems of the server and of a queue, their meaning, and the way out."""

import time
from typing import Any

from redis.exceptions import ResponseError

from dpq import DPQ, DPQError, Problem, Verdict
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url
from dpq.cli._terminal import Failed, emit, say, talk
from dpq.model.diagnosis import clock_problems, explain
from dpq.queue.inside import operations_of, session_of
from dpq.registry.all_queues import inspect_server, missing_queue


def doctor(
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Check the server and all that the queue stores; explain each problem and its way out.

    It also judges the queue, as `dpq why` does. The exit code is 1 if there are problems, or if the
    queue does not go on by itself. It changes nothing, and is safe while the queue is in use.
    """
    with DPQ[Any].from_url(url, queue) as q:
        found = q.check()
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
