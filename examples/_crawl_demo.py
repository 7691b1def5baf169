"""The demo around crawler.py: four ways to crawl the same pages under the same limits."""

import argparse
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import NamedTuple

import _crawl_report as report
import _other_ways as other
import crawler
from _crawl_report import Check, Figures, Least
from _crawl_view import view
from _crawl_watch import CONSUMERS, Fleet, Record, Way, open_queue
from _crawl_web import dashboard
from _stdlib_site import HOSTS, Library, Site, read_library, serve
from rich.console import Console

from dpq import DPQ
from dpq.server import open_embedded

START = ["asyncio", "http.server", "unittest"]
WAYS = (
    Way("plain FIFO", "sleeps at a 429, asks again", other.consume_fifo, other.describe_fifo),
    Way(
        "set_visibility",
        "priorities; hides the task at a 429, takes the next",
        other.consume_original,
        other.describe_original,
    ),
    Way(
        "FIFO + limits",
        "a group and a limit for each host; no priorities",
        other.consume_fifo_with_limits,
        other.describe_fifo_with_limits,
        has_limits=True,
    ),
    Way(
        "DPQ's limits",
        "priorities; a group and a limit for each host",
        crawler.consume,
        crawler.describe,
        has_limits=True,
        is_killed=True,
    ),
)
PATIENCE_S = 60.0  # without a word from any consumer
TRIES = 20  # by each consumer, to measure the way to the site
LEAST_SLACK_S, MOST_SLACK_S = 0.01, 0.25


class Crawl(NamedTuple):
    """What one crawl has shown."""

    figures: Figures
    least: Least
    checks: dict[str, Check]
    machine: str


def main() -> int:
    """Read the options, crawl, and report.

    Returns:
        0 when every check has passed, else 1; 130 after Ctrl-C.
    """
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves through every `finally`
    console = Console(highlight=False)
    with suppress(KeyboardInterrupt):
        console.print(f"Reading the standard library of Python {platform.python_version()} ...")
        rates = dict(zip(HOSTS, (options.rate, max(1, options.rate * 3 // 4)), strict=True))
        with ExitStack() as stack:
            url = options.url
            if url.startswith("embedded:"):
                url = stack.enter_context(open_embedded(url)).url
            address = None
            if not options.no_web:
                address = stack.enter_context(dashboard(url, options.web_port))
            library = read_library(START, options.modules)
            where = address() if address else ""
            stays = where.startswith("http") and (options.stay or console.is_terminal)
            if where:
                console.print(f"Dashboard while this runs: {where}", soft_wrap=True, markup=False)
            crawls = []
            for way in WAYS:
                console.print(f"\n{len(crawls) + 1} of {len(WAYS)}: {say(way, library, rates)}")
                with ExitStack() as each:
                    q = each.enter_context(open_queue(url, way))
                    crawl = run(way, url, q, library, rates, console)
                    if crawl is None:
                        break
                    crawls.append(crawl)
                    if stays and way is WAYS[-1]:
                        stack.push(each.pop_all())  # the dashboard goes on showing it
            if len(crawls) == len(WAYS):
                status = show(console, crawls, library)
                if stays:
                    stay(console, where)
                return status
    console.print("Stopped; consumers, site and server are gone.")
    return 130


def parse() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="crawler.py", description="Crawl the standard library under limits, in four ways."
    )
    parser.add_argument("--url", default="embedded:", help="the Redis server [%(default)s]")
    parser.add_argument(
        "--rate",
        type=int,
        default=20,
        help="pages that the host of top-level modules serves in any second; the host of "
        "submodules serves three quarters of it [%(default)s]",
    )
    parser.add_argument("--modules", type=int, help="pages at most [all that can be reached]")
    parser.add_argument("--no-web", action="store_true", help="no dashboard beside the crawl")
    parser.add_argument(
        "--stay",
        action="store_true",
        help="keep the dashboard until Ctrl-C; on a terminal it stays anyway",
    )
    parser.add_argument(
        "--web-port", type=int, default=0, metavar="PORT", help="its port [a free one]"
    )
    return parser.parse_args()


def stay(console: Console, where: str) -> None:
    """Wait for Ctrl-C, so that somebody can look around in the dashboard."""
    console.print(f"The dashboard stays until Ctrl-C: {where}", soft_wrap=True, markup=False)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def say(way: Way, library: Library, rates: dict[str, int]) -> str:
    """Say what is about to happen."""
    where = ", ".join(f"{library.on_host(host)} {host} at {rates[host]} a second" for host in rates)
    return f"{way.name} ({way.does})\n{CONSUMERS} consumers crawl {where}"


def run(
    way: Way,
    url: str,
    q: DPQ[str],
    library: Library,
    rates: dict[str, int],
    console: Console,
) -> Crawl | None:
    """Crawl once, on a site of its own and an empty queue; None when Ctrl-C came first."""
    interrupted: list[int] = []
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        site = stack.enter_context(serve(library, rates))
        starts = [name for name in START if name in library.pages] + library.broken
        q.push_many(way.describe(site.link(name)) for name in starts)
        q.pause()  # until all consumers have started
        record = Record(len(library.pages))
        fleet = stack.enter_context(Fleet(way, url, q, site, record))
        # From here on Ctrl-C tears no drawing, and a second one no tidying up.
        signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
        bound = report.least(site)
        with view(console, q, site, record) as show_how:
            while fleet.is_starting and fleet.step() and not interrupted:
                show_how()
            ways = measure(site)
            slack = min(max(2 * (ways[-1] - ways[0]), LEAST_SLACK_S), MOST_SLACK_S)
            if way.has_limits:
                hosts = site.hosts.values()
                crawler.set_limits(q, {host.netloc: host.rate for host in hosts}, slack)
            q.resume()
            while not interrupted and fleet.step() and record.silence < PATIENCE_S:
                show_how()
        checks = {
            "modules": report.check_modules(q, library, record),
            "no page": report.check_dead(q, library),
        }
        if way.is_killed:
            checks["recovered"] = report.check_recovered(record)
        figures = report.figures(way.name, site.log, library)
        crawl = Crawl(figures, bound, checks, describe_machine(ways, slack, record))
    return None if interrupted else crawl


def measure(site: Site) -> list[float]:
    """Ask for a page that costs nothing, as many at once as consumers do: the sorted seconds."""

    def ask(host: str) -> float:
        began = time.monotonic()
        with crawler.http.open(host, timeout=60) as answer:
            answer.read()
        return time.monotonic() - began

    urls = [host.url for host in site.hosts.values()]
    with ThreadPoolExecutor(CONSUMERS) as pool:
        return sorted(pool.map(ask, (urls[n % len(urls)] for n in range(CONSUMERS * TRIES))))


def describe_machine(ways: Sequence[float], slack: float, record: Record) -> str:
    """Say what the machine did: that decides the times, and most of what is answered 429."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{os.cpu_count()} processors{load}; before the crawl a request took "
        f"{1000 * ways[0]:.0f} to {1000 * ways[-1]:.0f} ms, so the limits got a slack of "
        f"{1000 * slack:.0f} ms; timers were up to {1000 * record.latest_s:.0f} ms late"
    )


def show(console: Console, crawls: Sequence[Crawl], library: Library) -> int:
    """Print the checks and the comparison.

    Returns:
        The exit status: 1 when a check failed.
    """
    *others, (limits, bound, checks, machine) = crawls
    ways = [crawl.figures for crawl in crawls]
    for crawl in others:
        for name, check in crawl.checks.items():
            if not check.passed:
                checks[f"{crawl.figures.name}: {name}"] = check
    checks["order"] = Check(None, report.describe_order(limits, ways[0], library))
    checks["limit"] = Check(None, report.describe_limit(limits, bound))
    checks["time"] = Check(None, report.describe_time(limits, bound))
    checks["machine"] = Check(None, machine)
    console.print()
    passed = report.print_checks(console, checks)
    console.print(report.compare(ways, bound))
    console.print(f"physical least {bound}")
    if passed:
        console.print(report.won(ways, bound))
    return 0 if passed else 1
