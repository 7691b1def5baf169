"""The signals by which a handler says how its task goes on: exceptions, but no errors.

    Signal
      RateLimited                       the limit was hit: give the task back, uncounted
      Retry                             this attempt failed: come back after so long
      Release                           not done, and nothing failed: give the task back, uncounted
      Reject                            no attempt will do: to the dead letters

Workers, leases and `operations` read them.
"""

import math
from collections.abc import Container
from datetime import timedelta
from typing import Any, Literal, Self, get_args

from dpq.limits.budget import status_and_headers
from dpq.limits.headers import Headers, seconds_to_wait
from dpq.model.errors import ConfigurationError
from dpq.model.validation import MAX_SECONDS, in_seconds, milliseconds

__all__ = ["RateLimited", "Reject", "Release", "Retry", "Scope", "Signal"]

Scope = Literal["member", "group", "queue", "task"]
"""The part that a 429 closes: the member that the task runs as (else its group), its group (else
the queue), the queue, or only the task."""


def require_scope(scope: object) -> None:
    """Refuse what is no `Scope`.

    Raises:
        ConfigurationError: It is none.
    """
    if scope not in get_args(Scope):
        raise ConfigurationError(
            f"scope is {scope!r}: it must be 'member', 'group', 'queue' or 'task'"
        )


def status_text(status: int | None) -> str:
    """Write a status for the scripts: "" for a 429, and where none is named.

    Raises:
        ConfigurationError: It is none.
    """
    if status is None or status == 429:
        return ""
    if not (isinstance(status, int) and 100 <= status <= 999):
        raise ConfigurationError(f"status is {status!r}: it must be an int from 100 to 999")
    return str(status)


class Signal(Exception):
    """Base of the signals, which a handler or the body of `lease()` raises for its task."""


class Retry(Signal):
    """This attempt failed, and counts: the task comes back, or dies if its attempts are spent.

    Attributes:
        delay: Seconds until the task is ready again, from 0 to 10 years; the argument may be a
            timedelta. None takes the queue's backoff.

    Raises:
        ConfigurationError: `delay` is out of its bounds.
    """

    def __init__(self, delay: float | timedelta | None = None, reason: object = "") -> None:
        super().__init__(str(reason) or "the handler asked for a retry")
        self.delay = None if delay is None else _seconds(delay)

    def __reduce__(self) -> tuple[type[Self], tuple[float | None, str]]:
        return type(self), (self.delay, str(self))


class Release(Signal):
    """Give the task back: not done, and no attempt counted. It keeps its priority and position.

    For a long handler that is to stop (`context.stopping`): if it returned, the task would be
    finished.

    Attributes:
        delay: Seconds until the task is ready again, from 0 to 10 years; the argument may be a
            timedelta. With 0, another consumer or this one takes the task at once. So if the task
            waits for something, name a delay.

    Raises:
        ConfigurationError: `delay` is out of its bounds.
    """

    def __init__(self, delay: float | timedelta = 0) -> None:
        self.delay = _seconds(delay)
        super().__init__(f"given back: again in {self.delay} s")

    def __reduce__(self) -> tuple[type[Self], tuple[float]]:
        return type(self), (self.delay,)


class Reject(Signal):
    """No attempt can succeed: the task becomes a dead letter with `reason`."""

    def __init__(self, reason: object = "rejected") -> None:
        self.reason = str(reason) or "rejected"
        super().__init__(self.reason)


class RateLimited(Signal):
    """The limit was hit: give the task back, uncounted, and let no other task hit the limit.

    Attributes:
        retry_after: Seconds until the limit opens again, from 0; more than 10 years are 10 years.
        scope: The part that closes: "member" (of a pool, that the task runs as; if it has none, its
            group), "group" (the task's; if it has none, the queue), "queue", or "task" for this
            task alone.
        status: The HTTP status of the answer, for events, logs and counts; None counts as a 429.
        reason: The text of the answer. It is the last error of a task that is given up because its
            own request is always refused.

    Raises:
        ConfigurationError: `retry_after` is no finite number from 0, `scope` none of the four, or
            `status` no int from 100 to 999.
    """

    def __init__(
        self,
        retry_after: float,
        scope: Scope = "member",
        status: int | None = None,
        reason: object = "",
    ) -> None:
        is_number = isinstance(retry_after, int | float) and not isinstance(retry_after, bool)
        if not (is_number and 0 <= retry_after < math.inf):
            raise ConfigurationError(
                f"retry_after is {retry_after!r}: it must be seconds, 0 or more"
            )
        require_scope(scope)
        status_text(status)
        super().__init__(f"rate limited: again in {retry_after} s")
        self.retry_after = min(retry_after, MAX_SECONDS)
        self.scope = scope
        self.status = status
        self.reason = str(reason)

    def __reduce__(self) -> tuple[Any, ...]:  # a process pool pickles errors
        return type(self), (self.retry_after, self.scope, self.status, self.reason)

    @classmethod
    def from_headers(
        cls,
        status: int,
        headers: Headers,
        scope: Scope = "member",
        statuses: Container[int] | None = None,
    ) -> Self | None:
        """Read an HTTP answer: None if it is no limit.

        A limit is a 429; and a 403, a 503 or a 529 whose headers say that a limit is spent or when
        to come again. Without that, these are failed attempts, as any other error of a host. A
        header that cannot be read is ignored; no header raises an error.

        Args:
            status: The status code.
            headers: A mapping, another object with `items()`, or pairs. Names and values are text
                or bytes, in upper or lower case, and may repeat.
            scope: The part that the limit covers; no header says that.
            statuses: The statuses that are a limit whatever the headers say, in place of 429, 503
                and 529.

        Returns:
            A signal to raise, with a `retry_after` from 0 to 86 400 s (a day). It is read from
            `Retry-After`; else from the spent limits (`RateLimit`, `X-RateLimit-*` and the
            like), the longest one. Times count from the answer's `Date`. Without any of them it
            is 5 s.

        Raises:
            ConfigurationError: `scope` is none of the four; or a status of yours is not from 100 to
                999.

        Source: dpq/limits/headers.py has the headers, in their order of trust.
        """
        wait = seconds_to_wait(status, headers, statuses)
        signal = cls(wait or 0.0, scope)  # a wrong scope shows before the first limit is hit
        if wait is None:
            return None
        status_text(status)
        signal.status = status
        return signal

    @classmethod
    def from_response(
        cls, response: Any, scope: Scope = "member", statuses: Container[int] | None = None
    ) -> Self | None:
        """Read the answer of any HTTP client, as `from_headers` does.

        Args:
            response: Any object with `headers`, and an int as `status_code` (requests, httpx),
                `status` (aiohttp, http.client) or `code` (urllib).
            scope: The part that the limit covers.
            statuses: As of `from_headers`.

        Raises:
            ConfigurationError: `response` has no status or no headers, or `scope` is wrong.
        """
        status, headers = status_and_headers(response)
        return cls.from_headers(status, headers, scope, statuses)


def _seconds(delay: float | timedelta) -> float:
    """Check a delay, and return its seconds; raise ConfigurationError out of 0 to 10 years."""
    seconds = in_seconds(delay)
    milliseconds("delay", seconds)
    return seconds


def signal_of(error: BaseException) -> BaseException:
    """Return the error that decides about a task; from a group of only signals, the strongest.

    So a signal passes through an `asyncio.TaskGroup`. The order is: a limit, a rejection, a retry,
    a release. Among limits the widest is the strongest, then the longest.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    told = [signal_of(each) for each in error.exceptions]
    if not all(isinstance(each, Signal) for each in told):
        return error
    return max(told, key=_weight)


def _weight(signal: BaseException) -> tuple[int, int, float]:
    if isinstance(signal, RateLimited):
        widths = ("task", "member", "group", "queue")
        return 2, widths.index(signal.scope), signal.retry_after
    if isinstance(signal, Release):
        return -1, 0, signal.delay
    return (1 if isinstance(signal, Reject) else 0), 0, 0.0
