"""The work of `dpq run`: queue a file once, send its requests, save the answers.

`Loader` (_run_load.py) queues the file, `Sender` (_run_send.py) sends its requests.
"""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from dpq import AsyncDPQ, AsyncWorker
from dpq.cli._batch import Batch, Reader
from dpq.cli._results import Results
from dpq.cli._run_job import Job, fitted, queue_word
from dpq.cli._run_load import Loader
from dpq.cli._run_meter import RunMeter
from dpq.cli._run_send import Sender, open_client
from dpq.cli._terminal import FAILED, INTERRUPTED, talk
from dpq.model.errors import ConfigurationError
from dpq.transport.connect_async import open_url_async

log = logging.getLogger(__name__)

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
"""Bytes of a request in the queue: a line of 8 MiB fits, however it is written."""


def run_job(job: Job) -> int:
    """Do a job to its end, or until it is stopped; return the exit code.

    Raises:
        Failed: The file, the results or the queue do not fit; nothing was sent.
    """
    reader = Reader(job.file, job.url, job.cost_from)
    batch = reader.check()
    results = Results(job.save, job.also, batch)
    results.read()
    job = replace(job, limits=[fitted(each, batch.largest) for each in job.limits])
    if not job.queue:
        job = replace(job, queue=f"{queue_word(job.file)}-{batch.digest[:8]}")
    return asyncio.run(_Run(job, reader, batch, results).run())


class _Run:
    """One run of one process."""

    def __init__(self, job: Job, reader: Reader, batch: Batch, results: Results) -> None:
        self._job, self._reader, self._batch, self._results = job, reader, batch, results
        self._had_work = False
        self._meter = RunMeter(batch.total, as_json=job.json)
        self._queue: AsyncDPQ[Any]
        self._sender: Sender
        self._worker: AsyncWorker

    async def run(self) -> int:
        job = self._job
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
            if job.limits:
                await self._queue.set_limit(list(job.limits), group=job.group)
            await Loader(job, self._reader, self._batch, self._results, self._queue).load()
            if job.retry_dead:
                await self._queue.dead.replay()
            client = await stack.enter_async_context(open_client(job))
            self._sender = Sender(job, self._results, self._meter, client, self._stop)
            self._worker = AsyncWorker(
                self._queue, self._sender.send, concurrency=job.workers, grace=job.timeout
            )
            self._had_work = await self._queue.size() > 0
            async with self._meter.showing(self._queue, job.group):
                await self._worker.run(until_empty=True, signals=True)
            return await self._end()

    def _stop(self) -> None:
        if not self._worker.stopping:  # a second call would give tasks back
            self._worker.stop()

    async def _end(self) -> int:
        """Tidy the results, if the batch is over, and say how it went."""
        stats, stopped = await self._queue.stats(), self._sender.stopped
        left = stats.ready + stats.delayed + stats.invisible + stats.waiting
        results, save = self._results, self._job.save
        if not left:
            ordered = self._job.ordered
            removed = await asyncio.to_thread(results.tidy, ordered=ordered)
            if removed:
                log.info("%s: removed %d results that stood there twice", save, removed)
            await asyncio.to_thread(results.read_on)
        missing = self._batch.total - results.saved - left - stats.dead
        self._meter.end(saved=results.saved, dead=stats.dead, left=left, stopped=stopped)
        if stats.dead:
            for dead in await self._queue.dead.list(5):
                talk(f"dead: line {dead.payload['line']}: {dead.reason}")
            talk(
                f"{stats.dead} requests are dead letters: dpq --url SERVER --queue "
                f"{self._job.queue} dead list; --retry-dead sends them again"
            )
        if left:
            talk(f"{left} requests are left: run the same command again to go on")
        elif missing > 0:
            talk(
                f"{missing} results are not in {save}: another machine has them (name its file "
                "with --also), or they were lost (--again sends these requests again)"
            )
        if left and not stopped:
            return INTERRUPTED
        lost = missing > 0 and not self._had_work  # else others have worked beside this process
        return FAILED if stopped or stats.dead or lost else 0


def require_httpx() -> None:
    """Refuse to run without httpx.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import httpx  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigurationError("dpq run needs httpx: pip install 'httpx>=0.27'") from None
