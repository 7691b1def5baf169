"""What all these programs share: the same payload, and what they print.

python rq_worker.py unix:///tmp/server.sock 5000 100
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

URL, TASKS, BULK = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SOCKET = URL.removeprefix("unix://")
QUEUE = "peer"
LEFT_OUT = 200
"""Tasks at the beginning of the consuming that are not counted: a start takes its time."""


def payload(number: int) -> str:
    """100 bytes."""
    return f"https://api.example.com/v1/items/{number:012d}?fields=all&page=1".ljust(100, "x")


class Seen:
    """Counts handled tasks, and how long all but the first took; calls `done` after the last."""

    def __init__(self, total: int, done: Callable[[], object] = lambda: None) -> None:
        self.total = total
        self.done = done
        self.count = 0
        self.began = 0.0

    def __call__(self, *_: Any) -> None:
        self.count += 1
        if self.count == LEFT_OUT:
            self.began = time.perf_counter()
        elif self.count == self.total:
            self.done()

    def rate(self) -> float:
        """Tasks a second, to this moment: call it when the last ack has been answered."""
        return (self.total - LEFT_OUT) / (time.perf_counter() - self.began)


def rate(work: Callable[[], object], tasks: int = TASKS) -> float:
    began = time.perf_counter()
    work()
    return tasks / (time.perf_counter() - began)


def bulks() -> Sequence[Sequence[str]]:
    numbers = range(TASKS, 2 * TASKS)
    return [[payload(n) for n in numbers[first : first + BULK]] for first in range(0, TASKS, BULK)]


def tell(**figures: float | str | None) -> None:
    print(json.dumps(figures), flush=True)
