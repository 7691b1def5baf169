"""The exchanges of a `Fetcher` with the server, and the roles of its threads. No decisions.

Only fetcher.py uses it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpq.worker.deliveries import Taken
from dpq.worker.fetch_plan import FetchPlan
from dpq.worker.outcomes import Done, Ending
from dpq.worker.run_state import LATEST_ACK_SECONDS


class Role:
    """A role that one thread has at a time. While the thread has it, the lock is released.

        with asker:  # the caller holds the lock before and after
            call the server

    Attributes:
        taken: A thread has the role.
    """

    __slots__ = ("_acquire", "_release", "taken")

    def __init__(self, lock: Any) -> None:
        self._acquire, self._release = lock.acquire, lock.release
        self.taken = False

    def __enter__(self) -> None:
        self.taken = True
        self._release()

    def __exit__(self, *_: object) -> None:
        self._acquire()
        self.taken = False


@dataclass(slots=True, eq=False)
class Exchange:
    """One exchange with the server: ends of deliveries go out, tasks come in.

    Attributes:
        done: The deliveries whose end the server has not answered.
        taken: The tasks that have come.
    """

    done: list[Done]
    taken: list[Taken] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class SentAhead(Exchange):
    """An exchange that was sent, and whose reply is not read yet.

    Attributes:
        queue_index: The index of the queue that was asked.
        endings: The operations that end deliveries.
        receive: Waits for the results.
        since: The time when it was sent, monotonic seconds.
    """

    queue_index: int
    endings: list[Ending]
    receive: Callable[[], list[Any]]
    since: float = field(default_factory=time.monotonic, init=False)


class Ahead:
    """The exchange that a fetcher with prefetch sends before its threads need the tasks.

    Attributes:
        size: The number of tasks to ask for: half of `prefetch`.
        sent: The exchange whose reply is not read yet, or None.
        plenty: The last reply had all the tasks that were asked for.
    """

    def __init__(self, plan: FetchPlan, session: Any) -> None:
        self.size = plan.prefetch // 2
        self.sent: SentAhead | None = None
        self.plenty = False
        self._plan = plan
        self._session = session

    def send(self, done: list[Done]) -> None:
        """Send ends of deliveries and a pop to the queue whose turn it is."""
        queue_index = self._plan.order()[0]
        endings = self._plan.deliveries.endings(done)
        pop = self._plan.pop(queue_index, self.size)
        receive = self._session.begin_all([*(each.operation for each in endings), pop])
        self.sent = SentAhead(done, queue_index, endings, receive)

    @property
    def late(self) -> bool:
        """True if acks have waited long enough for the reply to be read."""
        return self.sent is not None and self.sent.since < time.monotonic() - LATEST_ACK_SECONDS
