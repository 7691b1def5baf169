"""The places of Scrapy's engine into which the scheduler hooks. No I/O.

The first is the call by which the engine forgets a request: its callback has ended, and its items
are through the pipelines. The second is the list of downloader middlewares: a limit is heard before
the middleware that retries. If Scrapy has no such place, the spider does not start. Its signals do
not tell of a request whose download failed, and a middleware in the settings may fight the retries.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from scrapy import Request, Spider, __version__
from scrapy.downloadermiddlewares.retry import RetryMiddleware

from dpq.model.errors import ConfigurationError


def hook_into(
    engine: Any,
    forgotten: Callable[[Callable[[Request], None], Request], None],
    process_response: Callable[..., Any],
    process_exception: Callable[..., Any],
) -> None:
    """Hook into an engine that opens its spider, or raise ConfigurationError.

    `forgotten` must call the engine's own call; the others are as those of a downloader middleware.
    """
    slot = getattr(engine, "_slot", None)
    methods = getattr(getattr(engine.downloader, "middleware", None), "methods", None)
    if slot is None or not hasattr(slot, "remove_request") or methods is None:
        raise ConfigurationError(
            f"Scrapy {__version__} has no ExecutionEngine._slot.remove_request or no "
            "Downloader.middleware.methods: dpq.scrapy was tested with 2.13 and 2.19"
        )
    vars(slot)["remove_request"] = partial(forgotten, slot.remove_request)
    responses: deque[Callable[..., Any]] = methods["process_response"]
    retries = (
        index
        for index, method in enumerate(responses)
        if isinstance(getattr(method, "__self__", None), RetryMiddleware)
    )
    responses.insert(next(retries, len(responses)), process_response)
    methods["process_exception"].append(process_exception)


def is_lost_page(request: Request, status: int, settings: Any, spider: Spider) -> bool:
    """Return True if an answer is an error that was retried in vain, and that nobody has asked for.

    Such a page becomes a dead letter, so that it can be replayed.
    """
    if request.errback or str(status) not in map(str, settings.getlist("RETRY_HTTP_CODES")):
        return False
    if request.meta.get("handle_httpstatus_all") or settings.getbool("HTTPERROR_ALLOW_ALL"):
        return False
    of_spider = getattr(spider, "handle_httpstatus_list", None)
    allowed = request.meta.get("handle_httpstatus_list", of_spider)
    if allowed is None:
        allowed = settings.getlist("HTTPERROR_ALLOWED_CODES")
    return str(status) not in map(str, allowed)
