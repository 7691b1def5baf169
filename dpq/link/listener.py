"""Listeners receive calls: messages that tell a waiting caller of a queue object to ask again.

`queue/permits` and `queue/ends` use them. A listener has one connection for all threads of a queue
object. When a script ends a lease, it publishes the id of the caller that comes first (Redis
Pub/Sub); when it keeps a result or buries a task, the id of the task. Nothing is stored for that.
If a message is lost, no caller is: each caller asks again by itself.

    SUBSCRIBE dpq:calls:9Xk0_a3T   once, for all threads that wait for permits
    message   dpq:calls:9Xk0_a3T   the id of a caller, which asks now
    SUBSCRIBE dpq:calls:{emails}   once, for all threads that wait for ends of tasks
    message   dpq:calls:{emails}   the id of a task that has ended

A thread of the listener reads for all callers. It begins with the first wait, and ends with the
connection. A listener must not decide which caller may go.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from dpq.link.cluster import Nodes
from dpq.link.internals import socket_of
from dpq.link.waiter import connection_to

PREFIX = "dpq:calls:"
"""The beginning of the channels' names; lua/lib/leases/callers.lua has the same."""

TRY_AGAIN_SECONDS = 30.0
"""Seconds until a listener that could not subscribe tries again: the right may be missing."""


CLOSE_SECONDS = 1.0
"""Seconds that `close` waits for the end of the thread that reads."""


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
        self._ears: dict[str, set[threading.Event]] = {}
        self._changing, self._beginning = threading.Lock(), threading.Lock()
        self._connection: Any = None
        self._thread: threading.Thread | None = None

    @property
    def channel(self) -> str:
        """The channel that callers name to the server; "" without a subscription."""
        return self._subscription.channel

    @property
    def direct(self) -> bool:
        """True if there is a server to subscribe to, and not a double such as fakeredis."""
        return bool(self._nodes.direct)

    @contextmanager
    def ear(self, caller: str) -> Iterator[threading.Event]:
        """Receive the calls of one caller, from before its first question to the server."""
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self._start()
        ears, changing, ear = self._ears, self._changing, threading.Event()
        with changing:
            ears.setdefault(caller, set()).add(ear)
        try:
            yield ear
        finally:
            with changing:
                ears[caller].discard(ear)
                if not ears[caller]:
                    del ears[caller]

    def subscribe(self) -> bool:
        """Subscribe, if that is due. If the result is True, the caller must ask once more."""
        if not (self._nodes.direct and self._subscription.due):
            return False
        with self._beginning:
            if not self._subscription.due:  # another thread has subscribed meanwhile
                return bool(self.channel)
            try:
                _, connection = connection_to(self._nodes, self._key, Retry)
                connection.connect()
                connection.send_command("SUBSCRIBE", PREFIX + self._subscription.name)
                connection.read_response(disable_decoding=True)
            except RedisError as error:
                self._subscription.lost(refused=isinstance(error, ResponseError))
                return False
            socket_of(connection).settimeout(None)
            self._connection = connection
            self._subscription.begun()
            self._thread = threading.Thread(
                target=self._read, args=(connection,), name="dpq-calls", daemon=True
            )
            self._thread.start()
        return True

    def wait(self, ear: threading.Event, seconds: float) -> None:
        """Wait until a caller is called, at most so long."""
        ear.wait(seconds)
        ear.clear()

    def _read(self, connection: Any) -> None:
        try:
            while True:
                reply = connection.read_response(disable_decoding=True)
                self._call(reply[2].decode())
        except (RedisError, OSError):
            self._subscription.channel = ""
            connection.disconnect()
            with self._changing:
                callers = list(self._ears)
            for caller in callers:  # calls may be lost, so all ask again
                self._call(caller)

    def _call(self, caller: str) -> None:
        with self._changing:
            ears = [*self._ears.get(caller, ()), *self._ears.get("", ())]
        for ear in ears:
            ear.set()

    def close(self) -> None:
        """Close the connection; the next caller that waits opens it again."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive() and self._pid == os.getpid():
            file = socket_of(self._connection)
            if file is not None:
                # Of TLS, only the thread that reads may end the session.
                with socket.socket(fileno=os.dup(file.fileno())) as same, suppress(OSError):
                    same.shutdown(socket.SHUT_RDWR)
            thread.join(CLOSE_SECONDS)
