"""The spans and the metrics of calls of verbs, and of the work on tasks.

Telemetry that fails is logged once, and changes nothing else.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from opentelemetry import context as contexts
from opentelemetry import metrics, trace

from dpq import __version__
from dpq.limits.signals import RateLimited, Release, Signal
from dpq.model.task import Push, Task
from dpq.otel.attributes import (
    Attributes,
    fail_span,
    links_to,
    message_attributes,
    push_attributes,
    server_attributes,
    task_attributes,
    type_name,
)
from dpq.queue.base import QueueBase
from dpq.queue.inside import operations_of
from dpq.script.command import Steps
from dpq.verbs.queue import QueueOperations

log = logging.getLogger(__name__)

T = TypeVar("T")

CONVENTIONS = "1.44.0"
"""The version of the semantic conventions whose names are used."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The advised bounds of durations, seconds."""


_told: set[str] = set()


def safely(function: Callable[..., T], *args: Any, **named: Any) -> T | None:
    """Call a function of telemetry; if it fails, return None, and log the first error of a kind."""
    try:
        return function(*args, **named)
    except Exception as error:
        if type_name(error) not in _told:
            _told.add(type_name(error))
            log.exception("dpq.otel: telemetry fails; queues and workers go on")
        return None


class Telemetry:
    """The tracer and the metrics of one call of `instrument`."""

    def __init__(
        self,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        error_texts: bool = True,
    ) -> None:
        self.error_texts = error_texts
        schema = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
        self.tracer = trace.get_tracer("dpq", __version__, tracer_provider, schema)
        meter = metrics.get_meter("dpq", __version__, meter_provider, schema)
        self.sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Tasks that were to be pushed."
        )
        self.consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Tasks that were popped."
        )
        self.duration = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of pushes, of pops that brought tasks, and of the ends of deliveries.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self.process_duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of the work on a task.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._common: WeakKeyDictionary[QueueOperations[Any], Attributes] = WeakKeyDictionary()

    def common(self, queue: QueueOperations[Any]) -> Attributes:
        """Return the attributes that all spans and metrics of a queue have."""
        known = self._common.get(queue)
        if known is None:
            known = {
                "messaging.system": "dpq",
                "messaging.destination.name": queue.description.name,
            }
            known |= server_attributes(queue.client)
            self._common[queue] = known
        return known

    def process(
        self, queue: QueueBase[Any], task: Task[Any], *, root: bool = False
    ) -> "Process | None":
        """Begin the span of the work on a task; None if that fails."""
        return safely(Process, self, operations_of(queue), task, root=root)


class Call:
    """One call of a verb: its span, and its part of the metrics."""

    def __init__(
        self,
        telemetry: Telemetry,
        queue: QueueOperations[Any],
        verb: str,
        kind: str,
        tasks: Sequence[Task[Any]] = (),
        *,
        pushed: Push[Any] | None = None,
        count: int | None = None,
        since: tuple[int, float] | None = None,
    ) -> None:
        self._telemetry, self._queue, self._kind = telemetry, queue, kind
        self._tasks = tasks
        self._measured = telemetry.common(queue) | {
            "messaging.operation.name": verb,
            "messaging.operation.type": kind,
        }
        attributes = self._measured.copy()
        if count is not None:
            attributes["messaging.batch.message_count"] = count
        if pushed:
            attributes |= push_attributes(pushed)
        if len(tasks) == 1:
            attributes |= message_attributes(queue, tasks[0].id) | task_attributes(tasks[0])
        start, self._began = since or (None, time.perf_counter())
        self.span = telemetry.tracer.start_span(
            f"{verb} {queue.description.name}",
            kind=trace.SpanKind.PRODUCER if kind == "send" else trace.SpanKind.CLIENT,
            attributes=attributes,
            links=links_to(tasks),
            start_time=start,
        )

    @property
    def traceparent(self) -> str:
        """The context that the pushed tasks carry; "" if the span is not sampled."""
        context = self.span.get_span_context()
        if not (context.is_valid and context.trace_flags.sampled):
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def checked(self, verb: Callable[..., Steps[Any]], *args: Any, sent: int = 0) -> Steps[Any]:
        """Call a verb; end the span if it refuses its arguments."""
        try:
            return verb(self._queue, *args)
        except Exception as error:
            self.end(error, sent)
            raise

    def follow(self, steps: Steps[Any], sent: int = 0) -> Steps[Any]:
        """Run an operation to its end, and end the span with it."""
        try:
            result = yield from steps
        except GeneratorExit as left:
            self.end(left, sent)
            raise
        except BaseException as error:
            self.end(error, sent)
            raise
        if self._kind == "send":
            safely(self._note_ids, [result] if isinstance(result, str) else result)
            sent = 1 if isinstance(result, str) else len(result)
        self.end(None, sent)
        return result

    def _note_ids(self, ids: Sequence[str]) -> None:
        if len(ids) == 1:
            self.span.set_attributes(message_attributes(self._queue, ids[0]))

    def end(self, error: BaseException | None, sent: int = 0) -> None:
        """End the span, and measure."""
        safely(self._measure, error, sent)
        safely(self.span.end)

    def _measure(self, error: BaseException | None, sent: int) -> None:
        telemetry, measured = self._telemetry, self._measured
        if error is not None:
            measured = measured | {"error.type": type_name(error)}
            fail_span(self.span, error, texts=telemetry.error_texts)
        telemetry.duration.record(time.perf_counter() - self._began, measured)
        if sent:
            telemetry.sent.add(sent, measured)
        if self._kind == "receive" and self._tasks:
            telemetry.consumed.add(len(self._tasks), measured)


def begin(
    telemetry: Telemetry,
    queue: QueueOperations[Any],
    verb: str,
    kind: str,
    *args: Any,
    **named: Any,
) -> Call | None:
    """Begin a call; None if that fails, or if no queue object has these operations."""
    if queue.client is None:
        return None
    return safely(Call, telemetry, queue, verb, kind, *args, **named)


class Process:
    """The work on one task: its span, which is the current one until the end."""

    def __init__(
        self, telemetry: Telemetry, queue: QueueOperations[Any], task: Task[Any], *, root: bool
    ) -> None:
        self._record = telemetry.process_duration.record
        self._texts = telemetry.error_texts
        self._measured = telemetry.common(queue) | {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
        }
        self._began = time.perf_counter()
        around = contexts.Context() if root else contexts.get_current()
        self.span = telemetry.tracer.start_span(
            f"process {queue.description.name}",
            around,
            trace.SpanKind.CONSUMER,
            self._measured | message_attributes(queue, task.id) | task_attributes(task),
            links_to([task]),
        )
        self._token = contexts.attach(trace.set_span_in_context(self.span, around))

    def end(self, error: BaseException | None) -> None:
        """End the span, as the work on the task has ended."""
        contexts.detach(self._token)
        safely(self._measure, error)
        safely(self.span.end)

    def _measure(self, error: BaseException | None) -> None:
        measured = self._measured
        if isinstance(error, Signal):
            self.span.set_attribute("dpq.task.signal", type(error).__name__)
        if isinstance(error, RateLimited):
            self.span.set_attribute("dpq.task.retry_after_seconds", error.retry_after)
            if error.status is not None:
                self.span.set_attribute("http.response.status_code", error.status)
        if isinstance(error, Exception) and not isinstance(error, RateLimited | Release):
            measured = measured | {"error.type": type_name(error)}
            fail_span(self.span, error, texts=self._texts)
        self._record(time.perf_counter() - self._began, measured)
