"""Permits: units of a limit, taken without a task. `DPQ.acquire` and the transports call it.

`model/permit` decides how long a caller sleeps. This module asks the server, and sleeps.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import logging
import time
from contextlib import suppress
from typing import Any, cast

from redis.exceptions import RedisError

from dpq.model.errors import DPQError
from dpq.model.permit import Caller, HeldPermit, PermitRequest
from dpq.model.rate_headers import Headers
from dpq.model.signals import RateLimited, Scope, signal_of
from dpq.queue.lease_renewal import Leases

__all__ = ["Permit"]

log = logging.getLogger(__name__)


class PermitBase:
    """The common part of `Permit` and `AsyncPermit`.

    Attributes:
        group: The group whose units were taken; None for the queue's limit alone.
        waited: Seconds that the caller has waited for it.
    """

    def __init__(self, queue: Any, caller: Caller, waited: float) -> None:
        self.group = caller.request.group
        self.waited = waited
        self._queue = queue
        self._moment = caller.moment
        self._held: HeldPermit | None = None
        if caller.held:
            self._held = HeldPermit(caller.id, self.group, caller.held)
            queue._leases.hold(cast("Any", self._held), caller.request.lease)

    def _limit(self, response: Any, headers: Headers | None, scope: Scope) -> RateLimited | None:
        """Read an answer: a response, or a status and headers, or a RateLimited."""
        if isinstance(response, RateLimited):
            return response
        if headers is not None:
            return RateLimited.from_headers(response, headers, scope)
        return RateLimited.from_response(response, scope)

    @property
    def leased(self) -> bool:
        """The permit counts towards a concurrency, or is a probe, until it ends."""
        return self._held is not None

    def __del__(self) -> None:
        """Stop to extend a permit that nobody has ended, so that its lease runs out."""
        if held := getattr(self, "_held", None):
            Leases.let_go(self._queue._leases, held)  # the keeper's would wait for a lock

    def _let_go(self) -> str:
        """Return what is held, which ends now: it is not to be extended any more."""
        held, self._held = self._held, None
        return held.member if held else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(group={self.group!r}, waited={self.waited:.3f})"


class Permit(PermitBase):
    """Units of a limit that were taken for one request; see `DPQ.acquire`.

    Attributes:
        group: The group whose units were taken; None for the queue's limit alone.
        waited: Seconds that the caller has waited for it.
    """

    def report(
        self, response: Any, headers: Headers | None = None, *, scope: Scope = "group"
    ) -> RateLimited | None:
        """Tell what the host has answered.

        A 429, and what else `RateLimited.from_response` takes for a limit, closes the group
        (without a group, the queue) for all consumers and callers. The next one is a probe. Units
        that were taken stay spent. A longer closing is never shortened.

        Args:
            response: A response of requests, httpx, aiohttp or urllib; or the status of another
                client, with `headers`; or a `RateLimited`.
            headers: The headers, if `response` is a status.
            scope: The part that the limit covers: "group", "queue", or "task" for nothing else.

        Returns:
            The limit, to raise it or to wait for it; None if the answer was none.

        Raises:
            ConfigurationError: `response` has no status or no headers, or `scope` is wrong.
        """
        limited = self._limit(response, headers, scope)
        # what a good answer tells (budgets, units that were really spent) is noted here
        if limited and limited.scope != "task":
            if self._held:
                self._queue._leases.let_go(self._held)
            self._queue._session.run(
                self._queue._operations.met_limit,
                *(self.group, limited.scope, limited.retry_after, self._moment, self._let_go()),
            )
        return limited

    def close(self) -> None:
        """End the permit, where it is a lease; the end of the `with` does it. Safe to repeat."""
        if self._held:
            self._queue._leases.let_go(self._held)
            member = self._let_go()
            self._queue._session.run(self._queue._operations.end_permit, self.group, member)

    def end(self, error: BaseException | None) -> None:
        """End the permit after its body, which may have raised a `RateLimited`."""
        signal = None if error is None else signal_of(error)
        try:
            if isinstance(signal, RateLimited):
                self.report(signal)
            self.close()
        except (DPQError, RedisError):
            if error is None:
                raise
            log.warning("cannot end a permit of %r", self.group, exc_info=True)


def take_permit(queue: Any, request: PermitRequest) -> Permit:
    """Wait for units of a limit.

    Raises:
        LimitTimeoutError: They are not there in time. Nothing was taken.
    """
    began = time.monotonic()
    caller = Caller(request, began)
    try:
        while not caller.granted:
            now = time.monotonic()
            answer = queue._session.run(queue._operations.acquire, caller, now)
            pause = caller.receive(answer, time.monotonic())
            if pause > 0:
                time.sleep(pause)
    except BaseException:  # interrupted: its units stay spent, its lease need not
        if caller.held:
            with suppress(DPQError, RedisError):
                queue._session.run(queue._operations.end_permit, request.group, caller.held)
        raise
    return Permit(queue, caller, time.monotonic() - began)
