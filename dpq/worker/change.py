"""The counterpart of change_async.py for threads, which share a lock. By hand."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self


class Change:
    """The sign that a handler has ended, or that the run is to end.

    One thread at a time waits for it, at a socket: so it can wait for the server, too. All callers
    hold the lock, except during `others` and `heard`.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._ear, self._bell = socket.socketpair()
        self._noted = self._waits = self._rung = False

    def note(self) -> None:
        """Note a change; the thread that waits for it goes on."""
        self._noted = True
        if self._waits and not self._rung:
            self._rung = True
            self._bell.send(b"!")

    def forget(self) -> bool:
        """Wait for the next change from now on; return True if there was one."""
        changed, self._noted = self._noted, False
        return changed

    def wait(self, seconds: float | None) -> None:
        """Wait for the change, at most so long; None waits for ever."""
        with self.heard(), suppress(TimeoutError):
            self._ear.settimeout(seconds)
            self._ear.recv(1, socket.MSG_PEEK)

    @contextmanager
    def heard(self) -> Iterator[Self]:
        """Give what ends a wait at the server; the lock is free meanwhile."""
        self._waits = True
        if self._noted:
            self.note()
        try:
            with self.others():
                yield self
        finally:
            self._waits = False
            if self._rung:
                self._rung = False
                self._ear.recv(1)

    def done(self) -> bool:
        return self._noted

    def fileno(self) -> int:
        """Return the file that can be read once there was a change."""
        return self._ear.fileno()

    @contextmanager
    def others(self) -> Iterator[None]:
        """Let other threads go on during a round trip: the lock is free."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def close(self) -> None:
        self._ear.close()
        self._bell.close()
