"""Listeners: hear which callers of a queue object may go, over one connection for all its threads.

`queue/permits` uses them. A script that ends a lease calls the caller that comes first by a message
of Redis Pub/Sub, which has the caller's id. Nothing is stored for that, and nothing is lost with a
message: each caller asks again by itself every 2 s.

    SUBSCRIBE dpq:calls:9Xk0_a3T   once, for all threads
    message   dpq:calls:9Xk0_a3T   the id of a caller, which asks now

No thread of its own reads: of the threads that wait, one reads for all. If it may go, another one
goes on. Must not decide who may go.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from dpq.model.interrupts import raise_interruption
from dpq.transport.cluster import Nodes
from dpq.transport.waiter import connection_to

PREFIX = "dpq:calls:"
"""The beginning of the channels' names; lua/lib/leases/callers.lua has the same."""

TRY_AGAIN_SECONDS = 30.0
"""Seconds until a listener that could not subscribe tries again: the user may have no right to."""


class Ear:
    """A place where one caller waits.

    Attributes:
        called: It was called.
        woken: Set when it is called, or is to read for the others.
        asleep: Its thread waits.
    """

    __slots__ = ("asleep", "called", "woken")

    def __init__(self) -> None:
        self.called = self.asleep = False
        self.woken = threading.Event()


class Subscription:
    """The name of a listener's channel, and when it may subscribe. Both listeners have one.

    Attributes:
        channel: Its name without the prefix, while the listener hears; else "".
    """

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(9)
        self.channel = ""
        self._not_before = 0.0

    @property
    def due(self) -> bool:
        """True if the listener is to subscribe."""
        return not self.channel and time.monotonic() >= self._not_before

    def begun(self) -> None:
        """Note that it hears."""
        self.channel = self.name

    def lost(self, *, refused: bool = False) -> None:
        """Note that it hears nothing; if it was refused, it does not try again at once."""
        self.channel = ""
        if refused:
            self._not_before = time.monotonic() + TRY_AGAIN_SECONDS


class Listener:
    """Hears the calls for the threads of one queue object.

    Args:
        nodes: The servers behind a client; its pool is not used.
        key: A key of the queue. In a cluster all nodes pass messages on.
    """

    def __init__(self, nodes: Nodes, key: str) -> None:
        self._nodes, self._key = nodes, key
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._subscription = Subscription()
        self._ears: dict[str, Ear] = {}
        self._reading = threading.Lock()
        self._connection: Any = None

    @property
    def channel(self) -> str:
        """The channel that callers name to the server; "" if none is heard."""
        return self._subscription.channel

    @contextmanager
    def ear(self, caller: str) -> Iterator[Ear]:
        """Hear the calls of one caller, from before it asks first."""
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self._start()
        ears, ear = self._ears, Ear()
        ears[caller] = ear
        try:
            yield ear
        finally:
            ears.pop(caller, None)

    def subscribe(self) -> bool:
        """Begin to hear, if that is due. If it returns True, the caller asks once more.

        Raises:
            BaseException: The error of a signal handler.
        """
        if not (self._nodes.direct and self._subscription.due):
            return False
        with self._reading:
            if not self._subscription.due:  # another thread was first
                return bool(self.channel)
            try:
                _, self._connection = connection_to(self._nodes, self._key, Retry)
                self._connection.connect()
                self._connection.send_command("SUBSCRIBE", PREFIX + self._subscription.name)
                self._connection.read_response(disable_decoding=True)
            except RedisError as error:
                raise_interruption(error)
                self._lost(refused=isinstance(error, ResponseError))
                return False
            except BaseException:
                self._lost()
                raise
            self._subscription.begun()
        return True

    def wait(self, ear: Ear, seconds: float) -> None:
        """Wait until a caller is called, at most so long."""
        until = time.monotonic() + seconds
        ear.asleep = True
        try:
            while not ear.called and (left := until - time.monotonic()) > 0:
                if self.channel and self._reading.acquire(blocking=False):
                    try:
                        self._read(ear, until)
                    finally:
                        self._reading.release()
                else:
                    ear.woken.wait(left)
                    ear.woken.clear()
        finally:
            ear.asleep = ear.called = False
            ear.woken.clear()
            self._appoint()

    def _read(self, ear: Ear, until: float) -> None:
        """Read calls for all callers, until this one is called."""
        try:
            while not ear.called and (left := until - time.monotonic()) > 0:
                if self._connection.can_read(timeout=left):
                    reply = self._connection.read_response(disable_decoding=True)
                    self._call(reply[2].decode())
        except RedisError as error:
            raise_interruption(error)
            self._lost()
        except BaseException:
            self._lost()  # perhaps within a message
            raise

    def _call(self, caller: str) -> None:
        if ear := self._ears.get(caller):
            ear.called = True
            ear.woken.set()

    def _appoint(self) -> None:
        """Let another caller read, if nobody does."""
        if self.channel and not self._reading.locked():
            for ear in list(self._ears.values()):
                if ear.asleep and not ear.woken.is_set():
                    ear.woken.set()
                    break

    def _lost(self, *, refused: bool = False) -> None:
        """Close the connection; all callers ask again, since calls may be lost."""
        self._subscription.lost(refused=refused)
        self.close()
        for caller in list(self._ears):
            self._call(caller)

    def close(self) -> None:
        """Close the connection; the next caller that waits opens it again."""
        self._subscription.channel = ""
        if self._connection is not None:
            self._connection.disconnect()
