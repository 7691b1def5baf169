"""The plan of a worker's fetcher: which queue it asks, and what follows from the answer. No I/O.

`Fetcher` and `AsyncFetcher` send what it says, and wait as long as it says:

    round_ = PopRound(plan, room=3, watches=[])
    for pop in round_:
        round_.receive(the answer to pop)
    round_.taken, round_.watches
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from dpq.link.cluster import forbidden
from dpq.link.watches import (
    Marker,
    Watch,
    owned_of_queues,
    time_left,
    watches_after,
)
from dpq.model.backoff import longer_pause
from dpq.model.log_fields import fields
from dpq.model.validation import MAX_BATCH, error_line
from dpq.queue.inside import operations_of
from dpq.queue.refusals import log_refused
from dpq.script.command import Steps
from dpq.script.replies import Batch
from dpq.worker.deliveries import Deliveries, Taken
from dpq.worker.outcomes import Done, hits_limit
from dpq.worker.queue_order import AskOrder
from dpq.worker.run_state import LATEST_ACK_SECONDS, RunState

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.queue.base import QueueBase

log = logging.getLogger(__name__)

COMPLAINT_SECONDS = 60.0
"""Seconds between log lines while the server keeps refusing permission."""

MOST_AHEAD_SECONDS = 0.05
"""Seconds between the grant of a task and its moment at most: its place in the order is fixed."""

LEAST_AHEAD_SECONDS = 0.01
"""Seconds ahead beside the round trips: a busy machine answers, or wakes a thread, that late."""

NEW_WAITER = "-"
"""Pop's `waiter` argument of a caller that has not watched the queue yet."""


class FetchPlan:
    """Decides what a fetcher asks in one run.

    Attributes:
        quiet: The indexes of the queues that are not asked: `turn` follows `RunState.quiet`.
        confirms: Acks wait for a confirmation. So they do not travel with a pop, whose leases would
            run out meanwhile: whoever called the ended handler sends them and waits.
        pause: Seconds of the last wait after an error; 0 once the server has answered.
        ahead: Seconds before the moment of a task at which the server is asked for it. They last a
            bit longer than the round trip, so that a limit that binds is reached.
    """

    def __init__(
        self,
        name: str,
        queues: Sequence["QueueBase[Any]"],
        order: AskOrder,
        deliveries: Deliveries,
        state: RunState,
        *,
        visibility: float | None = None,
        prefetch: int = 0,
        concurrency: int = 1,
    ) -> None:
        self.queues = queues
        self.deliveries = deliveries
        self.state = state
        self.prefetch = prefetch
        self.confirms = queues[0].settings.durability != "async"
        self.pause = 0.0
        self.operations: list[Operations[Any]] = [operations_of(each) for each in queues]
        self.ahead = 0.0
        self.concurrency = concurrency
        self._in_vain = 0  # pops in a row that an end of a handler caused, and that gave no task
        self._handling = math.inf  # seconds of a handler, on average
        self._sent = 0.0  # when the last exchange was sent
        # By queue: seconds from its server's clock to this one, with those of a quick reply.
        self._behind: dict[int, float] = {}
        self._trip = MOST_AHEAD_SECONDS  # a round trip to the server
        self._name = name
        self.quiet: frozenset[int] = frozenset()
        self._order = order.queue_indexes
        self._charge = order.charge
        self._visibility = visibility
        self._allowed: set[int] = set()  # indexes of the queues that have allowed a pop
        self._complained = -math.inf  # the time of the last log line about a refused permission

    # Which queue

    @property
    def is_turning(self) -> bool:
        """True if a queue has told the worker to be quiet, or to go on, since the last `turn`."""
        return self.quiet is not self.state.quiet and self.quiet != self.state.quiet

    def turn(self) -> bool:
        """Ask other queues from now on; return True if there is one to ask."""
        self.quiet = self.state.quiet
        return not self.all_quiet

    @property
    def all_quiet(self) -> bool:
        """True if no queue is to be asked."""
        return len(self.quiet) == len(self.queues)

    def order(self) -> Sequence[int]:
        """Return the indexes of the queues to ask, in their order."""
        every = self._order()
        return [index for index in every if index not in self.quiet] if self.quiet else every

    def pop(self, queue_index: int, room: int, waiter: str, beyond: int) -> Steps[Batch[Any]]:
        """Make a pop for so many tasks, but no more than one call may take; see `PopRound`."""
        most, ahead_ms = min(room, MAX_BATCH), math.ceil(self.ahead * 1000)
        pop = self.operations[queue_index].pop
        if not ahead_ms:
            return pop(most, self._visibility, waiter)
        beyond = min(beyond, MAX_BATCH - most)
        return pop(most, self._visibility, waiter, ahead_ms=ahead_ms, beyond=beyond)

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
        """Take in the answer to a pop: keep its leases alive, and let the queue pay for it.

        Raises:
            Exception: The answer is an error.
        """
        if isinstance(batch, Exception):
            raise batch
        self.pause, self.state.pulse.trouble = 0.0, ""
        self._allowed.add(queue_index)
        self._charge(queue_index, len(batch.tasks))
        if batch.failed or batch.buried:
            log_refused(self.queues[queue_index].queue_name, batch)
        granted = self._time_of(queue_index, batch.now_ms / 1000) if batch.now_ms else 0.0
        granted = granted or time.monotonic()
        return self.deliveries.hold(queue_index, batch.tasks, batch.waits_ms, granted)

    # Which wake-ups

    def markers(self) -> list[str]:
        """List the markers to block on: none of a quiet queue, which others are to take."""
        return [
            operations.marker
            for index, operations in enumerate(self.operations)
            if index not in self.quiet
        ]

    def by_queue(self, watches: Sequence[Watch]) -> list[list[Watch]]:
        """Divide the watches of all queues, or an empty list, into one list for each queue."""
        rest = iter(watches)
        return [
            [] if index in self.quiet else list(islice(rest, 1))
            for index in range(len(self.queues))
        ]

    def owed(self, by_queue: Sequence[Sequence[Watch]]) -> list[Marker]:
        """List the wake-ups to pass on when this worker stops waiting."""
        heard = [watches for i, watches in enumerate(by_queue) if i not in self.quiet]
        return owned_of_queues(heard)

    # When to ask again

    def asks_after_end(self, watches: Sequence[Watch]) -> bool:
        """Return True if the server is to be asked when a handler has ended, and not only told."""
        return self._in_vain < 2 or not watches

    def ends_are_late(self, watches: Sequence[Watch], ends: Sequence[Done]) -> bool:
        """Return True if ends of deliveries should not wait for the next pop."""
        left = time_left(watches, math.inf) if watches else math.inf
        return bool(ends) and (left > LATEST_ACK_SECONDS or hits_limit(ends))

    def learn(self, asked_by_end: bool, watches: Sequence[Watch], taken: Sequence[Taken]) -> None:
        """Learn whether there are tasks when handlers end; `watches` are those before the pop."""
        if asked_by_end or (taken and any(watch.called for watch in watches)):
            self._in_vain = 0 if taken else self._in_vain + 1

    # How long to wait, and when it is over

    def pause_after(self, error: RedisError, queue_index: int | None = None) -> float:
        """Log an error of the server; return the seconds to wait before the next attempt.

        Args:
            error: The error.
            queue_index: The index of the queue, if the error is the answer to a pop.

        Raises:
            RedisError: The user may not do this, and either this queue has never allowed a pop, or
                the run is to end when the queues are empty, which it could not see.
        """
        self.pause = longer_pause(self.pause)
        self.state.pulse.trouble = f"the last pop has failed: {type(error).__name__}"
        if forbidden(error):
            if self.state.until_empty or (
                queue_index is not None and queue_index not in self._allowed
            ):
                raise error
            if time.monotonic() < self._complained + COMPLAINT_SECONDS:
                return self.pause
            self._complained = time.monotonic()
        log.warning(
            "%s: again in %.1f s: %s",
            *(self._name, self.pause, error),
            extra=fields(
                "server_error", worker=self._name, seconds=self.pause, error=error_line(error)
            ),
        )
        return self.pause

    def counts(self) -> list[Steps[Any]]:
        """Make the operations that count the tasks of all queues, for `none_live`."""
        return [operations.stats() for operations in self.operations]


class PopRound:
    """One round of pops: queue after queue, until there is no room left.

    It is iterated once; each answer is given to `receive` before the next pop. It takes `beyond`
    more tasks than there is `room`, if they begin a bit later.

    Attributes:
        queue_index: The index of the queue that is asked.
        taken: The tasks.
        failed: A validator has refused a task: there may be more behind it.
        complete: Every queue has answered.
    """

    def __init__(
        self, plan: FetchPlan, room: int, watches: Sequence[Watch], beyond: int = 0
    ) -> None:
        self.queue_index = 0
        self.taken: list[Taken] = []
        self.failed = False
        self.complete = False
        self._plan = plan
        self._room = room
        self._beyond = beyond
        self._by_queue = plan.by_queue(watches)

    def __iter__(self) -> Iterator[Steps[Batch[Any]]]:
        """Make pop after pop; stop when there is no room, or when all queues have answered."""
        for queue_index in self._plan.order():
            self.queue_index = queue_index
            watches = self._by_queue[queue_index]
            waiter = watches[0].mine if watches else NEW_WAITER
            yield self._plan.pop(queue_index, self._room - len(self.taken), waiter, self._beyond)
            if len(self.taken) >= self._room:
                return
        self.complete = True

    def receive(self, batch: Any) -> list[Taken]:
        """Take in the answer to the pop; return its tasks. Raise the answer if it is an error."""
        taken = self._plan.receive(self.queue_index, batch)
        self.taken += taken
        self.failed = self.failed or bool(batch.failed)
        watches = self._by_queue[self.queue_index]
        self._by_queue[self.queue_index] = watches_after(batch, watches, self._plan.ahead)
        return taken

    @property
    def may_wait(self) -> bool:
        """True if there is room left, and each queue has said when to ask it again."""
        return self.complete and len(self.watches) == len(self._plan.order())

    @property
    def owed(self) -> list[Marker]:
        """The wake-ups to pass on if this worker has work now, and does not wait."""
        return self._plan.owed(self._by_queue) if any(self._by_queue) else []

    @property
    def watches(self) -> list[Watch]:
        """The watches of all queues, if this worker is to wait."""
        return [watch for watches in self._by_queue for watch in watches]


def none_live(stats: Sequence[Any]) -> bool:
    """Return True if the stats of all queues show no live task; an error counts as live tasks.

    Raises:
        RedisError: The user may not read the stats: the worker would wait for ever.
    """
    for count in stats:
        if forbidden(count):
            raise count
    return not any(
        isinstance(count, Exception)
        or count.ready + count.delayed + count.invisible + count.waiting
        for count in stats
    )
