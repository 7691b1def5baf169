# Made from httpx.py by `make twins`: change that file, not this one.
"""Transports for httpx2: each request on the wire takes a unit of a limit, and a 429 is heard.

    client = httpx2.Client(transport=dpq.httpx2.Transport(q))
    client = httpx2.AsyncClient(transport=dpq.httpx2.AsyncTransport(aq))
    client = dpq.httpx2.limited(httpx2.Client(proxy="http://proxy:8080"), q)

A redirect is another request, so it takes a unit of its own. Retries are the caller's: a 429 is
reported to the queue, and returned as it is. The permit stands in the extensions of the request
and of its response, as `dpq_permit`. `http/httpx_like` has what httpx and httpx2 share.
"""

import asyncio
from typing import Any, TypeVar, Unpack

from dpq.http.httpx_like import Body, Routes, TransportBase
from dpq.http.httpx_like_async import AsyncBody, AsyncRoutes, AsyncTransportBase
from dpq.http.wire import Group, Options, TransportOptions, missing_extra
from dpq.limits.usage import Answer, anthropic_usage, openai_usage
from dpq.model.errors import ConfigurationError
from dpq.queue.permits import Permit
from dpq.queue.permits_async import AsyncPermit
from dpq.queue.queue import DPQ
from dpq.queue.queue_async import AsyncDPQ

try:
    import httpx2
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("httpx2", error) from error

__all__ = [
    "Answer",
    "AsyncTransport",
    "Transport",
    "TransportOptions",
    "anthropic_usage",
    "limited",
    "openai_usage",
]

TRIO = "an AsyncTransport needs asyncio: under trio, use a Client with a Transport in a thread"

C = TypeVar("C", httpx2.Client, httpx2.AsyncClient)
"""The type of a client."""


class _Stream(Body, httpx2.SyncByteStream):
    """A body whose end ends a permit."""


class _AsyncStream(AsyncBody, httpx2.AsyncByteStream):
    """Async `_Stream`."""


class Transport(TransportBase, httpx2.BaseTransport):
    """A transport for `httpx2.Client` that takes units of a queue's limits."""

    _body = _Stream

    def __init__(
        self,
        queue: DPQ[Any],
        group: Group[httpx2.Request] = None,
        *,
        transport: httpx2.BaseTransport | None = None,
        **options: Unpack[TransportOptions[httpx2.Request, Permit]],
    ) -> None:
        """Wrap a transport.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            transport: The transport that sends; None sends as a plain `httpx2.Client()` does, so
                through the proxies of the environment. It must not retry: retries take no unit.
                A client with `proxy` or `mounts` of its own sends past this transport, without a
                limit and without a word: use `limited` for such a client.
            options: `cost`, `timeout` and others, as `TransportOptions` describes them.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        inner = Routes(httpx2.Client()) if transport is None else transport
        super().__init__(queue, Options(group, **options), inner)


class AsyncTransport(AsyncTransportBase, httpx2.AsyncBaseTransport):
    """A transport for `httpx2.AsyncClient` that takes units of a queue's limits."""

    _body = _AsyncStream

    def __init__(
        self,
        queue: AsyncDPQ[Any],
        group: Group[httpx2.Request] = None,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        **options: Unpack[TransportOptions[httpx2.Request, AsyncPermit]],
    ) -> None:
        """Wrap a transport; the arguments are those of `Transport`."""
        inner = AsyncRoutes(httpx2.AsyncClient()) if transport is None else transport
        super().__init__(queue, Options(group, **options), inner)

    async def handle_async_request(self, request: httpx2.Request) -> Any:
        """Wait for the units, send the request, report its answer."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError(TRIO) from None
        return await super().handle_async_request(request)


def limited(client: C, queue: Any, group: Group[httpx2.Request] = None, **options: Any) -> C:
    """Put a queue's limits before all transports of a client: those of its proxies and mounts, too.

    Args:
        client: The client, of any settings (`proxy`, `mounts`, `verify`, `http2`). It is changed.
        queue: A DPQ for a Client, an AsyncDPQ for an AsyncClient.
        group: As of `Transport`.
        options: As of `Transport`.

    Returns:
        The client.

    Raises:
        ConfigurationError: An argument is out of its bounds.
    """
    kind: Any = Transport if isinstance(client, httpx2.Client) else AsyncTransport

    def limit(inner: Any) -> Any:
        return inner and kind(queue, group, transport=inner, **options)

    client._transport = limit(client._transport)
    client._mounts = {pattern: limit(inner) for pattern, inner in client._mounts.items()}
    return client
