"""Permits of an asyncio queue: the twin of permits.py."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import asyncio
import time
from contextlib import suppress
from typing import Any, cast

from redis.exceptions import RedisError

from dpq.model.errors import DPQError
from dpq.model.permit import Caller, PermitAnswer, PermitRequest
from dpq.model.rate_headers import Headers
from dpq.model.signals import RateLimited, Scope, signal_of
from dpq.queue.permits import PermitBase

__all__ = ["AsyncPermit"]


class AsyncPermit(PermitBase):
    """Units of a limit that were taken for one request; see `DPQ.acquire`.

    Attributes:
        group: The group whose units were taken; None for the queue's limit alone.
        member: The member of the group's pool, whose key or proxy is to be used; None otherwise.
        waited: Seconds that the caller has waited for it.
    """

    async def report(
        self, response: Any, headers: Headers | None = None, *, scope: Scope = "member"
    ) -> RateLimited | None:
        """Async `Permit.report`."""
        limited, budgets = self._read(response, headers, scope)
        if budgets:
            with self._logged("report an answer"):
                if self._held and self._caller.brief:
                    await self._queue._leases.end(cast("Any", self._held))
                    self._let_go()
                observe = self._queue._operations.observe
                await self._queue._session.run(observe, self._caller, budgets)
        if limited and limited.scope != "task":
            await self._queue._finish(self._close_after(limited))
        return limited

    async def _close_after(self, limited: RateLimited) -> None:
        if self._held:
            await self._queue._leases.end(cast("Any", self._held))
        with self._logged("report an answer"):
            await self._queue._session.run(
                self._queue._operations.met_limit,
                *(self._caller, limited, self._let_go(), self._spent),
            )

    async def close(self) -> None:
        """Async `Permit.close`."""
        if self._held:
            await self._queue._finish(self._end_lease())

    def close_soon(self) -> None:
        """End the permit, where it is a lease, without waiting for that."""
        if self._held:
            self._queue._finish(self._end_lease())

    async def _end_lease(self) -> None:
        if self._held:
            await self._queue._leases.end(cast("Any", self._held))
            with self._logged("end a permit"):
                await self._queue._session.run(
                    self._queue._operations.end_permit, self._caller, self._let_go(), self._spent
                )

    async def end(self, error: BaseException | None) -> None:
        """Async `Permit.end`."""
        signal = None if error is None else signal_of(error)
        if isinstance(signal, RateLimited):
            await self.report(signal)
        await self.close()


async def take_permit_async(queue: Any, request: PermitRequest) -> AsyncPermit:
    """Async `take_permit`; a cancelled caller's units stay spent, its lease ends."""
    began = time.monotonic()
    caller = Caller(request, began)
    asking: asyncio.Task[PermitAnswer] | None = None
    listener = queue._listener
    try:
        with listener.ear(caller.id) as ear:
            while not caller.granted:
                caller.channel, now = listener.channel, time.monotonic()
                operation = queue._session.run(queue._operations.acquire, caller, now)
                asking = asyncio.create_task(operation)
                pause = caller.receive(await asyncio.shield(asking), time.monotonic())
                asking = None
                if caller.place and not await listener.subscribe():
                    await listener.wait(ear, pause)
                elif not caller.place and pause > 0:
                    await asyncio.sleep(pause)
    except GeneratorExit:  # thrown away with its loop: nothing can be awaited
        raise
    except BaseException:
        if asking or caller.held or caller.place:
            queue._finish(_give_back(queue, caller, asking))
        raise
    return AsyncPermit(queue, caller, time.monotonic() - began)


async def _give_back(queue: Any, caller: Caller, asking: asyncio.Task[PermitAnswer] | None) -> None:
    """End the lease or the place of a cancelled caller, also if its answer is under way."""
    held = caller.held or caller.place
    with suppress(DPQError, RedisError):
        if asking:
            answer = await asking
            held = answer.held or (answer.moment if answer.code != 1 else "")
            caller.scope = answer.scope or caller.scope
        if held:
            await queue._session.run(queue._operations.end_permit, caller, held, "")
