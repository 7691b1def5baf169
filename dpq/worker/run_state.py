"""The state of one run of a worker, as its parts share it. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass, field

from dpq.worker.pulse import Pulse

BEAT_SECONDS = 10.0
"""Seconds between the heartbeats of a worker at most, one call for each of its queues."""

STOP_CHECK_SECONDS = 0.25
"""Seconds until an idle thread sees a stop at the latest."""

LEAVE_SECONDS = 2.0
"""Seconds in which an ending worker tries to sign off; without that it is listed for a minute."""

LATEST_ACK_SECONDS = 0.05
"""Seconds that a finished task may wait, to be acked together with others."""


MAIN_LOOP, HEARTBEAT, EXCHANGE = "the main loop", "the heartbeat", "the exchange with the server"
"""The loops of a worker that must move."""


@dataclass(slots=True, kw_only=True, eq=False)
class RunState:
    """One run, from `run` to its return. Only the worker itself changes it."""

    until_empty: bool  # the run is to end when no live task is left in any of the queues
    end: Callable[[], None]
    stopping: bool = field(default=False, init=False)  # no handler begins any more
    # The indexes of the queues that have told the worker to take none of their tasks.
    quiet: frozenset[int] = field(default=frozenset(), init=False)
    pulse: Pulse = field(default_factory=lambda: Pulse(2.5 * BEAT_SECONDS), init=False)
