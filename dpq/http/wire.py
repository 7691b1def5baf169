"""Options that the transports for HTTP clients share: which units a request takes. No I/O.

`dpq.httpx`, `dpq.httpx2`, `dpq.requests` and `dpq.aiohttp` make them; `http/exchange` obeys them.
"""

import hashlib
import logging
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypedDict, TypeVar, get_args

from redis.exceptions import RedisError

from dpq.limits.permit import UNKNOWN_MEMBER, PermitRequest
from dpq.limits.pools import member_name
from dpq.limits.usage import Answer
from dpq.link.cluster import forbidden
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.task import Cost
from dpq.model.validation import MAX_NAME_BYTES, error_line

R = TypeVar("R")
"""The client's type of requests."""

Q = TypeVar("Q")
"""The type of permits, which is that of the queue."""

Group = str | Callable[[R], str | None] | None
"""The group of a request: a name, or a function of the request; None takes its host."""

WhenAway = Literal["raise", "pass"]
"""The fate of a request while the limiter cannot be asked: an error, or no limit."""

log = logging.getLogger(__name__)

KEPT_BYTES = 150
"""Bytes of a long name that stay readable before its hash."""

ASK_LIMITER_SECONDS = 1.0
"""Seconds between two requests to a limiter that is away: each may wait for a timeout."""

PERMIT = "dpq_permit"
"""The name under which a request and its response carry the permit."""


_LEAST = {
    "httpx": "httpx>=0.27",
    "httpx2": "httpx2>=2",
    "requests": "requests>=2.32",
    "aiohttp": "aiohttp>=3.12",
    "scrapy": "scrapy>=2.13",
    "django": "django>=4.2",
    "fastapi": "fastapi>=0.115",
    "otel": "opentelemetry-api>=1.30",
}


def missing_extra(name: str, error: ImportError, library: str = "") -> ImportError:
    """Make the error for a library that is not installed."""
    library = library or name
    return ImportError(
        f"dpq.{name} needs {library}, which is not installed: `pip install '{_LEAST[name]}'`, or "
        f"install DPQ with its extra {name!r}",
        name=error.name or library,
    )


def group_name(name: str | None) -> str | None:
    """Return a valid name of a group: a long or odd name is cut, with its hash behind."""
    if not name:
        return None
    if not isinstance(name, str):
        raise ConfigurationError(f"group is {name!r}: it must be a name, or None for no limit")
    encoded = name.encode("utf-8", "replace")
    clean = "".join("?" if unicodedata.category(c) in ("Cc", "Cs") else c for c in name)
    if clean == name and len(encoded) <= MAX_NAME_BYTES:
        return name
    raw = name.encode("utf-8", "surrogatepass")
    kept = clean.encode()[:KEPT_BYTES].decode("utf-8", "ignore")
    return f"{kept}~{hashlib.sha256(raw).hexdigest()[:16]}"


class TransportOptions(TypedDict, Generic[R, Q], total=False):
    """The options of all transports.

    Before it is sent, a request raises `LimitTimeoutError` if its units are not there within
    `timeout`, and `ConfigurationError` if its group is a pool and no option names its member, or
    the pool does not have it.

    Attributes:
        cost: Units of each request, or a function of the request; 1 unless said.
        timeout: Seconds to wait for the units at most; None, as unless said, waits for ever.
        priority: The priority, or a function of the request; 0 unless said.
        member: Where the group is a pool, the member whose key the request has: a name, or a
            function of the request.
        prepare: A function of the request and its permit, which is called before each request is
            sent, redirects included. It sets the key of `permit.member`. If the request passes
            without a permit (`when_away`), it is not called.
        spent: A function of the `Answer`, once its body has ended: the units that the request has
            spent, as a cost, in place of what was charged; None if the answer does not say it.
            `openai_usage` and `anthropic_usage` are ready. Its errors are logged.
        when_away: If the limiter cannot be asked, "raise" (unless said) raises the error of Redis,
            and nothing was sent; "pass" sends the request without a permit. After the request
            was sent, no error of the limiter is raised: it is logged.
    """

    cost: Cost | Callable[[R], Cost]
    timeout: float | None
    priority: float | Callable[[R], float]
    member: str | Callable[[R], str | None] | None
    prepare: Callable[[R, Q], object] | None
    spent: Callable[[Answer], Cost | None] | None
    when_away: WhenAway


@dataclass
class Options(Generic[R, Q]):
    """The checked options of a transport, or a ConfigurationError."""

    group: Group[R]
    cost: Cost | Callable[[R], Cost] = 1
    timeout: float | None = None
    priority: float | Callable[[R], float] = 0
    member: str | Callable[[R], str | None] | None = None
    prepare: Callable[[R, Q], object] | None = None
    spent: Callable[[Answer], Cost | None] | None = None
    when_away: WhenAway = "raise"

    def __post_init__(self) -> None:
        for name in ("group", "member"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str) or callable(value)):
                raise ConfigurationError(
                    f"{name} is {value!r}: it must be a name, a function of the request, or None"
                )
        for name in ("prepare", "spent"):
            value = getattr(self, name)
            if not (value is None or callable(value)):
                raise ConfigurationError(f"{name} is {value!r}: it must be a function, or None")
        if self.when_away not in get_args(WhenAway):
            raise ConfigurationError(
                f"when_away is {self.when_away!r}: it must be 'raise' or 'pass'"
            )
        fixed_cost: Cost = 1 if callable(self.cost) else self.cost
        fixed_priority = 0 if callable(self.priority) else self.priority
        fixed_group = self.group if isinstance(self.group, str) else None
        PermitRequest(fixed_group, fixed_cost, self.timeout, fixed_priority)
        if isinstance(self.member, str):
            member_name(self.member)
        self.outage = Outage(passes=self.when_away == "pass")
        self._said = False

    def permit_for(self, request: R, host: str | None) -> PermitRequest:
        """Return the units that a request takes; without a group, those of its host, which has one
        name however it is spelled: `xn--bcher-kva.example`."""

        def of(option: Any) -> Any:
            return option(request) if callable(option) else option

        host = host and host.lower().rstrip(".")
        group = group_name(host if self.group is None else of(self.group))
        cost, priority, member = of(self.cost), of(self.priority), of(self.member)
        if member is None and not self.prepare:
            member = UNKNOWN_MEMBER
        if not group:
            member = None
        return PermitRequest(group, cost, self.timeout, priority, member=member, host=host)

    def say_unsaid(self, queue_name: str, group: str | None) -> None:
        """Log, once, that a good answer does not say what it has spent."""
        if not self._said:
            self._said = True
            log.warning(
                "%s: an answer of group %r does not say what it has spent, so what was charged "
                "stays. A stream may have to be asked for it. This is logged once",
                *(queue_name, group),
                extra=fields("spent_not_said", queue=queue_name, group=group),
            )


class Outage:
    """The time in which the limiter cannot be asked, and the fate of requests meanwhile."""

    def __init__(self, *, passes: bool) -> None:
        self._passes = passes  # requests are sent without a permit
        self._passed = 0
        self._ask_at = 0.0

    def asks(self) -> bool:
        """Return True if a request is to ask; while the limiter is away, one asks each second."""
        now = time.monotonic()
        if not self._passed or now >= self._ask_at:
            self._ask_at = now + ASK_LIMITER_SECONDS
            return True
        self._passed += 1
        return False

    def begin(self, queue_name: str, error: RedisError) -> None:
        """Note that the limiter is away, and log its first sign."""
        if not self._passes or forbidden(error):
            raise error
        self._ask_at = time.monotonic() + ASK_LIMITER_SECONDS
        if not self._passed:
            log.warning(
                "%s: the limiter is away, requests are sent without a permit: %s",
                *(queue_name, error_line(error)),
                extra=fields("limiter_away", queue=queue_name, error=error_line(error)),
            )
        self._passed += 1

    def end(self, queue_name: str) -> None:
        """Note that the limiter has answered."""
        passed, self._passed = self._passed, 0
        if passed:
            log.info(
                "%s: the limiter is back; %d requests were sent without a permit",
                *(queue_name, passed),
                extra=fields("limiter_back", queue=queue_name, count=passed),
            )
