"""Renewal of leases while their tasks run: many leases in one call, at a third of their time.

`DPQ` and the workers hold their leases here. It must not end a delivery.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from random import random as chance
from typing import Any

from dpq.model.log_fields import fields
from dpq.model.task import Task
from dpq.queue.end_log import about

log = logging.getLogger(__name__)

Lost = Callable[[], object]
"""A function that is called once when a lease is lost."""

Extend = Callable[[Sequence[tuple[Task[Any], float]]], list[bool | None]]
"""A function that extends leases by their seconds. It returns
False for each that is lost, None if its task was cancelled."""

Key = tuple[str, int]

LINGER_SECONDS = 10.0
"""Seconds that the keeper's thread stays after the last lease: a new thread takes 60 us."""

_JITTER = 1 / 30
"""The largest random share of a lease by which an extension comes before the third."""


class Lease:
    """One lease that is held, and extended by `seconds` when it is `due` (monotonic seconds).

    It is not `alive` once it is let go or lost; `cancelled`, if its task was. `lost` is called
    then.
    """

    __slots__ = ("alive", "cancelled", "due", "lost", "seconds", "task")

    def __init__(self, task: Task[Any], seconds: float, now: float) -> None:
        self.task = task
        self.seconds = seconds
        self.alive = True
        self.cancelled = False
        self.lost: Lost | None = None
        self.renew(now)

    def renew(self, now: float) -> None:
        """Note that the lease was extended just now.

        Leases that many programs took at once are not extended at once for ever.
        """
        self.due = now + self.seconds * (1 / 3 - _JITTER * chance())  # noqa: S311 - no secret


class Leases:
    """The held leases, and the times of their extensions. Sends nothing itself.

    `wake_at` is the time of the keeper's next look, monotonic seconds; an earlier lease wakes it.
    """

    def __init__(self, queue_name: str = "") -> None:
        self.queue_name = queue_name
        self.wake_at = float("inf")
        self._held: dict[Key, Lease] = {}
        self._ending: dict[Key, Lease] = {}  # their work has ended, and no ack is answered
        self._on_the_way: dict[Key, Lease] = {}  # leases that a call extends now

    def hold(self, tasks: Sequence[Task[Any]], seconds: float) -> list[Lease]:
        """Keep leases alive from now on; a task's own visibility comes before `seconds`."""
        now, held, leases = time.monotonic(), self._held, []
        for task in tasks:
            own = task.visibility or seconds
            lease = held[task.id, task.token] = Lease(task, own, now)
            leases.append(lease)
            if lease.due < self.wake_at:
                self._wake()
        return leases

    def let_go(self, task: Task[Any]) -> bool:
        """Stop to extend a lease; False if it was not held, or is lost."""
        lease = self._held.pop((task.id, task.token), None)
        if lease is None:
            return False
        lease.alive = False
        return True

    def ending(self, task: Task[Any]) -> bool:
        """Extend a lease whose work has ended until `ended`; False if it is not held any more.

        Not for `set_visibility` and `rate_limited`: the token stays live, and an extension would
        undo them.
        """
        key = task.id, task.token
        lease = self._held.pop(key, None)
        if lease is None:
            return False
        lease.alive = False
        self._ending[key] = lease
        return True

    def ended(self, task: Task[Any]) -> None:
        """Stop to extend the lease of an ended delivery: the server has answered."""
        self._ending.pop((task.id, task.token), None)

    def _kept(self) -> list[tuple[Key, Lease]]:
        return list(self._held.items()) + list(self._ending.items())

    def _wake(self) -> None:
        """Wake the keeper, so that it plans again; start one if there is none."""
        raise NotImplementedError

    def _plan(self) -> float:
        """Set `wake_at` and return it: the first due time; if no lease is held, a later time."""
        self.wake_at = float("inf")  # a lease that begins from here on wakes the keeper
        dues = (lease.due for _, lease in self._kept())
        self.wake_at = min(dues, default=time.monotonic() + LINGER_SECONDS)
        return self.wake_at

    def _due(self) -> dict[Key, Lease]:
        """Return the leases to extend now: those that are due, and those that soon will be."""
        now = time.monotonic()
        return {key: lease for key, lease in self._kept() if lease.due - lease.seconds / 6 <= now}

    def cancel(self, tokens: Sequence[int]) -> None:
        """Take in that the tasks of these tokens were cancelled."""
        for key, lease in list(self._held.items()) if tokens else ():
            if key[1] in tokens:
                self._lose(key, lease, cancelled=True)

    def _extended(self, leases: dict[Key, Lease], kept: Sequence[bool | None]) -> None:
        now = time.monotonic()
        for (key, lease), alive in zip(leases.items(), kept, strict=True):
            if alive:
                lease.renew(now)
            else:
                self._lose(key, lease, cancelled=alive is None)

    def _lose(self, key: Key, lease: Lease, *, cancelled: bool) -> None:
        """Let a lease go that is lost, and tell its holder, once."""
        if self._held.pop(key, None):
            lease.alive, lease.cancelled = False, cancelled
            level, event = logging.WARNING, "lease_lost"
            text = "%s: lease of task %s lost: another consumer may have it"
            if cancelled:
                level, event = logging.INFO, "cancelled"
                text = "%s: task %s was cancelled while it runs"
            extra = about(event, None, self.queue_name, lease.task, reason="extend")
            log.log(level, text, self.queue_name, lease.task.id, extra=extra)
            if lease.lost:
                lease.lost()
        else:
            self._ending.pop(key, None)

    def _put_off(self, leases: dict[Key, Lease]) -> None:
        log.warning(
            "%s: cannot extend %d leases now, next try soon",
            *(self.queue_name, len(leases)),
            exc_info=True,
            extra=fields("not_extended", queue=self.queue_name, count=len(leases)),
        )
        now = time.monotonic()
        for lease in leases.values():
            lease.renew(now)


def wanted(leases: dict[Key, Lease]) -> list[tuple[Task[Any], float]]:
    """List the tasks to extend, each with its seconds."""
    return [(lease.task, lease.seconds) for lease in leases.values()]


class Keeper(Leases):
    """Extends held leases from a thread of its own, which ends soon after the last lease."""

    def __init__(self, extend: Extend, queue_name: str = "") -> None:
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
                with self._starting:  # a lease that begins later starts another thread
                    if self._closed or not self._kept():
                        self.wake_at, self._thread = float("inf"), None
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
