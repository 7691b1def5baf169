"""What interrupts a call reaches the caller as it is, and spoils nothing, at each line.

A call is made again and again, and interrupted a few lines later each time, until it ends before.
With the soak's settings every line of every combination has its turn.
"""

import asyncio
import gc
import itertools
import logging
import random
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import fakeredis
import hypothesis
import pytest
from interrupts import NUMBER, WHERE, Interrupter, NetworkLimit, Stop, TimeLimit, Wrong, interrupter
from redis import Redis
from redis import asyncio as aio
from redis._parsers import _RESP2Parser
from redis.connection import AbstractConnection
from support import address_of

from dpq import DPQ, AsyncDPQ
from dpq.transport import watches

MOST_LINES = 20_000  # no call has so many: a guard against a test that never ends

PATIENCE = 20.0  # seconds for a call of asyncio

numbers = itertools.count(1)

Prepare = Callable[[Any], Any]
Call = Callable[[Any, Any], Any]


def step(often: int) -> int:
    """Lines from one interruption to the next."""
    return 1 if hypothesis.settings.get_current_profile_name() == "soak" else often


class Mine(Redis):
    """A subclass, which may do something with a command: so its `execute_command` is used."""


class MineToo(aio.Redis):
    """The same for asyncio."""


def parsing_slowly(client: Redis) -> Redis:
    """Make a client read as redis-py does without hiredis."""
    client.connection_pool.connection_kwargs |= {"protocol": 2, "parser_class": _RESP2Parser}
    return client


KINDS: dict[str, Callable[[Redis], Any]] = {
    "plain": lambda redis: Redis(**address_of(redis)),
    "parser in Python": lambda redis: parsing_slowly(Redis(**address_of(redis))),
    "subclass": lambda redis: Mine(**address_of(redis)),
    "one connection": lambda redis: Redis(**address_of(redis), single_connection_client=True),
    "fakeredis": lambda _: fakeredis.FakeRedis(),
}


def payload() -> dict[str, int]:
    return {"n": next(numbers)}


def pushed(q: DPQ[Any]) -> dict[str, int]:
    q.push(made := payload())
    return made


def popped(q: DPQ[Any]) -> Any:
    made = pushed(q)
    task = q.pop(visibility=600).task
    assert task.payload == made
    return task


def leased(q: DPQ[Any], made: Any) -> bool:
    with q.lease() as task:
        return bool(task and task.payload == made)  # none, if an unheard pop has taken it


def delayed(q: DPQ[Any]) -> dict[str, int]:
    q.push(made := payload(), delay=0.02)
    return made


def buried(q: DPQ[Any]) -> Any:
    q.bury(task := popped(q), "why")
    return task


VERBS: dict[str, tuple[Prepare, Call, int]] = {
    "push": (lambda _: payload(), lambda q, made: q.get(q.push(made)).payload == made, 13),
    "get": (
        lambda q: (made := payload(), q.push(made)),
        lambda q, it: q.get(it[1]).payload == it[0],
        7,
    ),
    "pop": (pushed, lambda q, made: q.pop().task.payload == made, 5),
    "a waiting pop": (delayed, lambda q, made: q.pop(timeout=20).task.payload == made, 29),
    "pop_many": (
        lambda q: [pushed(q) for _ in range(3)],
        lambda q, made: [task.payload for task in q.pop_many(3)] == made,
        13,
    ),
    "lease": (pushed, leased, 7),
    "ack": (popped, lambda q, task: q.ack(task), 5),
    "extend": (popped, lambda q, task: bool(q.extend(task, 60)), 7),
    "release": (popped, lambda q, task: q.release(task) is None, 7),
    "fail": (popped, lambda q, task: q.fail(task, "why", 60) is None, 7),
    "dead.list": (buried, lambda q, task: q.dead.list(9)[-1].payload == task.payload, 13),
    "check": (pushed, lambda q, _: q.check() == [], 101),
}

CASES = [
    *(("plain", verb, every) for verb, (_, _, every) in VERBS.items()),
    *(("parser in Python", verb, 31) for verb in ("push", "pop", "lease")),
    *(("subclass", verb, 31) for verb in ("push", "pop", "a waiting pop", "release")),
    *(("one connection", verb, 31) for verb in ("push", "pop")),
    *(("fakeredis", verb, 197) for verb in ("push", "pop")),
    *(("from_url", verb, 31) for verb in ("push", "pop", "a waiting pop")),
    *(("partitions", verb, 61) for verb in ("push", "pop", "a waiting pop")),
]


def errors_of(kind: str, verb: str) -> Iterator[type[BaseException]]:
    """The exceptions of a test in turn.

    redis-py takes one of the network for its own where DPQ has to use the caller's client itself.
    """
    heeded = kind == "from_url" or (kind in ("plain", "partitions") and "waiting" not in verb)
    return itertools.cycle([TimeLimit, Stop, Wrong, *([NetworkLimit] if heeded else [])])


KEEPER = "lease_renewal_async"

LOOKS = ("can_read", "get_connection")
"""Functions of redis-py that look, as its parsers do, whether an idle connection has ended."""


@pytest.fixture(autouse=True)
def sweep() -> Iterator[None]:
    """Collect what interrupted calls leave, so that its warnings come in this test."""
    yield
    gc.collect()


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was interrupted while it watched for a moment wakes nobody: the next looks by itself."""
    monkeypatch.setattr(watches, "RECHECK_SECONDS", 0.5)


def opened(kind: str, redis: Redis, name: str) -> DPQ[Any]:
    if kind == "from_url":
        address = address_of(redis)
        path = address.get("unix_socket_path")
        place = f"unix://{path}" if path else f"redis://{address['host']}:{address['port']}"
        return DPQ.from_url(place, name)
    if kind == "partitions":
        return DPQ(KINDS["plain"](redis), name, partitions=3)
    return DPQ(KINDS[kind](redis), name)


def held(q: DPQ[Any] | AsyncDPQ[Any]) -> bool:
    """Whether a lease is still extended once what was raised, and its traceback, are gone."""
    if q._leases._held:
        gc.collect()
    return bool(q._leases._held)


def hit(interrupts: Interrupter, line: int, call: Callable[[], Any]) -> bool:
    """Whether a call was interrupted; then it has raised just that, else it was right.

    What strikes the keeper of leases is logged: it extends them for no call.
    """
    result, raised = interrupts.run(line, call)
    if interrupts.raised is None:
        assert (raised, result) == (None, True)
        return False
    where = interrupts.where
    if raised or not (KEEPER in where or taken_for_an_end(interrupts.raised)):
        assert raised is interrupts.raised, f"{raised!r} at {where}"
    return True


def taken_for_an_end(error: BaseException) -> bool:
    """Whether redis-py has caught an error, and takes it for the end of an idle connection.

    Its pool looks before each use of a connection, and takes any OSError for that; its parsers
    also take any ValueError. Then it connects anew, and nobody hears of the error.
    """
    assert error.__traceback__
    catcher = error.__traceback__.tb_frame.f_code
    looks = "redis/_parsers/" in catcher.co_filename or catcher.co_name in LOOKS
    return looks and isinstance(error, (OSError, ValueError))


# redis-py leaves a socket to the garbage collector when it is interrupted while it connects
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("quiet")
@pytest.mark.no_cover
@pytest.mark.parametrize(("kind", "verb", "often"), CASES)
def test_an_interruption_spoils_nothing(
    redis: Redis, queue_name: str, kind: str, verb: str, often: int
) -> None:
    """The caller gets what was raised; all that follows is answered rightly; nothing is buried."""
    prepare, call, _ = VERBS[verb]
    q = opened(kind, redis, queue_name)
    errors = errors_of(kind, verb)
    beacon = {"beacon": next(numbers)}
    call(q, prepare(q))  # the server knows the scripts from now on
    q.purge()
    with interrupter(lambda: next(errors)("the caller's own")) as interrupts:
        for line in range(0, MOST_LINES, step(often)):
            kept = q.push(beacon, delay=600)
            made = prepare(q)
            interrupted = hit(interrupts, line, partial(call, q, made))
            where = interrupts.where
            interrupts.forget()
            for _ in range(2):  # of the last connection, and of another one
                assert q.redis.echo(where) in (where, where.encode()), where
                assert q.get(kept).payload == beacon, where
            assert not held(q), where
            dead = 1 if verb == "dead.list" else 0
            assert q.stats().dead == dead, where
            q.purge()
            if not interrupted:
                break
        else:
            pytest.fail(f"not done after {MOST_LINES} lines")
    assert line > 50, "the call was never interrupted in its middle"
    assert q.check() == []
    q.drop()
    q.close()
    q.redis.close()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("error", [TimeLimit, Stop, Wrong])
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"fakeredis"}))
def test_a_reply_under_way_is_for_no_other_call(
    redis: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch, kind: str, error: Any
) -> None:
    """After a call that is interrupted between its command and the reply, the next is answered."""
    q = opened(kind, redis, queue_name)
    q.push("a")
    read = AbstractConnection.read_response
    with interrupter(lambda: error("the caller's own")):
        for call in (q.size, lambda: q.push("b"), lambda: q.pop(timeout=20)):
            strikes = iter([NUMBER])

            def struck(connection: Any, *args: Any, strikes: Any = strikes, **named: Any) -> Any:
                for number in strikes:
                    signal.raise_signal(number)
                return read(connection, *args, **named)

            monkeypatch.setattr(AbstractConnection, "read_response", struck)
            with pytest.raises(error, match="the caller's own"):
                call()
            for text in (b"one", b"two"):
                assert q.redis.echo(text) == text
    assert q.check() == []
    q.drop()
    q.close()
    q.redis.close()


@pytest.mark.usefixtures("quiet")
def test_a_look_of_redis_pys_pool_spoils_nothing(
    redis: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its pool takes an interruption for a closed connection, all answers are still right.

    A wait that ends without a marker asks for the end of its block over the pool.
    """
    q = opened("from_url", redis, queue_name)
    q.push("a", delay=600)
    look, strikes = AbstractConnection.can_read, iter([NUMBER])

    def struck(connection: Any, *args: Any, **named: Any) -> Any:
        for number in strikes:
            signal.raise_signal(number)
        return look(connection, *args, **named)

    def nothing() -> bool:
        return q.pop(timeout=0.05).task is None

    with interrupter(lambda: NetworkLimit("the caller's own")) as interrupts:
        assert nothing()  # now the pool has a connection
        monkeypatch.setattr(AbstractConnection, "can_read", struck)
        assert any(hit(interrupts, MOST_LINES, nothing) for _ in range(100))
        for text in (b"one", b"two"):
            assert q.redis.echo(text) == text
    assert nothing()
    assert q.check() == []
    q.drop()
    q.close()
    q.redis.close()


async def pushed_async(q: AsyncDPQ[Any]) -> dict[str, int]:
    await q.push(made := payload())
    return made


async def delayed_async(q: AsyncDPQ[Any]) -> dict[str, int]:
    await q.push(made := payload(), delay=0.02)
    return made


async def popped_async(q: AsyncDPQ[Any]) -> Any:
    await pushed_async(q)
    return (await q.pop(visibility=600)).task


async def two_at_once(q: AsyncDPQ[Any], made: Any) -> bool:
    """Two calls that share a connection; if one is interrupted, it raises that."""
    both = (q.push(made), q.push({"n": -1}))
    ids = await asyncio.gather(*both, return_exceptions=True)
    for met in ids:
        if isinstance(met, BaseException):
            raise met
    return [(await q.get(id_)).payload for id_ in map(str, ids)] == [made, {"n": -1}]


async def pop_async(q: AsyncDPQ[Any], made: Any, patience: float = 0) -> bool:
    return bool((await q.pop(patience)).task.payload == made)


async def lease_async(q: AsyncDPQ[Any], made: Any) -> bool:
    async with q.lease() as task:
        return bool(task and task.payload == made)  # none, if an unheard pop has taken it


ASYNC_VERBS: dict[str, tuple[Callable[[Any], Awaitable[Any]], Callable[..., Any], int]] = {
    "push": (pushed_async, two_at_once, 29),
    "pop": (pushed_async, pop_async, 13),
    "a waiting pop": (delayed_async, lambda q, made: pop_async(q, made, 20), 17),
    "ack": (popped_async, lambda q, task: q.ack(task), 13),
    "lease": (pushed_async, lease_async, 17),
}

ASYNC_CASES = [
    *(("plain", verb, every) for verb, (_, _, every) in ASYNC_VERBS.items()),
    *(("subclass", verb, 101) for verb in ("push", "pop")),
    *(("partitions", verb, 61) for verb in ("push", "pop")),
]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("quiet")
@pytest.mark.no_cover
@pytest.mark.parametrize(("kind", "verb", "often"), ASYNC_CASES)
def test_an_interruption_in_the_loop_spoils_nothing(
    redis: Redis, queue_name: str, kind: str, verb: str, often: int
) -> None:
    """The same for asyncio, wherever in the loop's thread it strikes: also in tasks that calls
    share."""
    prepare, call, _ = ASYNC_VERBS[verb]
    errors = errors_of(kind, verb)
    client = (MineToo if kind == "subclass" else aio.Redis)(**address_of(redis))
    q: AsyncDPQ[Any] = AsyncDPQ(client, queue_name, partitions=3 if kind == "partitions" else None)
    beacon = {"beacon": next(numbers)}

    async def goes_on(kept: str, where: str) -> None:
        while q._background:
            await asyncio.wait(q._background)
        assert await client.echo(where) == where.encode(), where
        for answer in await asyncio.gather(q.get(kept), q.get(kept)):
            assert answer.payload == beacon, where
        if held(q):
            await asyncio.sleep(0.01)  # the loop closes what the garbage collector has found
        assert not held(q), where
        assert (await q.stats()).dead == 0, where
        await q.purge()

    async def end() -> None:
        assert await q.check() == []
        await q.drop()
        await q.close()
        await client.aclose()

    loop = asyncio.new_event_loop()

    def run(work: Any) -> Any:
        return loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    def called(q: AsyncDPQ[Any], made: Any) -> Any:
        return run(call(q, made))

    called(q, run(prepare(q)))
    run(q.purge())
    # what strikes redis-py's pool at its lock leaves that locked; only a subclass's pool is used
    where = ("dpq", "contextlib") if kind == "subclass" else WHERE
    with interrupter(lambda: next(errors)("the caller's own"), where) as interrupts:
        for line in range(0, MOST_LINES, step(often)):
            kept = run(q.push(beacon, delay=600))
            made = run(prepare(q))
            interrupted = hit(interrupts, line, partial(called, q, made))
            interrupts.forget()
            run(goes_on(kept, interrupts.where))
            if not interrupted:
                break
        else:
            pytest.fail(f"not done after {MOST_LINES} lines")
    assert line > 50, "the call was never interrupted in its middle"
    run(end())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("error", [TimeLimit, Stop, Wrong])
@pytest.mark.parametrize("kind", ["plain", "subclass", "one connection"])
def test_a_reply_under_way_is_for_no_other_call_in_the_loop(
    redis: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch, kind: str, error: Any
) -> None:
    """The same for asyncio."""
    client = (MineToo if kind == "subclass" else aio.Redis)(
        **address_of(redis), single_connection_client=kind == "one connection"
    )
    q: AsyncDPQ[Any] = AsyncDPQ(client, queue_name)
    read = aio.connection.AbstractConnection.read_response
    loop = asyncio.new_event_loop()

    def run(work: Any) -> Any:
        return loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    run(q.push("a"))
    strikes = iter([NUMBER])

    async def struck(connection: Any, *args: Any, **named: Any) -> Any:
        for number in strikes:
            signal.raise_signal(number)
        return await read(connection, *args, **named)

    monkeypatch.setattr(aio.connection.AbstractConnection, "read_response", struck)
    with interrupter(lambda: error("the caller's own")):
        with pytest.raises(error, match="the caller's own"):
            run(q.size())
        for text in (b"one", b"two"):
            assert run(client.echo(text)) == text
    assert run(q.size()) == 1
    run(q.drop())
    run(q.close())
    run(client.aclose())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(step(2) > 1, reason="make test-all")
@pytest.mark.parametrize("kind", ["plain", "subclass", "one connection", "from_url"])
def test_time_limits_at_random_spoil_nothing(redis: Redis, queue_name: str, kind: str) -> None:
    """As real timers strike them, calls raise the limit or are right, and nothing is buried."""
    q = opened(kind, redis, queue_name)
    verbs = [VERBS[verb] for verb in ("push", "get", "pop", "lease", "ack", "release")]
    chance = random.Random(7)
    armed, over, alarm = threading.Event(), threading.Event(), threading.Semaphore(0)
    main = threading.get_ident()
    struck = 0

    def limit(*_: object) -> None:
        if armed.is_set():
            raise TimeLimit("the caller's own")

    def strike() -> None:  # SIGALRM itself is pytest's
        while alarm.acquire() and not over.is_set():
            time.sleep(chance.uniform(0.00005, 0.004))
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)
    striking = threading.Thread(target=strike)
    striking.start()
    try:
        for _ in range(1000):
            prepare, call, _ = chance.choice(verbs)
            made = prepare(q)
            alarm.release()
            try:
                armed.set()
                assert call(q, made)
                armed.clear()
            except TimeLimit:
                struck += 1
            armed.clear()
            assert q.stats().dead == 0
            q.purge()
    finally:
        over.set()
        alarm.release()
        striking.join()
        signal.signal(signal.SIGUSR1, before)
    assert struck > 50
    assert q.check() == []
    q.drop()
    q.close()
    q.redis.close()


class Demanding:
    """A payload type whose validator has a fault: it raises what pydantic does not expect."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(cls.read)

    @staticmethod
    def read(value: dict[str, Any]) -> Any:
        return value["need"]


def test_a_validator_with_a_fault_costs_attempts(redis: Redis, queue_name: str) -> None:
    """What a validator raises reaches the caller of pop as it is, and is a failed attempt each
    time: so it dies when they are spent, and no sound task does."""
    plain = DPQ(redis, queue_name)
    bad = plain.push({}, priority=1, max_attempts=2)
    good = plain.push({"need": 7})
    typed: DPQ[Any] = DPQ(redis, queue_name, payload_type=Demanding)
    for _ in range(2):
        with pytest.raises(KeyError, match="need"):
            typed.pop()
        if not plain.dead.list():
            assert "KeyError: 'need'" in str(plain.get(bad).last_error)
            plain.update(bad, delay=0)
    assert [(task.id, task.attempts) for task in plain.dead.list()] == [(bad, 2)]
    task = typed.pop().task
    assert (task.id, task.payload, task.attempt) == (good, 7, 1)
    assert typed.get(bad).payload == "{}"
    typed.close()
    plain.drop()
    plain.close()
