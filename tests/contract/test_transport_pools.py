"""Transports and pools: each request has the key of its permit, and a 429 closes that member."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from kit.awaited import asyncio_queue
from kit.clients import asking, blocking, got

from dpq import DPQ, ConfigurationError, LimitTimeoutError, RateLimit

GROUP = "127.0.0.1"
KEYS = {"a": "secret-a", "b": "secret-b"}


def set_key(request: Any, permit: Any) -> None:
    """The documented pattern: the key of the permit's member."""
    if permit.member:
        request.headers["X-Api-Key"] = KEYS[permit.member]


def member_of(request: Any) -> str | None:
    """The member whose key a request has."""
    key = request.headers.get("X-Api-Key")
    return next((name for name, value in KEYS.items() if value == key), None)


Ask = Callable[..., Any]


@pytest.fixture(params=["httpx", "requests"])
def ask(request: pytest.FixtureRequest, live: DPQ[Any]) -> Iterator[Ask]:
    """Sends one request: `ask(url, key=None, **options)` gives its response."""
    made: list[Any] = []

    def send(url: str, key: str | None = None, **options: Any) -> Any:
        made.append(blocking(request.param, live, **options))
        if key:
            made[-1].headers["X-Api-Key"] = key
        return made[-1].get(url)

    yield send
    for each in made:
        each.close()


def permit_of(response: Any) -> Any:
    """The permit beside a response, and the same one beside its request."""
    if isinstance(response, httpx.Response):
        assert response.request.extensions["dpq_permit"] is response.extensions["dpq_permit"]
        return response.extensions["dpq_permit"]
    assert response.request.dpq_permit is response.dpq_permit
    return response.dpq_permit


def open_members(q: DPQ[Any]) -> list[bool]:
    return [member.open for member in q.admin.group(GROUP).members]


def test_the_key_of_the_permit_is_sent(live, host, ask):
    """`prepare` sets it before each request, and the response says whose permit it was."""
    live.set_limit(9, 1, 9, group=GROUP, members=["a", "b"])
    responses = [ask(host.url, prepare=set_key) for _ in range(4)]
    assert host.keys == [KEYS[permit_of(response).member] for response in responses]
    assert sorted(host.keys) == ["secret-a", "secret-a", "secret-b", "secret-b"]


@pytest.mark.parametrize("limited", ["a", "b"])
def test_a_429_closes_the_member_that_was_used(live, host, ask, limited):
    """Never another one: with the key of the permit, and with a key of the caller's own."""
    live.set_limit(9, 1, 9, group=GROUP, members=["a", "b"])
    host.limited = {KEYS[limited]}
    statuses = [ask(host.url, prepare=set_key, timeout=0).status_code for _ in range(6)]
    assert sorted(statuses) == [200] * 5 + [429]
    assert open_members(live) == [limited != "a", limited != "b"]
    live.delay_group(GROUP, 0, member=limited)
    host.limited = {KEYS["b"]}
    named = {"key": KEYS["b"], "member": member_of, "timeout": 0}
    assert ask(host.url, **named).status_code == 429
    assert open_members(live) == [True, False]
    with pytest.raises(LimitTimeoutError):
        ask(host.url, **named)
    assert ask(host.url, KEYS["a"], member=member_of, timeout=0).status_code == 200
    assert live.check() == []


@pytest.mark.parametrize("kind", ["httpx", "requests"])
def test_a_redirect_to_another_host_carries_no_key(live, host, kind):
    """What `prepare` has set was for one request; the caller's own headers stay."""
    live.set_limit(9, 1, 9, group=GROUP, members=["a"])
    with blocking(kind, live, prepare=set_key) as client:
        response = client.get(f"{host.url}/away")
    assert response.text == "ok"
    assert host.keys == ["secret-a", ""]
    assert permit_of(response).group == "localhost"


@pytest.mark.parametrize("kind", ["httpx", "aiohttp"])
async def test_asyncio_clients(redis, queue_name, host, kind):
    """They do the same, by the same options."""

    async def ask(key: str | None = None, path: str = "", **options: Any) -> int:
        headers = {"X-Api-Key": key} if key else {}
        async with asking(kind, q, headers=headers, **options) as client:
            status, _, permit = await got(client, host.url + path)
            permits.append(permit)
            return status

    permits: list[Any] = []
    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit(RateLimit(9, 1, 9), group=GROUP, members=["a", "b"])
        assert [await ask(prepare=set_key) for _ in range(2)] == [200, 200]
        assert host.keys == [KEYS[permit.member] for permit in permits]
        host.limited = {KEYS["b"]}
        assert await ask(KEYS["b"], member=member_of) == 429
        assert [member.open for member in (await q.admin.group(GROUP)).members] == [True, False]
        assert await ask(prepare=set_key, timeout=0) == 200
        host.came.clear()
        assert await ask(prepare=set_key, path="/away") == 200
        assert host.keys == ["secret-a", ""]
        with pytest.raises(ConfigurationError, match="is a pool"):
            await ask()
        async with q.acquire(GROUP, member="a") as permit:
            assert permit.member == "a"
        with pytest.raises(LimitTimeoutError):
            async with q.acquire(GROUP, member="b", timeout=0):
                pytest.fail("granted")
