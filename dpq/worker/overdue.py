"""The overdue watch of a `Worker`: ends the attempts of handlers that run too long.

A thread cannot be cancelled, so another thread has to look. The same thread sends acks that no
other thread takes along in time. The runner makes the watch, and reports each handler to it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dpq.model.log_fields import fields
from dpq.queue.lease_renewal import Lease
from dpq.worker.deliveries import Deliveries
from dpq.worker.handlers import TIME_LIMIT, Context
from dpq.worker.outcomes import Done
from dpq.worker.run_state import LATEST_ACK_SECONDS, STOP_CHECK_SECONDS, RunState

if TYPE_CHECKING:
    from dpq.model.task import Task
    from dpq.worker.fetcher import Fetcher

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class HandlerRun:
    """A running handler: the index of its queue, its start (monotonic seconds), its context.

    Attributes:
        limit: Seconds that it may run, or None.
        ended: The handler has ended, and its thread is about to note the result.
        overdue: The error, if the handler ran too long and its attempt has failed.
        kept: The line of its result, or "".
    """

    queue_index: int
    began: float
    limit: float | None
    context: Context[Any] | None = None
    ended: bool = False
    overdue: BaseException | None = None
    kept: str = ""


class OverdueWatch:
    """The thread that ends overdue attempts, and sends acks that have waited too long.

    Args:
        name: The name of the worker, for the log.
        running: The running handlers; the runner changes it.
        fetcher: The fetcher that sends.
        deliveries: The leases of the worker.
        state: The state of the run.
        lock: The lock of the worker.
        guarded: A function that calls its argument, and takes care of its errors.
        delay_after: `HandlerCalls.delay_after`.

    Attributes:
        asleep: No handler ran when the thread looked; the next handler wakes the thread.
        thread: The thread, which `start` starts.
    """

    def __init__(
        self,
        name: str,
        running: dict[Lease, HandlerRun],
        fetcher: Fetcher,
        deliveries: Deliveries,
        state: RunState,
        *,
        lock: Any,
        guarded: Callable[[Callable[[], None]], None],
        delay_after: Callable[[int, Task[Any], BaseException], float | timedelta | None],
    ) -> None:
        self.asleep = False
        self.thread = threading.Thread(target=guarded, args=(self._work,), daemon=True)
        self._name = name
        self._running = running
        self._fetcher = fetcher
        self._deliveries = deliveries
        self._state = state
        self._lock = lock
        self._delay_after = delay_after
        self._wake = threading.Event()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread, unless it was started before."""
        with self._lock:
            if self.thread.ident is None:
                self.thread.start()

    def wake(self) -> None:
        """Let the thread look: a handler has begun."""
        self.asleep = False
        self._wake.set()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()
        self._wake.set()

    def _work(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                self.asleep = not (self._running or self._fetcher.ends)
                self._wake.clear()
            if self.asleep:
                self._wake.wait(STOP_CHECK_SECONDS)
                continue
            self._stopped.wait(LATEST_ACK_SECONDS)
            self.end_overdue()
            self._fetcher.send_late()
            if self._state.until_empty:
                with self._lock:
                    if not (self._running or self._fetcher.ends):
                        self._fetcher.look_again()

    def end_overdue(self) -> None:
        """Fail the attempts of handlers that run too long; their contexts say `lost`."""
        now = time.monotonic()
        for lease, run in list(self._running.items()):
            if (limit := run.limit) is not None and run.began + limit <= now:
                error = TimeoutError(f"ran longer than {limit:g} s")
                told = run.context.told if run.context else None
                delay = self._delay_after(run.queue_index, lease.task, error)
                done = Done(run.queue_index, lease.task, error, cost=told, delay=delay)
                if self._deliveries.claim(done):
                    about = fields(
                        "overdue",
                        worker=self._name,
                        task_id=lease.task.id,
                        group=lease.task.group,
                        attempt=lease.task.attempt,
                        ms=round((now - run.began) * 1000, 3),
                    )
                    log.warning("%s: task %s %s", self._name, lease.task.id, error, extra=about)
                    run.overdue = error
                    if run.context:
                        run.context._lose(TIME_LIMIT)
                    with self._lock:
                        self._fetcher.add(done)
