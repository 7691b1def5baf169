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
            help="Pages that one host serves per second; the other host serves three quarters.",
        ),
    ] = 20,
    modules: Annotated[
        int | None,
        typer.Option(min=1, help="Crawl at most so many pages.", show_default="all"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the comparison to this PNG file.")
    ] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="No dashboard beside it.")] = False,
    web_port: Annotated[
        int,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="The dashboard's port.",
            show_default="a free one",
        ),
    ] = 0,
) -> None:
    """Crawl the standard library from two hosts with limits, in four ways; compare the times.

    It prints the address of a dashboard, if the packages of the extra `web` are installed.
    """
    find_binary()  # if there is no server, its error says so in one line
    folders = (_PACKAGE / "examples", _PACKAGE.parent / "examples")  # of the wheel, of a checkout
    crawler = next(path for folder in folders if (path := folder / "crawler.py").exists())
    command = [sys.executable, str(crawler), "--rate", str(rate)]
    if modules is not None:
        command += ["--modules", str(modules)]
    command += ["--no-web"] if no_web else ["--web-port", str(web_port)]
    if plot is not None:
        command += ["--plot", str(plot)]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
