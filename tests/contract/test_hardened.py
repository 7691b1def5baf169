"""What a review found could go wrong: each fault is one test."""

import math
from typing import Any

import pytest
from pydantic import BaseModel, Field
from redis import Redis

from dpq import DPQ, PayloadError, RateLimited
from dpq.model.errors import ConfigurationError


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


@pytest.mark.parametrize("retry_after", [-1, math.inf, math.nan, True])
def test_a_signal_that_cannot_be_is_refused_at_once(retry_after: Any) -> None:
    """`RateLimited` checks its argument when it is made, not when the task is given back."""
    with pytest.raises(ConfigurationError):
        RateLimited(retry_after)
