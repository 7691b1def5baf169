"""Raises an exception at the n-th line that a call executes, as a signal handler does.

A handler runs between two instructions of the main thread, wherever that is: in DPQ, in redis-py,
or in what they call. So a test runs a call again and again, each time one line further, until the
call ends before it is interrupted.
"""

import gc
import linecache
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NUMBER = signal.SIGUSR1

WHERE = ("dpq", "redis", "contextlib")
"""Modules whose lines count: what they call is C, or is as good as a line of theirs."""

BUT = ("redis.observability", "redis.asyncio.observability")
"""Where redis-py itself swallows every Exception: its metrics."""

NEVER = ("__del__",)
"""Functions in which Python itself swallows what is raised."""


class TimeLimit(Exception):
    """The caller's own time limit, as those of RQ and Celery are."""


class Stop(BaseException):
    """The caller's own, of a kind that `except Exception` does not catch."""


class NetworkLimit(TimeoutError):
    """The caller's own, of a kind that sockets raise too."""


class Wrong(ValueError):
    """The caller's own, of a kind that a damaged reply raises too."""


class Interrupter:
    """Interrupts calls with one exception, by a signal handler.

    Attributes:
        where: The line at which it was raised last; "" when the call ended before.
    """

    def __init__(self, make: Callable[[], BaseException], where: tuple[str, ...] = WHERE) -> None:
        self._make = make
        self._modules = where
        self._left = 0
        self.raised: BaseException | None = None
        self.where = ""

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Be the handler."""
        self.raised = self._make()
        raise self.raised

    def run(self, line: int, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Run a call and interrupt it at its `line`-th line; its result, or what it raised."""
        self._left, self.raised, self.where = line, None, ""
        before = sys.gettrace()
        gc.disable()  # it closes generators of earlier calls, and swallows what is raised in them
        sys.settrace(self._enter)
        try:
            result, error = call(), None
        except BaseException as caught:
            result, error = None, caught
        finally:
            sys.settrace(before)
            gc.enable()
        return result, error

    def forget(self) -> None:
        """Drop what was raised, and with it the frames that its traceback keeps alive."""
        self.raised = None

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        module = str(frame.f_globals.get("__name__", ""))
        counts = module.partition(".")[0] in self._modules and not module.startswith(BUT)
        ended = any(each.f_code.co_name in NEVER for each in _up(frame))
        return self._line if counts and not ended else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and not self.raised and not _begins_only(frame):
            self._left -= 1
            if self._left < 0:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(NUMBER)
        return self._line


def _begins_only(frame: FrameType) -> bool:
    """No handler runs at a bare `try:`, which is no call, though a tracer sees it."""
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() == "try:"


def _up(frame: FrameType | None) -> Iterator[FrameType]:
    while frame:
        yield frame
        frame = frame.f_back


@contextmanager
def interrupter(
    make: Callable[[], BaseException], where: tuple[str, ...] = WHERE
) -> Iterator[Interrupter]:
    """Install the handler of an `Interrupter`."""
    made = Interrupter(make, where)
    before = signal.signal(NUMBER, made.handle)
    try:
        yield made
    finally:
        signal.signal(NUMBER, before)
