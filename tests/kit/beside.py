"""Servers of asyncio beside a test that blocks."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from support import PATIENCE_S


@contextmanager
def beside(start: Callable[[], Awaitable[Sequence[asyncio.Server]]]) -> Iterator[None]:
    """Serves in a thread with an event loop of its own."""
    loop, ready, end = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def run() -> None:
        servers = await start()
        ready.set()
        await end.wait()
        for server in servers:
            server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}  # connections that clients keep
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)  # so that their sockets are closed

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
        loop.close()
