"""The wrappers of the verbs that `dpq.otel` follows."""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence, Sized
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from typing import Any

from opentelemetry import trace

from dpq.limits.signals import signal_of
from dpq.model.task import Push, Task
from dpq.otel.spans import Telemetry, begin
from dpq.queue.base import QueueBase
from dpq.queue.queue import DPQ
from dpq.queue.queue_async import AsyncDPQ
from dpq.script.command import Steps
from dpq.verbs.queue import QueueOperations


@contextmanager
def working(telemetry: Telemetry, queue: QueueBase[Any], task: Task[Any]) -> Iterator[trace.Span]:
    """Make a span around the work on a task."""
    process = telemetry.process(queue, task)
    try:
        yield process.span if process else trace.INVALID_SPAN
    except BaseException as error:
        if process:
            process.end(signal_of(error))
        raise
    if process:
        process.end(None)


class Wrappers:
    """Makes the wrappers, which make spans and metrics.

    Each wrapper calls its verb at once, since a verb may check its arguments then.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def settling(self, verb: Callable[..., Steps[Any]]) -> Callable[..., Steps[Any]]:
        """Wrap a verb that ends one delivery."""

        @wraps(verb)
        def settle(
            queue: QueueOperations[Any], task: Task[Any], *args: Any, **named: Any
        ) -> Steps[Any]:
            steps = verb(queue, task, *args, **named)
            call = begin(self._telemetry, queue, verb.__name__, "settle", [task])
            return call.follow(steps) if call else steps

        return settle

    def settling_many(self, verb: Callable[..., Steps[Any]]) -> Callable[..., Steps[Any]]:
        """Wrap `ack_many`."""

        @wraps(verb)
        def ack_many(
            queue: QueueOperations[Any],
            tasks: Iterable[Task[Any]],
            costs: Any = None,
            results: Any = None,
        ) -> Steps[Any]:
            given = list(tasks)
            steps = verb(queue, given, costs, results)
            known = [task for task in given if isinstance(task, Task)]
            call = begin(self._telemetry, queue, "ack", "settle", known, count=len(given))
            return call.follow(steps) if call else steps

        return ack_many

    def pushing(self, verb: Callable[..., Steps[str]]) -> Callable[..., Steps[str]]:
        """Wrap `push`."""

        @wraps(verb)
        def push(queue: QueueOperations[Any], given: Push[Any]) -> Steps[str]:
            call = begin(self._telemetry, queue, "push", "send", pushed=given)
            if call is None:
                return verb(queue, given)
            steps = call.checked(verb, given, call.traceparent, sent=1)
            return call.follow(steps, sent=1)

        return push

    def pushing_many(self, verb: Callable[..., Steps[Any]]) -> Callable[..., Steps[Any]]:
        """Wrap `push_many`."""

        @wraps(verb)
        def push_many(queue: QueueOperations[Any], pushes: Iterable[Push[Any]]) -> Steps[Any]:
            count = len(pushes) if isinstance(pushes, Sized) else None
            call = begin(self._telemetry, queue, "push", "send", count=count)
            if call is None:
                return verb(queue, pushes)
            steps = call.checked(verb, pushes, call.traceparent)
            return call.follow(steps, sent=count or 0)

        return push_many

    def popping(self, verb: Callable[..., Steps[Any]]) -> Callable[..., Steps[Any]]:
        """Wrap `pop`. A pop without a task makes no span: idle consumers would make most spans."""

        @wraps(verb)
        def pop(queue: QueueOperations[Any], most: int, *args: Any, **named: Any) -> Steps[Any]:
            steps = verb(queue, most, *args, **named)
            return self._follow_pop(queue, most, steps) if queue.client is not None else steps

        return pop

    def _follow_pop(self, queue: QueueOperations[Any], most: int, steps: Steps[Any]) -> Steps[Any]:
        began = time.time_ns(), time.perf_counter()
        tasks: Sequence[Task[Any]] = ()
        failed: Exception | None = None
        try:
            batch = yield from steps
            tasks, failed = batch.tasks, batch.failed
        except Exception as error:
            failed = error
            raise
        finally:
            if tasks or failed:
                count = len(tasks) if most != 1 else None
                call = begin(
                    self._telemetry, queue, "pop", "receive", tasks, count=count, since=began
                )
                if call:
                    call.end(None if tasks else failed)
        return batch

    def leasing(self, verb: Any) -> Any:
        """Wrap `DPQ.lease`: its body is the work on the task."""

        @wraps(verb)
        @contextmanager
        def lease(queue: DPQ[Any], *args: Any, **named: Any) -> Iterator[Any]:
            with verb(queue, *args, **named) as task:
                if task is None:
                    yield None
                    return
                with working(self._telemetry, queue, task):
                    yield task

        return lease

    def leasing_async(self, verb: Any) -> Any:
        """Wrap `AsyncDPQ.lease`."""

        @wraps(verb)
        @asynccontextmanager
        async def lease(queue: AsyncDPQ[Any], *args: Any, **named: Any) -> AsyncIterator[Any]:
            async with verb(queue, *args, **named) as task:
                if task is None:
                    yield None
                    return
                with working(self._telemetry, queue, task):
                    yield task

        return lease
