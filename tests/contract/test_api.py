"""The public face on a real server, in real time where time matters."""

import asyncio
import logging
import multiprocessing
import os
import threading
from operator import attrgetter
from typing import Annotated, Any

import pytest
from kit.waiting import wait_until
from pydantic import AfterValidator, BaseModel
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from dpq import (
    DPQ,
    AsyncDPQ,
    ConfigurationError,
    LeaseLostError,
    Push,
    RateLimit,
    RateLimited,
    Reject,
    Release,
    Retry,
    Signal,
    TaskNotFoundError,
)
from dpq.model.validation import error_line
from dpq.script.keys import key_of
from dpq.server import Server

# Payloads


class Page(BaseModel):
    url: str
    depth: int = 0


class DeeperPage(BaseModel):
    url: str
    depth: int
    parent: str


@pytest.mark.parametrize(
    "payload",
    [
        *(None, True, 0, -1, 2**70, 1.5, "", "text", [], {}),
        *("ünï ☃ 🦊 \u2028", "a\tb\nc\0d\x7f", "'; DROP TABLE tasks; --", "::", "x" * 100_000),
        {"deep": [{"a": [1, [2, [3, None]]]}], "ключ": "значение", "": ""},
    ],
    ids=lambda payload: f"{payload!r:.20}".encode("ascii", "replace").decode(),
)
def test_a_payload_comes_back_unchanged(q: DPQ[Any], payload: Any) -> None:
    """Whatever JSON can say survives the way there and back."""
    q.push(payload)
    popped = q.pop().task.payload
    assert popped == payload
    assert type(popped) is type(payload)


def test_a_payload_that_fits_no_more_is_buried_and_the_next_task_returned(
    redis: Redis, queue_name: str
) -> None:
    """What no longer validates goes to the dead letters with the reason, and holds up nobody."""
    old: DPQ[Page] = DPQ(redis, queue_name, payload_type=Page)
    old.push(Page(url="http://old"), priority=9)
    new: DPQ[DeeperPage] = DPQ(redis, queue_name, payload_type=DeeperPage)
    good = new.push(DeeperPage(url="http://new", depth=1, parent="p"), priority=1)

    assert new.pop().task.id == good

    (dead,) = new.dead.list()
    assert dead.reason.startswith("payload: ")
    assert "parent" in dead.reason
    assert dead.payload == '{"url":"http://old","depth":0}'


@pytest.mark.parametrize("error", [KeyError("k"), TaskNotFoundError("id", "other", "get")], ids=str)
def test_an_error_of_a_validator_fails_its_task(q: DPQ[Any], error: Exception) -> None:
    """It reaches the caller, and counts as an attempt, whoever raised it."""

    def validate(_: str) -> str:
        raise error

    q.push("text")
    kind: Any = Annotated[str, AfterValidator(validate)]
    checking: DPQ[Any] = DPQ(q.redis, q.queue_name, payload_type=kind)
    with pytest.raises(type(error)):
        checking.pop()
    assert (q.stats().failed, q.stats().delayed) == (1, 1)


def test_a_decoding_client_serves_as_well(server: Server, redis: Redis, queue_name: str) -> None:
    """With `decode_responses=True` every call works, and the caller's client stays open."""
    with Redis.from_url(server.url, decode_responses=True) as client:
        q: DPQ[Any] = DPQ(client, queue_name)
        q.push("ünï", priority=2.5, group="é", key="ключ")
        q.push("b", delay=60)
        assert [task.payload for task in q.peek(5)] == ["ünï"]
        task, on_success, _ = q.pop(timeout=5)
        assert (task.payload, task.group, task.key) == ("ünï", "é", "ключ")
        assert on_success() is True
        assert q.pop(timeout=0.05) == (None, None, None)
        assert (q.stats().delayed, q.check()) == (1, [])
        q.close()
        assert client.get(key_of(queue_name, "nothing")) is None
        assert client.ping() is True


# lease()


ENDS: list[tuple[Any, ...]] = [
    (ZeroDivisionError("x"), "delayed", 2, "ZeroDivisionError: x", "failed", None),
    (Retry(5, "later"), "delayed", 2, "later", "failed", 5),
    (RateLimited(30, scope="task"), "delayed", 1, None, "deferred", 30),
    (Release(60), "delayed", 1, None, None, 60),
    (Release(), "ready", 1, None, None, None),
    (Reject("bad"), "dead", 1, None, "buried", None),
    (KeyboardInterrupt(), "ready", 1, None, None, None),
    (SystemExit(), "ready", 1, None, None, None),
    (asyncio.CancelledError(), "ready", 1, None, None, None),
]


@pytest.mark.parametrize(
    ("error", "state", "attempt", "last_error", "counted", "due_in"),
    ENDS,
    ids=[repr(error) for error, *_ in ENDS],
)
def test_a_lease_ends_as_its_body(
    q: DPQ[Any],
    clock: Any,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    state: str,
    attempt: int,
    last_error: str | None,
    counted: str | None,
    due_in: int | None,
) -> None:
    """Errors fail the task and go on up; signals do what they say, and end there; what breaks the
    body off goes on up, too, and gives the task back at its place, uncounted, as Release does.
    What failed or met a limit is logged in a line, as a worker logs it."""
    caplog.set_level(logging.INFO, "dpq")
    task_id = q.push("a")
    q.push("b")
    raised = None
    try:
        with q.lease():
            raise error  # noqa: TRY301 - as a body does
    except BaseException as caught:
        raised = caught
    assert raised is (None if isinstance(error, Signal) else error)
    task, stats = q.get(task_id), q.stats()
    assert (task.state, task.attempt, task.last_error) == (state, attempt, last_error)
    counts = {name: getattr(stats, name) for name in ("failed", "deferred", "buried")}
    assert counts == {name: int(name == counted) for name in counts}
    assert (task.deferrals, stats.invisible) == (counts["deferred"], 0)
    records = [record for record in caplog.records if record.exc_info is None]
    told = {"deferred": ["rate_limited"], "buried": ["attempt_failed", "died"]}
    told |= {"failed": ["attempt_failed"]}
    assert [record.event for record in records] == told.get(counted or "", [])
    for record in records[: counted in ("failed", "buried")]:
        line = f"{q.queue_name}: task {task_id}, attempt 1 of 10: {error_line(error)}"
        assert (record.levelname, record.getMessage()) == ("WARNING", line)
    if due_in:
        assert task.visible_until.timestamp() * 1000 == clock() + due_in * 1000
    if state == "ready":
        assert (q.pop().task.id, q.get(task_id).deliveries) == (task_id, 2)


def test_a_lease_is_extended_while_its_body_runs(redis: Redis, queue_name: str) -> None:
    """A body longer than its lease keeps the task: nobody else can pop it."""
    q: DPQ[Any] = DPQ(redis, queue_name)
    task_id = q.push("a")
    with q.lease(visibility=0.3) as task:
        first = q.get(task_id).visible_until
        assert first is not None
        wait_until(
            "the lease to be extended twice its length",
            lambda: (q.get(task_id).visible_until - first).total_seconds() > 0.6,
        )
        assert q.pop().task is None
        assert q.get(task_id).token == task.token
    assert len(q) == 0
    q.close()


@pytest.mark.parametrize("settle", ["bury", "fail", "release", "set_visibility", "ack"])
def test_what_the_body_settled_stands(q: DPQ[Any], redis: Redis, settle: str) -> None:
    """A body that settles its task itself has the last word, and its heartbeat ends."""
    q.push(1)
    more = {"bury": ["bad"], "fail": ["bad", 60], "release": [60], "set_visibility": [60]}
    with q.lease(visibility=0.15) as task:
        getattr(q, settle)(task, *more.get(settle, []))
        before = redis.info("commandstats")["cmdstat_evalsha"]["calls"]
        # a heartbeat that went on would have called by now
        assert not threading.Event().wait(0.2)
        assert redis.info("commandstats")["cmdstat_evalsha"]["calls"] == before
    stats = q.stats()
    assert (stats.dead, stats.delayed, stats.acked) == {"bury": (1, 0, 0), "ack": (0, 0, 1)}.get(
        settle, (0, 1, 0)
    )


# Many at once


def test_ack_many_finishes_what_it_can(q: DPQ[Any], clock: Any) -> None:
    """In one call: live ones are finished, gone ones are False, and lost ones are named."""
    q.push_many(Push(payload=n) for n in range(4))
    live, gone, lost, cancelled = q.pop_many(4, visibility=5)
    q.ack(gone)
    q.cancel(cancelled.id)
    assert q.ack_many([gone, cancelled]) == [False, False]
    q.extend(live, 60)
    clock.advance(5)
    assert q.pop().task.id == lost.id

    with pytest.raises(LeaseLostError) as error:
        q.ack_many([gone, lost, live])

    assert error.value.task_ids == (lost.id,)
    with pytest.raises(TaskNotFoundError):
        q.get(live.id)
    assert q.ack_many([]) == []


def test_a_task_of_a_queue_that_does_not_exist(q: DPQ[Any]) -> None:
    """The error says that there is no such queue, as long as there is none."""
    for look in (q.get, q.why, q.cancel):
        with pytest.raises(TaskNotFoundError) as error:
            look("a")
        assert error.value.__notes__ == ["there is no such queue: the first push makes it"]
    q.push(1)
    with pytest.raises(TaskNotFoundError) as error:
        q.why("a")
    assert not hasattr(error.value, "__notes__")


# The whole queue


# The server


class OldServer(Redis):
    """A client whose server says that it is Redis 6.0."""

    def execute_command(self, *_: Any, **__: Any) -> bytes:
        return b"redis_version:6.0.16"


def test_a_server_that_is_too_old_is_refused(server: Server, redis: Redis, queue_name: str) -> None:
    """Redis before 6.2 is a ConfigurationError that names its version and the oldest good one."""
    with (
        OldServer.from_url(server.url) as client,
        pytest.raises(ConfigurationError, match=r"Redis 6\.0\.16.*6\.2"),
    ):
        DPQ(client, queue_name).push("a")
    assert redis.keys(f"dpq:{{{queue_name}}}:*") == []


@pytest.mark.parametrize("call", ["push", "admin.drop"])
def test_a_refused_connection_names_the_way_out(queue_name: str, call: str) -> None:
    """Whichever call comes first, blocking or asyncio: a URL that needs no Redis."""
    url, payload = "redis://127.0.0.1:1", ["a"] if call == "push" else []
    q: DPQ[Any] = DPQ.from_url(url, queue_name)
    with pytest.raises(RedisConnectionError, match=r"no Redis here\? .*embedded:\./queue"):
        attrgetter(call)(q)(*payload)
    q.close()

    async def program() -> None:
        async with AsyncDPQ.from_url(url, queue_name) as queue:
            await attrgetter(call)(queue)(*payload)

    with pytest.raises(RedisConnectionError, match=r"no Redis here\? .*embedded:\./queue"):
        asyncio.run(program())


# Threads and processes


def consume(q: DPQ[int], found: list[int], failed: list[BaseException]) -> None:
    try:
        while (popped := q.pop()).task is not None:
            found.append(popped.task.payload)
            popped.on_success()
    except BaseException as error:
        failed.append(error)
        raise


def test_threads_share_one_queue_object(redis: Redis, queue_name: str) -> None:
    """Eight threads on one DPQ pop and ack 2000 tasks: each task exactly once."""
    q: DPQ[int] = DPQ(redis, queue_name)
    q.push_many(Push(n, priority=n % 4) for n in range(2000))
    found: list[list[int]] = [[] for _ in range(8)]
    failed: list[BaseException] = []
    threads = [threading.Thread(target=consume, args=(q, mine, failed)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert not failed
    assert sorted(n for mine in found for n in mine) == list(range(2000))
    assert (len(q), q.stats().acked, q.check()) == (0, 2000, [])
    q.close()


def _in_child(q: DPQ[Any], results: Any) -> None:
    task = q.pop(timeout=10).task
    q.ack(task)
    assert q.admin.workers() == []
    results.put((os.getpid(), task.payload))


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_queue_object_survives_a_fork(redis: Redis, queue_name: str) -> None:
    """Parent and forked child use the same object at the same time, waits included."""
    q: DPQ[Any] = DPQ(redis, queue_name)
    assert q.pop(timeout=0.05).task is None  # the object now has connections of its own
    assert q.admin.workers() == []
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(q, results))
    child.start()
    try:
        for number in range(200):
            q.push(number, priority=1)
            assert q.stats().pushed == number + 1
        pid, payload = results.get(timeout=20)
        child.join(20)
        assert (pid, child.exitcode) == (child.pid, 0)
        assert payload in range(200)
        assert len(q) == 199
        assert q.check() == []
    finally:
        if child.is_alive():
            child.kill()
        child.join()
        q.close()


# What a task has spent


def test_every_way_to_tell_what_was_spent(live: DPQ[Any]) -> None:
    """`spent`, inside of `lease` and `leases` too, and each end of a delivery."""
    q = live
    q.set_limit([RateLimit(1, 3600, 1000, unit="t", slack=0)], group="g")
    q.push_many(Push(n, 9 - n, group="g", cost={"t": 100}, max_attempts=1) for n in range(8))

    def left() -> int:
        return round(q.admin.group("g").units_left[0])

    with q.lease() as task:
        assert task is not None
        assert q.spent(task, t=10) is True
        assert q.spent(task, t=10) is False
    assert left() == 990
    for task in q.leases(until_empty=True):
        q.spent(task, {"t": 20})
        break
    assert left() == 970
    tasks = q.pop_many(6)
    assert left() == 370
    assert q.ack(tasks[0], cost={"t": 10}) is True
    assert q.ack_many(tasks[1:2], [{"t": 10}]) == [True]
    q.fail(tasks[2], cost={"t": 10})
    q.bury(tasks[3], "no", cost={"t": 10})
    q.release(tasks[4], 99, cost={"t": 10})
    q.rate_limited(tasks[5], 99, "task", {"t": 10})
    assert left() == 370 + 6 * 90
    with pytest.raises(ConfigurationError):
        q.spent(tasks[5])
    with pytest.raises(LeaseLostError):
        q.spent(tasks[0], t=1)
