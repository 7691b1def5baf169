"""`dpq top`: queues on the terminal."""

import logging
import sys
import warnings
from contextlib import closing
from typing import Annotated, Any

import typer

from dpq import DPQ
from dpq.cli._options import DEFAULT_URL, Url
from dpq.cli._terminal import Failed
from dpq.registry.all_queues import missing_queue
from dpq.transport.connect import open_url


def top(
    ctx: typer.Context,
    queues: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[QUEUE]...", help="The queues to show.", show_default="all known queues"
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no key that changes anything.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show queues on the terminal, and act on them by keys: pause, resume, replay, open a group.

    It needs the packages of the extra `top`. It reads the queues that are seen once a second.
    Each key that changes something asks first. `/` filters by name, `s` sorts by the next column.
    """
    try:
        from dpq.top.app import Top
    except ImportError as error:
        raise Failed(
            f"{error.name or error} is missing: install DPQ with its extra 'top', or give "
            "`pip install 'textual>=6'`; `dpq stats --watch` needs no extra"
        ) from error
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failed("this is no terminal: give `dpq stats --json`, or `dpq stats --watch`")
    from dpq.views.sampler import Known, Named

    opened = open_url(url)
    with closing(opened), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would damage the screen
        if handler := ctx.find_root().meta.get("dpq.log"):
            handler.setLevel(logging.CRITICAL + 1)
        known: Any = Known(opened.client)
        if queues:
            named = [DPQ[Any](opened.client, each) for each in queues]
            if missing := [said for each in named if (said := missing_queue(each))]:
                raise Failed("; ".join(missing))
            known = Named(named)
        Top(known, opened.label, read_only=read_only).run()
