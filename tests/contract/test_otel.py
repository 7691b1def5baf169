"""OpenTelemetry: the spans and metrics of queues and workers, and what a task carries for them."""

import asyncio
import logging
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from kit.workers import Make, queues
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.semconv._incubating.attributes import messaging_attributes as names
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode
from redis import Redis

import dpq
import dpq.otel
from dpq import (
    DPQ,
    AsyncDPQ,
    AsyncWorker,
    Backoff,
    LeaseLostError,
    Push,
    RateLimited,
    Retry,
    Worker,
)
from dpq.script.keys import key_of
from dpq.verbs.queue import QueueOperations


class Telemetry:
    """What was exported: spans by their names without the queue's, and points of metrics."""

    def __init__(self, queue_name: str, **options: Any) -> None:
        self.queue_name = queue_name
        self._exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(**options)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.tracer_provider.get_tracer("test")
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._reader])

    def instrument(self, **more: Any) -> None:
        dpq.otel.instrument(
            tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **more
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, verb: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.split(" ")[0] == verb]

    def points(self, metric: str) -> dict[tuple[str, str], Any]:
        """The points of a metric by operation and error."""
        data = self._reader.get_metrics_data()
        assert data
        scopes = data.resource_metrics[0].scope_metrics
        found = [each for scope in scopes for each in scope.metrics if each.name == metric]
        return {
            (p.attributes["messaging.operation.name"], p.attributes.get("error.type", "")): p
            for each in found
            for p in each.data.data_points
        }


@pytest.fixture
def telemetry(queue_name: str) -> Iterator[Telemetry]:
    telemetry = Telemetry(queue_name)
    telemetry.instrument()
    yield telemetry
    dpq.otel.uninstrument()
    telemetry.tracer_provider.shutdown()


@pytest.fixture
def make(redis: Redis, queue_name: str) -> Iterator[Make]:
    with queues(DPQ, redis, queue_name) as make:
        yield make


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context
    return context


def linked(span: ReadableSpan) -> list[int]:
    """The ids of the spans that a span is linked to."""
    return [link.context.span_id for link in span.links]


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def records(queue: DPQ[Any]) -> list[bytes]:
    found: dict[bytes, bytes] = queue.redis.hgetall(key_of(queue.queue_name, "meta"))
    return list(found.values())


def test_a_push_a_pop_and_an_ack(make: Make, telemetry: Telemetry) -> None:
    """Each has a span of its kind, in the trace of its caller; those of the consumer are linked to
    the push, and say what they are about."""
    q = make()
    with telemetry.tracer.start_as_current_span("request") as request:
        task_id = q.push("page", 7, group="host")
    q.ack(q.pop().task)
    [push], [pop], [ack] = (telemetry.named(verb) for verb in ("push", "pop", "ack"))
    assert push.parent
    assert push.parent.span_id == request.get_span_context().span_id
    assert [span.kind for span in (push, pop, ack)] == [
        *(SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CLIENT)
    ]
    assert linked(pop) == linked(ack) == [context_of(push).span_id]
    assert pop.parent is None
    assert pop.name == f"pop {q.queue_name}"
    about = said(pop)
    assert about.pop("dpq.task.wait_seconds") >= 0
    settings = q.redis.connection_pool.connection_kwargs
    assert about == {
        names.MESSAGING_SYSTEM: "dpq",
        names.MESSAGING_DESTINATION_NAME: q.queue_name,
        names.MESSAGING_OPERATION_NAME: "pop",
        names.MESSAGING_OPERATION_TYPE: "receive",
        names.MESSAGING_MESSAGE_ID: task_id,
        "server.address": settings["path"],
        "dpq.task.priority": 7,
        "dpq.task.attempt": 1,
        "dpq.task.deferrals": 0,
        "dpq.task.group": "host",
    }
    assert {said(span)[names.MESSAGING_OPERATION_TYPE] for span in (push, ack)} == {
        *("send", "settle")
    }


def test_metrics_are_those_of_the_conventions(make: Make, telemetry: Telemetry) -> None:
    """Messages are counted, durations have the advised buckets, errors a type; a pop of an empty
    queue is no event. The names are those of the version that the docs name."""
    q = make()
    q.push_many([Push(n) for n in range(3)])
    tasks = q.pop_many(10)
    q.ack_many(tasks)
    q.pop()
    with pytest.raises(LeaseLostError):
        q.fail(tasks[0])
    sent = telemetry.points(messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES)
    consumed = telemetry.points(messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES)
    assert (sent["push", ""].value, consumed["pop", ""].value) == (3, 3)
    took = telemetry.points(messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION)
    assert {key: point.count for key, point in took.items()} == {
        ("push", ""): 1,
        ("pop", ""): 1,
        ("ack", ""): 1,
        ("fail", "dpq.model.errors.LeaseLostError"): 1,
    }
    assert took["pop", ""].explicit_bounds == (
        *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10),
    )
    [push], [pop], [ack] = (telemetry.named(verb) for verb in ("push", "pop", "ack"))
    assert {said(each)[names.MESSAGING_BATCH_MESSAGE_COUNT] for each in (push, pop, ack)} == {3}
    assert linked(pop) == linked(ack) == [context_of(push).span_id] * 3
    assert [link.attributes for link in pop.links] == [
        {names.MESSAGING_MESSAGE_ID: t.id} for t in tasks
    ]
    [fail] = telemetry.named("fail")
    assert fail.status.status_code is StatusCode.ERROR
    page = (Path(dpq.__file__).parents[1] / "docs" / "tracing.md").read_text(encoding="utf-8")
    assert dpq.otel.CONVENTIONS in page
    assert any(dpq.otel.CONVENTIONS in each.value for each in Schemas)


def test_nothing_is_stored_unless_a_sampled_producer_traces(make: Make, queue_name: str) -> None:
    """Without telemetry, and for spans that are not sampled, a record is that of any task; the
    verbs are the original ones again after `uninstrument`."""
    q = make()
    before = dict(vars(QueueOperations))
    q.push("page")
    [plain] = records(q)
    q.purge()
    telemetry = Telemetry(queue_name, sampler=ALWAYS_OFF)
    telemetry.instrument()
    try:
        q.push("page")
        q.push_many([Push("page")])
    finally:
        dpq.otel.uninstrument()
    assert [len(each) for each in records(q)] == [len(plain)] * 2
    assert vars(QueueOperations) == before
    assert [task.trace for task in q.pop_many(2)] == [None] * 2
    assert telemetry.spans == []


def test_the_context_stays_with_the_task_until_its_end(make: Make, telemetry: Telemetry) -> None:
    """A retry, a 429, death and a replay keep it, beside the task's own visibility, pin and notes;
    a consumer that does not trace sees it; with the task it is gone."""
    q = make()
    q.set_limit(100, 1, group="host", members=["a", "b"])
    task_id = q.push("page", group="host", member="a", visibility=60, time_limit=9, max_attempts=2)
    [push] = telemetry.named("push")
    context = context_of(push)
    trace_ids = f"{context.trace_id:032x}-{context.span_id:016x}"
    q.fail(q.pop().task, delay=0)
    q.rate_limited(q.pop(timeout=5).task, 0)
    q.bury(q.pop(timeout=5).task, "enough")
    assert q.dead.replay() == 1
    assert [linked(span) for span in telemetry.named("pop")] == [[context.span_id]] * 3
    assert [said(span)["dpq.task.attempt"] for span in telemetry.named("pop")] == [1, 2, 2]
    dpq.otel.uninstrument()
    task = q.pop(timeout=5).task
    assert (task.id, task.visibility, task.pinned, task.time_limit) == (task_id, 60, "a", 9)
    assert trace_ids in str(task.trace)
    assert q.get(task_id).trace == task.trace
    q.ack(task)
    assert records(q) == []


def test_a_worker_of_threads(make: Make, telemetry: Telemetry) -> None:
    """A handler runs inside of its span, a root that is linked to the push; an error marks it, a
    429 is a deferral, and a recurring or retried run is linked to the same push."""
    q = make(backoff=Backoff(0.001))
    met = False

    def handle(task: Any) -> None:
        nonlocal met
        with telemetry.tracer.start_as_current_span("inner"):
            if task.payload == "limited" and not met:
                met = True
                raise RateLimited(0.001, "task")
            if task.payload == "broken" and task.attempt == 1:
                raise ValueError("no page")
            if task.payload == "broken":
                raise Retry(0, "again")

    for name in ("limited", "broken"):
        q.push(name, max_attempts=2)
    q.push_many([Push("good")])
    Worker(q, handle, concurrency=2).run(until_empty=True)
    spans = {context_of(span).span_id: span for span in telemetry.named("process")}
    inner = telemetry.named("inner")
    assert [span.parent and span.parent.span_id in spans for span in inner] == [True] * 5
    assert {span.kind for span in spans.values()} == {SpanKind.CONSUMER}
    assert {span.parent for span in spans.values()} == {None}
    pushes = {context_of(span).span_id for span in telemetry.named("push")}
    assert {link for span in spans.values() for link in linked(span)} == pushes
    ends = [
        (
            span.status.status_code,
            said(span).get("dpq.task.signal"),
            said(span).get("error.type"),
            said(span).get("dpq.task.retry_after_seconds"),
            len(span.events),
        )
        for span in spans.values()
    ]
    assert sorted(ends, key=str) == sorted(
        [
            (StatusCode.UNSET, None, None, None, 0),
            (StatusCode.UNSET, "RateLimited", None, 0.001, 0),
            (StatusCode.UNSET, None, None, None, 0),
            (StatusCode.ERROR, None, "ValueError", None, 1),
            (StatusCode.ERROR, "Retry", "dpq.limits.signals.Retry", None, 0),
        ],
        key=str,
    )
    settled = [span.name.split(" ")[0] for span in telemetry.spans if linked(span)]
    assert (settled.count("fail"), settled.count("rate_limited")) == (2, 1)
    took = telemetry.points(messaging_metrics.MESSAGING_PROCESS_DURATION)
    assert {error: point.count for (_, error), point in took.items()} == {
        "": 3,
        "ValueError": 1,
        "dpq.limits.signals.Retry": 1,
    }


async def test_a_worker_of_asyncio(
    opened: Callable[..., AsyncDPQ[Any]], telemetry: Telemetry
) -> None:
    """Handlers that run at once in one loop each have their own span, and spans nest below them
    across an await; the span around the worker is none of their parents."""
    q = opened()
    both = asyncio.Barrier(2)

    async def handle(task: Any) -> None:
        await both.wait()
        with telemetry.tracer.start_as_current_span("inner") as span:
            span.set_attribute("payload", task.payload)
            await asyncio.sleep(0)

    await asyncio.gather(*(q.push(n) for n in range(2)))
    with telemetry.tracer.start_as_current_span("main"):
        await AsyncWorker(q, handle, concurrency=2).run(until_empty=True)
    spans = {context_of(span).span_id: span for span in telemetry.named("process")}
    assert {span.parent for span in spans.values()} == {None}
    parents = [span.parent.span_id for span in telemetry.named("inner") if span.parent]
    assert sorted(parents) == sorted(spans)
    pushes = sorted(context_of(span).span_id for span in telemetry.named("push"))
    assert sorted(link for span in spans.values() for link in linked(span)) == pushes
    async with q.lease() as nothing:
        assert nothing is None
    await q.push("page")

    async def fail() -> None:
        async with q.lease():
            raise ValueError("no page")

    with pytest.raises(ValueError, match="no page"):
        await fail()
    assert said(telemetry.named("process")[-1])["error.type"] == "ValueError"
    await q.admin.drop()


class Broken(SimpleSpanProcessor):
    """Fails whenever it is told something."""

    def on_start(self, *_: Any, **__: Any) -> None:
        raise OSError("the collector is gone")


def test_telemetry_that_fails_stops_nothing(
    make: Make, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Queues and workers go on without it, and one line tells of it."""
    telemetry = Telemetry(queue_name)
    telemetry.tracer_provider.add_span_processor(Broken(InMemorySpanExporter()))
    telemetry.instrument()
    q = make()
    done: list[Any] = []
    try:
        with caplog.at_level(logging.ERROR, "dpq.otel"):
            q.push("page")
            Worker(q, lambda task: done.append(task.payload)).run(until_empty=True)
    finally:
        dpq.otel.uninstrument()
    assert done == ["page"]
    assert len(caplog.records) == 1


def test_the_entry_point_instruments_as_a_program_expects(
    make: Make, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`opentelemetry-instrument` finds a class that takes its arguments; a second call of either
    kind only says so."""
    project = tomllib.loads((Path(dpq.__file__).parents[1] / "pyproject.toml").read_text())
    named = project["project"]["entry-points"]["opentelemetry_instrumentor"]["dpq"]
    module, _, name = named.partition(":")
    instrumentor = getattr(import_module(module), name)()
    telemetry = Telemetry(queue_name)
    instrumentor.instrument(skip_dep_check=True, tracer_provider=telemetry.tracer_provider)
    try:
        telemetry.instrument()
        make().push("page")
    finally:
        instrumentor.uninstrument()
    assert len(telemetry.named("push")) == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
