"""The crawls as plots: a PNG by matplotlib, and characters by plotext; both are optional."""

from collections.abc import Sequence
from pathlib import Path

from _crawl_report import Figures, Least

INSTALL = "pip install 'matplotlib>=3.9' 'plotext>=6'"
COLUMNS, ROWS = 80, 20
LETTERS = "FS+L"  # how the terminal plot draws the ways: with one of the letters of their names
COLORS = {
    "terminal": ("red", "orange", "blue", "green"),
    "png": ("#c0392b", "#e08e0b", "#5b7fb0", "#1e8449"),
}


def draw(crawls: Sequence[Figures], bound: Least, width: int, *, colors: bool) -> str:
    """Draw the pages over time as text, at most 80 columns wide.

    Raises:
        ImportError: plotext is not installed.
    """
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.plot_size(min(width, COLUMNS), ROWS)
    figure.theme("colorless")
    end = max(bound.seconds, *(crawl.seconds for crawl in crawls))
    moments = [end * step / COLUMNS for step in range(COLUMNS + 1)]
    lines = [("physical least", ".", "gray", bound.seconds, bound.at)]
    for crawl, letter, color in zip(crawls, LETTERS, COLORS["terminal"], strict=True):
        lines.append((crawl.name, letter, color, crawl.seconds, crawl.at))
    for name, letter, color, seconds, pages_at in lines:
        times = [moment for moment in moments if moment < seconds] + [seconds]
        marker = plotext.marker(letter, color if colors else None)
        pages = [pages_at(moment) for moment in times]
        figure.draw(figure.signal(times, pages, marker=marker).label(name))
    figure.title("pages fetched")
    figure.legend(x=end, y=0, ha="right", va="bottom", relative=True)
    figure.label("seconds", "x")
    figure.ruler("x").ticks(list(range(0, int(end) + 1, max(1, round(end / 8)))))
    pages = len(crawls[-1].pages)
    figure.ruler("y").ticks([round(pages * quarter / 4) for quarter in range(5)])
    text: str = figure.build().string()
    return text if colors else plotext.uncolorize(text)


def save(crawls: Sequence[Figures], bound: Least, path: Path) -> None:
    """Write the pages over time, the 429s and the most referenced modules over time as a PNG.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.2), layout="constrained")
    FigureCanvasAgg(figure)  # draws without a display
    figure.suptitle(headline(crawls), fontsize=15, fontweight="bold")
    pages, wasted, top = figure.subplots(1, 3, width_ratios=(5, 4, 4))
    moments = [bound.seconds * step / 500 for step in range(501)]
    least = [bound.at(moment) for moment in moments]
    pages.step(
        moments, least, where="post", color="black", linestyle=":", label="physical least", zorder=3
    )
    for crawl, color in zip(crawls, COLORS["png"], strict=True):
        for axes, times in ((pages, crawl.pages), (top, crawl.top)):
            steps = range(1, len(times) + 1)
            axes.step(times, steps, where="post", color=color, label=crawl.name, linewidth=1.8)
    hosts = " and ".join(f"{rate}" for rate in bound.rates.values())
    pages.set(
        title=f"{len(crawls[-1].pages)} pages, from two hosts that\nallow {hosts} in any second",
        xlabel="seconds",
        ylabel="pages fetched",
        ylim=0,
        xlim=0,
    )
    pages.legend(loc="lower right")
    wanted = max(len(crawl.top) for crawl in crawls)
    top.set(title=f"The {wanted} pages that\nmost others link to", xlabel="seconds", ylim=0, xlim=0)
    names = [crawl.name for crawl in reversed(crawls)]
    bars = wasted.barh(
        names,
        [crawl.limited for crawl in reversed(crawls)],
        color=tuple(reversed(COLORS["png"])),
    )
    texts = [f"{crawl.limited} of {crawl.requests}" for crawl in reversed(crawls)]
    wasted.bar_label(bars, texts, padding=4)
    wasted.set(title="Requests wasted:\nanswered 429, too many requests", xlabel="requests")
    wasted.margins(x=0.35)
    for axes in (pages, wasted, top):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90, format="png")


def headline(crawls: Sequence[Figures]) -> str:
    """Say in a sentence what the crawls have shown: the last one beside those without limits."""
    fifo, hides, _, ours = crawls
    text = f"DPQ: {ours.limited} requests wasted, not {fifo.limited} or {hides.limited}"
    if ours.top and fifo.top:
        text += f"; what matters most after {ours.top[-1]:.0f} s, not {fifo.top[-1]:.0f}"
    return text
