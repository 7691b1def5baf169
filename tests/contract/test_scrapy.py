"""Scrapy crawls through a queue: real spiders and engines, and answers that need no network.

Several spiders run in one event loop, each with an engine and a scheduler of its own.
"""

import asyncio
import itertools
import json
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.hosts import Answers, Host
from redis.exceptions import ConnectionError as RedisConnectionError
from support import PATIENCE_S, wait_for
from typer.testing import CliRunner

import dpq
from dpq import DPQ
from dpq.cli import app
from dpq.link.session_async import AsyncQueueSession

scrapy = pytest.importorskip("scrapy", reason="no scrapy here: pip install '.[scrapy]'")

from scrapy.crawler import AsyncCrawlerRunner  # noqa: E402
from scrapy.http import HtmlResponse, Response  # noqa: E402

from dpq.scrapy import link  # noqa: E402

ROOT = Path(dpq.__file__).parents[1]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Answer = Callable[[Any, int], Response | None]
"""The answer to a request, None for a page; the number: how often the page was asked before."""


class Site:
    """Answers requests by path, and notes when each came: Scrapy's download handler is one of it.

    Attributes:
        came: The path of each request, with its monotonic time.
        slow: Seconds that the answers of some paths take.
    """

    def __init__(self, pages: dict[str, Answer] | None = None) -> None:
        self.pages = pages or {}
        self.came: list[tuple[str, float]] = []
        self.slow: dict[str, float] = {}

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.came]

    def answer(self, request: Any) -> Response:
        """Answer at once: a tree of 15 pages, `/0` to `/14`, unless told otherwise."""
        path = request.url.split("/", 3)[3]
        before = self.paths.count(path)
        self.came.append((path, time.monotonic()))
        if path in self.pages and (given := self.pages[path](request, before)) is not None:
            return given
        number = int(path) if path.isdecimal() else 15
        return page(request, *(n for n in (2 * number + 1, 2 * number + 2) if n < 15))


def page(request: Any, *links: object) -> Response:
    """A page with links."""
    body = "".join(f'<a href="/{each}">x</a>' for each in links)
    return HtmlResponse(request.url, body=body, encoding="utf-8", request=request)


def status(code: int, **headers: str) -> Answer:
    """An answer of a status, the first time that a page is asked; then a page."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(request: Any, before: int) -> Response | None:
        return None if before else Response(request.url, code, headers=named, request=request)

    return answer


def always(code: int) -> Answer:
    return lambda request, before: Response(request.url, code, request=request)


class Handler:
    """Scrapy's way to the site of the test."""

    lazy = False

    def __init__(self, crawler: Any) -> None:
        self.site: Site = crawler.settings["SITE"]

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Handler":
        return cls(crawler)

    async def download_request(self, request: Any) -> Response:
        await asyncio.sleep(self.site.slow.get(request.url.split("/", 3)[3], 0))
        return self.site.answer(request)

    async def close(self) -> None:
        """Nothing is open."""


class Tree(scrapy.Spider):
    """Follows all links, and makes an item of each page."""

    name = "tree"
    start_urls = ("http://a.example/0",)

    def parse(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")


class Items:
    """A pipeline that keeps the items of all spiders of a test."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> "Items":
        made = cls()
        made.kept = crawler.settings["KEPT"]
        return made

    def process_item(self, item: Any) -> Any:
        self.kept.append(item["page"])
        return item


class Crawls:
    """Runs spiders over the test's queue.

    Attributes:
        site: The site that they crawl.
        items: The items of all spiders.
    """

    def __init__(self, q: DPQ[Any], url: str) -> None:
        self.q, self.url = q, url
        self.site = Site()
        self.items: list[str] = []

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "SCHEDULER": "dpq.scrapy.Scheduler",
            "DPQ_URL": self.url,
            "DPQ_QUEUE": self.q.queue_name,
            "TWISTED_REACTOR_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "EXTENSIONS": {"scrapy.extensions.remote_control.RemoteControl": None},
            "DOWNLOAD_HANDLERS": {"http": Handler, "https": Handler, "ftp": None},
            "ITEM_PIPELINES": {Items: 1},
            "SITE": self.site,
            "KEPT": self.items,
            **more,
        }

    async def begin(self, *spiders: Any, **more: Any) -> list[dict[str, Any]]:
        runner = AsyncCrawlerRunner(self.settings(**more))
        crawlers = [runner.create_crawler(spider) for spider in spiders]
        await asyncio.gather(*(runner.crawl(each) for each in crawlers))
        return [each.stats.get_stats() for each in crawlers]

    def run(self, *spiders: Any, **more: Any) -> list[dict[str, Any]]:
        """Run spiders side by side to their end; the statistics of each."""
        return asyncio.run(asyncio.wait_for(self.begin(*spiders, **more), 120))


@pytest.fixture
def crawls(live: DPQ[Any], server: Any) -> Crawls:
    return Crawls(live, server.url)


def total(stats: list[dict[str, Any]], name: str) -> int:
    return sum(each.get(name, 0) for each in stats)


PAGES = [str(n) for n in range(15)]


def test_spiders_share_a_crawl_and_both_end(crawls):
    """Each page is fetched once, whichever spider found it; the queue is empty at the end."""
    stats = crawls.run(Tree, Tree)
    assert sorted(set(crawls.items), key=int) == PAGES
    asked = Counter(crawls.site.paths)
    assert asked.pop("0") <= 2  # a start request of Scrapy is fetched also if it was seen
    assert set(asked.values()) == {1}
    assert [each["finish_reason"] for each in stats] == ["finished"] * 2
    for name in ("scheduler/dequeued/dpq", "scheduler/dequeued"):
        assert total(stats, name) == len(crawls.site.paths)
    assert total(stats, "scheduler/enqueued/dpq") >= 15
    assert crawls.q.size() == len(crawls.q.dead.list()) == 0


@pytest.mark.parametrize(("code", "failed"), [(429, 0), (503, 0), (500, 1)])
def test_an_answer_with_a_time_is_no_retry(crawls, code, failed):
    """The callback and Scrapy's retries never hear of it; nobody asks before its time. A limit
    closes the group; an error counts as an attempt."""
    crawls.site.pages["0"] = status(code, Retry_After_Ms="300")
    stats = crawls.run(Tree, Tree, CONCURRENT_REQUESTS=1)
    first, again = (at for path, at in crawls.site.came[:2])
    assert crawls.site.paths[:2] == ["0", "0"]
    assert again - first >= 0.99
    assert sorted(set(crawls.items), key=int) == PAGES
    assert total(stats, f"dpq/rate_limited/{code}") == 1 - failed
    assert total(stats, "retry/count") == 0
    counts = crawls.q.stats()
    assert (counts.deferred, counts.failed, counts.dead) == (1 - failed, failed, 0)


def test_a_page_that_is_always_refused(crawls):
    """All other pages are fetched, and the crawl ends, with a dead letter."""
    named = {"Retry-After-Ms": "20"}
    refused = lambda request, before: Response(request.url, 429, headers=named, request=request)  # noqa: E731
    crawls.site.pages["2"] = refused
    (stats,) = crawls.run(Tree, CONCURRENT_REQUESTS=1)
    assert stats["finish_reason"] == "finished"
    assert sorted(set(crawls.items), key=int) == ["0", "1", "3", "4", "7", "8", "9", "10"]
    dead = crawls.q.dead.list()
    assert [(each.reason, each.last_error) for each in dead] == [
        ("always rate limited", "HTTP 429")
    ]


class Failing(Tree):
    """A spider whose pages 1 to 5 end in different ways."""

    handle_httpstatus_list = (418,)

    def parse(self, response: Any) -> Any:
        yield from super().parse(response)
        if response.url.endswith("/0"):
            errback = {"errback": self.failed}
            yield scrapy.Request("http://a.example/refused", **errback)
            yield scrapy.Request("http://a.example/gone")
            yield scrapy.Request("http://a.example/item", self.unkept)
            yield scrapy.Request("http://a.example/teapot", self.enough)
        if response.url.endswith("/1"):
            raise KeyError("of the callback")

    def failed(self, failure: Any) -> Any:
        yield {"page": "errback"}

    def unkept(self, response: Any) -> Any:
        yield {"no": "page"}

    def enough(self, response: Any) -> Any:
        yield {"page": "teapot"}


def refuse(request: Any, before: int) -> Response:
    raise ConnectionRefusedError(request.url)


def test_a_page_that_fails_is_a_dead_letter_with_its_reason(crawls):
    """Scrapy logs it and goes on; here it can be replayed. An errback or a callback handles it."""
    crawls.site.pages = {"refused": refuse, "gone": refuse, "teapot": always(418)}
    crawls.run(Failing, RETRY_EXCEPTIONS=[])
    dead = {each.payload["url"][17:]: each.reason for each in crawls.q.dead.list()}
    assert dead.keys() == {"1", "gone", "item"}
    assert dead["1"] == "KeyError: 'of the callback'"
    assert dead["gone"] == "ConnectionRefusedError: http://a.example/gone"
    assert dead["item"] == "KeyError: 'page'"
    assert {"errback", "teapot"} <= set(crawls.items)
    crawls.site.pages.clear()
    crawls.q.dead.replay(where=lambda each: "gone" in each.payload["url"])
    crawls.run(Tree, DPQ_START_ONCE=True)
    assert crawls.site.paths[-1] == "gone"
    assert len(crawls.q.dead.list()) == 2


class Loaded(scrapy.Request):
    """A class that the settings name, or not."""


class Open(Tree):
    hidden = dict

    def _secret(self, response: Any) -> Any:
        yield {"page": "secret"}


def test_a_payload_names_nothing_that_the_spider_does_not(crawls, tmp_path, monkeypatch):
    """No module is imported, and only public methods are called; each is a dead letter."""
    (tmp_path / "never_loaded.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    url = "http://a.example/14"
    wrong: list[dict[str, Any]] = [
        {"url": url, "_class": "never_loaded.x"},
        {"url": url, "_class": ["never_loaded.x"]},
        {"url": url, "_class": f"{__name__}.Loaded"},
        *({"url": url, "callback": name} for name in ("_secret", "__init__", "hidden", "log", 7)),
        {"url": url, "errback": "close"},
        {"url": "file:///etc/passwd"},
        {"url": " FILE:///etc/passwd"},
        {"url": "data:,x"},
    ]
    for each in wrong:
        crawls.q.push(each)
    (stats,) = crawls.run(Open)
    assert stats["finish_reason"] == "finished"
    assert len(crawls.q.dead.list()) == len(wrong)
    assert "never_loaded" not in sys.modules
    assert "secret" not in crawls.items
    crawls.q.dead.replay()
    crawls.run(Open, DPQ_REQUEST_CLASSES=[Loaded], DPQ_START_ONCE=True)
    assert len(crawls.q.dead.list()) == len(wrong) - 1


def test_pages_pushed_from_elsewhere_are_crawled_under_their_hosts_limit(crawls):
    """An address alone is enough, without a group: the task moves to that of its host."""
    q = crawls.q
    q.push({"url": "http://b.example/13"}, 5)
    q.push("http://b.example/14", 7)
    q.push({"url": "http://b.example/1", "job": 7})
    q.push("no address")
    q.push({"url": "http://b.example/11", "encoding": "none-such"})
    q.push({"url": "http://b.example/12"}, -1, group="b.example")
    crawls.run(Tree, DPQ_START_ONCE=True, DPQ_LIMITS={"b.example": "300/h,moving"})
    assert set(crawls.site.paths) == set(PAGES)
    granted = next(each for each in q.admin.limits() if each.group == "b.example")
    assert granted.granted == (3,)
    assert crawls.site.paths.count("13") == crawls.site.paths.count("14") == 2  # of both hosts
    dead = sorted(each.reason for each in q.dead.list())
    assert "has job" in dead[0]
    assert "no%20address" in dead[1]
    assert "unknown encoding: none-such" in dead[2]
    crawls.site.came.clear()
    q.push({"url": "http://b.example/13"})  # whoever pushes a page wants it, seen or not
    crawls.run(Tree, DPQ_START_ONCE=True)
    assert crawls.site.paths == ["13"]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own time is the bound."""
    while not condition():  # noqa: ASYNC110 - other programs do not set an event
        await asyncio.sleep(0.01)


def test_an_outage_loses_no_request(crawls, monkeypatch):
    """What the server did not take is sent again. A page is acked behind the requests it led to."""
    monkeypatch.setattr(link, "RETRY_SECONDS", 0.01)
    run_all, calls = AsyncQueueSession.run_all, itertools.count()

    async def away(self: Any, operations: Any) -> Any:
        if next(calls) % 2 == 0:
            raise RedisConnectionError("away")
        results = await run_all(self, operations)
        counts = crawls.q.stats()
        if counts.acked < 15:
            left.append(crawls.q.size())
        return results

    left: list[int] = []
    monkeypatch.setattr(AsyncQueueSession, "run_all", away)
    (stats,) = crawls.run(Tree)
    assert sorted(crawls.items, key=int) == PAGES
    assert 0 not in left, "a kill at that moment would lose the rest of the crawl"
    assert left
    assert stats["scheduler/enqueued/dpq"] == crawls.q.stats().acked == 15


def test_what_the_page_for_users_shows_runs(crawls):
    """Its settings are taken, and `dpq push` feeds a spider."""
    text = (ROOT / "docs" / "scrapy.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = {}
    exec(block, shown)  # noqa: S102 - our own document
    for line in commands.replace("--queue books", f"--queue {crawls.q.queue_name}").splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:], env={"DPQ_URL": crawls.url})
        assert result.exit_code == 0, result.output
    more = {name: shown[name] for name in ("SCHEDULER", "DPQ_LIMITS")}
    crawls.run(Shop, **more)
    assert crawls.items == ["7", {"job": 7}]
    assert {each.group for each in crawls.q.admin.limits()} >= {"*", "shop.example"}


class Shop(Tree):
    """Has no start of its own, and a callback that the document names."""

    start_urls = ()

    def parse(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}

    def parse_item(self, response: Any) -> Any:
        yield {"page": {"job": response.meta["job"]}}


class Pages(Answers):
    """The tree over HTTP; page 2 keeps its answer until it is told."""

    def answer(self, name: str) -> None:
        if name == "2":
            self.server.more.wait(120)
        number = int(name) if name.isdecimal() else 15
        links = (f'<a href="/{n}">x</a>' for n in (2 * number + 1, 2 * number + 2) if n < 15)
        self.reply("".join(links).encode(), Content_Type="text/html")


PROGRAM = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Tree(scrapy.Spider):
    name = "tree"
    start_urls = [sys.argv[1] + "/0"]

    def parse(self, response):
        yield from response.follow_all(css="a")
        with open(sys.argv[2], "a") as pages:
            print(response.url.rpartition("/")[2], file=pages)

settings = json.loads(sys.argv[3])
process = CrawlerProcess(settings)
process.crawl(Tree)
process.start()
"""


def test_a_killed_spider_loses_nothing(live, server, tmp_path):
    """After SIGKILL another spider goes on: all pages, and only what was leased is asked again."""
    out = tmp_path / "pages"
    settings = {
        "SCHEDULER": "dpq.scrapy.Scheduler",
        "DPQ_URL": server.url,
        "DPQ_QUEUE": live.queue_name,
        "DPQ_OPTIONS": {"default_visibility": 1.0},
        "DPQ_START_ONCE": True,
        "CONCURRENT_REQUESTS": 2,
        "TELNETCONSOLE_ENABLED": False,
    }
    with Host(Pages).serving() as host:
        line = [sys.executable, "-c", PROGRAM, host.url, str(out), json.dumps(settings)]
        with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as killed:
            try:
                wait_for(lambda: live.stats().acked >= 7, live.stats)  # page 2 waits meanwhile
            finally:
                killed.kill()
                killed.communicate()
        host.more.set()
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        asked = Counter(each.path[1:] for each in host.came)
    assert "'finish_reason': 'finished'" in done.stderr
    assert set(out.read_text().split()) == set(PAGES)
    again = {page for page, times in asked.items() if times > 1 and page != "robots.txt"}
    assert len(again) <= 2, "no more than it held"
    counts = live.stats()
    assert (live.size(), counts.dead) == (0, 0)
    assert 1 <= counts.expired_leases <= 2


class OnePage(scrapy.Spider):
    name = "one"

    async def start(self) -> Any:
        yield scrapy.Request("http://a.example/x", dont_filter=False)

    def parse(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}


class Bare(OnePage):
    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **named: Any) -> "Bare":
        return cls(*args, **named)


def test_a_spider_that_has_not_kept_its_settings_sends_its_requests(crawls):
    """A `from_crawler` that leaves `settings` out, as in tests of Scrapy, makes no empty crawl."""
    crawls.run(Bare)
    assert crawls.site.paths == ["x"]


class Odd(Tree):
    """Begins with a request that has no JSON form, nor one for pickle."""

    async def start(self) -> Any:
        yield scrapy.Request("http://a.example/x", meta={"call": lambda: None})


def test_a_request_without_a_json_form_is_counted_once(crawls, tmp_path):
    """With JOBDIR, Scrapy's own scheduler cannot store it either, and has counted it."""
    stats = crawls.run(Odd, JOBDIR=str(tmp_path))
    assert crawls.site.paths == ["x"]
    assert total(stats, "scheduler/unserializable") == 1


def redirect(to: str) -> Answer:
    """Redirect with a cookie; a request that has the cookie gets the page."""

    def answer(request: Any, before: int) -> Response | None:
        if b"ok=1" in (request.headers.get("Cookie") or b""):
            return None
        headers = {"Location": f"/{to}", "Set-Cookie": "ok=1; Path=/"}
        return Response(request.url, 302, headers=headers, request=request)

    return answer


@pytest.mark.parametrize("way", [["x"], ["gate", "x"]])
def test_a_redirect_to_the_page_itself_is_its_task_going_on(crawls, way):
    """A page that sets a cookie and sends back to itself is no duplicate of its own task."""
    crawls.site.pages["x"] = redirect(way[0])
    if way != ["x"]:
        crawls.site.pages["gate"] = lambda request, before: Response(
            request.url, 302, headers={"Location": "/x"}, request=request
        )
    crawls.run(OnePage)
    assert (crawls.site.paths, crawls.items) == (["x", *way], ["x"])


class Members(Tree):
    start_urls = tuple(f"http://a.example/p{n}" for n in range(20))

    def parse(self, response: Any) -> Any:
        yield {"page": "ok" if b"ok=1" in response.request.headers.get("Cookie", b"") else "none"}


def test_a_redirect_takes_its_cookies_to_any_spider(crawls):
    """Whichever spider gets the page behind a redirect sends the cookie that the redirect set."""
    for n in range(20):
        crawls.site.pages[f"p{n}"] = lambda request, before: Response(
            request.url,
            302,
            headers={"Location": request.url.replace("/p", "/q"), "Set-Cookie": "ok=1; Path=/"},
            request=request,
        )
    stats = crawls.run(Members, Members, DPQ_START_ONCE=True, CONCURRENT_REQUESTS=2)
    assert min(each.get("downloader/request_count", 0) for each in stats) > 0
    assert crawls.items == ["ok"] * 20


def test_a_limit_holds_for_a_host_with_a_port_and_its_own_pace_is_told(crawls, caplog):
    """DPQ_LIMITS has a host in any spelling; settings of Scrapy that are slower are in the log."""
    limits = dict.fromkeys(("a.example:80", "B.Example.", "bücher.example", "Own@Slot.1"), "4/s")
    template = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    crawls.run(OnePage, DPQ_LIMITS=limits, DOWNLOAD_DELAY=0.01, **template)
    groups = {"a.example", "b.example", "xn--bcher-kva.example", "Own@Slot.1"}
    assert groups <= {each.group for each in crawls.q.admin.limits()}
    assert "DOWNLOAD_DELAY = 0.01, CONCURRENT_REQUESTS_PER_DOMAIN = 1" in caplog.text
