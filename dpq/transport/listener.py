"""Listeners receive calls: messages that tell a waiting caller of a queue object to ask again.

`queue/permits` and `queue/ends` use them. A listener has one connection for all threads of a queue
object. When a script ends a lease, it publishes the id of the caller that comes first (Redis
Pub/Sub); when it keeps a result or buries a task, the id of the task. Nothing is stored for that.
If a message is lost, no caller is: each caller asks again by itself.

    SUBSCRIBE dpq:calls:9Xk0_a3T   once, for all threads that wait for permits
    message   dpq:calls:9Xk0_a3T   the id of a caller, which asks now
    SUBSCRIBE dpq:calls:{emails}   once, for all threads that wait for ends of tasks
    message   dpq:calls:{emails}   the id of a task that has ended

A listener has no thread. One of the waiting threads reads for all. If that thread is called,
another waiting thread goes on reading. A listener must not decide which caller may go.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from dpq.transport.cluster import Nodes
from dpq.transport.waiter import connection_to

PREFIX = "dpq:calls:"
"""The beginning of the channels' names; lua/lib/leases/callers.lua has the same."""

TRY_AGAIN_SECONDS = 30.0
"""Seconds until a listener that could not subscribe tries again: the right may be missing."""


class Ear:
    """A place where one caller waits.

    Attributes:
        called: The caller was called.
        woken: Set when the caller is called, or when its thread is to read for the others.
        asleep: The thread of the caller waits.
    """

    __slots__ = ("asleep", "called", "woken")

    def __init__(self) -> None:
        self.called = self.asleep = False
        self.woken = threading.Event()


class Subscription:
    """The name of a listener's channel, and when it may subscribe. Both listeners have one.

    Args:
        name: The name without the prefix; "" makes one that no other listener has.

    Attributes:
        channel: Its name without the prefix, while the listener hears; else "".
    """

    def __init__(self, name: str) -> None:
        self.name = name or secrets.token_urlsafe(9)
        self.channel = ""
        self._not_before = 0.0

    @property
    def due(self) -> bool:
        """True if the listener is to subscribe now."""
        return not self.channel and time.monotonic() >= self._not_before

    def begun(self) -> None:
        """Note that the listener is subscribed."""
        self.channel = self.name

    def lost(self, *, refused: bool = False) -> None:
        """Note that the subscription is lost; if it was refused, wait before the next try."""
        self.channel = ""
        if refused:
            self._not_before = time.monotonic() + TRY_AGAIN_SECONDS


class Listener:
    """Receives the calls for the threads of one queue object.

    Args:
        nodes: The servers behind a client; its pool is not used.
        key: A key of the queue. In a cluster all nodes pass messages on.
        name: The name of its channel, which other listeners may have as well; "" makes one.
    """

    def __init__(self, nodes: Nodes, key: str, name: str = "") -> None:
        self._nodes, self._key, self._name = nodes, key, name
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._subscription = Subscription(self._name)
        self._ears: dict[str, list[Ear]] = {}
        self._changing = threading.Lock()
        self._beginning, self._reading = threading.Lock(), threading.Lock()
        self._connection: Any = None

    @property
    def channel(self) -> str:
        """The channel that callers name to the server; "" without a subscription."""
        return self._subscription.channel

    @property
    def direct(self) -> bool:
        """True if there is a server to subscribe to, and not a double such as fakeredis."""
        return bool(self._nodes.direct)

    @contextmanager
    def ear(self, caller: str) -> Iterator[Ear]:
        """Receive the calls of one caller, from before its first question to the server.

        Several threads may have the same caller, and "" receives the calls of all.
        """
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self._start()
        ears, changing, ear = self._ears, self._changing, Ear()
        with changing:
            ears[caller] = [*ears.get(caller, ()), ear]
        try:
            yield ear
        finally:
            with changing:
                rest = [each for each in ears[caller] if each is not ear]
                if rest:
                    ears[caller] = rest
                else:
                    del ears[caller]

    def subscribe(self) -> bool:
        """Subscribe, if that is due. If the result is True, the caller must ask once more.

        Raises:
            BaseException: The error of a signal handler.
        """
        if not (self._nodes.direct and self._subscription.due):
            return False
        with self._beginning:  # not `_reading`, which the reader then holds as long as it waits
            if not self._subscription.due:  # another thread has subscribed meanwhile
                return bool(self.channel)
            try:
                with self._reading:
                    self._begin()
            except RedisError as error:
                self._lost(refused=isinstance(error, ResponseError))
                return False
            except BaseException:
                self._lost()
                raise
            self._subscription.begun()
        return True

    def _begin(self) -> None:
        _, self._connection = connection_to(self._nodes, self._key, Retry)
        self._connection.connect()
        self._connection.send_command("SUBSCRIBE", PREFIX + self._subscription.name)
        self._connection.read_response(disable_decoding=True)

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
        except RedisError:
            self._lost()
        except BaseException:
            self._lost()  # the reading may have stopped within a message
            raise

    def _call(self, caller: str) -> None:
        for ear in (*self._ears.get(caller, ()), *self._ears.get("", ())):
            ear.called = True
            ear.woken.set()

    def _appoint(self) -> None:
        """Let another caller read, if no thread reads."""
        if self.channel and not self._reading.locked():
            for ear in chain(*list(self._ears.values())):
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
