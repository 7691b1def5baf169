"""The runner of a `Worker`: calls handlers in threads, and hands their ends to the fetcher.

Of the threads that want a task one leads: it runs the steps of the fetcher, for all, until there is
a task. So a single thread makes one round trip for each task, and busy threads share round trips.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpq.limits.signals import signal_of
from dpq.queue.end_log import about
from dpq.script.durability import CONFIRM_SECONDS
from dpq.worker.deliveries import Taken
from dpq.worker.handler_calls import Call, HandlerCalls
from dpq.worker.handlers import TIME_LIMIT
from dpq.worker.run_state import LATEST_ACK_SECONDS, LEAVE_SECONDS, STOP_CHECK_SECONDS, RunState

if TYPE_CHECKING:
    from dpq.worker.fetcher import Fetcher

log = logging.getLogger(__name__)


class Runner:
    """Calls the handlers of one run of a worker. Whatever its threads share changes under `lock`.

    Attributes:
        tick: Seconds between two calls of `watch`; `wake` is called when they become fewer.
    """

    def __init__(
        self,
        calls: HandlerCalls[Any],
        fetcher: Fetcher,
        state: RunState,
        lock: Any,
        wake: Callable[[], None],
    ) -> None:
        often = calls.time_limit is not None or state.prefetch > 0
        self.tick, self._wake = LATEST_ACK_SECONDS if often else STOP_CHECK_SECONDS, wake
        self._running: set[Call] = set()
        self._calls, self._fetcher, self._state, self._lock = calls, fetcher, state, lock
        self._changed = threading.Condition(lock)  # notified when an idle thread may go on
        self._idle = 0  # threads that want a task
        self._leads = False  # one of them runs the steps of the fetcher

    @property
    def running(self) -> list[Call]:
        return list(self._running)

    def work(self) -> None:
        while taken := self._next_task():
            if taken.lease.alive:  # the lease may be lost before the handler begins
                self._handle(taken)

    def _next_task(self) -> Taken | None:
        with self._lock:
            self._idle += 1
            try:
                if self._fetcher.is_low and not self._leads and not self._state.stopping:
                    self._lead()
                while not self._state.stopping:
                    if taken := self._fetcher.take():
                        return taken
                    if self._leads:
                        self._changed.wait()
                    else:
                        self._lead()
                return None
            finally:
                self._idle -= 1
                self._changed.notify()  # the next one takes a task, or leads

    def _lead(self) -> None:
        self._leads = True
        try:
            self._fetcher.step(self._idle)
        finally:
            self._leads = False

    def stop(self) -> None:
        """Wake all threads, so that they see the stop; the lock is held."""
        self._fetcher.change.note()
        self._changed.notify_all()

    # Handlers

    def _handle(self, taken: Taken) -> None:
        """Call the handler of a task, and its hooks; hand the end over to the fetcher."""
        calls = self._calls
        call = calls.make(taken, self._state)
        self._running.add(call)
        calls.start(call)
        error = self._call(call)
        error = call.overdue or error
        for hook, args in calls.hooks_at_end(call.context, error):
            calls.call_hook(hook, *args)
        done = calls.finish(call, error)
        with self._lock:
            try:
                self._fetcher.change.note()
                self._fetcher.handled(done, time.monotonic() - call.began)
            finally:
                self._running.remove(call)

    def _call(self, call: Call) -> BaseException | None:
        calls = self._calls
        try:
            if call.limit is not None and self.tick > LATEST_ACK_SECONDS:
                self.tick = LATEST_ACK_SECONDS
                self._wake()
            calls.call_hook(calls.before, call.context)
            handler = calls.find(call.task)
            calls.take_result(call, handler, handler.call(*call.arguments(handler)))
        except BaseException as raised:  # the error decides how the task goes on
            return signal_of(raised, from_errors=calls.from_errors)
        return None

    # Handlers that run too long

    def watch(self) -> None:
        """End overdue attempts, and send ends of deliveries that no thread has taken along."""
        self.end_overdue()
        with self._lock:
            self._fetcher.send_late()

    def end_overdue(self) -> None:
        """Fail attempts that run too long: a thread cannot be cancelled. Contexts say `lost`."""
        calls, now = self._calls, time.monotonic()
        for call in self.running:
            if call.limit is None or call.began + call.limit > now or call.overdue:
                continue
            error = TimeoutError(f"ran longer than {call.limit:g} s")
            done = calls.ending(call, error)
            if calls.deliveries.claim(done):
                ms = round((now - call.began) * 1000, 3)
                more = about("overdue", calls.name, call.queue.queue_name, call.task, ms=ms)
                log.warning("%s: task %s %s", calls.name, call.task.id, error, extra=more)
                call.overdue = error
                call.context._lose(TIME_LIMIT)
                with self._lock:
                    self._fetcher.add(done)

    # The end of a run

    def wait_for_lead(self) -> None:
        """Wait until no thread asks the server for tasks any more."""
        with self._lock:
            while self._idle:
                self._changed.wait(LATEST_ACK_SECONDS)

    def give_back_running(self) -> int:
        """Let the tasks of handlers that still run be given back, uncounted; return their number.

        Handlers that end now come first: their results are sent.
        """
        with self._lock:
            left = self._fetcher.give_back(self.running)
            until = time.monotonic() + CONFIRM_SECONDS + LEAVE_SECONDS
            while any(call.ended for call in self.running) and time.monotonic() < until:
                self._changed.wait(LATEST_ACK_SECONDS / 10)
        return left
