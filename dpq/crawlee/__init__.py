"""DPQ as the request queue of crawlee: leases, limits of hosts, many processes.

    async with DPQStorageClient("redis://localhost") as storage:
        crawler = HttpCrawler(storage_client=storage)
        await crawler.run(["https://a.example"])

`storage` opens the queues; datasets and key-value stores stay with another storage client of
crawlee. `request_queue` says what each method of crawlee becomes.

Source: docs/guides/crawlee.md.
"""

from dpq.queue.wire import missing_extra

try:
    import crawlee  # noqa: F401 - the error names the way out
except ImportError as error:  # a test hides the library
    raise missing_extra("crawlee", error) from error

from dpq.crawlee.request_queue import DPQRequestQueueClient
from dpq.crawlee.storage import DPQStorageClient

__all__ = ["DPQRequestQueueClient", "DPQStorageClient"]
