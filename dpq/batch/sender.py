"""The sending of a batch: one request for each task, and its answer to the disk."""

import asyncio
import logging
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import from_json, to_json

from dpq import AsyncDPQ, Context, RateLimited, Reject, Release, Retry, Task
from dpq.batch.job import BatchJob
from dpq.batch.reader import target
from dpq.batch.results import MAX_RESULT_BYTES, Results, result_line
from dpq.batch.tokens import tokens_used
from dpq.limits.answers import meaning_of
from dpq.model.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 32 * 1024 * 1024  # that are read; a request with more is a dead letter
MAX_TEXT_CHARACTERS = 500  # of a refusal that are kept as the reason of a dead letter
CONNECT_SECONDS = 10.0

BAD_IN_A_ROW = 10
"""Bad answers in a row that end a run: an address, a key or a model is wrong. Before the first good
one any failure counts; then only dead letters do, so that a run outlasts an outage of its API."""


class Progress:
    """The counts of one process.

    Attributes:
        saved_here: Answers that this process has saved.
        limited_here: Answers that were a limit of the API, which closes the group.
        refused_here: Answers that were not good, by status, and requests without an answer.
    """

    def __init__(self, total: int) -> None:
        """Begin to count a batch of so many requests."""
        self.total = total
        self.saved_here = self.limited_here = 0
        self.refused_here = Counter({"429": 0})

    def refused(self, status: int | None, *, limited: bool = False) -> None:
        """Count a request that got no good answer; the status is None if none came."""
        self.refused_here["no answer" if status is None else str(status)] += 1
        self.limited_here += limited

    def say(self, text: str) -> None:
        """Tell something that a person may wait for."""
        log.info("%s", text)

    @asynccontextmanager
    async def showing(self, queue: AsyncDPQ[Any], group: str) -> AsyncIterator[None]:
        """Show the progress of a queue and its group, while the body runs: nothing here."""
        yield


@dataclass(eq=False)
class Sender:
    """Sends requests, and saves their answers: `send` is the handler of the worker."""

    _job: BatchJob
    _results: Results
    _progress: Progress
    _http: "httpx.AsyncClient"
    _end_run: Callable[[], None]
    stopped: str = ""  # the reason why the run has ended itself
    trouble: str = ""  # the last failure since the last good answer, or that none has come yet

    def __post_init__(self) -> None:
        self._reading, self._bad = asyncio.Lock(), 0
        self._good_models: set[str] = set()

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
        self.trouble = self.trouble or "no answer has come yet"
        status, headers, body = await self._ask(task)
        text = body.decode(errors="replace")
        if not 200 <= status < 300:
            self._refuse(task, status, headers, text)
        context.observe(status=status, headers=headers)
        answer: Any
        try:
            answer = from_json(body)
        except ValueError:  # it was paid for: it is kept as it came, if it can be an answer
            if not body.strip() or "html" in headers.get("content-type", ""):
                self._give_up(status, f"{status}, but no answer of an API: {text}")
            answer = b64encode(body).decode() if "\ufffd" in text else text
        if (tokens := tokens_used(answer)) is not None:
            context.spent(tokens=tokens)
        response = {"status_code": status, "request_id": headers.get("x-request-id")}
        line = result_line(request, {**response, "body": answer})
        if len(line) > MAX_RESULT_BYTES:
            self._give_up(status, f"a line of {len(line)} bytes for its answer", paid=True)
        try:
            await self._results.save(request["line"], line)
        except OSError as error:
            self._stop(f"{self._job.answers} cannot be written: {error}")
            raise Release from error
        self._bad, self.trouble = 0, ""
        self._good_models.add(_model(task))
        self._progress.saved_here += 1

    async def _ask(self, task: Task[Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request; return status, headers and body of the answer."""
        import httpx

        request, path = task.payload, task.payload["path"]
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
                        said = f"an answer of more than {MAX_ANSWER_BYTES} bytes"
                        self._give_up(response.status_code, said, paid=True)
        except (httpx.HTTPError, TimeoutError) as error:
            self._progress.refused(None)
            self._try_again(task, self._shown(f"{type(error).__name__}: {error}"))
        return response.status_code, response.headers, b"".join(chunks)

    def _refuse(
        self, task: Task[Any], status: int, headers: Mapping[str, str], text: str
    ) -> NoReturn:
        """Say what becomes of a request that was not answered well."""
        said = self._shown(f"{status}: {text}")
        meaning = meaning_of(status, headers, text)
        gone = meaning.about == "resource" and not meaning.again
        if meaning.about == "account" or (gone and not self._good_models - {_model(task)}):
            self._stop(f"the API refuses every request: {said}")
            raise Release
        if not meaning.again:
            self._give_up(status, said)
        self._progress.refused(status, limited=meaning.is_limit)
        if not meaning.is_limit and meaning.about != "host":
            self._try_again(task, said, meaning.wait)
        self.trouble = said  # it says nothing of the address, or of the request
        if not meaning.is_limit:
            raise Retry(meaning.wait, said)
        limited = RateLimited(meaning.wait, status=status, reason=said)
        limited.guessed = meaning.guessed
        raise limited

    def _try_again(self, task: Task[Any], said: str, wait: float | None = None) -> NoReturn:
        """Let a request that has failed come again, if it has attempts left."""
        self._count_bad(said, dies=task.attempt >= task.max_attempts)
        raise Retry(wait, said)

    def _give_up(self, status: int, said: str, *, paid: bool = False) -> NoReturn:
        """Make a dead letter of a request; if the run has ended itself, only of a paid one."""
        if self.stopped and not paid:
            raise Release
        self._progress.refused(status)
        said = self._shown(said)
        self._count_bad(said, dies=True)
        raise Reject(said)

    def _count_bad(self, said: str, *, dies: bool) -> None:
        """End the run if no request succeeds any more."""
        self.trouble = said
        self._bad += dies or not self._good_models
        if self._bad >= BAD_IN_A_ROW:
            self._stop(f"{BAD_IN_A_ROW} requests in a row failed: {said}")

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


def _model(task: Task[Any]) -> str:
    return str(task.payload["body"].get("model"))


def open_client(job: BatchJob) -> "httpx.AsyncClient":
    """Make the HTTP client: one connection for each open request, and no retries of its own.

    Raises:
        ConfigurationError: There is no httpx, or it cannot use the proxy of the environment.
    """
    try:
        import httpx
    except ModuleNotFoundError:
        raise ConfigurationError("a batch needs httpx: pip install 'httpx>=0.27'") from None
    headers = {"content-type": "application/json", **job.headers}
    limits = httpx.Limits(max_connections=job.workers, max_keepalive_connections=job.workers)
    timeout = httpx.Timeout(job.timeout, connect=min(CONNECT_SECONDS, job.timeout))
    try:
        return httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        # The text of an InvalidURL may hold a password.
        why = "one is no URL or host" if isinstance(error, httpx.InvalidURL) else error
        raise ConfigurationError(
            f"ALL_PROXY, HTTPS_PROXY, HTTP_PROXY or NO_PROXY cannot be used: {why}"
        ) from None
