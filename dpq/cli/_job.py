"""The job of one process of `dpq worker`: finds the handlers and the queues, and runs a worker."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, closing, nullcontext
from typing import Any, NamedTuple

from dpq import DPQ, AsyncDPQ, AsyncWorker, Tasks, Worker
from dpq.cli._drain import metered, metered_async
from dpq.cli._health_port import HealthSource
from dpq.cli._log import LogStyle
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL
from dpq.cli._target import is_async, load
from dpq.cli._terminal import FAILED
from dpq.link.connect import open_url
from dpq.link.connect_async import open_url_async
from dpq.model.errors import ConfigurationError
from dpq.model.log_fields import fields
from dpq.worker.base import WorkerBase

log = logging.getLogger(__name__)


class Job(NamedTuple):
    """The job of one process; `url` and `queues` are empty if none was named."""

    target: str
    url: str | None
    queues: list[str]
    settings: dict[str, Any]
    drain: bool
    quiet: bool
    on_beat: Callable[[], None] | None = None
    log: LogStyle = "text"
    source: HealthSource | None = None

    def words(self, verbose: int, *, quiet: bool) -> list[str]:
        """Make the command of a child for this job, without the URL, which may hold a password."""
        words = [*["-v"] * verbose, "worker", self.target, "--child-of", str(os.getpid())]
        for name in self.queues:
            words.append(f"--queue={name}")
        for name, value in self.settings.items():
            if value is not None:
                words.append(f"--{name.replace('_', '-')}={value}")
        words += [f"--log={self.log}"]
        return words + ["--drain"] * self.drain + ["--quiet"] * quiet


def work(job: Job) -> int:
    """Do a job in this process, to its end; return the exit code."""
    handlers = load(job.target)
    run_async = is_async(handlers)
    return asyncio.run(_work_async(job, handlers)) if run_async else _ended(_run(job, handlers))


async def _work_async(job: Job, handlers: Any) -> int:
    code = _ended(await _run_async(job, handlers))
    if code:  # asyncio would wait for handlers that it cannot cancel, as in threads
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _ended(done: WorkerBase[Any]) -> int:
    return FAILED if done.given_back else 0


def _run(job: Job, handlers: Any) -> WorkerBase[Any]:
    with ExitStack() as stack:
        queues = open_queues(job, handlers, stack)
        made = Worker(queues, handlers, **job.settings)
        _begin(made, job)
        with metered(queues) if job.drain and not job.quiet else nullcontext():
            made.run(until_empty=job.drain)
        return made


async def _run_async(job: Job, handlers: Any) -> WorkerBase[Any]:
    async with AsyncExitStack() as stack:
        queues = open_queues_async(job, handlers, stack)
        made = AsyncWorker(queues, handlers, **job.settings)
        _begin(made, job)
        async with metered_async(queues) if job.drain and not job.quiet else nullcontext():
            await made.run(until_empty=job.drain, signals=True)
        return made


def open_queues(job: Job, handlers: Any, stack: ExitStack) -> list[DPQ[Any]]:
    """Open the queues of a job, and give the first to its handlers."""
    queues = _own(job, handlers, DPQ)
    if not queues:
        opened = stack.enter_context(closing(open_url(job.url or DEFAULT_URL)))
        queues = [DPQ(opened.client, name) for name in _names(job, handlers)]
    for queue in queues:
        stack.callback(queue.close)
    _give(handlers, queues[0])
    return queues


def open_queues_async(job: Job, handlers: Any, stack: AsyncExitStack) -> list[AsyncDPQ[Any]]:
    """Open the queues of a job as `open_queues` does."""
    queues = _own(job, handlers, AsyncDPQ)
    if not queues:
        opened = open_url_async(job.url or DEFAULT_URL)
        stack.push_async_callback(opened.aclose)
        queues = [AsyncDPQ(opened.client, name) for name in _names(job, handlers)]
    for queue in queues:
        stack.push_async_callback(queue.close)
    _give(handlers, queues[0])
    return queues


def _own(job: Job, handlers: Any, kind: Any) -> list[Any]:
    """Make the queues on the client of a `Tasks`; none if it has no queue, or a server is named."""
    own = handlers.queue if isinstance(handlers, Tasks) else None
    if own is None or job.url is not None:
        return []
    if not isinstance(own, kind):
        raise ConfigurationError(
            f"{job.target!r} is async, but its queue is not: name the server with --url or DPQ_URL"
        )
    names = job.queues or [own.queue_name]
    return [own if name == own.queue_name else kind(own.redis, name) for name in names]


def _names(job: Job, handlers: Any) -> list[str]:
    own = handlers.queue if isinstance(handlers, Tasks) else None
    return job.queues or [own.queue_name if own else DEFAULT_QUEUE]


def _give(handlers: Any, queue: Any) -> None:
    """Give a queue to a `Tasks` that has none, so that its tasks can push others."""
    if isinstance(handlers, Tasks) and handlers.queue is None:
        handlers.queue = queue


def _begin(made: WorkerBase[Any], job: Job) -> None:
    made._on_beat = job.on_beat
    if job.source:
        job.source.ask = made.health
    names = ", ".join(queue.queue_name for queue in made.queues)
    kind = type(made).__name__
    log.info(
        "%s: %s of %s on %s, %d at once",
        *(made.name, kind, job.target, names, made.concurrency),
        extra=fields("worker_begins", worker=made.name, count=made.concurrency),
    )
