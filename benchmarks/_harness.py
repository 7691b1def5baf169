"""What every benchmark shares: a private server, interleaved timing, medians and the table.

A ratio is taken in one run: slices of both sides alternate, so that what else the machine does hits
both. On Linux the server has one core and the clients have the others; a kernel that moves them
about changes one-by-one rates by a factor of two. Must not know what a benchmark measures.
"""

import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from operator import ge, le
from pathlib import Path
from statistics import median
from typing import Annotated, Any
from uuid import uuid4

import typer
from redis import Redis
from rich.console import Console

from benchmarks._results import Section, code_of, head_of, line_of, put, section
from dpq import DPQ, Push
from dpq.server import Server, find_binary

ROUNDS = 5
SLICES = 5  # alternations of the two sides in one round
SEED = 20240229
REPOSITORY = Path(__file__).parent.parent
ALL = (
    *("push", "pop", "single", "limits", "link", "batches", "memory", "latency", "idle", "million"),
)
NAMED = ("scrapy", "reached")
"""Benchmarks that run only when they are named: long, or programs of others."""


@dataclass(frozen=True)
class Target:
    """What a measure should reach."""

    kind: str  # "at least" or "at most"
    bound: float

    def met_by(self, value: float) -> bool:
        return (ge if self.kind == "at least" else le)(value, self.bound)


@dataclass(frozen=True)
class Result:
    """One measure: one sample for each round."""

    measure: str
    unit: str
    target: Target | None  # none: a figure to compare with
    samples: Sequence[float]
    detail: str = ""
    by: str = "median"  # or "most": which of the samples has to meet the target

    def summary(self) -> dict[str, Any]:
        reached = max(self.samples) if self.by == "most" else median(self.samples)
        return {
            **asdict(self),
            "reached": reached,
            "least": min(self.samples),
            "most": max(self.samples),
            "ok": self.target is None or self.target.met_by(reached),
        }


class Watched(Redis):
    """A client that notes its longest script, in ms of processor time of the server.

    Not the slow log's time, which counts what other processes take from the server's core.
    """

    clock: Callable[[], float]
    longest = 0.0

    def execute_command(self, *args: Any, **options: Any) -> Any:
        before = self.clock()
        try:
            return super().execute_command(*args, **options)
        finally:
            if args[0] == "EVALSHA":
                self.longest = max(self.longest, (self.clock() - before) * 1000)

    def take(self) -> float:
        longest, self.longest = self.longest, 0.0
        return longest


def server_clock(pid: int) -> Callable[[], float]:
    """The processor time of a process in seconds; where there is no such clock, real time."""
    if sys.platform == "linux":
        return partial(time.clock_gettime, (~pid << 3) | 2)  # MAKE_PROCESS_CPUCLOCK, CPUCLOCK_SCHED
    return time.perf_counter


class Bench:
    """A benchmark's server, its client and its fixed random numbers."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.redis = self.client()
        self.random = random.Random(SEED)

    def client(self, **settings: Any) -> Any:
        """A client as a user makes it; raw commands and DPQ get the same kind."""
        return Redis.from_url(self.server.url, **settings)

    def queue(self, **settings: Any) -> DPQ[Any]:
        return DPQ(self.client(), f"bench-{uuid4().hex}", default_visibility=3600, **settings)

    def watched(self, **settings: Any) -> tuple[DPQ[Any], Watched]:
        """A queue whose client notes the longest script."""
        client = Watched.from_url(self.server.url)
        client.clock = server_clock(self.server.pid)
        name = f"bench-{uuid4().hex}"
        return DPQ(client, name, default_visibility=3600, **settings), client

    def priorities(self, count: int) -> list[int]:
        return [self.random.randrange(1_000_000) for _ in range(count)]

    def fill(self, queue: DPQ[Any], count: int, **same: Any) -> None:
        priority = self.random.randrange
        queue.push_many(
            Push(payload=payload(n), priority=priority(1_000_000), **same) for n in range(count)
        )

    def wait_until_freed(self) -> None:
        """Wait for the server's thread that frees dropped queues in the background."""
        wait_until(
            lambda: not self.redis.info("memory")["lazyfree_pending_objects"], "all is freed"
        )

    def script_time(self) -> tuple[int, float]:
        """How many scripts the server has run, and the microseconds that they took."""
        stats = self.redis.info("commandstats").get("cmdstat_evalsha", {"calls": 0, "usec": 0})
        return stats["calls"], stats["usec"]


def payload(number: int) -> dict[str, Any]:
    """About 100 bytes of JSON, as somebody who scrapes would push."""
    return {
        "url": f"https://api.example.com/v1/items/{number:012d}?fields=all&page=1",
        "retry": False,
    }


def raw_member(number: int) -> bytes:
    """The same bytes, different in each number: a member of a raw sorted set."""
    return json.dumps(payload(number), separators=(",", ":")).encode()


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio(
    bench: Bench,
    ours: Callable[[], object],
    raw: Callable[[], object],
    prepare: Callable[[], object],
    tasks: int,
) -> tuple[list[float], str]:
    """How fast `ours` is against `raw` (0.5: half as fast): a sample a round, after a warm-up.

    Args:
        bench: Whose server runs the scripts.
        ours: One slice of DPQ's side.
        raw: One slice of the raw side.
        prepare: Called before each round, untimed.
        tasks: How many tasks a slice handles, on either side.

    Returns:
        The samples, and microseconds for each task: all, in scripts, of the client's processor.
    """
    samples: list[float] = []
    parts: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS + 1):
        prepare()
        seconds = {ours: 0.0, raw: 0.0}
        script = client = 0.0
        for turn in range(SLICES):
            for side in (ours, raw) if turn % 2 else (raw, ours):
                script_before, client_before = bench.script_time()[1], time.process_time()
                seconds[side] += timed(side)
                if side is ours:
                    client += time.process_time() - client_before
                    script += bench.script_time()[1] - script_before
        samples.append(seconds[raw] / seconds[ours])
        each = SLICES * tasks
        parts.append((seconds[ours] / each * 1e6, script / each, client / each * 1e6))
    whole, script, client = (median(column) for column in zip(*parts[1:], strict=True))
    detail = f"{whole:.1f} us (script {script:.1f}, client {client:.1f}), "
    return samples[1:], f"{detail}raw {whole * median(samples[1:]):.1f} us"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.001)


@contextmanager
def _bench(server: str | None) -> Iterator[Bench]:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    with Server.start(find_binary(server)) as place:
        if len(cores) > 1:
            os.sched_setaffinity(place.pid, {min(cores)})
            os.sched_setaffinity(0, cores - {min(cores)})
        try:
            yield Bench(place)
        finally:
            if len(cores) > 1:
                os.sched_setaffinity(0, cores)


@cache
def commit() -> str:
    with suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
        return subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.strip()
    return "unknown"


def processor() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor()


def run_all() -> None:
    """Run what the command line names; see `_run`."""
    typer.run(_run)


def run_one(name: str) -> None:
    """Run one benchmark with the same options: `python -m benchmarks.bench_push --json`."""
    sys.argv.insert(1, name)
    typer.run(_run)


def _run(
    names: Annotated[
        list[str] | None,
        typer.Argument(help=f"Which benchmarks; default: all but {' and '.join(NAMED)}."),
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="A redis-server or valkey-server; default: the first found.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Put the rows into benchmarks/RESULTS.md.")
    ] = False,
) -> None:
    """Run benchmarks on a private server; exit 1 when a target is missed."""
    if unknown := set(names or ()) - {*ALL, *NAMED}:
        choice = ", ".join((*ALL, *NAMED))
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: choose from {choice}")
    try:
        code = {name: code_of(name) for name in names or ALL} if write else {}
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    began, rows = time.monotonic(), []
    talk = Console(stderr=True)
    binary = find_binary(server)
    report: dict[str, Any] = {
        "commit": commit(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "server": f"{binary.family} {binary.version}",
    }
    if not as_json:
        print(head_of(report))
    for name in names or ALL:
        talk.print(f"{time.monotonic() - began:5.0f} s  {name}", style="dim")
        first = len(rows)
        for row in _rows(name, server):
            rows.append(row)
            if not as_json:
                print(line_of(row), flush=True)
        if write:
            about = (import_module(f"benchmarks.bench_{name}").__doc__ or "").partition("\n")[0]
            text = section(name, about, report, rows[first:])
            put(Section(name, report["server"], code[name], text), (*ALL, *NAMED))
    report |= {"seconds": round(time.monotonic() - began), "results": rows}
    missed = [row["measure"] for row in rows if not row["ok"]]
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print(
            f"{len(rows)} rows in {report['seconds']} s; missed or failed: {len(missed)}",
            *missed,
            sep="\n  ",
        )
    raise typer.Exit(1 if missed else 0)


def _rows(name: str, server: str | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a benchmark as they are measured; its failure is a row, too."""
    try:
        with _bench(server) as bench:
            for result in import_module(f"benchmarks.bench_{name}").measure(bench):
                yield result.summary()
    except Exception as error:
        Console(stderr=True).print_exception()
        yield {"measure": f"the rest of {name}", "ok": False, "failed": repr(error)}
