"""The work of `dpq run`: queue a file once, send its requests, save the answers.

A second queue, `NAME.batch`, holds one task: the file that this queue works on. Loading the file is
the work of that task. So one process loads while the others wait, and if it dies, the next one
begins anew: nobody sends before the file is loaded, and keys make a second push of a line harmless.
Then the task is put off for ten years: "loaded". From then on the queue alone says what is left: a
line is in it until its answer is saved.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import from_json, to_json

from dpq import (
    AsyncDPQ,
    AsyncWorker,
    Context,
    LeaseLostError,
    Push,
    RateLimit,
    RateLimited,
    Reject,
    Release,
    Retry,
    Task,
    TaskNotFoundError,
    TaskState,
)
from dpq.cli._batch import Batch, Reader, Request, target, tokens_used
from dpq.cli._results import Results, hash_text, result_line
from dpq.cli._run_meter import RunMeter
from dpq.cli._terminal import FAILED, INTERRUPTED, Failed, talk
from dpq.model.errors import ConfigurationError
from dpq.model.rate_headers import DEFAULT_RETRY_AFTER
from dpq.transport.connect_async import open_url_async

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

BATCH_KEY = "batch"
LOADED_SECONDS = 315_360_000
"""Seconds: ten years, the longest delay. A file that is loaded stays so."""

SLICE = 200
"""Lines that are pushed in one round trip."""

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
"""Bytes of a request in the queue: a line of 8 MiB fits, however it is written."""

MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Bytes of an answer that are read; a longer one is a failed attempt."""

MAX_TEXT_CHARACTERS = 500
"""Characters of a refusal that are kept as the reason of a dead letter."""

REFUSALS_AT_FIRST = 10
"""Answers in a row, before the first good one, that end a run: an address or a key is wrong."""

BURST_SHARE = 0.15
"""Of a rate: if answers use 59 % of what is reserved, a batch reaches 0.79 of its rate at 0.05 of
it, 0.94 at 0.1, 1.01 at 0.15, with the burst itself (`python -m benchmarks llm`)."""

CONNECT_SECONDS = 10.0
BUSY = (429, 503, 529)
NOT_ALLOWED = (401, 402)
"""Statuses that no other line would escape: the key is wrong, or there is no money."""


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
        job = replace(job, queue=f"{_queue_word(job.file)}-{batch.digest[:8]}")
    return asyncio.run(_Run(job, reader, batch, results).run())


def fitted(window: RateLimit, largest: Mapping[str, int]) -> RateLimit:
    """Give a window of a named unit, if it has no burst, a part of its rate as burst.

    Without one, a request saves its tokens up while nothing else runs, which halves the rate; and
    what an answer did not use can only be given back as far as a burst reaches. The hosts that
    limit tokens keep buckets of a minute.

    Args:
        window: The window as the command line says it.
        largest: The largest cost of a request, by unit: the least burst.
    """
    if not window.unit or window.burst != 1 or window.adaptive:
        return window
    return replace(
        window, burst=max(1, round(window.rate * BURST_SHARE), largest.get(window.unit, 1))
    )


def _queue_word(path: Path) -> str:
    """Make a word for the name of a queue of a file's name."""
    return re.sub(r"[^\w.-]", "-", path.stem, flags=re.ASCII)[:40]


class _Run:
    """One run of one process."""

    def __init__(self, job: Job, reader: Reader, batch: Batch, results: Results) -> None:
        self._job, self._reader, self._batch, self._results = job, reader, batch, results
        self._stopped = ""  # the reason, if the run ended itself
        self._had_work = False
        self._reading = asyncio.Lock()
        self._good = self._bad_at_first = 0
        self._meter = RunMeter(batch.total, as_json=job.json)
        self._queue: AsyncDPQ[Any]
        self._http: httpx.AsyncClient
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
            await self._load()
            if job.retry_dead:
                await self._queue.dead.replay()
            self._http = await stack.enter_async_context(_client(job))
            self._worker = AsyncWorker(
                self._queue, self._send, concurrency=job.workers, grace=job.timeout
            )
            self._had_work = await self._queue.size() > 0
            async with self._meter.showing(self._queue, job.group):
                await self._worker.run(until_empty=True)
            return await self._end()

    # Loading

    async def _load(self) -> None:
        """Queue the file, unless that is done.

        Raises:
            Failed: The queue works on another file.
        """
        again = self._job.again
        waited, leased = False, None
        async with AsyncDPQ(self._queue.redis, f"{self._job.queue}.batch") as batches:
            while True:
                try:
                    task = await batches.get(key=BATCH_KEY)
                except TaskNotFoundError:
                    named = {"file": self._batch.digest, "name": self._batch.path.name}
                    await batches.push(named, key=BATCH_KEY, max_attempts=1_000_000)
                    again = False
                    continue
                loaded = task.state is TaskState.DELAYED
                same = task.payload["file"] == self._batch.digest
                if not same or (again and loaded):
                    await self._require_idle(task)
                    await batches.cancel(task.id)
                elif loaded:
                    return
                else:
                    with suppress(LeaseLostError):  # another process loads now
                        async with batches.lease(timeout=1) as leased:
                            if leased:
                                await self._push(batches, leased)
                                raise Release(delay=LOADED_SECONDS)
                    if leased is None and not waited:
                        talk("another process loads the file: waiting for it")
                        waited = True

    async def _require_idle(self, task: Task[Any]) -> None:
        left = await self._queue.size()
        if left or task.state is not TaskState.DELAYED:
            raise Failed(
                f"queue {self._job.queue!r} still works on {task.payload['name']!r} ({left} "
                "requests are left): finish that first, with the same command as before, or name "
                "another --queue"
            )
        await self._queue.purge(TaskState.DEAD)

    async def _push(self, batches: AsyncDPQ[Any], leased: Task[Any]) -> None:
        """Push what has no result yet."""
        wanted = (each for each in self._reader.requests() if not self._results.has(each.line))
        while some := list(islice(wanted, SLICE)):
            await batches.extend(leased, self._job.visibility)  # if another has it, this ends
            await self._queue.push_many([self._as_push(each) for each in some])

    def _as_push(self, request: Request) -> Push[Any]:
        return Push(
            {
                "line": request.line,
                "request": hash_text(request.known),
                "id": request.custom_id,
                "path": request.path,
                "body": request.body,
            },
            request.priority,
            group=self._job.group,
            key=f"{self._batch.digest[:16]}:{request.line}",
            cost=request.cost,
        )

    # Sending

    async def _send(self, task: Task[Any], context: Context[AsyncDPQ[Any]]) -> None:
        """Send one request, and save its answer: the handler of the worker."""
        request = task.payload
        if task.deliveries > 1:  # a process may have died between save and ack
            async with self._reading:
                await asyncio.to_thread(self._results.read_on)
        if self._results.has(request["line"]):
            return
        if self._worker.stopping:
            raise Release
        status, headers, body = await self._ask(request)
        text = body.decode(errors="replace")
        if not 200 <= status < 300:
            self._refuse(status, headers, text)
        try:
            answer = from_json(body)
        except ValueError:
            raise Retry(reason=f"status {status}, but no JSON: {self._shown(text)}") from None
        self._good += 1
        if (tokens := tokens_used(answer)) is not None:
            context.spent(tokens=tokens)
        response = {"status_code": status, "request_id": headers.get("x-request-id")}
        line = result_line(request, {**response, "body": answer})
        try:
            await self._results.save(request["line"], line)
        except OSError as error:
            self._stop(f"{self._job.save} cannot be written: {error}")
            raise Release from error
        self._meter.saved()

    async def _ask(self, request: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request; return status, headers and body of the answer.

        Raises:
            Retry: There was no answer, or it is too long.
        """
        import httpx

        path = request["path"]
        url = self._job.url if path is None else target(self._job.url, path)
        content = to_json(request["body"], inf_nan_mode="constants")
        chunks, size = [], 0
        try:
            async with (
                asyncio.timeout(self._job.timeout),
                self._http.stream("POST", url, content=content) as response,
            ):
                async for chunk in response.aiter_bytes():
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > MAX_ANSWER_BYTES:
                        raise Retry(reason=f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        except (httpx.HTTPError, TimeoutError) as error:
            self._count_bad(f"{type(error).__name__}: {error}")
            reason = self._shown(f"{type(error).__name__}: {error}")
            raise Retry(reason=reason) from None
        return response.status_code, response.headers, b"".join(chunks)

    def _refuse(self, status: int, headers: Mapping[str, str], text: str) -> NoReturn:
        """Say what becomes of a request that was not answered well."""
        said = self._shown(f"{status}: {text}")
        spent = status == 429 and "insufficient_quota" in text
        if status in NOT_ALLOWED or spent:
            self._stop(f"the API refuses every request: {said}")
            raise Release
        if status in BUSY:
            self._meter.limited()
            raise RateLimited.from_headers(status, headers) or RateLimited(DEFAULT_RETRY_AFTER)
        self._count_bad(said)
        if status >= 500 or status == 408:
            raise Retry(reason=said)
        raise Reject(said)

    def _count_bad(self, said: str) -> None:
        """End the run if no request succeeds from its beginning on."""
        self._bad_at_first += not self._good
        if self._bad_at_first == REFUSALS_AT_FIRST and not self._good:
            self._stop(f"the first {REFUSALS_AT_FIRST} requests failed: {self._shown(said)}")

    def _stop(self, reason: str) -> None:
        if not self._stopped:
            self._stopped = reason
            if not self._worker.stopping:
                self._worker.stop()

    def _shown(self, text: str) -> str:
        """Shorten a text of the API, and hide the values of headers that it may repeat."""
        for value in self._job.headers.values():
            for word in {value, value.rpartition(" ")[2]}:
                if len(word) > 3:
                    text = text.replace(word, "***")
        return " ".join(text.split())[:MAX_TEXT_CHARACTERS]

    # The end

    async def _end(self) -> int:
        """Tidy the results, if the batch is over, and say how it went."""
        stats = await self._queue.stats()
        left = stats.ready + stats.delayed + stats.invisible + stats.waiting
        results, save = self._results, self._job.save
        if not left:
            ordered = self._job.ordered
            removed = await asyncio.to_thread(results.tidy, ordered=ordered)
            if removed:
                log.info("%s: removed %d results that stood there twice", save, removed)
            await asyncio.to_thread(results.read_on)
        missing = self._batch.total - results.saved - left - stats.dead
        self._meter.end(saved=results.saved, dead=stats.dead, left=left, stopped=self._stopped)
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
        if left and not self._stopped:
            return INTERRUPTED
        lost = missing > 0 and not self._had_work  # else others have worked beside this process
        return FAILED if self._stopped or stats.dead or lost else 0


@asynccontextmanager
async def _client(job: Job) -> "AsyncIterator[httpx.AsyncClient]":
    """Open the HTTP client: one connection for each open request, and no retries of its own."""
    import httpx

    headers = {"content-type": "application/json", **job.headers}
    limits = httpx.Limits(max_connections=job.workers, max_keepalive_connections=job.workers)
    timeout = httpx.Timeout(job.timeout, connect=min(CONNECT_SECONDS, job.timeout))
    async with httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout) as client:
        yield client


def require_httpx() -> None:
    """Refuse to run without httpx.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        import httpx  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigurationError("dpq run needs httpx: pip install 'httpx>=0.27'") from None
