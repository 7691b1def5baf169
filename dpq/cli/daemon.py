"""`dpq scheduler`: the daemon that does the upkeep while no consumer looks."""

from typing import Annotated

import typer

from dpq.cli._options import DEFAULT_URL, Url, given
from dpq.scheduler import run_daemon


def scheduler(
    ctx: typer.Context,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            envvar="DPQ_QUEUES",
            help="A queue to look after; once for each (the variable: names, spaces between).",
            show_default="all known",
            rich_help_panel="Where",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Run the scheduler until SIGTERM or Ctrl-C: due tasks become ready, expired leases come back.

    No consumer needs it, since pop does the same by itself. Any number may run at once.
    """
    root = ctx.find_root()
    before = [str(root.params["queue"])] if given(root, "queue") else None
    run_daemon(url, queue or before)
