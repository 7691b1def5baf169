"""Worker processes, seen from a test: start them, kill them, wait for their end."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from support import wait_for

PROGRAM = Path(__file__).with_name("program.py")


class Hand:
    """A worker process.

    Attributes:
        name: Unlike any other in the session; a restarted worker is a new hand.
        pid: Its process.
        ledger: Its file of tasks, see ledger.py.
        log: Its file of log lines.
        status: Its exit status, negative for a signal; None while it runs.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.pid = 0
        self.ledger = directory / f"{name}.ledger"
        self.log = directory / f"{name}.log"
        self.status: int | None = None

    def __repr__(self) -> str:
        log = self.log.read_text()[-1500:] if self.log.exists() else ""
        return f"{self.name} (pid {self.pid}, status {self.status}) says: {log}"


class Workers:
    """All worker processes of a session. They end with it, even if it is killed.

    Attributes:
        hands: All that were started since the last `dismiss`.
    """

    def __init__(self) -> None:
        # Coverage would only slow down who is killed anyway.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
        self._foreman = subprocess.Popen(
            [sys.executable, PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the tests; the end of stdin tells it
            env=environment,
        )
        self._started = 0
        self._by_name: dict[str, Hand] = {}
        self.hands: list[Hand] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(self, directory: Path, kind: str, url: str, queue: str, **settings: Any) -> Hand:
        """Start a worker process; see `program.work`."""
        self._started += 1
        hand = Hand(f"{kind}-{self._started}", directory)
        self._by_name[hand.name] = hand
        self.hands.append(hand)
        places = {"ledger": str(hand.ledger), "log": str(hand.log)}
        self._order(
            {"start": hand.name, "kind": kind, "url": url, "queue": queue}, settings, places
        )
        wait_for(lambda: hand.pid, lambda: f"{hand.name} does not start")
        return hand

    def kill(self, hand: Hand) -> None:
        """End a process with SIGKILL, and see that it has."""
        self._order({"signal": hand.name, "number": signal.SIGKILL})
        assert self.wait(hand) == -signal.SIGKILL, hand

    def stop(self, *hands: Hand) -> None:
        """End processes with SIGTERM, all at once, and see that they leave in peace."""
        for hand in hands:
            self._order({"signal": hand.name, "number": signal.SIGTERM})
        for hand in hands:
            assert self.wait(hand) == 0, hand

    def wait(self, hand: Hand) -> int:
        """Wait for the end of a process; its exit status."""
        wait_for(lambda: hand.status is not None, lambda: hand)
        assert hand.status is not None
        return hand.status

    def dismiss(self) -> None:
        """Kill whoever still runs."""
        for hand in self.hands:
            if hand.status is None:
                self._order({"signal": hand.name, "number": signal.SIGKILL})
        for hand in self.hands:
            self.wait(hand)
        self.hands.clear()
        self._by_name.clear()

    def close(self) -> None:
        """End all processes."""
        assert self._foreman.stdin
        assert self._foreman.stdout
        self._foreman.stdin.close()
        self._foreman.wait()
        self._listener.join()
        self._foreman.stdout.close()

    def _order(self, *parts: dict[str, Any]) -> None:
        assert self._foreman.stdin
        order = {name: value for part in parts for name, value in part.items()}
        self._foreman.stdin.write(json.dumps(order).encode() + b"\n")
        self._foreman.stdin.flush()

    def _listen(self) -> None:
        assert self._foreman.stdout
        for line in self._foreman.stdout:
            report = json.loads(line)
            if "pid" in report:
                self._by_name[report["started"]].pid = report["pid"]
            else:
                self._by_name[report["ended"]].status = report["status"]
