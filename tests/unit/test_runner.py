"""The runners of both workers, alone: over a fetcher that only notes what it gets."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.scripted import AsyncScriptedFetcher, ScriptedFetcher, ScriptedQueue, a_task
from support import PATIENCE_S

from dpq import RateLimited, Reject, Release, Retry, Task
from dpq.worker.deliveries import Deliveries, Done
from dpq.worker.handler_calls import HandlerCalls
from dpq.worker.handlers import finder
from dpq.worker.run_state import RunState
from dpq.worker.runner import Runner
from dpq.worker.runner_async import AsyncRunner

KINDS = ["threads", "asyncio"]


class Stage:
    """The tasks of one queue and the hooks and handlers for them; either runner runs them."""

    def __init__(self, count: int, handlers: Any, **options: Any) -> None:
        self.queue: Any = ScriptedQueue("q", [])
        self.deliveries = Deliveries("worker", [self.queue], None)
        self.calls = HandlerCalls[Any](
            name="worker",
            deliveries=self.deliveries,
            find=finder(handlers),
            **options,
        )
        self.state = RunState()
        self.taken = self.deliveries.hold(self.queue, [a_task(n, str(n)) for n in range(count)])

    def run(self, kind: str) -> list[Done]:
        """Handle all tasks; return what the fetcher was given."""
        return self.run_threads() if kind == "threads" else asyncio.run(self.run_async())

    def runner(self) -> tuple[Runner, ScriptedFetcher]:
        fetcher: Any = ScriptedFetcher(self.taken, self.deliveries, self.state)
        runner = Runner(self.calls, fetcher, self.state, threading.RLock(), wake=lambda: None)
        return runner, fetcher

    def run_threads(self) -> list[Done]:
        runner, fetcher = self.runner()
        runner.work()
        assert not list(runner.running)
        return fetcher.ends

    async def run_async(self, concurrency: int = 2) -> list[Done]:
        fetcher: Any = AsyncScriptedFetcher(self.taken, self.deliveries, self.state)
        self.state.concurrency = concurrency
        runner = AsyncRunner(self.calls, fetcher, self.state)
        ended = asyncio.Event()
        fetcher.change.note = ended.set
        runner.fill()
        async with asyncio.timeout(PATIENCE_S):
            while running := list(runner.running):
                assert len(running) <= concurrency
                await ended.wait()
                ended.clear()
        return list(fetcher.ends)


ERRORS = [
    *(None, ValueError("no"), Reject("no"), Release(1), Retry(2), RateLimited(3)),
    *(SystemExit(3), KeyboardInterrupt(), ExceptionGroup("all", [RateLimited(1), ValueError()])),
]


@pytest.mark.parametrize("kind", KINDS)
@given(errors=st.lists(st.sampled_from(ERRORS), max_size=6), hooked=st.booleans())
def test_each_handler_ends_in_one_done(
    kind: str, errors: list[BaseException | None], hooked: bool
) -> None:
    """Whatever a handler raises, its end is handed over once, with its error; it is counted."""
    seen: list[tuple[str, Any]] = []

    def handler(task: Task[Any]) -> None:
        if error := errors[task.payload]:
            raise error

    hooks: dict[str, Any] = {
        name: lambda context, *_, name=name: seen.append((name, context.task.payload))
        for name in ("before", "after")
    }
    stage = Stage(len(errors), handler, **hooks if hooked else {})
    ends = stage.run(kind)
    assert {end.task.payload: end.error for end in ends} == dict(enumerate(errors))
    assert len(ends) == len(errors)
    names = Counter("done" if error is None else type(error).__name__ for error in errors)
    assert stage.calls.handled == names
    expected = [(name, n) for n in range(len(errors)) for name in ("before", "after")]
    assert sorted(seen) == sorted(expected if hooked else [])


def test_no_more_run_at_once_than_may() -> None:
    """Each of two handlers of asyncio waits for the other one, and no third begins."""
    running: list[int] = []
    most: list[int] = []

    async def handler(task: Task[Any]) -> None:
        running.append(task.payload)
        for _ in range(5):
            await asyncio.sleep(0)
            most.append(len(running))
        running.remove(task.payload)

    assert len(asyncio.run(Stage(6, handler).run_async(concurrency=2))) == 6
    assert max(most) == 2
