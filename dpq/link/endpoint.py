"""Endpoints for threads: the counterpart of endpoint_async.py, with the same names."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from redis.retry import Retry

from dpq.link import blocks
from dpq.link.cluster import Node, Nodes
from dpq.link.internals import socket_of
from dpq.link.shared import here

__all__ = ["Background", "Endpoint", "Event", "Lock", "first_answered", "heard"]

CLOSE_SECONDS = 1.0
"""Seconds that `end` waits for the end of a thread that reads."""

E = TypeVar("E", bound="Endpoint")


class Endpoint:
    """A connection to the server that holds a key. A reply may be read long after its command."""

    def __init__(self, nodes: Nodes, key: str) -> None:
        self.nodes, self.key = nodes, key
        self.node: Node | None = None
        self._connection: Any = None

    def connect(self) -> None:
        """Connect to the node that holds the key now."""
        self.node, self._connection = blocks.connection_to(self.nodes, self.key, Retry)
        self._connection.connect()

    def send(self, *command: Any) -> None:
        """Send a command whose reply is read later."""
        self._connection.send_command(*command)

    def read(self) -> Any:
        """Read the raw reply, which comes at once."""
        return self._connection.read_response(disable_decoding=True)

    def has_reply(self, seconds: float) -> bool:
        """Wait for a reply, or for the end of the connection, at most so long."""
        return bool(self._connection.can_read(timeout=seconds))

    def messages(self) -> Iterator[Any]:
        """Yield what the server sends by itself, until the connection ends."""
        connection = self._connection
        socket_of(connection).settimeout(None)
        while True:
            yield connection.read_response(disable_decoding=True)

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()


def first_answered(endpoints: Sequence[E], seconds: float, stop: Any) -> E | None:
    """Wait until an endpoint has a reply, or the file `stop` can be read, at most so long."""
    if len(endpoints) == 1 and not (stop and endpoints[0].nodes.direct):
        return endpoints[0] if endpoints[0].has_reply(seconds) else None
    until = time.monotonic() + seconds
    with DefaultSelector() as selector:
        for endpoint in endpoints:
            selector.register(socket_of(endpoint._connection), EVENT_READ, endpoint)
        if stop:
            selector.register(stop, EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fileobj is stop:
                    return None
                found: E = key.data
                if found.has_reply(0):  # a part of a TLS record is no answer yet
                    return found
    return None


def heard(ear: Event, seconds: float) -> None:
    """Wait until an ear is called, at most so long."""
    ear.wait(seconds)
    ear.clear()


class Background:
    """A thread that reads from an endpoint, until the endpoint or the program ends."""

    def __init__(self, run: Callable[[Endpoint], None], endpoint: Endpoint) -> None:
        self._endpoint, self._pid = endpoint, here()
        self._thread = Thread(target=run, args=(endpoint,), name="dpq-calls", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End it."""
        connection = self._endpoint._connection
        if self._pid == here() and self._thread.is_alive() and connection is not None:
            if (file := socket_of(connection)) is not None:
                # Of TLS, only the thread that reads may end the session.
                with socket.socket(fileno=os.dup(file.fileno())) as same, suppress(OSError):
                    same.shutdown(socket.SHUT_RDWR)
            self._thread.join(CLOSE_SECONDS)
