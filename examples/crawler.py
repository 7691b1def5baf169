"""Crawl this Python's standard library from two hosts with limits, what is most referenced first.

python examples/crawler.py [--url redis://...] [--modules N] [--rate N]

This file is all that a crawler needs; the rest starts it as three processes, kills one of them
half-way, and lets three other ways crawl the same pages, to compare (_crawl_demo.py).
"""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from dpq import DPQ, LeaseLostError, Push, RateLimited, Task, TaskNotFoundError

LEASE_S = 3  # a page takes milliseconds; the task of a killed consumer is back after this time
http = build_opener(ProxyHandler({}))  # loopback needs no proxy

Tell = Callable[[str, Task[str]], None]
"""How a consumer tells those who watch what it did; the queue needs none of it."""


class BrokenPageError(Exception):
    """The site has no such module, or its source does not parse: asking again would not help."""


def set_limits(q: DPQ[str], rates: dict[str, int], slack: float | None = None) -> None:
    """Write down what each host allows, in pages a second: all consumers obey at once.

    `slack` is by how many seconds the times on the way to a host differ; None: 429s will tell.
    """
    for host, rate in rates.items():
        q.set_limit(rate, per=1, group=host, slack=slack)


def consume(url: str, queue_name: str, tell: Tell) -> None:
    """Work until nothing is left to do; a pop waits until a limit allows the next page."""
    with DPQ.from_url(url, queue_name, default_visibility=LEASE_S) as q:
        while q.size():
            # A 429 leaves `visit` as RateLimited: the lease gives the task back, uncounted, and
            # closes its host for all consumers. They go on with the other host.
            # Another error of the site is a failed attempt: the page comes again after a while.
            with suppress(LeaseLostError, TaskNotFoundError, URLError), q.lease(timeout=1) as task:
                if task:
                    visit(q, task, describe, tell)


def describe(page: str, references: int = 0) -> Push[str]:
    """Say how a page waits: the more modules import it the sooner, in the group of its host."""
    return Push(
        payload=page,
        key=page,
        priority=references,
        on_duplicate="raise_priority",
        group=urlsplit(page).netloc,
    )


def visit(q: DPQ[str], task: Task[str], describe: Callable[..., Push[str]], tell: Tell) -> None:
    """Fetch a page, push what it links to, and settle the task; RateLimited leaves it as it is."""
    if is_second_copy(q, task):
        q.cancel(task.id)
        return
    tell("popped", task)
    try:
        links = fetch(task.payload)
    except BrokenPageError as error:
        q.bury(task, error)
        tell("buried", task)
    except RateLimited:
        tell("limited", task)
        raise
    else:
        follow(q, task, links, describe)
        if q.ack(task):
            tell("acknowledged", task)


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
            if error.code >= 500:  # the site's own trouble passes
                raise
            raise BrokenPageError(error.read().decode()) from None


def follow(
    q: DPQ[str], task: Task[str], links: list[str], describe: Callable[..., Push[str]]
) -> None:
    """Push the pages that a page links to, unless they were crawled already."""
    crawled, importers = own_keys(q)
    with q.redis.pipeline(transaction=False) as ask:
        ask.hset(crawled, task.payload, task.id)
        for link in links:
            ask.sadd(importers + link, task.payload)  # a set: a second delivery counts once
            ask.scard(importers + link)
            ask.hexists(crawled, link)
        _, *answers = ask.execute()
    found = zip(links, answers[1::3], answers[2::3], strict=True)
    q.push_many(describe(link, references) for link, references, known in found if not known)


def is_second_copy(q: DPQ[str], task: Task[str]) -> bool:
    """Tell whether the page was crawled already: pushed again in the instant of its ack."""
    crawled, _ = own_keys(q)
    return q.redis.hget(crawled, task.payload) not in (None, task.id.encode())


def own_keys(q: DPQ[str]) -> tuple[str, str]:
    """Return this program's own keys: a hash of crawled pages, the prefix of importers' sets."""
    return f"{q.queue_name}:crawled", f"{q.queue_name}:importers:"


if __name__ == "__main__":
    from _crawl_demo import main  # not above: it imports this file

    sys.exit(main())
