"""`Scheduler`: the rounds of a daemon, and its sleep until the next event or wake-up."""

import logging
import math
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any

from redis.exceptions import RedisError, ResponseError

from dpq.link.cluster import forbidden
from dpq.link.connect import open_url
from dpq.link.connections import load_scripts
from dpq.link.server_check import scripts_there
from dpq.link.session import Session
from dpq.link.watches import Marker
from dpq.model.backoff import longer_pause
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.model.reports import Health
from dpq.model.validation import error_line, queue_label
from dpq.scheduler.connections import MOST_MARKERS, DaemonConnections, Listener
from dpq.scheduler.names import Names
from dpq.scheduler.upkeep import AWAY_SECONDS, QUEUES_A_STEP, RECHECK_SECONDS, Upkeep
from dpq.script.keys import REGISTRY, REGISTRY_TICK
from dpq.worker.run_state import Pulse, stop_signals

__all__ = ["Scheduler", "run_daemon"]

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
"""Seconds between two walks over the names, if their number stays; and between two checks that the
server knows all scripts. It forgets all at once, so that a glance shows it, too."""

STOP_CHECK_SECONDS = 0.5
"""Seconds between two checks of a sleeping daemon whether to stop; a check sends nothing."""

MOST_QUEUES = 10_000
"""Queues of one daemon: about 80 MB. If there are more, run several daemons with named queues."""

LOOP, NOT_HEARD = "the loop", "the server does not answer"

_TOO_MANY = f"there are more than {MOST_QUEUES} queues: run several daemons with --queue NAME"

WAKE_SECONDS = 0.01
"""Seconds between two wake-ups by markers at least."""


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
        self._session = Session(DaemonConnections(redis, self._see_to_scripts))
        self._upkeep = Upkeep(self._session, named=named is not None)
        self._names = Names(redis, self._session)
        self._waiter: Listener | None = None
        self._walked = -1  # the number of names when the last walk began
        self._look_at = 0.0  # the time of the next look at names and scripts, monotonic seconds
        self._woken_at = 0.0  # when a marker has woken it, monotonic seconds
        self._may_load = True
        self._changed = False  # the list of names has changed since the walk over it began
        self._stopping = False  # no Event: a signal handler that sets one may wait for its own lock
        self._running = False
        self._pulse = Pulse(math.inf)
        self._pulse.trouble = NOT_HEARD

    def health(self) -> Health:
        """Say whether this daemon is live and ready; any thread may ask, and nothing is sent.

        It is live while its loop moves (60 s at most); and ready while it runs, is not told to
        stop, and a server answers.
        """
        return self._pulse.health(running=self._running, stopping=self._stopping)

    def run_once(self) -> int:
        """Do one bounded step for each queue; if one queue fails, the others go on.

        The call checks about 1000 unknown names. If a master is away, only one of its queues is
        tried.

        Returns:
            The number of tasks and groups that moved; call again at once until it is 0.

        Raises:
            RedisError: No server can be reached; nothing is lost, call again later.
        """
        away = self._look()
        moved, answered, fault = self._upkeep.step(list(self._upkeep.queues))
        if not answered and (fault := fault or away):
            raise fault
        self._listen()
        return moved

    def _round(self) -> bool:
        """Step the queues that are due, some in each round trip; then check some names."""
        now = time.monotonic()
        _, answered, fault = self._upkeep.step(self._upkeep.moments.due(now, QUEUES_A_STEP))
        if now >= self._upkeep.glance_at and not fault:
            seen, fault = self._upkeep.glance()
            answered = answered or seen
            if seen and self._upkeep.counted not in (-1, self._walked):
                self._look_at = min(self._look_at, self._names.rested_at)
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
        return not answered and (not clustered or self._upkeep.all_away)

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
                rest = LOOK_SECONDS if self._upkeep.glances else RECHECK_SECONDS
                self._look_at = now + (AWAY_SECONDS if self._pulse.trouble else rest)
                self._attend(self._named)
                return None
            if not self._names.walking:
                self._walked = self._upkeep.counted
            self._changed = self._changed and self._names.walking
            queues = self._upkeep.queues
            self._attend(self._names.look(queues, full=len(queues) >= MOST_QUEUES))
            if self._names.walking:
                self._look_at = now
            else:
                for name in self._names.gone.intersection(queues):
                    self._upkeep.leave(name)
                self._look_at = self._names.rested_at
                if not self._changed:
                    rest = RECHECK_SECONDS if self._walked < 0 else LOOK_SECONDS
                    self._look_at = max(self._look_at, now + rest)
            self._upkeep.troubles.discard(REGISTRY)
        except RedisError as error:
            self._upkeep.troubles.note(REGISTRY, error)
            self._look_at = now + AWAY_SECONDS
            return None if isinstance(error, ResponseError) else error
        return None

    def _attend(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._upkeep.queues:
                continue
            if len(self._upkeep.queues) >= MOST_QUEUES and self._named is None:
                self._upkeep.troubles.note(REGISTRY, ConfigurationError(_TOO_MANY))
                return
            self._upkeep.attend(name)

    def _see_to_scripts(self) -> None:
        """Load the scripts if the server has forgotten them, for users who may not load them."""
        if not self._may_load:
            return
        try:
            if not scripts_there(self._redis):
                load_scripts(self._redis)
                text = "scheduler: loaded the scripts, which the server had forgotten"
                log.info(text, extra=fields("scripts_loaded"))
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
                    log.info("scheduler: the server answers again", extra=fields("server_back"))
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
        owners = (None, *self._upkeep.queues)
        if self._waiter and self._waiter.owners == owners:
            return
        if self._waiter:  # it may have removed a marker
            self._waiter.close()
            self._changed, self._look_at = True, min(self._look_at, self._names.rested_at)
            self._upkeep.hurry(time.monotonic())
        markers = [REGISTRY_TICK, *(queue.tick for queue in self._upkeep.queues.values())]
        self._waiter = Listener(self._session.connections, markers[:MOST_MARKERS], owners)

    def _sleep(self) -> None:
        while self._waiter and not self._stopping:
            self._pulse.move(LOOP)
            now = time.monotonic()
            first = min(self._look_at, self._upkeep.glance_at, self._upkeep.moments.first())
            patience = min(first - now, STOP_CHECK_SECONDS)
            if patience <= 0:
                return
            marker = self._waiter.wait(patience)
            if marker is not None:
                self._woken(self._waiter, marker)
                return
            if time.monotonic() < now + patience:  # its connection has failed
                self._look_at = min(self._look_at, now + AWAY_SECONDS)
                self._upkeep.hurry(now + AWAY_SECONDS)

    def _woken(self, waiter: "Listener", marker: Marker) -> None:
        self._rest(self._woken_at + WAKE_SECONDS - time.monotonic())
        name, self._woken_at = waiter.owners[marker.number], time.monotonic()
        if name is None:
            self._changed = True
            self._look_at = min(self._look_at, max(self._woken_at, self._names.rested_at))
        elif name in self._upkeep.queues:
            self._upkeep.moments[name] = self._woken_at

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, STOP_CHECK_SECONDS))


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

    names: list[str] = []

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        names.append(signal.Signals(number).name)  # told later: it may have interrupted a log line
        scheduler.stop()

    for number in stop_signals():
        signal.signal(number, stop)
    try:
        scheduler.run()
    finally:
        for name in names:
            about = fields("scheduler_stopping", reason=name)
            log.info("scheduler: %s has ended it", name, extra=about)
        opened.close()
