"""The pulse of a worker or a scheduler: which of its loops move, and whether a server answers.

Its loops call it; `health` reads it, from any thread. No I/O.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpq.model.reports import Health

STUCK_SECONDS = 60.0
"""Seconds without a move after which a loop counts as stuck: longer than any wait of DPQ, and than
the timeouts of a server that is silent."""


class Pulse:
    """The moves of one run: of its loops, and of the server."""

    def __init__(self, silent_seconds: float) -> None:
        self.stuck_seconds = STUCK_SECONDS
        self.silent_seconds = silent_seconds  # then the server counts as away
        self.trouble = ""  # the reason why the last call has failed
        # Times of monotonic seconds: of the last move of each loop, and of the last answer.
        self._moved: dict[str, float] = {}
        self._heard = -math.inf

    def move(self, loop: str) -> None:
        """Note that a loop moves."""
        self._moved[loop] = time.monotonic()

    def rest(self, loop: str) -> None:
        """Note that a loop has nothing to do: it is not stuck."""
        self._moved.pop(loop, None)

    def hear(self, *, answered: bool) -> None:
        """Note whether a server has answered."""
        self._heard = time.monotonic() if answered else -math.inf

    def health(self, *, stopping: bool) -> Health:
        """Return the health: live if all loops move, ready if the server answers, too."""
        from dpq.model.reports import Health

        now = time.monotonic()
        stuck = [
            f"{loop} has not moved for {now - moved:.0f} s"
            for loop, moved in list(self._moved.items())
            if now - moved > self.stuck_seconds
        ]
        wrong = ["it is stopping"] * stopping
        if self.trouble:
            wrong.append(self.trouble)
        elif now - self._heard > self.silent_seconds:
            wrong.append("the server does not answer")
        reasons = (*stuck, *wrong)
        return Health(live=not stuck, ready=not reasons, reasons=reasons)
