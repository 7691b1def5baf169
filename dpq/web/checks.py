"""Checks of all that a queue stores, in threads: the page about the server begins them."""

import threading
from collections.abc import Iterator
from typing import Any

from redis.exceptions import RedisError

from dpq import DPQ, ConfigurationError, DPQError
from dpq.model.diagnosis import explain
from dpq.types import Problem

AT_ONCE = 2
KEPT = 20


class Check:
    """One check.

    Attributes:
        queue: The queue.
        running: True until it has ended.
        problems: The problems that it found, each with its meaning and the way out.
        error: The reason why the check failed.
    """

    def __init__(self, queue: DPQ[Any]) -> None:
        """Take the queue; nothing is read yet."""
        self.queue = queue
        self.running = True
        self.problems: list[tuple[Problem, str, str]] = []
        self.error = ""

    def run(self) -> None:
        """Check all that is stored, in bounded steps."""
        try:
            self.problems = [(each, *explain(each)) for each in self.queue.check()]
        except (DPQError, RedisError, OSError) as error:
            self.error = f"{type(error).__name__}: {error}"
        self.running = False


class Checks:
    """The last checks, the newest first."""

    def __init__(self) -> None:
        """Begin without checks."""
        self._checks: list[Check] = []
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Check]:
        """Go over the checks, the newest first."""
        return iter(list(reversed(self._checks)))

    def begin(self, check: Check) -> None:
        """Run a check in a thread."""
        with self._lock:
            if sum(each.running for each in self._checks) >= AT_ONCE:
                raise ConfigurationError(f"{AT_ONCE} checks are running: wait for the end of one")
            name = check.queue.queue_name
            self._checks = [c for c in self._checks if c.queue.queue_name != name or c.running]
            self._checks = [*self._checks, check][-KEPT:]
        threading.Thread(target=check.run, name=f"dpq web check {name}", daemon=True).start()
