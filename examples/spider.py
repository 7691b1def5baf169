"""A Scrapy spider whose requests are tasks: run it twice at once, kill one, and nothing is lost.

python examples/spider.py [redis://localhost:6379]

With an address, spiders on any number of machines share the crawl. Without one it has a server of
its own. Either way it crawls two small hosts on loopback: one is asked as often as it allows, the
other answers 429 and is left alone then.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator

import scrapy
from _small_site import small_site
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response


class Pages(scrapy.Spider):
    name = "pages"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for slot, host, pages in zip(("known", "strict"), HOSTS, (12, 3), strict=True):
            for page in range(1, pages + 1):  # both hosts are 127.0.0.1, so each names its slot
                meta = {"download_slot": slot}
                yield scrapy.Request(f"http://{host}/{page}", priority=page, meta=meta)

    def parse(self, response: Response) -> Iterator[dict[str, str]]:
        print(response.status, response.url, flush=True)
        yield {"url": response.url}


async def serve(ready: threading.Event) -> None:
    async with small_site(12, 2) as hosts:
        HOSTS.extend(hosts)
        ready.set()
        await asyncio.Event().wait()


HOSTS: list[str] = []
up = threading.Event()
threading.Thread(target=lambda: asyncio.run(serve(up)), daemon=True).start()
up.wait()
process = CrawlerProcess(
    {
        "SCHEDULER": "dpq.scrapy.Scheduler",
        "DPQ_URL": sys.argv[1] if len(sys.argv) > 1 else "embedded:",
        "DPQ_LIMITS": {"known": {"rate": 12, "per": 1, "slack": 0.1}, "*": "6/s"},
        "LOG_LEVEL": "WARNING",
    }
)
process.crawl(Pages)
process.start()
