"""Interrupts: separates the errors of signal handlers from the errors of a call itself. No I/O.

A signal handler of the program (a time limit by SIGALRM, Ctrl-C) may raise between any two lines of
the main thread. If it raises an OSError within redis-py, redis-py takes it for a network error. So
code that catches errors of replies, payloads or connections calls this module first.

It knows the handlers that are installed when it looks at the error. If a handler first removes
itself (`signal.signal(SIGALRM, SIG_DFL)`) and then raises one of `FAULTS`, that counts as an error
of the call. To know older handlers would need a look before each call.
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
"""The errors of damaged data, and of faults in DPQ or a library; some are `DPQError`s, too."""

_CONVERTS = "redis"
"""The package that converts the errors it catches into its own."""


def expected(error: Exception) -> bool:
    """Return True for an error of an operation or its client, False for an interrupt."""
    package = type(error).__module__.partition(".")[0]
    known = isinstance(error, FAULTS) or package in ("dpq", "redis")
    return known and not by_handler(error)


def by_handler(error: BaseException) -> bool:
    """Return True if a signal handler that is installed now has raised an error."""
    if error.__traceback__ is None:
        return False
    handlers = _handlers()
    return any(each.tb_frame.f_code in handlers for each in _entries(error.__traceback__))


def interruption(error: BaseException) -> BaseException | None:
    """Find the error of a signal handler, also if redis-py has converted it into its own.

    Returns:
        None if there is none. Of the errors in an error's context, only those count that redis-py
        has caught, since a program may call DPQ while it handles another error.
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
    """Raise the error of a signal handler, if `error` is one, or if redis-py has converted one."""
    if found := interruption(error):
        raise found


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _handlers() -> set[CodeType]:
    """Return the code of all signal handlers that are written in Python."""
    return {code for number in signal.valid_signals() if (code := _code(signal.getsignal(number)))}


def _code(handler: Any) -> CodeType | None:
    for _ in range(9):  # a partial of a partial ...
        handler = getattr(handler, "func", handler)
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = getattr(type(handler), "__call__")  # noqa: B004, B009 - of an object
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
