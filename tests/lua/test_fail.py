"""fail: this attempt failed: the task comes back later, or is dead when its attempts are spent."""

import json
import math
import re
from datetime import timedelta

import pytest

from dpq import DPQ
from dpq.script.keys import key_of


def test_a_list_is_a_backoff(q, clock):
    """A list of the queue holds for tasks without one of their own, exactly; the last one repeats.
    A task's own list is stored with it: it holds for every client, and an update replaces it."""
    queue = DPQ(q.redis, q.queue_name, clock=clock, backoff=[1, 5, timedelta(seconds=30)])
    assert queue.settings.backoff == (1, 5, 30)

    def waits(by, count=4):
        found = []
        for _ in range(count):
            by.fail(by.pop().task)
            found.append(by.next_event() or 0)
            clock.advance(found[-1])
        return found

    plain = queue.push("x")
    assert waits(queue) == [1, 5, 30, 30]
    queue.cancel(plain)
    own = queue.push("x", key="k", backoff=[0.25, 0, 7], max_attempts=50)
    assert q.get(own).backoff == (0.25, 0, 7)
    assert waits(q) == [0.25, 0, 7, 7]
    q.push("x", key="k", on_duplicate="update", backoff=(2,) * 16)
    assert waits(queue, 2) == [2, 2]
    q.push("x", key="k", on_duplicate="update")
    assert q.get(own).backoff is None
    assert waits(queue, 1) == [30]


@pytest.mark.parametrize("options", [{}, {"key": "k", "cost": 2}], ids=["short", "full"])
def test_no_limit_of_attempts(q, clock, probe, options):
    """A task with math.inf never dies of failures and ended leases. Its attempts stay exact, and
    JSON and exports write no limit as null."""
    task_id = q.push("x", max_attempts=math.inf, **options)
    for attempt in range(1, 13):
        task = probe.pop()
        assert (task.attempt, task.max_attempts) == (attempt, math.inf)
        if attempt % 3:
            q.fail(task, delay=0)
        else:
            clock.advance(100)
    record = q.redis.hget(key_of(q.queue_name, "meta"), task_id)
    many = re.sub(rb"^(\S+ )\d+ ", rb"\g<1>9007199254 ", record)
    q.redis.hset(key_of(q.queue_name, "meta"), task_id, many)
    q.fail(probe.pop(), delay=0)
    found = q.get(task_id)
    assert (found.attempt, found.state) == (9007199257, "ready")
    assert found.model_dump()["max_attempts"] is None
    assert json.loads(found.model_dump_json())["max_attempts"] is None
    assert type(found).model_validate(found.model_dump()) == found
    assert not q.check()
    [line] = [each for each in q.admin.export() if task_id in each]
    assert json.loads(line)["max_attempts"] is None
