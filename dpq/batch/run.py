"""The run of a batch: queue a file once, send its requests, save the answers.

`Loader` (loader.py) queues the file, `Sender` (sender.py) sends its requests.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from dpq import AsyncDPQ, AsyncWorker
from dpq.batch.job import BatchJob, fitted
from dpq.batch.loader import Loader
from dpq.batch.reader import Batch
from dpq.batch.results import Results
from dpq.batch.sender import Progress, Sender, open_client
from dpq.link.connect_async import open_url_async
from dpq.types import DeadTask

log = logging.getLogger(__name__)

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024  # in the queue: a line of 8 MiB fits, however it is written
DEATHS_SHOWN = 5
TROUBLE_SECONDS = 60.0  # without a good answer, after which a run says why


@dataclass(frozen=True)
class BatchOutcome:
    """The end of one run of a batch, in numbers.

    Attributes:
        total: The requests of the file.
        saved: Those that have an answer in the files.
        dead: Dead letters: requests that were refused, or failed too often.
        left: Those that are left for the next run.
        missing: Those that are done, but whose answer is in none of the files.
        deaths: The first dead letters, a line of text each.
        stopped: The reason why the run has ended itself, such as a wrong key; "" if it has not.
        alone: No other process can have the missing answers: the server is the run's own, or
            nothing was left to send when it began.
        saved_here: Answers that this process has saved.
        limited_here: Answers to this process that were a limit of the API.
        refused_here: Answers to this process that were not good, by status.
        seconds: The time that it took.
        queue: The name of the queue.
    """

    total: int
    saved: int
    dead: int
    left: int
    missing: int
    deaths: tuple[str, ...]
    stopped: str
    alone: bool
    saved_here: int
    limited_here: int
    refused_here: Mapping[str, int]
    seconds: float
    queue: str


def run_batch(job: BatchJob, progress: Callable[[int], Progress] = Progress) -> BatchOutcome:
    """Send what is left of a file; return when it is done, or at Ctrl-C when open requests are."""
    return asyncio.run(_Run(job, progress).run(signals=True))


async def run_batch_async(
    job: BatchJob, progress: Callable[[int], Progress] = Progress
) -> BatchOutcome:
    """Async `run_batch`; it leaves signals to the program whose event loop it runs in."""
    return await (await asyncio.to_thread(_Run, job, progress)).run(signals=False)


class _Run:
    """One run of one process. Making it reads the files."""

    def __init__(self, job: BatchJob, progress: Callable[[int], Progress]) -> None:
        self._client = open_client(job)
        batch = Batch(job.file, job.url, job.cost_from)
        results = Results(job.answers, job.also, batch)
        results.read()
        word = re.sub(r"[^\w.-]", "-", job.file.stem, flags=re.ASCII)[:40]
        queue = job.queue or f"{word}-{batch.digest[:8]}"
        limits = [fitted(each, batch.largest, job.host) for each in job.limits]
        self._job = replace(job, limits=limits, queue=queue)
        self._batch, self._results = batch, results
        self._progress = progress(batch.total)
        self._began, self._alone = time.monotonic(), True
        self._queue: AsyncDPQ[Any]
        self._sender: Sender
        self._worker: AsyncWorker

    async def run(self, *, signals: bool) -> BatchOutcome:
        job, progress = self._job, self._progress
        async with AsyncExitStack() as stack:
            opened = open_url_async(job.server)
            stack.push_async_callback(opened.aclose)
            self._queue = AsyncDPQ(
                opened.client,
                job.queue,
                default_visibility=job.visibility,
                default_max_attempts=job.attempts,
                max_payload_bytes=MAX_PAYLOAD_BYTES,
            )
            await stack.enter_async_context(self._queue)
            loader = Loader(job, self._batch, self._results, self._queue, progress)
            await loader.load()
            if job.limits:
                await self._queue.set_limit(list(job.limits), group=job.group)
            if job.retry_dead:
                await self._queue.dead.replay()
            client = await stack.enter_async_context(self._client)
            self._sender = Sender(job, self._results, progress, client, self._stop)
            self._worker = AsyncWorker(
                self._queue, self._sender.send, concurrency=job.workers, grace=job.timeout
            )
            self._alone = job.is_private or await self._queue.size() == 0
            stack.callback(asyncio.create_task(self._tell_trouble()).cancel)
            async with progress.showing(self._queue, job.group):
                await self._worker.run(until_empty=True, signals=signals)
            outcome = await self._end()
            if not (outcome.left or outcome.dead):
                await loader.finish(missing=outcome.missing)
            return outcome

    async def _tell_trouble(self) -> None:
        """Say it once if nothing has worked for a minute."""
        saved, told = -1, False
        while True:
            told = told and saved == self._progress.saved_here
            saved = self._progress.saved_here
            await asyncio.sleep(TROUBLE_SECONDS)
            if self._sender.trouble and saved == self._progress.saved_here and not told:
                self._progress.say(f"nothing worked for a minute: {self._sender.trouble}")
                told = True

    def _stop(self) -> None:
        if not self._worker.stopping:  # a second call would give tasks back
            self._worker.stop()

    async def _end(self) -> BatchOutcome:
        """Tidy the results, if the batch is over, and say how it went."""
        stats, results, counted = await self._queue.stats(), self._results, self._progress
        left = stats.live
        if not left:
            ordered = self._job.ordered
            removed = await asyncio.to_thread(results.tidy, ordered=ordered)
            if removed:
                log.info("%s: removed %d results that stood there twice", results.path, removed)
        await asyncio.to_thread(results.read)  # anew: the file may have lost a line
        dead = await self._queue.dead.list(DEATHS_SHOWN) if stats.dead else []
        return BatchOutcome(
            total=self._batch.total,
            saved=results.saved,
            dead=stats.dead,
            left=left,
            missing=max(0, self._batch.total - results.saved - left - stats.dead),
            deaths=tuple(map(_said, dead)),
            stopped=self._sender.stopped,
            alone=self._alone,
            saved_here=counted.saved_here,
            limited_here=counted.limited_here,
            refused_here=dict(counted.refused_here),
            seconds=time.monotonic() - self._began,
            queue=self._job.queue,
        )


def _said(dead: DeadTask[Any]) -> str:
    """Name the line of a dead letter, or its id if another program has pushed it, and its end."""
    line = dead.payload.get("line") if isinstance(dead.payload, dict) else None
    place = f"task {dead.id}" if line is None else f"line {line}"
    return ": ".join(filter(None, (place, dead.reason, dead.last_error)))
