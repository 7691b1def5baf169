"""Crawl this Python's standard library from two hosts with limits, what is most referenced first.

python examples/crawler.py [--url redis://...] [--modules N] [--rate N]

Three consumers share the queue. A page is a task in the group of its host; its priority is the
number of pages known to link to it, so it rises while the task waits.
"""

import argparse
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from _stdlib_site import HOSTS, read_library, serve

from dpq import DPQ, Push, RateLimited, Reject

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
            raise Reject(error.read().decode()) from None


def pushes(q: DPQ[str], links: list[str]) -> Iterator[Push[str]]:
    """Count the links to each page; one that was fetched stays known by its key."""
    for link in links:
        yield described(link, q.redis.hincrby(LINKED, link, 1))


def described(page: str, linked: int = 0) -> Push[str]:
    """Say how a page waits."""
    return Push(
        page,
        linked,
        group=urlsplit(page).netloc,
        key=page,
        on_duplicate="raise_priority",
        unique_for=math.inf,
    )


def main() -> None:
    """Serve the pages, and crawl them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", default="embedded:", help="the Redis server [%(default)s]")
    parser.add_argument("--rate", type=int, default=20, help="pages a second, of the first host")
    parser.add_argument("--modules", type=int, help="pages at most [all that can be reached]")
    options = parser.parse_args()
    rates = dict(zip(HOSTS, (options.rate, max(1, options.rate * 3 // 4)), strict=True))
    with (
        serve(read_library(START, options.modules), rates) as site,
        DPQ[str].from_url(options.url, "stdlib", default_visibility=3) as q,
    ):
        for host in site.hosts.values():
            q.set_limit(host.rate, per=1, group=urlsplit(host.url).netloc)
        q.push_many(described(site.link(module)) for module in START)
        with ThreadPoolExecutor(CONSUMERS) as threads:
            list(threads.map(consume, [q] * CONSUMERS))
        print(f"{q.stats().acked} pages; {site.limited} of {len(site.log)} requests met the limit")
        q.redis.delete(LINKED)
        q.admin.drop()


if __name__ == "__main__":
    main()
