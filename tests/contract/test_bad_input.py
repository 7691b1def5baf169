"""Bad input gets an error that names the value and the bound, and changes nothing."""

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from dpq import (
    DPQ,
    ConfigurationError,
    TaskNotFoundError,
)


@pytest.fixture
def running(q: DPQ[Any]) -> Any:
    """A queue with a task in every state; the one that is running."""
    q.push("to be buried")
    q.bury(q.pop().task, "no good")
    q.push("running", priority=9, key="running")
    task = q.pop().task
    q.push("delayed", delay=60)
    q.push("ready", group="a")
    q.push("waiting", group="a")
    return task


@pytest.fixture
def unchanged(redis: Redis, queue_name: str, running: Any) -> Iterator[None]:
    """Every key of the queue holds at the end what it held before."""

    def dump() -> dict[bytes, Any]:
        read = {
            b"hash": redis.hgetall,
            b"stream": redis.xrange,
            b"zset": lambda key: redis.zrange(key, 0, -1, False, True),
        }
        return {
            key: read[redis.type(key)](key)  # not its DUMP: a hash has no order to rely on
            for key in redis.keys(f"dpq:{{{queue_name}}}:*")
        }

    before = dump()
    yield
    assert dump() == before


@pytest.mark.parametrize("action", ["get", "update", "cancel"])
def test_an_unknown_id_is_named(q: DPQ[Any], unchanged: None, action: str) -> None:
    """An id that nothing is stored under is a TaskNotFoundError with the id and the queue."""
    arguments = {"priority": 1} if action == "update" else {}
    with pytest.raises(TaskNotFoundError, match=f"cannot {action} task 'nobody'") as error:
        getattr(q, action)("nobody", **arguments)
    assert error.value.task_id == "nobody"
    assert q.queue_name in str(error.value)


def test_a_key_of_another_group_is_refused(q: DPQ[Any], running: Any, unchanged: None) -> None:
    """A push cannot carry a key into another group; `keep` changes nothing, and so may meet it."""
    assert q.push("x", key="running", group="other", on_duplicate="keep") == running.id
    for mode in ("update", "raise_priority", "rerun"):
        with pytest.raises(ConfigurationError, match=f"'running' belongs to task {running.id}"):
            q.push("x", key="running", group="other", on_duplicate=mode)


LONG = """x'" """ * 10_000
