"""The known faults of the original system, a regression test each.

Others have theirs elsewhere: payloads with `::` in test_api.py, equal priorities in test_order.py,
and forgotten scripts in tests/lua/test_lost_replies.py.
"""

import os
import subprocess
import sys
import time
from typing import Any
from unittest import mock

import pytest
from redis import Redis

from dpq import DPQ, LeaseLostError, Push
from dpq.script.keys import key_of
from dpq.server import Server
from dpq.verbs.queue import UPKEEP_BATCH


def test_the_readme_example_works_word_for_word(redis: Redis, clock: Any) -> None:
    """The first ten lines that anyone writes do what they say."""
    done: list[Any] = []
    my_client = redis

    def Redis() -> Any:  # noqa: N802 - the example's own word
        return my_client

    def process(payload: Any) -> None:
        done.append(payload)

    q: DPQ[Any] = DPQ(redis=Redis(), queue_name="my_queue")
    try:
        q.push({"body": "hello"}, priority=17, delay=1)
        assert q.pop() == (None, None, None)

        task, on_success, set_visibility = q.pop(timeout=60)
        process(task.payload)
        on_success()

        assert done == [{"body": "hello"}]
        assert q.pop() == (None, None, None)

        q.push({"body": "hello"}, priority=17)
        task, on_success, set_visibility = q.pop()
        set_visibility(30)
        assert q.get(task.id).state == "delayed"
    finally:
        q.admin.drop()
        q.close()


def test_set_visibility_hides_the_task_for_so_long(q: DPQ[Any], clock: Any) -> None:
    """Nobody sees the task before the time that set_visibility names, and then somebody does."""
    q.push("a")
    task, _, set_visibility = q.pop(visibility=5)
    set_visibility(30)

    clock.advance(29.999)
    assert q.pop().task is None
    clock.advance(0.001)
    assert q.pop().task.id == task.id


def test_a_late_ack_keeps_the_other_workers_task_and_its_retry_limit(
    q: DPQ[Any], clock: Any
) -> None:
    """An ack with an old token is refused, and the task goes on with its attempts counted."""
    q.push("a", max_attempts=2)
    late = q.pop(visibility=1).task
    clock.advance(1)
    current = q.pop().task

    with pytest.raises(LeaseLostError):
        q.ack(late)

    assert q.get(current.id).attempt == 2
    q.fail(current, "boom")
    assert q.dead.list()[0].attempts == 2


ZONE_PROGRAM = """
import os, sys, time
from redis import Redis
from dpq import DPQ
url, name, *zones = sys.argv[1:]

def main(q):
    delayed = q.push("delayed", delay=3600)
    leased = q.push("leased")
    task = q.pop(visibility=600).task
    assert task.id == leased
    age = time.time() - task.enqueued_at.timestamp()
    left = task.visible_until.timestamp() - time.time()
    assert -5 < age < 60, age
    assert 540 < left < 605, left
    assert 3540 < q.get(delayed).visible_until.timestamp() - time.time() < 3605
    assert 540 < q.next_event() < 605
    assert q.pop().task is None
    q.admin.drop()

with DPQ(Redis.from_url(url), name) as q:
    for zone in zones:
        os.environ["TZ"] = zone
        time.tzset()
        main(q)
        print(time.strftime("%z"))
"""


ZONES = {"XXX-14": "+1400", "XXX+12": "-1200", "XXX-5:30": "+0530", "UTC0": "+0000"}


def test_a_time_zone_changes_nothing(server: Server, queue_name: str) -> None:
    """Delays, leases and stamps are the same east and west of Greenwich, from the start of a
    program and after a change."""
    ran = subprocess.run(
        [sys.executable, "-c", ZONE_PROGRAM, server.url, queue_name, *ZONES],
        env={**os.environ, "TZ": next(iter(ZONES)), "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == list(ZONES.values())


def test_the_callers_clock_changes_nothing(redis: Redis, queue_name: str) -> None:
    """A client whose clock is a day ahead takes nothing before its time by the server's clock."""
    q: DPQ[Any] = DPQ(redis, queue_name)
    with mock.patch("time.time", return_value=time.time() + 86_400):
        q.push("a", delay=3600)
        assert q.pop().task is None
        assert 3500 < (q.next_event() or 0) <= 3600


def test_a_great_backlog_moves_in_bounded_steps(q: DPQ[Any], redis: Redis, clock: Any) -> None:
    """3000 tasks due at once: no script call moves more than one batch, and none is left out."""
    q.push_many(Push(payload=n, priority=n, delay=1) for n in range(3000))
    clock.advance(1)

    moved = []
    while not moved or moved[-1]:
        before = redis.zcard(key_of(q.queue_name, "ready"))
        moved.append(q.promote())
        assert redis.zcard(key_of(q.queue_name, "ready")) - before == moved[-1]

    assert max(moved) <= UPKEEP_BATCH
    assert sum(moved) == 3000


def test_a_pop_at_a_great_backlog_takes_bounded_steps(
    q: DPQ[Any], redis: Redis, clock: Any
) -> None:
    """A pop catches up with 3000 due tasks in as many calls as there are batches, not in one."""
    q.push_many(Push(payload=n, priority=n, delay=1) for n in range(3000))
    clock.advance(1)
    redis.config_resetstat()

    assert q.pop().task.payload == 2999

    calls = redis.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert 3000 / UPKEEP_BATCH <= calls <= 3000 / UPKEEP_BATCH + 2
