"""Work that goes on in a thread while a test looks at it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support import PATIENCE_S


@contextmanager
def in_a_thread(
    work: Callable[[], object], stop: Callable[[], object] = lambda: None
) -> Iterator[threading.Thread]:
    """Run it meanwhile; it must have ended soon after it was stopped."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
