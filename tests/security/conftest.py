"""The two faces of a queue, one call for both."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import pytest
from kit.awaited import Awaited, AwaitedWorker, loop_in_a_thread

from dpq import DPQ, Worker


class Face(NamedTuple):
    """A class of queues, and the workers for them."""

    queue: Any
    worker: Any


class OpenedAwaited(Awaited):
    """One for `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture(params=["threads", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    """`DPQ` with `Worker`; `AsyncDPQ` with `AsyncWorker`, whose calls are awaited for the test."""
    if request.param == "threads":
        yield Face(DPQ, Worker)
    else:
        with loop_in_a_thread():
            yield Face(OpenedAwaited, AwaitedWorker)
