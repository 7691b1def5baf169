"""observe: a host's own count, obeyed by all consumers before its first refusal.

Against a real server of GitHub's kind, on this machine: a fixed window, and a 403 when it is spent.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from dpq import DPQ, AsyncDPQ, AsyncWorker, Context, Push, Task, Worker

WINDOW = 4
"""Seconds of a window of the host, from one multiple of it to the next. With less, a reset that is
told in whole seconds could be that of the next window."""

MOST = 40
"""Requests in a window: more than consumers, which know nothing of a new window."""


class Host(ThreadingHTTPServer):
    """A host that counts: statuses are the answers that it has given."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.lock = threading.Lock()
        self.window = self.used = 0
        self.windows: set[int] = set()
        self.statuses: list[int] = []

    def count(self) -> tuple[int, int, int]:
        """A request: its status, what is left, and the reset in epoch seconds."""
        with self.lock:
            window = int(time.time()) // WINDOW
            if window != self.window:
                self.window, self.used = window, 0
            self.used += 1
            status = 200 if self.used <= MOST else 403
            self.statuses.append(status)
            self.windows.add(window)
            return status, max(0, MOST - self.used), (window + 1) * WINDOW

    def get(self) -> HTTPResponse:
        """A request, as a client makes it."""
        connection = HTTPConnection("127.0.0.1", self.server_port, timeout=30)
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        connection.close()
        return response


class _Answer(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        status, left, reset = self.server.count()
        self.send_response(status)  # with a Date of whole seconds
        self.send_header("X-RateLimit-Limit", str(MOST))
        self.send_header("X-RateLimit-Remaining", str(left))
        self.send_header("X-RateLimit-Reset", str(reset))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        thread = threading.Thread(target=host.serve_forever, args=(0.05,))
        thread.start()
        yield host
        host.shutdown()
        thread.join()


TASKS = 2 * MOST + 20


def crossed(host: Host) -> None:
    """All tasks were done, in several windows, and none was refused."""
    assert host.statuses == [200] * TASKS
    assert len(host.windows) >= 3


def test_consumers_cross_a_limit_that_nobody_has_set(live: DPQ, host: Host, server: Any) -> None:
    """Who holds a lease tells what the host has said before the task ends, a worker of each kind
    with its end."""
    live.push_many(Push(n, group="api.example") for n in range(TASKS))
    done: Counter[str] = Counter()

    def consume() -> None:
        while len(host.statuses) < TASKS:
            with live.lease(timeout=0.5) as task:
                if task is not None:
                    assert live.observe(task, host.get())
                    done["lease"] += 1

    def handle(task: Task[Any], context: Context) -> None:
        context.observe(host.get())
        done["Worker"] += 1

    async def handle_async(task: Task[Any], context: Context) -> None:
        response = await asyncio.to_thread(host.get)
        context.observe(status=response.status, headers=response.headers)
        done["AsyncWorker"] += 1

    async def work_async() -> None:
        async with AsyncDPQ.from_url(server.url, live.queue_name) as q:
            await AsyncWorker(q, handle_async, concurrency=2).run(until_empty=True)
            assert await q.observe("other", headers={"RateLimit": "limit=9, remaining=5, reset=9"})
            assert (await q.admin.group("other")).budgets[0].left == 5

    def work() -> None:
        Worker(live, handle, concurrency=2).run(until_empty=True, signals=False)

    with ThreadPoolExecutor() as threads:
        calls = (consume, consume, work, lambda: asyncio.run(work_async()))
        for running in [threads.submit(call) for call in calls]:
            running.result()
    crossed(host)
    assert set(done) == {"lease", "Worker", "AsyncWorker"}
    assert live.check() == []


@pytest.mark.parametrize("kind", ["Worker", "AsyncWorker"])
def test_a_returned_answer_is_observed(live: DPQ, server: Any, kind: str) -> None:
    """A handler that returns its answer need not tell it; what has no headers is no answer."""

    class Answer:
        status, headers = 200, {"RateLimit": "limit=9, remaining=5, reset=60"}

    class Odd:
        headers = property(lambda self: 1 / 0)

    live.push_many([Push(1, group="a"), Push(2, group="b")])
    answers = {1: Answer(), 2: Odd()}
    if kind == "Worker":
        Worker(live, lambda task: answers[task.payload]).run(until_empty=True)
    else:

        async def run() -> None:
            async with AsyncDPQ.from_url(server.url, live.queue_name) as q:
                await AsyncWorker(q, lambda task: answers[task.payload]).run(until_empty=True)

        asyncio.run(run())
    assert [budget.left for budget in live.admin.group("a").budgets] == [5]
    assert not live.admin.group("b").budgets
    assert live.size() == 0
