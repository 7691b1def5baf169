"""OpenTelemetry: spans and metrics of queues and workers, by the conventions for messaging.

    dpq.otel.instrument()    # once in each process: all queues and workers, also older objects

`push` stores the trace context of its span with the task, and consumers link to it. `instrument`
wraps the verbs of `QueueOperations`, which both faces and all workers call. So a process without
`instrument` runs none of this code. docs/tracing.md is for users.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from dpq.http.wire import missing_extra

try:
    from opentelemetry import metrics, trace
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("otel", error, "opentelemetry") from error

from dpq.limits.signals import signal_of
from dpq.model.task import Push, Task
from dpq.otel.spans import CONVENTIONS, Telemetry
from dpq.queue.base import QueueBase
from dpq.script.command import Steps
from dpq.verbs.queue import QueueOperations
from dpq.worker.handler_calls import HandlerCalls

__all__ = ["CONVENTIONS", "DPQInstrumentor", "instrument", "processing", "uninstrument"]

log = logging.getLogger(__name__)

SETTLING = ("ack", "fail", "bury", "release", "rate_limited", "set_visibility", "ack_many")
"""The verbs that end deliveries."""

_active: list[Telemetry] = []  # the telemetry that `instrument` has made; empty without
_undo: list[Callable[[], None]] = []


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    error_texts: bool = True,
) -> None:
    """Make spans and metrics of all queues and workers of this process, from now on.

    Objects that were made before are included. A second call changes nothing.

    Args:
        tracer_provider: Makes the spans; None takes the global one, also if it is set later.
        meter_provider: Makes the metrics; None takes the global one, also if it is set later.
        error_texts: Put the text and the stack of an error into its span, of `lease()` and handlers
            too. A text may quote a payload. False: the span has the type of the error alone.
    """
    if _active:
        log.warning("dpq.otel: this process is instrumented already")
        return
    telemetry = Telemetry(tracer_provider, meter_provider, error_texts)
    wrapped = {"push": pushing, "push_many": pushing, "pop": popping}
    for name, wrap in (dict.fromkeys(SETTLING, settling) | wrapped).items():
        _replace(QueueOperations, name, wrap(telemetry, getattr(QueueOperations, name)))
    _replace(QueueBase, "_around", processing)  # the body of `lease()`
    _replace(HandlerCalls, "traced", staticmethod(partial(telemetry.process, root=True)))
    _active.append(telemetry)


def uninstrument() -> None:
    """Make no more spans and metrics; calls that are under way still end their spans."""
    _active.clear()
    while _undo:
        _undo.pop()()


def _replace(owner: type, name: str, new: Any) -> None:
    _undo.append(partial(setattr, owner, name, owner.__dict__[name]))
    setattr(owner, name, new)


class DPQInstrumentor:
    """The instrumentor that `opentelemetry-instrument` finds by its entry point."""

    def instrument(self, **options: Any) -> None:
        """Call `instrument` with its arguments; ignore others, such as `skip_dep_check`."""
        instrument(
            tracer_provider=options.get("tracer_provider"),
            meter_provider=options.get("meter_provider"),
            error_texts=options.get("error_texts", True),
        )

    def uninstrument(self, **_: Any) -> None:
        """Call `uninstrument`."""
        uninstrument()


@contextmanager
def processing(queue: QueueBase[Any], task: Task[Any]) -> Iterator[trace.Span]:
    """Make a span `process QUEUE` around a block: `with dpq.otel.processing(q, task):`.

    For loops that call `pop` or `leases`; workers and `lease()` do it by themselves. It is a plain
    `with` in asyncio programs as well. The block runs in the span's context. The span is a child of
    the one around it, and linked to the span that pushed the task.

    Args:
        queue: The queue of the task, of either face.
        task: What pop returned.

    Yields:
        The span. If the process is not instrumented, it is a span that records nothing.
    """
    process = _active[0].process(queue, task) if _active else None
    try:
        yield process.span if process else trace.INVALID_SPAN
    except BaseException as error:
        if process:
            process.end(signal_of(error))
        raise
    if process:
        process.end(None)


# The wrappers of verbs. Each calls its verb at once, since a verb may check its arguments then.

Verb = Callable[..., Steps[Any]]


def settling(telemetry: Telemetry, verb: Verb) -> Verb:
    """Wrap a verb that ends one delivery, or `ack_many`."""
    many = verb.__name__ == "ack_many"
    name = "ack" if many else verb.__name__

    @wraps(verb)
    def settle(queue: QueueOperations[Any], given: Any, *args: Any, **named: Any) -> Steps[Any]:
        tasks = list(given) if many else [given]
        steps = verb(queue, tasks if many else given, *args, **named)
        known = [task for task in tasks if isinstance(task, Task)]
        count = len(tasks) if many else None
        call = telemetry.begin(queue, name, "settle", known, count=count)
        return call.follow(steps) if call else steps

    return settle


def pushing(telemetry: Telemetry, verb: Verb) -> Verb:
    """Wrap `push` and `push_many`; a call that refuses its arguments has a span as well."""

    def later(*args: Any) -> Steps[Any]:
        return (yield from verb(*args))

    @wraps(verb)
    def push(queue: QueueOperations[Any], given: Push[Any] | Iterable[Push[Any]]) -> Steps[Any]:
        one = given if isinstance(given, Push) else None
        count = len(given) if one is None and isinstance(given, Sized) else None
        call = telemetry.begin(queue, "push", "send", pushed=one, count=count)
        if call is None:
            return verb(queue, given)
        return call.follow(later(queue, given, call.traceparent), 1 if one else count or 0)

    return push


def popping(telemetry: Telemetry, verb: Verb) -> Verb:
    """Wrap `pop`. A pop without a task makes no span: idle consumers would make most spans."""

    def follow(queue: QueueOperations[Any], most: int, steps: Steps[Any]) -> Steps[Any]:
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
                call = telemetry.begin(queue, "pop", "receive", tasks, count=count, since=began)
                if call:
                    call.end(None if tasks else failed)
        return batch

    @wraps(verb)
    def pop(queue: QueueOperations[Any], most: int, *args: Any, **named: Any) -> Steps[Any]:
        steps = verb(queue, most, *args, **named)
        return steps if queue.client is None else follow(queue, most, steps)

    return pop
