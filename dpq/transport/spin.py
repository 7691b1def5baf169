"""Busy waiting: looks for a reply many times for a moment, before the thread sleeps.

`connections` calls it. To sleep and to be woken takes a thread 40 us, and leaves it a cold cache:
more than a script takes. Source: benchmarks/README.md, "The way to the server". If replies take
longer (the server is far, or has many callers; the machine has one core), it soon stops looking.
"""

import math
import os
import select
import socket
from collections.abc import Callable
from functools import partial
from time import perf_counter, thread_time
from typing import Any

LOOKS = 480
"""Looks for the reply of one script, 0.3 to 0.5 us each. By then 98 of 100 scripts that move a task
have answered on the same machine. Each further script adds half as many. A count and not a time,
since a slower machine needs longer."""

LOOKS_OF_REDIS_PY = 4
"""Looks in the time of one `can_read` of redis-py."""

LOST_SECONDS = 10e-6
"""Seconds that a thread may be without the processor while it looks. If it is longer, another
process or thread needs the processor too, and each look takes time from it."""

LOOKS_AT_ONCE = 40
"""Looks until the thread offers the processor to others again. If no other thread is ready to run,
an offer takes less time than a look. Without offers a ready thread might wait for some ms."""

MOST_SCRIPTS = 4
"""Scripts for which a thread looks longer; with more of them the reply takes too long."""

HITS_FOR_A_MISS = 16
"""Replies found in time that make up for one reply that was not found in time."""

MOST_MISSES = 10
"""Doublings of the number of replies that are not looked for after a miss: up to 1024."""


_offer_processor = getattr(os, "sched_yield", lambda: None)


class Spin:
    """The decision to look or to sleep, by the last looks; for the connections to one server.

    Threads may use it at the same time: a lost update only changes a guess.
    """

    __slots__ = ("_misses", "_skip")

    def __init__(self) -> None:
        self._misses = 0.0
        self._skip = 0  # the number of coming replies for which the thread sleeps at once

    def until_readable(self, connection: Any, scripts: int) -> None:
        """Return when there is a reply to read, or when it is better to sleep until it comes.

        Args:
            connection: The connection on which the reply comes.
            scripts: The number of scripts that were sent together; their replies come together,
                too. 0 scripts have no reply.

        Raises:
            ConnectionError: The connection was closed.
        """
        if self._skip or not scripts:
            self._skip = max(self._skip - 1, 0)
            return
        look, weight = _looker(connection)
        lost = thread_time() - perf_counter()
        for looks in range(0, LOOKS * (1 + min(scripts, MOST_SCRIPTS)) // 2, weight):
            if looks % LOOKS_AT_ONCE == 0:
                _offer_processor()
            if look():
                lost += perf_counter() - thread_time()
                if lost < LOST_SECONDS:
                    self._misses = max(self._misses - 1 / HITS_FOR_A_MISS, 0)
                    return
                break  # the reply is there, but the thread has lost the processor meanwhile
        self._misses = min(self._misses + 1, MOST_MISSES)
        self._skip = int(2**self._misses)


def can_read(connection: Any, seconds: float) -> bool:
    """Wait until a reply, or the end of the connection, can be read, at most so long.

    Raises:
        ConnectionError: The connection was closed; or it returns True, and reading tells.
    """
    poller = _poller(connection)
    if poller is None:
        return bool(connection.can_read(timeout=seconds))
    return bool(poller.poll(max(0, math.ceil(seconds * 1000))))


def _looker(connection: Any) -> tuple[Callable[[], object], int]:
    """Make the look for a reply, and say for how many it counts."""
    poller = _poller(connection)
    if poller is None:
        return partial(connection.can_read, timeout=0), LOOKS_OF_REDIS_PY
    return partial(poller.poll, 0), 1


def _poller(connection: Any) -> Any:
    """Make a poller of the socket of a connection; None for TLS, which may have read ahead.

    `can_read` of redis-py also tells whether the server has closed the connection, by two more
    system calls at each reply; here the next read finds that out. `can_read` takes an OSError or a
    ValueError of a signal handler for a closed socket. It is used for TLS, and for
    connections without a plain socket.
    """
    own = getattr(connection, "_sock", None)
    if type(own) is not socket.socket or not hasattr(select, "poll"):
        return None
    poller = select.poll()
    poller.register(own, select.POLLIN)
    return poller
