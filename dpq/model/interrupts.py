"""Tells what has interrupted a call from what the call itself has met. No I/O.

A signal handler of the program (a time limit by SIGALRM, Ctrl-C) raises between any two lines of
the main thread: in DPQ, and in redis-py, which takes an OSError for one of the network. Who catches
errors of replies, payloads and connections asks here first.

Known are the handlers that are installed when the error is looked at. What a handler raises after
it has taken itself away (`signal.signal(SIGALRM, SIG_DFL)`) passes for a fault of the call, if it
is one of `FAULTS`: the handlers of before cannot be known without a look at each call.
"""

import signal
from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any

FAULTS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What damaged data, and a fault of DPQ or a library, may raise; `DPQError`s of two kinds too."""

_CONVERTS = "redis"
"""The package that turns what it catches into errors of its own."""


def expected(error: Exception) -> bool:
    """Tell an error of an operation, or of its client, from what has interrupted it."""
    package = type(error).__module__.partition(".")[0]
    known = isinstance(error, FAULTS) or package in ("dpq", "redis")
    return known and not by_handler(error)


def by_handler(error: BaseException) -> bool:
    """Look whether a signal handler that is installed now has raised an error."""
    if error.__traceback__ is None:
        return False
    handlers = _handlers()
    return any(each.tb_frame.f_code in handlers for each in _entries(error.__traceback__))


def interruption(error: BaseException) -> BaseException | None:
    """Find what a signal handler has raised and redis-py has turned into an error of its own.

    Returns:
        None when there is no such thing: of what an error came about in, only that counts which
        redis-py has caught, since a program may call DPQ while it deals with an error.
    """
    if by_handler(error):
        return error
    seen = error.__context__
    while seen is not None:
        caught_in = seen.__traceback__ and seen.__traceback__.tb_frame.f_globals.get("__name__")
        if str(caught_in).partition(".")[0] == _CONVERTS and by_handler(seen):
            return seen
        seen = seen.__context__
    return None


def raise_interruption(error: BaseException) -> None:
    """Raise what has interrupted a call, if `error` is that, or redis-py's word for it."""
    if found := interruption(error):
        raise found


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _handlers() -> set[CodeType]:
    """The code of all signal handlers that are written in Python."""
    return {code for number in signal.valid_signals() if (code := _code(signal.getsignal(number)))}


def _code(handler: Any) -> CodeType | None:
    for _ in range(9):  # a partial of a partial ...
        handler = getattr(handler, "func", handler)
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = getattr(type(handler), "__call__")  # noqa: B004, B009 - of an object
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
