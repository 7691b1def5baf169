"""The runner of a `Worker`: calls handlers in threads, and hands their ends to the fetcher.

`Worker` starts threads of `Runner.work`. A runner sends nothing itself.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpq.limits.budget import budgets_in
from dpq.queue.lease_renewal import Lease
from dpq.worker.deliveries import Deliveries, Taken
from dpq.worker.handler_calls import HandlerCalls
from dpq.worker.handlers import check_result
from dpq.worker.heartbeats import Holding
from dpq.worker.outcomes import Done
from dpq.worker.overdue import HandlerRun, OverdueWatch
from dpq.worker.run_state import STOP_CHECK_SECONDS, RunState

if TYPE_CHECKING:
    from dpq.worker.fetcher import Fetcher


class Runner:
    """Calls the handlers of one run of a worker.

    Args:
        calls: The handlers and hooks of the worker.
        deliveries: The leases of the worker.
        fetcher: The fetcher that has the next task.
        state: The state of the run.
        lock: The lock of the worker.
        guarded: A function that calls its argument, and takes care of its errors.

    Attributes:
        overdue: The watch over handlers that run too long.
    """

    def __init__(
        self,
        calls: HandlerCalls[Any],
        deliveries: Deliveries,
        fetcher: "Fetcher",
        state: RunState,
        *,
        lock: Any,
        guarded: Callable[[Callable[[], None]], None],
    ) -> None:
        self._running: dict[Lease, HandlerRun] = {}
        self.overdue = OverdueWatch(
            *(calls.name, self._running, fetcher, deliveries, state),
            lock=lock,
            guarded=guarded,
            delay_after=calls.delay_after,
        )
        self._calls = calls
        self._deliveries = deliveries
        self._fetcher = fetcher
        self._state = state
        self._lock = lock
        self._logs_ends = calls.logs_ends

    @property
    def running(self) -> list[Holding]:
        """The tasks of the running handlers."""
        return [
            Holding(run.queue_index, lease.task, run.began)
            for lease, run in list(self._running.items())
        ]

    def work(self) -> None:
        """Handle task after task, until a stop."""
        while taken := self._fetcher.next_task():
            if taken.lease.alive:  # the lease may be lost before the handler begins
                self.handle(taken)

    def handle(self, taken: Taken) -> None:
        """Call the handler of a task, and its hooks; hand the end over to the fetcher."""
        queue_index, lease, _ = taken
        calls, task = self._calls, lease.task
        limit = task.time_limit or calls.time_limit
        run = self._running[lease] = HandlerRun(queue_index, time.monotonic(), limit)
        if self.overdue.asleep:
            self.overdue.wake()
        tracing = calls.traced and calls.trace(queue_index, task)
        error = self._call(run, lease)
        error = run.overdue or error
        delay = None if run.overdue else calls.delay_after(queue_index, task, error)
        done = Done(queue_index, task, error, delay=delay)
        if context := run.context:
            if calls.hooked:
                for hook, args in calls.hooks_at_end(context, error):
                    calls.call_hook(hook, *args)
            done = done._replace(budgets=tuple(context.budgets.values()), cost=context.told)
        if run.kept:
            done = done._replace(kept=run.kept)
        if tracing:
            tracing.end(error)
        run.ended = True
        if self._logs_ends:
            calls.log_end(queue_index, task, error, run.began)
        held = self._deliveries.claim(done)
        with self._lock:
            self._running.pop(lease, None)
            calls.count(error, lease)
            self._fetcher.took(time.monotonic() - run.began)
            if held:  # else the handler itself has ended the delivery, or the lease is lost
                self._fetcher.add(done)
        self._fetcher.confirm()

    def _call(self, run: HandlerRun, lease: Lease) -> BaseException | None:
        """Call the handler, with a context if the handler or a hook needs it; return its error."""
        calls, task = self._calls, lease.task
        try:
            if run.limit is not None:
                self.overdue.start()
            if calls.hooked or run.limit is not None:
                run.context = calls.context(run.queue_index, lease, self._state)
                calls.call_hook(calls.before, run.context)
            handler = calls.find(task)
            if handler.takes_context:
                run.context = run.context or calls.context(run.queue_index, lease, self._state)
                result = handler.call(task, run.context)
            else:
                result = handler.call(task)
            if result is not None:
                check_result(handler, result)
                if heard := budgets_in(result):
                    run.context = run.context or calls.context(run.queue_index, lease, self._state)
                    run.context.hear(heard)
            run.kept = calls.kept(run.queue_index, handler, task, result)
        except BaseException as raised:  # the error decides how the task goes on
            error = calls.signal_of(raised)
            calls.log_failure(run.queue_index, task, error)
            return error
        return None

    def give_back_running(self) -> int:
        """Let the tasks of handlers that still run be given back, uncounted; return their number.

        Handlers that end now come first: their results are sent.
        """
        with self._lock:
            running = list(self._running.items())
            left = self._deliveries.claim_back(
                Taken(run.queue_index, lease) for lease, run in running
            )
            self._fetcher.ends += left
            while any(run.ended for run in list(self._running.values())):
                self._fetcher.wait_for_change(
                    STOP_CHECK_SECONDS / 50
                )  # the handler has ended, and its thread notes the result
            self._fetcher.wait_for_confirmations()
        return len(left)
