"""operations.queue: every operation as a value that can be looked at without a server."""

import subprocess
import sys
import threading
import time

from dpq import Push
from dpq.script import task_ids
from dpq.verbs.queue import PUSH_BATCH


def test_ids_sort_by_time(operations, monkeypatch):
    """By their bytes: those of a later ms behind, those of one call in their order."""
    pushes = [Push(payload=i) for i in range(5)]
    moments = [0, 1, 63, 64, 1_700_000_000_000, 1_700_000_000_001, 4_000_000_000_000]
    ids = []
    for ms in moments:
        monkeypatch.setattr(time, "time_ns", lambda ms=ms: ms * 1_000_000)
        ids += next(operations.push_many(pushes)).args[1::3]
    assert [each.encode() for each in ids] == sorted(each.encode() for each in ids)
    assert len({each[7:] for each in ids}) == len(ids)


def test_ids_of_one_process_sort_as_they_were_made(monkeypatch):
    """Within a ms too, in all threads, and while the clock is up to 10 s back; a clock that is
    further back begins anew. The ids of two processes in one ms differ from the first one on."""
    clock = {"ms": 0}
    monkeypatch.setattr(time, "time_ns", lambda: (1_700_000_000_000 + clock["ms"]) * 1_000_000)
    monkeypatch.setattr(task_ids, "_maker", task_ids._Maker())
    ids = []
    for clock["ms"] in (0, 0, 1, 0, -9_999, 1, 2):
        ids += [*task_ids.new_ids(1), *task_ids.new_ids(300)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    clock["ms"] = -10_000
    assert task_ids.new_ids(1)[0] < ids[0]

    made: list[list[str]] = [[], [], [], []]

    def make(mine: list[str]) -> None:
        for _ in range(300):
            mine += task_ids.new_ids(2)

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len({each for mine in made for each in mine}) == 2400
    task_ids._forked()
    assert len({task_ids.new_ids(1)[0][:9], made[0][-1][:9], made[1][0][:9]}) > 1


FORK = """
import os, threading
from dpq.script import task_ids
with task_ids._maker.lock:
    child = os.fork()
    if not child:
        thread = threading.Thread(target=task_ids.new_ids, args=(1, None), daemon=True)
        thread.start()
        thread.join(20)
        os._exit(thread.is_alive())
    os._exit(os.waitpid(child, 0)[1] != 0)
"""


def test_a_fork_while_a_thread_makes_ids_leaves_no_lock():
    """A forked child makes ids, though another thread of its parent held the counter."""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORK]).returncode == 0


def test_push_many_is_lazy(operations):
    """Pushes are taken from the caller's iterator batch by batch, not all at once."""
    taken = 0

    def pushes():
        nonlocal taken
        for taken in range(1, 10_000):
            yield Push(payload=taken)

    steps = operations.push_many(pushes())
    next(steps)
    assert taken <= PUSH_BATCH + 1
