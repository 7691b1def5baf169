"""The spans and metrics of calls and of the work on tasks, and their attributes. Never a payload.

Source: https://opentelemetry.io/docs/specs/semconv/messaging/; names of `dpq.task.*` are DPQ's own.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dpq import __version__
from dpq.limits.signals import RateLimited, Release, Signal
from dpq.model.task import Push, Task
from dpq.model.validation import error_line
from dpq.queue.base import QueueBase
from dpq.queue.inside import operations_of
from dpq.script.command import Steps
from dpq.verbs.queue import QueueOperations

log = logging.getLogger(__name__)

T = TypeVar("T")
Attributes = dict[str, Any]

CONVENTIONS = "1.44.0"
"""The version of the semantic conventions whose names are used."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The advised bounds of durations, seconds."""

KINDS = {"send": trace.SpanKind.PRODUCER, "process": trace.SpanKind.CONSUMER}
"""The kinds of spans by the type of the operation; all others are those of a client."""

W3C = TraceContextTextMapPropagator()

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
        error_texts: bool,
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
        if queue not in self._common:
            self._common[queue] = {
                "messaging.system": "dpq",
                "messaging.destination.name": queue.description.name,
                **server_attributes(queue.client),
            }
        return self._common[queue]

    def begin(
        self, queue: QueueOperations[Any], verb: str, kind: str, *args: Any, **named: Any
    ) -> "Call | None":
        """Begin a call; None if that fails, or if no queue object has these operations."""
        if queue.client is None:
            return None
        return safely(Call, self, queue, verb, kind, *args, **named)

    def process(
        self, queue: QueueBase[Any], task: Task[Any], *, root: bool = False
    ) -> "Process | None":
        """Begin the span of the work on a task; None if that fails."""
        return safely(Process, self, operations_of(queue), task, root)


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
        around: contexts.Context | None = None,
    ) -> None:
        self._telemetry, self._queue, self._kind, self._tasks = telemetry, queue, kind, tasks
        self._duration = telemetry.process_duration if kind == "process" else telemetry.duration
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
            attributes |= task_attributes(tasks[0])
        start, self._began = since or (None, time.perf_counter())
        self.span = telemetry.tracer.start_span(
            f"{verb} {queue.description.name}",
            around,
            KINDS.get(kind, trace.SpanKind.CLIENT),
            attributes,
            links_to(tasks),
            start,
        )

    @property
    def traceparent(self) -> str:
        """The context that the pushed tasks carry; "" if the span is not sampled."""
        carrier: dict[str, str] = {}
        if self.span.get_span_context().trace_flags.sampled:
            W3C.inject(carrier, trace.set_span_in_context(self.span))
        return carrier.get("traceparent", "")

    def follow(self, steps: Steps[Any], sent: int = 0) -> Steps[Any]:
        """Run an operation to its end, and end the span with it."""
        try:
            result = yield from steps
        except BaseException as error:
            self.end(error, sent)
            raise
        if self._kind == "send":
            ids = [result] if isinstance(result, str) else result
            sent = len(ids)
            if sent == 1:
                safely(self.span.set_attribute, "messaging.message.id", ids[0])
        self.end(None, sent)
        return result

    def end(self, error: BaseException | None, sent: int = 0) -> None:
        """End the span, and measure."""
        safely(self._measure, error, sent)
        safely(self.span.end)

    def _measure(self, error: BaseException | None, sent: int) -> None:
        telemetry, measured = self._telemetry, self._measured
        if error is not None:
            measured = measured | {"error.type": type_name(error)}
            texts = telemetry.error_texts
            self.span.set_attribute("error.type", type_name(error))
            if texts and isinstance(error, Exception) and not isinstance(error, Signal):
                self.span.record_exception(error)  # the stack of a signal does not help
            about = error_line(error) if texts else None
            self.span.set_status(trace.Status(trace.StatusCode.ERROR, about))
        self._duration.record(time.perf_counter() - self._began, measured)
        if sent:
            telemetry.sent.add(sent, measured)
        if self._kind == "receive" and self._tasks:
            telemetry.consumed.add(len(self._tasks), measured)


class Process(Call):
    """The work on one task: its span, which is the current one until the end."""

    def __init__(
        self, telemetry: Telemetry, queue: QueueOperations[Any], task: Task[Any], root: bool
    ) -> None:
        around = contexts.Context() if root else contexts.get_current()
        super().__init__(telemetry, queue, "process", "process", [task], around=around)
        self._token = contexts.attach(trace.set_span_in_context(self.span, around))

    def end(self, error: BaseException | None, sent: int = 0) -> None:
        """End the span, as the work on the task has ended."""
        contexts.detach(self._token)
        safely(self._tell_signal, error)
        failed = isinstance(error, Exception) and not isinstance(error, RateLimited | Release)
        super().end(error if failed else None, sent)

    def _tell_signal(self, error: BaseException | None) -> None:
        if isinstance(error, Signal):
            self.span.set_attribute("dpq.task.signal", type(error).__name__)
        if isinstance(error, RateLimited):
            self.span.set_attribute("dpq.task.retry_after_seconds", error.retry_after)
            if error.status is not None:
                self.span.set_attribute("http.response.status_code", error.status)


def type_name(error: BaseException) -> str:
    """Name the type of an error as `error.type` does: with its module, unless it is builtin."""
    if isinstance(error, GeneratorExit):
        return "interrupted"  # the caller has dropped the call before its answer
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__qualname__


def links_to(tasks: Iterable[Task[Any]]) -> list[trace.Link]:
    """Make links to the spans that pushed tasks, as far as those were traced."""
    links = []
    for task in tasks:
        if task.trace:
            pushed = W3C.extract({"traceparent": task.trace}, contexts.Context())
            context = trace.get_current_span(pushed).get_span_context()
            links.append(trace.Link(context, {"messaging.message.id": task.id}))
    return [link for link in links if link.context.is_valid]


def task_attributes(task: Task[Any]) -> Attributes:
    """Describe one delivery, without its payload."""
    pushed = task.scheduled_at or task.enqueued_at
    found: Attributes = {
        "messaging.message.id": task.id,
        "dpq.task.priority": task.priority,
        "dpq.task.attempt": task.attempt,
        "dpq.task.deferrals": task.deferrals,
        "dpq.task.wait_seconds": max(task.token / 1_000_000 - pushed.timestamp(), 0.0),
    }
    return found if task.group is None else found | {"dpq.task.group": task.group}


def push_attributes(push: Push[Any]) -> Attributes:
    """Describe a push, whose arguments are not checked yet."""
    found: Attributes = {}
    if isinstance(push.priority, int | float):
        found["dpq.task.priority"] = push.priority
    if isinstance(push.group, str):
        found["dpq.task.group"] = push.group
    return found


def server_attributes(client: Any) -> Attributes:
    """Say where a client sends to: host and port, the path of a socket, a service of Sentinel."""
    pool = getattr(client, "connection_pool", None)
    named = getattr(pool, "connection_kwargs", None) or {}
    nodes = getattr(client, "nodes_manager", client)  # a cluster client has a `nodes_manager`
    if startup := getattr(nodes, "startup_nodes", None):
        first = next(iter(startup.values()))
        named = {"host": first.host, "port": first.port}
    if place := getattr(pool, "service_name", None) or named.get("path"):
        return {"server.address": str(place)}
    if host := named.get("host"):
        return {"server.address": str(host), "server.port": int(named.get("port", 6379))}
    return {}
