"""The signals that end a worker or a daemon."""

import asyncio
import signal
from contextlib import suppress


def endings() -> list[signal.Signals]:
    """List the signals that end a process; SIGHUP is none under `nohup`, which has it ignored."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    with suppress(AttributeError):  # Windows has none
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
    return numbers


def is_free(handler: object) -> bool:
    """Return True if a signal has its first handler, or the one that `asyncio.run` sets."""
    if handler in (signal.SIG_DFL, signal.default_int_handler):
        return True
    owner = getattr(getattr(handler, "func", None), "__self__", None)  # a partial of a method
    return isinstance(owner, asyncio.Runner)
