"""`dpq worker` runs handlers, in this process or in several; `dpq workers` lists workers."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Annotated, Any

import typer

from dpq.cli import _command as cmd
from dpq.cli._job import Job, run_task, work
from dpq.cli._processes import Parent, children, report_through
from dpq.cli._render import LEASES, WORKERS, report
from dpq.cli._terminal import Failed, Log, emit, log_more, talk
from dpq.cli.daemon import LOCAL, Address, HealthSource, PortNumber
from dpq.explain.operations import Operations
from dpq.explain.verdict import some_of
from dpq.link.connect import open_url
from dpq.model.errors import ConfigurationError
from dpq.model.rates import many
from dpq.model.validation import one_line
from dpq.registry.all_queues import all_names, ask_queues
from dpq.views.words import this_user
from dpq.views.workers import Working, working
from dpq.worker.base import DEFAULT_GRACE, MAX_CONCURRENCY, MAX_PREFETCH, QueueOrder

# Options that are arguments of the worker
SETTINGS = ["concurrency", "prefetch", "order", "visibility", "time_limit", "keep_result"]
SETTINGS += ["grace", "version"]


@cmd.command
def worker(
    ctx: typer.Context,
    target: Annotated[str, cmd.argument("MODULE:NAME")],
    concurrency: Annotated[int, cmd.option("N", min=1, max=MAX_CONCURRENCY)] = 1,
    prefetch: Annotated[int, cmd.option("N", min=0, max=MAX_PREFETCH)] = 0,
    order: QueueOrder = "strict",
    visibility: cmd.Seconds | None = None,
    time_limit: cmd.Seconds | None = None,
    keep_result: cmd.Seconds | None = None,
    grace: cmd.Positive = DEFAULT_GRACE,
    version: Annotated[str | None, cmd.option("TEXT", envvar="DPQ_PROGRAM_VERSION")] = None,
    processes: Annotated[int | None, cmd.option("N", min=1, max=256)] = None,
    drain: bool = False,
    task: cmd.Id | None = None,
    force: bool = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False,
    log: Log = "text",
    health_port: PortNumber | None = None,
    health_host: Address = LOCAL,
    report_to: Annotated[int | None, typer.Option(hidden=True, is_eager=True)] = None,
    queue: cmd.Queues = None,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """Run handlers of tasks until SIGTERM or Ctrl-C.

      dpq worker shop.tasks:tasks --queue mails --queue reports --concurrency 8

    The first signal lets handlers finish, the second gives their tasks back. If the Tasks object
    has a queue, --queue and --url are not needed.

    Exit codes: 0 all handlers finished, 1 tasks were given back, 2 wrong usage. With --task: 1 if
    the handler raised an error, or if the task may not run now.

    Args:
        target: Where the handlers are: a Tasks object, a function, or a dict of functions by name;
            they may be async. The current directory is searched first.
        concurrency: Handlers that run at once, in each process.
        time_limit: Longest run of a handler; after it, the attempt fails.
        keep_result: Keep what handlers return this long, for `dpq get ID --wait`.
        processes: Child processes; one that dies is started again.
        drain: End when the queues are empty; shows the progress.
        task: Run only this task, once, and print its error: to debug.
        force: Take the task of --task even if it is delayed.
        quiet: Show no progress, and log only warnings.

    Seldom needed:
        prefetch: Tasks popped ahead, beyond those that run.
        order: strict: the first queue goes first; round_robin: in turn.
        visibility: Length of a lease; it is extended while the handler runs.
        grace: Time for handlers to finish after a signal.
        version: The version of your program, such as its commit: an event tells when it changes.
    """
    log_more()
    settings = {name: ctx.params[name] for name in SETTINGS}
    names = cmd.named_queues(ctx, queue)
    source = HealthSource(health_port, health_host)
    on_beat = None if report_to is None else report_through(report_to, source)
    where = url if cmd.named(ctx, "url") else None
    job = Job(target, where, names, settings, drain, quiet, on_beat, log, source)
    if quiet:
        logging.getLogger("dpq").setLevel(logging.WARNING)
    if task is not None:
        run_task(job, task, force=force)
        return
    raise typer.Exit(work(job) if processes is None else _lead(job, ctx, processes))


def _lead(job: Job, ctx: typer.Context, count: int) -> int:
    """Be the parent of processes that do the job; the first of them shows the progress."""
    if job.url is not None and job.url.partition("?")[0] == "embedded:":
        raise ConfigurationError(
            f"url is {job.url!r}: each process would start a server of its own; use embedded:DIR"
        )
    verbose = int(ctx.find_root().params["verbose"])
    words = [job.words(verbose, quiet=job.quiet or (job.drain and n > 0)) for n in range(count)]
    environment = {} if job.url is None else {"DPQ_URL": job.url}
    parent = Parent(children(words, environment))
    if job.source:
        job.source.ask = parent.health
    return parent.run()


@cmd.command
def workers(
    ctx: typer.Context,
    quiet: cmd.Name | None = None,
    unquiet: cmd.Name | None = None,
    leases: bool = False,
    worker: cmd.Name | None = None,
    older_than: cmd.Positive | None = None,
    count: cmd.Count = 100,
    queue: cmd.Queues = None,
    json: bool = False,
    url: cmd.Url = cmd.DEFAULT_URL,
) -> None:
    """List the workers of all known queues, or of the named ones; or make one quiet.

    A quiet worker finishes what it runs, and takes no new tasks until --unquiet or its end. It is
    told within 10 seconds.

    A worker reports every 10 seconds; one that died is listed for up to a minute. "longest" is the
    handler that had run longest at the last report, and its task; "p99" is what 99 of 100 runs
    take. If the longest run takes far longer than that, the worker HANGS, and comes first. A lease
    without a worker is younger than 10 seconds, or was taken by another program, or its worker is
    gone.

    If a queue cannot be read, its error is shown, and the exit code is 1.

    Args:
        quiet: Tell the worker with this name or id to take no new tasks.
        unquiet: Tell it to take tasks again.
        leases: Show the running tasks, the longest held first.
        worker: With --leases: only those of this worker.
        older_than: With --leases: only those held this long.
        count: With --leases: at most this many of a queue.
    """
    if quiet and unquiet:
        raise typer.BadParameter("give --quiet or --unquiet, not both")
    with closing(open_url(url)) as opened:
        names = [name.encode() for name in cmd.named_queues(ctx, queue, also=False)]
        none = "no worker has reported"
        if not names:
            none += "; if a queue had no push so far, name it with --queue"
            names = [*dict.fromkeys([*all_names(opened.client), cmd.DEFAULT_QUEUE.encode()])]
        if leases:
            _show_leases(opened.client, names, (count, worker, older_than), json)
            return
        answers = dict(ask_queues(opened.client, names, Operations.overview))
        if told := quiet or unquiet:
            answers = _told(opened.client, answers, told, bool(quiet))
    found = working([each for each in answers.values() if not isinstance(each, Exception)])
    rows = [worker_record(each) for each in found if told in (None, each.info.name, each.info.id)]
    report("workers", WORKERS, rows, json=json, none=none)
    _show_errors(answers, json)


def _show_leases(client: Any, names: Sequence[bytes], which: tuple[Any, ...], json: bool) -> None:
    answers = dict(ask_queues(client, names, lambda queue: queue.held(*which)))
    found = {name: leases for name, leases in answers.items() if isinstance(leases, list)}
    rows = [{"queue": name, **each.model_dump()} for name, few in found.items() for each in few]
    report("leases", LEASES, rows, json=json, none="no such task is running")
    if not json and which[0] in map(len, found.values()):
        talk(f"perhaps more: dpq workers --leases -n {10 * which[0]}")
    _show_errors(answers, json)


def _show_errors(answers: Mapping[str, Any], json: bool) -> None:
    errors = {name: answer for name, answer in answers.items() if isinstance(answer, Exception)}
    for name, error in errors.items():
        said = {"queue": name, "error": one_line(error)}
        emit(said) if json else talk("queue {queue!r}: {error}".format(**said))
    if errors:
        raise Failed(f"{len(errors)} of {many(len(answers), 'queue')} cannot be read")


def _told(client: Any, seen: Mapping[str, Any], worker: str, quiet: bool) -> dict[str, Any]:
    """Tell a worker in all queues that know it; return what they say then."""
    heard = {name: each.workers for name, each in seen.items() if not isinstance(each, Exception)}
    knows = (name for name, few in heard.items() if any(worker in (i.name, i.id) for i in few))
    if not (known := [name.encode() for name in knows]):
        there = sorted({info.name for few in heard.values() for info in few})
        others = f"; there are {some_of(there)}" * bool(there)
        raise Failed(f"there is no worker {worker!r}{others}")
    by = this_user("dpq workers")
    asked = ask_queues(client, known, lambda queue: queue.quiet(worker, by, quiet))
    failed = {name: answer for name, answer in asked if isinstance(answer, Exception)}
    return dict(ask_queues(client, known, Operations.overview)) | failed


def worker_record(each: Working) -> dict[str, Any]:
    """Make a record of a worker, with its queues."""
    fields = each._asdict()
    info: Any = fields.pop("info").model_dump(exclude={"queue", "quiet_since", "quiet_by"})
    return {**info, "quiet_queues": fields.pop("quiet"), **fields}
