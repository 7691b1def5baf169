"""The life of a blocking queue object: its start, and how it waits. `DPQ` derives from it.

life_async.py has the same names for asyncio, but they do something else: a call may be cancelled
there, and a forked child must start again. So the code that uses these names is one text for both.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from dpq.model.task import P
from dpq.queue.base import QueueBase

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.link.connect import Opened
    from dpq.link.session import QueueSession
    from dpq.queue.lease_renewal import Keeper

T = TypeVar("T")
A = ParamSpec("A")

Sleep = Callable[[Any, Sequence[Any], float], bool]
"""A function that sleeps as `waiter.sleep` does."""

THROWN_AWAY: tuple[type[BaseException], ...] = ()
"""The errors after which nothing can be sent any more: none."""

pause = time.sleep
"""Sleeps for that many seconds."""


class QueueLife(QueueBase[P]):
    """The start of a blocking queue object, and its waits."""

    _opened: Opened | None = None
    _session: QueueSession[Operations[P]]
    _leases: Keeper
    _sleep: Sleep

    def _started(self, session: QueueSession[Operations[P]]) -> None:
        self._session = session
        if self._described.named:
            session.open()

    def _shielded(self, look: Callable[[Sleep], T], _give_back: object) -> T:
        """Call `look`, which nothing cancels."""
        return look(self._sleep)

    def _finish(self, call: Callable[A, T], *args: A.args, **named: A.kwargs) -> T:
        """Make a call, which nothing cancels."""
        return call(*args, **named)

    def _finish_all(self) -> None:
        """Do nothing: a blocking queue has no calls in the background."""

    def __len__(self) -> int:
        return cast("int", cast("Any", self).size())
