"""The sending of a batch: one request for each task, and its answer to the disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import from_json, to_json

from dpq import AsyncDPQ, Context, RateLimited, Reject, Release, Retry, Task
from dpq.batch.job import BatchJob
from dpq.batch.progress import Progress
from dpq.batch.reader import target, tokens_used
from dpq.batch.results import Results, result_line
from dpq.limits.answers import meaning_of

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Bytes of an answer that are read; a longer one is a failed attempt."""

MAX_TEXT_CHARACTERS = 500
"""Characters of a refusal that are kept as the reason of a dead letter."""

REFUSALS_AT_FIRST = 10
"""Answers in a row, before the first good one, that end a run: an address or a key is wrong."""

CONNECT_SECONDS = 10.0


class Sender:
    """Sends requests, and saves their answers: `send` is the handler of the worker.

    Attributes:
        stopped: The reason why the run has ended itself, or "".
    """

    def __init__(
        self,
        job: BatchJob,
        results: Results,
        progress: Progress,
        client: "httpx.AsyncClient",
        stop: Callable[[], None],
    ) -> None:
        self._job, self._results, self._progress = job, results, progress
        self._http, self._end_run = client, stop
        self._reading = asyncio.Lock()
        self._good = self._bad_at_first = 0
        self.stopped = ""

    async def send(self, task: Task[Any], context: Context[AsyncDPQ[Any]]) -> None:
        """Send one request, and save its answer: the handler of the worker."""
        request = task.payload
        if task.deliveries > 1:  # a process may have died between save and ack
            async with self._reading:
                await asyncio.to_thread(self._results.read_on)
        if self._results.has(request["line"]):
            return
        if context.stopping:
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
        context.observe(status=status, headers=headers)
        if (tokens := tokens_used(answer)) is not None:
            context.spent(tokens=tokens)
        response = {"status_code": status, "request_id": headers.get("x-request-id")}
        line = result_line(request, {**response, "body": answer})
        try:
            await self._results.save(request["line"], line)
        except OSError as error:
            self._stop(f"{self._job.answers} cannot be written: {error}")
            raise Release from error
        self._progress.saved()

    async def _ask(self, request: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request; return status, headers and body of the answer."""
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
            self._progress.refused(None)
            self._count_bad(f"{type(error).__name__}: {error}")
            reason = self._shown(f"{type(error).__name__}: {error}")
            raise Retry(reason=reason) from None
        return response.status_code, response.headers, b"".join(chunks)

    def _refuse(self, status: int, headers: Mapping[str, str], text: str) -> NoReturn:
        """Say what becomes of a request that was not answered well."""
        said = self._shown(f"{status}: {text}")
        meaning = meaning_of(status, headers, text)
        if meaning.about == "account":
            self._stop(f"the API refuses every request: {said}")
            raise Release
        limited = RateLimited.from_headers(status, headers, body=text)
        self._progress.refused(status, limited=meaning.is_limit)
        if isinstance(limited, RateLimited):
            raise limited
        if meaning.about != "host":  # an overload says nothing of the address, or of the request
            self._count_bad(said)
        raise Retry(meaning.wait, said) if meaning.again else Reject(said)

    def _count_bad(self, said: str) -> None:
        """End the run if no request succeeds from its beginning on."""
        self._bad_at_first += not self._good
        if self._bad_at_first == REFUSALS_AT_FIRST and not self._good:
            self._stop(f"the first {REFUSALS_AT_FIRST} requests failed: {self._shown(said)}")

    def _stop(self, reason: str) -> None:
        if not self.stopped:
            self.stopped = reason
            self._end_run()

    def _shown(self, text: str) -> str:
        """Shorten a text of the API, and hide the values of headers that it may repeat."""
        for value in self._job.headers.values():
            for word in {value, value.rpartition(" ")[2]}:
                if len(word) > 3:
                    text = text.replace(word, "***")
        return " ".join(text.split())[:MAX_TEXT_CHARACTERS]


@asynccontextmanager
async def open_client(job: BatchJob) -> "AsyncIterator[httpx.AsyncClient]":
    """Open the HTTP client: one connection for each open request, and no retries of its own."""
    import httpx

    headers = {"content-type": "application/json", **job.headers}
    limits = httpx.Limits(max_connections=job.workers, max_keepalive_connections=job.workers)
    timeout = httpx.Timeout(job.timeout, connect=min(CONNECT_SECONDS, job.timeout))
    async with httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout) as client:
        yield client
