"""Connections and waiters that no thread uses now. `connections` and `waiter` keep them here."""

import os
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

C = TypeVar("C")


class Idle(Generic[C]):
    """Connections or waiters kept for the next use, by any thread. A forked child begins with none.

    Attributes:
        kept: The connections that no thread uses now; the last one was used last.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._pid = os.getpid()
        self.kept: deque[C] = deque()

    def take(self) -> C:
        """Take a kept connection, or make a new one."""
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self.kept, self._pid = deque(), os.getpid()
        try:
            return self.kept.pop()
        except IndexError:
            return self._make()
