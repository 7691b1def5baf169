"""A worker that is killed: what that does to its tasks, and nothing else does.

Workers under random kills, restarts and cuts are those of the soak.
"""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from kit.faces import FACES, face_of
from redis import Redis

from dpq import DPQ, Context, Push, Task, TaskState, Worker
from dpq.queue.lease_renewal import Leases
from dpq.server import Server
from dpq.testing import assert_conserved, crash
from dpq.verbs.queue import QueueOperations

LONG_S = 600.0
"""Seconds of a lease that does not run out by itself."""

LEFT_S = 0.1
"""Seconds of its lease that are left to the dead worker, so that nobody waits longer."""


def stumble() -> None:
    """Where a handler is when its process is killed."""


KILLS = {
    "in the handler": stumble,
    "between pop and handler": Leases.hold,
    "between handler and ack": QueueOperations.ack_many,
}


@pytest.mark.parametrize("kind", FACES)
@pytest.mark.parametrize("point", KILLS)
def test_tasks_of_a_killed_worker_come_back(
    redis: Redis, server: Server, queue_name: str, kind: str, point: str, tmp_path: Path
) -> None:
    """What a killed worker held comes back when its lease ends, counted once; another does it."""
    queue = DPQ(redis, queue_name)
    pushed = queue.push_many([Push(payload=n) for n in range(20)])
    ledger = os.open(tmp_path / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def handle(task: Task[Any], context: Context[Any]) -> None:
        os.write(ledger, f"{task.id}\n".encode())
        if task.id == pushed[5]:
            stumble()

    def run() -> None:
        with face_of(kind) as face, face.queue.from_url(server.url, queue_name) as own:
            worker = face.worker(own, handle, concurrency=2, prefetch=4, visibility=LONG_S)
            worker.run(signals=False)

    crash(run, at=KILLS[point])
    os.close(ledger)
    left = {task.id for state in TaskState for task in queue.peek(100, state)}
    done = set((tmp_path / "ledger").read_text().split())
    begun: dict[str, tuple[int, float]] = {}
    orphans = queue.peek(100, TaskState.INVISIBLE)
    ends = {task.id: queue.extend(task, LEFT_S).timestamp() for task in orphans}

    def take(task: Task[Any]) -> None:
        assert task.id not in begun
        begun[task.id] = (task.attempt, time.time())

    Worker(queue, take, concurrency=2, visibility=LONG_S).drain()
    assert begun.keys() == left
    assert all(attempt == 1 + (id_ in ends) for id_, (attempt, _) in begun.items())
    assert all(begun[id_][1] >= ends[id_] for id_ in ends)  # by the clock of the same machine
    assert ends
    assert len(ends.keys() - done) <= 6  # what runs, and what is prefetched; acks may wait, too
    assert queue.stats().expired_leases == len(ends)
    assert done & left <= ends.keys()
    assert set(pushed) - left <= done
    if point == "in the handler":
        assert pushed[5] in ends
    elif point == "between handler and ack":
        assert done & ends.keys()
    assert_conserved(queue, pushed, pushed)
    queue.admin.drop()
