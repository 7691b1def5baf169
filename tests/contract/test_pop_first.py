"""pop_first: the first queue of a list that has a task, and one wait for all of them."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kit.waiting import LONG, PATIENCE, blocked, wait_for_waiters, wait_until
from redis import Redis
from support import address_of

from dpq import DPQ, AsyncDPQ, ConfigurationError, pop_first, pop_first_async
from dpq.transport import watches

engines = pytest.mark.fakeredis


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a wake-up, or the waiter's own timer, brings a task in a test's time."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 60.0)


@pytest.fixture
def three(redis: Redis, queue_name: str) -> Iterator[list[DPQ[Any]]]:
    queues: list[DPQ[Any]] = [DPQ(redis, f"{queue_name}-{n}") for n in range(3)]
    yield queues
    for queue in queues:
        queue.drop()
        queue.close()


@engines
def test_the_list_decides(three: list[DPQ[Any]]) -> None:
    """A task of the first queue comes before a better one of the second; then there is none."""
    a, b, c = three
    c.push("c", priority=9)
    b.push("b", priority=5)
    a.push("a")
    found = []
    for _ in range(4):
        queue, task = pop_first(three)
        found.append(task and (three.index(queue), task.payload))
        if task:
            queue.ack(task)
    assert found == [(0, "a"), (1, "b"), (2, "c"), None]
    assert sum(map(len, three)) == 0


@engines
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("delay", [0, 0.3])
def test_any_queue_wakes(
    three: list[DPQ[Any]], redis: Redis, background: Any, number: int, delay: float
) -> None:
    """A push to any of the queues wakes the waiter, at the moment when the task is due."""
    popped = background(pop_first, three, timeout=LONG)
    wait_for_waiters(redis, 1)  # one connection for all of them
    three[number].push("x", delay=delay)
    queue, task = popped.result(PATIENCE)
    assert (queue, task.payload) == (three[number], "x")
    assert queue.ack(task)


def test_two_waiters_get_one_each(three: list[DPQ[Any]], redis: Redis, background: Any) -> None:
    """A call leases one task; the wake-up of another queue goes to the waiter that is left."""
    both = [background(pop_first, three, timeout=LONG) for _ in range(2)]
    wait_for_waiters(redis, 2)
    three[0].push("a")
    three[2].push("c")
    assert sorted(each.result(PATIENCE)[1].payload for each in both) == ["a", "c"]
    assert [queue.stats().invisible for queue in three] == [1, 0, 1]
    assert [queue.stats().popped for queue in three] == [1, 0, 1]


def test_a_watched_moment_is_passed_on(
    three: list[DPQ[Any]], redis: Redis, background: Any
) -> None:
    """A call that stops waiting hands its watch of a delayed task to another waiter."""
    three[0].push("later", delay=1)
    first = background(pop_first, three, timeout=LONG)
    wait_for_waiters(redis, 1)
    second = background(pop_first, three[:1], timeout=LONG)
    wait_for_waiters(redis, 2)
    three[1].push("now")
    assert first.result(PATIENCE)[1].payload == "now"
    assert second.result(PATIENCE)[1].payload == "later"


def test_a_dead_waiter_costs_no_lease(three: list[DPQ[Any]], redis: Redis, background: Any) -> None:
    """If the connection of a waiter is cut, no task is leased; the wake-up is not lost for long."""
    popped = background(pop_first, three, timeout=LONG)
    wait_for_waiters(redis, 1)
    [client] = blocked(redis)
    redis.client_kill_filter(_id=client["id"])
    three[1].push("x")
    assert popped.result(PATIENCE)[1].payload == "x"
    assert three[1].stats().popped == 1


@engines
def test_timeouts(three: list[DPQ[Any]]) -> None:
    """Without a task a call ends in time; it does not create the queues."""
    assert pop_first(three) == (None, None)
    assert pop_first(three, timeout=0.05) == (None, None)
    assert pop_first(iter(three), 0.05, visibility=7) == (None, None)


def test_arguments(three: list[DPQ[Any]], redis: Redis) -> None:
    """Wrong arguments are refused, and the error says the way out."""
    for wrong in ([], 7, ["q"], [three[0], None]):
        with pytest.raises(ConfigurationError, match="at least one DPQ"):
            pop_first(wrong)  # type: ignore[arg-type]
    other = Redis(**address_of(redis))
    with (
        DPQ(other, "another") as stranger,
        pytest.raises(ConfigurationError, match="give all of them one"),
    ):
        pop_first([three[0], stranger])
    other.close()
    with pytest.raises(ConfigurationError, match="timeout is -1"):
        pop_first(three, timeout=-1)


def test_a_validator_that_raises_is_heard(redis: Redis, queue_name: str) -> None:
    """An error of a validator reaches the caller, as from pop."""
    from typing import Annotated

    from pydantic import AfterValidator

    def explode(_: int) -> int:
        raise RuntimeError("no")

    with DPQ(redis, queue_name) as plain, DPQ(redis, queue_name + "-2") as empty:
        plain.push(1)
        strict = DPQ(
            redis,
            queue_name,
            payload_type=Annotated[int, AfterValidator(explode)],
            default_visibility=9,
        )
        with pytest.raises(RuntimeError, match="no"):
            pop_first([empty, strict], timeout=1)
        plain.drop()
        strict.close()


async def test_over_asyncio(opened: Callable[..., AsyncDPQ[Any]], redis: Redis) -> None:
    """The asyncio call waits without blocking the loop, and takes from the first of the list."""
    a, b = opened("-a"), opened("-b")
    assert await pop_first_async([a, b]) == (None, None)
    waiting = asyncio.create_task(pop_first_async([a, b], timeout=LONG))
    await asyncio.to_thread(wait_for_waiters, redis, 1)
    await b.push("x")
    queue, task = await waiting
    assert queue is b
    assert task is not None
    assert task.payload == "x"
    await b.ack(task)
    await a.drop()
    await b.drop()


async def test_a_cancelled_call_gives_back(
    opened: Callable[..., AsyncDPQ[Any]], redis: Redis
) -> None:
    """A call that is cancelled while it waits leaves no lease, and no waiter."""
    a, b = opened("-a"), opened("-b")
    waiting = asyncio.create_task(pop_first_async([a, b], timeout=LONG))
    await asyncio.to_thread(wait_for_waiters, redis, 1)
    waiting.cancel()
    await b.push("x")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(
        wait_until, "the task is ready", lambda: redis.exists(f"dpq:{{{b.queue_name}}}:ready")
    )
    assert (await b.stats()).invisible == 0
    queue, task = await pop_first_async([a, b], timeout=LONG)
    assert task is not None
    assert (queue, task.attempt) == (b, 1)
    await b.drop()
    await a.drop()


def test_many_threads_take_each_task_once(three: list[DPQ[Any]]) -> None:
    """Threads that wait on the same queues take every task once."""
    found: list[int] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            queue, task = pop_first(three, timeout=0.2)
            if queue and task:
                found.append(task.payload)
                queue.ack(task)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(60):
        three[number % 3].push(number)
    wait_until("all tasks", lambda: len(found) >= 60)
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(found) == list(range(60))
