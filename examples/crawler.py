"""Crawl this Python's standard library from two hosts with limits, what is most referenced first.

python examples/crawler.py [--url redis://...] [--modules N] [--rate N]

Three consumers share the queue, each a process; one is killed half-way. A page is a task in the
group of its host. Its priority is the number of links to it, so it rises while the task waits.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from _stdlib_site import HOSTS, Site, read_library, serve

from dpq import DPQ, Push, RateLimited

LINKED = "stdlib:linked"  # a hash of this program: page -> links to it
START = ["asyncio", "http.server", "unittest"]
CONSUMERS = 3
http = build_opener(ProxyHandler({}))  # loopback needs no proxy


def consume(q: DPQ[str]) -> None:
    """Fetch pages until none is left; a pop waits until a limit allows the next page."""
    while q.size():
        # At a 429, `fetch` raises RateLimited: the lease gives the task back, uncounted, and closes
        # its host for all consumers. They go on with the other host.
        with q.lease(timeout=1) as task:
            if task:
                q.push_many(pushes(q, fetch(task.payload)))
                print(f"{task.priority:3} links to {task.payload}", flush=True)


def fetch(page: str) -> list[str]:
    """Ask the site which pages a page links to."""
    try:
        with http.open(page, timeout=60) as answer:
            links: list[str] = json.load(answer)["links"]
            return links
    except HTTPError as error:
        with error:
            if limit := RateLimited.from_headers(error.code, error.headers):
                raise limit from None
            return []  # this Python has no such module: the page leads nowhere


def pushes(q: DPQ[str], links: list[str]) -> Iterator[Push[str]]:
    """Count the links to each page; one that was fetched stays known by its key."""
    for link in links:
        yield described(link, q.redis.hincrby(LINKED, link, 1))


def described(page: str, linked: int = 0) -> Push[str]:
    """Make a task of a page."""
    return Push(
        page,
        linked,
        group=urlsplit(page).netloc,
        key=page,
        on_duplicate="raise_priority",
        unique_for=math.inf,
    )


def least_seconds(site: Site) -> float:
    """Return how long the hosts take for these pages at the pace that they allow."""
    pages = Counter(answer.host for answer in site.log if answer.status != 429)
    return max(pages[name] / host.rate - 1 for name, host in site.hosts.items())


def main() -> int:
    """Serve the pages, and let three consumers crawl them, one of which is killed half-way."""
    parser = argparse.ArgumentParser(description="Crawl this Python's standard library.")
    parser.add_argument("--url", help="the Redis server [an embedded one]")
    parser.add_argument("--rate", type=int, default=20, help="pages a second, of the first host")
    parser.add_argument("--modules", type=int, help="pages at most [all that can be reached]")
    parser.add_argument("--consume", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        with DPQ[str].from_url(options.url, "stdlib", default_visibility=3) as q:
            consume(q)
        return 0

    library = read_library(START, options.modules)
    first, second = HOSTS
    rates: dict[str, int] = {first: options.rate, second: max(1, options.rate * 3 // 4)}
    with (
        serve(library, rates) as site,
        TemporaryDirectory() as directory,
        DPQ[str].from_url(url := options.url or f"embedded:{directory}", "stdlib") as q,
    ):
        for host in site.hosts.values():
            q.set_limit(host.rate, per=1, group=urlsplit(host.url).netloc)
        q.push_many(described(site.link(module)) for module in START)
        command = [sys.executable, __file__, "--consume", "--url", url]
        consumers = [subprocess.Popen(command) for _ in range(CONSUMERS)]
        while len(site.log) < len(library) / 2 and consumers[0].poll() is None:
            time.sleep(0.01)
        consumers[0].kill()
        print("kill -9 of a consumer: its page comes again when its lease ends", flush=True)
        for consumer in consumers:
            consumer.wait()
        q.redis.delete(LINKED)
        q.admin.drop()
    lost = len(library) - len({answer.module for answer in site.log if answer.status != 429})
    took = site.log[-1].at - site.log[0].at
    print(
        f"{len(library)} pages: {site.limited} of {len(site.log)} requests refused, {lost} pages "
        f"lost by the kill, {took / least_seconds(site):.2f} times as long as the limits require"
    )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
