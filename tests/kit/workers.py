"""What tests of workers share: queues that are dropped, workers that end, and who waits."""

import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from redis import Redis
from support import wait_for

from dpq import Backoff, Task

PATIENCE = 120.0  # seconds until a test gives up
STUCK = 20.0  # seconds until a worker that does not stop shows its stacks
LATE = 3.0  # seconds: more than anything here takes, less than a wake-up that was lost costs

Make = Callable[..., Any]
Start = Callable[..., "Future[int]"]


@contextlib.contextmanager
def queues(kind: Any, redis: Redis, queue_name: str) -> Iterator[Make]:
    """Makes queues in real time, without jitter: `make()`, `make("-2", **settings)`."""
    made: list[Any] = []

    def one(suffix: str = "", **settings: Any) -> Any:
        settings.setdefault("backoff", Backoff(jitter=0))
        made.append(kind(redis, queue_name + suffix, **settings))
        return made[-1]

    yield one
    for queue in made:
        queue.admin.drop()
        queue.close()


@contextlib.contextmanager
def threads_of_workers() -> Iterator[Start]:
    """Runs a worker in a thread of its own; all are stopped at the end, without grace.

    A worker that has failed shows its error, and one that does not end what it waits for: if the
    test fails, pytest prints both.
    """
    workers: list[Any] = []
    results: list[Future[int]] = []
    with ThreadPoolExecutor(8) as threads:

        def run(worker: Any, **options: Any) -> "Future[int]":
            workers.append(worker)
            results.append(threads.submit(worker.run, **options))
            return results[-1]

        yield run
        for worker, result in zip(workers, results, strict=True):
            show_at = time.monotonic() + STUCK
            while not result.done():
                worker.stop()
                with suppress(Exception):
                    result.result(0.1)
                if time.monotonic() > show_at:
                    show_at = float("inf")
                    show_stacks(worker)
            if error := result.exception():
                traceback.print_exception(error)


def show_stacks(worker: Any) -> None:
    """Print what all threads wait for, and all tasks of the event loop of a worker of asyncio."""
    for thread, frame in sys._current_frames().items():
        print(f"\nThread {thread}", file=sys.stderr)
        traceback.print_stack(frame)
    with suppress(Exception):
        worker.print_tasks()


class Gate:
    """A handler that notes what it gets, and returns when it is opened."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self.tasks: list[Task[Any]] = []
        self._opened = threading.Semaphore(0)

    def __call__(self, task: Task[Any]) -> None:
        self.tasks.append(task)
        self.begun.append(task.payload)
        assert self._opened.acquire(timeout=PATIENCE)

    def open(self, times: int = 1000) -> None:
        self._opened.release(times)

    def wait_for(self, count: int) -> None:
        wait_for(lambda: len(self.begun) >= count, lambda: self.begun)


def raising(error: BaseException) -> Callable[..., None]:
    """A handler, or a hook, that raises."""

    def handler(*_: Any, **__: Any) -> None:
        raise error

    return handler


def note_calls(queue: Any, note: Callable[[Any], Any]) -> None:
    """Tell of the commands of every round trip of a queue, of either kind, from now on."""
    connections = queue._session.connections
    send = connections.call_all
    connections.call_all = lambda commands: (note(commands), send(commands))[1]


def asked(queue: Any) -> list[list[str]]:
    """Note every round trip of a queue from now on: the names of its scripts."""
    seen: list[list[str]] = []

    def note(commands: Any) -> None:
        names = [command.script.name for command in commands]
        if not {"beat", "stats"} & set(names):
            seen.append(names)

    note_calls(queue, note)
    return seen
