"""`python -m benchmarks.peers`: the comparisons, as tables; see benchmarks/README.md, "Peers"."""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks._harness import commit, processor
from benchmarks.peers import asks, tables, tasks
from benchmarks.peers.catalog import BY_NAME, PEERS, Peer
from benchmarks.peers.environments import NotInstalledError, install
from benchmarks.peers.servers import place


def _chosen(only: str | None) -> list[Peer]:
    names = only.split(",") if only else list(BY_NAME)
    if unknown := sorted(set(names) - set(BY_NAME)):
        raise typer.BadParameter(f"{', '.join(unknown)}: choose from {', '.join(BY_NAME)}")
    return [peer for peer in PEERS if peer.name in names]


def main(
    only: Annotated[str | None, typer.Option(help="Which peers: rq,celery. Default: all.")] = None,
    tasks_: Annotated[
        int, typer.Option("--tasks", min=10, help="Tasks in each step of the first comparison.")
    ] = 2000,
    requests: Annotated[
        int,
        typer.Option(
            min=0, help="Do the second comparison, with so many requests: 10000, or 2000."
        ),
    ] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="How often; results are medians.")] = 3,
    server: Annotated[
        str | None, typer.Option(help="A redis-server or valkey-server; default: the first found.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--json", help="Put the results into this file, too.")
    ] = None,
    only_install: Annotated[
        bool, typer.Option("--install", help="Install, and do no more.")
    ] = False,
) -> None:
    """Compare DPQ with other queues, or with --requests with other ways to stay below a limit."""
    talk = Console(stderr=True)
    peers = _chosen(only)
    if only_install:
        for peer in peers:
            try:
                print(peer.title, install(peer))
            except NotInstalledError as error:
                print(f"{peer.title}: not installed: {error}")
        return
    now = datetime.now(UTC)
    with place(server) as found:
        report: dict[str, Any] = {
            "when": now.date().isoformat(),
            "commit": commit(),
            "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
            "python": platform.python_version(),
            "server": found.version,
            "rounds": rounds,
        }
        if requests:
            report |= {"requests": requests, "rate": asks.RATE}
            ways = [peer for peer in peers if peer.asks]
            rows = asks.compare(found, ways, requests, rounds, talk.print)
        else:
            report["tasks"] = tasks_
            queues = [peer for peer in peers if peer.tasks]
            rows = tasks.compare(found, queues, tasks_, rounds, talk.print)
        report["rows"] = list(rows)
        report["load"] = round(os.getloadavg()[2], 1)  # of the last 15 minutes
    print(tables.about(report), tables.table(report), sep="\n\n")
    if file:
        file.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
