"""A thread that reads queues for `dpq top`: it reads only what a screen has asked for.

The terminal asks for a round once a second, but not before the last round was answered. So a slow
server is asked less often, and a terminal that is stopped or held asks nothing.
"""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from redis.exceptions import RedisError, ResponseError

from dpq import DPQ, DPQError, Event, LimitState
from dpq.model.drain import Drain
from dpq.model.pace import Pace
from dpq.queue.inside import session_of
from dpq.queue.looking import no_answer
from dpq.views.sampler import Directory, Kept, Snapshot, Watch, read_all

CLOSED_SHOWN = 20
"""Closed groups that are read of one queue, the first to open."""

NEXT_SHOWN = 10
"""The next tasks that are read of one queue."""

EVENTS_SHOWN = 10
"""Events that are read of one queue."""

ENDING_SECONDS = 0.5
"""Seconds that the end of the program waits for a round that is under way."""


class Details(NamedTuple):
    """The details of the chosen queue.

    Attributes:
        name: The name of the queue.
        drain: The time when all due tasks will have begun.
        closed: Closed groups, the first to open.
        events: Its last events, the newest first.
    """

    name: str
    drain: Drain
    closed: list[LimitState]
    events: list[Event]


class Round(NamedTuple):
    """The outcome of one round.

    Attributes:
        names: The names of all queues; None if they could not be read.
        snapshots: The queues that were read.
        faults: The queues that cannot be read, each with the reason.
        details: The details of the queue that was asked for.
        fault: The reason why the server did not answer; "" if it has answered.
        ahead_ms: The ms by which the server's clock is ahead of this machine's.
    """

    names: Sequence[str] | None = None
    snapshots: dict[str, Snapshot] = {}  # noqa: RUF012 - never changed
    faults: dict[str, str] = {}  # noqa: RUF012 - never changed
    details: Details | None = None
    fault: str = ""
    ahead_ms: float = 0.0


class Reader:
    """Reads rounds in a thread, one after the other."""

    def __init__(
        self, directory: Directory, hear: Callable[[Round], object], *, remembers: bool = False
    ) -> None:
        """Take the queues, and a function `hear`, which the thread calls with each round.

        With `remembers` the reader stores a slot of each queue's history a minute, as workers do.
        """
        self._directory, self._hear = directory, hear
        self._watches = Kept(directory, lambda queue: Watch(queue, remembers=remembers))
        self._asked: SimpleQueue[tuple[Sequence[str], str] | None] = SimpleQueue()
        self._busy = threading.Event()
        self._ahead_ms = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True, name="dpq-top-reader")

    def start(self) -> None:
        """Start the thread; it waits to be asked."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; a round that the server holds up ends with the process."""
        self._asked.put(None)
        self._thread.join(ENDING_SECONDS)

    def ask(self, names: Sequence[str], chosen: str) -> bool:
        """Ask for the names of all queues, for some queues, and for the details of one ("": none).

        Returns:
            False if the round before is not answered yet. Then nothing is asked.
        """
        if self._busy.is_set():
            return False
        self._busy.set()
        self._asked.put((names, chosen))
        return True

    def queue(self, name: str) -> DPQ[Any] | None:
        """Return a queue, to act on it; None if it is gone."""
        return self._directory.get(name)

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            found = self.read(*asked)
            self._busy.clear()
            self._hear(found)

    def read(self, names: Sequence[str], chosen: str) -> Round:
        """Read one round; a fault of the server or of a queue is a part of it."""
        found = Round(snapshots={}, faults={}, ahead_ms=self._ahead_ms)
        try:
            all_names = list(self._directory.names())
            known = set(all_names)
            self._read_queues(found, [name for name in names if name in known])
            details = self._read_chosen(found, chosen)
        except (RedisError, DPQError, OSError) as error:
            return found._replace(fault=no_answer(error))
        return found._replace(names=all_names, details=details, ahead_ms=self._ahead_ms)

    def _read_queues(self, found: Round, names: Sequence[str]) -> None:
        watches = {name: watch for name in names if (watch := self._watches.get(name))}
        for name, answer in zip(watches, read_all([*watches.values()]), strict=True):
            if isinstance(answer, Snapshot):
                found.snapshots[name] = answer
                self._ahead_ms = watches[name].ahead_ms
            elif isinstance(answer, DPQError | ResponseError):
                found.faults[name] = str(answer)
            else:
                raise answer

    def _read_chosen(self, found: Round, name: str) -> Details | None:
        try:
            snapshot = found.snapshots.get(name)
            return self._read_details(name, snapshot.pace) if snapshot else None
        # An error in one queue does not concern the others.
        except (DPQError, ResponseError) as error:
            found.faults[name] = str(error)
            return None

    def _read_details(self, name: str, pace: Pace) -> Details | None:
        watch = self._watches.get(name)
        if watch is None:
            return None
        run, closed = session_of(watch.queue).run, list[LimitState]()
        if groups := run(watch.browser.groups_by, "closed", most=CLOSED_SHOWN):
            closed = run(watch.browser.states, groups).states[2:]
        events = watch.events()[: -EVENTS_SHOWN - 1 : -1]
        return Details(name, watch.drain(pace), closed, events)
