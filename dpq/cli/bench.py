"""`dpq bench`: the measures of a server, beside its raw commands."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Annotated, Any, NoReturn

from rich.progress import BarColumn, TextColumn

from dpq.bench.measures import EACH_SHARE, LATENESS_SHARE, MEMORY_SHARE, Plan
from dpq.bench.rows import Latency, Memory, Throughput
from dpq.bench.run import STEPS, Row, Server, measured
from dpq.cli._options import DEFAULT_URL, Json, Url, option
from dpq.cli._progress import Bar
from dpq.cli._render import bench_latency, bench_memory, bench_throughput
from dpq.cli._terminal import emit, tables, talk

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run as Ctrl-C does: with all its keys removed."""

SHARES = dict(zip(STEPS, (LATENESS_SHARE, MEMORY_SHARE, EACH_SHARE, EACH_SHARE), strict=True))


def bench(
    seconds: Annotated[
        float, option("SECONDS", "How long it measures, all in all.", min=0.1, max=3600)
    ] = 20,
    groups: Annotated[
        int,
        option(
            "N",
            "Put the tasks into so many groups, under limits that hold nothing back.",
            unset="no groups, no limits",
            min=0,
            max=100_000,
        ),
    ] = 0,
    payload: Annotated[
        int, option("BYTES", "The bytes of a payload as JSON.", min=30, max=1_000_000)
    ] = 100,
    rtt: Annotated[
        float,
        option(
            "MS",
            "Send all through a proxy on this machine that adds so many ms to each round trip.",
            unset="no proxy",
            min=0,
            max=1000,
        ),
    ] = 0,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Measure a server: throughput, latency, lateness and memory, beside its raw commands.

    It works in a queue of its own with a random name, and removes it in the end, also at Ctrl-C. It
    needs some MB of the server's memory. Other programs on this server are slowed meanwhile.

    \b
      dpq bench                          about 20 s on the server of DPQ_URL
      dpq bench --url embedded:          a server that dpq starts for it
      dpq bench --groups 400             tasks in groups, under limits
      dpq bench --rtt 1                  as if the server were 1 ms further away

    \b
    One program measures, one call after the other; several programs together get more. The raw
    commands take the same connections as any program with redis-py. A ratio of 0.5 is half as fast.
    """
    plan = Plan(seconds, groups, payload)
    rows: list[Row] = []
    with _ended_by_signals(), _Steps(seconds) as steps:
        run = measured(
            url, plan, rtt, step=steps.begin, met=lambda each: _met(each, json), removing=_alone
        )
        with closing(run):  # an interrupt may come here as well as within it
            for row in run:
                rows.append(row)
                if json:
                    emit({"kind": type(row).__name__.lower(), **row._asdict()})
    if not json:
        _print(rows)
    if not any(isinstance(row, Memory) for row in rows):
        talk("warning: memory was not measured: the Redis user needs +memory|usage")


def _met(server: Server, json: bool) -> None:
    if json:
        emit({"kind": "server", **server._asdict()})
    elif server.family:
        talk(f"{server.family} {server.version}, a PING takes {server.ping_ms:.3g} ms")
    if server.others is None:
        talk("warning: other connections were not counted: the Redis user needs +info")
    elif server.others:
        talk(
            f"warning: other connections to this server: {server.others}; they are slowed meanwhile"
        )


def _print(rows: Sequence[Row]) -> None:
    screen = tables()
    screen.print(bench_throughput([each for each in rows if isinstance(each, Throughput)]))
    screen.print()
    screen.print(bench_latency([each for each in rows if isinstance(each, Latency)]))
    memory = [each for each in rows if isinstance(each, Memory)]
    if memory:
        screen.print()
        screen.print(bench_memory(memory))


class _Steps:
    """Shows which step runs, and how much of the time is over."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._done = 0.0
        self._bar = Bar(
            BarColumn(bar_width=24),
            TextColumn("{task.fields[told]}"),
            lines=False,
            total=seconds,
            told="",
        )

    def __enter__(self) -> "_Steps":
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def begin(self, name: str) -> None:
        """Show that a step begins."""
        left = self._seconds - self._done
        line = f"measuring {name}, about {left:.0f} s left"
        self._bar.show(line, completed=self._done, told=line)
        self._done += SHARES[name] * self._seconds


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let other signals end the body as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    with _signals(ENDINGS, end):
        yield


@contextmanager
def _alone() -> Iterator[None]:
    """Let no signal interrupt the body: it is short, or its calls end by their timeouts."""
    with _signals((signal.SIGINT, *ENDINGS), signal.SIG_IGN):
        yield


@contextmanager
def _signals(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
