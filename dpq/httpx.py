"""Transports for httpx: each request on the wire takes a unit of a limit, and a 429 is heard.

    client = httpx.Client(transport=dpq.httpx.Transport(q))
    client = httpx.AsyncClient(transport=dpq.httpx.AsyncTransport(aq))

A redirect is another request, so it takes a unit of its own. Retries are the caller's: a 429 is
reported to the queue, and returned as it is. The permit stands in the extensions of the request
and of its response, as `dpq_permit`. `http/httpx_like` has what httpx and httpx2 share.
"""

from typing import Any, Unpack

from dpq.http.httpx_like import Body, TransportBase
from dpq.http.httpx_like_async import AsyncBody, AsyncTransportBase
from dpq.http.wire import Group, Options, TransportOptions, missing_extra
from dpq.limits.usage import Answer, anthropic_usage, openai_usage
from dpq.queue.permits import Permit
from dpq.queue.permits_async import AsyncPermit
from dpq.queue.queue import DPQ
from dpq.queue.queue_async import AsyncDPQ

try:
    import httpx
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("httpx", error) from error

__all__ = [
    "Answer",
    "AsyncTransport",
    "Transport",
    "TransportOptions",
    "anthropic_usage",
    "openai_usage",
]


class _Stream(Body, httpx.SyncByteStream):
    """A body whose end ends a permit."""


class _AsyncStream(AsyncBody, httpx.AsyncByteStream):
    """Async `_Stream`."""


class Transport(TransportBase, httpx.BaseTransport):
    """A transport for `httpx.Client` that takes units of a queue's limits."""

    def __init__(
        self,
        queue: DPQ[Any],
        group: Group[httpx.Request] = None,
        *,
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[TransportOptions[httpx.Request, Permit]],
    ) -> None:
        """Wrap a transport.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            transport: The transport that sends; None makes an `httpx.HTTPTransport` without
                retries, since those would take no unit.
            options: Those of all transports: `cost`, `timeout`, `priority`, `member`, `prepare`,
                `spent`, `when_away`. `TransportOptions` describes them.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        inner = httpx.HTTPTransport() if transport is None else transport
        super().__init__(queue, Options(group, **options), inner, _Stream)


class AsyncTransport(AsyncTransportBase, httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient` that takes units of a queue's limits."""

    def __init__(
        self,
        queue: AsyncDPQ[Any],
        group: Group[httpx.Request] = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[TransportOptions[httpx.Request, AsyncPermit]],
    ) -> None:
        """Wrap a transport; the arguments are those of `Transport`."""
        inner = httpx.AsyncHTTPTransport() if transport is None else transport
        super().__init__(queue, Options(group, **options), inner, _AsyncStream)
