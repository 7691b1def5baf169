"""Crawl this Python's standard library, the most referenced modules first, under a strict limit.

python examples/crawler.py [--url redis://...] [--modules N] [--rate N]

A real HTTP server on loopback serves the modules (_stdlib_site.py). Three processes run `consume`;
one of them is killed half-way, and its task comes back (_crawl_watch.py starts them and reports).
"""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from _crawl_watch import crawl

from dpq import DPQ, LeaseLostError, Push, RateLimited, Task, TaskNotFoundError

START = ["asyncio", "http.server", "unittest"]
LEASE_S = 3  # a page takes milliseconds; the task of a killed consumer is back after this time
http = build_opener(ProxyHandler({}))  # loopback needs no proxy


class BrokenPageError(Exception):
    """The site has no such module, or its source does not parse: asking again would not help."""


def consume(url: str, queue_name: str, site: str, tell: Callable[[str, Task[str]], None]) -> None:
    """Work until nothing is ready, delayed or running any more; `tell` is for those who watch."""
    with DPQ.from_url(url, queue_name, default_visibility=LEASE_S) as q:
        while True:
            task, on_success, set_visibility = q.pop(timeout=1)
            if task is None:
                if q.size() == 0:
                    return
                continue
            tell("popped", task)
            with suppress(LeaseLostError, TaskNotFoundError):  # too late: another consumer has it
                try:
                    if is_second_copy(q, task):
                        q.cancel(task.id)
                        continue
                    process(q, site, task)
                    if on_success():
                        tell("acknowledged", task)
                except RateLimited as limit:
                    set_visibility(limit.retry_after)
                    tell("limited", task)
                except BrokenPageError as error:
                    q.bury(task, error)
                    tell("buried", task)


def process(q: DPQ[str], site: str, task: Task[str]) -> None:
    """Fetch a module and push what it imports: the more modules import one, the sooner it comes."""
    module, (crawled, importers) = task.payload, own_keys(q)
    imports = fetch(site, module)
    with q.redis.pipeline(transaction=False) as ask:
        for name in imports:
            ask.sadd(importers + name, module)  # a set: a delivery that comes twice counts once
            ask.scard(importers + name)
            ask.hexists(crawled, name)
        answers = ask.execute()
    found = zip(imports, answers[1::3], answers[2::3], strict=True)
    q.push_many(
        Push(payload=name, key=name, priority=references, on_duplicate="raise_priority")
        for name, references, is_crawled in found
        if not is_crawled
    )
    q.redis.hset(crawled, module, task.id)


def is_second_copy(q: DPQ[str], task: Task[str]) -> bool:
    """Tell whether the module was crawled already: pushed again in the instant of its ack."""
    crawled, _ = own_keys(q)
    return q.redis.hget(crawled, task.payload) not in (None, task.id.encode())


def own_keys(q: DPQ[str]) -> tuple[str, str]:
    """Return this program's own keys: a hash of crawled modules, the prefix of importers' sets."""
    return f"{q.queue_name}:crawled", f"{q.queue_name}:importers:"


def fetch(site: str, module: str) -> list[str]:
    """Ask the site what a module imports."""
    try:
        with http.open(f"{site}/{module}", timeout=10) as answer:
            return json.load(answer)["imports"]
    except HTTPError as error:
        with error:
            if error.code == 429:
                raise RateLimited(float(error.headers["Retry-After"])) from None
            raise BrokenPageError(error.read().decode()) from None


def main() -> int:
    """Read the options, and crawl."""
    parser = argparse.ArgumentParser(description="Crawl the standard library under a strict limit.")
    parser.add_argument("--url", default="embedded:", help="the Redis server [%(default)s]")
    parser.add_argument("--rate", type=int, default=25, help="pages in any second [%(default)s]")
    parser.add_argument("--modules", type=int, help="pages at most [all that can be reached]")
    options = parser.parse_args()
    return crawl(consume, START, options.url, options.rate, options.modules)


if __name__ == "__main__":
    sys.exit(main())
