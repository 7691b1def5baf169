"""What does OpenTelemetry cost, against the same work without it? No span is exported."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

import dpq.otel
from benchmarks._harness import ROUNDS, Bench, Result, payload, ratio, run_one
from dpq import Push

ONE_BY_ONE = 200  # tasks in each slice
BATCHES, BATCH = 8, 100
TASKS = 20_000


def telemetry(sampler: Sampler) -> dict[str, Any]:
    """Providers whose spans nobody exports."""
    tracers = TracerProvider(sampler=sampler)
    tracers.add_span_processor(SimpleSpanProcessor(SpanExporter()))
    return {
        "tracer_provider": tracers,
        "meter_provider": MeterProvider([InMemoryMetricReader()]),
    }


def measure(bench: Bench) -> Iterator[Result]:
    queue, numbers = bench.queue(), count()

    def one_by_one() -> None:
        for _ in range(ONE_BY_ONE):
            queue.push(payload(next(numbers)))
            queue.pop().on_success()

    def in_hundreds() -> None:
        for _ in range(BATCHES):
            queue.push_many(Push(payload(next(numbers))) for _ in range(BATCH))
            queue.ack_many(queue.pop_many(BATCH))

    def traced(work: Callable[[], None], providers: dict[str, Any]) -> Callable[[], None]:
        def run() -> None:
            dpq.otel.instrument(**providers)
            try:
                work()
            finally:
                dpq.otel.uninstrument()

        return run

    for what, sampler in (("sampled", ALWAYS_ON), ("not sampled", ALWAYS_OFF)):
        providers = telemetry(sampler)
        for name, work, tasks in (
            ("push + pop + ack", one_by_one, ONE_BY_ONE),
            ("push_many, pop_many, ack_many of 100", in_hundreds, BATCHES * BATCH),
        ):
            samples = ratio(bench, traced(work, providers), work, queue.stats, tasks)
            yield Result(f"{name}, traced and {what} / untraced", "x", None, *samples)
        providers["tracer_provider"].shutdown()

    def memory(providers: dict[str, Any] | None) -> float:
        bench.wait_until_freed()
        before = int(bench.redis.info("memory")["used_memory"])
        if providers:
            dpq.otel.instrument(**providers)
        queue.push_many(Push(payload(n)) for n in range(TASKS))
        dpq.otel.uninstrument()
        taken = int(bench.redis.info("memory")["used_memory"]) - before
        queue.purge()
        return taken / TASKS

    providers = telemetry(ALWAYS_ON)
    more = [memory(providers) - memory(None) for _ in range(ROUNDS)]
    yield Result("memory that the context of a task takes", "bytes", None, more, f"{TASKS} tasks")
    queue.admin.drop()


if __name__ == "__main__":
    run_one("tracing")
