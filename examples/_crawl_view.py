"""How a crawl looks while it runs: drawn in place on a terminal, else as lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from _crawl_watch import CONSUMERS, Record
from _stdlib_site import Site
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dpq import DPQ
from dpq.types import QueueStats

PLAIN_S = 2.0  # between two lines where there is no terminal
DOES = {  # how the live view says what a consumer did last
    "ready": ("is ready", "dim"),
    "popped": ("fetches", ""),
    "acknowledged": ("acknowledged", "green"),
    "limited": ("got 429 for", "magenta"),
    "buried": ("no page for", "dim"),
}


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
        f"waiting {stats.waiting:3}  invisible {stats.invisible}  no page {stats.dead:2}  "
        f"requests {len(site.log):4}  429s {site.limited:4}  done {record.settled}/{record.pages}"
    )


def picture(stats: QueueStats, site: Site, record: Record) -> Group:
    """Draw how things are, within 80 columns."""
    counts = Table(box=box.ROUNDED, padding=(0, 1))
    numbers = {
        "ready": (stats.ready, "green"),
        "delayed": (stats.delayed, "yellow"),
        "waiting": (stats.waiting, "yellow"),
        "invisible": (stats.invisible, "cyan"),
        "no page": (stats.dead, ""),
        "requests": (len(site.log), ""),
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
    if event.module:
        text.append(f"  (priority {event.priority})", "dim")
    return text
