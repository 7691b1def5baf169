"""A scheduler that runs while a test looks at what it does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support import PATIENCE_S

from dpq import DPQ, Scheduler
from dpq.script.keys import key_of


@contextmanager
def running(scheduler: Scheduler) -> Iterator[None]:
    """Run it in a thread, which must have ended soon after it was stopped."""
    thread = threading.Thread(target=scheduler.run)
    thread.start()
    try:
        yield
    finally:
        scheduler.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def in_ready(queue: DPQ[Any]) -> int:
    """The tasks that stand in the set `ready`: `stats()` counts due ones before they are moved."""
    return int(queue.redis.zcard(key_of(queue.queue_name, "ready")))
