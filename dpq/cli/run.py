"""`dpq run`: send a file of requests to an API under its limits, and save the answers."""

import os
import re
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dpq import RateLimit
from dpq.batch import BatchJob, BatchOutcome, run_batch
from dpq.cli._options import flag, named, option, reader
from dpq.cli._run_meter import RunMeter, tell_outcome
from dpq.cli._terminal import FAILED, INTERRUPTED
from dpq.limits import words
from dpq.worker.base import MAX_CONCURRENCY

JOB_OPTIONS = (
    *("file", "url", "save", "workers", "cost_from", "timeout", "attempts"),
    *("visibility", "ordered", "again", "retry_dead"),
)
"""Options that are attributes of the job."""


def run(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl",
            exists=True,
            dir_okay=False,
            help="A request body on each line; or a batch form, as OpenAI's {custom_id, method, "
            "url, body}, with an optional priority and cost.",
        ),
    ],
    url: Annotated[str, typer.Option("--url", help="The address of the API.")],
    limit: Annotated[
        list[RateLimit] | None,  # quotas too, but typer takes no union
        option(
            "RATE",
            "A limit of the API, as 500/m. Repeat it for more.",
            "--limit",
            parser=reader(words.read_word),
        ),
    ] = None,
    save: Annotated[
        Path | None,
        option(
            "FILE",
            "The answers, one JSON line each, on the disk before a request counts as done.",
            unset="FILE.results.jsonl",
        ),
    ] = None,
    also: Annotated[
        list[Path] | None,
        option(
            "FILE",
            "Answers that another machine has saved: not sent again; --ordered merges them.",
            seldom=True,
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    ordered: Annotated[
        bool, flag("At the end, put the answers into the file's order.", "--ordered")
    ] = False,
    header: Annotated[
        list[str] | None, option("'NAME: VALUE'", "A header of each request.")
    ] = None,
    header_env: Annotated[
        list[str] | None,
        option(
            "'NAME: VARIABLE'",
            "A header with the value of an environment variable, as in "
            "'Authorization: Bearer VARIABLE'.",
        ),
    ] = None,
    workers: Annotated[
        int, option("N", "Requests that are open at once, here.", min=1, max=MAX_CONCURRENCY)
    ] = 64,
    group: Annotated[
        str | None,
        option("NAME", "What shares the limit in the queue.", unset="the API's host", seldom=True),
    ] = None,
    cost_from: Annotated[
        str | None,
        option(
            "FIELD",
            "The field of a line that says its tokens, as in metadata.tokens.",
            unset="estimated: its texts, images and longest answer",
            seldom=True,
        ),
    ] = None,
    timeout: Annotated[
        float, option("SECONDS", "Longest time of an answer.", seldom=True, min=0.001)
    ] = 600.0,
    attempts: Annotated[
        int,
        option("N", "Failed attempts until a request is dead; a 429 is none.", seldom=True, min=1),
    ] = 10,
    visibility: Annotated[
        float,
        option(
            "SECONDS",
            "Time after which requests of a process that was killed are sent again.",
            seldom=True,
            min=0.1,
        ),
    ] = 30.0,
    retry_dead: Annotated[bool, flag("Send dead requests again.", "--retry-dead")] = False,
    again: Annotated[
        bool,
        flag("Send again what is done, but has no answer in the files.", "--again", seldom=True),
    ] = False,
    json: Annotated[
        bool, flag("Print the progress as JSON lines on stdout.", "--json", seldom=True)
    ] = False,
    redis: Annotated[
        str | None,
        option(
            "URL",
            "The queue's server; DPQ_URL, or --url before the command, name it too.",
            unset="a private one, in SAVE.queue",
            rich_help_panel="Where",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        option(
            "NAME",
            "The queue's name; DPQ_QUEUE, or --queue before the command, name it too.",
            unset="of FILE and its content",
            rich_help_panel="Where",
        ),
    ] = None,
) -> None:
    """Send each line of FILE to an API, within its limits, and save the answers.

    \b
      dpq run asks.jsonl --url https://api.openai.com/v1/chat/completions \\
        --limit 500/m --limit tokens=200000/m --save answers.jsonl \\
        --header-env 'Authorization: Bearer OPENAI_API_KEY'

    Killed or interrupted: run the same command again, and it goes on. With --redis,
    run it on more machines, each with its own --save: together they keep the limits.

    A 429, or a 503 or 529 that names a time, stops all of them until that is over.
    Another 5xx or no answer is tried again; another 4xx makes a dead letter. What
    refuses every line, as a wrong key, ends the run and leaves the lines.

    Exit codes: 0 all answers are saved, 1 some are not, 2 usage, 130 interrupted.
    """
    root = ctx.find_root()
    same = {name: ctx.params[name] for name in JOB_OPTIONS}
    job = BatchJob(
        limits=[*(limit or ())],
        headers=_headers(header or (), header_env or ()),
        server=redis or (str(root.params["url"]) if named(root, "url") else ""),
        queue=queue or (str(root.params["queue"]) if named(root, "queue") else ""),
        group=group or "",
        also=also or (),
        **same,
    )
    root.params["url"] = job.server  # errors mask the password of this URL
    outcome = run_batch(job, partial(RunMeter, as_json=json))
    tell_outcome(outcome, job.answers, as_json=json)
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


def _pair(text: str, option: str, what: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if not (colon and value and re.fullmatch("[A-Za-z0-9!#$%&'*+.^_`|~-]+", name)):
        raise typer.BadParameter(f"write it as 'NAME: {what}'", param_hint=option)
    return name, value
