"""The pause of asyncio code, and what ends it for good. pauses.py is the counterpart."""

import asyncio

THROWN_AWAY: tuple[type[BaseException], ...] = (GeneratorExit,)
"""The errors after which nothing can be awaited any more: a coroutine that is thrown away, often
with its event loop, gets this one."""

pause = asyncio.sleep
"""Sleeps for so many seconds."""
