"""`Worker`: the life of a worker of threads, from `run` to its return.

It begins, stops, gives back and leaves. What happens in between stands elsewhere: runner.py calls
handlers, fetcher.py asks the server.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.queue.inside import session_of
from dpq.queue.queue import DPQ
from dpq.worker.base import WorkerBase
from dpq.worker.heartbeats import Holding
from dpq.worker.run_state import (
    LEAVE_SECONDS,
    MAIN_LOOP,
    STOP_CHECK_SECONDS,
    RunState,
)
from dpq.worker.stop_signals import stop_signals

if TYPE_CHECKING:
    from dpq.queue.base import QueueBase

__all__ = ["Worker"]

log = logging.getLogger(__name__)


class Worker(WorkerBase[DPQ[Any]]):
    """Runs handlers of tasks in threads.

    `run` works until `stop`, SIGTERM or SIGINT; `drain` works until the queues are empty.
    """

    _blocking = True

    def _prepare(self) -> None:
        # Reentrant: a signal handler of the same thread may take it again.
        self._lock = threading.RLock()

    @classmethod
    def _kind(cls) -> type[QueueBase[Any]]:
        return DPQ

    def run(self, *, until_empty: bool = False, signals: bool | None = None) -> int:
        """Run handlers until `stop`.

        At the first SIGTERM or SIGINT the worker pops no more, and gives back the tasks that it has
        not begun. Handlers may finish within `grace`; then it gives their tasks back, uncounted. A
        second signal ends the grace at once. If the server goes away, the worker tries again, with
        longer and longer pauses. It also does so if the Redis user may not pop any more; it logs
        that once a minute.

        Args:
            until_empty: Also end when no live task is left in any of the queues. The worker waits
                for delayed tasks, and for tasks that run elsewhere.
            signals: Handle SIGTERM and SIGINT, if this is the main thread. None means True for a
                `Worker`. An `AsyncWorker` then takes those that have no handler yet, and leaves
                the others to the program, such as uvicorn.

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
        return self._go_on(signals is not False)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run in the background of the body of a `with`; stop, with grace, after the body.

            with worker.running():
                serve()

        So a worker lives inside of a program that has its own main loop and signal handlers: it
        takes no signals. If it cannot begin, the `with` raises that. If its run ends by an error of
        its own, the `with` of a `Worker` raises it after the body. An `AsyncWorker` cancels the
        body, and raises it at once. A handler's error is none of these. If the body is interrupted
        while the worker stops, or an async body is cancelled, the grace ends.

        Yields:
            The worker.

        Raises:
            Exception: As `run`.
        """
        self._begin(until_empty=False)
        faults: list[BaseException] = []

        def run() -> None:
            try:
                self._go_on(signals=False)
            except BaseException as error:
                faults.append(error)
                about = fields("worker_failed", worker=self.name, error=error_line(error))
                log.exception("%s: has ended by an error", self.name, extra=about)

        thread = threading.Thread(target=run, name="dpq-run", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            self._leave([])
            raise
        try:
            yield self
        finally:
            self._stop_run()
            try:
                thread.join()
            except BaseException:  # any interrupt ends the grace
                self._stop_run()
                thread.join()
                raise
        if faults:
            raise faults[0]

    def _stop_run(self) -> None:
        """Stop the run, if there is one: a `stop` without a run is for the next one."""
        with self._lock:
            if self._on:
                self.stop()

    def _go_on(self, signals: bool) -> int:
        """Run handlers until the end of a run that has begun, and leave it; see `run`."""
        threads = [
            threading.Thread(
                target=self._guarded, args=(self._runner.work,), name=f"dpq-{n}", daemon=True
            )
            for n in range(self.concurrency)
        ]
        beating = threading.Thread(
            target=self._telling.run, args=(self._held, self._heed), name="dpq-beat", daemon=True
        )
        with self._signals() if signals else nullcontext():
            try:
                for thread in (beating, *threads):
                    thread.start()
                if self.time_limit is not None or self.prefetch:
                    self._runner.start_watch()
                self._wait_for_stop()
            # On an interrupt, or without more threads, no part works on unseen.
            except BaseException:
                self._cut_short.set()
                raise
            finally:
                try:
                    self._leave(threads)
                finally:  # also if a signal handler has interrupted the wait
                    self._leave(threads)
                    if beating.is_alive():
                        beating.join(LEAVE_SECONDS)
        self._log_totals()
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
            elif self._state.stopping:
                self._cut_short.set()
            else:
                self._end()

    def _end(self) -> None:
        """Let all parts of the run see that it is to end."""
        with self._lock:
            self._state.stopping = True
            self._stop_numbers.put(0)
            self._runner.stop()

    # Beginning

    def _begin(self, until_empty: bool) -> None:
        """Open the queues, and make the parts of a run."""
        from dpq.worker.change import Change
        from dpq.worker.fetcher import Fetcher
        from dpq.worker.runner import Runner
        from dpq.worker.telling import Telling
        from dpq.worker.wakeups import WakeUps

        self._stop_numbers: SimpleQueue[int] = SimpleQueue()  # signal numbers; 0: `stop` was called
        # An Event does not fit: a signal handler that sets it needs its lock, and the interrupted
        # thread may hold this lock.
        self._cut_short = threading.Event()
        self._leaving_by: threading.Thread | None = None
        self._fault: BaseException | None = None
        for queue in self.queues:
            session_of(queue).require_open()
            session_of(queue).ready()
        state = RunState(until_empty=until_empty, end=self._end)
        plan, session = self._new_plan(state), session_of(self.queues[0])
        change = Change(self._lock)
        wakeups = WakeUps(session.connections, plan.markers(), change)
        self._fetcher = Fetcher(plan, session, wakeups, change)
        self._runner = Runner(
            *(self._calls, self._deliveries, self._fetcher, state, self._lock, self._guarded)
        )
        progress = self._calls.progress
        self._telling = Telling(
            *(self.name, self.queues, self.concurrency, state, session, progress)
        )
        self._telling.on_beat = self._on_beat
        progress.wake = self._telling.noted.set
        with self._lock:
            self._begin_run(state)
            if state.stopping:
                self._end()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _: FrameType | None) -> None:
            self._stop_numbers.put(number)
            self.stop()

        before = {number: signal.signal(number, stop) for number in stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _wait_for_stop(self) -> None:
        number = 0
        while not self._state.stopping:
            self._state.pulse.move(MAIN_LOOP)
            with suppress(Empty):  # wait in steps: two signals at once may not wake a thread
                number = self._stop_numbers.get(timeout=STOP_CHECK_SECONDS)
        with suppress(Empty):  # the signal came between two waits
            number = number or self._stop_numbers.get_nowait()
        if number:
            said = signal.Signals(number).name
            about = fields("worker_stopping", worker=self.name, reason=said)
            log.info("%s: %s, stopping", self.name, said, extra=about)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._fault = self._fault or error  # `run` raises it
            self._end()

    # Ending

    def _leave(self, threads: list[threading.Thread]) -> None:
        """Run `_finish` in a thread, since no signal handler can interrupt it there."""
        self._end()
        if self._leaving_by is None:
            self._leaving_by = threading.Thread(
                target=self._finish_and_go, args=(threads,), name="dpq-end", daemon=True
            )
            try:
                self._leaving_by.start()
            except RuntimeError:  # the system has no more threads
                self._finish_and_go(threads)
        interrupted: BaseException | None = None
        while self._leaving_by.is_alive():
            self._state.pulse.move(MAIN_LOOP)
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
            self._telling.end()

    def _finish(self, threads: list[threading.Thread]) -> None:
        """Wait for the running handlers, then give back the tasks that are left."""
        fetcher, runner = self._fetcher, self._runner
        runner.wait_for_lead()
        with self._lock:
            fetcher.give_back_unbegun()
        give_up = time.monotonic() + self.grace
        for thread in (*threads, runner.watch):
            while thread.is_alive() and time.monotonic() < give_up and not self._cut_short.is_set():
                thread.join(STOP_CHECK_SECONDS / 5)
                runner.end_overdue()
                with self._lock:
                    fetcher.send_ends()
        self.given_back = runner.give_back_running()
        self._log_given_back()
        with self._lock:
            self._on = False
            fetcher.send_ends()
            fetcher.close()
            fetcher.change.close()

    # Heartbeats

    def _held(self) -> list[Holding]:
        with self._lock:
            return self._runner.running + self._fetcher.held

    def _heed(self) -> None:
        with self._lock:
            self._fetcher.heed()
