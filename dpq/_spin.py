"""Looks for a reply that is nearly here, again and again for a moment, before the thread sleeps.

To be put to sleep and woken takes a thread 40 us, and leaves it a cold cache: more than a script
takes. Source: benchmarks/README.md, "The way to the server". Where replies take longer (the server
is far, or has many callers; this machine has one core) they are soon hardly ever looked for.
"""

from time import perf_counter
from typing import Any

SPIN_SECONDS = 60e-6
"""How long a thread looks, for each script: one that moves a task has answered by then."""

MOST_SCRIPTS = 4
"""For which a thread looks so long; of more, the last reply is not near."""

HITS_FOR_A_MISS = 8
"""How many replies found in time make up for one that was not."""

MOST_DOUBT = 10


class Spin:
    """Whether it is worth it to look, by how that went before; for the connections to one server.

    Threads may use it at the same time: it holds no more than a guess.
    """

    __slots__ = ("_doubt", "_skip")

    def __init__(self) -> None:
        self._doubt = 0.0
        self._skip = 0  # replies to come that are not looked for

    def until_readable(self, connection: Any, scripts: int) -> None:
        """Return when there is something to read, or when it is better to wait for it asleep.

        Args:
            connection: On which the reply comes.
            scripts: How many were sent together; a server sends their replies together, too.

        Raises:
            ConnectionError: The connection was closed.
        """
        if self._skip:
            self._skip -= 1
            return
        give_up = perf_counter() + SPIN_SECONDS * min(scripts, MOST_SCRIPTS)
        while not connection.can_read(timeout=0):
            if perf_counter() > give_up:
                self._doubt = min(self._doubt + 1, MOST_DOUBT)
                self._skip = int(2**self._doubt)  # 2 replies, then 4, up to 1024
                return
        self._doubt = max(self._doubt - 1 / HITS_FOR_A_MISS, 0)
