"""Hand-corrupted data in Redis: a clear error or a dead letter, never a stuck queue or a crash.

A queue with something of everything is damaged in a few places. Then every call is made: it may end
with an error of DPQ's or of Redis', and nothing else. And the queue goes on: tasks that are pushed
after are popped, in order, and can be finished; `check` answers.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fuzz_settings import examples
from hypothesis import example, given
from hypothesis import strategies as st
from redis import Redis
from redis.exceptions import RedisError

from dpq import (
    DPQ,
    Adaptive,
    DPQError,
    Push,
    RateLimit,
    Reserve,
    Scheduler,
    TaskNotFoundError,
    known_queues,
)
from dpq.script.keys import PARTS, REGISTRY, STORAGE_FORMAT, key_of
from dpq.server import Server
from dpq.testing import Clock

NAME = "fuzz"
NOW = 1_700_000_000_000

HASHES = (
    *("groups", "payload", "meta", "keys", "conf", "stats", "limits", "gates"),
    *("batches", "results", "progress", "workers", "history"),
)
SETS = tuple(part for part in PARTS if part not in HASHES)

ALLOWED = (DPQError, RedisError)


@pytest.fixture(scope="module")
def redis(first_server: Server) -> Iterator[Redis]:
    with Redis.from_url(first_server.url) as client:
        yield client
        client.flushall()


def furnish(redis: Redis, clock: Clock) -> tuple[DPQ[Any], list[Any]]:
    """A queue with tasks in each state, limits, gates, keys; and what is under a lease."""
    redis.flushall()
    q: DPQ[Any] = DPQ(redis, NAME, clock=clock, default_visibility=20, dead_max_tasks=50)
    q.set_limit(50, 1, burst=20, reserve=Reserve(2, 5))
    q.set_limit([RateLimit(9, 1, adaptive=Adaptive(1, 60))], concurrency=3, group="*")
    q.set_limit(1, 60, group="slow")
    q.set_limit(9, 1, 3, group="g1", members=["a", "b"], concurrency=1, weight=2)
    q.push_many([Push(n, n % 3, group=f"g{n % 3}", key=f"k{n}", cost=n % 2 + 1) for n in range(9)])
    q.push_many([Push(n, n % 3, n % 2 * 9, expires_in=1 + n % 9 * 10) for n in range(6)])
    q.push_many([Push(n, group="slow") for n in range(2)])
    q.push_many([Push("dying", 2**62), Push("running", 2**61), Push("limited", 50, group="g0")])
    q.bury(q.pop().task, "to see it")
    held = q.pop_many(6)
    q.rate_limited(held.pop(), 3)
    q.fail(held.pop(), "no", 1)
    q.delay_group("shut", 9)
    q.push(1, group="shut")
    return q, held


odd_bytes = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            *(b"", b" ", b"\t", b"nan", b"inf", b"-inf", b"-1", b"0", b"1e400", b"9" * 23),
            b"0 0 0 0 - 0 1 1 0 0 0 0 0 1\t\t\t\t",
            b"0 - - 0 0 0 0 1000:nan ",
            b"- 1000:1e300 ",
            b"1700000000000 l p 0 0 0 1000:1 ",
            b"0 0 0 0 - 0 99999999999999999999 1 1 nan 1 0 0 1000000000000001\t\t\t\t",
            *(b"0|0 0 0", b"0|1 0 1", b"1~nan nan nan|nan 1000 1", b"0|-1 -1 -1"),
            *(b"0|1 1000 1 1 x", b"1*2|9 1000 1\ta\tc"),
            b"- L:1700000000000 T:1.5 1000:1 ",
            *(b"g1\ta\tnobody", b"100000000", b"-1 1000000000000001abc", "é\x00".encode()),
        ]
    ),
)
"""What somebody may have written."""

odd_scores = st.sampled_from(
    [0.0, -1.0, 1.0, 1e18, -1e18, 1e308, float("inf"), float("-inf"), NOW, NOW + 5000.5, NOW - 5]
)

damages = st.lists(
    st.one_of(
        st.tuples(st.just("field"), st.sampled_from(HASHES), st.integers(0, 40), odd_bytes),
        st.tuples(st.just("cut"), st.sampled_from(HASHES), st.integers(0, 40), st.integers(0, 60)),
        st.tuples(st.just("splice"), st.sampled_from(HASHES), st.integers(0, 40), odd_bytes),
        st.tuples(st.just("lose"), st.sampled_from(PARTS), st.integers(0, 40), st.none()),
        st.tuples(st.just("new field"), st.sampled_from(HASHES), odd_bytes, odd_bytes),
        st.tuples(st.just("new member"), st.sampled_from(SETS), odd_bytes, odd_scores),
        st.tuples(st.just("move"), st.sampled_from(SETS), st.integers(0, 40), odd_scores),
        st.tuples(st.just("empty"), st.sampled_from(PARTS), st.none(), st.none()),
        st.tuples(st.just("type"), st.sampled_from(PARTS), st.none(), odd_bytes),
        st.tuples(st.just("registry"), st.just("conf"), odd_bytes, st.none()),
    ),
    min_size=1,
    max_size=4,
)


OF_TASKS = ("ready", "delayed", "invisible", "waiting", "dead", "meta", "payload")


def damage(redis: Redis, kind: str, part: str, where: Any, what: Any) -> bytes | None:
    """Do one thing to what is stored, as a hand with redis-cli may.

    Returns:
        What names the tasks that were hit: b"" names all, None none.
    """
    key = key_of(NAME, part)
    all_or_none = b"" if part in OF_TASKS else None
    if kind == "empty":
        redis.delete(key)
        return all_or_none
    if kind == "type":
        redis.delete(key)
        redis.set(key, what)
        return all_or_none
    if kind == "registry":
        redis.sadd(REGISTRY, where)
    elif redis.type(key) in (b"string", b"stream"):
        return None
    elif kind == "new field":
        redis.hset(key, where, what)
    elif kind == "new member":
        redis.zadd(key, {where: what})
    else:
        names = sorted(redis.hkeys(key)) if part in HASHES else redis.zrange(key, 0, -1)
        if not names:
            return None
        name = names[where % len(names)]
        if kind == "lose":
            redis.hdel(key, name) if part in HASHES else redis.zrem(key, name)
        elif kind == "move":
            redis.zadd(key, {name: what})
        else:
            old = redis.hget(key, name) or b""
            middle = len(old) // 2
            new = {"field": what, "cut": old[: what if kind == "cut" else 0]}
            new["splice"] = old[:middle] + (what if kind == "splice" else b"") + old[middle + 3 :]
            redis.hset(key, name, new[kind])
        return name if part in OF_TASKS else None
    return None


def without_group(q: DPQ[Any]) -> list[str]:
    """The live tasks that no group and no key holds: damage to others must not touch them."""
    states = ("ready", "delayed", "invisible")
    return [task.id for state in states for task in q.peek(99, state) if task.group is None]


def is_left(q: DPQ[Any], task_id: str) -> bool:
    """Is a task neither finished nor in the dead letters?"""
    try:
        return q.get(task_id).state != "dead"
    except TaskNotFoundError:
        return False


def every_call(q: DPQ[Any], held: list[Any]) -> list[Any]:
    """Calls of each kind on a queue that may be damaged, but for a daemon's."""
    first = held[0]
    return [
        q.stats,
        q.check,
        q.admin.limits,
        q.admin.groups,
        lambda: q.admin.group("g0"),
        *(
            lambda state=state: q.peek(50, state)
            for state in ("ready", "delayed", "waiting", "dead")
        ),
        lambda: q.peek(50, "invisible"),
        q.dead.list,
        q.next_event,
        lambda: q.get(first.id),
        lambda: q.why(first.id),
        lambda: q.extend(first, 30),
        *(
            lambda n=n: q.push(n, n, group=f"g{n}", key=f"k{n}", on_duplicate="update")
            for n in (0, 1)
        ),
        lambda: q.push(1, key="k2", on_duplicate="rerun"),
        lambda: q.push(1, 5, key="k3", on_duplicate="raise_priority"),
        lambda: q.update(first.id, priority=4),
        lambda: q.set_visibility(held[-1], 2),
        *(lambda t=t, n=n: (q.ack, q.fail, q.release)[n % 3](t) for n, t in enumerate(held)),
        lambda: q.set_limit(100, 1, burst=50, group="g1"),
        lambda: q.delay_group("g2", 0),
        lambda: q.pop_many(3, visibility=2),
        lambda: q.dead.replay(),
        lambda: known_queues(q.redis),
    ]


def make(call: Any) -> Any:
    """Run a call: only a clear error may come out of it."""
    with contextlib.suppress(*ALLOWED):
        return call()
    return None


def names_another_format(redis: Redis) -> bool:
    """The stored format is a number, but not that of this DPQ."""
    if redis.type(conf := key_of(NAME, "conf")) != b"hash":
        return False
    stored = (redis.hget(conf, "format") or b"").decode("latin-1")
    return bool(re.fullmatch("[0-9]+", stored)) and stored != STORAGE_FORMAT


@examples(10)
@given(damages, st.integers(0, 2), st.booleans())
@example([("new field", "conf", b"next_event", b"nan")], 0, False)
@example([("field", "conf", 1, b"0")], 0, False)
@example([("new field", "conf", b"format", b"7")], 0, False)
def test_a_damaged_queue_goes_on(redis, what, when, daemon):
    """After any damage, daemon or not: clear errors, no hang, new tasks in order; check answers."""
    clock = Clock(NOW)
    q, held = furnish(redis, clock)
    bystanders = without_group(q)
    for one in what:
        hit = damage(redis, *one)
        bystanders = [id_ for id_ in bystanders if hit is None or (hit and id_.encode() not in hit)]
    if names_another_format(redis):
        return  # a queue of a newer DPQ, for all that anybody can tell: it is left alone
    upkeep = [q.promote, Scheduler(redis).run_once] if daemon else []
    for number, call in enumerate([*every_call(q, held), *upkeep]):
        make(call)
        if number % 9 == when:
            clock.advance(2)
    for problem in q.check():  # nobody can go on without what stands in its way
        if problem.kind == "wrong type":
            redis.delete(problem.subject)
    for call in (q.resume, q.clear_limit, lambda: q.clear_limit("*"), q.check):
        call()
    # Tasks that nobody has touched: three of the highest priorities, one in a group of its own.
    pushes = [
        Push("new-3", 2**63 - 3),
        Push("new-1", 2**63 - 1),
        Push("new-2", 2**63 - 2, group="n"),
    ]
    q.push_many(pushes)
    got: list[Any] = []
    asked = time.monotonic()
    while len(got) < 3 and time.monotonic() < asked + 60:
        popped = q.pop_many(10)
        got += [task for task in popped if str(task.payload).startswith("new-")]
        q.ack_many(task for task in popped)
        if not popped:
            clock.advance(31)  # what a lost marker or a lost lease may cost
            if daemon:
                q.promote()
    assert [task.payload for task in got] == ["new-1", "new-2", "new-3"], (what, q.check())
    for _ in range(12):  # and what nobody has touched is not lost
        clock.advance(40)
        if daemon:
            q.promote()
        q.ack_many(q.pop_many(100))
    left = {id_ for id_ in bystanders if is_left(q, id_)}
    if any(
        kind == "type" for kind, *_ in what
    ):  # scripts break off in their middle: named, not lost
        left -= {problem.subject for problem in q.check() if problem.kind == "in 0 states"}
    assert not left, (what, q.check())
    assert isinstance(q.check(), list)
    q.stats()
