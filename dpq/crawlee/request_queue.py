"""The request queue of crawlee on DPQ.

| crawlee | DPQ |
|---|---|
| add_batch_of_requests | one push for each request, all at once; its unique key is seen for ever |
| fetch_next_request | pop; the lease is extended until the request is handled or reclaimed |
| mark_request_as_handled | ack |
| reclaim_request | the payload is replaced, then release, at the end or the head of the queue |
| is_empty | pop; the task waits for the next fetch, so that what a limit closes is no work |
| is_finished | no live task is left, in no process |

Crawlee counts the retries itself, so attempts have no limit here. A request whose process dies
again and again is a dead letter after `MAX_LAPSES` leases.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from crawlee import Request
from crawlee.storage_clients import models
from crawlee.storage_clients._base import RequestQueueClient
from pydantic_core import from_json

from dpq import AsyncDPQ, DuplicateTaskError, LeaseLostError, Task, TaskNotFoundError
from dpq.queue.inside import leases_of
from dpq.queue.wire import group_name

VISIBILITY = 60.0
"""Seconds of a lease, which is extended at a third of it. A request whose process has died comes
back after that."""

MAX_LAPSES = 10
"""Leases of one request that may run out: after that it is taken for what kills its processes."""


class DPQRequestQueueClient(RequestQueueClient):
    """A request queue of crawlee. `DPQStorageClient` opens it.

    Attributes:
        queue: The queue itself, for limits, pauses and looks.
    """

    def __init__(self, queue: AsyncDPQ[Any], name: str | None) -> None:
        """Take an open queue, and the name that crawlee knows; None for an unnamed queue."""
        self.queue = queue
        self._name = name
        self._opened = datetime.now(UTC)
        self._fetched: Task[Any] | None = None  # popped by `is_empty`, for the next fetch
        self._held: dict[str, Task[Any]] = {}
        self._place = 0

    # Adding

    async def add_batch_of_requests(
        self, requests: Sequence[Request], *, forefront: bool = False
    ) -> models.AddRequestsResponse:
        """Push requests that were never pushed; the others stay as they are."""
        unique = {request.unique_key: request for request in requests}
        pushes = [self._push(each, self._priority(forefront)) for each in unique.values()]
        processed = await asyncio.gather(*pushes)
        return models.AddRequestsResponse(processed_requests=processed, unprocessed_requests=[])

    async def _push(self, request: Request, priority: int) -> models.ProcessedRequest:
        try:
            await self.queue.push(
                _payload(request), priority, on_duplicate="error", **_options(request)
            )
        except DuplicateTaskError as error:
            return _processed(request, present=True, handled=not await self._lives(error.task_id))
        return _processed(request, present=False, handled=False)

    async def _lives(self, task_id: str | None) -> bool:
        try:
            await self.queue.get(task_id)
        except TaskNotFoundError:
            return False
        return True

    def _priority(self, forefront: bool) -> int:
        """Return a place at the head of the queue, or at its end: ns, so that no two are equal."""
        self._place = max(self._place + 1, time.time_ns())
        return self._place if forefront else -self._place

    # Fetching

    async def fetch_next_request(self) -> Request | None:
        """Pop the next request that may run; None if there is none now."""
        task, self._fetched = self._fetched or await self._pop(), None
        if task is None:
            return None
        request = Request.model_validate(task.payload)
        self._held[request.unique_key] = task
        return request

    async def _pop(self) -> Task[Any] | None:
        task = (await self.queue.pop(visibility=VISIBILITY)).task
        if task is not None:
            leases_of(self.queue).hold((task,), VISIBILITY)
        return task

    async def mark_request_as_handled(self, request: Request) -> models.ProcessedRequest | None:
        """Ack a fetched request; None if it is not in progress here, or its lease is lost."""
        task = self._held.pop(request.unique_key, None)
        if task is None:
            return None
        if request.handled_at is None:
            request.handled_at = datetime.now(UTC)
        try:
            done = await self.queue.ack(task)
        except LeaseLostError:
            return None
        return _processed(request, present=True, handled=True) if done else None

    async def reclaim_request(
        self, request: Request, *, forefront: bool = False
    ) -> models.ProcessedRequest | None:
        """Give a fetched request back, with what crawlee has changed in it; None as above."""
        task = self._held.pop(request.unique_key, None)
        if task is None:
            return None
        priority = self._priority(forefront)
        try:
            # Only the holder of a live lease may replace the payload.
            await self.queue.extend(task, VISIBILITY)
            changed = {**_options(request), "on_duplicate": "update"}
            await self.queue.push(_payload(request), priority, **changed)
            await self.queue.release(task, priority=priority)
        except LeaseLostError:
            return None
        return _processed(request, present=True, handled=False)

    # Looking

    async def is_empty(self) -> bool:
        """Return True if no request may run now; one that may is taken, for the next fetch."""
        if self._fetched is None:
            self._fetched = await self._pop()
        return self._fetched is None

    async def is_finished(self) -> bool:
        """Return True if no request waits, is delayed, or is in progress, in any process."""
        return self._fetched is None and await self.queue.size() == 0

    async def get_request(self, unique_key: str) -> Request | None:
        """Read a request; None if it is handled, since DPQ keeps no finished task."""
        try:
            return Request.model_validate(
                (await self.queue.get(key=group_name(unique_key))).payload
            )
        except TaskNotFoundError:
            return None

    async def get_metadata(self) -> models.RequestQueueMetadata:
        """Count requests; the times are those of this client."""
        stats = await self.queue.stats()
        return models.RequestQueueMetadata(
            id=self.queue.queue_name,
            name=self._name,
            accessed_at=datetime.now(UTC),
            created_at=self._opened,
            modified_at=datetime.now(UTC),
            had_multiple_clients=True,
            handled_request_count=stats.acked,
            pending_request_count=stats.ready + stats.delayed + stats.invisible + stats.waiting,
            total_request_count=stats.pushed,
        )

    # Ending

    async def purge(self) -> None:
        """Remove all requests, the keys that were seen, the counts, and the limits."""
        self._fetched, self._held = None, {}
        await self.queue.drop()

    async def drop(self) -> None:
        """Do the same as `purge`."""
        await self.purge()

    async def aclose(self) -> None:
        """Give back what is in progress, uncounted, and close the queue."""
        held = [*self._held.values(), *filter(None, [self._fetched])]
        self._fetched, self._held = None, {}
        gone = await asyncio.gather(
            *(self.queue.release(task) for task in held), return_exceptions=True
        )
        await self.queue.close()
        for error in gone:
            if isinstance(error, BaseException) and not isinstance(error, LeaseLostError):
                raise error


def _payload(request: Request) -> Any:
    return from_json(request.model_dump_json())


def _options(request: Request) -> dict[str, Any]:
    """Return the options of each push: the host is the group, whose limits hold."""
    return {
        "key": group_name(request.unique_key),
        "unique_for": math.inf,
        "group": group_name(urlsplit(request.url).hostname),
        "max_attempts": math.inf,
        "max_lapses": MAX_LAPSES,
    }


def _processed(request: Request, *, present: bool, handled: bool) -> models.ProcessedRequest:
    return models.ProcessedRequest(
        unique_key=request.unique_key, was_already_present=present, was_already_handled=handled
    )
