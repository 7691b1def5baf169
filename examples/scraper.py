"""Fetch pages, twenty at once, best first, under the limits of their hosts.

python examples/scraper.py [redis://localhost:6379]

With an address: what api.py pushes there, until Ctrl-C. Without one: the pages of two hosts of its
own, side by side: one is asked as often as it allows, the other answers 429 and is left alone then.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from functools import partial

from _small_site import small_site
from httpx import AsyncClient

from dpq import AsyncDPQ, AsyncWorker, Context, Push, Task


async def fetch(http: AsyncClient, task: Task[dict[str, str]]) -> None:
    response = await http.get(task.payload["url"])
    print(f"{response.status_code} {response.url}, priority {task.priority}", flush=True)
    # After a 429 the task is back in its place, uncounted, and nobody asks this host meanwhile. A
    # 404 is a dead letter. Any other error is a failed attempt: again, after a while.
    response.raise_for_status()


def complain(context: Context, error: BaseException) -> None:
    print(f"failed: {context.task.payload['url']}: {error!r}", flush=True)


async def push_pages(q: AsyncDPQ, known: str, strict: str) -> None:
    await q.set_limit(12, per=1, slack=0.1, group=known)  # slack: on the way calls may come closer
    pages = [(known, n) for n in range(1, 13)] + [(strict, n) for n in range(1, 4)]
    await q.push_many(Push({"url": f"http://{host}/{n}"}, n, group=host) for host, n in pages)
    await q.push({"url": f"http://{known}/missing"}, group=known)


async def main(url: str | None = None) -> None:
    async with AsyncDPQ.from_url(url or "embedded:", "pages") as q, AsyncExitStack() as stack:
        await q.set_limit(6, per=1, group="*")  # every host without a limit of its own
        if not url:
            hosts = await stack.enter_async_context(small_site(12, 2))
            await push_pages(q, *hosts)
        http = await stack.enter_async_context(AsyncClient())
        worker = AsyncWorker(q, partial(fetch, http), concurrency=20, on_error=complain)
        await worker.run(until_empty=not url, signals=True)


asyncio.run(main(*sys.argv[1:]))
