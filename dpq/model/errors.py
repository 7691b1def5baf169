"""Every error DPQ raises itself, and the signals a handler may raise.

    DPQError
      ConfigurationError (ValueError)   bad argument or setting: names the value and its bound
      PayloadError       (ValueError)   a payload cannot be encoded, decoded or validated
      DuplicateTaskError                the key is taken and on_duplicate="error"
      TaskNotFoundError                 no such live task in this queue
      LeaseLostError                    the token is not the live one
      NotConfirmedError                 the call is done, but not confirmed yet (`durability`)

    Signal
      RateLimited                       the limit was hit: give the task back, uncounted
      Retry                             this attempt failed: come back after so long
      Release                           not done, and nothing failed: give the task back, uncounted
      Reject                            no attempt will do: to the dead letters

    ServerWarning (UserWarning)         the server is set up so that tasks may get lost

Errors of the Redis client pass through unwrapped: callers already handle them.
"""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, Self, get_args

from dpq.model.rate_headers import Headers, seconds_to_wait

__all__ = [
    "ConfigurationError",
    "DPQError",
    "DuplicateTaskError",
    "LeaseLostError",
    "NotConfirmedError",
    "PayloadError",
    "RateLimited",
    "Reject",
    "Release",
    "Retry",
    "ServerWarning",
    "Signal",
    "TaskNotFoundError",
]


Scope = Literal["group", "queue", "task"]
"""The part that a 429 closes: the task's group (else the queue), the queue, or only the task."""


LONGEST_WAIT = 315_360_000
"""Seconds of the longest delay of any kind: 10 years."""


class DPQError(Exception):
    """Base of every error that DPQ raises itself."""


class ConfigurationError(DPQError, ValueError):
    """An argument or a setting is out of its bounds; unless the text says so, nothing changed."""


class PayloadError(DPQError, ValueError):
    """A payload cannot be encoded, decoded or validated.

    Attributes:
        task_id: The stored task, or None when nothing was stored yet.
    """

    def __init__(self, message: str, *, task_id: str | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id


class DuplicateTaskError(DPQError):
    """A push with `on_duplicate="error"` found that its key is taken; nothing was changed.

    Attributes:
        key: The unique key.
        task_id: The task that has the key; None if that is an earlier push of the same batch.
    """

    def __init__(self, key: str, task_id: str | None) -> None:
        holder = "an earlier push of the batch" if task_id is None else f"task {task_id}"
        super().__init__(
            f"key {key!r} is taken by {holder}: wait until it is gone, or choose another "
            "on_duplicate"
        )
        self.key = key
        self.task_id = task_id


class TaskNotFoundError(DPQError):
    """The queue holds no live task with this id; or, for `peek(after=)`, none in that state.

    Attributes:
        task_id: The id in the call; "" if the call named a key.
        key: The key in the call, or None.
    """

    def __init__(
        self,
        task_id: str,
        queue_name: str,
        action: str,
        *,
        key: str | None = None,
        state: str | None = None,
    ) -> None:
        which = f"task {task_id!r}" if key is None else f"the task with key {key!r}"
        why = "holds no such live task (finished, cancelled, dead, or never pushed here)"
        if state is not None:
            why = f"has no such {state} task now; start again from the first one"
        super().__init__(f"cannot {action} {which}: queue {queue_name!r} {why}")
        self.task_id = task_id
        self.key = key
        self.action = action


class LeaseLostError(DPQError):
    """The delivery is over: another consumer has popped the task, or the delivery was ended before.

    The call changed nothing.

    Attributes:
        task_id: The task; for `ack_many`, the first whose lease is lost.
        action: The call that was refused.
        task_ids: All tasks of the call whose lease is lost.
    """

    def __init__(self, action: str, task_ids: Sequence[str]) -> None:
        more = f" and {len(task_ids) - 1} more" if len(task_ids) > 1 else ""
        super().__init__(
            f"cannot {action} task {task_ids[0]}{more}: the token of this delivery is no longer "
            "the live one (the lease ran out and another consumer has the task, or the delivery "
            "was finished before)"
        )
        self.task_id = task_ids[0]
        self.task_ids = tuple(task_ids)
        self.action = action


class ServerWarning(UserWarning):
    """The settings of the server may lose tasks; a process warns once for each server.

    The server evicts keys, or keeps nothing on disk. For a private throw-away server (`embedded:`)
    there is no warning. To accept it: `warnings.simplefilter("ignore", dpq.ServerWarning)`.
    """


class NotConfirmedError(DPQError):
    """The call is done, but the confirmation that `durability` asks for did not come in time.

    The queue has changed, and is likely to stay so. Only a failover or a power cut right now may
    undo the change. Most calls can be repeated: they find their work done and ask once more. If a
    push is repeated, it adds another task, unless its `key` is still stored. docs/durability.md,
    "When nobody confirms", says what to do.

    Attributes:
        action: The call: `"push"`, `"ack"`, ...
        result: The result that the call would have returned; for a push, the ids.
        durability: `"replica"` or `"fsync"`.
        confirmed: The number of replicas (for `"fsync"`: disks) that have answered in time.
    """

    def __init__(
        self, action: str, result: Any, durability: str, confirmed: int, reason: str = ""
    ) -> None:
        wanted, risk = {
            "replica": ("replica", "a failover"),
            "fsync": ("disk", "a power cut"),
        }[durability]
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"{action} was done, and returned {result!r:.200}, but {confirmed} of 1 {wanted} has "
            f"confirmed it in time{because}: {risk} may undo it. To ask again, repeat the call. "
            "But a repeated push adds another task, unless its key is still stored"
        )
        self.action = action
        self.result = result
        self.durability = durability
        self.confirmed = confirmed


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
        self.delay = None if delay is None else _wait("delay", delay)

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
        self.delay = _wait("delay", delay)
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
        scope: The part that closes: "group" (the task's; if it has none, the queue), "queue", or
            "task" for this task alone.

    Raises:
        ConfigurationError: `retry_after` is no finite number from 0, or `scope` none of the three.
    """

    def __init__(self, retry_after: float, scope: Scope = "group") -> None:
        if not (_is_number(retry_after) and 0 <= retry_after < math.inf):
            raise ConfigurationError(
                f"retry_after is {retry_after!r}: it must be seconds, 0 or more"
            )
        if scope not in get_args(Scope):
            raise ConfigurationError(f"scope is {scope!r}: it must be 'group', 'queue' or 'task'")
        super().__init__(f"rate limited: again in {retry_after} s")
        self.retry_after = min(retry_after, LONGEST_WAIT)
        self.scope = scope

    def __reduce__(self) -> tuple[type[Self], tuple[float, Scope]]:
        return type(self), (self.retry_after, self.scope)  # a process pool pickles errors

    @classmethod
    def from_headers(cls, status: int, headers: Headers, scope: Scope = "group") -> Self | None:
        """Read an HTTP answer: None if it is no limit.

        A limit is a 429, a 503, or a 403 whose headers say that a limit is spent or when to come
        again. A header that cannot be read is ignored; no header raises an error.

        Args:
            status: The status code.
            headers: A mapping, another object with `items()`, or pairs. Names and values are text
                or bytes, in upper or lower case, and may repeat.
            scope: The part that the limit covers; no header says that.

            Returns:
                A signal to raise, with a `retry_after` from 0 to 86 400 s (a day). It is read from
                `Retry-After`; else from the spent limits (`RateLimit`, `X-RateLimit-*` and the
                like), the longest one. Times count from the answer's `Date`. Without any of them it
                is 5 s.

        Raises:
            ConfigurationError: `scope` is none of the three.

        Source: dpq/model/rate_headers.py has the headers, in their order of trust.
        """
        wait = seconds_to_wait(status, headers)
        signal = cls(wait or 0.0, scope)  # a wrong scope shows before the first limit is hit
        return None if wait is None else signal

    @classmethod
    def from_response(cls, response: Any, scope: Scope = "group") -> Self | None:
        """Read the answer of any HTTP client, as `from_headers` does.

        Args:
            response: Any object with `headers`, and an int as `status_code` (requests, httpx),
                `status` (aiohttp, http.client) or `code` (urllib).
            scope: The part that the limit covers.

        Raises:
            ConfigurationError: `response` has no status or no headers, or `scope` is wrong.
        """
        told = (getattr(response, name, None) for name in ("status_code", "status", "code"))
        status = next((status for status in told if isinstance(status, int)), None)
        headers = getattr(response, "headers", None)
        if status is None or headers is None:
            raise ConfigurationError(
                f"response is {response!r}: it must have headers, and an int as status_code, "
                "status or code"
            )
        return cls.from_headers(status, headers, scope)


def in_seconds(delay: float | timedelta) -> float:
    """Convert a timedelta to seconds; return any other value as it is."""
    return delay.total_seconds() if isinstance(delay, timedelta) else delay


def _wait(name: str, delay: float | timedelta) -> float:
    """Check a delay, and return its seconds; raise ConfigurationError out of 0 to 10 years."""
    seconds = in_seconds(delay)
    if not (_is_number(seconds) and 0 <= seconds <= LONGEST_WAIT):
        raise ConfigurationError(
            f"{name} is {seconds!r}: it must be seconds from 0 to {LONGEST_WAIT}"
        )
    return seconds


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
        return 2, ("task", "group", "queue").index(signal.scope), signal.retry_after
    if isinstance(signal, Release):
        return -1, 0, signal.delay
    return (1 if isinstance(signal, Reject) else 0), 0, 0.0
