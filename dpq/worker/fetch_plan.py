"""The plan of a worker's fetcher: which queue it asks, and what follows from the answer. No I/O.

The fetcher sends what it says, and waits as long as it says:

    plan.pop(0, room=3, watches=[], beyond=0)
    plan.receive(0, the answer)
"""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from dpq.link.cluster import forbidden
from dpq.link.watches import Watch, time_left
from dpq.model.backoff import longer_pause
from dpq.model.log_fields import fields
from dpq.model.validation import MAX_BATCH, error_line
from dpq.queue.end_log import log_refused
from dpq.queue.inside import operations_of
from dpq.script.command import Steps
from dpq.script.replies import Batch
from dpq.worker.deliveries import Deliveries, Done, Taken
from dpq.worker.queue_order import AskOrder
from dpq.worker.run_state import LATEST_ACK_SECONDS, RunState

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.queue.base import QueueBase

log = logging.getLogger(__name__)

MOST_AHEAD_SECONDS = 0.05
"""Seconds between the grant of a task and its moment at most: its place in the order is fixed."""

LEAST_AHEAD_SECONDS = 0.01
"""Seconds ahead beside the round trips: a busy machine answers, or wakes a thread, that late."""

NEW_WAITER = "-"
"""Pop's `waiter` argument of a caller that has not watched the queue yet."""


@dataclass(kw_only=True, eq=False)
class FetchPlan:
    """Decides what a fetcher asks in one run."""

    name: str
    queues: Sequence["QueueBase[Any]"]
    order: AskOrder
    deliveries: Deliveries
    state: RunState
    visibility: float | None = None
    prefetch: int = 0
    concurrency: int = 1

    # Seconds before the moment of a task at which the server is asked for it. They last a bit
    # longer than the round trip, so that a limit that binds is reached.
    ahead: float = field(default=0.0, init=False)

    # Pops in a row that an end of a handler caused, and that gave no task.
    _in_vain: int = field(default=0, init=False)
    _handling: float = field(default=math.inf, init=False)  # seconds of a handler, on average
    _trip: float = field(default=MOST_AHEAD_SECONDS, init=False)  # those of a round trip
    _pause: float = field(default=0.0, init=False)  # those of the last wait after an error
    _sent: float = field(default=0.0, init=False)  # when the last exchange was sent
    # By queue: seconds from its server's clock to this one, with those of a quick reply.
    _behind: dict[int, float] = field(default_factory=dict, init=False)
    _allowed: set[int] = field(default_factory=set, init=False)  # queues that have allowed a pop

    def __post_init__(self) -> None:
        self.operations: list[Operations[Any]] = [operations_of(each) for each in self.queues]
        # If acks wait for a confirmation, they do not travel with a pop, whose leases would run out
        # meanwhile: the caller of the handler sends them, and waits.
        self.confirms = self.queues[0].settings.durability != "async"

    # Which queue

    @property
    def heard(self) -> list[int]:
        """The indexes of the queues that are asked: those that have not told it to be quiet."""
        return [index for index in range(len(self.queues)) if index not in self.state.quiet]

    def asked(self) -> Sequence[int]:
        """Return the indexes of the queues to ask, in their order."""
        every, quiet = self.order.queue_indexes(), self.state.quiet
        return [index for index in every if index not in quiet] if quiet else every

    def pop(
        self, queue_index: int, room: int, watches: Sequence[Watch], beyond: int
    ) -> Steps[Batch[Any]]:
        """Make a pop for so many tasks, but no more than one call may take.

        It may take `beyond` more, if they begin a bit later.
        """
        most, ahead_ms = min(room, MAX_BATCH), math.ceil(self.ahead * 1000)
        waiter = watches[0].mine if watches else NEW_WAITER
        pop = self.operations[queue_index].pop
        if not ahead_ms:
            return pop(most, self.visibility, waiter)
        beyond = min(beyond, MAX_BATCH - most)
        return pop(most, self.visibility, waiter, ahead_ms=ahead_ms, beyond=beyond)

    @property
    def beyond(self) -> int:
        """The number of handlers that will end within `ahead`, as far as is known."""
        return int(self.concurrency * self.ahead / max(self._handling, self.ahead / 8))

    def handled(self, seconds: float) -> None:
        """Take in how long a handler ran."""
        before = seconds if self._handling == math.inf else self._handling
        self._handling = before + (seconds - before) / 8

    def _time_of(self, queue_index: int, server_seconds: float) -> float:
        """Return when the server's clock showed this, or a bit later; the exchange has just ended.

        It is later by the shortest way back of late. So a slow reply does not delay its tasks.
        """
        now = time.monotonic()
        behind = now - server_seconds
        known = self._behind.get(queue_index, behind)
        known = self._behind[queue_index] = min(behind, known + (behind - known) / 64)
        return max(self._sent, server_seconds + known)

    def timed(self, sent: float) -> None:
        """Take in that an exchange has ended, and when it was sent."""
        self._sent = sent
        seconds = time.monotonic() - sent
        self._trip += (min(seconds, MOST_AHEAD_SECONDS) - self._trip) / 8
        self.ahead = min(MOST_AHEAD_SECONDS, 2 * self._trip + LEAST_AHEAD_SECONDS)

    def receive(self, queue_index: int, batch: Any) -> list[Taken]:
        """Keep the leases of a pop alive; let the queue pay. Raise the answer if it is an error."""
        if isinstance(batch, Exception):
            raise batch
        self._pause, self.state.pulse.trouble = 0.0, ""
        self._allowed.add(queue_index)
        self.order.charge(queue_index, len(batch.tasks))
        if batch.failed or batch.buried:
            log_refused(self.queues[queue_index].queue_name, batch)
        granted = self._time_of(queue_index, batch.now_ms / 1000) if batch.now_ms else 0.0
        granted = granted or time.monotonic()
        return self.deliveries.hold(queue_index, batch.tasks, batch.waits_ms, granted)

    def markers(self) -> list[str]:
        """List the markers to block on: none of a quiet queue, which others are to take."""
        return [self.operations[index].marker for index in self.heard]

    # When to ask again

    def asks_after_end(self, watches: Sequence[Watch]) -> bool:
        """Return True if the server is to be asked when a handler has ended, and not only told."""
        return self._in_vain < 2 or not watches

    def ends_are_late(self, watches: Sequence[Watch], ends: Sequence[Done]) -> bool:
        """Return True if ends of deliveries should not wait for the next pop."""
        left = time_left(watches, math.inf) if watches else math.inf
        return bool(ends) and (left > LATEST_ACK_SECONDS or any(each.hits_limit for each in ends))

    def learn(self, asked_by_end: bool, watches: Sequence[Watch], taken: Sequence[Taken]) -> None:
        """Learn whether there are tasks when handlers end; `watches` are those before the pop."""
        if asked_by_end or (taken and any(watch.called for watch in watches)):
            self._in_vain = 0 if taken else self._in_vain + 1

    # How long to wait, and when it is over

    def pause_after(self, error: RedisError, queue_index: int) -> float:
        """Log an error of a pop; return the seconds to wait before the next attempt.

        Raises:
            RedisError: The user may not do this, and either this queue has never allowed a pop, or
                the run is to end when the queues are empty, which it could not see.
        """
        self._pause = longer_pause(self._pause)
        self.state.pulse.trouble = f"the last pop has failed: {type(error).__name__}"
        if forbidden(error) and (self.state.until_empty or queue_index not in self._allowed):
            raise error
        log.warning(
            "%s: again in %.1f s: %s",
            *(self.name, self._pause, error),
            extra=fields(
                "server_error", worker=self.name, seconds=self._pause, error=error_line(error)
            ),
        )
        return self._pause


def none_live(stats: Sequence[Any]) -> bool:
    """Return True if the stats of all queues show no live task; an error counts as live tasks.

    Raise the error if the user may not read the stats: the worker would wait for ever.
    """
    for count in stats:
        if forbidden(count):
            raise count
    return not any(
        isinstance(count, Exception)
        or count.ready + count.delayed + count.invisible + count.waiting
        for count in stats
    )
