"""A session that also sends ahead: the reply to an exchange is read later.

`DPQ` has an `AheadSession`, for workers of threads. A worker of asyncio needs none: its tasks run
while an exchange is under way.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dpq.link.session import Q, QueueSession
from dpq.script.command import Steps, Together, together


class AheadSession(QueueSession[Q]):
    """A session of one queue that also sends ahead."""

    def begin_all(self, operations: Sequence[Steps[Any]]) -> Callable[[], list[Any]]:
        """Send the first commands of operations; return a function that does the rest."""
        driver = together(operations)
        try:
            commands = next(driver)
        except StopIteration as end:
            results: list[Any] = end.value
            return lambda: results
        self.ready()
        return partial(self._rest, driver, self.connections.begin(commands))

    def _rest(self, driver: Together, receive: Callable[[], list[Any]]) -> list[Any]:
        """Run operations to their ends, once their first commands are sent."""
        try:
            while True:
                receive = self.connections.begin(driver.send(receive()))
        except StopIteration as end:
            results: list[Any] = end.value
            return results
