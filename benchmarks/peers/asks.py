"""The second comparison: requests to a host that has a limit, sent by two processes.

Each way gets the same requests, the same host (`host.py`) and the same two processes, each with ten
requests at once, and stays below the limit by its own means. The host counts. The least time is
what the host allows: a full window at once, the rest at its rate.

Each way goes twice in a round. The second time, one of the two processes is killed with SIGKILL
once half of the requests are done and some are under way, and is started again at once, as systemd
would.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import ProxyHandler, build_opener

from benchmarks.peers.catalog import Peer
from benchmarks.peers.environments import PLACE, NotInstalledError, command, install
from benchmarks.peers.servers import Place, ProgramError, end, figures_of, started

RATE = 200  # requests in any second, which the host allows
WORKERS, AT_ONCE = 2, 10
FILL_PATIENCE = 60  # seconds to push all requests
LOOK_S = 0.1
SOON_S = 0.005  # it is to be killed while requests are under way
CALM_S = 1.5
"""Seconds without a further answer after the last one: requests that are asked twice come then."""

GIVEN_UP = 3.0  # times the least time
LEASE_S = 60
"""Seconds more that tasks of a killed worker have to come back. Leases are 30 s, if one can say."""

Run = dict[str, float]


def compare(
    place: Place, ways: Sequence[Peer], requests: int, rounds: int, talk: Callable[[str], object]
) -> Iterator[dict[str, Any]]:
    """Measure ways one after the other; yield a row of results for each.

    Args:
        place: The Redis server that queues use.
        ways: Which.
        requests: How many, in each run.
        rounds: How often; results are medians.
        talk: Gets a line at the beginning of each way.
    """
    for way in ways:
        talk(way.title)
        try:
            version = install(way)
            runs = {
                kind: [_run(place, way, requests, kill=kind == "killed") for _ in range(rounds)]
                for kind in ("calm", "killed")
            }
        except (NotInstalledError, ProgramError) as error:
            yield {"name": way.name, "title": way.title, "failed": str(error)}
            continue
        found = {
            kind: {key: median(run[key] for run in several) for key in several[0]}
            for kind, several in runs.items()
        }
        first = {"name": way.name, "title": way.title, "version": version, "note": way.way}
        yield {**first, **found, "runs": runs}


def _run(place: Place, way: Peer, requests: int, *, kill: bool) -> Run:
    """Send all requests once; return what the host has counted."""
    place.empty()
    least = max(1.0, (requests - RATE) / RATE)
    patience = GIVEN_UP * least + (LEASE_S if kill else 0)
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="dpq-peers-"))
        words = [sys.executable, str(Path(__file__).with_name("host.py")), str(RATE)]
        host = stack.enter_context(started(words, stdout=subprocess.PIPE))
        assert host.stdout
        address = host.stdout.readline().strip()
        look = _looker(address)

        def command_of(what: str) -> list[str]:
            more = [
                place.url,
                address,
                str(requests),
                str(RATE),
                what,
                folder,
                str(PLACE / way.name),
            ]
            return [*command(way, way.asks), *more]

        figures_of(command_of("fill"), FILL_PATIENCE)
        said = stack.enter_context((Path(folder) / "said").open("w"))
        workers = [
            stack.enter_context(started(command_of(str(n)), stdout=said, stderr=said, cwd=folder))
            for n in range(WORKERS)
        ]
        began = time.monotonic()
        killed = not kill
        counts = look()
        while counts["answered"] < requests and time.monotonic() - began < patience:
            half = not killed and counts["answered"] >= requests / 2
            time.sleep(SOON_S if half else LOOK_S)
            counts = look()
            if half and counts["under_way"]:
                end(workers[0])
                words = command_of("0")
                stack.enter_context(started(words, stdout=said, stderr=said, cwd=folder))
                killed = True
        if not counts["answered"]:
            raise ProgramError(_complaint(Path(folder) / "said"))
        for _ in _settled(look):
            pass
        counts = look()
    return {
        "time": (counts["seconds"] if counts["answered"] == requests else patience) / least,
        "sent": counts["requests"],
        "refused": counts["refused"],
        "repeated": counts["repeated"],
        "lost": requests - counts["answered"],
    }


def _looker(address: str) -> Callable[[], dict[str, Any]]:
    opener = build_opener(ProxyHandler({}))  # loopback, whatever the environment says

    def look() -> dict[str, Any]:
        with opener.open(f"{address}/counts", timeout=10) as answer:
            counts: dict[str, Any] = json.load(answer)
            return counts

    return look


def _settled(look: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Wait until no further request has come for a while, but not for ever."""
    for _ in range(5):
        before = look()["requests"]
        time.sleep(CALM_S)
        if look()["requests"] == before:
            return
        yield


def _complaint(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()[-2000:] or "nothing was asked"
