"""What a daemon sends while nothing happens; and that nothing is late for it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from kit.schedulers import in_ready, running
from kit.waiting import wait_for_waiters
from redis import Redis
from redis.exceptions import ResponseError
from support import wait_for

from dpq import DPQ, Scheduler
from dpq.link import blocks
from dpq.scheduler import daemon, upkeep


@pytest.fixture
def several(redis: Redis, queue_name: str) -> Iterator[list[DPQ[Any]]]:
    """Queues that exist, and are empty."""
    queues = [DPQ[Any](redis, f"{queue_name}-{n}") for n in range(12)]
    for queue in queues:
        queue.push(1)
        queue.ack(queue.pop().task)
    yield queues
    for queue in queues:
        queue.admin.drop()
        queue.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "RECHECK_SECONDS", 0.1)
    monkeypatch.setattr(daemon, "RECHECK_SECONDS", 0.1)


def counts(redis: Redis) -> dict[str, int]:
    return {name[8:]: row["calls"] for name, row in redis.info("commandstats").items()}


def settled(scheduler: Scheduler, count: int) -> bool:
    """Each queue was stepped, and is not due for long; nor are the names."""
    queues, later = list(scheduler._upkeep.queues.values()), time.monotonic() + 30
    return (
        len(queues) == count
        and all(queue.settings for queue in queues)
        and scheduler._waiter is not None
        and len(scheduler._waiter.owners) == count + 1  # with the list of names
        and (scheduler._named is not None or not scheduler._changed)
        and scheduler._look_at > later
        and scheduler._upkeep.moments.first() > later
    )


def wait_for_rest(redis: Redis, scheduler: Scheduler, count: int) -> None:
    wait_for(lambda: settled(scheduler, count), scheduler._upkeep.queues.keys)
    wait_for_waiters(redis, 1)
    wait_for(lambda: settled(scheduler, count), scheduler._upkeep.queues.keys)


@pytest.mark.parametrize("named", [True, False])
def test_at_rest_it_sends_glances(
    redis: Redis, several: list[DPQ[Any]], monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """One call looks at all queues; none is stepped, no name is read, and the block stays."""
    monkeypatch.setattr(blocks, "RECHECKS_OF_A_BLOCK", 1000)
    scheduler = Scheduler(redis, [queue.queue_name for queue in several] if named else None)
    with running(scheduler):
        wait_for_rest(redis, scheduler, len(several))
        redis.config_resetstat()
        wait_for(lambda: counts(redis).get("scard", 0) >= 5, lambda: counts(redis))
        sent = counts(redis)
    assert sent["evalsha"] == sent["scard"]
    assert sent["hmget"] == len(several) * sent["scard"]
    assert not {"bzpopmin", "sscan", "script|exists", "script", "zrange"} & set(sent)


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon hears no marker of a queue: as if each one were lost."""
    monkeypatch.setattr(daemon, "MOST_MARKERS", 1)


@pytest.mark.usefixtures("deaf")
def test_a_lost_marker_costs_a_glance(redis: Redis, several: list[DPQ[Any]]) -> None:
    """A daemon that another one has taken the marker from sees the event all the same."""
    scheduler = Scheduler(redis)
    with running(scheduler):
        wait_for_rest(redis, scheduler, len(several))
        for queue in several[::3]:
            queue.push(1, delay=0.05)
        for queue in several[::3]:
            wait_for(lambda q=queue: in_ready(q) == 1, queue.stats)


@pytest.mark.usefixtures("deaf")
@pytest.mark.parametrize("answer", ["refused", "broken"])
def test_without_glances_each_queue_is_stepped(
    redis: Redis, several: list[DPQ[Any]], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """Where a server refuses a glance, or answers nonsense, a daemon works as in a cluster."""

    def glance(*_: Any, **__: Any) -> Any:
        if answer == "refused":
            raise ResponseError("NOPERM")
        raise ValueError("nonsense")
        yield

    monkeypatch.setattr(upkeep, "glance", glance)
    scheduler = Scheduler(redis)
    with running(scheduler):
        wait_for(
            lambda: len(scheduler._upkeep.queues) == len(several), scheduler._upkeep.queues.keys
        )
        for queue in several[::3]:
            queue.push(1, delay=0.05)
        for queue in several[::3]:
            wait_for(lambda q=queue: in_ready(q) == 1, queue.stats)
