"""`make soak`: an hour of work under faults, and a report of what went wrong. See conductor.py."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from soak.conductor import Conductor
from soak.judge import Judge
from soak.report import is_sound, report

from dpq.server import find_binary

PAGE = """\
# The last soak

`make soak` writes this page. [docs/guarantees.md](../../docs/guarantees.md#the-soak) says what it
does, and what each row counts.

{}
"""


def main(
    minutes: Annotated[float, typer.Option(min=0.05, help="In all.")] = 60,
    rate: Annotated[float, typer.Option(min=1, help="Pushes a second, at most.")] = 150,
    visibility: Annotated[float, typer.Option(min=0.5, help="Seconds of a lease.")] = 3,
    seed: Annotated[int, typer.Option(help="Of what is drawn by chance.")] = 1,
    server: Annotated[
        str | None, typer.Option(help="A redis-server or valkey-server; default: the first found.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the report as a page here, too.")] = None,
    keep: Annotated[bool, typer.Option(help="Keep ledgers and logs when it is not sound.")] = False,
) -> None:
    """Run producers and consumers through faults for a while; exit 1 when anything is wrong."""
    binary = find_binary(server)
    began = time.time()
    conductor = Conductor(
        binary,
        minutes * 60 - min(90.0, max(2.5, minutes * 3)),  # to drain, and to judge
        rate=rate,
        visibility=visibility,
        seed=seed,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    sound = False
    try:
        books = conductor.run()
        outcome = conductor.outcome
        verdict = Judge(books, outcome.stored, outcome.dead).judge()
        text = report(binary, conductor.plan, outcome, books, verdict)
        print(text)
        if out:
            out.write_text(PAGE.format(text))
        sound = is_sound(outcome, verdict)
        print(f"{time.time() - began:.0f} s in all", file=sys.stderr)
    finally:
        if keep and not sound:
            print(f"kept: {conductor.directory}", file=sys.stderr)
        else:
            conductor.tidy_up()
    raise typer.Exit(0 if sound else 1)


if __name__ == "__main__":
    typer.run(main)
