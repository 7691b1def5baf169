"""`dpq batch`: what has become of the tasks of a batch, as a bar; and the batches of a queue."""

import time
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dpq import DPQ, BatchState, Push
from dpq.cli._existing import existing
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Json, Queue, Url, option
from dpq.cli._render import batches_table
from dpq.cli._terminal import emit, tables, talk
from dpq.cli.produce import json_value
from dpq.model.display import shown
from dpq.views.words import batch_counts

BAR_CELLS = 50
"""Columns of the bar."""


def batch(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Only this batch.", show_default="all batches"),
    ] = None,
    seal: Annotated[
        bool, typer.Option("--seal", help="First seal it: no more tasks are to come.")
    ] = False,
    on_finish: Annotated[
        str | None,
        option("JSON", "With --seal: a task to run when none is left.", unset="none"),
    ] = None,
    watch: Annotated[
        float | None,
        option(
            "[SECONDS]",
            "Look again every so many seconds (without a number: 1) until it is finished.",
            unset="show once",
            min=0.1,
        ),
    ] = None,
    json: Json = False,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Show what has become of the tasks of a batch: left, done, dead, removed.

    Without a NAME it lists the batches of the queue, the one that changed last first.
    """
    if name is None and (seal or watch is not None):
        raise typer.BadParameter("--seal and --watch are for one batch: give its NAME")
    if on_finish is not None and not seal:
        raise typer.BadParameter("--on-finish goes with --seal")
    with existing(url, queue) as q:
        if name is None:
            _list(q, json)
            return
        if seal:
            end = None if on_finish is None else Push[Any](json_value(on_finish))
            q.seal_batch(name, on_finish=end)
        _show(q, name, watch, json)


def _list(q: DPQ[Any], json: bool) -> None:
    found = q.batches()
    if json:
        for state in found:
            emit(batch_data(state))
    elif found:
        tables().print(batches_table(f"batches of {q.queue_name}", found))
    else:
        talk(f"{q.queue_name!r} has no batch: a push names one, as in dpq push JSON --batch run-7")


def _show(q: DPQ[Any], name: str, seconds: float | None, json: bool) -> None:
    console, state = tables(), q.batch(name)
    if json or not console.is_terminal or seconds is None:
        while True:
            if json:
                emit(batch_data(state))
            else:
                console.print(_lines(state))
            if seconds is None or state.finished:
                return
            time.sleep(seconds)
            state = q.batch(name)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(_lines(state), refresh=True)
            if state.finished:
                return
            time.sleep(seconds)
            state = q.batch(name)


def batch_data(state: BatchState) -> dict[str, Any]:
    """Make the data of a batch, with all that follows from its counts."""
    return {**state.model_dump(), "pushed": state.pushed, "finished": state.finished}


def _lines(state: BatchState) -> Group:
    total, over = max(state.pushed, 1), state.pushed - state.left
    bar = ProgressBar(total=total, completed=over, width=BAR_CELLS)
    line = Table.grid(padding=(0, 1))
    line.add_row(bar, batch_counts(state))
    return Group(Text(shown(state.name)), line)
