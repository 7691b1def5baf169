"""The pytest plugin: `dpq.testing` as fixtures, on a private server. Source: docs/testing.md.

pytest loads this module in every project of an environment in which DPQ is installed. So it must
not import anything of DPQ, Redis or pydantic until a test uses a fixture; and the name of each
fixture begins with `dpq_`. A server is started when a test asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dpq.queue.queue import DPQ
    from dpq.queue.queue_async import AsyncDPQ
    from dpq.server import Server
    from dpq.testing import Clock, QueueFactory


@pytest.fixture(scope="session")
def dpq_server() -> Iterator[Server]:
    """A private, throw-away server for the session: `.url`; one for each xdist worker."""
    from dpq.server import Server

    with Server.start() as server:
        yield server


@pytest.fixture
def dpq_clock() -> Clock:
    """The time of the test's queues; it stands still: `.advance(seconds)`, `.ms`, `dpq_clock()`."""
    from dpq.testing import Clock

    return Clock()


@pytest.fixture
def dpq_factory(dpq_server: Server, dpq_clock: Clock) -> Iterator[QueueFactory]:
    """Makes queues: `dpq_factory(name=None, **settings)`; `clock=None` for real time."""
    from dpq.link.connect import open_url
    from dpq.testing import QueueFactory

    opened = open_url(dpq_server.url)
    try:
        with QueueFactory(opened.client, dpq_clock) as make:
            yield make
    finally:
        opened.close()


@pytest.fixture
def dpq_queue(dpq_factory: QueueFactory) -> DPQ[Any]:
    """A `DPQ` of the test's own, on `dpq_clock`, whose backoff has no jitter."""
    return dpq_factory()


@pytest.fixture
def dpq_async_queue(dpq_server: Server, dpq_clock: Clock, dpq_queue: DPQ[Any]) -> AsyncDPQ[Any]:
    """The queue of `dpq_queue` for asyncio: `async with dpq_async_queue as q`, in any loop."""
    from dpq.model.backoff import Backoff
    from dpq.queue.queue_async import AsyncDPQ

    return AsyncDPQ.from_url(
        dpq_server.url, dpq_queue.queue_name, clock=dpq_clock, backoff=Backoff(jitter=0)
    )
