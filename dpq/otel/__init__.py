"""OpenTelemetry: spans and metrics of queues and workers, by the conventions for messaging.

    dpq.otel.instrument()    # once in each process: all queues and workers, also older objects

`push` stores the trace context of its span with the task, and consumers link to it. `instrument`
wraps the verbs of `QueueOperations`, which both faces and all workers call. So a process without
`instrument` runs none of this code. docs/tracing.md is for users.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from dpq.http.wire import missing_extra

try:
    from opentelemetry import metrics, trace
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("otel", error, "opentelemetry") from error

from dpq.model.task import Task
from dpq.otel.spans import CONVENTIONS, Telemetry
from dpq.otel.wrappers import Wrappers, working
from dpq.queue.base import QueueBase
from dpq.queue.queue import DPQ
from dpq.queue.queue_async import AsyncDPQ
from dpq.verbs.queue import QueueOperations
from dpq.worker.handler_calls import HandlerCalls

__all__ = ["CONVENTIONS", "DPQInstrumentor", "instrument", "processing", "uninstrument"]

log = logging.getLogger(__name__)

SETTLING = ("ack", "fail", "bury", "release", "rate_limited", "set_visibility")
"""The verbs that end the delivery of one task."""

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
    wrappers = Wrappers(telemetry)
    for name in SETTLING:
        _replace(QueueOperations, name, wrappers.settling)
    _replace(QueueOperations, "ack_many", wrappers.settling_many)
    _replace(QueueOperations, "push", wrappers.pushing)
    _replace(QueueOperations, "push_many", wrappers.pushing_many)
    _replace(QueueOperations, "pop", wrappers.popping)
    _replace(DPQ, "lease", wrappers.leasing)
    _replace(AsyncDPQ, "lease", wrappers.leasing_async)
    HandlerCalls.traced = staticmethod(partial(telemetry.process, root=True))
    _undo.append(partial(setattr, HandlerCalls, "traced", None))
    _active.append(telemetry)


def uninstrument() -> None:
    """Make no more spans and metrics; calls that are under way still end their spans."""
    _active.clear()
    while _undo:
        _undo.pop()()


def _replace(owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
    original = owner.__dict__[name]
    setattr(owner, name, wrap(original))
    _undo.append(partial(setattr, owner, name, original))


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
    if not _active:
        yield trace.INVALID_SPAN
        return
    with working(_active[0], queue, task) as span:
        yield span
