"""HTTP clients over DPQ's transports, of each library."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx
import httpx2
import requests

import dpq.aiohttp
import dpq.httpx
import dpq.httpx2
import dpq.requests
from dpq import DPQ, AsyncDPQ

HTTPX: dict[str, tuple[Any, Any]] = {"httpx": (httpx, dpq.httpx), "httpx2": (httpx2, dpq.httpx2)}
"""The libraries that are alike, and DPQ's module for each."""

CUT = (httpx.TransportError, httpx2.TransportError, requests.ConnectionError, aiohttp.ClientError)
"""The errors of the libraries for a connection that is cut."""


def blocking(kind: str, q: DPQ[Any], group: Any = None, **options: Any) -> Any:
    """A client of `kind` that follows redirects; its caller closes it."""
    if kind in HTTPX:
        library, ours = HTTPX[kind]
        transport = ours.Transport(q, group, **options)
        return library.Client(transport=transport, follow_redirects=True)
    session = requests.Session()
    session.mount("http://", dpq.requests.Adapter(q, group, **options))
    return session


@asynccontextmanager
async def asking(
    kind: str, q: AsyncDPQ[Any], *, headers: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[Any]:
    """An asyncio client of `kind`, closed behind the block."""
    if kind in HTTPX:
        library, ours = HTTPX[kind]
        async with library.AsyncClient(
            transport=ours.AsyncTransport(q, **options), headers=headers, follow_redirects=True
        ) as client:
            yield client
    else:
        middleware = dpq.aiohttp.Middleware(q, **options)
        async with aiohttp.ClientSession(middlewares=[middleware], headers=headers) as session:
            yield session


async def got(client: Any, url: str) -> tuple[int, str, Any]:
    """The status, the body and the permit of one answer."""
    if isinstance(client, aiohttp.ClientSession):
        async with client.get(url) as answer:
            return answer.status, await answer.text(), answer.dpq_permit  # type: ignore[attr-defined]
    response = await client.get(url)
    return response.status_code, response.text, response.extensions["dpq_permit"]
