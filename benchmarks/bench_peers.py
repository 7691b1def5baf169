"""How fast are other queues on this machine, with the same server and the same work?

Each peer runs as a program of its own in `benchmarks/peers`, in its fastest at-least-once
configuration with one process, and against a fresh server. Everything is counted: the handler does
nothing, and each job is acknowledged. A round of redis-py alone stands beside each round of a
peer; ratios are to that. `benchmarks/README.md` says how to install peers. Where one is not
installed, its row says so.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._harness import REPOSITORY, Bench, Result, run_one

PROGRAMS = Path(__file__).parent / "peers"
PLACE = Path(os.environ.get("DPQ_PEERS", tempfile.gettempdir() + "/peers"))
"""A virtual environment with the Python peers, and `node_modules` with BullMQ."""

ROUNDS = 3
TASKS, BULK = 4000, 100
SLOW = 1500  # tasks of RQ, one of which takes 2 ms
PATIENCE = 120  # seconds for a program
FIGURES = ("push", "push_many", "consume")

Command = Sequence[str]
Made = Callable[[str], Command | None]
"""Makes the command of a program for the server's URL; None: not installed."""


def _python(program: str, module: str, tasks: int = TASKS, *more: str) -> Made:
    """Make the command of a program that the peers' own Python runs."""

    def made(url: str) -> Command | None:
        python = PLACE / "bin" / "python"
        if not python.exists():
            return None
        asked = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
        if asked.returncode:
            return None
        return (str(python), str(PROGRAMS / program), url, str(tasks), str(BULK), *more)

    return made


def _own(program: str, *more: str) -> Made:
    """Make the command of a program that this Python runs."""
    return lambda url: (
        *(sys.executable, str(PROGRAMS / program), url, str(TASKS), str(BULK)),
        *more,
    )


def _bullmq(concurrency: int) -> Made:
    def made(url: str) -> Command | None:
        node = shutil.which("node")
        if node is None or not (PLACE / "node_modules" / "bullmq").exists():
            return None
        program = str(PROGRAMS / "bullmq_worker.cjs")
        return (node, program, url, str(TASKS), str(BULK), str(PLACE), str(concurrency))

    return made


def _beanstalkd(bench: Bench) -> Made:
    """Make the command of a program that starts beanstalkd, on the core of the other server."""
    places = f"{os.environ['PATH']}{os.pathsep}{PLACE / 'usr' / 'bin'}"
    binary = shutil.which("beanstalkd", path=places)
    if binary is None:
        return lambda _: None
    pinned = hasattr(os, "sched_getaffinity")
    cores = os.sched_getaffinity(bench.server.pid) if pinned else ()
    socket = bench.server.directory / "beanstalkd.sock"

    def made(_: str) -> Command:
        socket.unlink(missing_ok=True)
        words = (f"unix://{socket}", str(TASKS), str(BULK), binary, ",".join(map(str, cores)))
        return (sys.executable, str(PROGRAMS / "beanstalkd_worker.py"), *words)

    return made


PEERS: dict[str, Made] = {
    "DPQ, Worker": _own("dpq_worker.py"),
    "DPQ, Worker(prefetch=100)": _own("dpq_worker.py", "100"),
    "RQ, SimpleWorker": _python("rq_worker.py", "rq", SLOW),
    "Dramatiq, 8 threads": _python("dramatiq_worker.py", "dramatiq", TASKS, "8", "0"),
    "Dramatiq, 1 thread, prefetch 1000": _python(
        "dramatiq_worker.py", "dramatiq", TASKS, "1", "1000"
    ),
    "BullMQ, 1 at once": _bullmq(1),
    "BullMQ, 100 at once": _bullmq(100),
}


def _run(command: Command) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(f"{command[1]}: {done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _measured(bench: Bench, name: str, made: Made) -> Iterator[Result]:
    if made(bench.server.url) is None:
        yield Result(f"{name}: not installed", "", None, [0])
        return
    rounds: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for _ in range(ROUNDS):
        pair = []
        for make in (made, _own("raw_worker.py")):
            bench.redis.flushdb()  # the server is this benchmark's own
            command = make(bench.server.url)
            assert command
            pair.append(_run(command))
        rounds.append((pair[0], pair[1]))
    bench.redis.flushdb()
    version = rounds[0][0]["version"]
    for figure in FIGURES:
        if rounds[0][0][figure] is None:
            continue
        samples = [ours[figure] / raw[figure] for ours, raw in rounds]
        rate, raw = (median(both[side][figure] for both in rounds) for side in (0, 1))
        detail = f"{rate:.0f} a second, redis-py alone {raw:.0f}"
        yield Result(f"{name} ({version}): {figure} / redis-py alone", "x", None, samples, detail)
    memory = [ours["bytes"] for ours, _ in rounds]
    yield Result(f"{name} ({version}): memory of a waiting job", "bytes", None, memory)


def measure(bench: Bench) -> Iterator[Result]:
    for name, made in {**PEERS, "beanstalkd, in memory": _beanstalkd(bench)}.items():
        try:
            yield from _measured(bench, name, made)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            yield Result(f"{name}: failed", "", None, [0], str(error))


if __name__ == "__main__":
    run_one("peers")
