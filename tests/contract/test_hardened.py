"""What a review found could go wrong: each fault is one test."""

import math
from typing import Any

import pytest
from pydantic import BaseModel, Field
from redis import Redis

from dpq import DPQ, LeaseLostError, PayloadError, Push, RateLimited
from dpq.model.errors import ConfigurationError
from dpq.script.keys import key_of


class Aliased(BaseModel):
    url: str = Field(alias="URL")


@pytest.mark.parametrize("how", ["lease ran out", "deferred"])
def test_a_rerun_is_not_lost_with_a_late_ack(q: DPQ[Any], clock: Any, how: str) -> None:
    """A rerun ends the token of a holder who is late: its ack does not take the new payload."""
    q.push("a", key="k")
    task = q.pop(visibility=1).task
    if how == "deferred":
        q.set_visibility(task, 5)
    else:
        clock.advance(2)
        q.promote()
    q.push("b", key="k", on_duplicate="rerun")
    assert q.ack(task) is False
    assert q.pop().task.payload == "b"


def test_aliases_survive(redis: Redis, queue_name: str) -> None:
    """A model whose fields have aliases comes back as it went."""
    q: DPQ[Aliased] = DPQ(redis, queue_name, payload_type=Aliased)
    q.push(Aliased(URL="x"))
    assert q.pop().task.payload == Aliased(URL="x")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_cannot_be_read_back_is_refused(redis: Redis, queue_name: str, value: float) -> None:
    """A typed payload that JSON would change is refused by push, not found dead by pop."""
    q: DPQ[float] = DPQ(redis, queue_name, payload_type=float)
    with pytest.raises(PayloadError):
        q.push(value)
    assert q.size() == 0


@pytest.mark.parametrize("state", ["ready", "delayed", "invisible"])
@pytest.mark.parametrize("pad", ["", "x" * 600], ids=["short", "long"])
def test_a_corrupt_record_hurts_no_neighbour(
    q: DPQ[Any], redis: Redis, clock: Any, state: str, pad: str
) -> None:
    """A record that cannot be read becomes a dead letter with its payload; others are served."""
    delay = 1 if state == "delayed" else 0
    payloads = [f"{n}{pad}" for n in range(20)]
    ids = q.push_many(Push(payload=payload, delay=delay) for payload in payloads)
    if state == "invisible":
        q.pop_many(20, visibility=1)
    garbage = "garbage" if pad else 'garbage\n"5"'
    redis.hset(key_of(q.queue_name, "meta"), ids[5], garbage)
    clock.advance(2)
    assert {task.payload for task in q.pop_many(20)} == set(payloads) - {payloads[5]}
    [dead] = q.dead.list()
    assert (dead.id, dead.reason, dead.payload) == (ids[5], "bad record", payloads[5])
    assert q.check() == []
    assert q.dead.replay(ids[5]) == 1
    assert q.pop().task.payload == payloads[5]


def test_acks_go_on_past_a_lost_lease(q: DPQ[Any]) -> None:
    """With one stale task in the first batch, all others of ack_many are finished."""
    q.push_many(Push(payload=n) for n in range(1500))
    tasks = q.pop_many(1000) + q.pop_many(500)
    q.release(tasks[3])
    q.pop()
    with pytest.raises(LeaseLostError) as caught:
        q.ack_many(iter(tasks))
    assert caught.value.task_ids == (tasks[3].id,)
    assert q.size() == 1


@pytest.mark.parametrize("retry_after", [-1, math.inf, math.nan, None, True])
def test_a_signal_that_cannot_be_is_refused_at_once(retry_after: Any) -> None:
    """`RateLimited` checks its argument when it is made, not when the task is given back."""
    with pytest.raises(ConfigurationError):
        RateLimited(retry_after)
