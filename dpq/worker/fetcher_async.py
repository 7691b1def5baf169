"""The fetcher of a worker: the only object that asks the server for tasks.

It asks for as many tasks as there is room for, and sends the ends of deliveries in the same round
trip. The busier the handlers are, the more of them share a round trip. One asyncio task calls
`step`; of threads one at a time: runner.py.

    await fetcher.step(free)   ask for tasks, or wait for a change
    fetcher.take()             a task that no handler has begun, if there is one
    fetcher.add(done)          a handler has ended; the next exchange takes its ack along
"""

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from redis.exceptions import RedisError

from dpq.limits.signals import RateLimited
from dpq.link.cluster import forbidden
from dpq.link.waiter_async import AsyncWaiter, sleep
from dpq.link.watches import Marker, Watch, owned_markers, owned_of_queues, time_left, watches_after
from dpq.model.backoff import FIRST_PAUSE_SECONDS, longer_pause
from dpq.model.log_fields import fields
from dpq.model.validation import MAX_BATCH, error_line
from dpq.queue.end_log import log_refused
from dpq.queue.inside import operations_of
from dpq.script.command import Steps
from dpq.worker.change_async import AsyncChange
from dpq.worker.deliveries import Deliveries, Done, Taken
from dpq.worker.handler_calls import Held
from dpq.worker.run_state import EXCHANGE, LATEST_ACK_SECONDS, RunState

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""Seconds of a block of a client that is not Redis's own: perhaps no change ends it."""

AT_ONCE = 16  # tasks fetched together, or a sixteenth of `concurrency` if more

MOST_AHEAD_SECONDS = 0.05
"""Seconds between the grant of a task and its moment at most: its place in the order is fixed."""

LEAST_AHEAD_SECONDS = 0.01
"""Seconds ahead beside the round trips: a busy machine answers, or wakes a thread, that late."""

NEW_WAITER = "-"
"""Pop's `waiter` argument of a caller that has not watched the queue yet."""


class AsyncWakeUps:
    """The wake-ups of a worker: one waiter on the markers of all its queues.

    `watches` are those of all queues; there are none while the worker does not wait.
    """

    def __init__(self, connections: Any, markers: Sequence[str], change: AsyncChange) -> None:
        self.watches: list[Watch] = []
        self._connections = connections
        self._waiter = AsyncWaiter(connections, markers, LOOK_SECONDS)
        self._change = change

    async def wait(self, until: float) -> bool:
        """Wait for a wake-up or a change; return True if it is time to ask the server."""
        with self._change.heard() as change:
            look = await sleep(self._waiter, self.watches, until, change)
        return look and (time.monotonic() < until or time_left(self.watches, math.inf) <= 0)

    async def stop(self, owed: Iterable[Marker] | None = None) -> None:
        """Stop waiting; pass on wake-ups, by default all that this worker has not looked for."""
        with self._change.others():
            await self._waiter.withdraw(owned_markers(self.watches) if owed is None else owed)
        self.watches = []

    async def follow(self, markers: Sequence[str]) -> None:
        await self.aclose()
        self._waiter = AsyncWaiter(self._connections, markers, LOOK_SECONDS)

    async def aclose(self) -> None:
        await self.stop()
        await self._waiter.aclose()


class AsyncFetcher:
    """Gets tasks for the handlers of one run, and sends the ends of their deliveries.

    Attributes:
        ends: The deliveries whose end is to be sent.
        change: The sign that a handler has ended, or that the run is to end.
    """

    def __init__(
        self,
        state: RunState,
        deliveries: Deliveries,
        session: Any,
        wakeups: AsyncWakeUps,
        change: AsyncChange,
    ) -> None:
        self.ends: list[Done] = []
        self.change = change
        self._state, self._deliveries = state, deliveries
        self._session, self._wakeups = session, wakeups
        # If acks wait for a confirmation, they do not travel with a pop, whose leases would run out
        # meanwhile: the caller of the handler sends them, and waits.
        self._confirms = state.queues[0].settings.durability != "async"
        self._prefetch = state.prefetch
        # Handlers that end together would begin together again, and idle while all are fetched.
        self._at_once = max(AT_ONCE, state.concurrency // AT_ONCE, self._prefetch)
        self._taken: deque[Taken] = deque()
        self._ends_since = math.inf  # the time when the oldest of the ends was added
        self._look = True  # True if the server is to be asked
        self._quiet: frozenset[Any] = frozenset()  # the queues that are not asked
        self._allowed: set[Any] = set()  # queues that have allowed a pop
        self._in_vain = 0  # pops in a row that an end of a handler caused, and that gave no task
        self._pause_seconds = 0.0  # those of the last wait after an error
        # Seconds before the moment of a task at which the server is asked for it. They last a bit
        # longer than the round trip, so that a limit that binds is reached.
        self._ahead = 0.0
        self._trip = MOST_AHEAD_SECONDS  # seconds of a round trip, on average
        self._handling = math.inf  # seconds of a handler, on average
        self._sent = 0.0  # when the last pop was sent
        # By queue: seconds from its server's clock to this one, with those of a quick reply.
        self._behind: dict[Any, float] = {}

    # Tasks

    @property
    def _moment(self) -> float:
        """The time when the next task may begin, monotonic seconds."""
        return self._taken[0].at if self._taken else math.inf

    @property
    def is_low(self) -> bool:
        """True if half of the prefetched tasks are gone, and there may be more."""
        return 0 < self._prefetch >= 2 * len(self._taken) and not self._wakeups.watches

    def take(self) -> Taken | None:
        """Return the next task that no handler has begun, and that may begin; or None."""
        return self._taken.popleft() if self._moment <= time.monotonic() else None

    async def step(self, free: int) -> None:
        """Ask for tasks for so many free handlers; or wait, if there is no room or no task."""
        if self._state.quiet != self._quiet:
            await self._turn()
        if self.change.forget() and self._asks_after_end():
            self._look = True
        room = free + self._prefetch - len(self._taken)
        beyond = self._beyond if self._taken or room > 0 else 0
        idle = not self._heard and not self._look
        plenty = 2 * len(self._taken) > self._prefetch > 0
        if idle or plenty or room + beyond <= 0:
            await self._wait_for_room(free)
        elif self._look:
            self._look = False
            most = max(1, min(room, self._at_once))
            await self._ask(most, max(0, room + beyond - most))
        else:
            if self._ends_are_late():
                await self.send_ends()
            until = self._moment if free else math.inf
            self._look = await self._wakeups.wait(until) or self._look

    async def _turn(self) -> None:
        self._quiet = self._state.quiet
        await self._wakeups.stop()
        if self._heard:
            await self._wakeups.follow([operations_of(queue).marker for queue in self._heard])
        self._look = True

    @property
    def _heard(self) -> list[Any]:
        """The queues to block on: no quiet ones, whose markers others are to take."""
        return [queue for queue in self._state.queues if queue not in self._quiet]

    @property
    def _beyond(self) -> int:
        """The number of handlers that will end within `_ahead`, as far as is known."""
        return int(self._state.concurrency * self._ahead / max(self._handling, self._ahead / 8))

    def _asks_after_end(self) -> bool:
        """Return True if the server is to be asked when a handler has ended, and not only told."""
        return self._in_vain < 2 or not self._wakeups.watches

    def _learn(self, by_end: bool, watches: Sequence[Watch], taken: Sequence[Taken]) -> None:
        """Learn whether there are tasks when handlers end; `watches` are those before the pop."""
        if by_end or (taken and any(watch.called for watch in watches)):
            self._in_vain = 0 if taken else self._in_vain + 1

    def _ends_are_late(self) -> bool:
        """Return True if ends of deliveries should not wait for the next pop."""
        watches = self._wakeups.watches
        left = time_left(watches, math.inf) if watches else math.inf
        late = left > LATEST_ACK_SECONDS or any(each.hits_limit for each in self.ends)
        return bool(self.ends) and late

    async def _wait_for_room(self, free: int) -> None:
        """Wait for a change, or the moment of a task; send ends that have waited too long."""
        await self.send_late()
        until = min(self._ends_since + LATEST_ACK_SECONDS, self._moment if free else math.inf)
        if (left := until - time.monotonic()) > 0:
            await self.change.wait(None if left == math.inf else left)

    # Exchanges

    async def _ask(self, room: int, beyond: int) -> None:
        """Send the ends of deliveries, and ask queue after queue until there is no room left."""
        wakeups, heard = self._wakeups, self._heard
        if self._confirms or not heard or any(each.hits_limit for each in self.ends):
            await self.send_ends()
        before = wakeups.watches
        by_end = bool(before) and time_left(before, math.inf) > 0
        by_queue = {queue: [watch] for queue, watch in zip(heard, before, strict=False)}
        taken, complete = await self._ask_each(room, beyond, by_queue)
        self._learn(by_end, before, taken)
        watches = [each for queue in heard for each in by_queue.get(queue, [])]
        # A worker that is busy at once leaves its moments to others.
        idle = len(taken) < room or self._moment > time.monotonic()
        if taken and idle and complete and len(watches) == len(heard):
            wakeups.watches = watches
        elif taken or not complete:
            owed = owned_of_queues([by_queue.get(queue, []) for queue in heard])
            if owed or wakeups.watches:
                await wakeups.stop(owed)
            self._look = True
        elif self._state.until_empty and not self.ends and await self._all_gone():
            self._state.end()
        else:
            wakeups.watches = watches

    async def _ask_each(
        self, room: int, beyond: int, by_queue: dict[Any, list[Watch]]
    ) -> tuple[list[Taken], bool]:
        """Send pop after pop; return the tasks, and True if all have answered, into `by_queue`."""
        taken = list[Taken]()
        for queue in [each for each in self._state.order.queues() if each not in self._quiet]:
            if len(taken) >= room:
                return taken, False
            before, self._sent = by_queue.get(queue, []), time.monotonic()
            batch = await self._exchange(self._pop(queue, room - len(taken), before, beyond))
            trip = min(time.monotonic() - self._sent, MOST_AHEAD_SECONDS)
            self._trip += (trip - self._trip) / 8
            self._ahead = min(MOST_AHEAD_SECONDS, 2 * self._trip + LEAST_AHEAD_SECONDS)
            if isinstance(batch, RedisError):
                await self._pause(batch, queue)
                return taken, False
            new = self._receive(queue, batch)
            taken += new
            self._taken = deque(sorted([*self._taken, *new], key=lambda each: each.at))
            by_queue[queue] = watches_after(batch, before, self._ahead)
            self._look = self._look or bool(batch.failed)  # more may stand behind the refused task
        return taken, True

    def _pop(self, queue: Any, room: int, watches: Sequence[Watch], beyond: int) -> Steps[Any]:
        """Make a pop for `room` tasks at most, and `beyond` more if they begin a bit later."""
        most, ahead_ms = min(room, MAX_BATCH), math.ceil(self._ahead * 1000)
        waiter = watches[0].mine if watches else NEW_WAITER
        ask, beyond = operations_of(queue).pop, min(beyond, MAX_BATCH - most)
        return ask(most, self._state.visibility, waiter, ahead_ms=ahead_ms, beyond=beyond)

    def _receive(self, queue: Any, batch: Any) -> list[Taken]:
        """Keep the leases of a pop alive; let the queue pay. Raise the answer if it is an error."""
        if isinstance(batch, Exception):
            raise batch
        self._pause_seconds, self._state.pulse.trouble = 0.0, ""
        self._allowed.add(queue)
        self._state.order.charge(queue, len(batch.tasks))
        if batch.failed or batch.buried:
            log_refused(queue.queue_name, batch)
        now_ms = batch.now_ms
        granted = self._time_of(queue, now_ms / 1000) if now_ms else time.monotonic()
        return self._deliveries.hold(queue, batch.tasks, batch.waits_ms, granted)

    def _time_of(self, queue: Any, server_seconds: float) -> float:
        """Return when the server's clock showed this, later by the shortest way back of late."""
        behind = time.monotonic() - server_seconds
        known = self._behind.get(queue, behind)
        known = self._behind[queue] = min(behind, known + (behind - known) / 64)
        return max(self._sent, server_seconds + known)

    async def _all_gone(self) -> bool:
        """Return True if no queue has a live task, as far as all of them say.

        Raise the error if the user may not read the stats: the worker would wait for ever.
        """
        counts = [operations_of(queue).stats() for queue in self._state.queues]
        with self.change.others():
            answers = await self._session.send_all(counts)
        for answer in filter(forbidden, answers):
            raise answer
        return not any(isinstance(each, Exception) or each.live for each in answers)

    async def _exchange(self, *operations: Steps[Any]) -> Any:
        """Send the ends of deliveries, and run operations; return the last result."""
        done: list[Done] = []
        if not (operations and self._confirms):
            done, self.ends, self._ends_since = self.ends, done, math.inf
        endings = self._deliveries.endings(done)
        sent = [*(each.operation for each in endings), *operations]
        self._state.pulse.move(EXCHANGE)
        try:
            with self.change.others():
                results = await self._session.send_all(sent)
        except BaseException:
            self.ends = done + self.ends
            raise
        finally:
            self._state.pulse.rest(EXCHANGE)
        again = self._deliveries.answered(endings, results[: len(endings)])
        if again:
            self.ends += again
            self._ends_since = time.monotonic() + FIRST_PAUSE_SECONDS
        return results[-1] if results else None

    async def _pause(self, error: RedisError, queue: Any) -> None:
        """Wait after an error of a pop; but send the ends of deliveries meanwhile.

        Raise the error if the user may not pop, and either this queue has never allowed it, or the
        run is to end when the queues are empty, which it could not see.
        """
        self._pause_seconds = pause = longer_pause(self._pause_seconds)
        self._state.pulse.trouble = f"the last pop has failed: {type(error).__name__}"
        if forbidden(error) and (self._state.until_empty or queue not in self._allowed):
            raise error
        name = self._state.name
        about = fields("server_error", worker=name, seconds=pause, error=error_line(error))
        log.warning("%s: again in %.1f s: %s", name, pause, error, extra=about)
        until = time.monotonic() + pause
        answered = True
        while not self._state.stopping and (left := until - time.monotonic()) > 0:
            self.change.forget()  # the end of a handler is no reason to ask sooner
            if self.ends and answered:
                answered = await self.send_ends()
            else:
                await self.change.wait(left)

    # What is held

    @property
    def held(self) -> list[Taken | Done]:
        """The tasks that no handler has begun, and those whose end is to be sent."""
        return [*list(self._taken), *list(self.ends)]

    async def heed(self) -> None:
        """Follow what queues say by their answers to heartbeats: give back what is not begun."""
        quiet = self._state.quiet
        self._give_back_taken(lambda taken: taken.queue in quiet)
        self.change.note()
        await self.send_ends()

    # Ends of deliveries

    def add(self, done: Done) -> None:
        """Take over the end of a delivery; after a 429, give back what would hit the same limit."""
        self.ends.append(done)
        if isinstance(done.error, RateLimited):
            self._give_back_taken(done.closes)
        self._ends_since = min(self._ends_since, time.monotonic())

    async def handled(self, done: Done | None, seconds: float) -> None:
        """Take over the end of a handler that ran so long; wait if its end is to be confirmed."""
        before = seconds if self._handling == math.inf else self._handling
        self._handling = before + (seconds - before) / 8
        if done:
            self.add(done)
        if self._confirms:
            await self.send_ends()

    async def send_late(self) -> None:
        """Send the ends of deliveries if one has waited for `LATEST_ACK_SECONDS`."""
        if self._ends_since + LATEST_ACK_SECONDS <= time.monotonic():
            await self.send_ends()

    async def send_ends(self) -> bool:
        """Send the ends of deliveries; False if some of them must be sent once more."""
        sent = {id(each.task) for each in self.ends}
        if sent:
            await self._exchange()
            if self._state.until_empty:  # perhaps no task is left
                self._look = True
                self.change.note()
        return sent.isdisjoint(id(each.task) for each in self.ends)

    def give_back(self, held: Iterable[Held]) -> int:
        """Let tasks be given back, uncounted; return the number of those that were still held."""
        back = self._deliveries.claim_back(held)
        self.ends += back
        return len(back)

    def _give_back_taken(self, goes: Callable[[Taken], bool]) -> None:
        back = [each for each in self._taken if goes(each)]
        self._taken = deque(each for each in self._taken if not goes(each))
        self.give_back(back)

    # The end of a run

    async def give_back_unbegun(self) -> None:
        self._give_back_taken(lambda _: True)
        await self.send_ends()

    async def aclose(self) -> None:
        """Leave what could not be sent to its leases, and stop waiting."""
        self._deliveries.forget(self.ends)
        await self._wakeups.aclose()
