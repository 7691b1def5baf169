"""What crawler.py has around its consumers: it starts them, kills one, and notes what they do."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import NamedTuple, Self
from uuid import uuid4

from _stdlib_site import Site
from crawler import Tell

from dpq import DPQ, Push, Task, TaskNotFoundError, TaskState

CONSUMERS = 3
LOOK_S = 0.1  # between two looks at the queue
STOPPED_S = 0.05  # what a stopped consumer has sent before is with the server after this time


class Way(NamedTuple):
    """A way to crawl: what a consumer does, and how a page waits in the queue.

    Attributes:
        name: In the report.
        does: In the report, in a few words.
        consume: What each process runs: the server's URL, the queue's name, `tell`.
        describe: The push of a page.
        has_limits: The queue is told what each host allows.
        is_killed: One consumer is killed half-way.
    """

    name: str
    does: str
    consume: Callable[[str, str, Tell], None]
    describe: Callable[..., Push[str]]
    has_limits: bool = False
    is_killed: bool = False


class Event(NamedTuple):
    """What a consumer told: it is ready; or it popped, acknowledged or buried a task, or met a 429.

    Attributes:
        what: `ready`, `popped`, `acknowledged`, `limited` or `buried`.
        at: Monotonic seconds.
    """

    consumer: int
    what: str
    at: float
    task_id: str = ""
    module: str = ""
    priority: float = 0
    deliveries: int = 0


@dataclass
class Record:
    """All that was seen of one crawl.

    Attributes:
        pages: How many there are to crawl.
        latest: What each consumer told last.
        killed: What the killed consumer held, and when it was killed.
        fate: What became of that task since.
        crashed: Consumers that ended with an error of their own.
        heard: When the last event came.
        latest_s: How late a timer of this process was, at most: what the machine did meanwhile.
    """

    pages: int
    began: float = field(default_factory=time.monotonic)
    latest: dict[int, Event] = field(default_factory=dict)
    acknowledged: list[Event] = field(default_factory=list)
    buried: list[Event] = field(default_factory=list)
    killed: Event | None = None
    fate: list[Event] = field(default_factory=list)
    crashed: list[int] = field(default_factory=list)
    heard: float = field(default_factory=time.monotonic)
    latest_s: float = 0.0

    def add(self, event: Event) -> None:
        """Take note of an event."""
        self.latest[event.consumer] = event
        self.heard = time.monotonic()
        if event.what == "acknowledged":
            self.acknowledged.append(event)
        elif event.what == "buried":
            self.buried.append(event)
        if self.killed and event.task_id == self.killed.task_id:
            self.fate.append(event)

    @property
    def settled(self) -> int:
        """Pages that need no further request."""
        return len(self.acknowledged) + len(self.buried)

    @property
    def silence(self) -> float:
        """Seconds since the last event."""
        return time.monotonic() - self.heard

    @property
    def seconds(self) -> float:
        """Since the consumers began."""
        return time.monotonic() - self.began


@contextmanager
def open_queue(url: str, way: Way) -> Iterator[DPQ[str]]:
    """Open a queue of a fresh name, and leave nothing of it on the server."""
    name = "-".join(re.findall(r"[a-z]+", way.name.lower().replace("'s", "")))
    with DPQ.from_url(url, f"stdlib-{name}-{uuid4().hex[:6]}") as q:
        try:
            yield q
        finally:
            q.admin.drop()
            for key in q.redis.scan_iter(match=f"{q.queue_name}:*", count=1000):
                q.redis.delete(key)  # the consumers' own


class Fleet:
    """The consumer processes, and the pipes on which they tell what they do."""

    def __init__(self, way: Way, url: str, q: DPQ[str], site: Site, record: Record) -> None:
        self._way = way
        self._q = q
        self._site = site
        self._record = record
        self._pipes: dict[Connection, int] = {}
        self._processes: dict[int, SpawnProcess] = {}
        spawn = get_context("spawn")  # fresh interpreters: they share nothing but the queue
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # they inherit that: we end them
        for number in range(1, CONSUMERS + 1):
            ours, theirs = spawn.Pipe(duplex=False)
            arguments = (way.consume, url, q.queue_name, theirs, number)
            process = spawn.Process(target=_consumer, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes[ours] = number
            self._processes[number] = process
        signal.signal(signal.SIGINT, interrupted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.join()

    @property
    def is_starting(self) -> bool:
        """Some consumer runs, and has not said that it is ready."""
        return any(number not in self._record.latest for number in self._pipes.values())

    def step(self) -> bool:
        """Take note of events for a moment; False when every consumer has ended."""
        until = time.monotonic() + LOOK_S
        while self._pipes and (left := until - time.monotonic()) > 0:
            for pipe in wait(list(self._pipes), left):
                try:
                    event = pipe.recv()
                except EOFError:
                    self._ended(self._pipes.pop(pipe))
                    continue
                self._record.add(event)
                if self._is_time_to_kill(event):
                    self._kill(event)
                    until = time.monotonic()  # that took its time
        self._record.latest_s = max(self._record.latest_s, time.monotonic() - until)
        return bool(self._pipes)

    def _ended(self, number: int) -> None:
        self._processes[number].join()
        killed = self._record.killed
        if self._processes[number].exitcode and not (killed and killed.consumer == number):
            self._record.crashed.append(number)

    def _is_time_to_kill(self, event: Event) -> bool:
        return (
            self._way.is_killed
            and self._record.killed is None
            and event.what == "popped"
            and self._record.settled >= self._record.pages / 2
            and self._site.library.pages[event.module].status == 200
        )

    def _kill(self, event: Event) -> None:
        """Kill the consumer if it still holds the task that it has just popped."""
        process = self._processes[event.consumer]
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        try:
            task = self._q.get(event.task_id)
            holds = task.state is TaskState.INVISIBLE and task.deliveries == event.deliveries
        except TaskNotFoundError:
            holds = False
        if holds:
            process.kill()
            self._record.killed = event._replace(at=time.monotonic())
        else:
            os.kill(process.pid, signal.SIGCONT)


def _consumer(
    consume: Callable[[str, str, Tell], None],
    url: str,
    queue_name: str,
    pipe: Connection,
    number: int,
) -> None:
    def tell(what: str, task: Task[str]) -> None:
        module = task.payload.rpartition("/")[2]
        about = (task.id, module, task.priority, task.deliveries)
        pipe.send(Event(number, what, time.monotonic(), *about))

    pipe.send(Event(number, "ready", time.monotonic()))
    consume(url, queue_name, tell)
