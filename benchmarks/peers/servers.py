"""The servers of the peers: one Redis or Valkey for all, on loopback, and a beanstalkd.

The peers reach the server over TCP, since not each of their clients knows unix sockets. On Linux a
server has the first core and the clients have the others. Programs run in a process group of their
own, which is killed at their end, whatever they have started.
"""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from redis import Redis

from benchmarks._harness import REPOSITORY
from benchmarks.peers.environments import PROGRAMS, beanstalkd
from dpq.server import Server, find_binary

LAST_WORDS = 2000  # characters of what a failed program said, from its end


class ProgramError(Exception):
    """A program failed, or took too long; the text says what it said."""


def free_port() -> int:
    """Return a port of loopback that nothing listens at now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass(frozen=True)
class Counted:
    """What a server has done up to a moment.

    Attributes:
        commands: How many commands it ran, those within scripts too.
        network: Bytes that came and went.
        processor: Microseconds of its processor time.
        memory: Bytes in use.
        calls: How often each command was run.
    """

    commands: float
    network: float
    processor: float
    memory: float
    calls: Mapping[str, int]


class Place:
    """The server that the peers share."""

    def __init__(self, server: Server, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}/0"
        self.pid = server.pid
        self.redis = Redis.from_url(server.url)
        info = self.redis.info("server")
        family = info.get("server_name", "redis")
        self.version = f"{family} {info.get('valkey_version', info['redis_version'])}"

    def empty(self) -> None:
        """Remove all that is stored; the server is this program's own."""
        self.redis.flushall()

    def counted(self) -> Counted:
        """Read the server's own counters. Its own reading is left out."""
        info = self.redis.info("everything")
        calls = {
            name.removeprefix("cmdstat_"): int(each["calls"])
            for name, each in info.items()
            if name.startswith("cmdstat_") and name != "cmdstat_info"
        }
        return Counted(
            sum(calls.values()),
            info["total_net_input_bytes"] + info["total_net_output_bytes"],
            (info["used_cpu_user"] + info["used_cpu_sys"]) * 1e6,
            info["used_memory"] - info.get("used_memory_scripts_eval", 0),
            calls,
        )


@contextmanager
def place(binary: str | None = None) -> Iterator[Place]:
    """Start the server; while it runs, this process and its children keep off its core."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    port = free_port()
    address = ["--bind", "127.0.0.1", "--port", str(port)]
    with Server.start(find_binary(binary), extra_args=address) as server:
        if len(cores) > 1:
            os.sched_setaffinity(server.pid, {min(cores)})
            os.sched_setaffinity(0, cores - {min(cores)})
        try:
            yield Place(server, port)
        finally:
            if len(cores) > 1:
                os.sched_setaffinity(0, cores)


@contextmanager
def a_beanstalkd(beside: int) -> Iterator[tuple[str, int]]:
    """Start a beanstalkd on the core of another process; yield its address and its own id."""
    port = free_port()
    words = [str(beanstalkd()), "-l", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            if hasattr(os, "sched_getaffinity"):
                os.sched_setaffinity(process.pid, os.sched_getaffinity(beside))
            _wait_for(port)
            yield f"beanstalkd://127.0.0.1:{port}", process.pid
        finally:
            process.kill()


def resident(pid: int) -> int:
    """Return the bytes of memory of a process; 0 where nothing tells."""
    with suppress(OSError), open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _wait_for(port: int, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > deadline:
            raise ProgramError(f"nothing listens at {port}")
        time.sleep(0.01)


@contextmanager
def started(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program in a process group of its own, and kill that group at the end."""
    paths = os.pathsep.join((str(REPOSITORY), str(PROGRAMS)))
    environment = {**os.environ, "PYTHONPATH": paths, "NO_PROXY": "127.0.0.1"}
    with subprocess.Popen(
        words, env=environment, text=True, start_new_session=True, **options
    ) as process:
        try:
            yield process
        finally:
            end(process)


def end(process: "subprocess.Popen[str]") -> None:
    """Kill a program that `started` has started, and all of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def figures_of(words: Sequence[str], patience: float) -> dict[str, Any]:
    """Run a program to its end; return the JSON of its last line.

    Raises:
        ProgramError: It failed, said nothing, or took longer than `patience` seconds.
    """
    with started(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            said, complaint = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired as error:
            raise ProgramError(f"it took longer than {patience:g} s") from error
    lines = [line for line in said.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        raise ProgramError(complaint.strip()[-LAST_WORDS:] or "it said nothing")
    figures: dict[str, Any] = json.loads(lines[-1])
    return figures
