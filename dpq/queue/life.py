"""The life of a blocking queue object: its start, and how it waits. `DPQ` derives from it.

life_async.py has the same names for asyncio, but they do something else: a call may be cancelled
there, and a forked child must start again. So the code that uses these names is one text for both.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from dpq.model.task import P
from dpq.queue.base import QueueBase

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.link.connect import Opened
    from dpq.link.session import QueueSession
    from dpq.model.task import Task
    from dpq.queue.lease_renewal import Keeper
    from dpq.script.replies import Kept

T = TypeVar("T")
A = ParamSpec("A")

Sleep = Callable[[Any, Sequence[Any], float], bool]
"""A function that sleeps as `waiter.sleep` does."""


class QueueLife(QueueBase[P]):
    """The start of a blocking queue object, and its waits."""

    _opened: Opened | None = None
    _session: QueueSession[Operations[P]]
    _leases: Keeper
    _look_or_wait: Callable[..., list[Task[P]]]
    _extend_many: Callable[[Sequence[tuple[Task[Any], float]]], list[Kept]]

    def _start(self) -> None:
        from dpq.link.connections import Connections
        from dpq.link.listener import Listener
        from dpq.link.session import QueueSession
        from dpq.link.waiter import Waiters, sleep
        from dpq.queue.lease_renewal import Keeper

        connections = Connections(self._redis, self._durability)
        self._session = QueueSession(connections, self._operations)
        self._leases = Keeper(self._extend_many, self.queue_name)
        self._waiters = Waiters(connections)
        self._sleep = sleep
        self._listener = Listener(connections.nodes, self._operations.marker)
        self._ends = Listener(connections.nodes, self._operations.marker, f"{{{self.queue_name}}}")
        if self._described.named:
            self._session.open()

    def _take(
        self,
        most: int,
        timeout: float | None,
        visibility: float | None,
        wanted: tuple[str, str] | tuple[()] = (),
    ) -> list[Task[P]]:
        """Take tasks, and wait for them."""
        return self._look_or_wait(most, timeout, visibility, self._sleep, wanted)

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
