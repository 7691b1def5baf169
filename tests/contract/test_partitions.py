"""A queue of several partitions is one queue: nothing lost, nothing twice, order as promised."""

import asyncio
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.waiting import wait_for_idle
from redis import Redis
from redis import asyncio as aio
from support import wait_for
from typer.testing import CliRunner

from dpq import (
    DPQ,
    AsyncDPQ,
    AsyncWorker,
    ConfigurationError,
    DuplicateTaskError,
    LeaseLostError,
    Push,
    Scheduler,
    Task,
    TaskNotFoundError,
    TaskState,
    Worker,
)
from dpq.cli import app
from dpq.model.errors import LimitChangedError
from dpq.model.limit_rules import LimitRules
from dpq.protocol.keys import key_of
from dpq.protocol.placement import home_of, partition_of, tags_of
from dpq.registry.all_queues import known_queues
from dpq.testing import Clock, QueueFactory, assert_conserved
from dpq.transport import watches
from dpq.views import limit_change

engines = pytest.mark.fakeredis
PATIENCE = 120.0
LONG = 150.0
SOON = 0.05

Make = Callable[..., DPQ[Any]]


@pytest.fixture
def make(redis: Redis, queue_name: str, clock: Clock) -> Iterator[Make]:
    """Makes queues of this test, of four partitions unless it says otherwise."""
    with QueueFactory(redis, clock) as factory:
        yield lambda name="", partitions=4, **more: factory(
            queue_name + name, partitions=partitions, **more
        )


def drain(q: DPQ[Any], at_once: int = 1) -> list[Any]:
    """Take and ack all that is ready: the payloads as they came."""
    payloads = []
    while tasks := q.pop_many(at_once):
        payloads += [task.payload for task in tasks]
        q.ack_many(tasks)
    return payloads


def taken(q: DPQ[Any]) -> Task[Any]:
    task = q.pop().task
    assert task is not None
    return task


def places(q: DPQ[Any]) -> Counter[int]:
    """How many live tasks each partition has."""
    ids = [task.id for state in TaskState for task in q.peek(10_000, state)]
    return Counter(partition_of(id_, q.partitions) for id_ in ids)


def named_for(q: DPQ[Any] | AsyncDPQ[Any], place: int, number: int = 0) -> str:
    """A name whose group, or whose key without one, is at home in a partition."""
    names = (f"n{n}" for n in itertools.count() if home_of(f"n{n}", None, q.partitions) == place)
    return next(itertools.islice(names, number, None))


# Where tasks go


@engines
def test_pushes_are_spread_evenly(make: Make) -> None:
    """What has neither group nor key goes to the partitions in turn, one by one or together."""
    q = make()
    for number in range(20):
        q.push(number)
    q.push_many(Push(number) for number in range(100))
    assert set(places(q).values()) == {30}
    assert (len(q), q.stats().pushed) == (120, 120)


@engines
def test_a_group_stays_in_one_partition(make: Make) -> None:
    """A group has one home, whoever pushes and however; its tasks run in their order."""
    q, other = make(), make()
    ids = [(q, other)[n % 2].push(n, group="g", key=f"k{n}") for n in range(6)]
    ids += q.push_many([Push(n, group="g") for n in range(6, 9)])
    assert len({partition_of(id_, 4) for id_ in ids}) == 1
    assert drain(q) == list(range(9))


def test_push_many_answers_in_the_order_given(make: Make) -> None:
    """The ids come back as the pushes were given, over all round trips."""
    q = make(partitions=3)
    ids = q.push_many(Push(n, group=f"g{n % 7}" if n % 3 else None) for n in range(2000))
    assert [q.get(ids[n]).payload for n in (0, 1, 2, 999, 1999)] == [0, 1, 2, 999, 1999]
    assert len(set(ids)) == len(q) == 2000


@pytest.mark.parametrize("partitions", [1, 4])
def test_costs_that_are_not_one_for_each_task(make: Make, partitions: int) -> None:
    """They are refused, also an empty list, and no task is acked."""
    q = make(partitions=partitions)
    q.push_many(Push(n) for n in range(2))
    tasks = q.pop_many(2)
    for costs in ([], [1], [1, 2, 3]):
        with pytest.raises(ConfigurationError, match=f"costs has {len(costs)} entries for 2"):
            q.ack_many(tasks, costs)
    assert q.ack_many(tasks, [None, 2]) == [True, True]


@engines
def test_a_key_is_unique_where_its_group_is(make: Make) -> None:
    """A key is unique without a group, and in each; where two share a partition, it is taken."""
    q = make()
    first = q.push("a", key="k")
    assert q.push("b", key="k") == first
    with pytest.raises(DuplicateTaskError):
        q.push("b", key="k", on_duplicate="error")
    home = partition_of(first, 4)
    for place in range(4):
        group = named_for(q, place)
        if place == home:
            with pytest.raises(ConfigurationError, match="another group"):
                q.push("c", key="k", group=group)
        else:
            assert q.push("c", key="k", group=group) == q.push("d", key="k", group=group)
    assert len(q) == 4
    q.update(key="k", priority=7)
    assert {task.priority for task in q.peek(100)} == {7}
    q.cancel(key="k")
    assert len(q) == 0
    with pytest.raises(TaskNotFoundError):
        q.cancel(key="k")


@engines
def test_pages_of_peek_follow_each_other(make: Make) -> None:
    """`after` goes on behind the last one in the order of all partitions, and none comes twice."""
    q = make()
    q.push_many(Push(n, priority=n % 7) for n in range(40))
    in_order = [task.id for task in q.peek(100)]
    seen: list[str] = []
    while page := q.peek(9, after=seen[-1] if seen else None):
        seen += [task.id for task in page]
        assert len(seen) <= 40
    assert seen == in_order
    gone = in_order[5]
    q.cancel(gone)
    with pytest.raises(TaskNotFoundError, match="cannot peek after task"):
        q.peek(5, after=gone)


@engines
def test_what_an_update_of_a_key_has_done_is_said(make: Make) -> None:
    """Where one task of a key cannot be changed and others were, the error says both."""
    q = make()
    for place in range(3):
        q.push(place, key="k", group=named_for(q, place))
    q.pop()
    with pytest.raises(ConfigurationError, match=r"running.*; 2 others of this key"):
        q.update(key="k", delay=60)
    assert q.stats().delayed == 2


# The order


TASKS = st.lists(
    st.tuples(
        st.integers(-3, 3),  # priority
        st.sampled_from([0, 0, 0, 1, 2]),  # delay
        st.sampled_from([None, None, "a", "b"]),  # group
        st.integers(0, 2),  # pops after it
    ),
    max_size=40,
)


@pytest.mark.parametrize("order", ["fifo", "lifo"])
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tasks=TASKS)
def test_who_asks_all_gets_the_best(make: Make, clock: Clock, order: str, tasks: Any) -> None:
    """With `ask` of all partitions one consumer gets the very order of a queue of one."""
    number = next(NUMBERS)
    q = make(f"-{number}", 3, ask=3, order=order)
    one = make(f"-{number}-one", 1, order=order)
    for payload, (priority, delay, group, pops) in enumerate(tasks):
        clock.advance(0.001)  # equals go by the time of their push
        for queue in (q, one):
            queue.push(payload, priority, delay, group=group)
        for _ in range(pops):
            clock.advance(0.3)
            assert popped(q) == popped(one)
    clock.advance(5)
    assert drain(q) == drain(one)
    assert q.check() == []
    q.drop()
    one.drop()


NUMBERS = itertools.count()


def popped(q: DPQ[Any]) -> Any:
    """One delivery, given back on each third."""
    task = q.pop().task
    if task is None:
        return None
    if task.payload % 3 == 0 and task.deliveries == 1:
        q.release(task, 0.5)
    else:
        q.ack(task)
    return task.payload


@pytest.mark.parametrize("at_once", [1, 7, 60])
@pytest.mark.parametrize("ask", [1, 2, 3, 5])
def test_all_come_and_none_twice(make: Make, ask: int, at_once: int) -> None:
    """However many are asked, everything that is ready comes before a pop says "nothing"."""
    q = make(partitions=5, ask=ask)
    ids = q.push_many(Push(n, n % 9, group=f"g{n % 5}" if n % 4 == 0 else None) for n in range(150))
    done = []
    while tasks := q.pop_many(at_once):
        assert len(tasks) <= at_once
        done += [task.id for task in tasks]
        assert all(q.ack_many(tasks))
    assert_conserved(q, ids, done)
    assert len(done) == 150


@pytest.mark.parametrize("at_once", [3, 20])
def test_batches_are_exact_when_one_partition_has_the_best(make: Make, at_once: int) -> None:
    """However many of a batch come from one partition, nothing worse comes before them."""
    q = make(ask=4)
    q.push_many(Push(n, n, key=named_for(q, 0 if n >= 60 else n % 4, n)) for n in range(120))
    assert drain(q, at_once) == sorted(range(120), reverse=True)


@pytest.mark.parametrize(("partitions", "ask", "consumers"), [(8, 2, 1), (8, 5, 1), (6, 2, 3)])
def test_nothing_starves(make: Make, partitions: int, ask: int, consumers: int) -> None:
    """Of so many pops of a consumer, one does not bring what is worse than a ready task."""
    fate = random.Random(5)
    qs = [make(partitions=partitions, ask=ask) for _ in range(consumers)]
    passed: dict[str, list[int]] = {}
    priority: dict[str, int] = {}
    worst = 0
    for step in range(900):
        if step < 600 and fate.random() < 0.6:
            value = fate.randrange(1_000_000)
            id_ = qs[0].push(value, value)
            passed[id_], priority[id_] = [0] * consumers, value
        for number, q in enumerate(qs) if step % 3 or step > 600 else ():
            task = q.pop().task
            if task is None:
                continue
            q.ack(task)
            del passed[task.id]
            for id_, times in passed.items():
                times[number] = times[number] + 1 if priority[id_] > task.priority else 0
                worst = max(worst, times[number])
    assert worst < math.ceil(partitions / (ask // 2))
    assert not passed


def test_a_partition_that_was_empty_is_looked_at(make: Make) -> None:
    """A better task comes in time, too, where a client with a long backlog has seen nothing yet."""
    q = make(partitions=8, ask=2)
    q.push_many(Push(n, key=named_for(q, n % 7, n // 7)) for n in range(140))
    assert len({q.pop().task.id for _ in range(20)}) == 20
    best = q.push("best", 1, key=named_for(q, 7))
    assert best in {q.pop().task.id for _ in range(8)}


def test_a_batch_has_its_bytes(make: Make) -> None:
    """However many partitions are asked, a batch has 4 MiB, and at most one task of each more."""
    q = make(ask=4)
    q.push_many(Push("x" * 900_000) for _ in range(16))
    assert sum(len(task.payload) for task in q.pop_many(16)) < 4 * 1024 * 1024 + 4 * 900_000


def test_what_cannot_be_read_hides_nothing(make: Make) -> None:
    """A payload beyond its partition's share of bytes is buried, and what is behind it comes."""
    q, reader = make(partitions=2), make(partitions=2, ask=2, payload_type=int)
    q.push("x" * 900_000, 9, key=named_for(q, 0))
    q.push(7, 0, key=named_for(q, 0, 1))
    q.push_many(Push(n, 5, key=named_for(q, 1, n)) for n in range(7))
    assert {task.payload for task in reader.pop_many(8)} == set(range(8))
    assert len(q.dead.list()) == 1


def test_groups_take_turns(make: Make) -> None:
    """With round robin the groups of all partitions take turns, by the time they were served."""
    q = make("", 4, clock=None, ask=4, fairness="round_robin")
    groups = "abcdefgh"
    for _ in range(4):
        q.push_many(Push(group, group=group) for group in groups)
    served = "".join(drain(q))
    assert [sorted(served[n : n + 8]) for n in range(0, 32, 8)] == [list(groups)] * 4


# Limits


def test_the_limit_of_a_group_is_exact(make: Make, clock: Clock) -> None:
    """No window of a group's limit grants more than it may, nor much less."""
    q = make(ask=2)
    q.set_limit(3, 1, burst=2, group="*")
    q.set_limit(1, 1, group="slow")
    q.push_many(Push(n, group=("a", "b", "slow")[n % 3]) for n in range(60))
    granted: list[tuple[int, str]] = []
    for _ in range(50):
        granted += [(clock.ms, str(task.group)) for task in q.pop_many(20)]
        clock.advance(0.1)
    for group, most in (("a", 4), ("b", 4), ("slow", 1)):
        moments = [at for at, of in granted if of == group]
        assert max(sum(at <= m < at + 1000 for m in moments) for at in moments) <= most
        assert len(moments) >= 5 * (1 if group == "slow" else 3) - 1
    assert {state.group for state in q.limits()} == {None, "*", "slow"}
    assert q.limits()[0].in_flight == len(granted)
    q.clear_limit("*")
    assert q.group("a").windows == ()


@engines
def test_a_limit_of_the_queue_is_refused(make: Make) -> None:
    """Parts of a limit could not keep its promise; the error says what can."""
    q = make()
    for limit in ({"rate": 10, "per": 1}, {"concurrency": 100}):
        with pytest.raises(ConfigurationError, match=r"4 partitions.*limit one group"):
            q.set_limit(**limit)
    with pytest.raises(ConfigurationError, match="rate"):
        q.set_limit(-1, 1)


@pytest.mark.parametrize("group", [None, "g"])
def test_a_429_of_the_queue_closes_all_partitions(make: Make, clock: Clock, group: Any) -> None:
    """With the scope `queue`, or without a group, nobody gets anything until it is over."""
    q = make(ask=4)
    q.push_many(Push(n) for n in range(20))
    q.push("first", 9, group=group)
    task = next(task for task in q.pop_many(21) if task.payload == "first")
    q.push_many(Push(n) for n in range(20))
    q.rate_limited(task, 5, "queue" if group else "group")
    assert q.pop().task is None
    assert q.limits()[0].reason == "rate limited"
    clock.advance(4.999)
    assert q.pop().task is None
    clock.advance(0.001)
    q.ack(taken(q))  # of each partition the first is a probe
    with pytest.raises(LeaseLostError):
        q.rate_limited(task, 5)
    q.resume()
    assert len(q.pop_many(100)) == 20


# Settings


@engines
def test_who_names_no_number_follows(make: Make, redis: Redis, clock: Clock) -> None:
    """Partitions belong to the queue: others follow, without a call more, or contradict."""
    q = make(order="lifo", aging=None)
    follower: DPQ[Any] = DPQ(redis, q.queue_name, clock=clock)
    assert follower.partitions == 1
    follower.push_many(Push(n) for n in range(8))
    assert (follower.partitions, follower.order, len(places(follower))) == (4, "lifo", 4)
    assert sorted(drain(follower)) == list(range(8))
    for wrong in (1, 5):
        with pytest.raises(ConfigurationError, match=f"partitions is {wrong}, .* has partitions 4"):
            DPQ(redis, q.queue_name, partitions=wrong)
    make(dead_max_tasks=5)
    for tag in tags_of(q.queue_name, 4):
        names = ("partition_count", "order", "dead_max_tasks")
        assert redis.hmget(key_of(tag, "conf"), *names) == [b"4", b"lifo", b"5"]
    follower.close()


@engines
def test_a_queue_that_is_there_cannot_be_divided(make: Make, redis: Redis) -> None:
    """Neither one with tasks nor one that only has settings; once it was dropped, it can."""
    one = make("", None)
    one.push("x")
    limited = make("-limited", None)
    limited.set_limit(1, 1, group="g")
    for queue in (one, limited):
        with pytest.raises(ConfigurationError, match=r"partitions is 4, .* has partitions 1.*drop"):
            DPQ(redis, queue.queue_name, partitions=4)
        queue.drop()
        assert DPQ(redis, queue.queue_name, partitions=4).partitions == 4
    one.push_many(Push(n) for n in range(8))
    assert (one.partitions, len(places(one))) == (4, 4)
    one.drop()
    assert not [key for key in redis.keys(f"dpq:{{{one.queue_name}*") if b"-limited" not in key]
    one.push("x")
    assert one.partitions == 1


def vanish(redis: Redis, q: DPQ[Any], what: str) -> None:
    """Take away all of a queue, or only its first partition, as a lost server does."""
    tags = tags_of(q.queue_name, q.partitions)
    for tag in tags if what == "all" else tags[:1]:
        if keys := redis.keys(f"dpq:{{{tag}}}:*"):
            redis.delete(*keys)


@engines
@pytest.mark.parametrize("what", ["drop", "all", "first"])
def test_who_follows_makes_it_as_it_was(make: Make, redis: Redis, what: str) -> None:
    """A client that follows, and goes on when the queue is gone, divides it as before."""
    q = make()
    ids = q.push_many(Push(n) for n in range(4))
    follower: DPQ[Any] = DPQ(redis, q.queue_name)
    assert len(follower) == 4
    if what == "drop":
        q.drop()
    else:
        vanish(redis, q, what)
    ids = [id_ for id_ in ids if partition_of(id_, 4)] if what == "first" else []
    ids += [follower.push(n) for n in range(8)]
    for late in (DPQ(redis, q.queue_name), DPQ(redis, q.queue_name, partitions=4)):
        assert {task.id for task in late.peek(20)} == set(ids)
        assert late.partitions == 4
        late.close()
    follower.close()


@pytest.mark.parametrize("what", ["all", "first"])
def test_what_writes_settings_makes_it_as_it_was(make: Make, redis: Redis, what: str) -> None:
    """Whatever comes first when the queue is gone, no push is refused and everybody finds all."""
    calls: list[Callable[[DPQ[Any]], Any]] = [
        lambda q: q.pause(60),
        lambda q: q.set_limit(5, 1, group="*"),
        lambda q: q.set_limit(5, 1, group=named_for(q, 0)),
        lambda q: q.clear_limit("*"),
        lambda q: q.delay_group(named_for(q, 0), 60),
        lambda q: q.delay_group(named_for(q, 3), 60),
        lambda q: q.rate_limited(next(t for t in held if partition_of(t.id, 4) == 3), 60, "queue"),
    ]
    for call in calls[: 6 if what == "all" else 7]:  # a lease is gone with its partition
        q = make()
        q.push_many(Push(n) for n in range(4))
        held = q.pop_many(4, visibility=600)
        vanish(redis, q, what)
        call(q)
        q.push_many(Push(n) for n in range(8))
        with DPQ[Any](redis, q.queue_name) as late:
            assert late.stats().pushed == q.stats().pushed
            assert (late.check(), late.partitions) == ([], 4)
        q.drop()


@engines
def test_a_partition_gets_its_settings_back(make: Make, redis: Redis) -> None:
    """One that has lost them, and has been popped from since, goes on with those of the first."""
    q = make()
    q.push_many(Push(n) for n in range(4))
    for tag in tags_of(q.queue_name, 4)[1:]:
        redis.delete(key_of(tag, "conf"))
    assert len(q.pop_many(4)) == 4
    q.push_many(Push(n) for n in range(4))
    DPQ(redis, q.queue_name, partitions=4).push("x")
    assert (len(q.pop_many(9)), q.check()) == (5, [])


@engines
@pytest.mark.parametrize(("before", "now"), [(4, 6), (4, 1), (1, 4)])
def test_a_forgotten_client_is_refused(make: Make, redis: Redis, before: int, now: int) -> None:
    """One that had the queue open before it was made anew changes nothing, and is told why."""
    make(partitions=before).push("x")
    old: DPQ[Any] = DPQ(redis, make(partitions=before).queue_name)
    assert len(old) == 1
    scheduler = Scheduler(redis, [old.queue_name])
    scheduler.run_once()
    DPQ(redis, old.queue_name).drop()
    q = make(partitions=now, clock=None)
    ids = q.push_many(Push(n, delay=SOON) for n in range(12))
    told = f"partitions is {before}, .* has partitions {now}: .*restarted"
    for call in [lambda: old.push("y")] * 6 + [old.pop, old.promote, lambda: old.pop(timeout=LONG)]:
        with pytest.raises(ConfigurationError, match=told):
            call()
    assert q.stats().pushed == len(q) == 12
    wait_for(lambda: scheduler.run_once() < 0 or q.stats().ready == 12, q.stats)  # it looks anew
    assert {task.id for task in q.pop_many(12)} == set(ids)
    old.close()


@engines
def test_a_queue_without_its_settings_is_dropped_whole(make: Make, redis: Redis) -> None:
    """Who knows how many partitions there are removes all of them, whatever is stored."""
    q = make()
    q.push_many(Push(n) for n in range(4))
    vanish(redis, q, "first")
    q.drop()
    assert redis.keys(f"dpq:{{{q.queue_name}*") == []


@engines
def test_a_drop_that_would_leave_partitions_is_refused(make: Make, redis: Redis) -> None:
    """A new client, and a stored number that cannot be read: nothing is removed, and it is said."""
    q = make()
    q.push_many(Push(n) for n in range(4))
    for junk in ("", "0", "x", "4 "):
        redis.hset(key_of(q.queue_name, "conf"), "partition_count", junk)
        with pytest.raises(ConfigurationError, match=f"partition_count is stored as '{junk}'"):
            DPQ(redis, q.queue_name).drop()
    assert len(q) == 4
    q.drop()
    assert redis.keys(f"dpq:{{{q.queue_name}*") == []


def test_who_came_before_the_queue_follows(make: Make, redis: Redis, queue_name: str) -> None:
    """A consumer that waited before the queue was made gets what any partition has."""
    early: DPQ[Any] = DPQ(redis, queue_name)
    assert early.pop().task is None
    assert early.peek() == []
    q = make("", 4, clock=None)
    ids = q.push_many(Push(n) for n in range(8))
    assert sorted(task.id for task in early.pop_many(10)) == sorted(ids)
    early.close()


def test_a_waiting_pop_follows(
    make: Make, redis: Redis, queue_name: str, background: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits already when the queue is made finds its partitions at its next look."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 0.2)
    early: DPQ[Any] = DPQ(redis, queue_name)
    got = background(early.pop, timeout=LONG)
    q = make("", 4, clock=None)
    id_ = q.push("x", group=named_for(q, 3))
    assert got.result(PATIENCE).task.id == id_
    early.close()


# Waiting


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("transport.watches", "scheduler.upkeep"):
        monkeypatch.setattr(f"dpq.{module}.RECHECK_SECONDS", 60.0)


@pytest.mark.parametrize("ask", [1, 2, 4])
def test_a_push_anywhere_wakes(
    make: Make, redis: Redis, background: Any, trusting: None, ask: int
) -> None:
    """A waiting pop is woken by a push, a due task and the end of a lease in any partition."""
    q, pusher = make("", 4, clock=None, ask=ask), make("", 4, clock=None)
    for options in [{}] * 4 + [{"delay": SOON}] * 4:
        got = background(q.pop, timeout=LONG, visibility=600)
        wait_for_idle(redis, 1)
        id_ = pusher.push("x", **options)
        task = got.result(PATIENCE).task
        assert task.id == id_
        q.ack(task)
    pusher.push_many(Push(n) for n in range(4))
    assert len(pusher.pop_many(4, visibility=SOON)) == 4
    assert len({q.pop(timeout=LONG).task.id for _ in range(4)}) == 4


def test_as_many_wake_as_are_pushed(
    make: Make, redis: Redis, background: Any, trusting: None
) -> None:
    """Every waiter gets one of the tasks; markers and moments that are left are handed on."""
    q, pusher = make("", 4, clock=None), make("", 4, clock=None)
    got = [background(q.pop, timeout=LONG, visibility=600) for _ in range(5)]
    wait_for_idle(redis, 5)
    ids = pusher.push_many([*(Push(n) for n in range(3)), Push(3, delay=SOON), Push(4, delay=SOON)])
    assert sorted(future.result(PATIENCE).task.id for future in got) == sorted(ids)


def test_one_that_gives_up_hands_on(
    make: Make, redis: Redis, background: Any, trusting: None
) -> None:
    """The moments that a waiter has watched are watched by another one when it goes."""
    q = make("", 4, clock=None)
    ids = q.push_many(Push(n, delay=0.5) for n in range(4))
    assert q.pop(timeout=SOON).task is None
    got = [background(q.pop, timeout=LONG, visibility=600) for _ in range(4)]
    assert sorted(future.result(PATIENCE).task.id for future in got) == sorted(ids)


@engines
def test_the_patience_of_a_wait(make: Make) -> None:
    """A wait that nothing ends is over in time, on doubles too."""
    q = make("", 3, clock=None)
    assert q.pop(timeout=SOON).task is None
    q.push("x")
    assert q.pop(timeout=LONG).task.payload == "x"


# Everything else over all partitions


@engines
def test_looking(make: Make, clock: Clock) -> None:
    """Counts are sums; each state is listed in its order; tasks are found by their ids."""
    q = make(ask=4)
    ids = [q.push(n, n % 10, delay=n if n >= 30 else 0) for n in range(40)]
    assert [task.payload for task in q.peek(40, "delayed")] == list(range(30, 40))
    assert [task.priority for task in q.peek(25)] == [9 - n // 3 for n in range(25)]
    assert [task.payload for task in q.pop_many(3)] == [9, 19, 29]
    stats = q.stats()
    assert (stats.ready, stats.delayed, stats.invisible, stats.popped) == (27, 10, 3, 3)
    assert q.next_event() == 30
    assert q.get(ids[35]).payload == 35
    assert "delayed: due in 35.0 s (in partition" in q.why(ids[35])
    q.update(ids[35], priority=99, delay=0)
    assert q.pop().task.id == ids[35]
    q.cancel(ids[36])
    clock.advance(30)
    assert q.promote() == 5  # what was popped comes back, and one that was due
    assert q.check() == q.repair() == []
    assert q.purge("delayed") == 7
    assert q.purge() > 20
    assert len(q) == 0


@engines
def test_check_and_repair_look_everywhere(make: Make, redis: Redis) -> None:
    """What is broken in any partition is found and mended, and no task is lost by it."""
    q = make(ask=4)
    ids = q.push_many(Push(n) for n in range(8))
    for tag in tags_of(q.queue_name, 4):
        redis.zremrangebyrank(key_of(tag, "ready"), 0, 0)
    broken = {problem.subject for problem in q.check()}
    assert sorted(partition_of(id_, 4) for id_ in broken) == [0, 1, 2, 3]
    assert {problem.subject for problem in q.repair()} == broken
    assert q.check() == []
    assert {task.id for task in q.pop_many(8)} == set(ids)


@engines
def test_dead_letters(make: Make, clock: Clock) -> None:
    """All of them are listed, the longest dead first, replayed at one rate, and purged."""
    q = make()
    q.push_many(Push(n) for n in range(12))
    for task in q.pop_many(12):
        clock.advance(1)
        q.bury(task, "even" if task.payload % 2 == 0 else "odd")
    dead = q.dead.list()
    assert [letter.died_at for letter in dead] == sorted(letter.died_at for letter in dead)
    assert [letter.id for letter in q.dead.list(5)] == [letter.id for letter in dead[:5]]
    assert q.dead.purge(reason="odd") == 6
    assert q.dead.replay(rate=2) == 6
    for _ in range(6):  # one each 0.5 s, the first at once, wherever they are
        assert len(q.pop_many(10, visibility=600)) == 1
        clock.advance(0.5)
    assert q.dead.replay("no such id") == 0


# Workers and daemons


@pytest.mark.many_calls
@engines
@pytest.mark.parametrize("ask", [1, 2])
def test_a_worker_drains_all_partitions(make: Make, ask: int) -> None:
    """Threads work off every partition of one queue, beside another queue of one partition."""
    q, other = make("", 4, clock=None, ask=ask), make("-2", 1, clock=None)
    seen: list[Any] = []
    ids = q.push_many(Push(n, delay=SOON if n % 7 == 0 else 0, group=f"{n % 3}") for n in range(40))
    other.push_many(Push(n) for n in range(40, 50))
    done = Worker([q, other], lambda task: seen.append(task.payload), concurrency=3).drain()
    assert (done, sorted(seen)) == (50, list(range(50)))
    assert_conserved(q, ids, ids)


def test_a_worker_that_came_first(
    redis: Redis, make: Make, queue_name: str, background: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was there before the queue works off all of its partitions."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 0.2)
    early: DPQ[Any] = DPQ(redis, queue_name)
    seen: list[Any] = []
    worker = Worker(early, lambda task: seen.append(task.payload))
    running = background(worker.run, signals=False)
    wait_for_idle(redis, 1)
    make("", 4, clock=None).push_many(Push(n) for n in range(8))
    wait_for(lambda: sorted(seen) == list(range(8)), lambda: seen)
    assert len(early.workers()) == 1
    worker.stop()
    running.result(PATIENCE)
    early.close()


def test_a_daemon_looks_after_all_partitions(redis: Redis, make: Make, background: Any) -> None:
    """A scheduler that knows one name promotes in every partition, at the moment."""
    q = make("", 4, clock=None)
    scheduler = Scheduler(redis)
    running = background(scheduler.run)
    q.push_many(Push(n, delay=SOON) for n in range(12))
    wait_for(lambda: q.stats().ready == 12, q.stats)
    assert known_queues(redis) == [q.queue_name]
    scheduler.stop()
    running.result(PATIENCE)


@engines
def test_asyncio(redis: Redis, queue_name: str, server: Any, trusting: None) -> None:
    """The asyncio face and its worker do the same: follow, wait, take and finish."""
    client: Any = aio.Redis.from_url(server.url) if server else fake_asyncio(redis)

    async def work() -> list[Any]:
        seen: list[Any] = []
        q: AsyncDPQ[Any] = AsyncDPQ(client, queue_name, partitions=4, ask=3)
        async with q, AsyncDPQ(client, queue_name) as other:
            await q.stats()  # an asyncio constructor writes nothing yet
            await other.push_many([Push(n, n) for n in range(20)])
            assert other.partitions == 4
            waiting = asyncio.create_task(q.pop_many(40, timeout=LONG))
            first = await waiting
            seen += [task.payload for task in first]
            await q.ack_many(first)
            for place in range(8):  # in each partition, now and by time
                late = asyncio.create_task(q.pop(timeout=LONG))
                if server:
                    await asyncio.to_thread(wait_for_idle, redis)
                group = named_for(other, place % 4)
                await other.push("late", delay=SOON * (place // 4), group=group)
                popped = await late
                await popped.on_success()
            await other.push_many([Push(n) for n in range(20, 30)])

            async def handle(task: Task[Any]) -> None:
                seen.append(task.payload)

            assert await AsyncWorker(q, handle, concurrency=4).drain() == 10
            assert await q.check() == []
            await q.drop()
        await client.aclose()
        return seen

    assert sorted(asyncio.run(asyncio.wait_for(work(), PATIENCE))) == list(range(30))


def fake_asyncio(redis: Any) -> Any:
    import fakeredis

    return fakeredis.FakeAsyncRedis(server=redis.connection_pool.connection_kwargs["server"])


def test_cli(make: Make, server: Any) -> None:
    """The commands show one queue, and reach all of it."""
    q = make("", 4, clock=None)
    q.push_many(Push(n, n) for n in range(8))
    url = ["--url", server.url, "--queue", q.queue_name]

    def said(*words: str) -> str:
        result = CliRunner().invoke(app, [*url, *words])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert '"ready":8' in said("stats", "--json").replace(" ", "")
    assert said("queues", "--json").count("\n") == 1
    assert len(said("peek", "-n", "20", "--json").splitlines()) == 8
    said("check")
    told = CliRunner().invoke(app, [*url, "doctor", "--json"]).stdout.splitlines()
    assert {json.loads(line)["kind"] for line in told} <= {
        "eviction",
        "no persistence",
        "no consumer",
    }
    said("push", "9", "--priority", "99")
    assert q.pop().task.payload in range(10)
    said("purge", "--yes")
    assert len(q) == 0
    q.drop()
    said("push", "1", "--partitions", "3")
    follower: DPQ[Any] = DPQ(q.redis, q.queue_name)
    assert (len(follower), follower.partitions) == (1, 3)
    follower.close()


def test_a_limit_that_was_seen_is_changed_everywhere_or_nowhere(make: Make) -> None:
    """The first partition compares, so all follow or none; one event has what stood before."""
    q = make(partitions=3)
    q.set_limit(10, 1, group="*")
    rules = LimitRules.checked(5, 1, group="*")

    def stands() -> set[str]:
        parts = q._operations.partitions
        return {q._session.run(part.standing, "*")[0] for part in parts}

    with pytest.raises(LimitChangedError, match="now it is 10/s"):
        limit_change.make(q, "*", rules, "ada", "")
    assert stands() == {"0|10 1000 1"}
    limit_change.make(q, "*", rules, "ada", "0|10 1000 1")
    assert stands() == {"0|5 1000 1"}
    assert [event.before for event in q.events()] == ["", "0|10 1000 1"]
    [last, _] = limit_change.changes_of(q.events(), "*")
    limit_change.make(q, "*", limit_change.rules_before(last), "ada", "0|5 1000 1")
    assert stands() == {"0|10 1000 1"}
    q.push_many([Push(n, group=f"g{n % 9}") for n in range(90)])
    seen = limit_change.look_at(q, "*", None)
    assert "90 due tasks: all begun in 900 ms" in seen.was.drain
    assert (
        "10 due tasks: all begun in 4 s"
        in limit_change.look_at(q, "g1", LimitRules.checked(2, 1, group="g1")).will_be.drain
    )
