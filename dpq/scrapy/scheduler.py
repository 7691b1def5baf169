"""The scheduler that Scrapy's engine asks: it answers at once, and leaves all I/O to the link.

The engine calls `enqueue_request`, `next_request` and `has_pending_requests`. Scrapy has no signal
for the end of a request, so the scheduler hooks into the engine (`hooks`).
"""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import Scheduler as ScrapyScheduler
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro

from dpq.http.wire import group_name
from dpq.limits.answers import limits_in
from dpq.limits.signals import RateLimited, Reject, Retry
from dpq.model.errors import ConfigurationError, DPQError, PayloadError
from dpq.model.task import Push
from dpq.model.validation import error_line
from dpq.queue.queue_async import AsyncDPQ
from dpq.scrapy.hooks import hook_into, is_lost_page
from dpq.scrapy.link import Delivery, Link
from dpq.scrapy.options import own_pace, read_options, slot_of
from dpq.scrapy.payload import OURS, Payloads

log = logging.getLogger(__name__)


class Scheduler:
    """The scheduler of one spider: `SCHEDULER = "dpq.scrapy.Scheduler"`.

    Each request is a task. Its group is the download slot, its priority that of the request, and
    its key the fingerprint. The lease is kept until the page is done.
    """

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        """Make the scheduler of a crawler, as Scrapy does.

        `check`, `fetch`, `parse` and `bench` put a start of their own into the spider, and `shell`
        crawls nothing: they are no part of the crawl, and get Scrapy's own scheduler.

        Raises:
            ConfigurationError: A setting is missing or wrong.
        """
        start = getattr(crawler.spider.start, "__module__", "")
        if not crawler.crawling or start.startswith("scrapy.commands."):
            return ScrapyScheduler.from_crawler(crawler)
        return cls(crawler)

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._spider: Spider = crawler.spider
        self._options = read_options(crawler.settings, self._spider.name)
        self._payloads = Payloads(self._spider, crawler.settings)
        self._held: dict[Request, Delivery] = {}
        self._link: Link | None = None
        self._own = ScrapyScheduler.from_crawler(crawler)  # what JSON cannot say
        self._taken = 0

    # The engine's questions

    def open(self, spider: Spider) -> Any:
        """Connect to the queue; the engine waits for the result.

        Raises:
            ConfigurationError: Scrapy runs without asyncio.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            raise ConfigurationError(
                "dpq.scrapy needs asyncio: leave TWISTED_REACTOR as Scrapy sets it, "
                '"twisted.internet.asyncioreactor.AsyncioSelectorReactor"'
            ) from error
        self._spider = spider
        self._own.open(spider)
        return deferred_from_coro(self._open())

    async def _open(self) -> None:
        options = self._options
        queue: AsyncDPQ[Any] = AsyncDPQ.from_url(options.url, options.queue_name, **options.more)
        try:
            if options.flush:
                await queue.purge()
            for group, limit in options.limits.items():
                try:
                    await queue.set_limit(group=group, **limit)
                except TypeError as error:
                    raise ConfigurationError(f"DPQ_LIMITS[{group!r}]: {error}") from error
            if options.limits and (pace := own_pace(self._crawler.settings)):
                log.warning(
                    "%s: each spider waits by its own settings, too (%s): let DPQ_LIMITS alone set "
                    "the pace, with DOWNLOAD_DELAY = 0 and more requests per domain",
                    *(options.queue_name, pace),
                )
            if size := await queue.size():
                log.info("%s: resuming a crawl: %d requests", options.queue_name, size)
            self._hook()
        except BaseException:
            await queue.close()
            raise
        self._link = Link(queue, options.most, self._crawler)
        self._link.start()

    def close(self, reason: str) -> Any:
        """Give back what was not begun, and send the rest; the engine waits for the result."""
        if self._link is None:  # it did not open
            return None
        if self._link.seen and not self._taken:
            log.info(
                "%s: nothing to do: all requests were seen before. DPQ_FLUSH_ON_START = True, "
                "`dpq admin bulk drop` or another DPQ_QUEUE begins a new crawl",
                self._options.queue_name,
            )
        for delivery in self._held.values():  # the engine has ended none of them
            self._link.give_back(delivery)
        self._held.clear()
        self._own.close(reason)
        return deferred_from_coro(self._link.close())

    def has_pending_requests(self) -> bool:
        """Return True while the queue has any live task, here or elsewhere."""
        drained = self._link is None or self._link.drained
        return self._own.has_pending_requests() or not drained

    def enqueue_request(self, request: Request) -> bool:
        """Store a request soon, or keep it in this spider; False if it was kept before.

        The request of a page that met a limit comes here, too: its task goes back by itself.
        """
        held = self._held.get(request)
        if held is not None and isinstance(held.ending, RateLimited | Retry):
            return True
        try:
            push = self._push_of(request)
            self._opened.check(push)
        except DPQError as error:
            counted = self._crawler.stats.get_value("scheduler/unserializable", 0)
            if not counted:
                log.warning(
                    "%s: %s is kept in the memory of this spider, as all that are like it: %s",
                    *(self._options.queue_name, request, error),
                )
            kept = bool(self._own.enqueue_request(request))
            if self._crawler.stats.get_value("scheduler/unserializable", 0) == counted:
                # else Scrapy has counted it: it does so with JOBDIR
                self._opened.count("scheduler/unserializable")
            return kept
        self._opened.push(push, request)
        return True

    def next_request(self) -> Request | None:
        """Return the best request that may run now; None if there is none yet."""
        link = self._opened
        if (own := self._own.next_request()) is not None:
            return own
        while link.waiting:
            delivery = link.waiting.popleft()
            task = delivery.task
            try:
                request = self._payloads.read(task.payload, task.priority)
                group = self._group(request)
            except PayloadError as error:
                log.error("%s: task %s: %s", self._options.queue_name, task.id, error)  # noqa: TRY400 - the text says it all
                delivery.ending = Reject(error)
                link.end(delivery)
                continue
            if task.group is None and group is not None:
                self._move(delivery, request)
                continue
            request.meta[OURS] = {"id": task.id, "attempt": task.attempt, "member": task.member}
            self._held[request] = delivery
            self._taken += 1
            self._opened.count("scheduler/dequeued/dpq", "scheduler/dequeued")
            return request
        return None

    @property
    def _opened(self) -> Link:
        if self._link is None:
            raise ConfigurationError("the scheduler is not open")
        return self._link

    # Requests as tasks

    def _group(self, request: Request) -> str | None:
        return group_name(slot_of(str(self._crawler.engine.downloader.get_slot_key(request))))

    def _key(self, request: Request) -> str:
        return str(self._crawler.request_fingerprinter.fingerprint(request).hex())

    def _push_of(self, request: Request) -> Push[Any]:
        """Make the push of a request."""
        delivery = self._of(request)
        goes_on = delivery is not None and not delivery.status  # the engine has made it of another
        payload = self._payloads.write(self._with_cookies(request) if goes_on else request)
        more: dict[str, Any] = {}
        again = request.dont_filter
        if delivery is not None and goes_on and not again:
            passed = (request.replace(url=url) for url in request.meta.get("redirect_urls", ()))
            again = self._key(request) in {delivery.task.key, *map(self._key, passed)}
        begins = OURS not in request.meta and request.meta.get("is_start_request")
        if not again or begins:
            more = {"key": self._key(request), "unique_for": self._options.unique_for}
            plain = {"url": request.url, "dont_filter": True, "meta": {"is_start_request": True}}
            if again and payload != plain:
                whole = json.dumps(payload, sort_keys=True)
                more["key"] = hashlib.sha256(whole.encode()).hexdigest()
            anew = again and not self._options.start_once
            more["on_duplicate"] = "update" if anew else "error"
        return Push(payload, request.priority, group=self._group(request), **more)

    def _with_cookies(self, request: Request) -> Request:
        """Give a redirect or retry the cookies that this spider would send: another may take it."""
        middleware = self._crawler.get_downloader_middleware(CookiesMiddleware)
        if middleware is None or request.meta.get("dont_merge_cookies"):
            return request
        jar, asked = middleware.jars[request.meta.get("cookiejar")], Request(request.url)
        jar.add_cookie_header(asked)
        sent = (asked.headers.get("Cookie") or b"").decode(errors="replace").split("; ")
        cookies = [
            {"name": each.name, "value": each.value, "path": each.path, "secure": each.secure}
            | ({"domain": each.domain} if each.domain_specified else {})
            for each in jar
            if f"{each.name}={each.value}" in sent
        ]
        return request.replace(cookies=cookies) if cookies else request

    def _move(self, delivery: Delivery, request: Request) -> None:
        """Put a task that was pushed without a group into that of its slot, whose limit holds."""
        task, key = delivery.task, self._key(request)
        more: dict[str, Any] = {}
        if task.key != key:  # the new task cannot have it before the end of this one
            seen = self._options.unique_for
            more = {"key": key, "unique_for": seen, "on_duplicate": "update"}
        push = Push(task.payload, task.priority, group=self._group(request), **more)
        self._opened.push(push, request)
        self._opened.end(delivery)

    # What happens to a request

    def _hook(self) -> None:
        hook_into(
            self._crawler.engine, self._forgotten, self._process_response, self._process_exception
        )
        for handler, signal in (
            (self._answered, signals.response_received),
            (self._failed, signals.spider_error),
            (self._failed, signals.item_error),
            (self._idle, signals.spider_idle),
        ):
            self._crawler.signals.connect(handler, signal=signal)

    def _forgotten(self, remove: Callable[[Request], None], request: Request) -> None:
        """End the task of a request that the engine has done with."""
        delivery = self._held.pop(request, None)
        if delivery is not None:
            where = delivery.status, self._crawler.settings, self._spider
            if delivery.ending is None and is_lost_page(request, *where):
                delivery.ending = Reject(f"HTTP {delivery.status}")
            self._opened.end(delivery)
        remove(request)

    def _process_response(
        self, request: Request, response: Response, spider: Any = None
    ) -> Request | Response:
        """Hear a limit: close the group for all spiders, and end the request without a callback."""
        if "cached" in response.flags:
            return response
        delivery, dont_retry = self._held.get(request), request.meta.get("dont_retry")
        limited = RateLimited.from_response(response)
        if isinstance(limited, Retry):  # about this page alone: Scrapy would ask again at once
            retries = map(str, self._crawler.settings.getlist("RETRY_HTTP_CODES"))
            if delivery is None or dont_retry or str(response.status) not in retries:
                return response
            delivery.ending = limited
            return request
        if limited is None:
            if limits_in(response.headers):  # the host says what is left
                of = request if delivery is None else delivery.task
                told = self._group(request) if isinstance(of, Request) else of
                self._opened.observe(told, response)
            return response
        self._opened.count("dpq/rate_limited", f"dpq/rate_limited/{response.status}")
        seconds = limited.retry_after
        if delivery is None or dont_retry:
            # robots.txt, a file of a media pipeline, or the spider wants to see the answer.
            if group := self._group(request):
                self._opened.delay_group(group, seconds)
            return response
        log.info(
            "%s: %s from %s: the group %r is closed for %g s",
            *(self._options.queue_name, response.status, request.url),
            *(delivery.task.group, seconds),
        )
        delivery.ending = limited
        return request  # the engine hands it to enqueue_request

    def _process_exception(
        self, request: Request, exception: Exception, spider: Any = None
    ) -> None:
        """Remember an error that no middleware has handled."""
        delivery = self._held.get(request)
        if delivery and not isinstance(exception, IgnoreRequest) and request.errback is None:
            delivery.ending = Reject(error_line(exception))
        if delivery:
            delivery.status = -1  # a request that an errback makes is a new one

    def _answered(self, response: Response, request: Request) -> None:
        if delivery := self._held.get(request):
            delivery.status = response.status

    def _failed(self, failure: Any, response: Any) -> None:
        if delivery := self._of(getattr(response, "request", None)):
            delivery.ending = Reject(error_line(failure.value))

    def _of(self, request: Request | None) -> Delivery | None:
        """Return the delivery of a request, also if it is a copy."""
        if request is None:
            return None
        if request in self._held:
            return self._held[request]
        id_ = request.meta.get(OURS, {}).get("id")
        return next((each for each in self._held.values() if each.task.id == id_), None)

    def _idle(self) -> None:
        """Keep the spider open while it is to wait for tasks."""
        link = self._opened
        if not link.drained or time.monotonic() - link.drained_at < self._options.idle_seconds:
            raise DontCloseSpider
