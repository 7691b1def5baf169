"""Budgets that hosts tell in their answers: so many units are left, until when. No I/O."""

from dataclasses import dataclass
from typing import Any, Self

from dpq.limits.answers import MAX_RETRY_AFTER, Headers, HostLimit, limits_in, parts_of
from dpq.model.errors import ConfigurationError

__all__ = ["Budget"]

MOST_UNITS = 10**15
"""Units that a budget has at most: doubles count them exactly."""

FAILED = 500
"""The first status that says nothing of a budget: it may come from a machine before the host."""


@dataclass(frozen=True)
class Budget:
    """Units that a host says are left of one of its limits.

    Attributes:
        unit: What it counts: `""` is requests; "tokens", "input_tokens" and so on by the names of
            the headers.
        left: Units that are left, from 0.
        seconds: Seconds until there are more, above 0 and up to 86 400 (a day).
        full: The units that are left then if they come back evenly until then, as those of OpenAI
            and Anthropic; None if they come back all at once.
        limit: The units that are left then if they come back all at once; None if the host does not
            say.
        window: Seconds of the host's window, as its policy says; None if it says none.
    """

    unit: str
    left: int
    seconds: float
    full: int | None = None
    limit: int | None = None
    window: float | None = None

    @classmethod
    def from_headers(cls, headers: Headers, status: int | None = None) -> list[Self]:
        """Read the headers of an answer; a header that cannot be read is ignored.

        They are `RateLimit` (draft-10 and older drafts), `X-RateLimit-Remaining` with
        `X-RateLimit-Reset` (GitHub, Reddit and others), `x-ratelimit-remaining-tokens` (OpenAI),
        `anthropic-ratelimit-input-tokens-remaining`, and others of that form.

        Args:
            headers: A mapping, another object with `items()`, or pairs; text or bytes.
            status: The status code; an answer of 500 and above says nothing.

        Returns:
            One budget for each unit: the one with the fewest units, and of these the one with the
            longest wait; [] if none is said.
        """
        if status is not None and status >= FAILED:
            return []
        budgets = filter(None, map(cls._of, limits_in(headers)))
        loosest_first = sorted(budgets, key=lambda each: (-each.left, each.seconds))
        return list({each.unit: each for each in loosest_first}.values())

    @classmethod
    def _of(cls, limit: HostLimit) -> Self | None:
        """Make the budget of a limit; None if the host does not say how much, or until when."""
        unit, wait = limit.unit, limit.wait or 0
        if limit.left is None or wait <= 0 or unit is None:
            return None
        left, full, whole = max(0, int(min(limit.left, MOST_UNITS))), None, None
        if limit.size is not None and max(1, left) <= limit.size <= MOST_UNITS:
            full = int(limit.size) if limit.even and left < limit.size else None
            whole = None if limit.even else int(limit.size)
        window = None if limit.window is None else min(limit.window, MAX_RETRY_AFTER)
        return cls(unit, left, min(wait, MAX_RETRY_AFTER), full, whole, window)

    @classmethod
    def from_response(cls, response: Any) -> list[Self]:
        """Read the answer of any HTTP client, as `RateLimited.from_response` takes it.

        Raises:
            ConfigurationError: `response` has no status or no headers.
        """
        status, headers, _ = parts_of(response)
        return cls.from_headers(headers, status)


def is_answer(result: object) -> bool:
    """Say whether what a handler has returned is its answer: one of any HTTP client has headers."""
    try:
        return getattr(result, "headers", None) is not None
    except Exception:  # it is another thing, whose `headers` fail
        return False


def budgets_in(result: Any) -> list[Budget]:
    """Read what a host says is left, if a handler has returned its answer; else []."""
    try:
        return Budget.from_response(result) if is_answer(result) else []
    except Exception:  # it cannot be read
        return []


def read_answer(response: Any, status: Any, headers: Any) -> list[Budget]:
    """Read the budgets of the arguments of `observe`: a response, or headers with a status or not.

    Raises:
        ConfigurationError: There is neither or both, or the status is no int.
    """
    if (response is None) == (headers is None):
        raise ConfigurationError(
            f"response is {response!r:.200} and headers are {headers!r:.200}: give one of them"
        )
    if response is not None:
        if status is not None:
            raise ConfigurationError(f"status is {status!r:.200}, but the response has its own")
        return Budget.from_response(response)
    if status is not None and (not isinstance(status, int) or isinstance(status, bool)):
        raise ConfigurationError(f"status is {status!r:.200}: it must be an int, as 200")
    return Budget.from_headers(headers, status)
