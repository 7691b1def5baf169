"""Lines for threads: the counterpart of line_async.py, with the same names."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from os import getpid as here
from selectors import EVENT_READ, DefaultSelector
from threading import Event, Lock, Thread
from time import sleep as pause
from typing import Any, TypeVar

from redis.retry import Retry

from dpq.link import blocks
from dpq.link.cluster import Node, Nodes
from dpq.link.internals import socket_of

__all__ = ["Background", "Event", "Line", "Lock", "first_answered", "heard", "here", "pause"]

CLOSE_SECONDS = 1.0
"""Seconds that `end` waits for the end of a thread that reads."""

L = TypeVar("L", bound="Line")


class Line:
    """A connection to the server that holds a key. A reply may be read long after its command."""

    def __init__(self, nodes: Nodes, key: str) -> None:
        self.nodes, self.key = nodes, key
        self.node: Node | None = None
        self._connection: Any = None

    def connect(self) -> None:
        """Connect to the node that holds the key now."""
        self.node, self._connection = blocks.connection_to(self.nodes, self.key, Retry)
        self._connection.connect()

    @property
    def is_open(self) -> bool:
        """True from `connect` to `close`."""
        return self._connection is not None

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


def first_answered(lines: Sequence[L], seconds: float, _stop: object) -> L | None:
    """Wait until a line has a reply, at most so long."""
    if len(lines) == 1:
        return lines[0] if lines[0].has_reply(seconds) else None
    until = time.monotonic() + seconds
    with DefaultSelector() as selector:
        for line in lines:
            selector.register(socket_of(line._connection), EVENT_READ, line)
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                found: L = key.data
                if found.has_reply(0):  # a part of a TLS record is no answer yet
                    return found
    return None


def heard(ear: Event, seconds: float) -> None:
    """Wait until an ear is called, at most so long."""
    ear.wait(seconds)
    ear.clear()


class Background:
    """A thread that reads from a line, until the line or the program ends."""

    def __init__(self, run: Callable[[Line], None], line: Line) -> None:
        self._line, self._pid = line, here()
        self._thread = Thread(target=run, args=(line,), name="dpq-calls", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End it."""
        connection = self._line._connection
        if self._pid == here() and self._thread.is_alive() and connection is not None:
            if (file := socket_of(connection)) is not None:
                # Of TLS, only the thread that reads may end the session.
                with socket.socket(fileno=os.dup(file.fileno())) as same, suppress(OSError):
                    same.shutdown(socket.SHUT_RDWR)
            self._thread.join(CLOSE_SECONDS)
