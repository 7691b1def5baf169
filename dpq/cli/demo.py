"""`dpq demo`: the example crawler, from the wheel or from a checkout."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import dpq
from dpq.cli._options import option
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
    plot: Annotated[Path | None, option("PATH", "Write the comparison to this PNG file.")] = None,
    no_web: Annotated[bool, typer.Option("--no-web", help="No dashboard beside it.")] = False,
    stay: Annotated[
        bool,
        typer.Option(
            "--stay", help="Keep the dashboard until Ctrl-C; on a terminal it stays anyway."
        ),
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Only serve the pages, on one host with the limit --rate, until Ctrl-C: to try a "
            "program of yours against.",
        ),
    ] = False,
    port: Annotated[
        int, option("PORT", "The port of --serve; 0 takes a free one.", min=0, max=65535)
    ] = 8429,
    web_port: Annotated[
        int, option("PORT", "The dashboard's port.", unset="a free one", min=0, max=65535)
    ] = 0,
) -> None:
    """Crawl the standard library from two hosts with limits, in four ways; compare the times.

    It prints the address of a dashboard, if the packages of the extra `web` are installed. On a
    terminal the dashboard stays after the crawl, until Ctrl-C. With `--serve` it crawls nothing:
    it is the host, on 127.0.0.1.
    """
    # The folders of a wheel and of a checkout.
    folders = (_PACKAGE / "examples", _PACKAGE.parent / "examples")
    examples = next(folder for folder in folders if (folder / "crawler.py").exists())
    if serve:  # replace this process, so that the server gets the signals
        site = [str(examples / "_stdlib_site.py"), "--rate", str(rate), "--port", str(port)]
        os.execv(sys.executable, [sys.executable, *site])  # noqa: S606 - no shell
    find_binary()  # without a Redis server it raises an error of one line
    command = [sys.executable, str(examples / "crawler.py"), "--rate", str(rate)]
    if modules is not None:
        command += ["--modules", str(modules)]
    command += ["--no-web"] if no_web else ["--web-port", str(web_port)]
    command += ["--stay"] * stay
    if plot is not None:
        command += ["--plot", str(plot)]
    with subprocess.Popen(command) as crawl:
        while crawl.poll() is None:
            with suppress(KeyboardInterrupt):  # the crawl gets it, too, and ends
                crawl.wait()
    raise typer.Exit(crawl.returncode)
