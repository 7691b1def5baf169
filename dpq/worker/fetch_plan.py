"""The plan of a worker's fetcher: which queue it asks, and what follows from the answer. No I/O."""

import logging
import math
import time
from collections.abc import Sequence
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


class AskOrder:
    """The order in which a worker asks its queues.

    Each queue pays for its tasks: 1 / weight for each task that it gave, and once if it gave none.
    The queue that has paid least is asked first. So the turns that an empty queue leaves go to
    the others, by their weights.
    """

    def __init__(self, weights: Sequence[int], *, strict: bool) -> None:
        self._weights = weights
        self._strict = strict or len(weights) == 1
        # Every queue starts with half a task, so heavy queues come in between.
        self._paid = [0.5 / weight for weight in weights]
        self._all = range(len(weights))

    def queue_indexes(self) -> Sequence[int]:
        return self._all if self._strict else sorted(self._all, key=self._paid.__getitem__)

    def charge(self, queue_index: int, tasks: int) -> None:
        """Let a queue pay for an answer that had that many tasks."""
        if not self._strict:
            self._paid[queue_index] += max(1, tasks) / self._weights[queue_index]


class FetchPlan:
    """Decides what a fetcher asks in one run."""

    def __init__(self, state: RunState, order: AskOrder, deliveries: Deliveries) -> None:
        self.state, self.order, self.deliveries = state, order, deliveries
        self.queues: Sequence[QueueBase[Any]] = state.queues
        self.operations: list[Operations[Any]] = [operations_of(each) for each in self.queues]
        # If acks wait for a confirmation, they do not travel with a pop, whose leases would run out
        # meanwhile: the caller of the handler sends them, and waits.
        self.confirms = self.queues[0].settings.durability != "async"
        # Seconds before the moment of a task at which the server is asked for it. They last a bit
        # longer than the round trip, so that a limit that binds is reached.
        self.ahead = 0.0
        self._in_vain = 0  # pops in a row that an end of a handler caused, and that gave no task
        self._handling = math.inf  # seconds of a handler, on average
        self._trip = MOST_AHEAD_SECONDS  # those of a round trip
        self._pause = 0.0  # those of the last wait after an error
        self._sent = 0.0  # when the last exchange was sent
        # By queue: seconds from its server's clock to this one, with those of a quick reply.
        self._behind: dict[int, float] = {}
        self._allowed: set[int] = set()  # queues that have allowed a pop

    # Which queue

    @property
    def heard(self) -> list[int]:
        """The indexes of the queues that are asked: those that have not told it to be quiet."""
        return [index for index in range(len(self.queues)) if index not in self.state.quiet]

    def asked(self) -> Sequence[int]:
        every, quiet = self.order.queue_indexes(), self.state.quiet
        return [index for index in every if index not in quiet] if quiet else every

    def pop(
        self, queue_index: int, room: int, watches: Sequence[Watch], beyond: int
    ) -> Steps[Batch[Any]]:
        """Make a pop for `room` tasks at most, and `beyond` more if they begin a bit later."""
        most, ahead_ms = min(room, MAX_BATCH), math.ceil(self.ahead * 1000)
        waiter = watches[0].mine if watches else NEW_WAITER
        ask, beyond = self.operations[queue_index].pop, min(beyond, MAX_BATCH - most)
        return ask(most, self.state.visibility, waiter, ahead_ms=ahead_ms, beyond=beyond)

    @property
    def beyond(self) -> int:
        """The number of handlers that will end within `ahead`, as far as is known."""
        return int(self.state.concurrency * self.ahead / max(self._handling, self.ahead / 8))

    def handled(self, seconds: float) -> None:
        before = seconds if self._handling == math.inf else self._handling
        self._handling = before + (seconds - before) / 8

    def _time_of(self, queue_index: int, server_seconds: float) -> float:
        """Return when the server's clock showed this, later by the shortest way back of late."""
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
        now_ms = batch.now_ms
        granted = self._time_of(queue_index, now_ms / 1000) if now_ms else time.monotonic()
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

    def pause_after(self, error: RedisError, queue_index: int) -> float:
        """Log an error of a pop; return the seconds to wait before the next attempt.

        Raise the error if the user may not pop, and either this queue has never allowed it, or the
        run is to end when the queues are empty, which it could not see.
        """
        self._pause = longer_pause(self._pause)
        self.state.pulse.trouble = f"the last pop has failed: {type(error).__name__}"
        if forbidden(error) and (self.state.until_empty or queue_index not in self._allowed):
            raise error
        name, pause, line = self.state.name, self._pause, error_line(error)
        about = fields("server_error", worker=name, seconds=pause, error=line)
        log.warning("%s: again in %.1f s: %s", name, pause, error, extra=about)
        return pause
