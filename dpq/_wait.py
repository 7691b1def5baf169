"""Blocking on a wake-up marker, for a time that the client measures itself.

A marker says "look now" (`w`, score 0), or "you are the one to look at that moment" (`e`, its
score in ms of the server's clock). A server lets go of timed-out blocked clients only at its own
tick, up to 100 ms late. So the blocking read stays outstanding on a connection of its own, and
this side watches the socket with a timer of its own. Must not decide anything about tasks.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from dpq._link import Idle, own_connection

RECHECK_SECONDS = 5.0
"""How long a waiter trusts in being woken, and the server's own limit on its block. So a lost
wake-up costs at most this, and a dead waiter swallows one at most. lua/_notice.lua has it in ms."""

_SHORTEST_BLOCK = 0.001  # 0 would block for ever
_REPLY_TIMEOUT = 2.0  # seconds for what a live server answers at once
_PAUSE_AFTER_FAULT = 0.1  # seconds; the pop that follows meets the same fault with its own retries


class Waiter:
    """One connection that blocks on one or more markers (one-member sorted sets).

    Args:
        client: Only its connection settings are used; its pool is left alone.
        markers: Keys of the markers; in a cluster they must lie in one slot.
    """

    def __init__(self, client: Any, markers: Sequence[str]) -> None:
        self._client = client
        self._markers = tuple(markers)
        self._connection: Any = own_connection(
            client,
            retry=Retry(NoBackoff(), 0),  # nothing may be sent again over a blocked connection
            health_check_interval=0,
            socket_timeout=_REPLY_TIMEOUT,
        )
        self._client_id = 0
        self._blocked = False

    def wait(self, seconds: float) -> float | None:
        """Wait for a marker, at most so long.

        Returns:
            The marker's moment, which this waiter now owns: 0 for "look now". None when none came;
            a fault of the connection ends the wait early: the caller looks again anyway.
        """
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                if not self._blocked:
                    self._block(min(left, RECHECK_SECONDS))
                if not self._connection.can_read(timeout=left):
                    return None
                if (moment := self._read()) is not None:
                    return moment
        except (RedisConnectionError, RedisTimeoutError):
            self.close()
            time.sleep(max(0.0, min(_PAUSE_AFTER_FAULT, until - time.monotonic())))
        return None

    def withdraw(self, hand_on: float | None = None) -> None:
        """Stop waiting. A marker that came too late for this waiter is handed on to the next one.

        Args:
            hand_on: The moment that this waiter was to watch for, if it goes without having looked.
        """
        try:
            if self._blocked:
                self._client.execute_command("CLIENT UNBLOCK", self._client_id)
                late = self._read()
                if late is not None:
                    hand_on = late if hand_on is None else min(late, hand_on)
            if hand_on is not None:
                marker = ("LT", f"{hand_on:.3f}", "e") if hand_on else (0, "w")
                self._client.execute_command("ZADD", self._markers[0], *marker)
        except RedisError:  # refused or cut off: never at the cost of a task that was popped
            self.close()

    def close(self) -> None:
        """Drop the connection; the next wait opens it again."""
        self._blocked = False
        self._client_id = 0
        self._connection.disconnect()

    def _block(self, seconds: float) -> None:
        if not self._client_id:
            self._connection.send_command("CLIENT", "ID")
            self._client_id = int(self._connection.read_response())
        timeout = f"{max(seconds, _SHORTEST_BLOCK):.3f}"
        self._connection.send_command("BZPOPMIN", *self._markers, timeout)
        self._blocked = True

    def _read(self) -> float | None:
        reply = self._connection.read_response(disable_decoding=True)
        self._blocked = False
        return None if reply is None else float(reply[2])


class Watch:
    """How long one waiter sleeps after it has looked, and for which moment.

    Args:
        now_ms: The server's clock when it looked, ms.
        wait_ms: How long until it is to look again by itself; None when another one does.

    Attributes:
        moment: What it watches for, ms of the server's clock; None for nothing.
    """

    def __init__(self, now_ms: float, wait_ms: float | None) -> None:
        looked = time.monotonic()
        self._offset = looked - now_ms / 1000  # never too early: the answer was under way
        self._look_at = looked + RECHECK_SECONDS
        self.moment: float | None = None
        if wait_ms is not None and wait_ms < RECHECK_SECONDS * 1000:
            self._watch(now_ms + wait_ms)

    def _watch(self, moment: float) -> None:
        self.moment = moment
        self._look_at = min(self._look_at, moment / 1000 + self._offset)

    @property
    def mine(self) -> str:
        """The moment as pop takes it; 0 for none."""
        return f"{self.moment:.3f}" if self.moment else "0"

    def sleep(self, waiter: Waiter, until: float) -> bool:
        """Sleep until it is time to look; False when `until` (monotonic) has passed before."""
        if until <= time.monotonic():
            return False
        while (wait := min(self._look_at, until) - time.monotonic()) > 0:
            moment = waiter.wait(wait)
            if not moment:
                break
            self._watch(moment)
        return True


class Waiters:
    """The waiters of one queue object: one for each thread that waits, kept for the next wait."""

    def __init__(self, client: Any, markers: Sequence[str]) -> None:
        self._idle = Idle(partial(Waiter, client, markers))

    @contextmanager
    def take(self) -> Iterator[Waiter]:
        """Use a waiter for one wait; one that was left by an error is not used again."""
        waiter = self._idle.take()
        try:
            yield waiter
        except BaseException:
            waiter.close()
            raise
        self._idle.kept.append(waiter)

    def close(self) -> None:
        """Close the connections that nobody is waiting on."""
        while self._idle.kept:
            self._idle.kept.pop().close()
