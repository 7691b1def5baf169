"""Transports for httpx and for httpx2, which are alike: the part that imports neither of them.

`dpq.httpx` and `dpq.httpx2` complete these classes with the types of their client.
"""

from collections.abc import AsyncIterator
from typing import Any, Self

from dpq.http.exchange_async import AsyncExchange
from dpq.http.wire import PERMIT, Options


class AsyncBody:
    """The body of an answer; the end of the body ends the permit."""

    def __init__(self, inner: Any, exchange: AsyncExchange) -> None:
        self._inner, self._exchange = inner, exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._inner:
            self._exchange.hear(part)
            yield part
        self._exchange.body_ended()

    async def aclose(self) -> None:
        """Close the body, and end the permit."""
        try:
            await self._inner.aclose()
        finally:
            await self._exchange.end()


class AsyncRoutes:
    """The transports of a client that was made without any, so `HTTP_PROXY` and its kin count."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request, as the client would."""
        return await self._client._transport_for_url(request.url).handle_async_request(request)

    async def aclose(self) -> None:
        """Close the transports of the client."""
        await self._client.aclose()


class AsyncTransportBase:
    """A transport that takes units of a queue's limits, over another one, which sends."""

    _body: type[AsyncBody]  # and a stream of the client

    def __init__(self, queue: Any, options: Options[Any, Any], inner: Any) -> None:
        self._queue, self._options, self._inner = queue, options, inner

    async def handle_async_request(self, request: Any) -> Any:
        """Wait for the units, send the request, report its answer."""
        exchange = AsyncExchange(self._queue, self._options)
        await exchange.take(request, request.url.raw_host.decode())
        sent = self._request_to_send(request, exchange)
        response = await exchange.send(
            sent,
            lambda: self._inner.handle_async_request(sent),
            lambda response: response.aclose(),
        )
        await self._follow(response, exchange)
        return response

    async def __aenter__(self) -> Self:
        if hasattr(self._inner, "__aenter__"):
            await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        ends = getattr(self._inner, "__aexit__", None)
        await (ends(*error) if ends else self._inner.aclose())

    async def aclose(self) -> None:
        """Close the inner transport; the queue stays open."""
        await self._inner.aclose()

    def _request_to_send(self, request: Any, exchange: AsyncExchange) -> Any:
        """Put the permit beside the request, and return a copy that may be changed."""
        request.extensions = {**request.extensions, PERMIT: exchange.permit}
        sent = type(request)(
            request.method,
            request.url,
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        if self._options.spent:  # the parts of a body pass here as they were sent
            sent.headers["Accept-Encoding"] = "identity"
        return sent

    async def _follow(self, response: Any, exchange: AsyncExchange) -> None:
        """Follow the body of a response, if needed."""
        response.extensions = {**response.extensions, PERMIT: exchange.permit}
        if exchange.ends_with_body and response.is_closed:  # a double for tests has sent it
            exchange.read_body()
            exchange.hear(response.content)
            exchange.body_ended()
            await exchange.end()
        elif exchange.ends_with_body:
            exchange.read_body(response.headers.get("Content-Encoding"))
            response.stream = self._body(response.stream, exchange)
