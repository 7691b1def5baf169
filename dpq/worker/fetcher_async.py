"""The fetcher of a worker: the only object that asks the server for tasks.

It asks for as many tasks as there is room for, and sends the ends of deliveries in the same round
trip. The busier the handlers are, the more of them share a round trip. Which queue is asked,
fetch_plan.py decides. One asyncio task calls `step`; of threads one at a time: runner.py.

    await fetcher.step(free)   ask for tasks, or wait for a change
    fetcher.take()             a task that no handler has begun, if there is one
    fetcher.add(done)          a handler has ended; the next exchange takes its ack along
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from redis.exceptions import RedisError

from dpq.limits.signals import RateLimited
from dpq.link.watches import time_left
from dpq.model.backoff import FIRST_PAUSE_SECONDS
from dpq.script.command import Steps
from dpq.worker.change_async import AsyncChange
from dpq.worker.deliveries import Taken
from dpq.worker.fetch_plan import FetchPlan, PopRound, none_live
from dpq.worker.heartbeats import Holding
from dpq.worker.outcomes import Done, hits_limit
from dpq.worker.run_state import EXCHANGE, LATEST_ACK_SECONDS
from dpq.worker.wakeups_async import AsyncWakeUps

AT_ONCE = 16  # tasks fetched together, or a sixteenth of `concurrency` if more


class AsyncFetcher:
    """Gets tasks for the handlers of one run, and sends the ends of their deliveries.

    Attributes:
        ends: The deliveries whose end is to be sent.
        change: The sign that a handler has ended, or that the run is to end.
    """

    def __init__(
        self, plan: FetchPlan, session: Any, wakeups: AsyncWakeUps, change: AsyncChange
    ) -> None:
        self.ends: list[Done] = []
        self.change = change
        self._plan = plan
        self._deliveries = plan.deliveries
        self._state = plan.state
        self._session = session
        self._wakeups = wakeups
        self._prefetch = plan.prefetch
        # Handlers that end together would begin together again, and idle while all are fetched.
        self._at_once = max(AT_ONCE, plan.concurrency // AT_ONCE, plan.prefetch)
        self._taken: deque[Taken] = deque()
        self._ends_since = math.inf  # the time when the oldest of the ends was added
        self._look = True  # True if the server is to be asked

    # Tasks

    @property
    def _moment(self) -> float:
        """The time when the next task may begin, monotonic seconds."""
        return self._taken[0].at if self._taken else math.inf

    @property
    def is_low(self) -> bool:
        """True if half of the prefetched tasks are gone."""
        return 0 < self._prefetch >= 2 * len(self._taken)

    def take(self) -> Taken | None:
        """Return the next task that no handler has begun, and that may begin; or None."""
        return self._taken.popleft() if self._moment <= time.monotonic() else None

    async def step(self, free: int) -> None:
        """Ask for tasks for so many free handlers; or wait, if there is no room or no task."""
        if self._plan.is_turning:
            await self._turn()
        plan, watches = self._plan, self._wakeups.watches
        if self.change.forget() and plan.asks_after_end(watches):
            self._look = True
        room = free + self._prefetch - len(self._taken)
        beyond = plan.beyond if self._taken or room > 0 else 0
        idle = plan.all_quiet and not self._look
        if idle or room + beyond <= 0 or (self._prefetch and not self.is_low):
            await self._wait_for_room(free)
        elif self._look:
            self._look = False
            most = max(1, min(room, self._at_once))
            await self._ask(most, max(0, room + beyond - most))
        else:
            if plan.ends_are_late(watches, self.ends):
                await self.send_ends()
            until = self._moment if free else math.inf
            self._look = await self._wakeups.wait(until) or self._look

    async def _turn(self) -> None:
        """Ask other queues from now on."""
        await self._wakeups.stop()
        if self._plan.turn():
            await self._wakeups.follow(self._plan.markers())
        self._look = True

    async def _wait_for_room(self, free: int) -> None:
        """Wait for a change, or the moment of a task; send ends that have waited too long."""
        await self.send_late()
        until = min(self._ends_since + LATEST_ACK_SECONDS, self._moment if free else math.inf)
        if (left := until - time.monotonic()) > 0:
            await self.change.wait(None if left == math.inf else left)

    # Exchanges

    async def _ask(self, room: int, beyond: int) -> None:
        """Send the ends of deliveries, and ask queue after queue until there is no room left."""
        if hits_limit(self.ends) or self._plan.confirms or self._plan.all_quiet:
            await self.send_ends()
        wakeups, before = self._wakeups, self._wakeups.watches
        by_end = bool(before) and time_left(before, math.inf) > 0
        round_ = PopRound(self._plan, room, before, beyond)
        await self._ask_each(round_)
        self._plan.learn(by_end, before, round_.taken)
        if round_.taken and round_.may_wait:
            wakeups.watches = round_.watches
        elif round_.taken or not round_.complete:
            if (owed := round_.owed) or wakeups.watches:
                await wakeups.stop(owed)
            self._look = True
        elif self._state.until_empty and not self.ends and await self._all_gone():
            self._state.end()
        else:
            wakeups.watches = round_.watches

    async def _ask_each(self, round_: PopRound) -> None:
        """Send pop after pop, until the round or the server ends it."""
        for pop in round_:
            sent = time.monotonic()
            batch = await self._exchange(pop)
            self._plan.timed(sent)
            if isinstance(batch, RedisError):
                await self._pause(batch, round_.queue_index)
                return
            new = round_.receive(batch)
            self._taken = deque(sorted([*self._taken, *new], key=lambda each: each.at))
            self._look = self._look or round_.failed  # more tasks may stand behind the refused task

    async def _all_gone(self) -> bool:
        with self.change.others():
            return none_live(await self._session.send_all(self._plan.counts()))

    async def _exchange(self, *operations: Steps[Any]) -> Any:
        """Send the ends of deliveries, and run operations; return the last result."""
        done: list[Done] = []
        if not (operations and self._plan.confirms):
            done, self.ends, self._ends_since = self.ends, done, math.inf
        endings = self._deliveries.endings(done)
        self._state.pulse.move(EXCHANGE)
        try:
            with self.change.others():
                results = await self._session.send_all(
                    [*(each.operation for each in endings), *operations]
                )
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

    async def _pause(self, error: RedisError, queue_index: int | None = None) -> None:
        """Wait after an error of the server; but send the ends of deliveries meanwhile."""
        until = time.monotonic() + self._plan.pause_after(error, queue_index)
        answered = True
        while not self._state.stopping and (left := until - time.monotonic()) > 0:
            self.change.forget()  # the end of a handler is no reason to ask sooner
            if self.ends and answered:
                answered = await self.send_ends()
            else:
                await self.change.wait(left)

    # What is held

    @property
    def held(self) -> list[Holding]:
        """The tasks that no handler has begun, and those whose end is to be sent."""
        taken = [Holding(each.queue_index, each.lease.task) for each in self._taken]
        return taken + [Holding(each.queue_index, each.task) for each in self.ends]

    async def heed(self) -> None:
        """Follow what queues say by their answers to heartbeats: give back what is not begun."""
        quiet = self._state.quiet
        self._give_back_taken(lambda taken: taken.queue_index in quiet)
        self.change.note()
        await self.send_ends()

    # Ends of deliveries

    def took(self, seconds: float) -> None:
        """Take in how long a handler ran."""
        self._plan.handled(seconds)

    def add(self, done: Done) -> None:
        """Take over the end of a delivery; after a 429, give back what would hit the same limit."""
        self.ends.append(done)
        if isinstance(done.error, RateLimited):
            self._give_back_taken(lambda taken: done.closes(taken.queue_index, taken.lease.task))
        self._ends_since = min(self._ends_since, time.monotonic())

    async def confirm(self) -> None:
        """Send the ends of deliveries now, if they wait for a confirmation."""
        if self._plan.confirms:
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

    def give_back(self, taken: Iterable[Taken]) -> int:
        """Let tasks be given back, uncounted; return the number of those that were still held."""
        held = self._deliveries.claim_back(taken)
        self.ends += held
        return len(held)

    def _give_back_taken(self, goes: Callable[[Taken], bool]) -> None:
        back = [each for each in self._taken if goes(each)]
        self._taken = deque(each for each in self._taken if not goes(each))
        self.give_back(back)

    # The end of a run

    async def give_back_unbegun(self) -> None:
        """Give back the tasks that no handler has begun."""
        self._give_back_taken(lambda _: True)
        await self.send_ends()

    async def aclose(self) -> None:
        """Leave what could not be sent to its leases, and stop waiting."""
        self._deliveries.forget(self.ends)
        await self._wakeups.aclose()
