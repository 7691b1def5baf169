"""Results: whoever waits for the end of a task is told at once, by one of four answers.

Callers trust in being called for longer than a test lasts, instead of 5 s, so that nothing but a
call brings an answer. test_async.py runs all of it over `AsyncDPQ`.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from kit.waiting import LONG, PATIENCE, wait_until
from redis import Redis

from dpq import DPQ, ResultTimeoutError, TaskDeadError, TaskNotFoundError
from dpq.queue import waits, waits_async


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (waits, waits_async):
        monkeypatch.setattr(module, "ASK_FOR_END_SECONDS", LONG)


def hear(q: Any, redis: Redis, callers: int) -> None:
    """Wait until so many callers of a queue object have asked, and are subscribed."""
    inner = getattr(q, "_queue", q)
    wait_until("callers", lambda: len(inner._ends._ears) == callers)
    if type(redis) is Redis:
        wait_until("a subscription", lambda: inner._ends.channel)


def popped(q: DPQ[Any]) -> Any:
    task = q.pop(timeout=PATIENCE).task
    assert task
    return task


@pytest.mark.fakeredis
def test_all_callers_hear_of_an_end(
    waiting: DPQ[Any], redis: Redis, background: Callable[..., Any]
) -> None:
    """Several callers of one task and of others wait on one connection, and each gets its own."""
    first, second = waiting.push(1, 2), waiting.push(2, 1)
    calls = [background(waiting.result, id_, timeout=None) for id_ in (first, first, second)]
    hear(waiting, redis, 3)
    if type(redis) is Redis:
        assert redis.pubsub_numsub(f"dpq:calls:{{{waiting.queue_name}}}")[0][1] == 1
    waiting.ack(popped(waiting), result={"a": [1]})
    assert [call.result(PATIENCE) for call in calls[:2]] == [{"a": [1]}] * 2
    assert not calls[2].done()
    waiting.ack_many([popped(waiting)], results=["second"])
    assert calls[2].result(PATIENCE) == "second"


@pytest.mark.parametrize("how", ["bury", "fail", "cancel"])
def test_a_caller_hears_that_there_is_no_result(
    waiting: DPQ[Any], redis: Redis, background: Callable[..., Any], how: str
) -> None:
    """A death ends the wait with its reason; a cancelled task is unknown."""
    task_id = waiting.push(1, max_attempts=1)
    call = background(waiting.result, task_id, timeout=None)
    hear(waiting, redis, 1)
    if how == "cancel":
        waiting.cancel(task_id)
    else:
        getattr(waiting, how)(popped(waiting), "no luck")
    error = call.exception(PATIENCE)
    if how == "cancel":
        assert isinstance(error, TaskNotFoundError)
    else:
        assert isinstance(error, TaskDeadError)
        assert error.reason == ("no luck" if how == "bury" else "attempts spent")


def test_an_end_before_the_wait(waiting: DPQ[Any]) -> None:
    """Who comes late is answered at once, whatever the timeout."""
    waiting.push(1)
    task = popped(waiting)
    waiting.ack(task, result=5)
    for timeout in (0, 60, None):
        assert waiting.result(task.id, timeout=timeout) == 5


def test_a_timeout(waiting: DPQ[Any]) -> None:
    """A wait ends with its own error after its timeout, and names both."""
    task_id = waiting.push(1)
    for timeout in (0, 0.05):
        began = time.monotonic()
        with pytest.raises(ResultTimeoutError, match=f"timeout={timeout:g}") as caught:
            waiting.result(task_id, timeout=timeout)
        assert time.monotonic() - began >= timeout
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.task_id == task_id
    assert waiting.results(timeout=0.05) == []


def test_readers_of_all_results(
    waiting: DPQ[Any], redis: Redis, background: Callable[..., Any]
) -> None:
    """Each of many readers sees every result once, in order, and none is stored for a reader."""

    def read() -> list[Any]:
        seen: list[Any] = []
        after = ""
        while len(seen) < 20:
            for result in waiting.results(after, 3, timeout=None):
                seen.append(result.value)
                after = result.id
        return seen

    readers = [background(read) for _ in range(4)]
    hear(waiting, redis, 4)
    for i in range(20):
        waiting.push(i)
        waiting.ack(popped(waiting), result=i)
    assert [reader.result(PATIENCE) for reader in readers] == [list(range(20))] * 4
    assert redis.hlen(f"dpq:{{{waiting.queue_name}}}:results") == 61


def test_callers_of_a_server_that_restarts_their_connections(
    waiting: DPQ[Any], redis: Redis, background: Callable[..., Any]
) -> None:
    """If the connection is lost, callers ask again, and hear again."""
    ids = [waiting.push(i, -i) for i in range(2)]
    calls = [background(waiting.result, id_, timeout=None) for id_ in ids]
    hear(waiting, redis, 2)
    redis.client_kill_filter(_type="pubsub")
    waiting.ack(popped(waiting), result="a")
    assert calls[0].result(PATIENCE) == "a"
    hear(waiting, redis, 1)
    waiting.ack(popped(waiting), result="b")
    assert calls[1].result(PATIENCE) == "b"


def test_the_end_of_a_pop_and_of_a_lease(waiting: DPQ[Any]) -> None:
    """on_success takes a result, and the body of a lease acks with one."""
    ids = [waiting.push(i, -i) for i in range(2)]
    _, on_success, _ = waiting.pop(timeout=PATIENCE)
    assert on_success(result="popped", keep=60)
    with waiting.lease(timeout=PATIENCE) as task:
        assert task
        waiting.ack(task, result="leased")
    assert [waiting.result(id_) for id_ in ids] == ["popped", "leased"]
