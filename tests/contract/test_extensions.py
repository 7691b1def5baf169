"""Extending a lease in the background: in time, and never against what its holder has said."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from redis import Redis

from dpq import DPQ, TaskState
from dpq.queue import lease_renewal
from dpq.queue.lease_renewal import Leases

PATIENCE = 30.0  # seconds until a test gives up

A_WHILE = 0.2
"""Seconds in which what does not wait has ended: a slower machine finds less, never more."""


class Told(Leases):
    """Leases whose keeper is the test."""

    def _wake(self) -> None:
        pass


@pytest.mark.parametrize("seconds", [0.1, 30.0, 3600.0])
def test_a_lease_outlives_an_extension_that_is_lost(
    q: DPQ[Any], monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """It is asked for so early that a second try, as long after it again, is in time too."""
    now = 1000.0
    monkeypatch.setattr(lease_renewal.time, "monotonic", lambda: now)
    q.push("a")
    task = q.pop().task
    leases = Told()
    leases.hold((task,), seconds)
    for _ in range(2):
        now = leases._plan()
        assert now < 1000 + seconds
        due = leases._due()
        assert [lease.task for lease in due.values()] == [task]
        leases._put_off(due)


def test_an_extension_on_its_way_undoes_nothing(redis: Redis, queue_name: str) -> None:
    """What the holder says of its task stands, though its lease was being extended just then."""
    q = DPQ(redis, queue_name)
    q.push("a")
    started, go_on = threading.Event(), threading.Event()
    extend = q._leases._extend

    def slowly(leases: Sequence[Any]) -> list[bool]:
        started.set()
        assert go_on.wait(PATIENCE)
        return extend(leases)

    q._leases._extend = slowly
    task = q.pop(visibility=PATIENCE).task
    q._leases.hold((task,), 0.01)
    assert started.wait(PATIENCE)
    saying = threading.Thread(target=q.set_visibility, args=(task, 600))
    saying.start()
    saying.join(A_WHILE)
    go_on.set()
    saying.join(PATIENCE)
    q._leases.close()
    if keeper := q._leases._thread:
        keeper.join(PATIENCE)
    assert q.get(task.id).state is TaskState.DELAYED
    q.admin.drop()
    q.close()
