"""`dpq demo`: the example crawler, from the wheel or from a checkout."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import dpq
from dpq.server import find_binary

_PACKAGE = Path(dpq.__file__).parent


def demo(
    rate: Annotated[
        int,
        typer.Option(
            min=1,
            help="Pages that one host serves in any second; the other one serves three quarters.",
        ),
    ] = 20,
    modules: Annotated[
        int | None,
        typer.Option(min=1, help="Pages at most.", show_default="all that can be reached"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the comparison here, as a PNG.")
    ] = None,
) -> None:
    """Crawl the standard library under two hosts' limits, in four ways, and compare them."""
    find_binary()  # says in one line what is missing; the plot libraries may be
    places = (_PACKAGE / "examples", _PACKAGE.parent / "examples")  # of the wheel, of a checkout
    crawler = next(path for place in places if (path := place / "crawler.py").exists())
    command = [sys.executable, str(crawler), "--rate", str(rate)]
    if modules is not None:
        command += ["--modules", str(modules)]
    if plot is not None:
        command += ["--plot", str(plot)]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
