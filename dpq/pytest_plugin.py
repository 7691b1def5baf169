"""The pytest plugin: `dpq.testing` as fixtures, on a private server. Source: docs/testing.md.

pytest loads it by itself where DPQ is installed. A server is started when a test asks for one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpq import testing
from dpq.connect import open_url
from dpq.policy import Backoff
from dpq.queue import DPQ
from dpq.queue_async import AsyncDPQ
from dpq.server import Server
from dpq.testing import Clock, QueueFactory


@pytest.fixture(scope="session")
def dpq_server() -> Iterator[Server]:
    """A private, throw-away server for the session: `.url`; one for each xdist worker."""
    with Server.start() as server:
        yield server


@pytest.fixture
def dpq_clock() -> Clock:
    """The time of the test's queues; it stands still: `.advance(seconds)`, `.ms`, `dpq_clock()`."""
    return Clock()


@pytest.fixture
def dpq_factory(dpq_server: Server, dpq_clock: Clock) -> Iterator[QueueFactory]:
    """Makes queues: `dpq_factory(name=None, **settings)`; `clock=None` for real time."""
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
    return AsyncDPQ.from_url(
        dpq_server.url, dpq_queue.queue_name, clock=dpq_clock, backoff=Backoff(jitter=0)
    )


@pytest.fixture
def assert_conserved() -> Callable[..., None]:
    """`dpq.testing.assert_conserved(queue, pushed_ids, done_ids)`: nothing lost or doubled."""
    return testing.assert_conserved


@pytest.fixture
def let_leases_expire() -> Callable[..., int]:
    """`dpq.testing.let_leases_expire(queue)`: what is held comes back."""
    return testing.let_leases_expire


@pytest.fixture
def crash_consumer() -> Callable[..., Any]:
    """`dpq.testing.crash_consumer(queue, work, at=...)`: a consumer that is killed with a task."""
    return testing.crash_consumer
