"""Reads of queues for screens: a queue is found by name, and has a pace and samples of 5 minutes.

The dashboard and the metrics read queues through it. It has no thread and no timer: its
callers say when to read, once a second at most.
"""

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq import DPQ, known_queues
from dpq.explain.drain import DrainLook
from dpq.explain.pace import KEPT_SECONDS, Pace, Point, lasting, pace_of
from dpq.explain.survey import Survey
from dpq.explain.verdict import Verdict
from dpq.link.cluster import forbidden
from dpq.model.reports import QueueStats, WorkerInfo
from dpq.queue.inside import operations_of, session_of
from dpq.queue.looking import looking, looking_client
from dpq.registry.all_queues import QUEUES_A_CALL
from dpq.script.command import Steps, all_of
from dpq.types import Event
from dpq.views.shared import Shared

T = TypeVar("T")

KNOWN_FOR = 5.0
"""Seconds between two looks at the list of names."""

EVENTS = 1000
"""The newest events of a queue that are kept here."""

REMEMBER_SECONDS = 60.0
"""Seconds between two slots of a queue's history."""

LIMITS_SECONDS = 5.0
"""Seconds between two looks at what limits let drain: one takes 1 to 3 ms of the server."""

OPEN_QUEUES = 200
"""Queue objects that are kept for the queues of a server; they share one client."""


class Named:
    """The queues that the caller has given."""

    def __init__(self, queues: Iterable[DPQ[Any]]) -> None:
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
        self._client = client
        self._shared = Shared()
        self._open = lru_cache(OPEN_QUEUES)(partial(DPQ[Any], client))

    def names(self) -> Sequence[str]:
        """List the names that the server knows, in alphabetical order."""
        client = looking_client(self._client)
        return self._shared.get("names", lambda: known_queues(client), KNOWN_FOR)

    def get(self, name: str) -> DPQ[Any] | None:
        """Return a queue that the server knows."""
        return self._open(name) if name in self.names() else None


Directory = Named | Known
"""Finds queues by name."""


class Snapshot(NamedTuple):
    """A queue at one moment, and its last minutes."""

    stats: QueueStats
    survey: Survey
    workers: list[WorkerInfo]
    pace: Pace
    samples: list[Point]
    verdict: Verdict
    begun: dict[str, float]  # the ms at which limits have let all due tasks of a group start


class Watch:
    """The readings of one queue: its snapshot, and the samples of the last minutes."""

    def __init__(
        self,
        queue: DPQ[Any],
        clock: Callable[[], float] = time.monotonic,
        *,
        remembers: bool = False,
    ) -> None:
        self.queue = looking(queue)
        self._clock = clock
        self._samples: list[Point] = []  # at the server's time
        self._read_at = -math.inf
        self._remembers, self._remembered = remembers, -REMEMBER_SECONDS
        self._look: DrainLook | None = None
        self._looked = -math.inf
        self.may_see_events = True
        self._events: Any = defaultdict(partial(deque, maxlen=EVENTS))  # by the kinds asked
        self.ahead_ms = 0.0  # the ms by which the server's clock is ahead

    def read(self) -> Snapshot:
        """Read the queue in one round trip; call it once a second at most."""
        found: Snapshot | Exception = ask_all([self], [self.steps])[0]
        if isinstance(found, Exception):
            raise found
        return found

    def steps(self) -> Steps[Snapshot]:
        """Read the queue, store a slot that is due, and judge what was seen."""
        queue, now = operations_of(self.queue), self._clock()
        history = [queue.recent()] if now - self._read_at > REMEMBER_SECONDS else []
        read: list[Steps[Any]] = [queue.overview(), *history, self._remember(now)]
        seen, *points, _ = yield from all_of(read)
        self._read_at, self.ahead_ms = now, seen.survey.now_ms - time.time() * 1000
        pace = self._pace(seen.point, *points)
        if seen.bound_by_limits and now - self._looked >= LIMITS_SECONDS:
            self._look, self._looked = (yield from queue.drain_look()), now
        verdict = yield from queue.judge(seen, pace, self._look)
        begun = self._look.begun if self._look and seen.bound_by_limits else {}
        shown = pace, self._samples, verdict, begun
        return Snapshot(seen.stats, seen.survey, seen.workers, *shown)

    def _pace(self, point: Point, before: Sequence[Point] = ()) -> Pace:
        """Add a look to the samples, behind those of the history that are newer than the last."""
        latest = self._samples[-1].at if self._samples else 0.0
        between = [each for each in before if latest < each.at < point.at]
        samples = lasting([*self._samples, *between, point])
        self._samples = [each for each in samples if each.at >= point.at - KEPT_SECONDS]
        return pace_of(self._samples)

    def _remember(self, now: float) -> Steps[None]:
        if self._remembers and now - self._remembered >= REMEMBER_SECONDS:
            self._remembered = now
            try:
                yield from operations_of(self.queue).remember()
            except ResponseError as error:  # also if the memory is full: the reading goes on
                self._remembers = not forbidden(error)  # False if this Redis user may only read

    def events(self, *kinds: str) -> list[Event]:
        """Read the events of some kinds, or of all, since the last call; return all known ones."""
        if not self.may_see_events:
            return []
        known: deque[Event] = self._events[kinds]
        try:
            known += self.queue.admin.events(known[-1].id if known else "", EVENTS, kinds=kinds)
        except ResponseError as error:
            if not forbidden(error):
                raise
            self.may_see_events = False
        return list(known)


def ask_all(watches: Sequence[Watch], asked: Sequence[Callable[[], Steps[Any]]]) -> list[Any]:
    """Run an operation on each queue, one round trip a client; a fault of a queue is its answer."""
    answers: list[Any] = [None] * len(watches)
    clients: dict[int, list[int]] = {}
    for place, watch in enumerate(watches):
        clients.setdefault(id(watch.queue.redis), []).append(place)
    for places in clients.values():
        sender = session_of(watches[places[0]].queue)
        sender.require_open()
        if not sender.checked:
            sender.check_server()
        for start in range(0, len(places), QUEUES_A_CALL):
            few = places[start : start + QUEUES_A_CALL]
            steps = [operations_of(watches[n].queue).after_opening(asked[n]) for n in few]
            for place, answer in zip(few, sender.send_all(steps), strict=True):
                if isinstance(answer, RedisConnectionError | RedisTimeoutError):
                    raise answer
                answers[place] = answer
    return answers


def one_each(directory: Directory, make: Callable[[DPQ[Any]], T]) -> Callable[[str], T | None]:
    """Return a function from a name to an object of its queue, made once; None without a queue."""
    made = lru_cache(OPEN_QUEUES)(make)

    def get(name: str) -> T | None:
        queue = directory.get(name)
        return None if queue is None else made(queue)

    return get
