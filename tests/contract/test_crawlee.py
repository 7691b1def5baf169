"""`dpq.crawlee`: what crawlee asks of a request queue holds, over two clients of one queue.

Skipped where crawlee is not installed: it is too heavy for each run of the suite.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kit.hosts import Host

from dpq.server import Server

crawlee = pytest.importorskip("crawlee", reason="crawlee is not installed: pip install crawlee")

from crawlee import Request  # noqa: E402
from crawlee.configuration import Configuration  # noqa: E402
from crawlee.crawlers import HttpCrawler, HttpCrawlingContext  # noqa: E402

from dpq.crawlee import DPQRequestQueueClient, DPQStorageClient, request_queue  # noqa: E402

SITE = "https://a.example"
KEEP = Configuration(purge_on_start=False)


def pages(*names: str) -> list[Request]:
    return [Request.from_url(f"{SITE}/{name}", unique_key=name) for name in names]


@asynccontextmanager
async def two(server: Server, name: str) -> AsyncIterator[tuple[Any, Any]]:
    """Two clients of one queue, as two processes have them."""
    async with DPQStorageClient(server.url) as first, DPQStorageClient(server.url) as second:
        yield tuple(
            [await each.create_rq_client(name=name, configuration=KEEP) for each in (first, second)]
        )


async def fetched(*clients: DPQRequestQueueClient) -> list[str | None]:
    found = [await client.fetch_next_request() for client in clients]
    return [request and request.unique_key for request in found]


async def test_requests_are_unique_and_in_order(server: Server, queue_name: str) -> None:
    """A request is added once, also after it is handled; forefront goes first, the last one added
    before the others; all else goes first in, first out."""
    async with two(server, queue_name) as (a, b):
        added = await a.add_batch_of_requests([*pages("1", "2", "3"), *pages("1")])
        assert [(p.unique_key, p.was_already_present) for p in added.processed_requests] == [
            ("1", False),
            ("2", False),
            ("3", False),
        ]
        await b.add_batch_of_requests(pages("4"))
        await b.add_batch_of_requests(pages("5", "6"), forefront=True)
        six = await a.fetch_next_request()
        assert six.unique_key == "6"
        handled = await a.mark_request_as_handled(six)
        assert (handled.was_already_handled, six.handled_at is not None) == (True, True)
        assert await a.mark_request_as_handled(six) is None
        again = (await b.add_batch_of_requests(pages("6", "5", "7"))).processed_requests
        assert [(p.was_already_present, p.was_already_handled) for p in again] == [
            (True, True),
            (True, False),
            (False, False),
        ]
        assert await fetched(a, b, b, a, a, b, a) == ["5", "1", "2", "3", "4", "7", None]
        told = await b.get_metadata()
        assert (told.handled_request_count, told.pending_request_count) == (1, 6)
        assert (told.total_request_count, told.name) == (7, queue_name)
        assert (await a.get_request("1")).url == f"{SITE}/1"
        assert await a.get_request("6") is None
        await a.drop()


async def test_a_reclaimed_request_keeps_its_changes(server: Server, queue_name: str) -> None:
    """It comes back at the end, or at the head, with what crawlee has written into it. Only its
    holder can reclaim it, and only while its lease lives."""
    async with two(server, queue_name) as (a, b):
        await a.add_batch_of_requests(pages("1", "2"))
        one = await a.fetch_next_request()
        one.retry_count = 3
        assert await b.reclaim_request(one) is None
        assert (await a.reclaim_request(one)).was_already_handled is False
        await b.add_batch_of_requests(pages("3"))
        assert await fetched(b) == ["2"]
        one = await b.fetch_next_request()
        assert (one.unique_key, one.retry_count) == ("1", 3)
        await b.reclaim_request(one, forefront=True)
        assert await fetched(a) == ["1"]
        task = a._held["1"]
        await b.queue.release_held(await b.queue.held())
        assert await fetched(b) == ["1"]
        one.retry_count = 9
        assert await a.reclaim_request(one) is None
        assert (await b.get_request("1")).retry_count == 3
        assert await a.mark_request_as_handled(one) is None
        assert task.token < b._held["1"].token
        await a.drop()


async def test_empty_and_finished(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process holds is not finished; what a limit closes is no work, and not finished
    either. A client that ends gives back what it holds."""
    async with two(server, queue_name) as (a, b):
        assert await a.is_empty()
        assert await a.is_finished()
        await a.add_batch_of_requests(pages("1", "2"))
        await a.queue.delay_group("a.example", 60)
        assert await a.is_empty()
        assert not await a.is_finished()
        await a.queue.delay_group("a.example", 0)
        assert not await a.is_empty()  # it takes the first
        assert await fetched(b, a) == ["2", "1"]
        assert (await a.is_empty(), await b.is_finished()) == (True, False)
        await b.aclose()
        assert not await a.is_empty()
        for key in ("1", "2"):
            if key not in a._held:
                await a.fetch_next_request()
            await a.mark_request_as_handled(pages(key)[0])
        assert (await a.is_empty(), await a.is_finished()) == (True, True)
        await a.drop()


async def test_a_lease_is_extended(
    server: Server, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler may take longer than a lease."""
    monkeypatch.setattr(request_queue, "VISIBILITY", 0.3)
    async with two(server, queue_name) as (a, b):
        await a.add_batch_of_requests(pages("1"))
        one = await a.fetch_next_request()
        until = (await a.queue.get(a._held["1"].id)).visible_until
        while (await a.queue.get(a._held["1"].id)).visible_until == until:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert await b.fetch_next_request() is None
        assert await a.mark_request_as_handled(one)
        await a.drop()


async def test_a_crawl(server: Server, queue_name: str) -> None:
    """A crawler visits each page once, retries one that fails, and ends."""
    with Host().serving() as host:
        seen: list[str] = []

        def page(key: str) -> Request:
            return Request.from_url(f"{host.url}/x", unique_key=key)

        async with DPQStorageClient(server.url, prefix=queue_name) as storage:
            crawler = HttpCrawler(storage_client=storage, configure_logging=False)

            @crawler.router.default_handler
            async def visit(context: HttpCrawlingContext) -> None:
                request = context.request
                seen.append(request.unique_key)
                if request.unique_key == "2" and request.retry_count == 0:
                    raise ConnectionError("once")
                if request.unique_key == "1":
                    await context.add_requests([page("1"), page("2"), page("3")])

            await crawler.run([page("1"), page("2"), page("2")])
            assert sorted(seen) == ["1", "2", "2", "3"]
            (client,) = storage._opened
            assert await client.is_finished()
            stats = await client.queue.stats()
            assert (stats.pushed, stats.acked) == (3, 3)
            await client.drop()
