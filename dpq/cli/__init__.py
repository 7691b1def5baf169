"""The command line of DPQ: `main` runs it, `app` is the typer application.

Only this folder reads the environment or configures logging. A command parses its arguments, calls
the library and prints. Data goes to stdout, messages to stderr.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

import dpq
from dpq.cli import admin, dead, doctor, limits, look, produce, run, task, web, worker
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, TAKES_IDS, AnyUrl, BareNumber, Queue
from dpq.cli._terminal import Program, log_to_stderr, show_fault, tell_warnings

__all__ = ["app", "main"]

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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
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
      dpq task ack ID TOKEN       finishes it; without an ack, it comes back
      dpq push < tasks.ndjson     adds one task for each line
      dpq worker shop:handlers    runs the functions of shop.py
      dpq limit set 10/s          at most 10 in any second, for all consumers

    \b
    Data goes to stdout, messages to stderr.
    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    log_to_stderr(ctx, verbose)
    tell_warnings(ctx)


_add = partial(app.command, rich_help_panel="Work")
_add()(produce.push)
_add(cls=BareNumber)(task.pop)
_add()(worker.worker)
_add()(run.run)

_add = partial(app.command, rich_help_panel="Look")
_add(cls=BareNumber)(look.stats)
_add(context_settings=TAKES_IDS)(look.why)
_add(cls=BareNumber)(look.queues)
_add(cls=BareNumber, context_settings=TAKES_IDS)(look.get)
_add()(look.peek)

_group = partial(app.add_typer, rich_help_panel="Steer")
_group(dead.app, name="dead")
_group(limits.app, name="limit")
_group(limits.group_app, name="group")
_add = partial(app.command, rich_help_panel="Steer")
_add()(worker.workers)
_add()(web.web)
_add()(doctor.doctor)

_group = partial(app.add_typer, rich_help_panel="Less often")
_group(task.app, name="task")
_group(admin.app, name="admin")


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; None takes the arguments from the process."""
    sys.excepthook = show_fault
    app(None if args is None else list(args), prog_name="dpq")
