"""Pauses after failures: of a task, and of a server. No clock, no server; chance is passed in."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpq.model.validation import number

FIRST_PAUSE_SECONDS = 0.1
"""Seconds to wait after the first error of the server; doubled after each further one."""

LONGEST_PAUSE_SECONDS = 5.0
"""Seconds between attempts to reach a server at most: as long as a lost wake-up may cost."""

_BOUNDS = {"base": (0, 86_400), "factor": (1, 1000), "cap": (0, 31_536_000), "jitter": (0, 1)}


@dataclass(frozen=True)
class Backoff:
    """The delay of a failed task before its next attempt: exponential, capped, with jitter.

    After the n-th failure it is `base * factor ** (n - 1)` seconds, at most `cap`. A random share
    of up to `jitter` is taken off, so that tasks which failed together do not come back together.

    Attributes:
        base: Seconds after the first failure, from 0 to 86 400.
        factor: Growth from one failure to the next, from 1 to 1000.
        cap: Seconds of the longest delay, up to a year.
        jitter: The largest random share to take off, from 0 (none) to 1.
    """

    base: float = 2.0
    factor: float = 2.0
    cap: float = 600.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            number(f"Backoff {name}", getattr(self, name), "a number", low, high)

    def delay(self, attempt: int, chance: float) -> float:
        """Return the seconds to wait after attempt `attempt` (from 1); `chance` is from 0 to 1."""
        try:
            longest = min(self.cap, self.base * self.factor ** (attempt - 1))
        except OverflowError:
            longest = self.cap
        return longest * (1 - self.jitter * chance)


def delay_after(backoff: Backoff | Sequence[float], attempt: int, chance: float) -> float:
    """Return the seconds to wait after a failed attempt; a list is taken without jitter."""
    if isinstance(backoff, Backoff):
        return backoff.delay(attempt, chance)
    return backoff[min(attempt, len(backoff)) - 1]


def longer_pause(
    pause: float, first: float = FIRST_PAUSE_SECONDS, longest: float = LONGEST_PAUSE_SECONDS
) -> float:
    """Return the next pause in seconds: twice the last one, and `first` after none."""
    return min(longest, pause * 2 or first)
