"""Looks for a reply that is nearly here, again and again for a moment, before the thread sleeps.

To be put to sleep and woken takes a thread 40 us, and leaves it a cold cache: more than a script
takes. Source: benchmarks/README.md, "The way to the server". Where replies take longer (the server
is far, or has many callers; this machine has one core) they are soon hardly ever looked for.
"""

from time import perf_counter
from typing import Any

LOOKS = 120
"""How often a thread looks for the reply of one script, 1 to 2 us each. 98 of 100 that move a task
have answered by then on the same machine, half of them after 55. For each further script half as
many. Counted, since a slower machine wants longer."""

LOOK_SECONDS = 5e-6
"""A look that takes longer was held up: by a process on the same processor, or by a thread."""

SLACK_LOOKS = 10
"""So many may be: the first ones are not warm, and a few say nothing."""

MOST_SCRIPTS = 4
"""For which a thread looks longer; of more, the reply is not near."""

HITS_FOR_A_MISS = 16
"""How many replies found in time make up for one that was not."""

MOST_DOUBT = 10
"""Doublings of the replies that are not looked for after a miss: up to 1024."""


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
                Of none there is no reply.

        Raises:
            ConnectionError: The connection was closed.
        """
        if self._skip or not scripts:
            self._skip = max(self._skip - 1, 0)
            return
        began = perf_counter()
        for looks in range(LOOKS * (1 + min(scripts, MOST_SCRIPTS)) // 2):
            if connection.can_read(timeout=0):
                if perf_counter() - began < (looks + SLACK_LOOKS) * LOOK_SECONDS:
                    self._doubt = max(self._doubt - 1 / HITS_FOR_A_MISS, 0)
                    return
                break  # found, but others wanted the processor meanwhile
        self._doubt = min(self._doubt + 1, MOST_DOUBT)
        self._skip = int(2**self._doubt)
