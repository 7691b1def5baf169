"""Two servers, of which one replicates the other, and a socket that leads to the master.

Clients know one URL only: a symbolic link to the master's unix socket, which a failover turns. The
servers replicate over loopback TCP. Each command is on the disk before it is answered (AOF,
`appendfsync always`), so a killed server loses nothing. Nothing here knows of queues.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from dpq.server import Binary

PATIENCE_S = 60.0
"""Generous: a server starts in 0.1 s, and a replica of a small master is there after 1 s."""

FENCE = "soak:fence"
"""A key of the conductor's own."""


def die_with_parent() -> None:
    """Let this process be killed when the one that has forked it ends. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Poll until something is so; fails after a minute."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.005)


class Node:
    """One server: its directory, socket and port; `process` is None while it is down.

    `settings` are those of the server that differ from the usual ones.
    """

    def __init__(self, directory: Path, binary: Binary, **settings: Any) -> None:
        directory.mkdir()
        self.directory, self.binary = directory, binary
        self.settings = settings
        self.socket = directory / "s.sock"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Redis(
            unix_socket_path=str(self.socket), socket_timeout=10, retry=Retry(NoBackoff(), 0)
        )

    def start(self, master: "Node | None" = None) -> None:
        """Start it, with the data that it has, and wait until it answers."""
        while True:
            self.port = self.port or _free_port()
            options: dict[str, Any] = {
                "--port": self.port, "--bind": "127.0.0.1", "--unixsocket": self.socket,
                "--dir": self.directory, "--logfile": self.directory / "log", "--save": "",
                "--appendonly": "yes", "--appendfsync": "always",
                "--auto-aof-rewrite-min-size": "16mb", "--repl-diskless-sync-delay": 0,
                "--repl-diskless-load": "swapdb",  # to disk, a sync waits for the next second
                "--repl-backlog-size": "64kb", "--repl-ping-replica-period": 1,
                **{f"--{name}": value for name, value in self.settings.items()},
            }  # fmt: skip
            command = [str(self.binary.path), *(str(w) for pair in options.items() for w in pair)]
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # the conductor has one thread
                start_new_session=True,  # a Ctrl-C is for the conductor
            )
            wait_for(lambda: self.answers() or self.ended(), f"{self.directory} answers")
            if not self.ended():
                if master:  # told so at its start, it would look for the master a second later
                    self.client.execute_command("REPLICAOF", "127.0.0.1", master.port)
                return
            if "Address already in use" not in (self.directory / "log").read_text():
                raise RuntimeError((self.directory / "log").read_text()[-2000:])
            self.port = 0

    def answers(self) -> bool:
        """Whether it is there, and has read its data."""
        with contextlib.suppress(RedisError):
            return bool(self.client.ping())
        return False

    def ended(self) -> bool:
        """Whether its process is gone."""
        return self.process is None or self.process.poll() is not None

    def signal(self, number: int) -> None:
        """Send a signal to its process."""
        assert self.process
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it, as a crash does."""
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # with the child that rewrites its AOF
            self.process.wait()
            self.process = None
        self.client.connection_pool.disconnect()


class Pair:
    """A master and its replica.

    Attributes:
        front: The socket of the master, whoever that is.
        url: Leads there.
    """

    def __init__(self, directory: Path, binary: Binary, **settings: Any) -> None:
        self.master, self.replica = (Node(directory / n, binary, **settings) for n in ("a", "b"))
        self.front = directory / "front.sock"
        self.url = f"unix://{self.front}"

    def start(self) -> None:
        self.master.start()
        self.replica.start(self.master)
        self._turn()
        self.settle()

    def close(self) -> None:
        for node in (self.master, self.replica):
            node.kill()
            node.client.close()

    def settle(self) -> None:
        """Wait until the replica has all that the master has."""

        def in_step() -> bool:
            with contextlib.suppress(RedisError):
                told = self.replica.client.info("replication")
                return told["role"] == "slave" and told["master_link_status"] == "up"
            return False

        wait_for(in_step, "the replica is in step")

    def fence(self) -> None:
        """Return once the replica has all that was answered before this call."""
        with self.master.client.pipeline(transaction=False) as pipeline:
            pipeline.set(FENCE, time.time())
            pipeline.execute_command("WAIT", 1, 10_000)
            if pipeline.execute()[1] < 1:
                raise TimeoutError("the replica does not confirm")

    def restart(self, down: float) -> None:
        """Kill the master, and start it again."""
        self.master.kill()
        time.sleep(down)
        self.master.start()

    def switch(self) -> None:
        """Make the replica the master, such that nothing is lost: writes are held back first."""
        client = self.master.client
        client.execute_command("CLIENT", "PAUSE", 10_000, "WRITE")
        offset = client.info("replication")["master_repl_offset"]
        wait_for(
            lambda: self.replica.client.info("replication")["slave_repl_offset"] >= offset,
            "the replica has all",
        )
        self.master.kill()
        self._promote()

    def fail_over(self, apart: float) -> None:
        """Make the replica the master; what the master does in the last `apart` seconds is lost."""
        self.replica.client.execute_command("REPLICAOF", "NO", "ONE")
        time.sleep(apart)
        self.master.kill()
        self._promote()

    def follow(self) -> None:
        """Start the one that is down as a replica of the other."""
        self.replica.start(self.master)

    def _promote(self) -> None:
        self.replica.client.execute_command("REPLICAOF", "NO", "ONE")
        self.master, self.replica = self.replica, self.master
        self._turn()

    def _turn(self) -> None:
        other = self.front.with_suffix(".new")
        os.symlink(self.master.socket, other)
        other.replace(self.front)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
