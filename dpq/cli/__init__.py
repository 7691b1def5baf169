"""The command line of DPQ: `main` runs it, `app` is the typer application.

Only this folder reads the environment or configures logging. A command parses its arguments, calls
the library and prints. Data goes to stdout, messages to stderr.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

import dpq
from dpq.cli import (
    batches,
    bench,
    bulk,
    change,
    consume,
    daemon,
    dead,
    demo,
    doctor,
    events,
    groups,
    health,
    leases,
    limits,
    look,
    metrics,
    produce,
    results,
    run,
    run_task,
    trail,
    transfer,
    web,
    worker,
)
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, TAKES_IDS, AnyUrl, Queue
from dpq.cli._terminal import BareNumber, Program, log_to_stderr, show_fault, tell_warnings

__all__ = ["app", "main"]

DAEMONS = ("scheduler", "worker", "web", "metrics")
"""Commands that run for long: they log what they do without `-v`, and warn of the server."""

app = typer.Typer(
    cls=Program,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dpq {dpq.__version__}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    url: AnyUrl = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Log to stderr, errors with traceback; -vv logs more.",
        ),
    ] = 0,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """A delayed priority queue with visibility timeouts on Redis.

    \b
    To start without a server (dpq starts one, with its data in ./queue):
      export DPQ_URL=embedded:./queue
      dpq push '{"url": "https://example.org"}' --priority 17
      dpq push '{"url": "https://example.org/later"}' --delay 10
      dpq stats
      dpq pop --wait              prints a task as JSON, with its id and token
      dpq ack ID TOKEN            finishes it; without an ack, it comes back
      dpq push < tasks.ndjson     adds one task for each line
      dpq worker shop:handlers    runs the functions of shop.py
      dpq limit set 10/s          at most 10 in any second, for all consumers

    \b
    Data goes to stdout, messages to stderr.
    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    is_daemon = ctx.invoked_subcommand in DAEMONS
    log_to_stderr(ctx, verbose + is_daemon)
    tell_warnings(ctx, of_servers=is_daemon)


_command: Callable[..., None]

_add = partial(app.command, rich_help_panel="Work")
_add()(produce.push)
_add(cls=BareNumber)(consume.pop)
_add()(worker.worker)
_add(context_settings=TAKES_IDS)(run_task.run_task)
_add()(run.run)
for _command in (consume.ack, consume.fail, consume.release, consume.rate_limited):
    _add(context_settings=TAKES_IDS)(_command)
for _command in (consume.bury, consume.extend):
    _add(context_settings=TAKES_IDS)(_command)

_add = partial(app.command, rich_help_panel="Look")
_add()(look.peek)
for _command in (look.get, look.why, results.result, results.watch):
    _add(context_settings=TAKES_IDS)(_command)
_add(cls=BareNumber)(look.stats)
_add(cls=BareNumber)(batches.batch)
_add(cls=BareNumber)(look.queues)
_add()(worker.workers)
_add()(web.web)
_add()(metrics.metrics)
_add()(leases.leases)
_add()(events.events)
_add()(events.history)
_add()(trail.trail)
_add()(look.check)

_add = partial(app.command, rich_help_panel="Change")
for _command in (change.update, change.cancel):
    _add(context_settings=TAKES_IDS)(_command)
_add()(bulk.bulk)
for _command in (change.forget, change.pause, change.resume, change.bounds, change.purge):
    _add()(_command)
app.add_typer(limits.app, name="limit", rich_help_panel="Change")
app.add_typer(groups.app, name="group", rich_help_panel="Change")
app.add_typer(dead.app, name="dead", rich_help_panel="Change")

_add = partial(app.command, rich_help_panel="Upkeep")
_add()(change.promote)
_add()(change.scripts)
_add()(change.register)
_add()(transfer.export)
_add("import")(transfer.import_)
_add()(daemon.scheduler)
_add()(doctor.doctor)
_add()(health.health)
_add()(bench.bench)
_add()(demo.demo)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        args: The arguments after the program's name; None takes them from the process.
    """
    sys.excepthook = show_fault
    app(None if args is None else list(args), prog_name="dpq")
