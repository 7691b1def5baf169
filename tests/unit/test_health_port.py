"""The health endpoint, the pulse behind it, and the health of several processes."""

import json
import math
import time
from typing import Any

import pytest

from dpq.cli._processes import Child, Parent
from dpq.cli.daemon import HealthSource
from dpq.types import Health
from dpq.worker.run_state import Pulse

GOOD = Health(live=True, ready=True)
AWAY = Health(live=True, ready=False, reasons=("away",))
STUCK = Health(live=False, ready=False, reasons=("stuck",))


def asked(path: str, health: Health = GOOD) -> tuple[int, Any]:
    """The status and the body of an answer."""
    source, said = HealthSource(), list[str]()
    source.ask = lambda: health
    body = b"".join(source({"PATH_INFO": path}, lambda status, headers: said.append(status)))
    return int(said[0].split()[0]), json.loads(body)


@pytest.mark.parametrize(
    ("health", "live", "ready"), [(GOOD, 200, 200), (AWAY, 200, 503), (STUCK, 503, 503)]
)
def test_live_and_ready(health: Health, live: int, ready: int) -> None:
    """A worker that waits for its server is live, and only a stuck one is not."""
    told = json.loads(health.model_dump_json())
    assert asked("/live", health) == (live, told)
    assert asked("/ready", health) == (ready, told)
    assert asked("/live/x")[0] == 404


# The pulse


def test_a_pulse() -> None:
    """All loops must move, and the server must answer, in their time."""
    pulse = Pulse(silent_seconds=1000)
    assert pulse.health(stopping=False).reasons == ("the server does not answer",)
    pulse.hear(answered=True)
    pulse.move("a")
    pulse.move("b")
    assert pulse.health(stopping=False) == GOOD
    assert pulse.health(stopping=True) == Health(
        live=True, ready=False, reasons=("it is stopping",)
    )
    pulse.stuck_seconds = -1
    told = pulse.health(stopping=False)
    assert (told.live, told.ready, len(told.reasons)) == (False, False, 2)
    pulse.rest("a")
    pulse.rest("b")
    assert pulse.health(stopping=False) == GOOD
    pulse.silent_seconds = -1
    assert not pulse.health(stopping=False).ready
    pulse.silent_seconds = math.inf
    pulse.trouble = "no"
    assert pulse.health(stopping=False).reasons == ("no",)


# Several processes


class Running:
    pid = 77


def parent(*children: Health | None, ago: float = 0.0) -> Parent:
    """A parent of processes that have told this so long ago; None runs no process."""
    made = []
    for health in children:
        child = Child([], {})
        child.health, child._told = health or AWAY, time.monotonic() - ago
        running: Any = Running()
        child.process = running if health else None
        made.append(child)
    return Parent(made)


@pytest.mark.parametrize(
    ("children", "live", "ready"),
    [
        ([GOOD, GOOD], True, True),
        ([GOOD, AWAY], True, True),
        ([GOOD, None], True, True),
        ([AWAY, AWAY], True, False),
        ([None], True, False),
        ([GOOD, STUCK], False, False),
    ],
)
def test_the_parent_speaks_for_its_processes(
    children: list[Health | None], live: bool, ready: bool
) -> None:
    """Live if all that run are; ready if one is."""
    told = parent(*children).health()
    assert (told.live, told.ready) == (live, ready)
    assert told.ready == (not told.reasons)
