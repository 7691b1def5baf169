"""What a review found could go wrong: each fault is one test."""

import inspect
import math
from typing import Any

import pytest
from pydantic import BaseModel, Field
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from dpq import DPQ, AsyncDPQ, Backoff, LeaseLostError, PayloadError, Push, RateLimited, Scheduler
from dpq.model.errors import ConfigurationError
from dpq.protocol.keys import key_of


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


def test_too_deep_to_be_read_back_is_refused(q: DPQ[Any]) -> None:
    """An untyped payload that the reader of JSON would not take is refused by push."""
    deep: Any = 1
    for _ in range(230):
        deep = [deep]
    with pytest.raises(PayloadError):
        q.push(deep)
    with pytest.raises(PayloadError):
        q.push(10**5000)


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


def test_aging_named_late_turns_nothing_round(redis: Redis, queue_name: str, clock: Any) -> None:
    """Tasks from before aging was named count as due when it was: a better new one comes first."""
    plain = DPQ(redis, queue_name, clock=clock)
    plain.push("old", priority=0)
    clock.advance(10)
    q = DPQ(redis, queue_name, clock=clock, aging=1.0)
    q.push("better", priority=1000)
    clock.advance(100)
    q.push("worse than the old one by now", priority=50)
    assert q.check() == []
    payloads = [q.pop().task.payload for _ in range(3)]
    assert payloads == ["better", "old", "worse than the old one by now"]
    q.drop()


def test_check_reads_few_payloads_at_once(q: DPQ[Any], redis: Redis) -> None:
    """A call of check looks at 1 MiB of payloads or a little more: others are served between."""
    q.push_many(Push(payload="x" * 100_000) for _ in range(300))
    redis.config_resetstat()
    assert q.check() == []
    calls = redis.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] >= 300 * 100_000 // (1024 * 1024 + 100_000)
    assert calls["cmdstat_hscan"]["calls"] <= 300 + 12


def test_one_daemon_has_few_connections(redis: Redis, queue_name: str) -> None:
    """A daemon's connections do not grow with its queues."""
    names = [f"{queue_name}-{n}" for n in range(50)]
    for name in names:
        q = DPQ(redis, name)
        q.push(1)
        q.close()
    before = redis.info("clients")["connected_clients"]
    scheduler = Scheduler(redis, names)
    assert scheduler.run_once() == 0
    assert redis.info("clients")["connected_clients"] <= before + 3
    for name in names:
        DPQ(redis, name).drop()


@pytest.mark.parametrize("retry_after", [-1, math.inf, math.nan, None, True])
def test_a_signal_that_cannot_be_is_refused_at_once(retry_after: Any) -> None:
    """`RateLimited` checks its argument when it is made, not when the task is given back."""
    with pytest.raises(ConfigurationError):
        RateLimited(retry_after)


def test_what_is_no_push_and_no_task_is_refused(q: DPQ[Any]) -> None:
    """A batch of anything but `Push`, and an ack of anything but a task, name what they got."""
    with pytest.raises(ConfigurationError, match="a push is 5"):
        q.push_many([5])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="task is 'id'"):
        q.ack("id")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="task is None"):
        q.ack_many([None])  # type: ignore[list-item]
    assert q.size() == 0


ANOTHER: dict[str, Any] = {
    "payload_type": int,
    "default_visibility": 7.5,
    "default_max_attempts": 3,
    "order": "lifo",
    "aging": 0.5,
    "fairness": "round_robin",
    "payloads": "apart",
    "backoff": Backoff(base=1),
    "max_payload_bytes": 99,
    "seen_max_keys": 9,
    "dead_max_tasks": 17,
    "dead_max_age": 60.5,
    "durability": "replica",
}
"""For each argument of a queue a value that is not its default."""

NOT_READ = {"self", "redis", "queue_name", "clock"}  # the clock is for tests


@pytest.mark.parametrize("kind", [DPQ, AsyncDPQ])
def test_every_argument_can_be_read(redis: Redis, queue_name: str, kind: Any) -> None:
    """What a queue was made with can be asked of it, and not be set; so can its defaults."""
    client = redis if kind is DPQ else AsyncRedis(host="localhost", port=1)  # it asks nobody
    arguments = inspect.signature(kind.__init__).parameters
    assert ANOTHER.keys() == arguments.keys() - NOT_READ
    plain = kind(client, queue_name)
    assert (plain.redis, plain.queue_name) == (client, queue_name)
    assert (bool(plain), repr(plain)) == (True, f"{kind.__name__}({queue_name!r})")
    for name, value in ANOTHER.items():
        q = kind(client, f"{queue_name}-{name}", **{name: value})
        assert getattr(q, name) == value, name
        assert getattr(plain, name) != value, name
        default = arguments[name].default
        assert default is None or getattr(plain, name) == default, name
        with pytest.raises(AttributeError):
            setattr(q, name, getattr(plain, name))


def test_a_callers_client_that_reaches_nobody_is_named(tmp_path: Any) -> None:
    """The error of an unreachable server says where it was looked for."""
    path = str(tmp_path / "none.sock")
    with pytest.raises(RedisConnectionError, match=f"cannot reach {path}"):
        DPQ(Redis(unix_socket_path=path, retry=Retry(NoBackoff(), 0)), "q").push(1)
    with pytest.raises(RedisConnectionError, match=r"cannot reach 127\.0\.0\.1:1"):
        DPQ(Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0)), "q").push(1)
