"""`AsyncWorker`: runs handlers as asyncio tasks, with few calls to the server.

One loop asks for as many tasks as there is room for, and sends the acks of finished tasks in the
same round trip. The busier the handlers are, the more of them share a round trip. It must not
decide what happens to a task: base.py and outcomes.py do.
"""

import asyncio
import inspect
import logging
import math
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, cast

from redis.exceptions import RedisError

from dpq.model.backoff import FIRST_PAUSE_SECONDS
from dpq.model.errors import RateLimited, signal_of
from dpq.model.validation import MAX_BATCH
from dpq.operations.workers import BEAT_SECONDS
from dpq.protocol.command import Steps
from dpq.protocol.durability import CONFIRM_SECONDS
from dpq.queue.base import QueueBase, log_refused
from dpq.queue.queue_async import AsyncDPQ
from dpq.transport.waiter import (
    RECHECK_SECONDS,
    Watch,
    owned_markers,
    waiter_argument,
    watches_after,
)
from dpq.transport.waiter_async import AsyncWaiter, sleep
from dpq.worker.base import (
    LATEST_ACK_SECONDS,
    LEAVE_SECONDS,
    Context,
    Taken,
    WorkerBase,
    check_result,
    none_live,
)
from dpq.worker.outcomes import Done, GivenBack, shuts_something

__all__ = ["AsyncWorker"]

log = logging.getLogger(__name__)

_UNLIMITED = nullcontext()
AT_ONCE = 16  # tasks that are fetched together, or a sixteenth of `concurrency` if that is more


class AsyncWorker(WorkerBase[AsyncDPQ[Any]]):
    """`Worker` for asyncio: handlers are coroutine functions, and run as tasks of one loop.

    If the lease of a handler is lost, or if it runs longer than `time_limit`, it is cancelled. A
    plain function may be a handler, too; while it runs, the event loop does nothing else.
    """

    _waiter: AsyncWaiter

    @classmethod
    def _kind(cls) -> type[QueueBase[Any]]:
        return AsyncDPQ

    async def run(self, *, until_empty: bool = False, signals: bool = True) -> int:
        """Async `Worker.run`. If it is cancelled, it stops without grace."""
        try:
            return await self._run(until_empty, signals)
        finally:
            self._on = False

    async def _run(self, until_empty: bool, signals: bool) -> int:
        await self._begin(until_empty)
        self._waiter = self._new_waiter()
        self._beating = asyncio.create_task(self._beat())
        with self._signals() if signals else nullcontext():
            working = asyncio.create_task(self._work())
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:  # no pop is interrupted before its handler begins
                self._cut_short()
                await asyncio.shield(asyncio.wait([working]))
                if not working.cancelled() and (fault := working.exception()):
                    log.exception("%s: failed as it ended", self.name, exc_info=fault)
                raise
        return self.handled.total()

    async def _work(self) -> None:
        try:
            while not self._stopping:
                await self._step()
        except BaseException as error:
            self._end()
            if not isinstance(
                error, Exception
            ):  # else handlers may end in their time, as in threads
                self._cut_short()
            await asyncio.shield(asyncio.create_task(self._finish()))
            raise
        await self._finish()

    async def drain(self) -> int:
        """Async `Worker.drain`."""
        return await self.run(until_empty=True)

    def stop(self) -> None:
        """Async `Worker.stop`: call it in the event loop."""
        if not self._on:
            self._stop_early = True
        elif self._stopping:
            self._cut_short()
        else:
            self._end()

    def _end(self) -> None:
        self._stopping = True
        if not self._news.done():
            self._news.set_result(None)

    def _cut_short(self) -> None:
        self._grace_left = 0.0
        self._end()

    # Beginning and ending

    async def _begin(self, until_empty: bool) -> None:
        self._news = asyncio.get_running_loop().create_future()  # done when something has changed
        self._clock_on(until_empty)
        self._gone = asyncio.Event()
        self._grace_left = self.grace
        # Handlers that end together would begin together again, and idle while all are fetched.
        self._at_once = max(AT_ONCE, self.concurrency // AT_ONCE, self.prefetch)
        self._unbegun: deque[Taken] = deque()
        self._running: dict[asyncio.Task[Any], Taken] = {}
        self._confirming: set[asyncio.Task[Any]] = set()  # of those, whose handler has ended
        self._done: list[Done] = []
        self._done_since = math.inf
        self._watches: list[Watch] = []
        self._look = True
        for queue in self.queues:
            queue._session.require_open()
            await queue._session.ready()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        listened = {}

        def stop(number: signal.Signals) -> None:
            log.info("%s: %s, stopping", self.name, number.name)
            self.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)  # asyncio.run has one of its own
            try:
                loop.add_signal_handler(number, stop, number)
            except (RuntimeError, ValueError, NotImplementedError):  # not the main thread
                break
            listened[number] = before
        try:
            yield
        finally:
            for number, handler in listened.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    async def _finish(self) -> None:
        """Wait for the running handlers, then give back the tasks that are left."""
        self._give_back(self._unbegun)
        self._unbegun.clear()
        await self._settle()
        give_up = time.monotonic() + self._grace_left
        while self._running and self._grace_left and (left := give_up - time.monotonic()) > 0:
            self._news = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._news], timeout=left)
            await self._settle()
        unfinished = {
            handling: taken
            for handling, taken in self._running.items()
            if handling not in self._confirming
        }
        self.given_back = self._give_back(unfinished.values())
        if self.given_back:
            log.warning(
                "%s: gives back %d tasks whose handlers still run", self.name, self.given_back
            )
        await _end_all(unfinished)
        await self._settle()
        await self._confirm()
        self._forget(self._done)
        await self._waiter.withdraw(owned_markers(self._watches))
        await self._waiter.aclose()
        self._gone.set()
        await asyncio.wait([self._beating], timeout=LEAVE_SECONDS)
        self._beating.cancel()
        self._sum_up()

    async def _confirm(self) -> None:
        """Wait until ended handlers have the confirmation of their acks. An interrupted call may be
        one whose script the server had forgotten: then nothing is acked yet."""
        if self._confirming:
            await asyncio.wait(self._confirming, timeout=CONFIRM_SECONDS + LEAVE_SECONDS)
            await self._settle()  # the acks that failed; not those that are interrupted now
        if self._confirming:
            log.warning(
                "%s: ends before %d tasks are known to be settled", self.name, len(self._confirming)
            )
            await _end_all(self._confirming)

    def _give_back(self, taken: Iterable[Taken]) -> int:
        """Mark tasks to be given back; return how many were still held."""
        back = [Done(queue_index, lease.task, GivenBack()) for queue_index, lease in taken]
        held = list(filter(self._claim, back))
        self._done += held
        return len(held)

    # The loop

    async def _step(self) -> None:
        """Begin handlers while there is room; then ask for more tasks, or wait for a change."""
        self._fill()
        if self._news.done():
            self._news = asyncio.get_running_loop().create_future()
            self._look = True
        room = self.concurrency + self.prefetch - len(self._running) - len(self._unbegun)
        if room == 0 or len(self._unbegun) > self.prefetch // 2:
            await self._wait_for_news()
        elif self._look:
            self._look = False
            await self._ask(min(room, self._at_once))
        else:
            until = time.monotonic() + RECHECK_SECONDS
            self._look = await sleep(self._waiter, self._watches, until, self._news)

    async def _wait_for_news(self) -> None:
        """Wait for a change, while no task can be taken; send acks before they wait too long."""
        left = self._done_since + LATEST_ACK_SECONDS - time.monotonic()
        if left > 0:
            await asyncio.wait([self._news], timeout=None if left == math.inf else left)
        else:
            await self._settle()

    async def _ask(self, room: int) -> None:
        """Send the ends of deliveries, and ask queue after queue until there is no room left."""
        if unseen := self._unseen():
            try:
                await self._look_for_partitions(unseen)
            except RedisError as error:
                await self._wait_out(error)
                self._look = True
                return
        if shuts_something(self._done) or self._confirms:
            await self._settle()
        watches = self._of_each(self._watches)
        asked = taken = 0
        for queue_index in self._turns.next():
            mine = waiter_argument(watches[queue_index]) if watches[queue_index] else "-"
            pop = self._operations[queue_index].pop(
                min(room - taken, MAX_BATCH), self.visibility, mine
            )
            batch = await self._exchange(pop)
            if isinstance(batch, RedisError):
                await self._wait_out(batch, queue_index)
                break
            if isinstance(batch, Exception):
                raise batch
            if batch.failed:
                log_refused(self.queues[queue_index].queue_name, batch)
                self._look = True  # there may be more
            self._unbegun.extend(self._hold(queue_index, batch.tasks))
            taken += len(batch.tasks)
            self._turns.pay(queue_index, len(batch.tasks))
            watches[queue_index] = watches_after(batch, watches[queue_index])
            asked += 1
            if taken >= room:
                break
        if taken or asked < len(self.queues):
            owed = self._owed(watches)
            if self._watches or owed:
                await self._waiter.withdraw(owed)
            self._watches = []
            self._look = True
        elif self._until_empty and not self._done and await self._all_gone():
            self._end()
        else:
            self._watches = [watch for each in watches for watch in each]

    async def _look_for_partitions(self, unseen: Sequence[AsyncDPQ[Any]]) -> None:
        """Block on all markers of queues that did not exist before."""
        for queue in unseen:
            await queue._session.ready()
        if len(self._markers()) != len(self._waiter.markers):
            await self._waiter.withdraw(owned_markers(self._watches))
            await self._waiter.aclose()
            self._waiter, self._watches = self._new_waiter(), []

    def _new_waiter(self) -> AsyncWaiter:
        return AsyncWaiter(self.queues[0]._session.connections, self._markers())

    async def _exchange(self, *operations: Steps[Any]) -> Any:
        """Send the ends of deliveries, and run operations; return the last result."""
        done: list[Done] = []
        if not (operations and self._confirms):
            done, self._done, self._done_since = self._done, done, math.inf
        asked = self._settling(done)
        try:
            results = await self.queues[0]._session.run_all(
                [*(each.operation for each in asked), *operations]
            )
        except BaseException:
            self._done = done + self._done
            raise
        again = self._unsettled(asked, results[: len(asked)])
        if again:
            self._done += again
            self._done_since = time.monotonic() + FIRST_PAUSE_SECONDS
        return results[-1] if results else None

    async def _settle(self) -> bool:
        """Send the ends of deliveries; False if some must be sent once more."""
        asked = {id(each.task) for each in self._done}
        if asked:
            await self._exchange()
        return asked.isdisjoint(id(each.task) for each in self._done)

    async def _all_gone(self) -> bool:
        counts = [operations.stats() for operations in self._operations]
        return none_live(await self.queues[0]._session.run_all(counts))

    async def _wait_out(self, error: RedisError, queue_index: int | None = None) -> None:
        give_up = time.monotonic() + self._wait_longer(error, queue_index)
        settles = True
        while not self._stopping and (left := give_up - time.monotonic()) > 0:
            if self._news.done():  # a handler has ended: no reason to ask sooner
                self._news = asyncio.get_running_loop().create_future()
            if self._done and settles:  # but its ack does not wait
                settles = False
                with suppress(RedisError):
                    settles = await self._settle()
                continue
            await asyncio.wait([self._news], timeout=left)

    # Heartbeats

    async def _beat(self) -> None:
        """Send heartbeats at the beginning, every 10 s and at the end."""
        while not self._gone.is_set():
            await self._say(self._beats(taken.queue_index for taken in self._running.values()))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), BEAT_SECONDS)
        await self._say(self._leaving())

    async def _say(self, operations: Sequence[Steps[Any]]) -> None:
        try:
            await self.queues[0]._session.run_all(operations)
            if self._on_beat:
                self._on_beat()
        except Exception:  # a worker that cannot send heartbeats works on
            log.debug("%s: cannot tell of itself", self.name, exc_info=True)

    # One handler

    def _fill(self) -> None:
        while self._unbegun and len(self._running) < self.concurrency and not self._stopping:
            taken = self._unbegun.popleft()
            if taken.lease.alive:  # it may have been lost while it waited to begin
                handling = asyncio.create_task(self._handle(taken))
                self._running[handling] = taken

    def _ended(self, handling: "asyncio.Task[Any]") -> None:
        self._running.pop(handling, None)  # the run may have ended before it
        self._confirming.discard(handling)
        self._fill()
        if not self._news.done():
            self._news.set_result(None)

    async def _handle(self, taken: Taken) -> None:
        queue_index, lease = taken
        task = lease.task
        context = self._context(queue_index, lease)
        handling = cast("asyncio.Task[Any]", asyncio.current_task())
        lease.lost = partial(_cancel_lost, context, handling)
        error: BaseException | None = None
        limit: asyncio.Timeout | None = None
        seconds, began = task.time_limit or self.time_limit, time.monotonic()
        if not lease.alive:  # lost before it began
            self._ended(handling)
            return
        try:
            if self._hooked:
                await self._tell_awaited(self._before, context)
            handler = self._find(task)
            limit = asyncio.timeout(seconds) if seconds else None
            async with limit or _UNLIMITED:
                result = (
                    handler.call(task, context) if handler.takes_context else handler.call(task)
                )
                if inspect.isawaitable(result):
                    result = await result
                if result is not None:
                    check_result(handler, result)
        except BaseException as raised:  # the error says how the task goes on
            error = signal_of(raised)
            if isinstance(raised, TimeoutError) and limit and limit.expired():
                error = TimeoutError(f"ran longer than {seconds:g} s")
        try:
            for hook, what in self._hooks_at_end(context, error) if self._hooked else ():
                await self._tell_awaited(hook, *what)
        finally:
            self.handled["done" if error is None else type(error).__name__] += 1
            if self._tells_each:
                self._say_ended(queue_index, task, error, began)
            ended = Done(queue_index, task, error)
            held = self._claim(ended)
            if error is not None and (held or isinstance(error, Exception)):
                self._report(queue_index, task, error)
            if held:  # else the handler has ended the delivery itself, or the lease is lost
                self._done.append(ended)
                if isinstance(error, RateLimited):
                    self._give_back_alike(ended)
                self._done_since = min(self._done_since, time.monotonic())
            try:
                if held and self._confirms:
                    self._confirming.add(handling)
                    with suppress(RedisError):  # then it must be sent once more
                        await self._settle()
            finally:
                self._ended(handling)  # now: a callback would run after all others that are due

    def _give_back_alike(self, done: Done) -> None:
        """Give back the prefetched tasks that would hit the same limit."""
        fetched, self._unbegun = self._unbegun, deque()
        for taken in fetched:
            if done.shuts(taken.queue_index, taken.lease.task):
                self._give_back([taken])
            else:
                self._unbegun.append(taken)

    async def _tell_awaited(self, hook: Callable[..., Any] | None, *what: Any) -> None:
        answer = self._tell(hook, *what)
        if inspect.isawaitable(answer):
            try:
                await answer
            except asyncio.CancelledError:
                raise
            except BaseException:
                log.exception("%s: a hook failed", self.name)


def _cancel_lost(context: Context[Any], handling: "asyncio.Task[Any]") -> None:
    context._lose()
    handling.cancel()


async def _end_all(handling: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel handlers; if one does not end, wait no longer than `LEAVE_SECONDS`."""
    for each in handling:
        each.cancel()
    if handling:
        await asyncio.wait(handling, timeout=LEAVE_SECONDS)
