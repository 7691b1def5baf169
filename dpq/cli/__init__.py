"""The command line of DPQ: `main` runs it, `app` is the typer application.

Only this folder reads the environment or configures logging. A command parses its arguments, calls
the library and prints. Data goes to stdout, messages to stderr.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import dpq
from dpq.cli import admin, bulk, daemon, doctor, limits, look, produce, run, task, web, worker
from dpq.cli._command import DEFAULT_QUEUE, DEFAULT_URL, AnyUrl, Queue, add
from dpq.cli._terminal import Program, log_to_stderr, show_fault

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


def _page(name: str, panel: str, text: str) -> typer.Typer:
    page = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=text)
    app.add_typer(page, name=name, rich_help_panel=panel)
    return page


add(app, "Work", produce.push, task.pop, worker.worker, run.run)
add(app, "Look", look.stats, look.why, look.queues, look.get, look.peek)
dead = _page("dead", "Steer", "List or replay dead letters.")
add(dead, None, task.replay, list=task.list_dead)
limit = _page("limit", "Steer", "Set, list, clear or undo limits of the queue and of groups.")
add(
    limit,
    None,
    set=limits.set_limit,
    list=limits.list_limits,
    clear=limits.clear_limit,
    undo=limits.undo_limit,
)
group = _page("group", "Steer", "Close or open a group for all consumers; `limit list` shows them.")
add(group, None, close=limits.close_group, open=limits.open_group)
add(app, "Steer", worker.workers, web.web, doctor.doctor)
held = _page("task", "Less often", "End a task that you hold, or change or cancel one.")
add(held, None, task.ack, task.fail, task.release, task.rate_limited, task.bury, task.extend)
add(held, None, task.update, task.cancel)
operator = _page("admin", "Less often", "Pause, change many tasks, export, run daemons.")
add(operator, None, admin.pause, admin.resume, bulk.bulk, admin.events, admin.export)
add(operator, None, admin.import_, daemon.scheduler, daemon.metrics)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; None takes the arguments from the process."""
    sys.excepthook = show_fault
    app(None if args is None else list(args), prog_name="dpq")
