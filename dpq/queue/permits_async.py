"""Permits: units of a limit, taken without a task.

`AsyncDPQ.acquire` and the transports for HTTP clients call it. `limits/permit` decides how long a
caller sleeps. This module asks the server, and waits.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

from redis.exceptions import RedisError

from dpq.limits.answers import Headers, parts_of
from dpq.limits.budget import Budget, read_answer
from dpq.limits.cost import write_spent
from dpq.limits.permit import Caller, HeldPermit, PermitRequest
from dpq.limits.signals import RateLimited, Retry, Scope, signal_of
from dpq.link.shared_async import THROWN_AWAY, pause
from dpq.model.errors import DPQError
from dpq.model.log_fields import fields
from dpq.model.task import Cost
from dpq.model.validation import error_line
from dpq.queue.lease_renewal import Leases

log = logging.getLogger(__name__)


class AsyncPermit:
    """Units of a limit that were taken for one request; see `AsyncDPQ.acquire`.

    Attributes:
        group: The group whose units were taken; None for the queue's limit alone.
        member: The member of the group's pool, whose key or proxy is to be used; None otherwise.
        waited: Seconds that the caller has waited for it.
    """

    def __init__(self, queue: Any, caller: Caller, waited: float) -> None:
        self.group = caller.request.group
        self.waited = waited
        self._queue = queue
        self.member = caller.scope.partition("\t")[2] or None
        self._caller = caller
        self._told: dict[str, int] = {}
        self._held: HeldPermit | None = None
        if caller.held:
            self._held = HeldPermit(caller.id, self.group, caller.held, caller.scope)
            queue._leases.hold((cast("Any", self._held),), caller.request.lease)

    def __reduce__(self) -> Any:  # a response may be pickled, and a copy of it has no permit
        return type(None), ()

    def spent(self, cost: Cost | None = None, **units: int) -> None:
        """Note what the request has spent; this replaces what was charged, as in `AsyncDPQ.spent`.

        The units travel with the end of the permit. The last value of each unit counts. If the
        permit took one request and no other units are limited, nothing is to change.

        Raises:
            ConfigurationError: A value is out of its bounds.
        """
        write_spent(cost, units)  # raises if a value is wrong
        given = cost if isinstance(cost, Mapping) else {} if cost is None else {"": cost}
        told = {**self._told, **given, **units}
        write_spent(told)
        self._told = told

    async def report(
        self,
        response: Any,
        headers: Headers | None = None,
        *,
        scope: Scope = "member",
        body: bytes | str = b"",
    ) -> RateLimited | Retry | None:
        """Report the answer of the host.

        A 429, and what else `RateLimited.from_response` takes for a limit, closes the member of the
        pool, else the group (without a group, the queue) for all, as `rate_limited` of the queue
        does. The request stays spent; other units are given back, unless `spent` was called before.
        What a good answer says is left, all obey (`observe` of the queue). If the report cannot be
        sent, that is logged, and no error is raised: your request is done.

        Args:
            response: A response of requests, httpx, aiohttp or urllib; or the status of another
                client, with `headers`; or a `RateLimited`.
            headers: The headers, if `response` is a status.
            body: The body, or its beginning, if `response` is a status.
            scope: The part that the limit covers: "member", "group", "queue", or "task" for
                nothing else. Without a member, "member" is "group".

        Returns:
            The limit, to raise it or to wait for it; a `Retry` if only this request is to come
            again later; None if the answer asks for no wait.

        Raises:
            ConfigurationError: `response` has no status or no headers, or `scope` is wrong.
        """
        budgets: list[Budget] = []
        if isinstance(response, RateLimited):
            limited: RateLimited | Retry | None = response
        else:
            if headers is None:
                response, headers, body = parts_of(response)
            limited = RateLimited.from_headers(response, headers, scope, body=body)
            if not isinstance(limited, RateLimited):
                budgets = read_answer(None, response, headers)
        if budgets:
            with self._logged("report an answer"):
                if self._caller.brief:
                    await self._let_go()
                observe = self._queue._operations.observe
                await self._queue._session.run(observe, self._caller, budgets)
        if isinstance(limited, RateLimited) and limited.scope != "task":
            await self._queue._finish(self._close_after, limited)
        return limited

    async def _close_after(self, limited: RateLimited) -> None:
        held, met_limit = await self._let_go(), self._queue._operations.met_limit
        with self._logged("report an answer"):
            told = write_spent(self._told)
            await self._queue._session.run(met_limit, self._caller, limited, held, told)

    async def close(self) -> None:
        """End the permit, if it is a lease; the end of the `with` does it. Safe to repeat.

        If the call fails, that is logged, and the lease runs out by itself.
        """
        if self._held:
            await self._queue._finish(self._end_lease)

    async def _end_lease(self) -> None:
        if held := await self._let_go():
            end_permit, told = self._queue._operations.end_permit, write_spent(self._told)
            with self._logged("end a permit"):
                await self._queue._session.run(end_permit, self._caller, held, told)

    async def end(self, error: BaseException | None) -> None:
        """End the permit after its body, which may have raised a `RateLimited`."""
        signal = None if error is None else signal_of(error)
        if isinstance(signal, RateLimited):
            await self.report(signal)
        await self.close()

    @contextmanager
    def _logged(self, what: str) -> Iterator[None]:
        """Log an error of the server and go on: the request is done, and its answer counts."""
        try:
            yield
        except (DPQError, RedisError) as error:
            queue, host, line = self._queue.queue_name, self._caller.request.host, error_line(error)
            more = {"group": self.group, "member": self.member, "reason": what, "error": line}
            log.warning(
                "%s: cannot %s of group %r%s: %s",
                *(queue, what, self.group, f", host {host!r}" if host else "", line),
                extra=fields("permit_not_told", queue=queue, **more),
            )

    @property
    def leased(self) -> bool:
        """True while the permit is a lease: for a concurrency, as a probe, or until its answer."""
        return self._held is not None

    async def _let_go(self) -> str:
        """Return the name of the lease, which ends now, or ""; it is not extended any more."""
        held = self._held
        if held:  # its name changes at each extension, the last of which may be under way
            await self._queue._leases.end(cast("Any", held))
        self._held = None  # not before: a call that is cancelled leaves it to `close`
        return held.member if held else ""

    def __del__(self, let_go: Any = Leases.let_go) -> None:
        """Stop extending a permit that was not ended, so that its lease runs out."""
        if held := getattr(self, "_held", None):
            let_go(self._queue._leases, held)  # the keeper's own `let_go` would wait for a lock

    def __repr__(self) -> str:
        return f"{type(self).__name__}(group={self.group!r}, waited={self.waited:.3f})"


async def take_permit_async(queue: Any, request: PermitRequest) -> AsyncPermit:
    """Wait for units of a limit; a question of a cancelled caller goes on, and is given back."""
    began = time.monotonic()
    caller, listener = Caller(request, began), queue._listener
    asking = gone = False

    async def ask() -> float:
        nonlocal asking
        asking = True
        try:
            acquire = queue._operations.acquire
            answer = await queue._session.run(acquire, caller, time.monotonic())
            return caller.receive(answer, time.monotonic())
        finally:
            asking = False
            if gone:
                await give_up()

    async def give_up() -> None:
        """Give a booking back; end a lease, or a place in the line."""
        if caller.held or caller.place or caller.moment:
            with suppress(DPQError, RedisError):
                await queue._session.run(queue._operations.give_up, caller)

    try:
        with listener.ear(caller.id) as ear:
            while not caller.granted:
                caller.channel = listener.channel
                seconds = await queue._finish(ask)
                if caller.place and not await listener.subscribe():
                    await listener.wait(ear, seconds)
                elif not caller.place and seconds > 0:
                    await pause(seconds)
    except THROWN_AWAY:
        raise
    except BaseException:
        gone = True
        if not asking:
            queue._finish(give_up)
        raise
    return AsyncPermit(queue, caller, time.monotonic() - began)
