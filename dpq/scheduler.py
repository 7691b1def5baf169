"""The scheduler daemon: due tasks become ready, expired leases come back, though no consumer looks.

Pop does all of this by itself, so a daemon is a comfort and not a need: it keeps the counts true
and wakes waiting consumers while nobody pops. Any number may run at once; what is right is decided
in the scripts. Must not hold a lock or a task.
"""

import logging
import signal
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from redis.exceptions import RedisError, ResponseError

from dpq._arguments import queue_label
from dpq._keys import REGISTRY, REGISTRY_TICK
from dpq._link import Link
from dpq._nodes import Node
from dpq._wait import RECHECK_SECONDS, Waiter
from dpq.connect import open_url
from dpq.errors import ConfigurationError
from dpq.policy import longer_pause
from dpq.queue import DPQ, known_queues

__all__ = ["Scheduler", "run_daemon"]

log = logging.getLogger(__name__)

AWAY_SECONDS = 1.0
"""How long until the next look while a server is away."""

STOP_CHECK_SECONDS = 0.5
"""How often a sleeping daemon looks whether it is to stop; the server hears nothing of it."""


class Scheduler:
    """Does the upkeep of some or all queues of one server, or of one cluster.

    It hears at once of what comes first in a queue; in a cluster so for queues in 64 slots, and for
    the others when it looks, every 5 s at least.

    Args:
        redis: The caller's client, which is never closed.
        queue_names: The queues to look after; None means all that are known, new ones included.
    """

    def __init__(self, redis: Any, queue_names: Sequence[str] | None = None) -> None:
        self._redis = redis
        named = None if queue_names is None else [queue_label(name) for name in queue_names]
        self._named = None if named is None else tuple(dict.fromkeys(named))
        self._queues: dict[str, DPQ[Any]] = {}
        self._known: tuple[str, ...] = ()
        self._link = Link(redis)
        self._waiter: Waiter | None = None
        self._wait_seconds = 0.0
        self._fault: RedisError | None = None  # of this round
        self._out_of_reach: set[str] = set()  # queues, and the registry of them
        self._stopping = threading.Event()

    def run_once(self) -> int:
        """Do one bounded step for each queue; a queue that cannot be stepped hinders no other.

        Of a partitioned queue that is one in each partition, all in one round trip. While a master
        of a cluster is away, the queues of the others are stepped every second or so.

        Returns:
            How many tasks and groups moved; call again at once until it is 0.

        Raises:
            RedisError: No server can be reached; nothing is lost, call again later.
        """
        self._fault = None
        self._look_for_queues()
        away: set[Node | None] = set()
        steps = [self._try_step(queue, away) for queue in self._queues.values()]
        done = [step for step in steps if step]
        if self._fault and not done:
            raise self._fault
        most = AWAY_SECONDS if self._fault else RECHECK_SECONDS
        self._wait_seconds = min([most, *(wait for _, wait in done)])
        self._listen()
        return sum(moved for moved, _ in done)

    def _try_step(self, queue: DPQ[Any], away: set[Node | None]) -> tuple[int, float] | None:
        """Step a queue, unless a master is known to be away; None when it is."""
        node = None
        try:
            node = self._link.nodes.of(queue._commands.ticks[0])
            if node not in away:
                step = self._step(queue)
                self._out_of_reach.discard(queue.queue_name)
                return step
        except RedisError as error:
            self._note(queue.queue_name, error)
            if len(queue._commands.ticks) == 1:  # else it may be another one's
                away.add(node)
        return None

    def _note(self, what: str, fault: RedisError) -> None:
        self._fault = fault
        known = what in self._out_of_reach
        self._out_of_reach.add(what)
        log.log(logging.DEBUG if known else logging.WARNING, "%s: out of reach: %s", what, fault)

    def _step(self, queue: DPQ[Any]) -> tuple[int, float]:
        """Promote in one queue: how many moved, and the seconds until the next event."""
        try:
            moved, wait_ms = queue._run(queue._commands.promote())
        except ConfigurationError as error:  # by a newer DPQ: not ours to touch; or made anew
            log.error("%s: left alone: %s", queue.queue_name, error)  # noqa: TRY400 - no fault of ours
            queue._forget()  # the next step looks what it is now
            return 0, RECHECK_SECONDS
        except ResponseError:
            log.exception("%s: the server refuses the step", queue.queue_name)
            return 0, RECHECK_SECONDS
        if moved:
            log.info("%s: moved %d", queue.queue_name, moved)
        return moved, RECHECK_SECONDS if wait_ms is None else wait_ms / 1000

    def run(self) -> None:
        """Go on until `stop`: step while there is work, then sleep until the next event."""
        pause = 0.0
        log.info("scheduler: looking after %s", ", ".join(self._named or ()) or "all known queues")
        while not self._stopping.is_set():
            try:
                moved = self.run_once()
                if pause:
                    log.info("scheduler: the server is back")
                pause = 0.0
                if moved == 0:
                    self._sleep()
            except RedisError as error:
                pause = longer_pause(pause)
                log.warning("scheduler: again in %.1f s: %s", pause, error)
                self._stopping.wait(pause)
        if self._waiter:
            self._waiter.withdraw()
            self._waiter.close()
        log.info("scheduler: stopped")

    def stop(self) -> None:
        """Let `run` end after the step it is in; for any thread, and for a signal handler."""
        self._stopping.set()

    def _look_for_queues(self) -> None:
        known = self._named
        if known is None:
            try:
                known = tuple(known_queues(self._redis))
            except RedisError as error:
                self._note(REGISTRY, error)
                return
            self._out_of_reach.discard(REGISTRY)
        if known == self._known:
            return
        self._known = known
        found = ((name, self._queues.get(name) or self._open(name)) for name in known)
        self._queues = {name: queue for name, queue in found if queue}

    def _listen(self) -> None:
        """Block on the markers of all queues, as the steps have seen them."""
        ticks = (tick for queue in self._queues.values() for tick in queue._commands.ticks)
        markers = (REGISTRY_TICK, *ticks)
        if self._waiter and self._waiter.markers == markers:
            return
        if self._waiter:
            self._waiter.withdraw()
            self._waiter.close()
        self._waiter = Waiter(self._link.nodes, markers)

    def _open(self, name: str) -> DPQ[Any] | None:
        try:
            queue = DPQ[Any](self._redis, name)
        except ConfigurationError as error:  # whoever may write to the registry may write anything
            log.error("left alone: %s", error)  # noqa: TRY400 - no fault of ours
            return None
        queue._link = self._link  # one daemon needs one connection, not one for each queue
        log.info("%s: found", name)
        return queue

    def _sleep(self) -> None:
        until = time.monotonic() + self._wait_seconds
        while self._waiter and not self._stopping.is_set():
            began = time.monotonic()
            patience = min(until - began, STOP_CHECK_SECONDS)
            if patience <= 0 or self._waiter.wait(patience) is not None:
                return
            if time.monotonic() < began + patience:  # its connection has failed
                until = min(until, began + AWAY_SECONDS)


def run_daemon(url: str, queue_names: Sequence[str] | None = None) -> None:
    """Run a scheduler until SIGTERM or SIGINT; the second signal ends it the hard way.

    Args:
        url: Of the server, as for `DPQ.from_url`.
        queue_names: The queues to look after; None means all that are known.

    Raises:
        ConfigurationError: The URL or a name is wrong.
    """
    opened = open_url(url)
    scheduler = Scheduler(opened.client, queue_names)

    def stop(number: int, _: FrameType | None) -> None:
        log.info("scheduler: %s, stopping", signal.Signals(number).name)
        signal.signal(number, signal.SIG_DFL)
        scheduler.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        scheduler.run()
    finally:
        opened.close()
