"""The life of a blocking queue object: its start, waits and leases. `DPQ` derives from it.

life_async.py has the same names for asyncio, but they do something else: a call may be cancelled
there, and a forked child must start again. So the code that uses these names is one text for both.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from dpq.model.task import P
from dpq.queue.base import QueueBase
from dpq.queue.lease_renewal import Leases, wanted

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.link.connect import Opened
    from dpq.link.session import QueueSession
    from dpq.model.task import Task

T = TypeVar("T")
A = ParamSpec("A")

Sleep = Callable[[Any, Sequence[Any], float], bool]
"""A function that sleeps as `waiter.sleep` does."""


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

    def _shielded(self, look: Callable[[Sleep], T]) -> T:
        """Call `look`, which nothing cancels."""
        return look(self._sleep)

    def _finish(self, call: Callable[A, T], *args: A.args, **named: A.kwargs) -> T:
        """Make a call, which nothing cancels."""
        return call(*args, **named)

    def _finish_all(self) -> None:
        """Do nothing: a blocking queue has no calls in the background."""

    def __len__(self) -> int:
        return cast("int", cast("Any", self).size())


class Keeper(Leases):
    """Extends held leases from a thread of its own, which ends soon after the last lease."""

    def __init__(
        self,
        extend: Callable[[Sequence[tuple[Task[Any], float]]], list[bool | None]],
        queue_name: str = "",
    ) -> None:
        """Extend with `extend`: it returns False for each lease that is lost, None if cancelled."""
        super().__init__(queue_name)
        self._extend = extend
        self._news = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._beat = threading.Lock()
        self._closed = False

    def let_go(self, task: Task[Any]) -> bool:
        """Stop to extend a lease; no extension is under way when this returns."""
        held = super().let_go(task)
        if (task.id, task.token) in self._on_the_way:
            with self._beat:
                pass
        return held

    end = let_go

    def close(self) -> None:
        """Stop all extensions, until another lease is held; held leases may still be let go."""
        self._closed = True
        self._news.set()

    def _wake(self) -> None:
        with self._starting:
            self._closed = False
            if self._thread is None or not self._thread.is_alive():  # a forked child has no thread
                self._thread = threading.Thread(target=self._run, name="dpq-leases", daemon=True)
                self._thread.start()
        self._news.set()

    def _run(self) -> None:
        notified = True
        while True:
            self._news.clear()
            wait = self._plan() - time.monotonic()
            if self._closed or not (notified or self._kept()):
                with self._starting:
                    self.wake_at = float("inf")  # a lease that begins later starts another thread
                    if self._closed or not self._kept():
                        self._thread = None
                        return
            notified = self._news.wait(max(0.0, wait))
            with self._beat:
                self._on_the_way = leases = self._due()
                try:
                    if leases:
                        self._extended(leases, self._extend(wanted(leases)))
                except Exception:  # on any error the thread goes on, or no lease would be extended
                    self._put_off(leases)
                finally:
                    self._on_the_way = {}
