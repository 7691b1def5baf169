"""Results: whoever waits for the end of a task is told at once, by one of four answers.

Callers trust in being called for longer than a test lasts, instead of 5 s, so that nothing but a
call brings an answer. test_async.py runs all of it over `AsyncDPQ`.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kit.waiting import LONG, PATIENCE, wait_until
from redis import Redis

from dpq import (
    DPQ,
    NO_RESULT,
    ConfigurationError,
    PayloadError,
    ResultTimeoutError,
    TaskDeadError,
    TaskNotFoundError,
)
from dpq.queue import ends, ends_async

engines = pytest.mark.fakeredis


@pytest.fixture(autouse=True)
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ends, ends_async):
        monkeypatch.setattr(module, "ASK_FOR_END_SECONDS", LONG)


def hear(q: Any, redis: Redis, callers: int) -> None:
    """Wait until so many callers of a queue object have asked, and are subscribed."""
    inner = getattr(q, "_queue", q)
    ears = inner._ends._ears
    wait_until("callers", lambda: sum(map(len, list(ears.values()))) == callers)
    if type(redis) is Redis:
        wait_until("a subscription", lambda: inner._ends._subscription.channel)


def popped(q: DPQ[Any]) -> Any:
    task = q.pop(timeout=PATIENCE).task
    assert task
    return task


@engines
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


@engines
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


@engines
def test_an_end_before_the_wait(waiting: DPQ[Any]) -> None:
    """Who comes late is answered at once, whatever the timeout."""
    waiting.push(1)
    task = popped(waiting)
    waiting.ack(task, result=5)
    for timeout in (0, 60, None):
        assert waiting.result(task.id, timeout=timeout) == 5


@engines
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


@engines
def test_unknown(waiting: DPQ[Any]) -> None:
    """Of a task that nobody knows, nothing is awaited."""
    with pytest.raises(TaskNotFoundError, match="never pushed here"):
        waiting.result("nothing", timeout=None)


@engines
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


def test_a_lost_message(
    waiting: DPQ[Any], redis: Redis, background: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An end that nobody tells, as that of an ack without a result, is noticed all the same."""
    for module in (ends, ends_async):
        monkeypatch.setattr(module, "ASK_FOR_END_SECONDS", 0.05)
    task_id = waiting.push(1)
    call = background(waiting.result, task_id, timeout=None)
    hear(waiting, redis, 1)
    waiting.ack(popped(waiting))
    assert isinstance(call.exception(PATIENCE), TaskNotFoundError)


@engines
@pytest.mark.parametrize(
    ("result", "says"),
    [
        (object(), "has no JSON form"),
        ("x" * 2**20, "is 1048578 bytes, and the bound is 1048576"),
        ({1: {2, 3}, 4: object()}, "has no JSON form"),
    ],
)
def test_what_cannot_be_kept(waiting: DPQ[Any], result: Any, says: str) -> None:
    """It is refused before anything is written, and the task is still the caller's to ack."""
    waiting.push(1)
    waiting.push(2)
    tasks = waiting.pop_many(2)
    with pytest.raises(PayloadError, match=says) as caught:
        waiting.ack(tasks[0], result=result)
    assert caught.value.task_id == tasks[0].id
    with pytest.raises(PayloadError, match=says):
        waiting.ack_many(tasks, results=[1, result])
    assert waiting.results() == []
    assert waiting.ack_many(tasks, results=[1, NO_RESULT]) == [True, True]


@engines
def test_bad_arguments(waiting: DPQ[Any]) -> None:
    """Each is refused by its name, its value and its bound, and changes nothing."""
    waiting.push(1)
    task = popped(waiting)
    for keep in (0, -1, 2_592_001, "1", True, float("nan"), None):
        with pytest.raises(ConfigurationError, match="keep is"):
            waiting.ack(task, result=1, keep=keep)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="results has 2 entries for 1 tasks"):
        waiting.ack_many([task], results=[1, 2])
    with pytest.raises(ConfigurationError, match="results has 0 entries for 1 tasks"):
        waiting.ack_many([task], results=[])
    for after in ("x", "1,2", "-1", "1-", "9" * 17, 5):
        with pytest.raises(ConfigurationError, match="after is"):
            waiting.results(after)  # type: ignore[arg-type]
    for limit in (0, 1001, 1.5):
        with pytest.raises(ConfigurationError, match="limit is"):
            waiting.results(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="timeout is"):
        waiting.result(task.id, timeout=-1)
    for done, total in ((-1, None), (1, -1), ("1", None), (1, float("inf"))):
        with pytest.raises(ConfigurationError, match=r"(done|total) is"):
            waiting.progress(task, done, total)  # type: ignore[arg-type]
    assert waiting.ack(task, result=1)


@engines
def test_the_end_of_a_pop_and_of_a_lease(waiting: DPQ[Any]) -> None:
    """on_success takes a result, and the body of a lease acks with one."""
    ids = [waiting.push(i, -i) for i in range(2)]
    _, on_success, _ = waiting.pop(timeout=PATIENCE)
    assert on_success(result="popped", keep=60)
    with waiting.lease(timeout=PATIENCE) as task:
        assert task
        waiting.ack(task, result="leased")
    assert [waiting.result(id_) for id_ in ids] == ["popped", "leased"]


def test_a_result_near_the_bounds(waiting: DPQ[Any]) -> None:
    """Results of 1 MiB travel, a few at once, and are read in calls of 4 MiB."""
    waiting.push_many([])
    for i in range(9):
        waiting.push(i)
    tasks = waiting.pop_many(9)
    assert waiting.ack_many(tasks, results=["x" * (2**20 - 2)] * 9) == [True] * 9
    assert len(waiting.results()) == 4
    assert len(waiting.results(waiting.results()[-1].id)) == 4


def test_callers_come_and_go(
    waiting: DPQ[Any], redis: Redis, background: Callable[..., Any]
) -> None:
    """While callers of one id come and go, those that stay are called."""
    task_id = waiting.push(1)
    stays = background(waiting.result, task_id, timeout=None)
    hear(waiting, redis, 1)
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            with pytest.raises(ResultTimeoutError):
                waiting.result(task_id, timeout=0.001)

    others = [background(come_and_go) for _ in range(4)]
    time.sleep(0.05)
    over.set()
    for other in others:
        other.result(PATIENCE)
    waiting.ack(popped(waiting), result=1)
    assert stays.result(PATIENCE) == 1
