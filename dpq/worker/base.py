"""The arguments of both workers, checked once.

`Worker` and `AsyncWorker` derive from it; they begin, stop and end a run. No waiting here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, get_args

from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.validation import MAX_ATTEMPTS, MAX_SECONDS, label, number, whole_number
from dpq.queue.base import QueueBase, check_one_client
from dpq.queue.inside import operations_of, process_name, session_of
from dpq.worker.handlers import (
    ASYNC_HANDLER,
    Context,
    Handlers,
    Q,
    awaits,
    by_name,
    finder,
    kept_for,
)
from dpq.worker.run_state import AskOrder, RunState

if TYPE_CHECKING:
    from dpq.model.reports import Health
    from dpq.worker.handler_calls import HandlerCalls, Held, WorkerBackoff

log = logging.getLogger(__name__)

QueueOrder = Literal["strict", "round_robin"]
"""The order of the queues: `"strict"` as they were named, `"round_robin"` each in turn."""

MAX_CONCURRENCY = 10_000
MAX_PREFETCH = 1000

DEFAULT_GRACE = 25.0
"""Seconds that handlers have to finish after a stop.

Kubernetes kills 30 s after SIGTERM: 5 s are left to give back the tasks that still run. Docker
kills after 10 s by default: docs/workers.md.
"""


class WorkerBase(Generic[Q]):
    """The constructor and the decisions of both workers.

    Attributes:
        queues: The queues, in the order given.
        handled: The number of handlers that have ended since the worker was made, by their end:
            `"done"`, or the name of the error.
        given_back: The number of handlers of the last run that did not end in time: their tasks
            were given back, uncounted.
    """

    def __init__(
        self,
        queues: Q | Sequence[Q] | Mapping[Q, int],
        handlers: Handlers,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        order: QueueOrder = "strict",
        visibility: float | None = None,
        time_limit: float | None = None,
        keep_result: bool | float | None = None,
        backoff: WorkerBackoff | None = None,
        from_errors: bool = True,
        grace: float = DEFAULT_GRACE,
        name: str | None = None,
        version: str | None = None,
        before: Callable[[Context[Q]], Any] | None = None,
        after: Callable[[Context[Q], BaseException | None], Any] | None = None,
        on_error: Callable[[Context[Q], BaseException], Any] | None = None,
    ) -> None:
        """Describe a worker; `run` begins.

        Hooks (`before`, `after`, `on_error`) run in the thread or asyncio task of the handler. If
        they raise, the error is logged, and nothing else changes.

        Args:
            queues: One queue; several queues; or a mapping of queues to weights from 1, which say
                how often each queue is asked first. All must share one client.
            handlers: A function of a task (or of a task and its `Context`); a mapping of names to
                such functions, where `payload["task"]` is the name; or a `Tasks`. When a handler
                returns, the task is finished. It may raise `RateLimited`, `Release`, `Retry` or
                `Reject`; any other error is a failed attempt. A task with an unknown name becomes
                a dead letter.
            concurrency: Handlers that run at once, from 1 to 10 000.
            prefetch: Tasks that are leased beyond those that run, from 0 to 1000: fewer round trips
                for quick handlers. At a stop they are given back, uncounted.
            order: `"strict"` asks queues in the order given, `"round_robin"` in turn. Weights mean
                round robin.
            visibility: Seconds of a lease, from 0.001; None takes each queue's default. Leases are
                extended at a third of their time while a handler runs. If a task has a visibility
                of its own, that holds.
            time_limit: Seconds that a handler may run, from 0.001; None for no limit. If a task has
                a limit of its own (`push(time_limit=)`), that holds. After the limit the attempt
                has failed. An async handler is cancelled. A thread cannot be cancelled: its
                context says `lost`, and it counts as running until it returns.
            keep_result: Keep what handlers return, for `result` and `results` of the queue: True
                for an hour, or seconds up to 2 592 000 (30 days); None drops it. A named task may
                have its own (`@tasks.task(keep_result=)`). A value that is no JSON, or longer than
                1 MiB, makes the task a dead letter.
            backoff: A function that is called with the number of the failed attempt, from 1, and
                its error. It returns the seconds (or a timedelta, 0 to 10 years) until the next
                attempt, or None for the task's or the queue's backoff. A `Retry` with a delay
                comes first. If the function fails or returns anything else, that is logged
                once, and the task takes its own backoff. It must be quick, and no coroutine.
            from_errors: Read the answer in an error of an HTTP client, as requests, httpx, aiohttp
                and the libraries of LLM vendors raise them: a 429 is a `RateLimited`, a 500 with a
                `Retry-After` comes back then, and a 404 or a 422 is a `Reject`. False counts each
                as a failed attempt.
            grace: Seconds that running handlers have to finish after `stop`, from 0 to 10 years;
                then their tasks are given back, uncounted.
            name: The name that `dpq workers` shows; None makes one of host and process.
            version: The version of your program, such as its commit, one word. If a worker begins
                with another one than the worker before, the queue has an event of it.
            before: A function that is called with the context before each handler.
            after: A function that is called with the context and the error, or None, when a
                handler has ended.
            on_error: A function that is called with the context and the error when an attempt has
                failed.

        Raises:
            ConfigurationError: An argument is out of its bounds.
        """
        from dpq.worker.deliveries import Deliveries
        from dpq.worker.handler_calls import HandlerCalls

        if order not in get_args(QueueOrder):
            raise ConfigurationError(f"order is {order!r}: it must be 'strict' or 'round_robin'")
        several = queues if isinstance(queues, Iterable) else ()
        self.queues: tuple[Q, ...] = (queues,) if isinstance(queues, QueueBase) else tuple(several)
        self._check_queues(queues)
        self._weights: dict[Q, int] = dict.fromkeys(self.queues, 1)
        self._strict = order == "strict"
        if isinstance(queues, Mapping):
            self._weights, self._strict = dict(queues), False
        for weight in self._weights.values():
            whole_number("weight", weight, 1, MAX_ATTEMPTS)
        hooks: dict[str, Any] = {"before": before, "after": after, "on_error": on_error}
        for what, hook in hooks.items():
            if hook is not None and not callable(hook):
                raise ConfigurationError(f"{what} is {hook!r}: it must be a function")
            if self._blocking and awaits(hook):
                raise ConfigurationError(f"{what} {hook!r} {ASYNC_HANDLER}")
        if backoff is not None and (not callable(backoff) or awaits(backoff)):
            raise ConfigurationError(
                f"backoff is {backoff!r}: it must be a function of (attempt, error), which is no "
                "coroutine; give a Backoff or a list of delays to the queue, or to push"
            )
        self.concurrency = whole_number("concurrency", concurrency, 1, MAX_CONCURRENCY)
        self.prefetch = whole_number("prefetch", prefetch, 0, MAX_PREFETCH)
        number("grace", grace, "seconds", 0, MAX_SECONDS)
        for what, seconds in (("visibility", visibility), ("time_limit", time_limit)):
            if seconds is not None:
                number(what, seconds, "seconds", 0.001, MAX_SECONDS)
        self.grace, self.visibility, self.time_limit = grace, visibility, time_limit
        self.name = name or process_name()
        if version is not None and label("version", version).split() != [version]:
            raise ConfigurationError(f"version is {version!r}: it must be one word")
        self.version = version or ""
        self.given_back = 0
        named = by_name(handlers)
        self._deliveries = Deliveries(self.name, self.queues, visibility, named=named)
        self._calls: HandlerCalls[Q] = HandlerCalls(
            name=self.name,
            deliveries=self._deliveries,
            find=finder(handlers, blocking=self._blocking),
            named=named,
            time_limit=time_limit,
            keep=kept_for(keep_result),
            backoff=backoff,
            from_errors=from_errors,
            **hooks,
        )
        self.handled = self._calls.handled
        self._state = RunState()
        self._on = False  # True while a run is active
        self._on_beat: Callable[[], None] | None = None  # called after each heartbeat that was sent
        self._stop_early = False  # `stop` was called before the run began
        # Reentrant: a signal handler of the same thread may take it again.
        self._lock: Any = threading.RLock() if self._blocking else nullcontext()

    _blocking = False
    _kind: ClassVar[type[QueueBase[Any]]]
    _fetcher: Any
    _runner: Any
    _telling: Any

    def _check_queues(self, given: object) -> None:
        queues = self.queues
        if not queues or not all(isinstance(queue, self._kind) for queue in queues):
            raise ConfigurationError(
                f"queues is {given!r}: it must be a {self._kind.__name__}, or some of them"
            )
        check_one_client(list(queues), self._kind)
        if len(waits := {queue.settings.durability for queue in queues}) > 1:
            raise ConfigurationError(
                f"the queues differ in durability ({', '.join(sorted(waits))}): a worker ends "
                "their tasks together, so give all of them the same"
            )

    @property
    def stopping(self) -> bool:
        """True once `stop` was called, or another cause ends the run."""
        return self._state.stopping

    def health(self) -> Health:
        """Return the health: live, ready, and the reasons; any thread may call it. Nothing is sent.

        The worker is live while its loops move. The loops are the main loop, the heartbeats, and
        the exchange with the server. A loop without a move for 60 s counts as stuck. A handler that
        hangs is no stuck loop: `workers` shows it. The worker is ready while it runs, `stop` was
        not called, and the server answers.
        """
        return self._state.pulse.health(running=self._on, stopping=self._state.stopping)

    def stop(self) -> None:
        """Let `run` end, as after SIGTERM; the second call ends the grace.

        Any thread and any signal handler may call it; that of an `AsyncWorker` its event loop. If
        no run is active, the next one ends as soon as it has begun.
        """
        with self._lock:
            if not self._on:
                self._stop_early = True
            elif self._state.stopping:
                self._cut_short()
            else:
                self._end()

    def _end(self) -> None:
        """Let the run end: set its state, and wake whatever waits."""
        raise NotImplementedError

    def _cut_short(self) -> None:
        raise NotImplementedError

    # One run

    def _make_parts(
        self, until_empty: bool, change: Any, fetcher: Any, wakeups: Any, telling: Any
    ) -> RunState:
        """Make the state of a run, and its parts: the fetcher, and the loop that tells of it."""
        state = RunState(
            name=self.name,
            queues=self.queues,
            order=AskOrder(self._weights, strict=self._strict),
            concurrency=self.concurrency,
            prefetch=self.prefetch,
            visibility=self.visibility,
            version=self.version,
            until_empty=until_empty,
            end=self._end,
        )
        session: Any = session_of(self.queues[0])
        markers = [operations_of(queue).marker for queue in self.queues]
        waiter = wakeups(session.connections, markers, change)
        self._fetcher = fetcher(state, self._deliveries, session, waiter, change)
        self._telling = telling(state, session, self._calls.progress)
        self._telling.on_beat = self._on_beat
        return state

    def _held(self) -> list[Held]:
        return [*self._runner.running, *self._fetcher.held]

    def _begin_run(self, state: RunState) -> None:
        """Take over the state of a run that begins; it ends at once if a stop came before."""
        self._on = True
        self._state = state
        state.stopping, self._stop_early = self._stop_early, False
        self.given_back = 0
        self._began = time.monotonic()
        self._handled_before = Counter(self.handled)

    def _gave_back(self, count: int) -> None:
        self.given_back = count
        if count:
            about = fields("given_back", worker=self.name, count=count)
            text = "%s: gives back %d tasks whose handlers still run"
            log.warning(text, self.name, count, extra=about)

    def _log_totals(self) -> None:
        ends = self.handled - self._handled_before
        log.info(
            "%s: handled %d in %.1f s%s; gave back %d",
            *(self.name, ends.total(), time.monotonic() - self._began),
            "".join(f", {count} {how}" for how, count in ends.most_common()).replace(",", ":", 1),
            self.given_back,
            extra=fields("worker_ended", worker=self.name, count=ends.total()),
        )
