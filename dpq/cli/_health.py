"""`dpq doctor --quick`: a few checks in bounded time, for alarms and containers."""

import json as json_writer
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import typer

from dpq.cli._terminal import FAILED, say, server_away_by
from dpq.explain.operations import Operations
from dpq.link.connect import open_url
from dpq.model.masking import mask
from dpq.model.validation import error_line, one_line
from dpq.registry.all_queues import ask_queues
from dpq.types import QueueStats, VerdictState, WorkerInfo

WITHIN_SECONDS = 5.0
"""Seconds for all checks, unless --timeout names others: less than a probe usually waits."""


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
