"""Exchanges of asyncio clients: the twin of exchange.py."""

from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import RedisError

from dpq.model.errors import DPQError
from dpq.queue.exchange import ExchangeBase, S
from dpq.queue.permits_async import AsyncPermit, take_permit_async
from dpq.queue.wire import R


class AsyncExchange(ExchangeBase[R, AsyncPermit]):
    """One request of an asyncio client."""

    async def take(self, request: R, host: str | None) -> None:
        """Async `Exchange.take`."""
        wanted, outage = self._options.permit_for(request, host), self._options.outage
        if outage.asks():
            try:
                self.permit = await take_permit_async(self._queue, wanted)
            except RedisError as error:
                outage.begin(self._queue.queue_name, error)
            else:
                outage.end(self._queue.queue_name)

    async def send(
        self,
        request: R,
        send: Callable[[], Awaitable[S]],
        close: Callable[[S], Awaitable[object]],
    ) -> S:
        """Async `Exchange.send`."""
        try:
            self.prepare(request)
            response = await send()
        except GeneratorExit:  # thrown away with its loop: nothing can be awaited
            raise
        except BaseException as error:
            await self.end(error)
            raise
        try:
            await self._report(response)
        except GeneratorExit:
            raise
        except BaseException as error:  # an interrupt: nobody else can close the answer
            try:
                await self.end(error)
            finally:
                await close(response)
            raise
        return response

    async def _report(self, response: Any) -> None:
        if self.permit is not None:
            try:
                await self.permit.report(response)
            except DPQError as error:
                self._log("read an answer", error)

    async def end(self, error: BaseException | None = None) -> None:
        """Async `Exchange.end`."""
        if self.permit is not None:
            self._tell_spent()
            await self.permit.end(error)

    def end_soon(self) -> None:
        """Tell what was spent, and end the permit, without waiting for that."""
        if self.permit is not None:
            self._tell_spent()
            self.permit.close_soon()
