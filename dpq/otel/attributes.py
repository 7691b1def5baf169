"""The attributes of spans: of tasks, queues, servers and errors. Never a payload.

Source: https://opentelemetry.io/docs/specs/semconv/messaging/; names of `dpq.task.*` are DPQ's own.
"""

from collections.abc import Iterable
from typing import Any

from opentelemetry import trace

from dpq.limits.signals import Signal
from dpq.model.task import Push, Task
from dpq.model.validation import error_line
from dpq.verbs.queue import QueueOperations

Attributes = dict[str, Any]


def type_name(error: BaseException) -> str:
    """Name the type of an error as `error.type` does: with its module, unless it is builtin."""
    if isinstance(error, GeneratorExit):
        return "interrupted"  # the caller has dropped the call before its answer
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def fail_span(span: trace.Span, error: BaseException, *, texts: bool) -> None:
    """Say in a span that its operation has failed; a signal has no stack that helps.

    Without `texts` the span says the type of the error, and neither its text nor its stack.
    """
    span.set_attribute("error.type", type_name(error))
    if texts and isinstance(error, Exception) and not isinstance(error, Signal):
        span.record_exception(error)
    about = error_line(error) if texts else None
    span.set_status(trace.Status(trace.StatusCode.ERROR, about))


def links_to(tasks: Iterable[Task[Any]]) -> list[trace.Link]:
    """Make links to the spans that pushed tasks, as far as those were traced."""
    return [
        trace.Link(context, {"messaging.message.id": task.id})
        for task in tasks
        if task.trace and (context := read_traceparent(task.trace)).is_valid
    ]


def read_traceparent(text: str) -> trace.SpanContext:
    """Read the traceparent of a task, whose form was checked when it was read."""
    _, trace_id, span_id, flags = text.split("-")
    sampled = trace.TraceFlags(int(flags, 16))
    return trace.SpanContext(int(trace_id, 16), int(span_id, 16), True, sampled)


def task_attributes(task: Task[Any]) -> Attributes:
    """Describe one delivery, without its payload."""
    pushed = task.scheduled_at or task.enqueued_at
    found: Attributes = {
        "dpq.task.priority": task.priority,
        "dpq.task.attempt": task.attempt,
        "dpq.task.deferrals": task.deferrals,
        "dpq.task.wait_seconds": max(task.token / 1_000_000 - pushed.timestamp(), 0.0),
    }
    if task.group is not None:
        found["dpq.task.group"] = task.group
    return found


def push_attributes(push: Push[Any]) -> Attributes:
    found: Attributes = {}
    if isinstance(push.priority, int | float):
        found["dpq.task.priority"] = push.priority
    if isinstance(push.group, str):
        found["dpq.task.group"] = push.group
    return found


def message_attributes(queue: QueueOperations[Any], task_id: str) -> Attributes:
    return {"messaging.message.id": task_id}


def server_attributes(client: Any) -> Attributes:
    """Say where a client sends to: host and port, the path of a socket, a service of Sentinel."""
    pool = getattr(client, "connection_pool", None)
    named = getattr(pool, "connection_kwargs", None) or {}
    nodes = getattr(client, "nodes_manager", client)  # a cluster client has a `nodes_manager`
    startup = getattr(nodes, "startup_nodes", None)
    if startup:
        first = next(iter(startup.values()))
        named = {"host": first.host, "port": first.port}
    if service := getattr(pool, "service_name", None):
        return {"server.address": str(service)}
    if path := named.get("path"):
        return {"server.address": str(path)}
    if host := named.get("host"):
        return {"server.address": str(host), "server.port": int(named.get("port", 6379))}
    return {}
