"""A scheduler for Scrapy: the requests of a crawl are tasks of a queue, shared by many machines.

    SCHEDULER = "dpq.scrapy.Scheduler"
    DPQ_URL = "redis://localhost"
    DPQ_LIMITS = {"*": "2/s"}

Scrapy makes the scheduler from its settings. `scheduler` answers the engine, `link` talks to the
server in the same event loop, `payload` writes requests as JSON, `options` reads the settings.
Nothing here may block the reactor. docs/scrapy.md is for its users.
"""

from dpq.http.wire import missing_extra

try:
    import scrapy  # noqa: F401 - only whether it is there
except ImportError as error:  # pragma: no cover - a test does it in a process of its own
    raise missing_extra("scrapy", error) from error

from dpq.scrapy.scheduler import Scheduler

__all__ = ["Scheduler"]
