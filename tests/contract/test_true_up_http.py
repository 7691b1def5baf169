"""True-up over HTTP: what an answer says it has spent replaces what was charged, in each client."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from kit.awaited import asyncio_queue
from kit.clients import asking, blocking, got

from dpq import DPQ, RateLimit
from dpq.httpx import Answer, openai_usage

GROUP = "127.0.0.1"
LIMIT = RateLimit(1, 3600, 1000, unit="tokens")
COST = {"tokens": 100}
WHOLE = '{"text": "hello", "usage": {"total_tokens": 7}}'
EVENTS = 'data: {"usage": null}\n\ndata: {"usage": {"total_tokens": 9}}\n\ndata: [DONE]\n\n'
BODIES = [("usage", WHOLE, 993), ("events", EVENTS, 991), ("", "ok", 900)]


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


@KINDS
@pytest.mark.parametrize(("path", "body", "kept"), BODIES)
def test_what_an_answer_says_is_charged(live, host, kind, path, body, kept):
    """The caller gets all of the body; one that says nothing stays charged as it was."""
    live.set_limit(LIMIT, group=GROUP)
    with blocking(kind, live, cost=COST, spent=openai_usage) as client:
        assert client.get(f"{host.url}/{path}").text == body
        assert left(live) == kept
        parts = list(lines_of(client, f"{host.url}/{path}"))
        assert "".join(p if isinstance(p, str) else p.decode() for p in parts) == body
        if kind == "httpx":  # the parts pass its transport as they were sent
            assert {each.accepts for each in host.came} == {"identity"}
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
        with blocking(kind, live, cost=COST, spent=spent, timeout=0) as client:
            body = client.get(f"{host.url}/{path}").text
        assert body == (WHOLE if path == "usage" else EVENTS)
        assert left(live) == 1000 - 100 * n
    assert caplog.text.count("cannot say what an answer has spent of group '127.0.0.1'") == 4
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("kind", ["httpx", "aiohttp"])
async def test_asyncio_clients(redis, queue_name, host, kind, caplog):
    """They do as the blocking ones, streams that are left and functions that fail included."""
    async with asyncio_queue(redis, queue_name) as q:
        await q.set_limit(LIMIT, group=GROUP, concurrency=1)

        async def get(path: str) -> str:
            text = (await got(client, f"{host.url}/{path}"))[1]
            await asyncio.gather(*q._background)
            return text

        async with asking(kind, q, cost=COST, spent=openai_usage, timeout=60) as client:
            for path, body, _ in BODIES:
                assert await get(path) == body
            if kind == "httpx":
                async with client.stream("GET", f"{host.url}/stream"):
                    pass
            else:
                async with client.get(f"{host.url}/stream"):
                    pass
        async with asking(kind, q, cost=COST, spent=lambda answer: 1 // 0, timeout=60) as client:
            assert await get("usage") == WHOLE
        assert round((await q.admin.group(GROUP)).units_left[0]) == 1000 - 7 - 9 - 3 * 100
        assert "ZeroDivisionError" in caplog.text
        assert await q.check() == []
