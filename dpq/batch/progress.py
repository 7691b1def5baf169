"""The counts of a run, of its own requests. `dpq run` shows them; the library only counts."""

import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dpq import AsyncDPQ

log = logging.getLogger(__name__)


class Progress:
    """The counts of one process.

    Attributes:
        saved_here: Answers that this process has saved.
        limited_here: Answers that were a limit of the API, which closes the group.
        refused_here: Answers that were not good, by status, and requests without an answer.
    """

    def __init__(self, total: int) -> None:
        """Begin to count a batch of so many requests."""
        self.total = total
        self.saved_here = self.limited_here = 0
        self.refused_here = Counter({"429": 0})

    def saved(self) -> None:
        """Count an answer that was saved."""
        self.saved_here += 1

    def refused(self, status: int | None, *, limited: bool = False) -> None:
        """Count a request that got no good answer; the status is None if none came."""
        self.refused_here["no answer" if status is None else str(status)] += 1
        self.limited_here += limited

    def say(self, text: str) -> None:
        """Tell something that a person may wait for."""
        log.info("%s", text)

    @asynccontextmanager
    async def showing(self, queue: AsyncDPQ[Any], group: str) -> AsyncIterator[None]:
        """Show the progress of a queue and its group, while the body runs: nothing here."""
        yield
