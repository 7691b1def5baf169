"""A scheduler that runs while a test looks at what it does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from support import PATIENCE_S

from dpq import Scheduler


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
