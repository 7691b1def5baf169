"""True-up over HTTP: what an answer says it has spent replaces what was charged, in each client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx
import pytest
import requests
from kit.awaited import asyncio_queue
from kit.hosts import Host

import dpq.aiohttp
import dpq.httpx
import dpq.requests
from dpq import DPQ, AsyncDPQ, RateLimit
from dpq.httpx import Answer, openai_usage

GROUP = "127.0.0.1"
LIMIT = RateLimit(1, 3600, 1000, unit="tokens")
COST = {"tokens": 100}
WHOLE = '{"text": "hello", "usage": {"total_tokens": 7}}'
EVENTS = 'data: {"usage": null}\n\ndata: {"usage": {"total_tokens": 9}}\n\ndata: [DONE]\n\n'
BODIES = [("usage", WHOLE, 993), ("events", EVENTS, 991), ("", "ok", 900)]


@pytest.fixture
def host() -> Iterator[Host]:
    with Host().serving() as host:
        yield host


def open_client(kind: str, q: DPQ[Any], **options: Any) -> Any:
    """A blocking client whose requests cost 100 tokens."""
    if kind == "httpx":
        return httpx.Client(transport=dpq.httpx.Transport(q, cost=COST, **options))
    session = requests.Session()
    session.mount("http://", dpq.requests.Adapter(q, cost=COST, **options))
    return session


def left(q: DPQ[Any]) -> int:
    return round(q.admin.group(GROUP).units_left[0])


def lines_of(client: Any, url: str) -> Iterator[str]:
    """The body of an answer, as it comes."""
    if isinstance(client, httpx.Client):
        with client.stream("GET", url) as response:
            yield from response.iter_text()
        return
    with client.get(url, stream=True) as response:
        yield from response.iter_content(None, decode_unicode=False)


KINDS = pytest.mark.parametrize("kind", ["httpx", "requests"])
AIO_KINDS = pytest.mark.parametrize("kind", ["httpx", "aiohttp"])


@KINDS
@pytest.mark.parametrize(("path", "body", "kept"), BODIES)
def test_what_an_answer_says_is_charged(live, host, kind, path, body, kept):
    """The caller gets all of the body; one that says nothing stays charged as it was."""
    live.set_limit(LIMIT, group=GROUP)
    with open_client(kind, live, spent=openai_usage) as client:
        assert client.get(f"{host.url}/{path}").text == body
        assert left(live) == kept
        parts = list(lines_of(client, f"{host.url}/{path}"))
        assert "".join(p if isinstance(p, str) else p.decode() for p in parts) == body
        assert left(live) == 2 * kept - 1000
    assert live.check() == []


@KINDS
@pytest.mark.parametrize("path", ["usage", "events"])
def test_a_function_that_fails_spoils_nothing(live, host, kind, path, caplog):
    """Its error, or a cost that is none, is logged; the answer is whole, and the permit ends."""
    live.set_limit(LIMIT, group=GROUP, concurrency=1)
    costs: list[Callable[[Answer], Any]] = [
        lambda answer: 1 // 0,
        lambda answer: {"tokens": -5},
        lambda answer: "7",
        lambda answer: answer.usage["tokens"],
    ]
    for n, spent in enumerate(costs, 1):
        with open_client(kind, live, spent=spent, timeout=0) as client:
            body = client.get(f"{host.url}/{path}").text
        assert body == (WHOLE if path == "usage" else EVENTS)
        assert left(live) == 1000 - 100 * n
    assert caplog.text.count("cannot say what an answer has spent of group '127.0.0.1'") == 4
    assert "ZeroDivisionError" in caplog.text


@asynccontextmanager
async def asking(kind: str, q: AsyncDPQ[Any], **options: Any) -> AsyncIterator[Any]:
    """Opens an asyncio client."""
    if kind == "httpx":
        transport = dpq.httpx.AsyncTransport(q, cost=COST, **options)
        async with httpx.AsyncClient(transport=transport) as client:
            yield client
    else:
        middleware = dpq.aiohttp.Middleware(q, cost=COST, **options)
        async with aiohttp.ClientSession(middlewares=[middleware]) as session:
            yield session


@AIO_KINDS
async def test_asyncio_clients(redis, queue_name, host, kind, caplog):
    """They do as the blocking ones, streams that are left and functions that fail included."""
    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit(LIMIT, group=GROUP, concurrency=1)

        async def get(path: str) -> str:
            response = await client.get(f"{host.url}/{path}")
            text = response.text if kind == "httpx" else await response.text()
            await asyncio.gather(*q._background)
            return text

        async with asking(kind, q, spent=openai_usage, timeout=60) as client:
            for path, body, _ in BODIES:
                assert await get(path) == body
            if kind == "httpx":
                async with client.stream("GET", f"{host.url}/stream"):
                    pass
            else:
                async with client.get(f"{host.url}/stream"):
                    pass
        async with asking(kind, q, spent=lambda answer: 1 // 0, timeout=60) as client:
            assert await get("usage") == WHOLE
        assert round((await q.admin.group(GROUP)).units_left[0]) == 1000 - 7 - 9 - 3 * 100
        assert "ZeroDivisionError" in caplog.text
        assert await q.check() == []
