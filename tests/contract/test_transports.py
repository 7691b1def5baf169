"""Transports for httpx, requests, aiohttp: each request on the wire takes a unit, 429s are heard.

A real server on this machine counts the requests.
"""

import asyncio
import pickle
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
from kit.awaited import asyncio_client, asyncio_queue
from kit.clients import CUT, HTTPX, asking, blocking, got
from kit.hosts import Host
from redis import Redis

import dpq.requests
from dpq import DPQ, AsyncDPQ, ConfigurationError, LimitTimeoutError
from dpq.http.exchange_async import AsyncExchange
from dpq.http.wire import Options

GROUP = "127.0.0.1"


Open = Callable[..., Any]


@pytest.fixture(params=[*HTTPX, "requests"])
def opened(request: pytest.FixtureRequest, live: DPQ[Any]) -> Iterator[Open]:
    """Makes clients of a kind over the queue."""
    made: list[Any] = []

    def make(group: Any = None, **options: Any) -> Any:
        made.append(blocking(request.param, live, group, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def streamed(client: Any, url: str) -> Any:
    """A response whose body is not read yet."""
    if not isinstance(client, requests.Session):
        return client.send(client.build_request("GET", url), stream=True)
    return client.get(url, stream=True)


def test_each_request_takes_a_unit(live, host, opened):
    """Redirects take units of their own, and no window of the host has more than the limit."""
    live.set_limit(20, 1, group=GROUP, slack=0.1)
    client = opened()
    assert client.get(f"{host.url}/4").text == "ok"
    for _ in range(5):
        assert client.get(host.url).status_code == 200
    assert len(host.came) == 10
    assert live.admin.group(GROUP).units_left[0] <= 1
    assert host.came[-1][0] - host.came[0][0] > 0.3


def test_programs_share_the_limit(live, host, opened):
    """What one client has taken another one, and a worker, do not get."""
    live.set_limit(1, 60, group=GROUP)
    live.push("x", group=GROUP)
    assert opened().get(host.url).status_code == 200
    assert live.pop().task is None
    with pytest.raises(LimitTimeoutError):
        opened(timeout=0).get(host.url)
    assert len(host.came) == 1


@pytest.mark.parametrize(("path", "seconds"), [("429", 30), ("told", 40), ("403", 60)])
def test_a_429_is_heard_and_returned(live, host, opened, path, seconds):
    """The caller gets the answer as it is; all others wait, also if only its body says that."""
    client = opened(timeout=0)
    answer = client.get(f"{host.url}/{path}")
    assert (answer.status_code in (403, 429), "too many" in answer.text) == (True, True)
    assert live.admin.group(GROUP).reason == "rate limited"
    with pytest.raises(LimitTimeoutError) as raised:
        client.get(host.url)
    assert seconds - 10 < raised.value.retry_after <= seconds
    assert len(host.came) == 1


def test_a_stream_is_untouched(live, host, opened):
    """The body comes as it is sent; with a concurrency its end is the end of the permit."""
    live.set_limit(concurrency=1, group=GROUP)
    client = opened()
    response = streamed(client, f"{host.url}/stream")
    chunks = iter(
        response.iter_content(2) if isinstance(client, requests.Session) else response.iter_bytes(2)
    )
    assert next(chunks) == b"ab"
    assert live.admin.group(GROUP).reason == "concurrency"
    host.more.set()
    assert b"".join(chunks) == b"cd"
    response.close()
    assert live.admin.group(GROUP).open
    assert client.get(host.url).text == "ok"
    assert live.admin.group(GROUP).open
    assert live.check() == []


def test_a_429_whose_body_nobody_reads(live, host, opened):
    """It is heard when the answer is closed, and closes for what its headers say: no time."""
    streamed(opened(), f"{host.url}/told").close()
    state = live.admin.group(GROUP)
    assert 3 < (state.opens_at - datetime.now(UTC)).total_seconds() <= 5


@pytest.mark.parametrize("kind", HTTPX)
@pytest.mark.parametrize("way", ["proxy", "mounts", "environment"])
def test_no_proxy_leads_past_the_limit(live, host, kind, way, monkeypatch):
    """A client's proxies and mounts, and those of the environment, take units; a host has one name,
    however it is spelled."""
    library, ours = HTTPX[kind]
    live.set_limit(1, 60, group="xn--bcher-kva.invalid")
    if way == "environment":
        monkeypatch.setenv("HTTP_PROXY", host.url)
        client = library.Client(transport=ours.Transport(live, timeout=0))
    else:
        through = library.HTTPTransport(proxy=host.url)
        given = {"mounts": {"http://": through}} if way == "mounts" else {"proxy": host.url}
        client = ours.limited(library.Client(**given), live, timeout=0)
    with client:
        assert client.get("http://xn--bcher-kva.invalid/x").text == "ok"
        with pytest.raises(LimitTimeoutError):
            client.get("http://BÜCHER.invalid.:80/x")
    assert len(host.came) == 1


def test_an_error_ends_the_permit(live, host, opened):
    """A connection that is cut raises the client's own error, and gives the lease back."""
    live.set_limit(concurrency=1, group=GROUP)
    with pytest.raises(CUT):
        opened().get(f"{host.url}/cut")
    assert live.admin.group(GROUP).open


def test_options(live, host, opened):
    """Group, cost and priority may be functions of the request."""
    live.set_limit(60, 60, 10, group="api")
    client = opened(lambda _: "api", cost=lambda _: 3, priority=lambda _: 7)
    assert client.get(host.url).text == "ok"
    assert 6.9 < live.admin.group("api").units_left[0] < 7.5
    assert opened("api").get(host.url).text == "ok"
    assert opened(lambda _: "x" * 999 + "\n").get(host.url).text == "ok"
    assert opened(lambda _: None).get(host.url).text == "ok"


@pytest.mark.parametrize("kind", [*HTTPX, "aiohttp"])
async def test_asyncio_clients(redis: Redis, queue_name: str, host: Host, kind: str) -> None:
    """Units, redirects, 429s, leases and errors as with the blocking clients."""

    async def get(path: str = "", **options: Any) -> tuple[int, str]:
        async with asking(kind, q, **options) as client:
            return (await got(client, f"{host.url}/{path}"))[:2]

    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit(100, 1, burst=9, group=GROUP, concurrency=1)
        assert await get("4") == (200, "ok")
        assert len(host.came) == 5
        with pytest.raises(CUT):
            await get("cut")
        assert await get(timeout=60) == (200, "ok")
        assert (await get("told"))[0] == 429
        async with asyncio.timeout(60):
            while (await q.admin.group(GROUP)).open:  # noqa: ASYNC110 - aiohttp ends it in a task
                await asyncio.sleep(0.01)
        left = (await q.admin.group(GROUP)).opens_at - datetime.now(UTC)
        assert 5 < left.total_seconds() <= 40
        with pytest.raises(LimitTimeoutError):
            await get(timeout=0)
        assert await q.check() == []


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - of this test


@pytest.mark.parametrize("copied", [pickled, copy, deepcopy])
@pytest.mark.parametrize("options", [{}, {"spent": lambda answer: 1}])
def test_a_response_of_requests_can_be_copied(live, host, copied, options):
    """A cache may pickle a response and its request; the copies have no permit of their own."""
    live.set_limit(concurrency=2, group=GROUP)
    with requests.Session() as session:
        session.mount("http://", dpq.requests.Adapter(live, **options))
        response = session.get(host.url)
        again = copied(response)
        assert (again.text, again.request.url) == (response.text, response.request.url)
        assert copied(response.request).method == "GET"


@pytest.mark.parametrize(("client", "ours"), HTTPX.values(), ids=HTTPX)
def test_a_client_enters_and_leaves_the_inner_transport(live, redis, client, ours):
    """A transport that opens something when it is entered works as it does without DPQ."""
    heard: list[str] = []

    class Inner(client.MockTransport):
        def __enter__(self) -> Any:
            heard.append("in")
            return self

        def __exit__(self, *_: object) -> None:
            heard.append("out")

        async def __aenter__(self) -> Any:
            return self.__enter__()

        async def __aexit__(self, *_: object) -> None:
            self.__exit__()

    async def awaited() -> None:
        transport = ours.AsyncTransport(AsyncDPQ(asyncio_client(redis), "any"), transport=inner)
        async with client.AsyncClient(transport=transport):
            heard.append("async")

    inner = Inner(lambda request: client.Response(200))
    with client.Client(transport=ours.Transport(live, transport=inner)):
        heard.append("body")
    asyncio.run(awaited())
    assert heard == ["in", "body", "out", "in", "async", "out"]


@pytest.mark.parametrize("name", HTTPX)
def test_an_async_transport_says_that_it_needs_asyncio(name):
    """Under trio, which httpx supports, a request ends with what to do, before it is sent."""
    transport = HTTPX[name][1].AsyncTransport(None)
    with pytest.raises(ConfigurationError, match="under trio, use a Client"):
        transport.handle_async_request(None).send(None)


def test_a_wrong_group_or_queue_is_named(opened, live):
    """A function that returns no name, and a queue of the other kind, end before a request."""
    with pytest.raises(ConfigurationError, match="group is 5: it must be a name"):
        opened(lambda request: 5).get("http://a.example/")
    with pytest.raises(ConfigurationError, match="this client needs an AsyncDPQ"):
        AsyncExchange(live, Options(None))
