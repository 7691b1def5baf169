"""A terminal that a program writes to."""

import os
import pty
import select

from support import wait_for

ENVIRONMENT = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}


class Terminal:
    """Both ends of it: a program is given `theirs`, and a test reads what is shown."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._data = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._ours)

    @property
    def shown(self) -> str:
        """What was read so far."""
        return self._data.decode(errors="replace")

    def hand_over(self) -> None:
        """Close the end that a program has by now."""
        os.close(self.theirs)

    def wait_for(self, text: str) -> None:
        """Read until it shows a text."""

        def shows() -> bool:
            self._read(0.01)
            return text in self.shown

        wait_for(shows, lambda: self.shown)

    def read_all(self) -> str:
        """Read until the last program on it has closed it."""
        wait_for(lambda: not self._read(1), lambda: f"still open: {self.shown!r}")
        return self.shown

    def _read(self, seconds: float) -> bool:
        """Read what there is: may more come?"""
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                data = os.read(self._ours, 1 << 16)
            except OSError:  # how Linux says that the other end has closed
                return False
            if not data:
                return False
            self._data += data
        return True
