"""Options that the transports for HTTP clients share: which units a request takes. No I/O.

`dpq.httpx`, `dpq.requests` and `dpq.aiohttp` call it.
"""

import hashlib
import unicodedata
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dpq.model.errors import ConfigurationError
from dpq.model.permit import DEFAULT_LEASE, PermitRequest
from dpq.model.task import Cost
from dpq.model.validation import MAX_NAME_BYTES

R = TypeVar("R")

KEPT_BYTES = 150
"""Bytes of a long name that stay readable before its hash."""


_WAYS_OUT = {
    "httpx": "`pip install 'httpx>=0.27'`",
    "requests": "`pip install 'requests>=2.32'`",
    "aiohttp": "`pip install 'aiohttp>=3.12'`",
}


def missing_extra(name: str, error: ImportError) -> ImportError:
    """Make the error for a client that is not installed."""
    return ImportError(
        f"dpq.{name} needs {name}, which is not installed: {_WAYS_OUT[name]}, or install DPQ with "
        f"its extra {name!r}",
        name=error.name or name,
    )


def group_name(name: str | None) -> str | None:
    """Return a name that a group may have: a long or odd one is cut, with its hash behind.

    So a strange host in a redirect fails no request. An empty name is None: the queue's limit.
    """
    if not name:
        return None
    encoded = name.encode("utf-8", "replace")
    clean = "".join("?" if unicodedata.category(c) in ("Cc", "Cs") else c for c in name)
    if clean == name and len(encoded) <= MAX_NAME_BYTES:
        return name
    raw = name.encode("utf-8", "surrogatepass")
    kept = clean.encode()[:KEPT_BYTES].decode("utf-8", "ignore")
    return f"{kept}~{hashlib.sha256(raw).hexdigest()[:16]}"


class Options(Generic[R]):
    """The checked options of a transport."""

    def __init__(
        self,
        group: str | Callable[[R], str | None] | None,
        cost: Cost | Callable[[R], Cost],
        timeout: float | None,
        priority: float | Callable[[R], float],
    ) -> None:
        self._group, self._cost, self._priority = group, cost, priority
        self._timeout = timeout
        fixed_cost: Cost = 1 if callable(cost) else cost
        fixed_priority = 0 if callable(priority) else priority
        fixed_group = group if isinstance(group, str) else None
        if not (group is None or isinstance(group, str) or callable(group)):
            raise ConfigurationError(
                f"group is {group!r}: it must be a name, a function of the request, or None"
            )
        PermitRequest.checked(fixed_group, fixed_cost, timeout, fixed_priority, DEFAULT_LEASE)

    def permit_for(self, request: R, host: str | None) -> PermitRequest:
        """Return the units that a request takes; without a group, those of its host."""
        group: Any = self._group
        name = host if group is None else group(request) if callable(group) else group
        cost = self._cost(request) if callable(self._cost) else self._cost
        priority = self._priority(request) if callable(self._priority) else self._priority
        return PermitRequest.checked(group_name(name), cost, self._timeout, priority, DEFAULT_LEASE)
