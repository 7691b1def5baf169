"""The heartbeats of a worker, and the progress of its handlers: what tells its queues. No I/O."""

from __future__ import annotations

import os
import random
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpq.script.command import Steps
from dpq.verbs.workers import Doing

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.model.task import Task


REMEMBER_SECONDS = 60.0
"""Seconds between two slots of a queue's history that a worker stores."""


FIRST_JITTER, JITTER = 0.5, 0.1
"""The largest random share that is taken off the time to the second heartbeat, and to later ones.

Workers that began together must not send together. The first heartbeat tells the queues at once
that the worker is there, so the second one spreads them."""


SEND_SECONDS = 1.0
"""Seconds between two calls that send progress: a person who looks does not see more."""


class Holding(NamedTuple):
    """A task that a worker holds."""

    queue_index: int
    task: Task[Any]
    began: float | None = None  # when its handler began, monotonic seconds; None: it does not run


class Heartbeats:
    """Makes the heartbeats of one run."""

    def __init__(
        self,
        name: str,
        concurrency: int,
        operations: Sequence[Operations[Any]],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._chance, self._jitter = chance, FIRST_JITTER
        self._began = time.monotonic()
        self._name = name
        self._concurrency = concurrency
        self._operations = operations
        self._run_id = secrets.token_urlsafe(9)
        self._remembered = -REMEMBER_SECONDS

    def beat(self, holdings: Iterable[Holding], quiet: Collection[int] = ()) -> list[Steps[Any]]:
        """Make a heartbeat for each queue, with the tasks that the worker holds of it.

        It takes no new tasks of those that are `quiet`.
        """
        by_queue: list[list[Holding]] = [[] for _ in self._operations]
        for each in holdings:
            by_queue[each.queue_index].append(each)
        host, pid, now = socket.gethostname(), os.getpid(), time.monotonic()
        version = sys.modules["dpq"].__version__
        beats: list[Steps[Any]] = []
        for index, (operations, held) in enumerate(zip(self._operations, by_queue, strict=True)):
            running = [(each.began, each.task.id) for each in held if each.began is not None]
            counts = (len(running), self._concurrency)
            doing = _doing(held, running, now)
            about = (self._run_id, self._name, host, pid, version, *counts, now - self._began)
            beats.append(operations.beat(*about, doing, index in quiet))
        if now - self._remembered >= REMEMBER_SECONDS:
            self._remembered = now
            beats += [operations.remember() for operations in self._operations]
        return beats

    def pause(self, seconds: float) -> float:
        """Return the seconds until the next heartbeat, at most `seconds`."""
        jitter, self._jitter = self._jitter, JITTER
        return seconds * (1 - jitter * self._chance())

    def leave(self) -> list[Steps[Any]]:
        """Make the operations that tell every queue that this worker has ended."""
        return [operations.leave(self._run_id) for operations in self._operations]


def _doing(held: Sequence[Holding], running: Sequence[tuple[float, str]], now: float) -> Doing:
    leases = list(dict.fromkeys((each.task.id, each.task.token) for each in held))
    if not running:
        return Doing(leases)
    began, task_id = min(running)
    return Doing(leases, max(0, round((now - began) * 1000)), task_id)


class ProgressNotes:
    """What the handlers of a worker have told, until it is sent: the newest note of each task.

    Handlers in any thread add to it, a thousand times a second; `wake` is called for the first note
    after `take`.
    """

    def __init__(self) -> None:
        self.wake: Callable[[], object] = lambda: None
        self._lock = threading.Lock()
        self._notes: dict[tuple[int, str, int], tuple[Task[Any], str]] = {}

    def note(self, queue_index: int, task: Task[Any], text: str) -> None:
        """Note the progress of a task, instead of what was noted before."""
        with self._lock:
            first = not self._notes
            self._notes[queue_index, task.id, task.token] = task, text
        if first:
            self.wake()

    def take(self, queues: Sequence[Operations[Any]]) -> list[Steps[Any]]:
        """Make the operations that send all notes, and forget them."""
        with self._lock:
            notes, self._notes = self._notes, {}
        by_queue: dict[int, list[tuple[Task[Any], str]]] = {}
        for (queue_index, _, _), told in notes.items():
            by_queue.setdefault(queue_index, []).append(told)
        return [queues[index].tell_progress(told) for index, told in by_queue.items()]
