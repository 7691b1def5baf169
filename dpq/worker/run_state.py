"""The state of one run of a worker, which its parts share, and its notes for its queues. No I/O.

The scheduler has a `Pulse`, and ends by the same signals.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpq.queue.inside import operations_of

if TYPE_CHECKING:
    from dpq.model.reports import Health
    from dpq.model.task import Task
    from dpq.script.command import Steps

BEAT_SECONDS = 10.0
"""Seconds between the heartbeats of a worker at most, one call for each of its queues."""

STOP_CHECK_SECONDS = 0.25
"""Seconds until an idle thread sees a stop at the latest."""

LEAVE_SECONDS = 2.0
"""Seconds in which an ending worker tries to sign off; without that it is listed for a minute."""

LATEST_ACK_SECONDS = 0.05
"""Seconds that a finished task may wait, to be acked together with others."""

STUCK_SECONDS = 60.0
"""Seconds without a move after which a loop counts as stuck: longer than any wait of DPQ, and than
the timeouts of a server that is silent."""

MAIN_LOOP, HEARTBEAT, EXCHANGE = "the main loop", "the heartbeat", "the exchange with the server"
"""The loops of a worker that must move."""


class Pulse:
    """The moves of the loops of one run, and the answers of the server; for any thread."""

    def __init__(self, silent_seconds: float) -> None:
        self.stuck_seconds = STUCK_SECONDS
        self.silent_seconds = silent_seconds  # then the server counts as away
        self.trouble = ""  # the reason why the last call has failed
        # Times of monotonic seconds: of the last move of each loop, and of the last answer.
        self._moved: dict[str, float] = {}
        self._heard = -math.inf

    def move(self, loop: str) -> None:
        self._moved[loop] = time.monotonic()

    def rest(self, loop: str) -> None:
        """Note that a loop has nothing to do: it is not stuck."""
        self._moved.pop(loop, None)

    def hear(self, *, answered: bool) -> None:
        self._heard = time.monotonic() if answered else -math.inf

    def health(self, *, running: bool = True, stopping: bool) -> Health:
        """Return the health: live if all loops move, ready if the server answers, too."""
        from dpq.model.reports import Health

        if not running:
            return Health(live=True, ready=False, reasons=("it does not run",))
        now = time.monotonic()
        stuck = [
            f"{loop} has not moved for {now - moved:.0f} s"
            for loop, moved in list(self._moved.items())
            if now - moved > self.stuck_seconds
        ]
        wrong = ["it is stopping"] * stopping
        if self.trouble:
            wrong.append(self.trouble)
        elif now - self._heard > self.silent_seconds:
            wrong.append("the server does not answer")
        reasons = (*stuck, *wrong)
        return Health(live=not stuck, ready=not reasons, reasons=reasons)


class AskOrder:
    """The order in which a worker asks its queues.

    Each queue pays for its tasks: 1 / weight for each task that it gave, and once if it gave none.
    The queue that has paid least is asked first. So the turns that an empty queue leaves go to
    the others, by their weights.
    """

    def __init__(self, weights: Mapping[Any, int], *, strict: bool) -> None:
        self._weights = weights
        self._strict = strict or len(weights) == 1
        # Every queue starts with half a task, so heavy queues come in between.
        self._paid = {queue: 0.5 / weight for queue, weight in weights.items()}

    def queues(self) -> list[Any]:
        return [*self._paid] if self._strict else sorted(self._paid, key=self._paid.__getitem__)

    def charge(self, queue: Any, tasks: int) -> None:
        """Let a queue pay for an answer that had that many tasks."""
        if not self._strict:
            self._paid[queue] += max(1, tasks) / self._weights[queue]


@dataclass(slots=True, kw_only=True, eq=False)
class RunState:
    """One run, from `run` to its return: the worker's settings, and what its parts share."""

    name: str = "worker"
    queues: Sequence[Any] = ()
    order: AskOrder = field(default_factory=lambda: AskOrder({}, strict=True))
    concurrency: int = 1
    prefetch: int = 0
    visibility: float | None = None
    version: str = ""  # of the program
    until_empty: bool = False  # the run is to end when no live task is left in any of the queues
    end: Callable[[], None] = lambda: None
    stopping: bool = field(default=False, init=False)  # no handler begins any more
    # The queues that have told the worker to take none of their tasks.
    quiet: frozenset[Any] = field(default=frozenset(), init=False)
    pulse: Pulse = field(default_factory=lambda: Pulse(2.5 * BEAT_SECONDS), init=False)


class ProgressNotes:
    """The newest note of each task, as its handler has told it in any thread, until it is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes: dict[Any, dict[tuple[str, int], tuple[Task[Any], str]]] = {}

    def note(self, queue: Any, task: Task[Any], text: str) -> None:
        """Note the progress of a task, instead of what was noted before."""
        with self._lock:
            self._notes.setdefault(queue, {})[task.id, task.token] = task, text

    def take(self) -> list[Steps[Any]]:
        """Make the operations that send all notes, and forget them."""
        with self._lock:
            notes, self._notes = self._notes, {}
        return [
            operations_of(queue).tell_progress([*told.values()]) for queue, told in notes.items()
        ]


def stop_signals() -> list[signal.Signals]:
    """List the signals that end a process; SIGHUP is none under `nohup`, which has it ignored."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    with suppress(AttributeError):  # Windows has none
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
    return numbers
