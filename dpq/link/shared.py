"""The counterpart of shared_async.py in blocking code, where each thread makes its own call."""

from collections.abc import Callable, Iterable
from os import getpid as here
from time import sleep as pause
from typing import Generic, TypeVar

__all__ = ["THROWN_AWAY", "Shared", "here", "pause", "together"]

T = TypeVar("T")

THROWN_AWAY: tuple[type[BaseException], ...] = ()
"""The errors after which nothing can be sent any more: none."""


def together(calls: Iterable[T]) -> list[T]:
    """Make calls one after the other."""
    return list(calls)


class Shared(Generic[T]):
    """A function that each caller calls."""

    def __init__(self, start: Callable[[], T]) -> None:
        self.get = start
