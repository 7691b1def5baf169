"""Reads of queues for screens: a queue is found by name, and has rates and samples of 5 minutes.

The dashboard, `dpq top` and the metrics read queues through it. It has no thread and no timer: its
callers say when to read, once a second at most.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from redis.exceptions import ResponseError

from dpq import DPQ, ConfigurationError, Event, known_queues
from dpq.model.drain import Drain, DrainLook, Scope
from dpq.model.draining import closed_longest, drain_of
from dpq.model.reports import QueueStats, WorkerInfo
from dpq.model.survey import Survey
from dpq.model.verdict import Pace, Verdict, verdict_of
from dpq.operations.browse import Browser
from dpq.queue.inside import operations_of, session_of
from dpq.transport.cluster import forbidden

T = TypeVar("T")

KEPT_SECONDS = 300
"""Seconds that samples are kept, which a sparkline shows."""

RATE_SECONDS = 10.0
"""Seconds over which rates are counted: over a shorter time, rates jump."""

KNOWN_FOR = 5.0
"""Seconds between two looks at the list of names."""

EVENTS = 1000
"""Events of a queue that are kept here, about as many as the queue keeps."""

REMEMBER_SECONDS = 60.0
"""Seconds between two slots of a queue's history."""

OPEN_QUEUES = 200
"""Queue objects that are kept for the queues of a server; they share one client."""


class Directory(Protocol):
    """Finds queues by name."""

    def names(self) -> Sequence[str]:
        """List the names."""

    def get(self, name: str) -> DPQ[Any] | None:
        """Return the queue of a name; None if there is no such queue."""


class Named:
    """The queues that the caller has given."""

    def __init__(self, queues: Iterable[DPQ[Any]]) -> None:
        """Take the queues."""
        self._queues = {queue.queue_name: queue for queue in queues}

    def names(self) -> Sequence[str]:
        """List the names, in the order given."""
        return list(self._queues)

    def get(self, name: str) -> DPQ[Any] | None:
        """Return the queue of a name."""
        return self._queues.get(name)


class Known:
    """All queues of a server."""

    def __init__(self, client: Any) -> None:
        """Take the client that all queues share."""
        self._client = client
        self._lock = threading.Lock()
        self._names: list[str] = []
        self._at = -KNOWN_FOR
        self._queues: OrderedDict[str, DPQ[Any]] = OrderedDict()

    def names(self) -> Sequence[str]:
        """List the names that the server knows, in alphabetical order."""
        with self._lock:
            if time.monotonic() - self._at >= KNOWN_FOR:
                self._names = known_queues(self._client)
                self._at = time.monotonic()
            return self._names

    def get(self, name: str) -> DPQ[Any] | None:
        """Return a queue that the server knows."""
        if name not in self.names():
            return None
        with self._lock:
            if name not in self._queues:
                self._queues[name] = DPQ(self._client, name)
            self._queues.move_to_end(name)
            while len(self._queues) > OPEN_QUEUES:
                self._queues.popitem(last=False)[1].close()
            return self._queues[name]


class Sample(NamedTuple):
    """The numbers of one moment; `at` in seconds of a monotonic clock."""

    at: float
    backlog: int
    pushed: int
    acked: int
    deferred: int
    dead: int


class Rates(NamedTuple):
    """Tasks per second over the last `RATE_SECONDS`; None before two samples."""

    come: float | None
    done: float | None
    deferred: float | None


class Snapshot(NamedTuple):
    """A queue at one moment, and its last minutes."""

    stats: QueueStats
    survey: Survey
    workers: list[WorkerInfo]
    rates: Rates
    samples: list[Sample]
    verdict: Verdict

    @property
    def backlog(self) -> int:
        """Return the number of tasks that wait for a consumer now."""
        return self.stats.ready + self.stats.waiting

    @property
    def live(self) -> int:
        """Return the number of live tasks."""
        return self.backlog + self.stats.delayed + self.stats.invisible


class Watch:
    """The readings of one queue: its snapshot, and the samples of the last minutes."""

    def __init__(
        self,
        queue: DPQ[Any],
        clock: Callable[[], float] = time.monotonic,
        *,
        remembers: bool = False,
    ) -> None:
        """Begin to watch a queue; nothing is read yet.

        Args:
            queue: The queue.
            clock: Returns the time in seconds.
            remembers: Store a slot of the queue's history each minute, as workers do.
        """
        self.queue = queue
        self.browser = Browser(operations_of(queue))
        self._clock = clock
        self._samples: deque[Sample] = deque()
        self._looks: deque[tuple[float, list[DrainLook]]] = deque()
        self._remembers, self._remembered = remembers, -REMEMBER_SECONDS
        self.may_see_events = True
        self._events: deque[Event] = deque(maxlen=EVENTS)
        self.ahead_ms = 0.0  # the ms by which the server's clock is ahead

    def read(self) -> Snapshot:
        """Read the queue in one round trip; call it once a second at most."""
        stats, survey, workers = session_of(self.queue).run(operations_of(self.queue).overview)
        self.ahead_ms = survey.now_ms - time.time() * 1000
        now = self._clock()
        self._remember(now)
        backlog = stats.ready + stats.waiting
        samples = self._samples
        if samples and stats.pushed < samples[-1].pushed:
            samples.clear()  # the queue was dropped and made anew
        samples.append(
            Sample(now, backlog, stats.pushed, stats.acked, stats.deferred, stats.buried)
        )
        while samples[0].at < now - KEPT_SECONDS:
            samples.popleft()
        rates = rates_of(list(samples))
        pace = Pace(rates.come, rates.done, left_of(backlog, rates))
        verdict = verdict_of(self.queue.queue_name, stats, survey, workers, pace)
        return Snapshot(stats, survey, workers, rates, list(samples), verdict)

    def _remember(self, now: float) -> None:
        if self._remembers and now - self._remembered >= REMEMBER_SECONDS:
            self._remembered = now
            try:
                session_of(self.queue).run(operations_of(self.queue).remember)
            except ResponseError as error:  # also if the memory is full: the reading goes on
                self._remembers = not forbidden(error)  # False if this Redis user may only read

    def events(self) -> list[Event]:
        """Read the events since the last call; return all known events, the oldest first.

        If the Redis user may not read events, `may_see_events` becomes False, and no call is sent.
        """
        if not self.may_see_events:
            return []
        after = self._events[-1].id if self._events else ""
        try:
            self._events += self.queue.events(after, EVENTS)
        except ConfigurationError:  # the number of partitions has changed
            self._events.clear()
            self._events += self.queue.events("", EVENTS)
        except ResponseError as error:
            if not forbidden(error):
                raise
            self.may_see_events = False
        return list(self._events)

    def drain(self) -> Drain:
        """Say when all due tasks will have begun: by the limits, and by the tasks ended lately."""
        look = session_of(self.queue).run(operations_of(self.queue).drain_look)
        now = self._clock()
        while self._looks and self._looks[0][0] < now - KEPT_SECONDS:
            self._looks.popleft()
        self._looks.append((now, look))
        before = self._looks[0][1] if now - self._looks[0][0] >= RATE_SECONDS else None
        return drain_of(look, before)

    def closed_longest(self, most: int) -> list[Scope]:
        """Return the groups that a 429 or a user has closed, as `drain` has seen them last."""
        return closed_longest(self._looks[-1][1], most) if self._looks else []


class Kept(Generic[T]):
    """One object for each queue that was read lately; a new queue object gets a new one."""

    def __init__(self, directory: Directory, make: Callable[[DPQ[Any]], T]) -> None:
        """Take the queues, and the function that makes the object of a queue."""
        self._directory, self._make = directory, make
        self._kept: OrderedDict[str, tuple[DPQ[Any], T]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> T | None:
        """Return the object of a queue; None if there is no such queue."""
        queue = self._directory.get(name)
        if queue is None:
            return None
        with self._lock:
            kept = self._kept.get(name)
            if kept is None or kept[0] is not queue:
                kept = self._kept[name] = queue, self._make(queue)
            self._kept.move_to_end(name)
            while len(self._kept) > OPEN_QUEUES:
                self._kept.popitem(last=False)
            return kept[1]


def left_of(backlog: int, rates: Rates) -> tuple[float, float] | None:
    """Compute the seconds until a backlog is done; None if it is not known, or if it grows."""
    if rates.come is None or rates.done is None or rates.done - rates.come < 0.05:
        return None
    seconds = backlog / (rates.done - rates.come)
    return seconds, seconds


def rates_of(samples: list[Sample]) -> Rates:
    """Count rates over the last seconds of some samples."""
    last = samples[-1]
    first = next((each for each in samples if last.at - each.at <= RATE_SECONDS), last)
    if first is last and len(samples) > 1:
        first = samples[-2]  # no look for long, as from a hidden tab
    seconds = last.at - first.at
    if seconds <= 0:
        return Rates(None, None, None)
    return Rates(
        (last.pushed - first.pushed) / seconds,
        (last.acked - first.acked) / seconds,
        (last.deferred - first.deferred) / seconds,
    )
