"""Named tasks on a real server: pushed, popped, found and run."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, HttpUrl
from redis import Redis

from dpq import DPQ, AsyncDPQ, DuplicateTaskError, PayloadError, Push, Reject, Task, TaskState
from dpq.server import Server
from dpq.tasks import Tasks
from dpq.worker.handlers import Context
from dpq.worker.worker import Worker


class Page(BaseModel):
    url: HttpUrl
    seen: datetime


@pytest.fixture
def tasks(q: DPQ[Any]) -> Tasks:
    return Tasks(q)


def work_off(q: DPQ[Any], tasks: Tasks) -> list[Any]:
    """Run every task that is due, as a worker does; what the functions returned, in order."""
    results: list[Any] = []
    while True:
        with q.lease() as task:
            if task is None:
                return results
            results.append(tasks.find(task)(task, Context(q, task, lambda: False)))


def test_a_pushed_task_runs_with_its_types(q: DPQ[Any], tasks: Tasks) -> None:
    """What is pushed comes to the function as its annotated types, and is acked when it returns."""

    @tasks.task()
    def fetch(page: Page, depth: int = 0) -> Any:
        return page, depth

    page = Page(url=HttpUrl("https://a.example/b"), seen=datetime(2026, 1, 2, tzinfo=UTC))
    task_id = fetch.push(page={"url": "https://a.example/b", "seen": "2026-01-02T00:00:00Z"})
    fetch.push(page, "2")

    assert q.get(task_id).payload == {
        "task": "fetch",
        "args": {"page": {"url": "https://a.example/b", "seen": "2026-01-02T00:00:00Z"}},
    }
    assert work_off(q, tasks) == [(page, 0), (page, 2)]
    assert q.stats().acked == 2
    assert q.size() == 0


def test_options_reach_the_queue(q: DPQ[Any], tasks: Tasks, clock: Any) -> None:
    """Options of the decorator and the push are the stored task's; the push has the last word."""

    @tasks.task(priority=5, group="a.example", max_attempts=3, expires_in=60, cost=2)
    def fetch(url: str) -> str:
        return url

    usual = q.get(fetch.push(url="/usual"))
    assert (usual.priority, usual.group, usual.max_attempts, usual.cost) == (5, "a.example", 3, 2)
    late = q.get(fetch.push(url="/late", delay=50, priority=9, group=None, key="late", cost=1))
    assert (late.state, late.priority, late.group, late.key) == (TaskState.DELAYED, 9, None, "late")
    assert (late.max_attempts, late.cost) == (3, 1)
    fetch.push(url="/never", delay=70, expires_in=65)

    assert work_off(q, tasks) == ["/usual"]
    clock.advance(55)
    assert work_off(q, tasks) == ["/late"]
    clock.advance(20)
    assert work_off(q, tasks) == []
    assert [dead.reason for dead in q.dead.list()] == ["expired"]


def test_key_and_on_duplicate(q: DPQ[Any], tasks: Tasks) -> None:
    """A key makes a named task unique as any other; `on_duplicate` may be its default."""

    @tasks.task(on_duplicate="update")
    def fetch(url: str, depth: int) -> Any:
        return url, depth

    first = fetch.push(url="/a", depth=1, key="/a")
    assert fetch.push(url="/a", depth=2, key="/a", on_duplicate="keep") == first
    assert q.get(first).payload["args"]["depth"] == 1
    assert fetch.push(url="/a", depth=3, key="/a") == first
    with pytest.raises(DuplicateTaskError):
        fetch.push(url="/a", depth=4, key="/a", on_duplicate="error")
    assert work_off(q, tasks) == [("/a", 3)]


def test_push_many(q: DPQ[Any], tasks: Tasks) -> None:
    """Prepared tasks of several functions travel in one `push_many`."""

    @tasks.task()
    def fetch(url: str) -> str:
        return url

    @tasks.task(priority=9)
    def clean(days: int) -> int:
        return days

    q.push_many([fetch.prepare(url="/a"), clean.prepare(days=7), fetch.prepare("/b", priority=-1)])
    assert work_off(q, tasks) == [7, "/a", "/b"]


def test_a_refused_push_stores_nothing(q: DPQ[Any], tasks: Tasks) -> None:
    """Arguments that do not fit are refused before anything is sent."""

    @tasks.task()
    def fetch(url: HttpUrl) -> None: ...

    with pytest.raises(PayloadError, match="url: Input should be a valid URL"):
        fetch.push(url="no address")
    assert q.stats().pushed == 0


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"task": "fetch", "args": {"depth": 1}}, "arguments of task 'fetch': url: Field required"),
        ({"task": "unheard", "args": {}}, "unknown task 'unheard'"),
        ({"body": "hello"}, "not a named task: its payload has no 'task'"),
    ],
)
def test_what_cannot_run_is_dead_at_once(
    q: DPQ[Any], tasks: Tasks, payload: Any, reason: str
) -> None:
    """A stored task that no attempt can run is in the dead letters after one, with the reason."""

    @tasks.task()
    def fetch(url: str, depth: int = 0) -> None: ...

    q.push(payload)
    assert work_off(q, tasks) == []
    [dead] = q.dead.list()
    assert (dead.payload, dead.reason, dead.deliveries) == (payload, reason, 1)


def test_a_mended_function_runs_what_was_rejected(q: DPQ[Any], tasks: Tasks) -> None:
    """Once the function takes the arguments again, a replay of the dead letters runs them."""

    @tasks.task()
    def fetch(url: str) -> None: ...

    fetch.push(url="/a")
    mended = Tasks(q)

    @mended.task("fetch")
    def fetch_page(page: str) -> None: ...

    work_off(q, mended)
    assert q.dead.list()[0].reason.startswith("arguments of task 'fetch': page: Field required")

    again = Tasks(q)

    @again.task("fetch")
    def fetch_again(url: str) -> str:
        return url

    q.dead.replay()
    assert work_off(q, again) == ["/a"]


def test_signals_and_errors_go_through(q: DPQ[Any], tasks: Tasks, clock: Any) -> None:
    """What a function raises settles its task: errors are counted, signals say how."""

    @tasks.task(max_attempts=5)
    def fetch(url: str, task: Task[Any]) -> str:
        if url == "/gone":
            raise Reject("gone for good")
        if task.attempt == 1:
            raise ConnectionError("cut")
        return f"{url}, attempt {task.attempt} of {task.max_attempts}"

    fetch.push(url="/gone", priority=1)
    fetch.push(url="/a")
    with pytest.raises(ConnectionError):
        work_off(q, tasks)
    assert [dead.reason for dead in q.dead.list()] == ["gone for good"]
    clock.advance(3600)
    assert work_off(q, tasks) == ["/a, attempt 2 of 5"]


def test_the_context_comes_from_the_worker(q: DPQ[Any], tasks: Tasks) -> None:
    """A function may push its own next tasks to the queue that its task came from."""

    @tasks.task()
    def fetch(depth: int, context: Context[Any]) -> int:
        if depth:
            context.queue.push_many([fetch.prepare(depth=depth - 1)])
        return depth

    fetch.push(depth=2)
    assert work_off(q, tasks) == [2, 1, 0]


def test_a_worker_runs_them(q: DPQ[Any], tasks: Tasks) -> None:
    """A `Worker` takes the registry for its handlers, and runs, or buries, whatever is there."""
    ran: list[Any] = []

    @tasks.task()
    def fetch(url: str, context: Context[Any]) -> None:
        ran.append((url, context.queue is q))

    fetch.push(url="/a")
    fetch.push(url="/b")
    q.push({"task": "unheard"})
    assert Worker(q, tasks).run(until_empty=True, signals=False) == 3
    assert ran == [("/a", True), ("/b", True)]
    assert [dead.reason for dead in q.dead.list()] == ["unknown task 'unheard'"]


def test_async_tasks(server: Server, redis: Redis, queue_name: str) -> None:
    """With an `AsyncDPQ` a push is awaited, and what runs is the function's coroutine."""

    async def main() -> None:
        queue: AsyncDPQ[Any]
        async with AsyncDPQ.from_url(server.url, queue_name) as queue:
            tasks = Tasks(queue)

            @tasks.task(priority=3)
            async def fetch(url: HttpUrl) -> Any:
                return url

            task_id = await fetch.push(url="https://a.example")
            assert (await queue.get(task_id)).priority == 3
            task: Task[Any] | None
            async with queue.lease() as task:
                assert task
                assert task.id == task_id
                assert await tasks.find(task)(task) == HttpUrl("https://a.example")
            assert (await queue.stats()).acked == 1
            await queue.drop()

    asyncio.run(main())


def test_pushed_without_this_library(q: DPQ[Any], tasks: Tasks, redis: Redis) -> None:
    """A producer needs the payload's form only: the same task may be pushed as plain JSON."""

    @tasks.task()
    def fetch(url: str, depth: int = 0) -> Any:
        return url, depth

    q.push({"task": "fetch", "args": {"url": "/a"}})
    q.push_many([Push({"task": "fetch", "args": {"url": "/b", "depth": 1}}, priority=1)])
    assert work_off(q, tasks) == [("/b", 1), ("/a", 0)]
