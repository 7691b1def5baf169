"""`Worker`: the life of a worker of threads, from `run` to its return.

It begins, stops, gives back and leaves. In between runner.py calls handlers, and fetcher.py asks
the server.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Self

from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.queue.inside import session_of
from dpq.queue.queue import DPQ
from dpq.worker.base import WorkerBase
from dpq.worker.run_state import LEAVE_SECONDS, MAIN_LOOP, STOP_CHECK_SECONDS, stop_signals

__all__ = ["Worker"]

log = logging.getLogger(__name__)


class Worker(WorkerBase[DPQ[Any]]):
    """Runs handlers of tasks in threads.

    `run` works until `stop`, SIGTERM or SIGINT; `drain` works until the queues are empty.
    """

    _blocking, _kind = True, DPQ
    _thread: threading.Thread  # of the run
    _fault: BaseException | None  # `run` raises it

    def run(self, *, until_empty: bool = False, signals: bool | None = None) -> int:
        """Run handlers until `stop`.

        At the first SIGTERM or SIGINT the worker pops no more, and gives back the tasks that it has
        not begun. Handlers may finish within `grace`; then it gives their tasks back, uncounted. A
        second signal ends the grace at once. If the server goes away, the worker tries again, with
        longer and longer pauses. It also does so if the Redis user may not pop any more.

        Args:
            until_empty: Also end when no live task is left in any of the queues. The worker waits
                for delayed tasks, and for tasks that run elsewhere.
            signals: Handle SIGTERM and SIGINT, if this is the main thread. None means True for a
                `Worker`. An `AsyncWorker` then takes those that have no handler yet, and leaves
                the others to the program, such as uvicorn. A signal ends all `AsyncWorker`s of the
                main thread, except those with False.

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
        with self._signals() if signals is not False else nullcontext():
            self._join()
        return self.handled.total()

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
        self._begin(until_empty=False, alone=True)
        try:
            yield self
        finally:
            with self._lock:
                if self._on:  # a `stop` without a run is for the next one
                    self.stop()
            self._join()

    def _join(self) -> None:
        """Wait for the end of the run; raise what has ended it, or what cut the grace short."""
        while self._thread.is_alive():
            try:
                # In steps: two signals at once may not wake a thread.
                self._thread.join(STOP_CHECK_SECONDS)
            except BaseException as error:
                self._fault = error
                self._cut_short()
        if self._fault:
            raise self._fault

    def drain(self) -> int:
        """Run until no live task is left in any of the queues: `run(until_empty=True)`."""
        return self.run(until_empty=True)

    def _end(self) -> None:
        with self._lock:
            self._state.stopping = True
            self._stops.put(None)
            self._runner.stop()

    def _cut_short(self) -> None:
        self._end()
        self._no_grace.set()

    def _begin(self, until_empty: bool, alone: bool = False) -> None:
        """Open the queues, make the parts of a run, and start its thread, where no signal comes."""
        from dpq.worker.change import Change
        from dpq.worker.fetcher import Fetcher, WakeUps
        from dpq.worker.runner import Runner
        from dpq.worker.telling import Telling

        for queue in self.queues:
            session_of(queue).require_open()
            session_of(queue).ready()
        # An Event does not fit: a signal handler that sets it needs its lock, and the interrupted
        # thread may hold this lock.
        self._stops: SimpleQueue[None] = SimpleQueue()
        self._signal = ""  # the first that came
        self._no_grace = threading.Event()
        self._fault = None
        parts = (Change(self._lock), Fetcher, WakeUps, Telling)
        state = self._make_parts(until_empty, *parts)
        wake = partial(self._stops.put, None)
        self._runner = Runner(self._calls, self._fetcher, state, self._lock, wake)
        self._thread = threading.Thread(target=self._live, args=(alone,), name="dpq-run")
        self._thread.daemon = True
        with self._lock:
            self._thread.start()
            self._begin_run(state)
            if state.stopping:
                self._end()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _: FrameType | None) -> None:
            self._signal = self._signal or signal.Signals(number).name
            self.stop()

        before = {number: signal.signal(number, stop) for number in stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # One run

    def _live(self, alone: bool) -> None:
        """Run handlers until a stop; then give back what is left. If `alone`, log an own fault."""
        with self._lock:  # until `_begin` has begun the run
            work = (self._runner.work,)
        beating = threading.Thread(target=self._telling.run, args=(self._held, self._heed))
        beating.daemon = True
        threads = [
            threading.Thread(target=self._guarded, args=work, name=f"dpq-{n}", daemon=True)
            for n in range(self.concurrency)
        ]
        self._guarded(lambda: self._go_on([beating, *threads]))
        self._guarded(lambda: self._finish(threads))
        self._on = False
        self._telling.end()
        if beating.is_alive():
            beating.join(LEAVE_SECONDS)
        self._log_totals()
        if alone and (error := self._fault):
            about = fields("worker_failed", worker=self.name, error=error_line(error))
            log.error("%s: has ended by an error", self.name, exc_info=error, extra=about)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._fault = self._fault or error
            self._end()

    def _go_on(self, threads: list[threading.Thread]) -> None:
        """Run the threads until a stop."""
        for thread in threads:
            thread.start()
        while not self._state.stopping:
            self._state.pulse.move(MAIN_LOOP)
            with suppress(Empty):
                self._stops.get(timeout=self._runner.tick)
            self._runner.watch()
        if said := self._signal:
            about = fields("worker_stopping", worker=self.name, reason=said)
            log.info("%s: %s, stopping", self.name, said, extra=about)

    def _finish(self, threads: list[threading.Thread]) -> None:
        fetcher, runner = self._fetcher, self._runner
        runner.wait_for_lead()
        with self._lock:
            fetcher.give_back_unbegun()
        give_up = time.monotonic() + self.grace
        for thread in threads:
            while thread.is_alive() and time.monotonic() < give_up and not self._no_grace.is_set():
                self._state.pulse.move(MAIN_LOOP)
                thread.join(STOP_CHECK_SECONDS / 5)
                runner.end_overdue()
                with self._lock:
                    fetcher.send_ends()
        self._gave_back(runner.give_back_running())
        with self._lock:
            fetcher.send_ends()
            fetcher.close()
            fetcher.change.close()

    def _heed(self) -> None:
        with self._lock:
            self._fetcher.heed()
