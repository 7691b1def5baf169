"""What workers have done, written down outside of Redis, and what follows from it.

Each worker process has a file of its own, and adds a line to it when a task reaches it (`held`) and
before its handler returns (`done`). A line is one write with O_APPEND: it is there, or it is not,
whenever the process is killed. Tokens are unique in a queue, so a token names a delivery.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple


class Line(NamedTuple):
    """A delivery that reached a process."""

    what: Literal["held", "done"]
    id: str
    attempt: int
    token: int
    pid: int


class Ledger:
    """The file of one process, for writing; any number of its threads."""

    def __init__(self, path: Path | str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: Literal["held", "done"], task: Any) -> None:
        """Add a line."""
        line = f"{what} {task.id} {task.attempt} {task.token} {os.getpid()}\n"
        os.write(self._file, line.encode())


def lines(path: Path) -> Iterator[Line]:
    """Read the file of one process; of one that has not begun, nothing."""
    if path.exists():
        for line in path.read_text().splitlines():
            what, id_, attempt, token, pid = line.split()
            yield Line("held" if what == "held" else "done", id_, *map(int, (attempt, token, pid)))


def count(path: Path) -> int:
    """How many tasks a process has done so far."""
    return path.read_bytes().count(b"done ") if path.exists() else 0


class Expired(NamedTuple):
    """A lease that ran out: the first one of this attempt that did.

    Attributes:
        held: The process that held it; None when the task never reached one.
    """

    id: str
    attempt: int
    held: Line | None


class Books:
    """All that the workers of a test have written.

    Attributes:
        held: The deliveries that reached a process, by token.
        done: Those whose handler came to its end.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.held: dict[int, Line] = {}
        self.done: dict[int, Line] = {}
        for path in paths:
            for line in lines(path):
                mine = self.held if line.what == "held" else self.done
                assert line.token not in mine, f"{line} and {mine[line.token]}: one token twice"
                mine[line.token] = line

    def times_done(self) -> Counter[str]:
        """How often each task was done."""
        return Counter(line.id for line in self.done.values())

    def missing(self, popped: int) -> int:
        """How many deliveries reached no process, out of so many."""
        return popped - len(self.held)

    def expired(self) -> list[Expired]:
        """Every lease that ran out: each but the last attempt of each task."""
        last: dict[str, dict[int, Line]] = defaultdict(dict)
        for _, line in sorted(self.held.items()):
            last[line.id][line.attempt] = line
        return [
            Expired(id_, attempt, by_attempt.get(attempt))
            for id_, by_attempt in last.items()
            for attempt in range(1, max(by_attempt))
        ]

    def unexplained(self, explains: Callable[[Expired], bool]) -> list[Expired]:
        """The leases that ran out for no known reason."""
        return [expired for expired in self.expired() if not explains(expired)]
