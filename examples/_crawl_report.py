"""What the crawls have shown: checks of each, and the figures in which they are compared."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from _crawl_watch import Record
from _stdlib_site import Answer, Library, Site
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpq import DPQ

TOP = 25  # the most referenced modules, whose times and places the report compares


class Check(NamedTuple):
    """Something that a crawl must have done.

    Attributes:
        passed: None when it is there to read: times are a matter of the machine, too.
    """

    passed: bool | None
    text: str


class Least(NamedTuple):
    """The physical least: a host's whole second at once, and so many more each second after that.

    Attributes:
        pages: By host.
        rates: By host.
    """

    pages: dict[str, int]
    rates: dict[str, int]

    @property
    def host(self) -> str:
        """The host that decides: it needs the longest."""
        return max(self.pages, key=lambda host: self.pages[host] / self.rates[host])

    @property
    def seconds(self) -> float:
        """Until the host that decides has served all its pages."""
        return self._seconds_of(self.host)

    def at(self, seconds: float) -> float:
        """Return how many pages all hosts together can have served by then."""
        windows = math.floor(seconds) + 1
        return sum(min(self.pages[host], rate * windows) for host, rate in self.rates.items())

    def _seconds_of(self, host: str) -> float:
        return max(0.0, math.ceil(self.pages[host] / self.rates[host]) - 1)

    def __str__(self) -> str:
        slow = self.host
        text = (
            f"{self.seconds:.1f} s: {slow} decides, {self.pages[slow]} pages at "
            f"{self.rates[slow]} a second"
        )
        others = (f"{host} alone needs {self._seconds_of(host):.1f} s" for host in self.pages)
        return "; ".join([text, *(other for other in others if not other.startswith(slow + " "))])


class Figures(NamedTuple):
    """One crawl, as its site saw it. All times are seconds from the first request.

    Attributes:
        name: Of the way.
        requests: All.
        limited: Those answered 429.
        pages: When each page was served first.
        top: When each of the most referenced modules was served, of those that were.
        order: All modules that have a page, in the order in which they were served.
        seconds: When the last page was served.
    """

    name: str
    requests: int
    limited: int
    pages: list[float]
    top: list[float]
    order: list[str]
    seconds: float

    def at(self, seconds: float) -> int:
        """Count the pages that were served by then."""
        return bisect_right(self.pages, seconds)


def figures(name: str, log: Sequence[Answer], library: Library) -> Figures:
    """Count and time what a site has answered."""
    log = sorted(log, key=lambda answer: answer.at)
    served: dict[str, float] = {}
    for answer in log:
        if answer.status != 429:
            served.setdefault(answer.module, answer.at - log[0].at)
    return Figures(
        name,
        len(log),
        sum(answer.status == 429 for answer in log),
        list(served.values()),
        sorted(served[name] for name, _ in most_referenced(library) if name in served),
        [name for name in served if name not in library.broken],
        max((answer.at - log[0].at for answer in log if answer.status != 429), default=0.0),
    )


def least(site: Site) -> Least:
    """Return the physical least of a crawl of all pages."""
    rates = {name: host.rate for name, host in site.hosts.items()}
    return Least({name: site.library.on_host(name) for name in rates}, rates)


def most_referenced(library: Library) -> list[tuple[str, int]]:
    """Return the most referenced modules, and how many modules import each."""
    return library.references().most_common(TOP)


def compare(crawls: Sequence[Figures], bound: Least) -> Table:
    """Put the ways side by side, within 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("", no_wrap=True)
    count = min(TOP, *(len(crawl.top) for crawl in crawls))
    for title in ("requests", "429s", "in 100", f"top {count}", "all pages", "of least"):
        table.add_column(title, justify="right", no_wrap=True)
    for crawl in crawls:
        table.add_row(
            crawl.name,
            f"{crawl.requests}",
            f"{crawl.limited}",
            f"{100 * crawl.limited / max(1, crawl.requests):.1f}",
            f"{crawl.top[-1]:.1f} s" if crawl.top else "",
            f"{crawl.seconds:.1f} s",
            f"{crawl.seconds / bound.seconds:.2f}" if bound.seconds else "",
        )
    pages = sum(bound.pages.values())
    table.add_row("physical least", f"{pages}", "0", "0.0", "", f"{bound.seconds:.1f} s", "1.00")
    return table


def print_checks(console: Console, checks: dict[str, Check]) -> bool:
    """Print checks; False when one has failed."""
    marks = {True: Text("ok", "bold green"), False: Text("FAILED", "bold red"), None: ""}
    table = Table.grid(padding=(0, 2))
    for name, (passed, text) in checks.items():
        table.add_row(marks[passed], Text(name, "bold"), text)
    console.print(table)
    return all(passed is not False for passed, _ in checks.values())


def describe_time(crawl: Figures, bound: Least) -> str:
    """Say how long a crawl took, beside what the hosts' limits alone make it."""
    if not bound.seconds:
        return f"{crawl.seconds:.1f} s; the hosts allow all of it at once"
    ratio = crawl.seconds / bound.seconds
    return f"{crawl.seconds:.1f} s are {ratio:.2f} of the physical least"


def check_modules(q: DPQ[str], library: Library, record: Record) -> Check:
    """Check that every module was acknowledged exactly once, by the events and by the queue."""
    wanted = {name for name, page in library.pages.items() if page.status == 200}
    seen = Counter(event.module for event in record.acknowledged)
    stats, left = q.stats(), q.size()
    faults = {
        "never acknowledged": sorted(wanted - set(seen)),
        "acknowledged more than once": sorted(name for name in seen if seen[name] > 1),
        "not part of the site": sorted(set(seen) - wanted),
        "consumers crashed": record.crashed,
        "tasks left in the queue": [left] if left else [],
        "acknowledged by the queue's own count": [stats.acked]
        if stats.acked != len(wanted)
        else [],
    }
    text = f"{len(seen)} fetched, each acknowledged exactly once"
    if any(faults.values()):
        said = (f"{what}: {some(names)}" for what, names in faults.items() if names)
        text = f"{len(seen)} of {len(wanted)} fetched; " + "; ".join(said)
    if (copies := stats.pushed - len(library.pages)) > 0:
        text += f" ({copies} pushed again in the instant of the ack, and cancelled unfetched)"
    if library.more:
        text += f"; a budget of {record.pages - len(library.broken)} pages left out the rest"
    return Check(not any(faults.values()), text)


def check_dead(q: DPQ[str], library: Library) -> Check:
    """Check that exactly the modules without a page are in the dead letters, with the reason."""
    dead = {task.payload.rpartition("/")[2]: task.reason for task in q.dead.list(10_000)}
    wanted = {name: page.text for name, page in library.pages.items() if page.status != 200}
    if dead != wanted:
        return Check(False, f"expected {some(sorted(wanted))}; found {some(sorted(dead))}")
    broken = [name for name in dead if library.pages[name].status == 422]
    absent = [name for name in dead if library.pages[name].status == 404]
    text = f"{len(broken)} do not parse: {some(broken)}"
    if not broken:
        text = "this Python carries no module that does not parse"
    if absent:
        text += f"; {len(absent)} are not in this Python: {some(absent)}"
    return Check(True, text)


def check_recovered(record: Record) -> Check:
    """Check that the task of the killed consumer came back and was acknowledged by another one."""
    killed, fate = record.killed, record.fate
    if not killed:
        return Check(None, "no consumer was caught with a task in its hands, so none was killed")
    text = f"consumer {killed.consumer} was killed with {killed.module} in its hands"
    text += f" (task {killed.task_id}, delivery {killed.deliveries})"
    if not fate or fate[-1].what != "acknowledged":
        return Check(False, f"{text}; it did not come back in time")
    back, end = fate[0], fate[-1]
    text += (
        f"; {back.at - killed.at:.1f} s later it was popped again (delivery {back.deliveries}) and"
    )
    if limited := sum(event.what == "limited" for event in fate):
        text += f", after {limited} more answers 429,"
    text += f" acknowledged by consumer {end.consumer} (delivery {end.deliveries})"
    return Check(end.deliveries > killed.deliveries and end.consumer != killed.consumer, text)


def describe_order(crawl: Figures, fifo: Figures, library: Library) -> str:
    """Say how early the most referenced modules came, beside the crawl without priorities."""
    references = most_referenced(library)
    places = [
        sum(order.index(name) + 1 for name, _ in references) / len(references)
        for order in (crawl.order, fifo.order)
        if references and all(name in order for name, _ in references)
    ]
    if len(places) < 2:
        return "not all of the most referenced modules were fetched"
    named = some([f"{name} {count}x" for name, count in references])
    return (
        f"the {len(references)} most referenced modules ({named}) came at place "
        f"{places[0]:.0f} on average; plain FIFO: place {places[1]:.0f}, "
        f"{places[1] / places[0]:.1f} times as late"
    )


def won(ways: Sequence[Figures], bound: Least) -> str:
    """Say in a line what DPQ has won over asking again after a 429."""
    fifo, hides, _, ours = ways
    share, fifo_share = (crawl.seconds / bound.seconds for crawl in (ours, fifo))
    return (
        f"DPQ: {ours.limited} requests refused (plain FIFO {fifo.limited}, set_visibility "
        f"{hides.limited}), no page lost by the kill, {share:.2f} of the least time (plain FIFO "
        f"{fifo_share:.2f})"
    )


def describe_limit(crawl: Figures, bound: Least) -> str:
    """Say how many requests a crawl made, and what the hosts allow."""
    allowed = " and ".join(f"{rate} of {host}" for host, rate in bound.rates.items())
    return (
        f"{crawl.requests} requests in {crawl.seconds:.1f} s; beyond {allowed} in any second, "
        f"{crawl.limited} were answered 429"
    )


def some(names: Sequence[object], most: int = 3) -> str:
    """List the first few names."""
    return ", ".join(f"{name}" for name in names[:most]) + (", ..." if len(names) > most else "")
