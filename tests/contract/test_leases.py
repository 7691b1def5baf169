"""`q.leases()`: what a loop over tasks finishes, and what it gives back, however it is left."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dpq import DPQ, AsyncDPQ, Backoff


@pytest.fixture
def q(redis: Redis, queue_name: str) -> Iterator[DPQ[Any]]:
    """A queue in real time, whose failed tasks come back at once."""
    with DPQ[Any](redis, queue_name, backoff=Backoff(base=0.01, jitter=0)) as queue:
        yield queue
        assert queue.check() == []
        queue.admin.drop()


def held(q: DPQ[Any]) -> int:
    """How many leases are kept alive."""
    return len(q._leases._held)


@pytest.mark.fakeredis
def test_a_loop_finishes_every_task_and_ends(q: DPQ[Any]) -> None:
    """Best first, delayed ones waited for, `continue` an ack like the end of the body; then it ends
    by itself, and stays ended."""
    q.push_many([])
    q.push("late", priority=9, delay=0.05)
    for n in range(3):
        q.push(n, priority=n)
    seen = []
    loop = q.leases(until_empty=True)
    for task in loop:
        seen.append(task.payload)
        if task.payload == 1:
            continue
    assert (sorted(map(str, seen)), seen.index(2) < seen.index(0)) == (
        ["0", "1", "2", "late"],
        True,
    )
    assert (q.stats().acked, len(q), held(q)) == (4, 0, 0)
    q.push("too late")
    assert list(loop) == []


def test_a_for_over_one_lease_is_told_of_the_loop(q: DPQ[Any]) -> None:
    """Nothing is popped, and the error names both forms."""
    q.push("a")
    with pytest.raises(
        TypeError, match=r"`with q.lease\(\) as task:`.*`for task in q.leases\(\):`"
    ):
        list(cast("Any", q.lease()))
    assert q.stats().popped == 0


def test_an_empty_queue_ends_a_loop_at_once(q: DPQ[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for when nothing is left."""
    waited: list[Any] = []
    take = q._take
    monkeypatch.setattr(q, "_take", lambda *args: (waited.append(args[1]), take(*args))[1])
    assert list(q.leases(until_empty=True)) == []
    q.push("a")
    assert [task.payload for task in q.leases(until_empty=True)] == ["a"]
    assert set(waited) == {0}


def test_a_loop_waits_for_what_runs_elsewhere(q: DPQ[Any]) -> None:
    """A task that another consumer holds, and gives back, is the loop's."""
    q.push("a")
    task = q.pop(visibility=0.2).task
    assert task is not None
    (again,) = list(q.leases(until_empty=True))
    assert (again.id, again.deliveries) == (task.id, 2)


def leave_by_break(loop: Any) -> None:
    for _ in loop:
        break


def leave_by_return(loop: Any) -> Any:
    for task in loop:
        return task
    return None


def leave_by_error(loop: Any) -> None:
    for _ in loop:
        raise ZeroDivisionError


WAYS = [leave_by_break, leave_by_return, leave_by_error]


@pytest.mark.parametrize("leave", WAYS)
def test_a_loop_that_is_left_early_acks_nothing(q: DPQ[Any], leave: Callable[[Any], Any]) -> None:
    """Its last task comes back when its lease ends, an attempt counted; nobody keeps it."""
    q.push("a")
    with suppress(ZeroDivisionError):
        leave(q.leases(0.1))
    gc.collect()
    assert (q.stats().acked, held(q)) == (0, 0)
    task = q.pop(timeout=20).task
    assert task is not None
    assert (task.payload, task.attempt) == ("a", 2)


def test_a_body_that_settles_its_task_has_the_last_word(q: DPQ[Any]) -> None:
    """The next step acks nothing that the body has given back, failed or buried."""
    for name in ("limited", "released", "buried"):
        q.push(name, group=name)
    for task in (loop := q.leases()):
        if task.payload == "limited":
            q.rate_limited(task, 60)
        elif task.payload == "released":
            q.release(task, 60)
        else:
            q.bury(task, "mine")
            break
    loop.close()
    stats = q.stats()
    assert (stats.acked, stats.dead, stats.delayed, stats.waiting) == (0, 1, 1, 1)


def test_a_loop_goes_on_past_a_lost_lease(q: DPQ[Any], caplog: pytest.LogCaptureFixture) -> None:
    """A task that another consumer has got meanwhile is its own; the loop says so and goes on."""
    q.push("a", priority=1)
    q.push("b")
    seen = []
    for task in q.leases(until_empty=True):
        seen.append(task.payload)
        if seen == ["a"]:
            q.release(task.model_copy())  # as an expired lease would
            q._leases.hold([task], 30)
            other = q.pop().task
            assert other is not None
            assert other.payload == "a"
        elif task.payload == "b":
            q.ack(other)
    assert seen == ["a", "b"]
    assert "cannot ack it" in caplog.text


def test_asyncio_has_the_same_loop(redis: Redis, queue_name: str) -> None:
    """`async for` finishes every task; a loop that is left, or cancelled, acks nothing of its last
    one; in an `async with` that is given back, uncounted."""

    async def program() -> None:
        path = redis.connection_pool.connection_kwargs["path"]
        async with (
            AsyncRedis(unix_socket_path=path) as client,
            AsyncDPQ[Any](client, queue_name) as q,
        ):
            ids = [await q.push(n) for n in range(3)]
            with pytest.raises(TypeError, match=r"`async for task in q.leases\(\):`"):
                aiter(cast("Any", q.lease()))
            seen = []
            async with q.leases(until_empty=True) as tasks:
                async for task in tasks:
                    seen.append(task.payload)
                    if len(seen) == 2:
                        break
            left = await q.get(ids[1])
            assert (left.attempt, left.deliveries, left.state) == (1, 1, "ready")

            async def work() -> None:
                async with q.leases() as tasks:
                    async for _ in tasks:
                        begun.set()
                        await asyncio.sleep(1000)

            begun = asyncio.Event()
            working = asyncio.create_task(work())
            await begun.wait()
            working.cancel()
            await asyncio.wait([working])
            assert (await q.get(ids[1])).attempt == 1
            loop = q.leases(30)
            async for _ in loop:
                break
            assert aiter(loop) is loop
            assert not q._leases._held
            await q.release(await q.get(ids[1]))
            del loop
            async for _ in q.leases(30):
                break
            gc.collect()
            assert not q._leases._held
            assert (await q.stats()).acked == 1
            await q.release(await q.get(ids[1]))
            async for task in q.leases(until_empty=True):
                seen.append(task.payload)
            assert seen == [0, 1, 1, 2]
            assert await q.check() == []
            await q.admin.drop()

    asyncio.run(program())
