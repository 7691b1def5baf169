"""Bad input gets an error that names the value and the bound, and changes nothing."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from redis import Redis

from dpq import (
    DPQ,
    ConfigurationError,
    Filter,
    PayloadError,
    Push,
    Quota,
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


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": "lifo", "aging": 1.0},
        {"fairness": "round_robin", "order": "lifo"},
        {"fairness": "round_robin", "aging": 0.5},
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_a_bad_setting_is_refused_at_construction(
    redis: Redis, queue_name: str, wrong: dict[str, Any]
) -> None:
    """A wrong setting fails at start with its name and value, and nothing is written."""
    with pytest.raises(ConfigurationError) as refused:
        DPQ(redis, queue_name, **wrong)
    assert next(iter(wrong)) in str(refused.value)
    assert redis.keys(f"dpq:{{{queue_name}}}:*") == []


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"a": object()}, "dict has no JSON form"),
        ("x" * 1_048_577, "1048579 bytes, and max_payload_bytes is 1048576"),
    ],
    ids=["object", "oversized"],
)
def test_a_payload_without_a_json_form_is_refused(
    q: DPQ[Any], unchanged: None, payload: Any, told: str
) -> None:
    """What JSON cannot say, or is too long, is a PayloadError that says which and the bound."""
    with pytest.raises(PayloadError, match=told):
        q.push(payload)
    with pytest.raises(PayloadError, match=told):
        q.push_many([Push(payload="good"), Push(payload=payload)])


@pytest.mark.parametrize("action", ["get", "update", "cancel"])
def test_an_unknown_id_is_named(q: DPQ[Any], unchanged: None, action: str) -> None:
    """An id that nothing is stored under is a TaskNotFoundError with the id and the queue."""
    arguments = {"priority": 1} if action == "update" else {}
    with pytest.raises(TaskNotFoundError, match=f"cannot {action} task 'nobody'") as error:
        getattr(q, action)("nobody", **arguments)
    assert error.value.task_id == "nobody"
    assert q.queue_name in str(error.value)


def test_an_unknown_id_has_no_reason(q: DPQ[Any], unchanged: None) -> None:
    """So is an id that somebody asks about."""
    with pytest.raises(TaskNotFoundError, match="cannot explain task 'nobody'") as error:
        q.why("nobody")
    assert q.queue_name in str(error.value)


def test_a_dead_task_is_no_live_one(q: DPQ[Any], unchanged: None) -> None:
    """Update and cancel of a dead task say that it is not found."""
    dead = q.dead.list()[0].id
    with pytest.raises(TaskNotFoundError, match=dead):
        q.update(dead, priority=1)
    with pytest.raises(TaskNotFoundError, match=dead):
        q.cancel(dead)


def test_an_update_that_cannot_be_is_refused(q: DPQ[Any], running: Any, unchanged: None) -> None:
    """A delay for a running task, and an update of nothing, are refused."""
    with pytest.raises(ConfigurationError, match=f"{running.id} is running"):
        q.update(running.id, delay=5)
    with pytest.raises(ConfigurationError, match="give priority, delay or cost"):
        q.update(running.id)


def test_a_key_of_another_group_is_refused(q: DPQ[Any], running: Any, unchanged: None) -> None:
    """A push cannot carry a key into another group; `keep` changes nothing, and so may meet it."""
    assert q.push("x", key="running", group="other", on_duplicate="keep") == running.id
    for mode in ("update", "raise_priority", "rerun"):
        with pytest.raises(ConfigurationError, match=f"'running' belongs to task {running.id}"):
            q.push("x", key="running", group="other", on_duplicate=mode)


def test_an_unknown_id_among_the_dead_is_passed_over(q: DPQ[Any], running: Any) -> None:
    """Replay and purge of ids that are not dead do nothing, and say so."""
    before = q.stats()
    assert q.dead.replay(["nobody", running.id]) == 0
    assert q.dead.purge(["nobody", running.id]) == 0
    assert q.stats() == before


LONG = """x'" """ * 10_000

WRONG: dict[str, Callable[[DPQ[Any], Any], Any]] = {
    **{
        name: lambda q, wrong, name=name: q.push(1, **{name: wrong})
        for name in Push._fields
        if name not in ("payload", "unique_for", "debounce_max", "timezone")
    },
    "timezone": lambda q, wrong: q.push(1, cron="* * * * *", timezone=wrong),
    "push_many": lambda q, wrong: q.push_many([wrong]),
    "rate": lambda q, wrong: q.set_limit(wrong),
    "per": lambda q, wrong: q.set_limit(5, wrong),
    "quota": lambda q, wrong: Quota(5, wrong),
    "members": lambda q, wrong: q.set_limit(5, 1, group="g", members=wrong),
    "in_order": lambda q, wrong: q.set_limit(group="g", in_order=True, members=wrong),
    "results": lambda q, wrong: q.results(wrong),
    "get": lambda q, wrong: q.get(wrong),
    "peek": lambda q, wrong: q.peek(wrong),
    "bulk": lambda q, wrong: q.bulk(wrong, Filter(group="g")),
    "delay_group": lambda q, wrong: q.delay_group(wrong, 5),
    "name": lambda q, wrong: DPQ(q.redis, wrong),
    "order": lambda q, wrong: DPQ(q.redis, "q", order=wrong),
    "fairness": lambda q, wrong: DPQ(q.redis, "q", fairness=wrong),
    "backoff": lambda q, wrong: DPQ(q.redis, "q", backoff=wrong),
}


@pytest.mark.parametrize("wrong", [LONG, LONG.encode(), [LONG] * 3, 10**4000], ids=range(4))
@pytest.mark.parametrize("name", WRONG)
def test_an_error_quotes_the_beginning_of_a_long_value(q: DPQ[Any], name: str, wrong: Any) -> None:
    """However long a wrong argument is, its error can be read."""
    with suppress(PayloadError), pytest.raises(ConfigurationError) as caught:
        WRONG[name](q, wrong)
    assert len(str(caught.value)) < 600
