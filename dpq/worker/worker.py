"""`Worker`: runs handlers in threads, with as few calls to the server as possible.

Each thread asks for its next task itself. The first to ask also asks for all threads that are idle
then, and sends the acks of finished tasks along. So a single thread makes one round trip for each
task, and busy threads share round trips. Only one idle thread waits at the server; the others wait
for that thread. It must not decide what happens to a task: base.py and outcomes.py do.
"""

import logging
import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from dpq.model.errors import RateLimited, signal_of
from dpq.model.validation import MAX_BATCH
from dpq.operations.workers import BEAT_SECONDS
from dpq.protocol.command import Steps
from dpq.protocol.durability import CONFIRM_SECONDS
from dpq.queue.base import QueueBase, log_refused
from dpq.queue.lease_renewal import Lease
from dpq.queue.queue import DPQ
from dpq.transport.waiter import (
    Waiter,
    Watch,
    longest_block,
    owned_markers,
    sleep,
    time_left,
    waiter_argument,
    watches_after,
)
from dpq.worker.base import (
    LATEST_ACK_SECONDS,
    LEAVE_SECONDS,
    Context,
    Taken,
    WorkerBase,
    check_result,
    none_live,
)
from dpq.worker.outcomes import Done, GivenBack, Settling, shuts_something

__all__ = ["Worker"]

log = logging.getLogger(__name__)

STOP_CHECK_SECONDS = 0.25  # an idle worker sees a stop so late at most


class _Ahead(NamedTuple):
    """An exchange that was sent, and whose reply is not read yet.

    Attributes:
        queue_index: The index of the queue that was asked.
        asked: The operations that end deliveries.
        read: Waits for the results.
        since: The time when it was sent, monotonic seconds.
    """

    queue_index: int
    asked: list[Settling]
    read: Callable[[], list[Any]]
    since: float


class _Patient(Waiter):
    """A waiter whose block outlasts each look of its thread: an idle worker sends nothing."""

    def _block_seconds(self, left: float) -> float:
        # Not for a double such as fakeredis, whose blocks end late, or whose reads end early.
        return longest_block(self._nodes) if self._nodes.direct else super()._block_seconds(left)

    @property
    def waiting(self) -> bool:
        """True while all blocks are open: not after a marker or a failed connection."""
        return self._nodes.direct and all(block.until is not None for block in self._blocks)


class _Run:
    """A running handler: the index of its queue, its start (monotonic seconds), its context.

    Attributes:
        limit: Seconds that it may run, or None.
        ended: The handler has ended, and its thread is about to note the result.
        overdue: The error, if the handler ran too long and its attempt has failed.
    """

    __slots__ = ("began", "context", "ended", "limit", "overdue", "queue_index")

    def __init__(self, queue_index: int, began: float, limit: float | None) -> None:
        self.queue_index = queue_index
        self.began = began
        self.limit = limit
        self.context: Context[DPQ[Any]] | None = None
        self.ended = False
        self.overdue: BaseException | None = None


class Worker(WorkerBase[DPQ[Any]]):
    """Runs handlers of tasks in threads.

    `run` works until `stop`, SIGTERM or SIGINT; `drain` works until the queues are empty.
    """

    _waiter: _Patient
    _blocking = True

    def _prepare(self) -> None:
        self._lock = threading.Condition()  # reentrant: a signal handler may hold it already

    @classmethod
    def _kind(cls) -> type[QueueBase[Any]]:
        return DPQ

    def run(self, *, until_empty: bool = False, signals: bool = True) -> int:
        """Run handlers until `stop`.

        At the first SIGTERM or SIGINT the worker pops no more, and gives back the tasks that it has
        not begun. Handlers may finish within `grace`; then it gives their tasks back, uncounted. A
        second signal ends the grace at once. If the server goes away, the worker tries again, with
        longer and longer pauses. It also does so if the Redis user may not pop any more; it logs
        that once a minute.

        Args:
            until_empty: Also end when no live task is left in any of the queues. The worker waits
                for delayed tasks, and for tasks that run elsewhere.
            signals: Handle SIGTERM and SIGINT, if this is the main thread.

        Returns:
            The number of handlers that have ended since the worker was made.

        Raises:
            ConnectionError: The server cannot be reached at the start.
            AuthenticationError, ResponseError: The Redis user may not pop from a queue, and no pop
                from this queue was allowed before. With `until_empty`: the user may not, at any
                time.
            Exception: Any error that is not from a handler: a setting that the queue contradicts, a
                fault of DPQ itself.
        """
        self._begin(until_empty)
        self._waiter = _Patient(self.queues[0]._session.connections.nodes, self._markers())
        threads = [
            threading.Thread(target=self._guarded, args=(self._slot,), name=f"dpq-{n}", daemon=True)
            for n in range(self.concurrency)
        ]
        self._minder = threading.Thread(target=self._guarded, args=(self._mind,), daemon=True)
        if self.time_limit is not None or self.prefetch:
            threads.append(self._minder)
        beating = threading.Thread(target=self._beat, name="dpq-beat", daemon=True)
        with self._signals() if signals else nullcontext():
            try:
                for thread in (beating, *threads):
                    thread.start()
                self._wait_to_be_told()
            except BaseException:  # an interrupt, or no more threads: nothing goes on unseen
                self._cut_short.set()
                raise
            finally:
                try:
                    self._leave(threads)
                finally:  # also where a signal handler has broken that off
                    self._leave(threads)
                    if beating.is_alive():
                        beating.join(LEAVE_SECONDS)
        self._sum_up()
        if self._fault:
            raise self._fault
        return self.handled.total()

    def drain(self) -> int:
        """Run until no live task is left in any of the queues: `run(until_empty=True)`."""
        return self.run(until_empty=True)

    def stop(self) -> None:
        """Let `run` end, as after SIGTERM; any thread and any signal handler may call this.

        If no run is active, the next one ends as soon as it has begun.
        """
        with self._lock:
            if not self._on:
                self._stop_early = True
            elif self._stopping:
                self._cut_short.set()
            else:
                self._end()

    def _end(self) -> None:
        with self._lock:
            self._stopping = True
            self._ended.set()
            self._told.put(0)
            self._news.set()
            self._lock.notify_all()

    # Beginning and ending

    def _begin(self, until_empty: bool) -> None:
        self._ended = threading.Event()
        self._told: SimpleQueue[int] = SimpleQueue()  # not an Event: a signal handler that sets one
        # needs its lock, which its own thread may hold
        self._gone = threading.Event()
        self._cut_short = threading.Event()
        self._leaving_by: threading.Thread | None = None
        self._fault: BaseException | None = None
        self._idle = 0  # threads that want a task
        self._taken: deque[Taken] = deque()
        self._done: list[Done] = []
        self._running: dict[Lease, _Run] = {}
        self._look = False  # a thread should ask the server
        self._exchanging = False  # a thread is asking the server
        self._pausing = False  # after an error a thread waits before the next attempt
        self._sleeping = False  # a thread waits for a wake-up
        self._watches: list[Watch] = []
        self._low_water = self.prefetch // 2
        self._confirming = 0  # threads that wait for the confirmation of their acks
        self._minded = False  # the minder was started for a task with a time limit of its own
        self._ahead: deque[_Ahead] = deque()
        self._plenty = False  # the last reply had all the tasks that were asked for
        self._dozing = False  # the minder has nothing to do
        self._news = threading.Event()
        for queue in self.queues:
            queue._session.require_open()
            queue._session.ready()
        with self._lock:
            self._clock_on(until_empty)
            if self._stopping:
                self._end()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _: FrameType | None) -> None:
            self._told.put(number)
            self.stop()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wait_to_be_told(self) -> None:
        number = 0
        while not self._ended.is_set():
            with suppress(Empty):  # in steps: two signals at once may not wake a thread
                number = self._told.get(timeout=STOP_CHECK_SECONDS)
        if number:
            log.info("%s: %s, stopping", self.name, signal.Signals(number).name)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._fault = self._fault or error  # `run` raises it
            self._end()

    def _leave(self, threads: list[threading.Thread]) -> None:
        """Run `_finish` in a thread, since no signal handler can interrupt it there.

        Raises:
            BaseException: The error of a signal handler of the program; it ends the grace.
        """
        self._end()
        if self._leaving_by is None:
            self._leaving_by = threading.Thread(
                target=self._finish_and_go, args=(threads,), name="dpq-end", daemon=True
            )
            try:
                self._leaving_by.start()
            except RuntimeError:  # no more threads
                self._finish_and_go(threads)
        interrupted: BaseException | None = None
        while self._leaving_by.is_alive():
            try:
                self._leaving_by.join(STOP_CHECK_SECONDS)
            except BaseException as error:
                interrupted = error
                self._cut_short.set()
        if interrupted:
            raise interrupted

    def _finish_and_go(self, threads: list[threading.Thread]) -> None:
        try:
            self._guarded(lambda: self._finish(threads))
        finally:
            self._gone.set()

    def _finish(self, threads: list[threading.Thread]) -> None:
        """Wait for the running handlers, then give back the tasks that are left."""
        with self._lock:
            while self._exchanging or self._idle:
                self._lock.wait(STOP_CHECK_SECONDS / 5)
            while self._ahead:
                self._exchange()
            unbegun = [
                Done(taken.queue_index, taken.lease.task, GivenBack()) for taken in self._taken
            ]
            self._taken.clear()
            self._done += filter(self._claim, unbegun)
        self._flush()
        give_up = time.monotonic() + self.grace
        for thread in (*threads, *([self._minder] if self._minded else [])):
            while thread.is_alive() and time.monotonic() < give_up and not self._cut_short.is_set():
                thread.join(STOP_CHECK_SECONDS / 5)
                self._end_overdue()
                self._flush()
        with self._lock:
            running = list(self._running.items())
            unfinished = [Done(run.queue_index, lease.task, GivenBack()) for lease, run in running]
            left = list(filter(self._claim, unfinished))
            self._done += left
            while any(run.ended for run in list(self._running.values())):
                self._lock.wait(STOP_CHECK_SECONDS / 50)  # its thread is about to note the result
            self._lock.wait_for(lambda: not self._confirming, CONFIRM_SECONDS + LEAVE_SECONDS)
            self._on = False
        self.given_back = len(left)
        if left:
            log.warning("%s: gives back %d tasks whose handlers still run", self.name, len(left))
        self._flush()
        self._forget(self._done)
        self._waiter.withdraw(owned_markers(self._watches))
        self._waiter.close()

    # One thread

    def _slot(self) -> None:
        ended = self._ended  # of this run: its handler may outlive it
        while not ended.is_set() and (taken := self._next()):
            if taken.lease.alive:  # it may have been lost while it waited to begin
                self._handle(taken)

    def _handle(self, taken: Taken) -> None:
        queue_index, lease = taken
        task = lease.task
        error: BaseException | None = None
        running = self._running
        run = running[lease] = _Run(
            queue_index, time.monotonic(), task.time_limit or self.time_limit
        )
        if self._dozing:
            self._dozing = False
            self._news.set()
        try:
            if run.limit is not None:
                self._see_to_minding()
            if self._hooked or run.limit is not None:
                run.context = self._context(queue_index, lease)
                self._tell(self._before, run.context)
            handler = self._find(task)
            if handler.takes_context:
                run.context = run.context or self._context(queue_index, lease)
                result = handler.call(task, run.context)
            else:
                result = handler.call(task)
            if result is not None:
                check_result(handler, result)
        except BaseException as raised:  # the error says how the task goes on
            error = signal_of(raised)
            self._report(queue_index, task, error)
        error = run.overdue or error
        if run.context and self._hooked:
            for hook, what in self._hooks_at_end(run.context, error):
                self._tell(hook, *what)
        run.ended = True
        if self._tells_each:
            self._say_ended(queue_index, task, error, run.began)
        ended = Done(queue_index, task, error)
        held = self._claim(ended)
        with self._lock:
            running.pop(lease, None)
            self.handled["done" if error is None else type(error).__name__] += 1
            if held:  # else the handler has ended the delivery itself, or the lease is lost
                self._done.append(ended)
                if self._pausing:
                    self._lock.notify_all()
                if self.prefetch and isinstance(error, RateLimited):
                    self._give_back_alike(ended)
            done: list[Done] = []
            if self._confirms:
                done, self._done = self._done, done
        if done:
            self._settle_now(done)

    def _give_back_alike(self, done: Done) -> None:
        """Give back the prefetched tasks that would hit the same limit."""
        while self._ahead and not self._exchanging:
            self._exchange()
        fetched, self._taken = self._taken, deque()
        for taken in fetched:
            back = Done(taken.queue_index, taken.lease.task, GivenBack())
            if not done.shuts(taken.queue_index, back.task):
                self._taken.append(taken)
            elif self._claim(back):
                self._done.append(back)

    def _next(self) -> Taken | None:
        """Return the next task to handle, or None at a stop; wait or ask the server as needed."""
        with self._lock:
            self._idle += 1
            self._look = self._look or not self.prefetch  # the acks travel along
            try:
                while True:
                    if self._stopping:
                        return None
                    if self._taken:
                        if self._watches and self._idle == 1 and not self._exchanging:
                            self._stop_watching()
                            continue
                        if len(self._taken) == self._low_water and not self._ahead:
                            self._ask_ahead()
                        return self._taken.popleft()
                    self._look = self._look or not self._watches or bool(self._ahead)
                    if self._look and not self._exchanging:
                        self._exchange()
                    elif self._watches and not (self._sleeping or self._exchanging):
                        self._sleep()
                    else:
                        self._lock.wait()
            finally:
                self._idle -= 1

    # Asking the server; the lock is held, and released during the call

    def _exchange(self) -> None:
        """Send the ends of deliveries, and take tasks for all idle threads."""
        ahead = self._ahead.popleft() if self._ahead else None
        room = self._idle - self._sleeping + self.prefetch - len(self._taken)
        if ahead is None:
            done, self._done = self._done, []
        elif self._plenty and not self._ahead and room >= 2 * self._low_water:
            self._ask_ahead()  # so the server works while a reply is read
        self._look, self._exchanging = False, True
        asleep = self._sleeping
        taken: list[Taken] = []
        self._lock.release()
        try:
            if ahead:
                done, taken = [each for some in ahead.asked for each in some.done], []
                done, taken = self._read(ahead)
                self._plenty = len(taken) == self._low_water
            elif self._confirms and done:
                with suppress(RedisError):
                    done = self._settle(done)
                done += self._ask([], room, asleep, taken)
            else:
                done = self._ask(done, room, asleep, taken)
        finally:
            self._lock.acquire()
            self._exchanging = False
            self._done += done
            self._taken.extend(taken)
            if taken and len(taken) < self._idle and not asleep:
                self._look = True  # a thread that got none is to wait for more
            self._lock.notify_all()

    def _ask_ahead(self) -> None:
        """Send the next exchange while there are tasks to begin; its reply is read later."""
        if self._stopping or shuts_something(self._done):
            return
        done: list[Done] = []
        if not self._confirms:
            done, self._done = self._done, done
        queue_index = self._turns.next()[0]
        asked = self._settling(done)
        pop = self._operations[queue_index].pop(self._low_water, self.visibility)
        read = self.queues[0]._session.begin_all([*(each.operation for each in asked), pop])
        self._ahead.append(_Ahead(queue_index, asked, read, time.monotonic()))

    def _read(self, ahead: _Ahead) -> tuple[list[Done], list[Taken]]:
        *settled, batch = ahead.read()
        return self._unsettled(ahead.asked, settled), self._brought(ahead.queue_index, batch)

    def _brought(self, queue_index: int, batch: Any) -> list[Taken]:
        """Keep the tasks of a pop alive; after an error of the server, wait and return none."""
        if isinstance(batch, RedisError):
            self._wait_out(batch, queue_index)
            return []
        if isinstance(batch, Exception):
            raise batch
        self._turns.pay(queue_index, len(batch.tasks))
        if batch.failed:
            log_refused(self.queues[queue_index].queue_name, batch)
            self._look = True  # there may be more
        return self._hold(queue_index, batch.tasks)

    def _ask(self, done: list[Done], room: int, asleep: bool, taken: list[Taken]) -> list[Done]:
        """Ask queue after queue until there is no room left; add the tasks to `taken`.

        Returns:
            The deliveries whose end must be sent once more.
        """
        if not asleep and (unseen := self._unseen()):
            try:
                self._look_for_partitions(unseen)
            except RedisError as error:
                done = self._settle(done)
                self._wait_out(error)
                return done
        if shuts_something(done):
            done = self._settle(done)
        watches = self._of_each(self._watches)
        for queue_index in self._turns.next():
            mine = waiter_argument(watches[queue_index]) if watches[queue_index] else "-"
            pop = self._operations[queue_index].pop(
                min(room - len(taken), MAX_BATCH), self.visibility, "" if asleep else mine
            )
            asked = self._settling(done)
            operations = [*(each.operation for each in asked), pop]
            *settled, batch = self.queues[0]._session.run_all(operations)
            done = self._unsettled(asked, settled)
            taken += self._brought(queue_index, batch)
            if isinstance(batch, RedisError):
                return done
            watches[queue_index] = watches_after(batch, watches[queue_index])
            if len(taken) >= room:
                break
        if not taken and self._until_empty and self._all_gone():
            self._end()
        elif asleep:
            pass  # the sleeping thread has the watches
        elif taken:
            owed = self._owed(watches)
            if self._watches or owed:
                self._waiter.withdraw(owed)
                self._watches = []
        else:
            self._watches = [watch for each in watches for watch in each]
        return done

    def _look_for_partitions(self, unseen: Sequence[DPQ[Any]]) -> None:
        """Block on all markers of queues that did not exist before."""
        for queue in unseen:
            queue._session.ready()
        markers = self._markers()
        if len(markers) != len(self._waiter.markers):
            self._waiter.withdraw(owned_markers(self._watches))
            self._waiter.close()
            self._waiter, self._watches = (
                _Patient(self.queues[0]._session.connections.nodes, markers),
                [],
            )

    def _stop_watching(self) -> None:
        """Stop waiting at the server, since every thread has work; pass wake-ups on."""
        watches, self._watches = self._watches, []
        self._exchanging = True
        self._lock.release()
        try:
            self._waiter.withdraw(owned_markers(watches))
        finally:
            self._lock.acquire()
            self._exchanging = False
            self._lock.notify_all()

    def _all_gone(self) -> bool:
        counts = [operations.stats() for operations in self._operations]
        return none_live(self.queues[0]._session.run_all(counts))

    def _wait_out(self, error: RedisError, queue_index: int | None = None) -> None:
        pause = self._wait_longer(error, queue_index)
        self._look = True
        until = time.monotonic() + pause
        settles = True
        while not self._stopping and (left := until - time.monotonic()) > 0:
            if self._done and settles:  # ended deliveries do not wait
                settles = self._flush()
                continue
            with self._lock:
                self._pausing = True
                if not (self._stopping or (self._done and settles)):
                    self._lock.wait(left)
                self._pausing = False

    def _sleep(self) -> None:
        """Wait for a wake-up, at most `STOP_CHECK_SECONDS`."""
        self._sleeping = True
        self._lock.release()
        try:
            sleep(self._waiter, self._watches, time.monotonic() + STOP_CHECK_SECONDS)
            due = not self._waiter.waiting or time_left(self._watches, math.inf) <= 0
        finally:
            self._lock.acquire()
            self._sleeping = False
        self._look = self._look or due

    def _flush(self) -> bool:
        """Send the ends of deliveries without a pop; False if some must be sent once more."""
        with self._lock:
            done, self._done = self._done, []
        return not done or self._settle_now(done)

    def _settle_now(self, done: list[Done]) -> bool:
        with self._lock:
            self._confirming += 1
        try:
            with suppress(RedisError):  # then all of it must be sent once more
                done = self._settle(done)
        finally:
            with self._lock:
                self._confirming -= 1
                self._done += done
                self._lock.notify_all()
        return not done

    def _settle(self, done: list[Done]) -> list[Done]:
        """Send the ends of deliveries; return those that must be sent once more."""
        asked = self._settling(done)
        results = self.queues[0]._session.run_all([each.operation for each in asked])
        return self._unsettled(asked, results)

    # Heartbeats

    def _beat(self) -> None:
        """Send heartbeats at the beginning, every 10 s and at the end."""
        while not self._gone.is_set():
            self._say(self._beats(run.queue_index for run in list(self._running.values())))
            self._gone.wait(BEAT_SECONDS)
        self._say(self._leaving())

    def _say(self, operations: Sequence[Steps[Any]]) -> None:
        try:
            self.queues[0]._session.run_all(operations)
            if self._on_beat:
                self._on_beat()
        except Exception:  # a worker that cannot send heartbeats works on
            log.debug("%s: cannot tell of itself", self.name, exc_info=True)

    # The minder: does what must not wait until a thread is idle

    def _mind(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                self._dozing = not (self._running or self._done)
                self._news.clear()
            if self._dozing:
                self._news.wait(STOP_CHECK_SECONDS)
                continue
            self._ended.wait(LATEST_ACK_SECONDS)
            self._end_overdue()
            with self._lock:
                late = self._ahead and self._ahead[0].since < time.monotonic() - LATEST_ACK_SECONDS
                if late and not self._exchanging:
                    self._exchange()
            self._flush()
            with self._lock:
                if self._until_empty and not (self._running or self._done):
                    self._look = True  # no task may be left for the waiting threads
                    self._lock.notify_all()

    def _see_to_minding(self) -> None:
        """Start the minder for a task with a time limit, if the worker itself has none."""
        with self._lock:
            if self.time_limit is None and not self.prefetch and not self._minded:
                self._minded = True
                self._minder.start()

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for lease, run in list(self._running.items()):
            if (limit := run.limit) is not None and run.began + limit <= now:
                done = Done(
                    run.queue_index, lease.task, TimeoutError(f"ran longer than {limit:g} s")
                )
                if self._claim(done):
                    log.warning("%s: %s %s", self.name, lease.task.id, done.error)
                    run.overdue = done.error
                    if run.context:
                        run.context._lose()
                    with self._lock:
                        self._done.append(done)
