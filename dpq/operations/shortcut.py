"""The short way of a verb: a script that does only what most queues need. No I/O.

Such a script answers "ask the whole one" if there is something to decide, and has changed nothing.
That costs a round trip more. So the short way is tried only after calls that it could have
answered, and after a refusal not for a while.
"""

LONGEST_PAUSE = 63
"""Calls for which the short way is not tried, after several refusals."""

FORGIVEN_AFTER = 64
"""Calls that go the short way in a row, after which earlier refusals count no more."""


class Shortcut:
    """A guess whether the next call can go the short way; threads may share it."""

    def __init__(self) -> None:
        self._expected = False
        self._pause = 0
        self._left = 0
        self._in_a_row = 0

    def is_open(self) -> bool:
        """Say whether the next call is to try the short way."""
        if self._left:
            self._left -= 1
            return False
        return self._expected

    def expect(self, plain: bool) -> None:
        """Note whether a call could have gone the short way, or did."""
        self._expected = plain
        if self._pause and plain:
            self._in_a_row += 1
            if self._in_a_row > FORGIVEN_AFTER:
                self._pause = 0

    def refuse(self) -> None:
        """Note that the short way was tried in vain."""
        self._expected = False
        self._in_a_row = 0
        self._pause = self._left = min(2 * self._pause + 1, LONGEST_PAUSE)
