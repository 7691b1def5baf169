"""The short way of a verb: a script that does only what most queues need. No I/O.

If there is something to decide, such a script changes nothing, and answers "ask the whole script".
That costs one more round trip. So a call goes the short way only if it could have answered the call
before, or is the first. After a refusal, the next calls do not try it.
"""

LONGEST_PAUSE = 63
"""Calls for which the short way is not tried, after several refusals."""

FORGIVEN_AFTER = 64
"""Calls that go the short way in a row, after which earlier refusals count no more."""


class Shortcut:
    """The decision whether the next call tries the short way; threads may share it."""

    def __init__(self) -> None:
        self.expected = True  # a call has gone, or could have gone, the short way
        self.pause = 0  # calls that did not try it after the last refusal; 0 if that is forgiven
        self.left = 0  # calls that do not try it from now on
        self._in_a_row = 0

    def is_open(self) -> bool:
        """Return True if the next call is to try the short way."""
        if self.left:
            self.left -= 1
            return False
        return self.expected

    def expect(self, plain: bool) -> None:
        """Note whether a call has gone, or could have gone, the short way."""
        self.expected = plain
        if self.pause and plain:
            self._in_a_row += 1
            if self._in_a_row > FORGIVEN_AFTER:
                self.pause = 0

    def refuse(self, *, again: bool = False) -> None:
        """Note that the short way was tried in vain; with `again`, later calls still try it."""
        self.expected = again
        self._in_a_row = 0
        self.pause = self.left = min(2 * self.pause + 1, LONGEST_PAUSE)
