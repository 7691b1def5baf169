"""`dpq worker` runs handlers, in this process or in several; `dpq workers` shows who works."""

import logging
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any

import typer

from dpq.cli._job import Job, work
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Url, named
from dpq.cli._processes import Parent, children, end_with, report_through
from dpq.cli._reload import SourceWatch, sources_of
from dpq.cli._render import crew_table
from dpq.cli._terminal import Failed, emit, tables, talk
from dpq.model.errors import ConfigurationError
from dpq.model.validation import one_line
from dpq.operations.queue import QueueOperations
from dpq.queue.queue import all_names, ask_queues
from dpq.transport.connect import open_url
from dpq.worker.base import DEFAULT_GRACE, MAX_CONCURRENCY, MAX_PREFETCH
from dpq.worker.queue_order import QueueOrder

MAX_PROCESSES = 256

Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        metavar="NAME",
        envvar="DPQ_QUEUES",
        help="A queue; once for each (the variable: names, spaces between).",
        rich_help_panel="Where",
    ),
]


def worker(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:NAME",
            help="A function of a task, a dict of them by name, or a Tasks; async ones, too. "
            "Imported from the current directory.",
        ),
    ],
    queue: Queues = None,
    concurrency: Annotated[
        int, typer.Option(min=1, max=MAX_CONCURRENCY, help="Handlers at once, in each process.")
    ] = 1,
    prefetch: Annotated[
        int, typer.Option(min=0, max=MAX_PREFETCH, help="Tasks taken beyond those that run.")
    ] = 0,
    order: Annotated[
        QueueOrder, typer.Option(help="Ask the queues in this order, or in turn.")
    ] = "strict",
    visibility: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Of a lease; extended while a handler runs."),
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="A handler that runs longer has failed.")
    ] = None,
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="For handlers, after the first signal.")
    ] = DEFAULT_GRACE,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_PROCESSES,
            help="So many processes of their own, started again when they die.",
            show_default="this one alone",
        ),
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start again when a source file changes.")
    ] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="End when the queues are empty; shows how far it is.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, and warnings only.")
    ] = False,
    child_of: Annotated[int | None, typer.Option(hidden=True)] = None,
    report_to: Annotated[int | None, typer.Option(hidden=True)] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Run handlers of tasks until SIGTERM or Ctrl-C.

    \b
      dpq worker shop.tasks:tasks --queue mails --queue reports --concurrency 8

    The first signal lets handlers finish, the second gives their tasks back.
    Ends with 0: all have finished; 1: tasks were given back; 2: called wrongly.
    A Tasks that has a queue needs neither --queue nor --url.
    """
    settings = {
        "concurrency": concurrency,
        "prefetch": prefetch,
        "order": order,
        "visibility": visibility,
        "time_limit": time_limit,
        "grace": grace,
    }
    names = _named_queues(ctx, queue)
    on_beat = None if report_to is None else report_through(report_to)
    job = Job(target, url if named(ctx, "url") else None, names, settings, drain, quiet, on_beat)
    if quiet:
        logging.getLogger("dpq").setLevel(logging.WARNING)
    if child_of is not None:
        end_with(child_of)
    several = processes is not None or reload
    code = _lead(job, ctx, processes or 1, reload) if several else work(job)
    raise typer.Exit(code)


def _named_queues(ctx: typer.Context, queue: list[str] | None) -> list[str]:
    root = ctx.find_root()
    if queue:
        return list(dict.fromkeys(queue))
    return [str(root.params["queue"])] if named(root, "queue") else []


def _lead(job: Job, ctx: typer.Context, count: int, reload: bool) -> int:
    """Be the parent of processes that do the job; the first of them shows the progress."""
    if job.url is not None and job.url.partition("?")[0] == "embedded:":
        raise ConfigurationError(
            f"url is {job.url!r}: each process would have a server of its own; use embedded:DIR"
        )
    verbose = int(ctx.find_root().params["verbose"])
    words = [job.words(verbose, quiet=job.quiet) for _ in range(count)]
    if job.drain:
        words[1:] = [job.words(verbose, quiet=True) for _ in range(1, count)]
    environment = {} if job.url is None else {"DPQ_URL": job.url}
    changed = None
    if reload:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"  # its times are whole seconds: too coarse
        changed = SourceWatch(sources_of(job.target.partition(":")[0])).changed
    return Parent(children(words, environment), job.settings["grace"], changed).run()


def workers(
    ctx: typer.Context, queue: Queues = None, json: Json = False, url: Url = DEFAULT_URL
) -> None:
    """Show who works on the queues: of all that are known, unless some are named.

    A worker tells of itself every 10 seconds. One that died is shown for up to a minute. A queue
    that cannot be looked at is told with its error, and the end is 1.
    """
    opened = open_url(url)
    with closing(opened):
        names = [name.encode() for name in _named_queues(ctx, queue)]
        if not queue:
            names = [*dict.fromkeys([*names, *all_names(opened.client), DEFAULT_QUEUE.encode()])]
        answers = dict(ask_queues(opened.client, names, QueueOperations.workers))
    errors = {name: told for name, told in answers.items() if isinstance(told, Exception)}
    _show([told for name in answers if name not in errors for told in answers[name]], json)
    for name, error in errors.items():
        said = {"queue": name, "error": one_line(error)}
        emit(said) if json else talk("queue {queue!r}: {error}".format(**said))
    if errors:
        raise Failed(f"{len(errors)} of {len(answers)} queues cannot be looked at")


def _show(found: Sequence[Any], json: bool) -> None:
    """Print what the queues of a worker know as one row for each worker."""
    crew: dict[str, list[Any]] = {}
    for told in found:
        crew.setdefault(told.id, []).append(told)
    rows = [_merged(told) for told in crew.values()]
    rows.sort(key=lambda row: (row["since"], row["name"]))
    for row in rows if json else ():
        emit(row)
    if not rows:
        talk("no worker has told of itself; of a queue without a push so far, name it by --queue")
    elif not json:
        tables().print(crew_table(rows))


def _merged(told: Sequence[Any]) -> dict[str, Any]:
    last = max(told, key=lambda each: each.seen)
    return {
        **last.model_dump(exclude={"queue"}),
        "queues": [each.queue for each in told],
        "running": sum(each.running for each in told),
        "since": min(each.since for each in told),
    }
