"""The notes of a worker for its queues: the tasks that it holds, the progress of its handlers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpq.script.command import Steps

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.model.task import Task


SEND_SECONDS = 1.0
"""Seconds between two calls that send progress: a person who looks does not see more."""


class Holding(NamedTuple):
    """A task that a worker holds."""

    queue_index: int
    task: Task[Any]
    began: float | None = None  # when its handler began, monotonic seconds; None: it does not run


class ProgressNotes:
    """The newest note of each task, as its handler has told it, until it is sent.

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
