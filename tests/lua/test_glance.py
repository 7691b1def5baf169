"""`glance`: the next moments of many queues in one call."""

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from dpq import DPQ
from dpq.registry.all_queues import glance
from dpq.script.assembly import script
from dpq.script.keys import key_of
from dpq.script.replies import UNKNOWN, Glance


def glanced(q: DPQ[Any], *more: DPQ[Any], names: bool = True) -> Glance:
    found: Glance = q._session.send(
        glance([q._operations, *(x._operations for x in more)], names=names)
    )
    return found


@pytest.fixture
def other(redis: Redis, queue_name: str) -> Iterator[DPQ[Any]]:
    with DPQ[Any](redis, queue_name + "-2") as queue:
        queue.push(1)
        yield queue
        queue.admin.drop()


@pytest.fixture
def real(redis: Redis, queue_name: str) -> Iterator[DPQ[Any]]:
    """A queue in the server's time, as daemons have it."""
    with DPQ[Any](redis, queue_name) as queue:
        queue.push(1)
        yield queue


def test_moments(real: DPQ[Any], other: DPQ[Any]) -> None:
    """Each queue has its own: a delayed task, the end of a lease, or nothing to come."""
    assert glanced(real, other).waits == [-1, -1]
    real.push(2, delay=7)
    [seen, nothing] = glanced(real, other).waits
    assert 6000 < seen <= 7000
    assert nothing == -1
    other.pop(visibility=3)
    [_, ends] = glanced(real, other).waits
    assert 2000 < ends <= 3000


def test_only_a_step_can_tell(real: DPQ[Any], other: DPQ[Any], redis: Redis) -> None:
    """A queue that is gone, of another format, or of another type."""
    conf = key_of(other.queue_name, "conf")
    assert glanced(real, other).waits == [-1, -1]
    for field, stored in (("format", "99"), ("format", "x")):
        before = redis.hget(conf, field)
        redis.hset(conf, field, stored)
        assert glanced(real, other).waits == [-1, UNKNOWN], field
        redis.hset(conf, field, before) if before else redis.hdel(conf, field)
    other.admin.drop()
    assert glanced(real, other).waits == [-1, UNKNOWN]
    redis.set(conf, "x")
    assert glanced(real, other).waits == [-1, UNKNOWN]
    redis.delete(conf)


def test_it_changes_nothing() -> None:
    """A replica could run it, too: none of its commands writes."""
    text = script("glance").text
    assert "redis.call('" not in text.replace("redis.call('TIME')", "")
