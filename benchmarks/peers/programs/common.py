"""What the programs of all peers share: their words, the payload, and what they print.

    python PEER.py WHAT URL TASKS AT_ONCE

`WHAT` is `push` (one by one), `push_many` (by hundreds) or `consume`. A program prints one line of
JSON: the tasks a second. It must import nothing that a peer's own environment does not have.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

WHAT, URL = sys.argv[1], sys.argv[2]
TASKS, AT_ONCE = int(sys.argv[3]), int(sys.argv[4])
PORT = int(URL.rpartition(":")[2].partition("/")[0]) if URL.startswith("redis://") else 0
QUEUE = "peer"
BULK = 100  # tasks of one bulk push
SETTLE_S = 0.5
"""Seconds from the last handled task to the end: by then each worker has sent its last ack."""

BODIES = [
    f"https://api.example.com/v1/items/{number:012d}?fields=all&page=1".ljust(100, "x")
    for number in range(TASKS)
]
BULKS: Sequence[Sequence[str]] = [BODIES[first : first + BULK] for first in range(0, TASKS, BULK)]


def tell(rate: float) -> None:
    print(json.dumps({"rate": rate}), flush=True)


@contextmanager
def measured() -> Iterator[None]:
    """Measure a block that pushes all tasks."""
    began = time.perf_counter()
    yield
    tell(TASKS / (time.perf_counter() - began))


class Seen:
    """Counts handled tasks, from any thread; after the last one it ends this program.

    The time goes from the handler of the first tenth to the handler of the last task. So neither
    the start of a worker nor its way to stop counts.
    """

    def __init__(self) -> None:
        self.left_out = max(1, TASKS // 10)
        self.count = 0
        self.began = 0.0
        self.lock = threading.Lock()

    def __call__(self, *_: Any, **__: Any) -> None:
        with self.lock:
            self.count += 1
            if self.count == self.left_out:
                self.began = time.perf_counter()
            if self.count == TASKS:
                tell((TASKS - self.left_out) / (time.perf_counter() - self.began))
                timer = threading.Timer(SETTLE_S, os._exit, (0,))
                timer.daemon = True
                timer.start()


seen = Seen()
