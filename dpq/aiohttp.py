"""A middleware for aiohttp: each request on the wire takes a unit of a limit, and a 429 is heard.

    session = aiohttp.ClientSession(middlewares=[dpq.aiohttp.Middleware(aq)])

aiohttp calls it for each redirect, and for each request that it sends again because a kept
connection was closed: each takes a unit. A 429 is reported to the queue, and returned as it is.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from dpq.model.task import Cost
from dpq.queue.permits_async import AsyncPermit, take_permit_async
from dpq.queue.queue_async import AsyncDPQ
from dpq.queue.wire import Options, missing_extra

try:
    from aiohttp import ClientRequest, ClientResponse
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("aiohttp", error) from error

__all__ = ["Middleware"]


class Middleware:
    """A client middleware that takes units of a queue's limits."""

    def __init__(
        self,
        queue: AsyncDPQ[Any],
        group: str | Callable[[ClientRequest], str | None] | None = None,
        *,
        cost: Cost | Callable[[ClientRequest], Cost] = 1,
        timeout: float | None = None,
        priority: float | Callable[[ClientRequest], float] = 0,
    ) -> None:
        """Make a middleware. Put it last, so that other middlewares that retry take units.

        Args:
            queue: The queue whose limits hold.
            group: The group of a request: a name, or a function of the request; None takes its
                host. A name that no group may have is shortened, with a hash.
            cost: Units of each request, or a function of the request.
            timeout: Seconds to wait for the units at most; None waits for ever. The session's own
                total timeout, 300 s unless said, counts this time, too.
            priority: The priority, or a function of the request.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        self._queue = queue
        self._options = Options(group, cost, timeout, priority)

    async def __call__(
        self,
        request: ClientRequest,
        handler: Callable[[ClientRequest], Awaitable[ClientResponse]],
    ) -> ClientResponse:
        """Wait for the units, send the request, report its answer.

        Raises:
            LimitTimeoutError: The units are not there within `timeout`. Nothing was sent.
        """
        wanted = self._options.permit_for(request, request.url.host)
        permit = await take_permit_async(self._queue, wanted)
        try:
            response = await handler(request)
            await permit.report(response)
        except BaseException as error:
            await permit.end(error)
            raise
        if permit.leased:
            _end_with(response, permit)
        return response


def _end_with(response: ClientResponse, permit: AsyncPermit) -> None:
    """End a permit when the body was read, or the response is closed, or released unread."""

    def ends(inner: Callable[[], Any]) -> Any:
        permit.close_soon()
        return inner()

    vars(response)["close"] = partial(ends, response.close)
    vars(response)["release"] = partial(ends, response.release)  # at the end of `async with`
    response.content.on_eof(permit.close_soon)
