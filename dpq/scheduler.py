"""The scheduler daemon: makes due tasks ready and takes expired leases back while no consumer pops.

`dpq scheduler` and `delayed_tasks_scheduler.py` run it. A pop does the same upkeep, so a daemon is
useful but not needed: it keeps the counts right, and wakes waiting consumers while no consumer
pops. Any number of daemons may run at once, since the scripts decide what is right. It must not
hold a lock or a task.

Each queue has a moment for its next step; its marker may make it earlier. On one server a glance
reads the moments of many queues in one call, so a queue without work costs next to nothing. The
cost of each queue is bounded. The list of names is read in parts, and loses names without a queue.
If a marker is written again and again, it wakes the daemon at most `WAKES_PER_SECOND` times a
second.
"""

import heapq
import logging
import math
import random
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.backoff import longer_pause
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.reports import Health
from dpq.model.validation import error_line, queue_label
from dpq.operations.queue import QueueOperations
from dpq.protocol.command import Command
from dpq.protocol.keys import REGISTRY, REGISTRY_TICK
from dpq.protocol.replies import UNKNOWN, Glance, Promoted
from dpq.queue.base import operations_named
from dpq.registry.all_queues import after_opening, forget_queues, some_names
from dpq.registry.names import Sieve, glance, readable
from dpq.transport.cluster import MISSING, Node, Nodes, ask, forbidden
from dpq.transport.connect import open_url
from dpq.transport.connections import Connections
from dpq.transport.resending import resendable
from dpq.transport.script_loading import load_scripts, scripts_there
from dpq.transport.session import Session
from dpq.transport.waiter import MOST_BLOCKS, Marker, Waiter, longest_block
from dpq.worker.pulse import Pulse

__all__ = ["Scheduler", "run_daemon"]

log = logging.getLogger(__name__)

RECHECK_SECONDS = 5.0
"""Seconds between two glances at all queues: so late is an event at most whose marker is lost. A
queue that no glance can reach is stepped as often. lua/lib/notice.lua has the same in ms."""

GLANCED_AT = 500
"""Queues in one glance: about 0.3 ms of server time."""

STEP_SECONDS = 1800.0
"""Seconds until a queue is stepped in any case, at most, and half of that at least: for old dead
letters, and useless gates."""

LOOK_SECONDS = 60.0
"""Seconds between two walks over the names, if their number stays; and between two checks that the
server knows all scripts. It forgets all at once, so that a glance shows it, too."""

AWAY_SECONDS = 1.0
"""Seconds until the next look while a server is away."""

STOP_CHECK_SECONDS = 0.5
"""Seconds between two checks of a sleeping daemon whether to stop; a check sends nothing."""

QUEUES_A_STEP = 100
"""Queues that are stepped in one round trip: about 5 ms of server time if nothing is due."""

NAMES_A_LOOK = 1000
"""New names that the daemon checks before the next step of queues: about 0.1 s."""

REST = 4
"""Rest after a walk over all names, as a multiple of the walk's time. So walks take at most a fifth
of the daemon's time, however often the list changes."""

LEAST_REST_SECONDS = 0.05

MOST_QUEUES = 10_000
"""Queues of one daemon: about 80 MB. If there are more, run several daemons with named queues."""

GLANCE = "the glance at all queues"

LOOP, NOT_HEARD = "the loop", "the server does not answer"

_TOO_MANY = f"there are more than {MOST_QUEUES} queues: run several daemons with --queue NAME"

MOST_MARKERS = 4096
"""Markers that a daemon blocks on; it glances at the other queues every 5 s."""

MARKERS_OF_A_BLOCK = 256
"""Markers on one connection to a single server, which reads all of them for each block. So there
are at most 16 connections."""

DEAF_SECONDS = 60.0
"""Seconds in which the daemon does not block on a key of another type, and in which it does not try
again a glance that was refused."""

WAKES_PER_SECOND = 100
"""Wake-ups by markers per second, in the long run; after a quiet second, as many at once."""

FLOOD_SECONDS = 0.1
"""Seconds; if a marker comes twice within this time, the daemon empties its key."""

SWEPT = 10_000
"""Members of a marker that one call removes: 1 to 5 ms of server time."""


class Scheduler:
    """Does the upkeep of some or all queues of one server, or of one cluster.

    A marker wakes it when a queue gets an earlier moment: in a cluster for queues in 64 slots, on
    one server for 4096 queues. It looks at the others every 5 s. With the right to write the
    list of names, it removes names without a queue. With the right to load scripts, it loads them
    again if the server has forgotten them: so users without that right can go on after a restart.

    Args:
        redis: The caller's client, which is never closed.
        queue_names: The queues to serve; None means all registered queues, also new ones, up to
            10 000.
    """

    def __init__(self, redis: Any, queue_names: Sequence[str] | None = None) -> None:
        self._redis = redis
        named = None if queue_names is None else [queue_label(name) for name in queue_names]
        self._named = None if named is None else tuple(dict.fromkeys(named))
        self._queues: dict[str, QueueOperations[Any]] = {}
        self._moments = _Moments()
        self._session = Session(redis, _DaemonConnections(redis, self._see_to_scripts))
        self._waiter: _Listener | None = None
        self._names = _Names(redis, self._session)
        self._glance_at = 0.0
        self._glances_from = 0.0  # a glance was refused: until then each queue is stepped
        self._step_by: dict[str, float] = {}  # queue -> when it is stepped in any case
        self._counted = -1  # the number of names at the last glance
        self._walked = -1  # the number of names when the last walk began
        self._look_at = 0.0  # when names and scripts are looked at next, monotonic seconds
        self._pace = _Pace()
        self._may_load = True
        self._changed = False  # the list of names has changed since the walk over it began
        self._heard: tuple[Any, ...] = ()  # the partitions with a marker that it blocks on
        self._deaf: dict[str, float] = {}  # keys of another type -> until when to ignore them
        self._troubled: set[str] = set()  # queues, or the registry, whose error was logged
        self._away: set[str] = set()  # queues whose last step did not reach a server
        self._stopping = False  # no Event: a signal handler that sets one may wait for its own lock
        self._running = False
        self._pulse = Pulse(math.inf)
        self._pulse.trouble = NOT_HEARD

    def health(self) -> Health:
        """Say whether this daemon is live and ready; any thread may ask, and nothing is sent.

        It is live while its loop moves (60 s at most); and ready while it runs, is not told to
        stop, and a server answers.
        """
        if not self._running:
            return Health(live=True, ready=False, reasons=("it does not run",))
        return self._pulse.health(stopping=self._stopping)

    def run_once(self) -> int:
        """Do one bounded step for each queue; if one queue fails, the others go on.

        A partitioned queue gets one step in each partition, all in one round trip. The call checks
        about 1000 unknown names. If a master is away, only one of its queues is tried.

        Returns:
            The number of tasks and groups that moved; call again at once until it is 0.

        Raises:
            RedisError: No server can be reached; nothing is lost, call again later.
        """
        away = self._look()
        moved, answered, fault = self._step(list(self._queues))
        if not answered and (fault := fault or away):
            raise fault
        self._listen()
        return moved

    def _round(self) -> bool:
        """Step the queues that are due, some in each round trip; then check some names.

        Returns:
            True if a server has answered; False also if nothing was asked.

        Raises:
            RedisError: No server can be reached.
        """
        now = time.monotonic()
        _, answered, fault = self._step(self._moments.due(now, QUEUES_A_STEP))
        if now >= self._glance_at and not fault:
            seen, fault = self._glance()
            answered = answered or seen
        if now >= self._look_at and not (fault and self._none_in_reach(answered)):
            refused = self._look()
            fault = fault or refused
            answered = answered or (refused is None and self._named is None)
        if fault and self._none_in_reach(answered):
            raise fault
        self._listen()
        return answered

    def _none_in_reach(self, answered: bool) -> bool:
        """Return True, after an error, if no server is there; in a cluster, if no master is."""
        clustered = self._session.connections.nodes.clustered
        return not answered and (not clustered or self._away.issuperset(self._queues))

    # Queues

    def _step(self, names: Sequence[str]) -> tuple[int, bool, RedisError | None]:
        """Promote in queues.

        Returns:
            The number of tasks and groups that moved; True if a server has answered; the error of a
            server that did not.
        """
        moved, answered = 0, False
        fault: RedisError | None = None
        for start in range(0, len(names), QUEUES_A_STEP):
            queues = [self._queues[name] for name in names[start : start + QUEUES_A_STEP]]
            steps = [after_opening(queue, QueueOperations.promote) for queue in queues]
            for queue, result in zip(queues, self._session.send_all(steps), strict=True):
                if isinstance(result, Promoted):
                    answered = True
                    moved += self._stepped(queue, result)
                    continue
                seconds = RECHECK_SECONDS  # it has no settings now, so no glance shows more
                if isinstance(result, RedisError) and not isinstance(result, ResponseError):
                    fault, seconds = result, AWAY_SECONDS
                    self._away.add(queue.description.name)
                else:
                    answered = True
                    self._away.discard(queue.description.name)
                self._note(queue.description.name, result)
                queue.forget()  # the next step reads its settings again
                self._moments.set(queue.description.name, time.monotonic() + seconds)
        return moved, answered, fault

    def _stepped(self, queue: QueueOperations[Any], result: Promoted) -> int:
        name, now = queue.description.name, time.monotonic()
        moved, wait_ms, gone, pruned = result
        if gone and self._named is None:  # if its name is in the list, the next look removes it
            self._leave(name)
            return 0
        self._troubled.discard(name)
        self._away.discard(name)
        if moved:
            about = fields("moved", queue=name, count=moved)
            log.info("%s: moved %d tasks or groups", name, moved, extra=about)
        most = RECHECK_SECONDS
        if self._glances and not pruned:
            most = STEP_SECONDS * (1 + random.random()) / 2  # noqa: S311  # in turns
        self._step_by[name] = now + most
        wait = most if wait_ms is None else min(wait_ms / 1000, most)
        self._moments.set(name, now if moved else now + wait)
        return moved

    # Glances

    @property
    def _glances(self) -> bool:
        """True if one call can look at many queues: in a cluster their keys are in many slots."""
        clustered = self._session.connections.nodes.clustered
        return not clustered and time.monotonic() >= self._glances_from

    def _glance(self) -> tuple[bool, RedisError | None]:
        """Read the next moments of all queues, and the number of names.

        Returns:
            True if the server has answered; the error if it did not.
        """
        self._glance_at = time.monotonic() + RECHECK_SECONDS
        queues = [queue for queue in self._queues.values() if queue.settings is not None]
        if not self._glances or not (queues or self._named is None):
            self._counted = -1
            return False, None
        parts = [queues[at : at + GLANCED_AT] for at in range(0, len(queues) or 1, GLANCED_AT)]
        looks = [glance(part, names=self._named is None) for part in parts]
        for part, result in zip(parts, self._session.send_all(looks), strict=True):
            if isinstance(result, Glance):
                self._glanced(part, result)
            elif isinstance(result, RedisError) and not isinstance(result, ResponseError):
                return False, result
            else:
                self._note(GLANCE, result)
                self._step_instead()
                return True, None
        self._troubled.discard(GLANCE)
        if self._counted != self._walked:
            self._look_at = min(self._look_at, self._names.rested_at)
        return True, None

    def _glanced(self, queues: Sequence[QueueOperations[Any]], result: Glance) -> None:
        now = time.monotonic()
        self._counted = result.names
        waits = iter(result.waits)
        for queue in queues:
            name = queue.description.name
            found = [next(waits) for _ in queue.partitions]
            if UNKNOWN in found:
                self._moments.hurry(name, now)
            elif self._moments.of(name) > now:
                first = min((now + ms / 1000 for ms in found if ms >= 0), default=math.inf)
                self._moments.set(name, min(first, self._step_by.get(name, now)))

    def _step_instead(self) -> None:
        """Step each queue, since a glance was refused."""
        now = time.monotonic()
        self._glances_from = now + DEAF_SECONDS
        self._counted = -1
        for name in self._queues:
            self._moments.hurry(name, now)

    def _hurry(self, moment: float) -> None:
        """Look at all queues at a moment, since a marker may be lost."""
        if self._glances:
            self._glance_at = min(self._glance_at, moment)
            return
        for name in self._queues:
            self._moments.hurry(name, moment)

    def _note(self, what: str, error: Exception) -> None:
        """Log the error of a queue; after the first time only with level DEBUG."""
        level = logging.DEBUG if what in self._troubled else logging.ERROR
        self._troubled.add(what)
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

    # Names

    def _look(self) -> RedisError | None:
        """Check some names, and that the server knows the scripts; return the error."""
        now = time.monotonic()
        try:
            if not self._session.checked:
                self._session.check_server()
            if now >= self._look_at:
                self._see_to_scripts()
            if self._named is not None:
                rest = LOOK_SECONDS if self._glances else RECHECK_SECONDS
                self._look_at = now + (AWAY_SECONDS if self._pulse.trouble else rest)
                self._attend(self._named)
                return None
            if not self._names.walking:
                self._walked = self._counted
            self._changed = self._changed and self._names.walking
            found = self._names.look(self._queues, full=len(self._queues) >= MOST_QUEUES)
            self._attend(found)
            if self._names.walking:
                self._look_at = now
            else:
                for name in self._names.gone.intersection(self._queues):
                    self._leave(name)
                self._look_at = self._names.rested_at
                if not self._changed:
                    rest = RECHECK_SECONDS if self._walked < 0 else LOOK_SECONDS
                    self._look_at = max(self._look_at, now + rest)
            self._troubled.discard(REGISTRY)
        except RedisError as error:
            self._note(REGISTRY, error)
            self._look_at = now + AWAY_SECONDS
            return None if isinstance(error, ResponseError) else error
        return None

    def _attend(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._queues:
                continue
            if len(self._queues) >= MOST_QUEUES and self._named is None:
                self._note(REGISTRY, ConfigurationError(_TOO_MANY))
                return
            self._queues[name] = operations_named(name)
            self._moments.set(name, 0.0)
            about = fields("upkeep_begins", queue=name)
            log.info("%s: this queue gets upkeep from now on", name, extra=about)

    def _leave(self, name: str) -> None:
        del self._queues[name]
        self._step_by.pop(name, None)
        self._moments.drop(name)
        self._troubled.discard(name)
        self._away.discard(name)

    def _see_to_scripts(self) -> None:
        """Load the scripts if the server has forgotten them, for users who may not load them."""
        if not self._may_load:
            return
        try:
            if not scripts_there(self._redis):
                load_scripts(self._redis)
                about = fields("scripts_loaded")
                log.info(
                    "scheduler: loaded the scripts, which the server had forgotten", extra=about
                )
            self._pulse.trouble = ""
        except RedisError as error:
            self._may_load = not forbidden(error)
            if not isinstance(error, ResponseError):  # no queue may exist that would show it
                self._pulse.trouble = NOT_HEARD

    # Sleeping

    def run(self) -> None:
        """Run until `stop`: step while there is work, then sleep until the next event."""
        pause = 0.0
        names = ", ".join(self._named or ()) or "all known queues"
        log.info("scheduler: upkeep of %s", names, extra=fields("scheduler_begins"))
        self._running = True
        while not self._stopping:
            self._pulse.move(LOOP)
            try:
                answered = self._round()
                if answered:
                    self._pulse.hear(answered=True)
                    self._pulse.trouble = ""
                if answered and pause:
                    about = fields("server_back")
                    log.info("scheduler: the server answers again", extra=about)
                    pause = 0.0
                self._sleep()
            except RedisError as error:
                self._look_at = 0.0  # the next round sends something in any case
                self._pulse.trouble = NOT_HEARD
                pause = longer_pause(pause)
                about = fields("server_error", seconds=pause, error=error_line(error))
                log.warning("scheduler: next try in %.1f s: %s", pause, error, extra=about)
                self._rest(pause)
        self._running = False
        if self._waiter:
            self._waiter.withdraw()
            self._waiter.close()
        self._session.close()
        log.info("scheduler: stopped", extra=fields("scheduler_ended"))

    def stop(self) -> None:
        """Let `run` end after its current step; any thread and any signal handler may call this."""
        self._stopping = True

    def _listen(self) -> None:
        """Block on the markers of the queues, with the partitions that the steps have found."""
        heard = tuple(queue.partitions for queue in self._queues.values())
        now = time.monotonic()
        again = [key for key, until in self._deaf.items() if until <= now]
        if self._waiter and heard == self._heard and not again:
            return
        for key in again:
            del self._deaf[key]
        self._heard = heard
        ticks = [(tick, name) for name, q in self._queues.items() for tick in q.ticks]
        owners = [each for each in [(REGISTRY_TICK, None), *ticks] if each[0] not in self._deaf]
        owners = owners[:MOST_MARKERS] or [(REGISTRY_TICK, None)]
        if self._waiter:  # it may have removed a marker
            self._waiter.close()
            self._changed, self._look_at = True, min(self._look_at, self._names.rested_at)
            self._hurry(now)
        self._waiter = _Listener(self._session.connections.nodes, [marker for marker, _ in owners])
        self._waiter.owners = [name for _, name in owners]

    def _sleep(self) -> None:
        while self._waiter and not self._stopping:
            self._pulse.move(LOOP)
            now = time.monotonic()
            first = min(self._look_at, self._glance_at, self._moments.first())
            patience = min(first - now, STOP_CHECK_SECONDS)
            if patience <= 0:
                return
            try:
                marker = self._waiter.wait(patience)
            except ResponseError as refusal:
                self._ignore_broken(self._waiter, refusal)
                return
            if marker is not None:
                self._woken(self._waiter, marker)
                return
            if time.monotonic() < now + patience:  # its connection has failed
                self._look_at = min(self._look_at, now + AWAY_SECONDS)
                self._hurry(now + AWAY_SECONDS)

    def _ignore_broken(self, waiter: "_Listener", refusal: ResponseError) -> None:
        """Stop blocking on keys of another type: one of them makes the server refuse the block.

        Raises:
            ResponseError: The block was refused for another reason.
        """
        self._waiter = None
        broken = waiter.broken()
        waiter.close()
        if not broken:
            raise refusal
        for key in broken:
            self._note(key, refusal)
            self._deaf[key] = time.monotonic() + DEAF_SECONDS

    def _woken(self, waiter: "_Listener", marker: Marker) -> None:
        key, name = waiter.markers[marker.number], waiter.owners[marker.number]
        now = time.monotonic()
        if self._pace.again(key, now):  # before the step, which sees all changes until then
            with suppress(ResponseError):
                ask(self._redis, "ZREMRANGEBYRANK", key, 0, SWEPT - 1)
        if name is None:
            self._changed = True
            self._look_at = min(self._look_at, max(now, self._names.rested_at))
        elif name in self._queues:
            self._moments.set(name, now)
        self._rest(self._pace.wait_seconds(now))

    def _rest(self, seconds: float) -> None:
        """Sleep for so long, or until a stop."""
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, STOP_CHECK_SECONDS))


class _Moments:
    """The moment of each queue's next step, monotonic seconds."""

    def __init__(self) -> None:
        self._of: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, moment: float) -> None:
        self._of[name] = moment
        heapq.heappush(self._heap, (moment, name))
        if len(self._heap) > 2 * len(self._of) + 100:
            self._heap = [(moment, name) for name, moment in self._of.items()]
            heapq.heapify(self._heap)

    def hurry(self, name: str, moment: float) -> None:
        if moment < self._of[name]:
            self.set(name, moment)

    def of(self, name: str) -> float:
        return self._of[name]

    def drop(self, name: str) -> None:
        self._of.pop(name, None)

    def first(self) -> float:
        """Return the first of all moments."""
        while self._heap and self._of.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")

    def due(self, now: float, most: int) -> list[str]:
        """Remove and return the queues that are due, the longest due first."""
        names: list[str] = []
        while len(names) < most and self.first() <= now:
            _, name = heapq.heappop(self._heap)
            self._of[name] = float("inf")
            names.append(name)
        return names


class _Pace:
    """The limit of wake-ups by markers: for each marker, and for all together."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._credit = float(WAKES_PER_SECOND)
        self._at = 0.0

    def again(self, key: str, now: float) -> bool:
        """Return True if this marker has come within `FLOOD_SECONDS` before."""
        last = self._last.get(key, 0.0)
        if len(self._last) > MOST_MARKERS:
            self._last.clear()
        self._last[key] = now
        return now < last + FLOOD_SECONDS

    def wait_seconds(self, now: float) -> float:
        """Take one wake-up; return the seconds until the next is allowed."""
        grown = (now - self._at) * WAKES_PER_SECOND
        self._credit = min(WAKES_PER_SECOND, self._credit + grown) - 1
        self._at = now
        return max(0.0, -self._credit / WAKES_PER_SECOND)


class _Names:
    """Walks over the list of names, in parts; it keeps only the names of queues.

    Attributes:
        walking: The walk is in the middle of the list.
        gone: The queues that were not in the list during the last walk.
        rested_at: The time of the next walk, monotonic seconds.
    """

    def __init__(self, redis: Any, session: Session) -> None:
        self._redis = redis
        self._session = session
        self._sieve = Sieve()
        self._cursor = 0
        self._took = 0.0
        self.walking = False
        self.gone: set[str] = set()
        self.rested_at = 0.0

    def look(self, known: Iterable[str], *, full: bool = False) -> list[str]:
        """Check some names; return the queues among them that are not in `known`.

        If the daemon is `full`, no unknown name is checked: that would bring nothing.

        Raises:
            RedisError: The list cannot be read.
        """
        began, known = time.monotonic(), set(known)
        if not self.walking:
            self._cursor, self._took, self.gone = 0, 0.0, set(known)
        found: list[str] = []
        looked = 0
        while looked < NAMES_A_LOOK:
            self._cursor, names = some_names(self._redis, self._cursor)
            self.walking = self._cursor != 0
            good, bad = readable(names)
            self.gone.difference_update(good)
            unknown = [name for name in dict.fromkeys(good) if name not in known and not full]
            found += self._queues_among(unknown)
            if bad:
                self._remove(bad)
            looked += len(unknown) + len(bad) + (len(good) // 10 if full else 0)
            if not self.walking:
                break
        self._took += time.monotonic() - began
        if not self.walking:
            rest = max(LEAST_REST_SECONDS, REST * self._took)
            self.rested_at = time.monotonic() + rest
        return found

    def _queues_among(self, names: Sequence[str]) -> list[str]:
        """Return the names of queues; names without an answer wait for the next walk."""
        answers = self._session.send_all([self._sieve.is_queue(name) for name in names])
        removed = answers.count(False)
        if removed and self._sieve.may_remove:
            about = fields("names_removed", count=removed)
            log.info(
                "scheduler: removed %d names without a queue from the list", removed, extra=about
            )
        asked = zip(names, answers, strict=True)
        return [name for name, yes in asked if yes is True or isinstance(yes, ResponseError)]

    def _remove(self, names: Sequence[bytes]) -> None:
        """Remove names that cannot be queues from the list."""
        if self._sieve.may_remove:
            shown = ", ".join(ascii(name[:100]) for name in names[:3])
            log.warning(
                "scheduler: removed %d invalid names from the list: %s",
                *(len(names), shown),
                extra=fields("names_removed", count=len(names), reason="invalid"),
            )
            try:
                forget_queues(self._redis, names)
            except ResponseError as refusal:
                self._sieve.may_remove = not forbidden(refusal)


class _Listener(Waiter):
    """Blocks on markers for as long as a server allows; many markers on several connections.

    A marker that has woken it goes to the end of the list, so that it cannot hide another one.

    Attributes:
        owners: The queue of each marker; None for the list of names.
    """

    owners: list[str | None]

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        super().__init__(nodes, markers)
        if nodes.direct and not nodes.clustered and len(markers) > MARKERS_OF_A_BLOCK:
            size = max(MARKERS_OF_A_BLOCK, -(-len(markers) // MOST_BLOCKS))
            parts = [markers[at : at + size] for at in range(0, len(markers), size)]
            self._blocks = [type(self._asked)(nodes, part) for part in parts]
            self._asked = self._blocks[0]

    def wait(self, seconds: float) -> Marker | None:
        marker = super().wait(seconds)
        if marker is not None:
            self._asked.served(self.markers[marker.number])
        return marker

    def broken(self) -> list[str]:
        """Find the keys of another type among the keys of the refused block."""
        found = []
        for key in self._asked.markers:
            try:
                ask(self._nodes.client, "ZCARD", key)
            except ResponseError:
                found.append(key)
        return found

    def _block_seconds(self, left: float) -> float:
        return longest_block(self._nodes)


class _DaemonConnections(Connections):
    """Connections for many queues: if a server is away, one call per round trip is sent again.

    Args:
        client: The client.
        on_noscript: Called when a server does not know a script.
    """

    def __init__(self, client: Any, on_noscript: Callable[[], None]) -> None:
        super().__init__(client)
        self._on_noscript = on_noscript
        self._away: dict[Node | None, Any] = {}

    def begin(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands, as `Connections.begin` does."""
        self._away = {}
        return super().begin(commands)

    def resend(self, command: Command[Any], reply: Any) -> Any:
        """Send a command again, as `Connections.resend` does."""
        if isinstance(reply, NoScriptError):
            self._on_noscript()
            reply = MISSING  # the server knows the script now
        elif not resendable(reply):
            return reply
        try:
            node = self.nodes.of(command.keys[0])
        except RedisError as error:
            return error
        if node in self._away:
            return self._away[node]
        reply = super().resend(command, reply)
        if isinstance(reply, RedisConnectionError | RedisTimeoutError):
            self._away[node] = reply
        return reply


def run_daemon(
    url: str,
    queue_names: Sequence[str] | None = None,
    on_made: Callable[[Scheduler], object] | None = None,
) -> None:
    """Run a scheduler until SIGTERM or SIGINT; the second signal kills the process.

    Args:
        url: The URL of the server, as for `DPQ.from_url`.
        queue_names: The queues to serve; None means all registered queues.
        on_made: A function that is called with the scheduler before it runs.

    Raises:
        ConfigurationError: The URL or a name is wrong.
    """
    opened = open_url(url)
    scheduler = Scheduler(opened.client, queue_names)
    if on_made:
        on_made(scheduler)

    def stop(number: int, _: FrameType | None) -> None:
        said = signal.Signals(number).name
        about = fields("scheduler_stopping", reason=said)
        log.info("scheduler: %s; stopping", said, extra=about)
        signal.signal(number, signal.SIG_DFL)
        scheduler.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        scheduler.run()
    finally:
        opened.close()
