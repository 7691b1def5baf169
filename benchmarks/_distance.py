"""A way to a server that takes longer than it does, through a proxy on this machine.

The proxy listens on a socket that only this user can reach.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks._harness import percentile
from dpq.server.private import SOCKET_BYTES

PINGS = 300
PING_SECONDS = 0.15
"""The most PINGs of one look, and the most seconds: PINGs to a far server take long."""

QUIET = 0.2
"""The share of PINGs that nothing else on this machine holds up."""

_PROXY = Path(__file__).with_name("_proxy.py")


class Distance:
    """A proxy in a process of its own, between a socket and a server.

    Args:
        target: The server: `unix:PATH`, or `tcp:HOST:PORT`.

    Attributes:
        path: The socket to connect to.
    """

    def __init__(self, target: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="dpq-"))
        if len(str(self._directory)) > SOCKET_BYTES - 20:  # TMPDIR may be long
            self._directory.rmdir()
            self._directory = Path(tempfile.mkdtemp(prefix="dpq-", dir="/tmp"))
        self.path = self._directory / "far.sock"
        command = [sys.executable, "-I", "-S", str(_PROXY), str(self.path), target]
        pipe = subprocess.PIPE
        # A session of its own: a Ctrl-C at the terminal must not end it before its user.
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        try:
            self._await_answer()
        except BaseException:
            self.close()
            raise

    def hold(self, seconds: float) -> None:
        """Hold back each piece, in both directions, for so long: half of a round trip."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds:.9f}\n".encode())
        self._process.stdin.flush()
        self._await_answer()

    def set(self, round_trip_ms: float, ping: Callable[[], object]) -> None:
        """Hold back so long that a quiet PING through the proxy takes so many ms.

        Args:
            round_trip_ms: The round trip, with the way from the proxy to the server.
            ping: Sends one PING through the proxy.
        """
        delay = 0.0
        for _ in range(3):  # a wait takes longer than it should: see what it takes, and mend it
            self.hold(delay)
            delay = max(0.0, delay + (round_trip_ms - ping_ms(ping, QUIET)) / 2000)
        self.hold(delay)

    def close(self) -> None:
        """End the proxy and remove its socket."""
        self._process.kill()
        self._process.communicate()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _await_answer(self) -> None:
        assert self._process.stdout
        if not self._process.stdout.readline():
            raise OSError("the proxy has ended")


def ping_ms(ping: Callable[[], object], share: float) -> float:
    """Return how many ms a PING takes at most in this share of all cases, from 0 to 1."""
    taken: list[float] = []
    give_up = time.perf_counter() + PING_SECONDS
    while not taken or (len(taken) < PINGS and time.perf_counter() < give_up):
        began = time.perf_counter()
        ping()
        taken.append((time.perf_counter() - began) * 1000)
    return percentile(taken, share)
