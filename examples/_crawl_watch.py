"""What crawler.py has around its consumers: it starts them, kills one, shows, and reports."""

import os
import platform
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import NamedTuple, Self
from uuid import uuid4

from _stdlib_site import Library, Site, read_library, serve
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dpq import DPQ, Push, QueueStats, Task, TaskNotFoundError, TaskState
from dpq.server import open_embedded

CONSUMERS = 3
TOP = 25  # the most referenced modules, whose places the report compares
LOOK_S = 0.1  # between two looks at the queue
PLAIN_S = 2.0  # between two lines where there is no terminal
STOPPED_S = 0.05  # what a stopped consumer has sent before is with the server after this time
DOES = {  # how the live view says what a consumer did last
    "popped": ("fetches", ""),
    "acknowledged": ("acknowledged", "green"),
    "limited": ("got 429 for", "magenta"),
    "buried": ("buried", "red"),
}
PATIENCE_S = 60.0  # on top of three times what the limit alone takes

Consume = Callable[[str, str, str, Callable[[str, Task[str]], None]], None]


class Event(NamedTuple):
    """What a consumer told: it popped a task, or settled it (acknowledged, limited, buried)."""

    consumer: int
    what: str
    task_id: str
    module: str
    priority: float
    deliveries: int
    at: float  # monotonic


@dataclass
class Record:
    """All that was seen of one crawl.

    Attributes:
        pages: How many there are to crawl.
        killed: What the killed consumer held, and when it was killed.
        fate: What became of that task since.
        crashed: Consumers that ended with an error of their own.
    """

    pages: int
    began: float = field(default_factory=time.monotonic)
    latest: dict[int, Event] = field(default_factory=dict)  # by consumer
    acknowledged: list[Event] = field(default_factory=list)
    buried: list[Event] = field(default_factory=list)
    killed: Event | None = None
    fate: list[Event] = field(default_factory=list)
    crashed: list[int] = field(default_factory=list)

    def add(self, event: Event) -> None:
        """Take note of an event."""
        self.latest[event.consumer] = event
        if event.what == "acknowledged":
            self.acknowledged.append(event)
        elif event.what == "buried":
            self.buried.append(event)
        if self.killed and event.task_id == self.killed.task_id:
            self.fate.append(event)

    @property
    def settled(self) -> int:
        """Pages that need no further request."""
        return len(self.acknowledged) + len(self.buried)

    @property
    def seconds(self) -> float:
        """Since the crawl began."""
        return time.monotonic() - self.began


def crawl(consume: Consume, start: list[str], url: str, rate: int, budget: int | None) -> int:
    """Crawl from `start` with three processes that run `consume`, kill one, and report.

    Returns:
        0 when every page was crawled exactly once and the killed consumer's task came back, else 1;
        130 after Ctrl-C.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves through every `finally`
    console = Console(highlight=False)
    outcome = None
    with suppress(KeyboardInterrupt):
        console.print(f"Reading the standard library of Python {platform.python_version()} ...")
        library = read_library(start, budget)
        with ExitStack() as stack:
            if url.startswith("embedded:"):
                url = stack.enter_context(open_embedded(url)).url
            site = stack.enter_context(serve(library, rate))
            q = stack.enter_context(open_queue(url))
            q.push_many(Push(payload=name, key=name) for name in start + library.broken)
            console.print(
                f"{CONSUMERS} consumers crawl {len(library.pages)} modules from "
                f"{', '.join(start)}, {rate} a second"
            )
            record = Record(len(library.pages))
            fleet = stack.enter_context(Fleet(consume, url, q, site, record))
            # From here on Ctrl-C tears no drawing, and a second one no tidying up.
            interrupted: list[int] = []
            signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
            patience = 3 * record.pages / rate + PATIENCE_S
            with view(console, q, site, record) as show:
                while fleet.step() and not interrupted and record.seconds < patience:
                    show()
            if not interrupted:
                outcome = report(console, q, site, record)
    if outcome is None:
        console.print("Stopped; consumers, site and server are gone.")
        return 130
    return outcome


@contextmanager
def open_queue(url: str) -> Iterator[DPQ[str]]:
    """Open a queue of a fresh name, and leave nothing of it on the server."""
    with DPQ.from_url(url, f"stdlib-{uuid4().hex[:12]}") as q:
        try:
            yield q
        finally:
            q.drop()
            for key in q.redis.scan_iter(match=f"{q.queue_name}:*", count=1000):
                q.redis.delete(key)  # the consumers' own


class Fleet:
    """The consumer processes, and the pipes on which they tell what they do."""

    def __init__(self, consume: Consume, url: str, q: DPQ[str], site: Site, record: Record) -> None:
        self._q = q
        self._site = site
        self._record = record
        self._pipes: dict[Connection, int] = {}
        self._processes: dict[int, SpawnProcess] = {}
        spawn = get_context("spawn")  # fresh interpreters: they share nothing but the queue
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # they inherit that: we end them
        for number in range(1, CONSUMERS + 1):
            ours, theirs = spawn.Pipe(duplex=False)
            arguments = (consume, url, q.queue_name, site.url, theirs, number)
            process = spawn.Process(target=_consumer, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes[ours] = number
            self._processes[number] = process
        signal.signal(signal.SIGINT, interrupted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
            process.join()

    def step(self) -> bool:
        """Take note of events for a moment; False when every consumer has ended."""
        until = time.monotonic() + LOOK_S
        while self._pipes and (left := until - time.monotonic()) > 0:
            for pipe in wait(list(self._pipes), left):
                try:
                    event = pipe.recv()
                except EOFError:
                    self._ended(self._pipes.pop(pipe))
                    continue
                self._record.add(event)
                if self._is_time_to_kill(event):
                    self._kill(event)
        return bool(self._pipes)

    def _ended(self, number: int) -> None:
        self._processes[number].join()
        killed = self._record.killed
        if self._processes[number].exitcode and not (killed and killed.consumer == number):
            self._record.crashed.append(number)

    def _is_time_to_kill(self, event: Event) -> bool:
        return (
            self._record.killed is None
            and event.what == "popped"
            and self._record.settled >= self._record.pages / 2
            and self._site.library.pages[event.module].status == 200
        )

    def _kill(self, event: Event) -> None:
        """Kill the consumer if it still holds the task that it has just popped."""
        process = self._processes[event.consumer]
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        try:
            task = self._q.get(event.task_id)
            holds = task.state is TaskState.INVISIBLE and task.deliveries == event.deliveries
        except TaskNotFoundError:
            holds = False
        if holds:
            process.kill()
            self._record.killed = event._replace(at=time.monotonic())
        else:
            os.kill(process.pid, signal.SIGCONT)


def _consumer(
    consume: Consume, url: str, queue_name: str, site: str, pipe: Connection, number: int
) -> None:
    def tell(what: str, task: Task[str]) -> None:
        about = (task.id, task.payload, task.priority, task.deliveries)
        pipe.send(Event(number, what, *about, time.monotonic()))

    consume(url, queue_name, site, tell)


@contextmanager
def view(console: Console, q: DPQ[str], site: Site, record: Record) -> Iterator[Callable[[], None]]:
    """Give a function that shows how things are: in place on a terminal, else as lines."""
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(console=console, auto_refresh=False) as live:

            def draw() -> None:
                live.update(picture(q.stats(), site, record), refresh=True)

            yield draw
            draw()
        return
    due = 0.0

    def write() -> None:
        nonlocal due
        if record.seconds >= due:
            due += PLAIN_S
            console.print(line(q.stats(), site, record), soft_wrap=True)

    yield write
    due = 0.0
    write()


def line(stats: QueueStats, site: Site, record: Record) -> str:
    """Say how things are in one line."""
    return (
        f"{record.seconds:5.1f} s  ready {stats.ready:3}  delayed {stats.delayed:3}  "
        f"invisible {stats.invisible}  dead {stats.dead:2}  requests {site.requests:4}  "
        f"429s {site.limited:4}  done {record.settled}/{record.pages}"
    )


def picture(stats: QueueStats, site: Site, record: Record) -> Group:
    """Draw how things are, within 80 columns."""
    counts = Table(box=box.ROUNDED, padding=(0, 2))
    numbers = {
        "ready": (stats.ready, "green"),
        "delayed": (stats.delayed, "yellow"),
        "invisible": (stats.invisible, "cyan"),
        "dead": (stats.dead, "red"),
        "requests": (site.requests, "bold"),
        "429s": (site.limited, "magenta"),
    }
    for name, (_, style) in numbers.items():
        counts.add_column(name, justify="right", style=style, min_width=len(name))
    counts.add_row(*(f"{number}" for number, _ in numbers.values()))
    progress = Table.grid(padding=(0, 1))
    done = Text(f"{record.settled} of {record.pages} modules, {record.seconds:.1f} s")
    progress.add_row(ProgressBar(record.pages, record.settled, width=36), done)
    consumers = Table.grid(padding=(0, 2))
    for number in range(1, CONSUMERS + 1):
        consumers.add_row(f"consumer {number}", _doing(number, record))
    return Group(counts, progress, consumers)


def _doing(number: int, record: Record) -> Text:
    killed, event = record.killed, record.latest.get(number)
    if killed and killed.consumer == number:
        fate = "back when its lease ends"
        if record.fate:
            fate = f"consumer {record.fate[-1].consumer} {DOES[record.fate[-1].what][0]} it"
        return Text(f"killed while it held {killed.module}: {fate}", "red")
    if number in record.crashed:
        return Text("crashed", "red")
    if event is None:
        return Text("starts", "dim")
    does, style = DOES[event.what]
    text = Text.assemble((f"{does:<13}", style), event.module)
    text.append(f"  (priority {event.priority})", "dim")
    return text


def report(console: Console, q: DPQ[str], site: Site, record: Record) -> int:
    """Print what the crawl has shown, and check it.

    Returns:
        The exit status: 1 when a check failed.
    """
    seconds = record.seconds
    checks = {
        "modules": check_modules(q, site.library, record),
        "dead": check_dead(q, site.library),
        "recovered": check_recovered(record),
    }
    table = Table.grid(padding=(0, 2))
    for name, (passed, text) in checks.items():
        mark = Text("ok", "bold green") if passed else Text("FAILED", "bold red")
        table.add_row(mark, Text(name, "bold"), text)
    table.add_row("", Text("order", "bold"), compare_with_fifo(site))
    limit = f"{site.requests} requests in {seconds:.1f} s; beyond {site.rate} pages in any second"
    table.add_row("", Text("limit", "bold"), f"{limit}, {site.limited} were answered 429")
    console.print()
    console.print(table)
    return 0 if all(passed for passed, _ in checks.values()) else 1


def check_modules(q: DPQ[str], library: Library, record: Record) -> tuple[bool, str]:
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
    return not any(faults.values()), text


def check_dead(q: DPQ[str], library: Library) -> tuple[bool, str]:
    """Check that exactly the modules without a page are in the dead letters, with the reason."""
    dead = {task.payload: task.reason for task in q.dead.list(10_000)}
    wanted = {name: page.text for name, page in library.pages.items() if page.status != 200}
    if dead != wanted:
        return False, f"expected {some(sorted(wanted))}; found {some(sorted(dead))}"
    broken = [name for name in dead if library.pages[name].status == 422]
    absent = [name for name in dead if library.pages[name].status == 404]
    text = f"{len(broken)} do not parse: {some(broken)}"
    if not broken:
        text = "this Python carries no module that does not parse"
    if absent:
        text += f"; {len(absent)} are not in this Python: {some(absent)}"
    return True, text


def check_recovered(record: Record) -> tuple[bool, str]:
    """Check that the task of the killed consumer came back and was acknowledged by another one."""
    killed, fate = record.killed, record.fate
    if not killed:
        return False, "no consumer was caught with a task in its hands, so none was killed"
    text = f"consumer {killed.consumer} was killed with {killed.module} in its hands"
    text += f" (task {killed.task_id}, delivery {killed.deliveries})"
    if not fate or fate[-1].what != "acknowledged":
        return False, f"{text}; it did not come back in time"
    back, end = fate[0], fate[-1]
    text += (
        f"; {back.at - killed.at:.1f} s later it was popped again (delivery {back.deliveries}) and"
    )
    if limited := sum(event.what == "limited" for event in fate):
        text += f", after {limited} more answers 429,"
    text += f" acknowledged by consumer {end.consumer} (delivery {end.deliveries})"
    return end.deliveries > killed.deliveries and end.consumer != killed.consumer, text


def compare_with_fifo(site: Site) -> str:
    """Say how early the most referenced modules were fetched, beside a crawl without priorities.

    A plain FIFO queue goes breadth first: that is the order in which the library was read.
    """
    fifo = [name for name in site.library.pages if name not in site.library.broken]
    crawled = [name for name in dict.fromkeys(site.served) if name in fifo]
    references = site.library.references().most_common(TOP)
    places = {
        what: sum(order.index(name) + 1 for name, _ in references) / len(references)
        for what, order in (("crawl", crawled), ("FIFO", fifo))
        if all(name in order for name, _ in references)
    }
    if len(places) < 2:
        return "not all of the most referenced modules were fetched"
    named = some([f"{name} {count}x" for name, count in references])
    ratio = places["FIFO"] / places["crawl"]
    return (
        f"the {len(references)} most referenced modules ({named}) came at place "
        f"{places['crawl']:.0f} on average; plain FIFO: place {places['FIFO']:.0f}, "
        f"{ratio:.1f} times as late"
    )


def some(names: Sequence[object], most: int = 3) -> str:
    """List the first few names."""
    return ", ".join(f"{name}" for name in names[:most]) + (", ..." if len(names) > most else "")
