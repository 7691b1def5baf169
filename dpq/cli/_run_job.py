"""The job of `dpq run`, as the command line says it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpq import RateLimit

BURST_SHARE = 0.15
"""Of a rate: if answers use 59 % of what is reserved, a batch reaches 0.79 of its rate at 0.05 of
it, 0.94 at 0.1, 1.01 at 0.15, with the burst itself (`python -m benchmarks llm`)."""


@dataclass
class Job:
    """A job, as the command line says it.

    Attributes:
        server: The URL of the queue's server.
        url: The address of the API.
        save: The file of results.
        also: Files of results of other machines.
        headers: Headers of each request. Their values are shown and stored nowhere.
        timeout: Seconds that an answer may take.
        again: Send what has no result, though this queue has worked on the file.
        retry_dead: Make the dead letters of the queue ready first.
    """

    file: Path
    server: str
    queue: str
    url: str
    save: Path
    also: Sequence[Path] = ()
    limits: Sequence[RateLimit] = ()
    group: str = ""
    workers: int = 64
    headers: Mapping[str, str] = field(default_factory=dict)
    cost_from: str | None = None
    timeout: float = 600.0
    attempts: int = 10
    visibility: float = 30.0
    ordered: bool = False
    again: bool = False
    retry_dead: bool = False
    json: bool = False


def fitted(window: RateLimit, largest: Mapping[str, int]) -> RateLimit:
    """Give a window of a named unit, if it has no burst, a part of its rate as burst.

    Without one, a request saves its tokens up while nothing else runs, which halves the rate; and
    what an answer did not use can only be given back as far as a burst reaches. The hosts that
    limit tokens keep buckets of a minute. A moving window needs no burst.

    Args:
        window: The window as the command line says it.
        largest: The largest cost of a request, by unit: the least burst.
    """
    if not window.unit or window.burst != 1 or window.adaptive or window.moving:
        return window
    return replace(
        window, burst=max(1, round(window.rate * BURST_SHARE), largest.get(window.unit, 1))
    )


def queue_word(path: Path) -> str:
    """Make a word for the name of a queue of a file's name."""
    return re.sub(r"[^\w.-]", "-", path.stem, flags=re.ASCII)[:40]
