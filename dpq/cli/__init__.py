"""The command line of DPQ: `main` runs it, `app` is the typer application.

Only this folder reads the environment or configures logging. A command parses its arguments, calls
the library and prints. Data goes to stdout, messages to stderr.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

import dpq
from dpq.cli import admin, daemon, doctor, limits, look, produce, run, task, worker
from dpq.cli._command import DEFAULT_QUEUE, DEFAULT_URL, AnyUrl, Command, Queue, add, command
from dpq.cli._terminal import Program, log_to_stderr, show_fault

app = typer.Typer(
    cls=Program, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dpq {dpq.__version__}")
        raise typer.Exit


@app.callback()
@command
def root(
    ctx: typer.Context,
    url: AnyUrl = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True)] = 0,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """A delayed priority queue with visibility timeouts on Redis.

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

    Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage.

    Args:
        verbose: Log to stderr, errors with traceback; -vv logs more.
        version: Print the version.
    """
    log_to_stderr(ctx, verbose)


def _page(name: str, panel: str, text: str, *functions: Command) -> None:
    page = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=text)
    app.add_typer(page, name=name, rich_help_panel=panel)
    add(page, None, *functions)


add(app, "Work", produce.push, task.pop, worker.worker, run.run)
add(app, "Look", look.stats, look.why, look.queues, look.get, look.peek)
add(app, "Steer", worker.workers, daemon.web, doctor.doctor)
_page("dead", "Steer", "List or replay dead letters.", task.list_, task.replay)
_page(
    *("limit", "Steer", "Set, list, clear or undo limits of the queue and of groups."),
    *(limits.set_, limits.list_, limits.clear, limits.undo),
)
_page(
    *("group", "Steer", "Close or open a group for all consumers; `limit list` shows them."),
    *(limits.close, limits.open_),
)
_page(
    *("task", "Less often", "End a task that you hold, or change or cancel one."),
    *(task.ack, task.fail, task.release, task.rate_limited, task.bury, task.extend),
    *(task.update, task.cancel),
)
_page(
    *("admin", "Less often", "Pause, change many tasks, export, run daemons."),
    *(admin.pause, admin.resume, admin.bulk, admin.events, admin.export, admin.import_),
    *(daemon.scheduler, daemon.metrics),
)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; None takes the arguments from the process."""
    sys.excepthook = show_fault
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # letters that it lacks are escaped
    app(None if args is None else list(args), prog_name="dpq")
