"""Renewal of leases while their tasks run: many leases in one call, at a third of their time.

`DPQ` and the workers hold their leases here; the keepers of the modules `life` extend them.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import logging
import time
from collections.abc import Callable, Sequence
from random import random as chance
from typing import TYPE_CHECKING, Any

from dpq.model.log_fields import fields
from dpq.queue.end_log import about

if TYPE_CHECKING:
    from dpq.model.task import Task

log = logging.getLogger(__name__)

Lost = Callable[[], object]
"""A function that is called once when a lease is lost."""

Key = tuple[str, int]

LINGER_SECONDS = 10.0
"""Seconds that the keeper's thread stays after the last lease: a new thread takes 60 us."""

_JITTER = 1 / 30
"""The largest random share of a lease by which an extension comes before the third."""


class Lease:
    """One lease that is held, and extended by `seconds` when it is `due` (monotonic seconds).

    It is not `alive` once it is let go or lost (`cancelled`: its task was), when `lost` is called.
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
        """Note that the lease was extended; leases that were taken at once drift apart."""
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
