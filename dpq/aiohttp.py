"""A middleware for aiohttp: each request on the wire takes a unit of a limit, and a 429 is heard.

    session = aiohttp.ClientSession(middlewares=[dpq.aiohttp.Middleware(aq)])

aiohttp calls it for each redirect, and for each request that it sends again because a kept
connection was closed: each takes a unit. A 429 is reported to the queue, and returned as it is.
The permit is an attribute of the request and of its response: `dpq_permit`.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Unpack, cast

from dpq.http.exchange_async import AsyncExchange
from dpq.http.wire import PERMIT, Group, Options, TransportOptions, missing_extra
from dpq.limits.usage import Answer, anthropic_usage, openai_usage
from dpq.queue.permits_async import AsyncPermit
from dpq.queue.queue_async import AsyncDPQ

try:
    from aiohttp import ClientRequest, ClientResponse, StreamReader
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("aiohttp", error) from error

__all__ = ["Answer", "Middleware", "TransportOptions", "anthropic_usage", "openai_usage"]


READS = ("read", "readany", "readline", "readuntil", "readexactly")
"""The methods of a body that are awaited, and return a part of it."""


class Middleware:
    """A client middleware that takes units of a queue's limits."""

    def __init__(
        self,
        queue: AsyncDPQ[Any],
        group: Group[ClientRequest] = None,
        **options: Unpack[TransportOptions[ClientRequest, AsyncPermit]],
    ) -> None:
        """Make a middleware. Put it last, so that other middlewares that retry take units.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            options: `cost`, `timeout` and others, as `TransportOptions` describes them. The
                session's own total timeout, 300 s unless said, counts the wait, too.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        self._queue = queue
        self._options = Options(group, **options)

    async def __call__(
        self,
        request: ClientRequest,
        handler: Callable[[ClientRequest], Awaitable[ClientResponse]],
    ) -> ClientResponse:
        """Wait for the units, send the request, report its answer."""
        exchange = AsyncExchange(self._queue, self._options)
        await exchange.take(request, request.url.raw_host)
        setattr(request, PERMIT, exchange.permit)
        response = await exchange.send(request, lambda: handler(request), _close)
        setattr(response, PERMIT, exchange.permit)
        if exchange.ends_with_body:
            exchange.read_body()
            _follow(response, exchange)
        return response


async def _close(response: ClientResponse) -> None:
    response.close()


def _follow(response: ClientResponse, exchange: AsyncExchange) -> None:
    """End an exchange when the body was read, or the response is closed, or released unread."""

    def ends(inner: Callable[[], Any]) -> Any:
        exchange.end_soon()
        return inner()

    vars(response)["close"] = partial(ends, response.close)
    vars(response)["release"] = partial(ends, response.release)  # `async with` ends by this call
    if exchange.reads_body:
        response.content = cast("StreamReader", _Content(response.content, exchange))
    else:
        response.content.on_eof(exchange.end_soon)


class _Content:
    """The body of a response: aiohttp's reader, whose parts an exchange hears."""

    __aiter__ = StreamReader.__aiter__
    iter_any = StreamReader.iter_any
    iter_chunked = StreamReader.iter_chunked
    iter_chunks = StreamReader.iter_chunks

    def __init__(self, inner: StreamReader, exchange: AsyncExchange) -> None:
        self._inner, self._exchange = inner, exchange

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)
        if name not in READS:
            return inner

        async def read(*args: Any, **more: Any) -> bytes:
            return self._heard(await inner(*args, **more))

        return read

    def _heard(self, part: bytes) -> bytes:
        self._exchange.hear(part)
        if self._inner.at_eof():
            self._exchange.body_ended()
            self._exchange.end_soon()
        return part

    async def readchunk(self) -> tuple[bytes, bool]:
        part, ends = await self._inner.readchunk()
        return self._heard(part), ends

    def read_nowait(self, n: int = -1) -> bytes:
        return self._heard(self._inner.read_nowait(n))
