"""Transports while the limiter is away: an answer that the host has given is the caller's.

The limiter is a server of each test's own, which is killed, or a queue whose scripts fail.
"""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from kit.awaited import asyncio_queue
from kit.clients import asking, blocking, got
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError

import dpq.httpx
from dpq import DPQ, ConfigurationError
from dpq.http import wire
from dpq.server import Server, find_binary

GROUP = "127.0.0.1"


@pytest.fixture
def limiter() -> Iterator[Server]:
    server = Server.start(find_binary())
    yield server
    server.close()


def kill(server: Server) -> None:
    os.kill(server.pid, signal.SIGKILL)


class Failing:
    """Makes the scripts of a queue fail, as in a failover; says how often."""

    def __init__(self, q: Any, *scripts: str, error: BaseException | None = None) -> None:
        self.count = 0
        original = q._session.connections.call_all

        def call_all(commands: Any) -> Any:
            if any(command.script.name in scripts for command in commands):
                self.count += 1
                raise error or ReadOnlyError("You can't write against a read only replica.")
            return original(commands)

        q._session.connections.call_all = call_all


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if getattr(r, "event", "") == event]


def test_answers_come_though_the_limiter_dies(limiter, host, caplog):
    """Ten requests over three connections: all answers come, and no connection is lost."""
    with DPQ.from_url(limiter.url, "limits") as q:
        q.set_limit(concurrency=10, group=GROUP)
        taken = threading.Barrier(10, action=lambda: kill(limiter))
        # httpcore may close an idle connection that another thread has just begun to use.
        limits = httpx.Limits(max_connections=3, max_keepalive_connections=0)
        pool = httpx.HTTPTransport(limits=limits)

        class Inner(httpx.BaseTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                taken.wait(60)
                return pool.handle_request(request)

            def close(self) -> None:
                pool.close()

        answers: list[httpx.Response] = []

        def post() -> None:
            answers.append(client.post(host.url, json={"paid": True}))

        transport = dpq.httpx.Transport(q, transport=Inner())
        with httpx.Client(transport=transport, timeout=60) as client:
            threads = [threading.Thread(target=post) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [answer.status_code for answer in answers] == [200] * 10
            assert len(host.came) == 10
            idle = [connection.is_idle() for connection in pool._pool.connections]
            assert len(idle) <= 3
            assert all(idle)
            with pytest.raises(RedisConnectionError):
                client.get(host.url)
    assert len(host.came) == 10
    assert len(told(caplog, "permit_not_told")) == 10
    assert all(f"group '{GROUP}', host '{GROUP}'" in t for t in told(caplog, "permit_not_told"))


@pytest.fixture(params=["httpx", "requests"])
def opened(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes clients of a kind over a queue."""
    made: list[Any] = []

    def make(q: DPQ[Any], **options: Any) -> Any:
        made.append(blocking(request.param, q, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("path", ["", "429", "left", "stream"])
def test_a_report_that_fails_spoils_nothing(live, host, opened, caplog, path):
    """The answer is whole, whatever it is, and so is the next one; the caller's log says it."""
    host.more.set()
    live.set_limit(concurrency=1, group=GROUP)
    failing = Failing(live, "observe", "met_limit", "permit")
    answer = opened(live).post(f"{host.url}/{path}")
    assert answer.status_code == (429 if path == "429" else 200)
    assert answer.text == {"429": "too many", "stream": "abcd"}.get(path, "ok")
    assert failing.count == (2 if path == "left" else 1)
    assert len(told(caplog, "permit_not_told")) == failing.count
    assert live._leases._held == {}  # its lease runs out


def test_a_permit_whose_end_fails(live, caplog):
    """The body of `with q.acquire()` is done: what it has made is the caller's."""
    live.set_limit(concurrency=1, group="g")
    Failing(live, "permit", "met_limit")
    with live.acquire("g") as permit:
        pass
    assert permit.report(429, {"Retry-After": "5"})
    assert len(told(caplog, "permit_not_told")) == 2
    with pytest.raises(ConfigurationError, match="scope"):
        permit.report(429, {"Retry-After": "5"}, scope="all")


def test_requests_pass_while_the_limiter_is_away(limiter, host, opened, caplog, monkeypatch):
    """One line tells when that begins and one when it ends; meanwhile one in a second asks."""
    caplog.set_level(logging.INFO, "dpq")
    now = [0.0]
    monkeypatch.setattr(wire.time, "monotonic", lambda: now[0])
    with DPQ.from_url(limiter.url, "limits") as q:
        q.set_limit(100, 1, 100, group=GROUP)
        client = opened(q, when_away="pass")
        assert client.get(host.url).text == "ok"
        away = Failing(q, "acquire", error=RedisConnectionError("away"))
        for _ in range(10):
            assert client.get(host.url).text == "ok"
        assert away.count == 1
        now[0] += wire.ASK_LIMITER_SECONDS
        for _ in range(10):
            assert client.get(host.url).text == "ok"
        assert away.count == 2
        assert len(told(caplog, "limiter_away")) == 1
        del q._session.connections.call_all
        now[0] += wire.ASK_LIMITER_SECONDS
        assert client.get(host.url).text == "ok"
        assert [told(caplog, "limiter_back")] == [
            ["limits: the limiter is back; 20 requests were sent without a permit"]
        ]
        Failing(q, "acquire", error=RedisConnectionError("away"))
        assert client.get(host.url).text == "ok"
        assert len(told(caplog, "limiter_away")) == 2
    assert len(host.came) == 23


def test_it_raises_unless_told(live, host, opened):
    """Nothing was sent."""
    Failing(live, "acquire")
    with pytest.raises(ReadOnlyError):
        opened(live).get(host.url)
    assert host.came == []


# What interrupts a request


def test_an_interrupted_report_closes_the_answer(live):
    """The caller has no answer to close."""
    closed: list[bool] = []

    class Body(httpx.ByteStream):
        def close(self) -> None:
            closed.append(True)

    inner = httpx.MockTransport(
        lambda _: httpx.Response(429, headers={"Retry-After": "5"}, stream=Body(b"no"))
    )
    Failing(live, "met_limit", error=KeyboardInterrupt())
    ours = dpq.httpx.Transport(live, transport=inner)
    with httpx.Client(transport=ours) as client, pytest.raises(KeyboardInterrupt):
        client.get("http://api.example")
    assert closed == [True]


@pytest.mark.parametrize("path", ["stream", "429", "left"])
@pytest.mark.parametrize("kind", ["httpx", "aiohttp"])
async def test_a_cancelled_request_ends_its_permit(redis, queue_name, host, kind, path):
    """While it waits for the answer, or reports it: no lease is left, and no connection."""

    async def ask() -> None:
        async with asking(kind, q) as client:
            await got(client, f"{host.url}/{path}")

    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit(concurrency=1, group=GROUP)
        reporting = asyncio.Event()
        original = q._session.connections.call_all

        async def call_all(commands: Any) -> Any:
            if any(command.script.name in ("met_limit", "observe") for command in commands):
                reporting.set()
                await asyncio.sleep(0.05)
            return await original(commands)

        q._session.connections.call_all = call_all  # type: ignore[method-assign]
        asked = asyncio.create_task(ask())
        if path != "stream":
            await asyncio.wait_for(reporting.wait(), 60)
        else:
            deadline = time.monotonic() + 60
            while not host.came and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await asyncio.gather(*q._background)
        assert q._leases._held == {}
        state = await q.admin.group(GROUP)
        assert state.in_flight == 0
        assert state.reason == ("rate limited" if path == "429" else None)
