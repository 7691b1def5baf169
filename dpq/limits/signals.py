"""The signals by which a handler says how its task goes on: exceptions, but no errors.

RateLimited    the limit was hit: give the task back, uncounted
Retry          this attempt failed: come back after so long
Release        not done, and nothing failed: give the task back, uncounted
Reject         no attempt will do: to the dead letters
"""

import math
from collections.abc import Container
from datetime import timedelta
from typing import Any, Literal, Self, get_args

from dpq.limits.answers import (
    DEFAULT_RETRY_AFTER,
    LEAST_RETRY_AFTER,
    Headers,
    Meaning,
    beginning,
    meaning_of,
    parts_of,
)
from dpq.model.errors import ConfigurationError, Portable
from dpq.model.validation import MAX_SECONDS, delay_milliseconds, error_line

__all__ = ["RateLimited", "Reject", "Release", "Retry", "Scope", "Signal"]

Scope = Literal["member", "group", "queue", "task"]
"""The part that a 429 closes: the member that the task runs as (else its group), its group (else
the queue), the queue, or only the task."""


def require_scope(scope: object) -> None:
    """Raise ConfigurationError if it is no `Scope`."""
    if scope not in get_args(Scope):
        raise ConfigurationError(
            f"scope is {scope!r}: it must be 'member', 'group', 'queue' or 'task'"
        )


def status_text(status: int | None) -> str:
    """Check a status, and write it for the scripts: "" for a 429, and where none is named."""
    if status is None or status == 429:
        return ""
    if not (isinstance(status, int) and 100 <= status <= 999):
        raise ConfigurationError(f"status is {status!r}: it must be an int from 100 to 999")
    return str(status)


class Signal(Portable):
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
        self.delay = None if delay is None else delay_milliseconds(delay) / 1000

    @property
    def retry_after(self) -> float:
        """Seconds, as of a `RateLimited`."""
        return self.delay or 0.0


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
        self.delay = delay_milliseconds(delay) / 1000
        super().__init__(f"given back: again in {self.delay} s")


class Reject(Signal):
    """No attempt can succeed: the task becomes a dead letter with `reason`."""

    def __init__(self, reason: object = "rejected") -> None:
        self.reason = str(reason) or "rejected"
        super().__init__(self.reason)


MAX_REASON = 200
"""Characters of an answer that are kept as the last error of a task."""


class RateLimited(Signal):
    """The limit was hit: give the task back, uncounted, and let no other task hit the limit.

    Attributes:
        retry_after: Seconds until the limit opens again, from 0; more than 10 years are 10 years.
            None: nobody knows, so it is `guessed`.
        scope: The part that closes: "member" (of a pool, that the task runs as; if it has none, its
            group), "group" (the task's; if it has none, the queue), "queue", or "task" for this
            task alone.
        status: The HTTP status of the answer, for events, logs and counts; None counts as a 429.
        guessed: The host has named no time: 5 s, and twice as long with each closing in a row, up
            to 300 s, until the first good answer.
        reason: The text of the answer. It is the last error of a task that is given up because its
            own request is always refused.

    Raises:
        ConfigurationError: `retry_after` is no finite number from 0, `scope` none of the four, or
            `status` no int from 100 to 999.
    """

    def __init__(
        self,
        retry_after: float | None = None,
        scope: Scope = "member",
        status: int | None = None,
        reason: object = "",
    ) -> None:
        self.guessed = retry_after is None
        if retry_after is None:
            retry_after = DEFAULT_RETRY_AFTER
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

    @classmethod
    def from_headers(
        cls,
        status: int,
        headers: Headers,
        scope: Scope = "member",
        statuses: Container[int] | None = None,
        *,
        body: bytes | str = b"",
        least: float = LEAST_RETRY_AFTER,
    ) -> "Self | Retry | None":
        """Read an HTTP answer: None if it asks for no wait.

        A limit is a 420 or a 429; a 400 or 403 whose text says so; and a 403, 430, 503, 509 or 529
        that says that a limit is spent or when to come again. Any other failure that names a time
        is a `Retry`: it counts as an attempt, and closes nothing. A failure that no other try
        mends, such as a request larger than the limit, is neither: see dpq/limits/answers.py.

        Args:
            status: The status code.
            headers: A mapping, another object with `items()`, or pairs. Names and values are text
                or bytes, in upper or lower case, and may repeat.
            scope: The part that the limit covers; no header says that.
            statuses: The statuses that are a limit whatever the answer says, in place of all
                but 403.
            body: The body, or its beginning: some hosts name the time only there.
            least: Seconds to wait at least: a host that has just refused does not mean "now".

        Returns:
            A signal to raise, with a `retry_after` from `least` to 86 400 s (a day). Times count
            from the answer's `Date`. If it names no time, the signal is `guessed`, from 5 s on.

        Raises:
            ConfigurationError: `scope` is none of the four; or a status of yours is not from 100 to
                999. Nothing that an answer says raises an error.
        """
        require_scope(scope)
        meaning = meaning_of(status, headers, body, statuses, least)
        said = beginning(body)[:MAX_REASON] if meaning.wait is not None else ""
        return cls._of(meaning, status, scope, f"HTTP {status} {said}".strip())

    @classmethod
    def _of(cls, meaning: Meaning, status: int, scope: Scope, reason: str) -> "Self | Retry | None":
        if meaning.wait is None:
            return None
        if not meaning.is_limit:
            return Retry(meaning.wait, reason)
        signal = cls(meaning.wait, scope, status, reason)
        signal.guessed = meaning.guessed
        return signal

    @classmethod
    def from_response(
        cls,
        response: Any,
        scope: Scope = "member",
        statuses: Container[int] | None = None,
        *,
        least: float = LEAST_RETRY_AFTER,
    ) -> "Self | Retry | None":
        """Read the answer of any HTTP client, as `from_headers` does.

        Args:
            response: Any object with `headers`, and an int as `status_code` (requests, httpx),
                `status` (aiohttp, http.client) or `code` (urllib). Its body counts if the client
                has read it.
            scope: The part that the limit covers.
            statuses: As of `from_headers`.
            least: As of `from_headers`.

        Raises:
            ConfigurationError: `response` has no status or no headers, or `scope` is wrong.
        """
        status, headers, body = parts_of(response)
        return cls.from_headers(status, headers, scope, statuses, body=body, least=least)


def signal_of(error: BaseException, *, from_errors: bool = True) -> BaseException:
    """Return the error that decides about a task; from a group of only signals, the strongest.

    So a signal passes through an `asyncio.TaskGroup`. The order is: a limit, a rejection, a retry,
    a release. Among limits the widest is the strongest, then the longest. `from_errors`: an error
    of an HTTP client, which carries an answer, counts as the signal that the answer means.
    """
    if not isinstance(error, BaseExceptionGroup):
        return (from_errors and _signal_in(error)) or error
    told = [signal_of(each, from_errors=from_errors) for each in error.exceptions]
    if not all(isinstance(each, Signal) for each in told):
        return error
    return max(told, key=_weight)


def _signal_in(error: BaseException) -> Signal | None:
    """Read the answer that an error of an HTTP client or of an LLM vendor's library carries."""
    if isinstance(error, Signal) or not isinstance(error, Exception):
        return None
    try:
        response = getattr(error, "response", None)
        status, headers, body = parts_of(error if response is None else response)
        meaning = meaning_of(status, headers, body)
        # The errors of LLM libraries, which have a `body`, say it themselves
        text = "" if hasattr(error, "body") else beginning(body)[:MAX_REASON]
        said = " ".join([error_line(error), *text.split()])
        signal = Reject(said) if meaning.final else RateLimited._of(meaning, status, "member", said)
    except Exception:  # it is no answer
        return None
    if signal:
        signal.__cause__ = error
    return signal


def _weight(signal: BaseException) -> tuple[int, int, float]:
    if isinstance(signal, RateLimited):
        widths = ("task", "member", "group", "queue")
        return 2, widths.index(signal.scope), signal.retry_after
    if isinstance(signal, Release):
        return -1, 0, signal.delay
    return (1 if isinstance(signal, Reject) else 0), 0, 0.0
