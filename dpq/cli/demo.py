"""`dpq demo`: the example crawler, from the wheel or from a checkout."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

import dpq

_PACKAGE = Path(dpq.__file__).parent


def demo(
    rate: Annotated[
        int, typer.Option(min=1, help="Pages that the site serves in any second.")
    ] = 25,
    modules: Annotated[
        int | None,
        typer.Option(min=1, help="Pages at most.", show_default="all that can be reached"),
    ] = None,
) -> None:
    """Crawl the standard library under a strict limit: three consumers, one is killed half-way."""
    places = (_PACKAGE / "examples", _PACKAGE.parent / "examples")  # of the wheel, of a checkout
    crawler = next(path for place in places if (path := place / "crawler.py").exists())
    bound = [] if modules is None else ["--modules", str(modules)]
    command = [sys.executable, str(crawler), "--rate", str(rate), *bound]
    raise typer.Exit(subprocess.run(command, check=False).returncode)
