"""`dpq run`: send a file of requests to an API under its limits, and save the answers.

The progress is a bar at a terminal, else a line every 5 s; or lines of JSON.
"""

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.progress import BarColumn

from dpq import AsyncDPQ
from dpq.batch import BatchJob, BatchOutcome, Progress, run_batch
from dpq.batch.job import HEADER_NAME
from dpq.cli import _command as cmd
from dpq.cli._progress import Bar, repeated
from dpq.cli._terminal import FAILED, INTERRUPTED, emit, talk
from dpq.explain.pace import KEPT_SECONDS, Point, pace_of
from dpq.limits import words
from dpq.model.masking import mask
from dpq.model.moments import say_moment
from dpq.types import LimitState, QueueStats
from dpq.worker.base import MAX_CONCURRENCY

_rate = cmd.reader(words.read_word)


@cmd.command
def run(
    ctx: typer.Context,
    file: Annotated[Path, cmd.argument("FILE.jsonl", exists=True, dir_okay=False)],
    url: Annotated[str, typer.Option("--url")],
    limit: Annotated[list[Any] | None, cmd.option("RATE", parser=_rate)] = None,
    save: Annotated[Path | None, cmd.option("FILE")] = None,
    also: Annotated[list[Path] | None, cmd.option("FILE", exists=True, dir_okay=False)] = None,
    ordered: bool = False,
    header: Annotated[list[str] | None, cmd.option("'NAME: VALUE'")] = None,
    header_env: Annotated[list[str] | None, cmd.option("'NAME: VARIABLE'")] = None,
    workers: Annotated[int, cmd.option("N", min=1, max=MAX_CONCURRENCY)] = 64,
    group: cmd.Name | None = None,
    cost_from: Annotated[str | None, cmd.option("FIELD")] = None,
    timeout: Annotated[float, cmd.option("SECONDS", min=0.001)] = 600.0,
    attempts: Annotated[int, cmd.option("N", min=1)] = 10,
    visibility: Annotated[float, cmd.option("SECONDS", min=0.1)] = 30.0,
    retry_dead: bool = False,
    again: bool = False,
    json: bool = False,
    redis: Annotated[str | None, cmd.option("URL")] = None,
    queue: cmd.Name | None = None,
) -> None:
    """Send each line of FILE to an API, within its limits, and save the answers.

      dpq run asks.jsonl --url https://api.openai.com/v1/chat/completions \\
        --limit 500/m --limit tokens=200000/m --save answers.jsonl \\
        --header-env 'Authorization: Bearer OPENAI_API_KEY'

    If it was killed or interrupted, run the same command again, and it goes on. With --redis, run
    it on more machines, each with its own --save: together they keep the limits.

    A 429, or a 503 or 529 that names a time, stops all of them until that is over. Another 5xx or
    no answer is tried again; another 4xx makes a dead letter. An error that every line would get,
    such as a wrong key, ends the run and keeps the lines.

    Exit codes: 0 all answers are saved, 1 some are not, 2 usage, 130 interrupted.

    Args:
        file: A request body on each line; or a batch form, as OpenAI's {custom_id, method, url,
            body}, with an optional priority and cost.
        url: The address of the API.
        limit: A limit of the API, as 500/m. Repeat it for more.
        save: The answers, one JSON line each, on the disk before a request counts as done; by
            default FILE.results.jsonl.
        ordered: At the end, put the answers into the file's order.
        header: A header of each request.
        header_env: A header with the value of an environment variable, as in 'Authorization: Bearer
            VARIABLE'.
        workers: Requests that are open at once, on this machine.
        retry_dead: Send dead requests again.

    Seldom needed:
        also: Answers that another machine has saved: not sent again; --ordered merges them.
        group: The group that shares the limit; by default the API's host.
        cost_from: The field of a line that says its tokens, as in metadata.tokens; by default they
            are estimated from its texts, images and longest answer.
        timeout: Longest wait for an answer.
        attempts: Failed attempts until a request is dead; a 429 does not count.
        visibility: Time after which requests of a process that was killed are sent again.
        again: Send again what is done, but has no answer in the files.
        json: Print the progress as JSON lines on stdout.

    Where:
        redis: The queue's server, which DPQ_URL, or --url before the command, may also name; by
            default a private one, in SAVE.queue.
        queue: The queue's name, which DPQ_QUEUE, or --queue before the command, may also name; by
            default it is made of FILE and its content.
    """
    root = ctx.find_root()
    changed = {
        "limits": [*(limit or ())],
        "headers": _headers(header or (), header_env or ()),
        "server": redis or (str(root.params["url"]) if cmd.named(root, "url") else ""),
        "queue": queue or (str(root.params["queue"]) if cmd.named(root, "queue") else ""),
        **{"group": group or "", "also": also or ()},
    }
    names = {each.name for each in fields(BatchJob)} & ctx.params.keys()
    job = BatchJob(**{name: ctx.params[name] for name in names} | changed)
    root.params["url"] = job.server  # errors mask the password of this URL
    outcome = run_batch(job, partial(RunMeter, as_json=json))
    tell_outcome(outcome, job.answers, mask(job.server), as_json=json)
    raise typer.Exit(exit_code(outcome))


def exit_code(outcome: BatchOutcome) -> int:
    """Return the exit code of a run."""
    if outcome.left and not outcome.stopped:
        return INTERRUPTED
    lost = outcome.missing and outcome.alone
    return FAILED if outcome.stopped or outcome.dead or lost else 0


def _headers(given: list[str] | tuple[()], in_variables: list[str] | tuple[()]) -> dict[str, str]:
    """Read the headers. An error never repeats a value."""
    headers = dict(_pair(text, "--header", "VALUE") for text in given)
    for text in in_variables:
        name, value = _pair(text, "--header-env", "VARIABLE")
        before, space, variable = value.rpartition(" ")
        key = os.environ.get(variable, "").strip()
        if not key:
            raise typer.BadParameter(
                f"there is no environment variable {variable!r}, or it is empty",
                param_hint="--header-env",
            )
        headers[name] = before + space + key
    return headers


def _pair(text: str, flag: str, what: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not (colon and value and HEADER_NAME.fullmatch(name)):  # else the name may hold a secret
        raise typer.BadParameter(f"write it as 'NAME: {what}'", param_hint=flag)
    return name, value


class RunMeter(Progress):
    """Shows how many requests of a batch are finished, on all machines together."""

    def __init__(self, total: int, *, as_json: bool) -> None:
        super().__init__(total)
        self._json = as_json
        self._limited_before: int | None = None
        self._seen: list[Point] = []
        self._bar = Bar(BarColumn(bar_width=24), lines=as_json, at_once=True)

    def say(self, text: str) -> None:
        """Write a message for a waiting person."""
        talk(text)

    @asynccontextmanager
    async def showing(self, queue: AsyncDPQ[Any], group: str) -> AsyncIterator[None]:
        """Show the progress while the body runs: of the queue, and of its group."""

        async def look() -> None:
            self._show(await queue.stats(), await queue.admin.group(group))

        await look()
        with self._bar:
            async with repeated(self._bar.seconds, look):
                yield

    def _show(self, stats: QueueStats, state: LimitState) -> None:
        closed = state.opens_at if state.reason in ("rate limited", "closed by hand") else None
        left = stats.live
        done = max(0, self.total - left)
        now = time.monotonic()
        self._seen = [each for each in self._seen if each.at >= now - KEPT_SECONDS]
        self._seen.append(Point(now, left, delayed=0, pushed=0, replayed=0, acked=done))
        pace = pace_of(self._seen)
        if self._limited_before is None:
            self._limited_before = stats.rate_limited  # 429s of earlier runs
        rate = pace.done or 0.0
        told = {
            "done": done,
            "total": self.total,
            "dead": stats.dead,
            "rate_limited": max(0, stats.rate_limited - self._limited_before),
            "refused_here": dict(self.refused_here),
            "per_minute": round(rate * 60, 1),
            "seconds_left": round(left / rate) if rate else None,
            "closed_until": closed,
        }
        if self._json:
            emit(told)
            return
        text = f"{rate * 60:.0f}/min, {_refusals(self.refused_here)}, dead {stats.dead}, "
        text += pace.say
        if closed:
            text += f", {state.reason} until {say_moment(closed, datetime.now(UTC))}"
        self._bar.show(f"{done} of {self.total}, {text}", done, self.total)


def tell_outcome(outcome: BatchOutcome, save: Path, server: str, *, as_json: bool) -> None:
    """Say how a run has ended, and what to do about the rest."""
    if as_json:
        told = {name: getattr(outcome, name) for name in ("saved", "total", "dead", "left")}
        told |= {"sent_here": outcome.saved_here, "rate_limited_here": outcome.limited_here}
        told |= {"refused_here": dict(outcome.refused_here), "seconds": round(outcome.seconds, 3)}
        emit({**told, "stopped": outcome.stopped or None})
    else:
        if outcome.stopped:
            talk(f"stopped: {outcome.stopped}")
        took, refused = timedelta(seconds=round(outcome.seconds)), _refusals(outcome.refused_here)
        talk(
            f"{outcome.saved} of {outcome.total} saved, {outcome.saved_here} of them now, in "
            f"{took}; {refused}, dead {outcome.dead}, left {outcome.left}"
        )
    for death in outcome.deaths:
        talk(f"dead: {death}")
    if outcome.dead:
        talk(
            f"dead letters: {outcome.dead}; `dpq --url {quote(server)} --queue {outcome.queue} "
            "dead list` shows them, --retry-dead sends them again"
        )
    if outcome.left:
        talk(f"requests left: {outcome.left}; run the same command again to go on")
    elif outcome.missing:
        talk(
            f"results missing in {save}: {outcome.missing}; another machine has them (name its "
            "file with --also), or they were lost (--again sends these requests again)"
        )


def _refusals(refused: Mapping[str, int]) -> str:
    """Write the number of requests for each refusing status, as in `429s 0, 503s 8`."""
    texts = (f"{said}{'s' * said.isdecimal()} {count}" for said, count in sorted(refused.items()))
    return ", ".join(texts)
