"""The operations about workers: their heartbeats, and the list of workers. No I/O."""

import re
from collections.abc import Sequence

from dpq.model.reports import WorkerInfo
from dpq.model.validation import MAX_NAME_BYTES, one_line
from dpq.protocol.command import CommandMaker, Steps, same
from dpq.protocol.values import moment_of, read_texts

BEAT_SECONDS = 10.0
"""Seconds between the heartbeats of a worker, one call for each of its queues."""

FORGET_SECONDS = 60.0
"""Seconds without a heartbeat after which a worker counts as gone: five were lost in a row."""

_COUNT = r"(\d{1,15})"  # of more digits Python may refuse to make an int

_STORED = re.compile(
    rf"{_COUNT} (-?\d{{1,15}}) {_COUNT} {_COUNT} {_COUNT}\t([^\t]*)\t(.*)", re.DOTALL | re.ASCII
)


class WorkerOperations(CommandMaker):
    """Every operation about workers; of several partitions, the first stores them."""

    def beat(
        self,
        worker: str,
        name: str,
        host: str,
        pid: int,
        running: int,
        concurrency: int,
        age: float,
    ) -> Steps[int]:
        """Send a heartbeat of a worker; `age` is the seconds that it has been running."""
        texts = [one_line(text)[:MAX_NAME_BYTES] for text in (host, name)]
        about = "\t".join([f"{running} {concurrency} {pid}", *texts])
        return self._beat(worker, round(age * 1000), about)

    def leave(self, worker: str) -> Steps[int]:
        """Report that a worker has ended."""
        return self._beat(worker, 0, "")

    def _beat(self, worker: str, age_ms: int, about: str) -> Steps[int]:
        args = [self._now(), worker, age_ms, about, int(FORGET_SECONDS * 1000)]
        return self._ask("beat", args, same)

    def workers(self) -> Steps[list[WorkerInfo]]:
        """List the workers of the queue, the longest running first."""
        found: dict[str, WorkerInfo] = {}
        cursor = "0"
        while True:
            args = [self._now(), cursor, int(FORGET_SECONDS * 1000)]
            cursor, *page = yield self._command("workers", args, read_texts)
            found |= _read(self.queue_name, page)
            if cursor == "0":
                return sorted(found.values(), key=lambda worker: (worker.since, worker.name))


def _read(queue_name: str, page: Sequence[str]) -> dict[str, WorkerInfo]:
    workers = {}
    for worker, stored in zip(page[::2], page[1::2], strict=True):
        if told := _STORED.fullmatch(stored):  # else another program has written into Redis
            seen, since, running, concurrency, pid, host, name = told.groups()
            workers[worker] = WorkerInfo(
                id=worker,
                name=name,
                host=host,
                pid=int(pid),
                queue=queue_name,
                running=int(running),
                concurrency=int(concurrency),
                since=moment_of(int(since)),
                seen=moment_of(int(seen)),
            )
    return workers
