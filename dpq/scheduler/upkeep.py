"""The upkeep of the queues of a daemon: steps of those that are due, glances at all. No waiting."""

import heapq
import logging
import math
import random
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError, ResponseError

from dpq.explain.operations import Operations
from dpq.link.session import Session
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.validation import error_line
from dpq.queue.base import operations_named
from dpq.registry.all_queues import glance
from dpq.script.replies import UNKNOWN, Glance, Promoted

log = logging.getLogger(__name__)

RECHECK_SECONDS = 5.0
"""Seconds between two glances at all queues: so late is an event at most whose marker is lost. A
queue that no glance can reach is stepped as often. lua/lib/notice.lua has the same in ms."""

GLANCED_AT = 500
"""Queues in one glance: about 0.3 ms of server time."""

STEP_SECONDS = 1800.0
"""Seconds until a queue is stepped in any case, at most, and half of that at least: for old dead
letters, and useless gates."""

AWAY_SECONDS = 1.0
"""Seconds until the next look while a server is away."""

QUEUES_A_STEP = 100
"""Queues that are stepped in one round trip: about 5 ms of server time if nothing is due."""

GLANCE = "the glance at all queues"


def is_silence(result: Any) -> bool:
    return isinstance(result, RedisError) and not isinstance(result, ResponseError)


class Moments(dict[str, float]):
    """The moment of each queue's next step, monotonic seconds."""

    def hurry(self, name: str, moment: float) -> None:
        """Let a queue's next step come no later than a moment."""
        self[name] = min(self[name], moment)

    def first(self) -> float:
        return min(self.values(), default=math.inf)

    def due(self, now: float, most: int) -> list[str]:
        """Return the queues that are due, the longest due first."""
        due = ((moment, name) for name, moment in self.items() if moment <= now)
        return [name for _, name in heapq.nsmallest(most, due)]


class Troubles(set[str]):
    """The queues, keys and calls whose last error was logged."""

    def note(self, what: str, error: Exception) -> None:
        """Log an error; after the first time only with level DEBUG."""
        level = logging.DEBUG if what in self else logging.ERROR
        self.add(what)
        about = fields("no_upkeep", queue=what, error=error_line(error))
        if isinstance(error, ConfigurationError):  # stored by a newer DPQ, or created again
            log.log(level, "%s: this queue gets no upkeep: %s", what, error, extra=about)
        elif isinstance(error, ResponseError):
            log.log(level, "%s: the server refuses the upkeep: %s", what, error, extra=about)
        elif isinstance(error, RedisError):
            level = min(level, logging.WARNING)
            log.log(level, "%s: cannot be reached: %s", what, error, extra=about)
        else:
            log.log(level, "%s: the upkeep failed", what, exc_info=error, extra=about)


class Upkeep:
    """The queues of one daemon.

    If they are `named` by a person, it keeps them though they are gone, and counts no names.
    """

    def __init__(self, session: Session, *, named: bool) -> None:
        self.queues: dict[str, Operations[Any]] = {}  # by name
        self.moments = Moments()  # when each of them is stepped
        self.glance_at = 0.0  # the time of the next glance, monotonic seconds
        self.counted = -1  # names in the list at the last glance; -1 if it did not count them
        self.troubles = Troubles()
        self._session, self._named = session, named
        self._step_by: dict[str, float] = {}  # queue -> when it is stepped in any case
        self._away: set[str] = set()  # queues whose last step did not reach a server

    def attend(self, name: str) -> None:
        """Begin to serve a queue."""
        self.queues[name] = operations_named(name)
        self.moments[name] = 0.0
        about = fields("upkeep_begins", queue=name)
        log.info("%s: this queue gets upkeep from now on", name, extra=about)

    def leave(self, name: str) -> None:
        """Serve a queue no more."""
        del self.queues[name], self.moments[name]
        self._step_by.pop(name, None)
        self.troubles.discard(name)
        self._away.discard(name)

    @property
    def all_away(self) -> bool:
        """True if the last step of no queue has reached a server."""
        return self._away.issuperset(self.queues)

    def hurry(self, moment: float) -> None:
        """Look at all queues at a moment, since a marker may be lost."""
        if self.glances:
            self.glance_at = min(self.glance_at, moment)
            return
        for name in self.queues:
            self.moments.hurry(name, moment)

    # Steps

    def step(self, names: Sequence[str]) -> tuple[int, bool, RedisError | None]:
        """Promote in queues.

        Return the number of tasks and groups that moved; True if a server has answered; the error
        of a server that did not.
        """
        moved, answered = 0, False
        fault: RedisError | None = None
        for start in range(0, len(names), QUEUES_A_STEP):
            queues = [self.queues[name] for name in names[start : start + QUEUES_A_STEP]]
            steps = [queue.after_opening(queue.promote) for queue in queues]
            for queue, result in zip(queues, self._session.send_all(steps), strict=True):
                if isinstance(result, Promoted):
                    moved += self._stepped(queue.description.name, result)
                else:
                    self._failed(queue, result)
                if is_silence(result):
                    fault = result
                else:
                    answered = True
        return moved, answered, fault

    def _stepped(self, name: str, result: Promoted) -> int:
        now = time.monotonic()
        moved, wait_ms, gone, pruned = result
        if gone and not self._named:  # if its name is in the list, the next look removes it
            self.leave(name)
            return 0
        self.troubles.discard(name)
        self._away.discard(name)
        if moved:
            about = fields("moved", queue=name, count=moved)
            log.info("%s: moved %d tasks or groups", name, moved, extra=about)
        most = RECHECK_SECONDS
        if self.glances and not pruned:
            most = STEP_SECONDS * (1 + random.random()) / 2  # noqa: S311  # in turns
        self._step_by[name] = now + most
        wait = most if wait_ms is None else min(wait_ms / 1000, most)
        self.moments[name] = now if moved else now + wait
        return moved

    def _failed(self, queue: Operations[Any], error: Exception) -> None:
        name = queue.description.name
        away = is_silence(error)
        (self._away.add if away else self._away.discard)(name)
        self.troubles.note(name, error)
        queue.settings = None  # the next step reads them; without them, no glance shows more
        self.moments[name] = time.monotonic() + (AWAY_SECONDS if away else RECHECK_SECONDS)

    # Glances

    @property
    def glances(self) -> bool:
        """True if one call can look at many queues: in a cluster their keys are in many slots."""
        return not self._session.connections.nodes.clustered

    def glance(self) -> tuple[bool, RedisError | None]:
        """Read the next moments of all queues, and the number of names.

        Return True if the server has answered, and the error if it did not.
        """
        self.glance_at = time.monotonic() + RECHECK_SECONDS
        queues = [queue for queue in self.queues.values() if queue.settings is not None]
        if not self.glances or (not queues and self._named):
            self.counted = -1
            return False, None
        parts = [queues[at : at + GLANCED_AT] for at in range(0, len(queues) or 1, GLANCED_AT)]
        looks = [glance(part, names=not self._named) for part in parts]
        for part, result in zip(parts, self._session.send_all(looks), strict=True):
            if isinstance(result, Glance):
                self._glanced(part, result)
            elif is_silence(result):
                return False, result
            else:  # each queue is stepped instead, as in a cluster
                self.troubles.note(GLANCE, result)
                self.counted = -1
                for name in self.queues:
                    self.moments.hurry(name, time.monotonic())
                return True, None
        self.troubles.discard(GLANCE)
        return True, None

    def _glanced(self, queues: Sequence[Operations[Any]], result: Glance) -> None:
        now = time.monotonic()
        self.counted = result.names
        for queue, ms in zip(queues, result.waits, strict=True):
            name = queue.description.name
            if ms == UNKNOWN:
                self.moments.hurry(name, now)
            elif self.moments[name] > now:
                first = now + ms / 1000 if ms >= 0 else math.inf
                self.moments[name] = min(first, self._step_by.get(name, now))
