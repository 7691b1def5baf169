"""What tests of a delivery share: where its task may be while its token is live."""

from typing import Any

from dpq import DPQ, Task
from dpq.testing import Clock

STATES = ["invisible", "ready", "waiting", "delayed", "dead"]
"""All of them: none but the first is that of a running task."""


def put_back(q: DPQ[Any], clock: Clock, task: Task[Any], state: str) -> None:
    """Bring a popped task, with a lease of 30 s, to a state in which nobody else has it."""
    if state == "dead":
        q.bury(task, "gave up")
    elif state == "delayed":
        q.set_visibility(task, 60)
    elif state != "invisible":
        if state == "waiting":
            q.push("better", priority=9, group=task.group)
        clock.advance(30)
        q.promote()
    assert q.get(task.id).state == state
