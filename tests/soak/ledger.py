"""What the actors of a soak have done, written down outside of Redis.

Each process has a file of its own. A line is one write with O_APPEND: it is there, or it is not,
whenever the process is killed. Times are seconds of this machine's clock, which the servers share.

    try     queue producer number count at                    before a push is sent
    push    queue id producer number delay sent back          a push that returned
    held    queue id token deliveries attempt deferrals priority enqueued granted until group cost
            producer number at                                a delivery that has reached a process
    asks    queue id token at                                 before a call goes out that acks it
    refused queue id token at                                 that call ended: others may have it
    gives   queue id token how seconds at                     before a call goes out that ends it
                                                              otherwise; `how` as in `end`
    over    queue id token at                                 from here on it stays too long
    end     queue id token how sent back seconds scope        what settles it has returned
    fault   kind begin finish detail                          by the conductor
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Ledger:
    """The file of one process, for writing; any number of its threads."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, *words: object) -> None:
        """Add a line."""
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


class Try(NamedTuple):
    queue: str
    producer: str
    number: int
    count: int
    at: float


class Pushed(NamedTuple):
    queue: str
    id: str
    producer: str
    number: int
    delay: float
    sent: float
    back: float


class Held(NamedTuple):
    """A delivery. `enqueued`, `granted` and `until` are ms of the clock that the queue goes by."""

    queue: str
    id: str
    token: int
    deliveries: int
    attempt: int
    deferrals: int
    priority: int | float
    enqueued: int
    granted: int
    until: int
    group: str
    cost: int
    producer: str
    number: int
    at: float
    actor: str = ""


class Mark(NamedTuple):
    """`asks`, `refused` or `over`."""

    queue: str
    id: str
    token: int
    at: float


class Given(NamedTuple):
    """A holder is about to end its delivery, other than by an ack."""

    queue: str
    id: str
    token: int
    how: str
    seconds: float
    at: float


class End(NamedTuple):
    """How a delivery was settled; `seconds` is the delay or the Retry-After that was said."""

    queue: str
    id: str
    token: int
    how: str
    sent: float
    back: float
    seconds: float
    scope: str


class Fault(NamedTuple):
    kind: str
    begin: float
    finish: float
    detail: str


def exact(text: str) -> int | float:
    """A priority as it was written: an int stays one."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


_one = sys.intern
"""For names that come in each line."""

_READERS: dict[str, tuple[type, tuple[Any, ...]]] = {
    "try": (Try, (_one, _one, int, int, float)),
    "push": (Pushed, (_one, str, _one, int, float, float, float)),
    "held": (Held, (_one, str, *[int] * 4, exact, int, int, int, _one, int, _one, int, float)),
    "asks": (Mark, (_one, str, int, float)),
    "refused": (Mark, (_one, str, int, float)),
    "gives": (Given, (_one, str, int, _one, float, float)),
    "over": (Mark, (_one, str, int, float)),
    "end": (End, (_one, str, int, _one, float, float, float, _one)),
    "fault": (Fault, (_one, float, float, _one)),
}


class Books:
    """All lines of all files, by kind; the actor of a file is its name."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.tries: list[Try] = []
        self.pushed: list[Pushed] = []
        self.held: list[Held] = []
        self.asks: list[Mark] = []
        self.refused: list[Mark] = []
        self.gives: list[Given] = []
        self.over: list[Mark] = []
        self.ends: list[tuple[str, End]] = []
        self.faults: list[Fault] = []
        places: dict[str, list[Any]] = {
            "try": self.tries, "push": self.pushed, "asks": self.asks, "refused": self.refused,
            "gives": self.gives, "over": self.over, "fault": self.faults,
        }  # fmt: skip
        for path in files:
            actor = path.name
            for kind, line in lines(path):
                if kind == "held":
                    self.held.append(line._replace(actor=actor))
                elif kind == "end":
                    self.ends.append((actor, line))
                else:
                    places[kind].append(line)


def lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Read the file of one process."""
    with path.open() as file:
        for text in file:
            kind, *words = text.split()
            make, readers = _READERS[kind]
            yield kind, make(*(read(word) for read, word in zip(readers, words, strict=True)))
