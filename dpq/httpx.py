"""Transports for httpx: each request on the wire takes a unit of a limit, and a 429 is heard.

    client = httpx.Client(transport=dpq.httpx.Transport(q))
    client = httpx.AsyncClient(transport=dpq.httpx.AsyncTransport(aq))

A redirect is another request, so it takes a unit of its own. Retries are the caller's: a 429 is
reported to the queue, and returned as it is.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from dpq.model.task import Cost
from dpq.queue.permits import Permit, take_permit
from dpq.queue.permits_async import AsyncPermit, take_permit_async
from dpq.queue.queue import DPQ
from dpq.queue.queue_async import AsyncDPQ
from dpq.queue.wire import Options, missing_extra

try:
    import httpx
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("httpx", error) from error

__all__ = ["AsyncTransport", "Transport"]


class _Stream(httpx.SyncByteStream):
    """A body whose end ends a permit."""

    def __init__(self, inner: httpx.SyncByteStream, permit: Permit) -> None:
        self._inner, self._permit = inner, permit

    def __iter__(self) -> Iterator[bytes]:
        yield from self._inner

    def close(self) -> None:
        """Close the body, and end the permit."""
        try:
            self._inner.close()
        finally:
            self._permit.close()


class _AsyncStream(httpx.AsyncByteStream):
    """Async `_Stream`."""

    def __init__(self, inner: httpx.AsyncByteStream, permit: AsyncPermit) -> None:
        self._inner, self._permit = inner, permit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            yield chunk

    async def aclose(self) -> None:
        """Close the body, and end the permit."""
        try:
            await self._inner.aclose()
        finally:
            await self._permit.close()


class Transport(httpx.BaseTransport):
    """A transport for `httpx.Client` that takes units of a queue's limits."""

    def __init__(
        self,
        queue: DPQ[Any],
        group: str | Callable[[httpx.Request], str | None] | None = None,
        *,
        cost: Cost | Callable[[httpx.Request], Cost] = 1,
        timeout: float | None = None,
        priority: float | Callable[[httpx.Request], float] = 0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Wrap a transport.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            cost: Units of each request, or a function of the request.
            timeout: Seconds to wait for the units at most; None waits for ever.
            priority: The priority, or a function of the request.
            transport: The transport that sends; None makes an `httpx.HTTPTransport` without
                retries, since those would take no unit.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        self._queue = queue
        self._options = Options(group, cost, timeout, priority)
        self._inner = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Wait for the units, send the request, report its answer.

        Raises:
            LimitTimeoutError: The units are not there within `timeout`. Nothing was sent.
        """
        permit = take_permit(self._queue, self._options.permit_for(request, request.url.host))
        try:
            response = self._inner.handle_request(request)
            permit.report(response)
        except BaseException as error:
            permit.end(error)
            raise
        if permit.leased and isinstance(response.stream, httpx.SyncByteStream):
            response.stream = _Stream(response.stream, permit)
        return response

    def close(self) -> None:
        """Close the inner transport; the queue stays open."""
        self._inner.close()


class AsyncTransport(httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient` that takes units of a queue's limits."""

    def __init__(
        self,
        queue: AsyncDPQ[Any],
        group: str | Callable[[httpx.Request], str | None] | None = None,
        *,
        cost: Cost | Callable[[httpx.Request], Cost] = 1,
        timeout: float | None = None,
        priority: float | Callable[[httpx.Request], float] = 0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Wrap a transport; the arguments are those of `Transport`."""
        self._queue = queue
        self._options = Options(group, cost, timeout, priority)
        self._inner = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Async `Transport.handle_request`."""
        wanted = self._options.permit_for(request, request.url.host)
        permit = await take_permit_async(self._queue, wanted)
        try:
            response = await self._inner.handle_async_request(request)
            await permit.report(response)
        except BaseException as error:
            await permit.end(error)
            raise
        if permit.leased and isinstance(response.stream, httpx.AsyncByteStream):
            response.stream = _AsyncStream(response.stream, permit)
        return response

    async def aclose(self) -> None:
        """Close the inner transport; the queue stays open."""
        await self._inner.aclose()
