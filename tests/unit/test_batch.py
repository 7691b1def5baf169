"""The results of `dpq run`: on the disk before the ack, whole after a failed write, and private."""

import asyncio
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from dpq import ConfigurationError, RateLimited, Reject, Release, Retry
from dpq.batch import BatchJob, Progress
from dpq.batch import results as module
from dpq.batch.job import fitted
from dpq.batch.reader import Batch, target
from dpq.batch.results import Results, hash_text, result_line
from dpq.batch.sender import Sender
from dpq.limits.words import read_word, write_word

Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """Five requests."""
    asks = tmp_path / "asks.jsonl"
    asks.write_text("".join(f'{{"prompt": "question {n}"}}\n' for n in range(5)))
    return Batch(asks, "http://a.example")


@pytest.fixture
def saved(batch: Batch) -> Path:
    return batch.path.with_name("answers.jsonl")


def request(batch: Batch, line: int) -> dict[str, Any]:
    known = hash_text(batch.hashes[line - 1])
    return {"line": line, "request": known, "id": None, "path": None, "body": {"model": "m"}}


def answer(batch: Batch, line: int) -> bytes:
    return result_line(request(batch, line), {"body": "x" * 100})


def lines_of(path: Path) -> list[int]:
    """The lines of a file, which must be whole."""
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line)["line"] for line in text.splitlines()]


class Disk:
    """What is done to files, in order; and a disk that is full at some writes.

    Attributes:
        log: The names of the calls.
        full: The writes, counted from 0, that leave half of their bytes and no room for more.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.full: set[int] = set()
        for name in ("write", "fsync", "ftruncate"):
            monkeypatch.setattr(module.os, name, self._noted(name, getattr(os, name)))

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(file: int, *args: Any) -> Any:
            count = self.log.count("write")
            self.log.append(name)
            if name == "write" and count in self.full:
                call(file, args[0][: len(args[0]) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return call(file, *args)

        return noted


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def sender(saved: Path, batch: Batch, answer: Answer, stop: Callable[[], None]) -> Sender:
    """A sender whose API is a function."""
    job = BatchJob(batch.path, "http://a.example/", saved)
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return Sender(job, Results(saved, (), batch), Progress(batch.total), client, stop)


def send(sender: Sender, batch: Batch, line: int, deliveries: int = 1, **body: Any) -> None:
    """Do what the worker does with a task: call the handler. Its return is the ack."""
    payload = {**request(batch, line), "body": {"model": "m", **body}}
    task = SimpleNamespace(payload=payload, deliveries=deliveries, attempt=1, max_attempts=9)
    context = SimpleNamespace(stopping=False, observe=lambda **_: None, spent=lambda **_: None)
    asyncio.run(sender.send(cast("Any", task), cast("Any", context)))


# On the disk


def test_an_answer_is_on_the_disk_before_its_ack(batch: Batch, saved: Path, disk: Disk) -> None:
    """When the handler returns, which acks the task, the line was written, then synced, and so was
    the name of a new file."""
    client = sender(saved, batch, lambda _: httpx.Response(200, json={}), lambda: None)
    for line in (1, 2):
        send(client, batch, line)
        disk.log.append("ack")
        assert lines_of(saved) == list(range(1, line + 1))
    assert disk.log == ["write", "fsync", "fsync", "ack", "write", "fsync", "ack"]


@pytest.mark.parametrize("torn", [b"", b'{"line":2,"requ'])
def test_a_failed_write_leaves_the_file_as_it_was(
    torn: bytes, batch: Batch, saved: Path, disk: Disk
) -> None:
    """If the disk is full in the midst of a line, each that waits for it hears so, and no byte of
    it stays. The next write, of this process or another, and the next run find whole lines, also
    behind one that a crash has cut before."""
    before = answer(batch, 1) + torn
    saved.write_bytes(before)
    results = Results(saved, (), batch)
    results.read()
    disk.full = {0}

    async def fail() -> list[Any]:
        both = [results.save(line, answer(batch, line)) for line in (2, 3)]
        return await asyncio.gather(*both, return_exceptions=True)

    assert [error.errno for error in asyncio.run(fail())] == [errno.ENOSPC] * 2
    assert saved.read_bytes() == before
    assert [results.has(line) for line in (1, 2, 3)] == [True, False, False]
    asyncio.run(Results(saved, (), batch).save(4, answer(batch, 4)))
    found = Results(saved, (), batch)
    found.read()
    assert [line for line in range(1, 6) if found.has(line)] == [1, 4]
    assert saved.read_bytes() == before + (b"\n" if torn else b"") + answer(batch, 4)


def test_a_full_disk_ends_the_run(batch: Batch, saved: Path, disk: Disk) -> None:
    """An answer that cannot be saved gives its request back uncounted, and ends the run once."""
    disk.full = {0, 1}
    stops: list[str] = []
    client = sender(saved, batch, lambda _: httpx.Response(200, json={}), lambda: stops.append(""))
    for line in (1, 2):
        with pytest.raises(Release):
            send(client, batch, line)
    assert "answers.jsonl cannot be written: [Errno 28]" in client.stopped
    assert stops == [""]
    assert saved.read_bytes() == b""


# What an answer does

ANSWERS = [
    (200, "json", b'{"a": 1}', {"a": 1}),
    (200, "event-stream", b"data: {}\n", "data: {}\n"),
    (200, "mpeg", b"\xff\xfb\xff", "//v/"),
    (200, "html", b"<html>Just a moment...", Reject),
    (200, "json", b"", Reject),
    (200, "json", b"[%s]" % (b"1" * 99), Reject),  # more than MAX_ANSWER_BYTES
    *((status, "json", b"{}", Retry) for status in (408, 409, 425, 498, 500, 503)),
    *((status, "json", b"{}", Reject) for status in (400, 403, 404, 413, 422)),
    *((status, "json", b"{}", RateLimited) for status in (420, 429)),
    # Google's limits by the minute, and a request that is repeated: neither is the account's
    (429, "json", b'{"error": {"message": "exceeded your quota, see billing"}}', RateLimited),
    (422, "json", b'{"detail": [{"input": "Your credit balance is too low"}]}', Reject),
    (400, "json", b'{"error": {"message": "This model\'s maximum context length is 9"}}', Reject),
    *((status, "json", b"", Release) for status in (401, 402)),
    (429, "json", b'{"error": {"code": "insufficient_quota"}}', Release),
    (429, "json", b'{"error": {"type": "billing_not_active"}}', Release),
    (400, "json", b'{"error": {"message": "Your credit balance is too low"}}', Release),
    (403, "json", b'{"error": {"message": "Key limit exceeded (total limit)."}}', Release),
    (400, "json", b'[{"error": {"message": "API key not valid. Please pass"}}]', Release),
    (404, "json", b'{"error": {"message": "gone", "code": "model_not_found"}}', Release),
    (404, "json", b'{"error": {"type": "not_found_error", "message": "model: c"}}', Release),
    (404, "json", b'{"error": "model \'m:7b\' not found, try pulling it first"}', Release),
    (404, "json", b'{"message": "The model `m` does not exist.", "code": 404}', Release),
    (400, "json", b'{"error": {"message": "Your account 7 is suspended, recharge"}}', Release),
]  # fmt: skip


@pytest.mark.parametrize(("status", "kind", "content", "then"), ANSWERS)
def test_what_an_answer_does(
    status: int, kind: str, content: bytes, then: Any, batch: Batch, saved: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What was paid for is kept as it came, or given up at once; what refuses every line of the
    account, or of its model, ends the run and leaves the line; else it is tried again, or dead."""
    monkeypatch.setattr("dpq.batch.sender.MAX_ANSWER_BYTES", 100)
    monkeypatch.delattr("dpq.limits.signals.meaning_of")  # the sender asks for it, once
    said = httpx.Response(status, content=content, headers={"content-type": f"x/{kind}"})
    stops: list[str] = []
    client = sender(saved, batch, lambda _: said, lambda: stops.append(""))
    if isinstance(then, type):
        with pytest.raises(then) as raised:
            send(client, batch, 1)
        if isinstance(raised.value, RateLimited):
            assert raised.value.reason.startswith(f"{status}: {content.decode()[:9]}")
            assert (raised.value.status, raised.value.guessed) == (status, True)
    else:
        send(client, batch, 1)
        assert json.loads(saved.read_bytes())["response"]["body"] == then
    assert bool(client.stopped) == len(stops) == (then is Release)


@pytest.mark.parametrize(
    ("good", "status", "signal", "ends"),
    [(0, 503, Retry, False), (0, 500, Retry, True), (1, 500, Retry, False), (1, 404, Reject, True)],
)
def test_ten_bad_answers_in_a_row_end_a_run(
    good: int, status: int, signal: type[Exception], ends: bool, batch: Batch, saved: Path
) -> None:
    """At any time if they make dead letters; before the first good one also if they are failures,
    but for an overload. What is refused after that stays."""
    answers = iter([200] * good + [status] * 11)
    client = sender(saved, batch, lambda _: httpx.Response(next(answers), json={}), lambda: None)
    for _ in range(good):
        send(client, batch, 2)
    for _ in range(10):
        assert client.stopped == ""
        with pytest.raises(signal):
            send(client, batch, 1)
    assert bool(client.stopped) == ends
    with pytest.raises(Release if signal is Reject else signal):
        send(client, batch, 1)


def test_a_model_that_is_gone_ends_no_run_of_others(batch: Batch, saved: Path) -> None:
    """Where another model has answered, only the requests of the one that is gone are dead."""
    gone = httpx.Response(404, json={"error": {"code": "model_not_found"}})
    answers = iter([httpx.Response(200, json={}), gone])
    client = sender(saved, batch, lambda _: next(answers), lambda: None)
    send(client, batch, 1)
    with pytest.raises(Reject):
        send(client, batch, 2, model="old")
    assert client.stopped == ""


# Private


def tidied(batch: Batch, saved: Path) -> bytes:
    """Rewrite a file of two results whose order is to change, and return the new text."""
    saved.write_bytes(answer(batch, 2) + answer(batch, 1))
    results = Results(saved, (), batch)
    results.read()
    results.tidy(ordered=True)
    return answer(batch, 1) + answer(batch, 2)


def test_a_planted_link_is_not_followed(batch: Batch, saved: Path, tmp_path: Path) -> None:
    """A link, or a file, that stands where the new text is written is replaced; what it points to
    stays. A link that the user has named as the file of results stays one."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    real = tmp_path / "elsewhere" / "real.jsonl"
    real.parent.mkdir()
    saved.symlink_to(real)
    for place in (real, saved):
        place.with_name(f"{place.name}.tmp").symlink_to(victim)
    wanted = tidied(batch, saved)
    assert victim.read_text() == "mine"
    assert saved.is_symlink()
    assert real.read_bytes() == wanted
    assert not real.is_symlink()


# Other processes


def test_what_another_process_has_saved_is_not_sent_again(batch: Batch, saved: Path) -> None:
    """It saved the answer and died before the ack: the next delivery looks into the file."""
    sent: list[httpx.Request] = []

    def api(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={})

    client = sender(saved, batch, api, lambda: None)
    asyncio.run(Results(saved, (), batch).save(1, answer(batch, 1)))
    send(client, batch, 1, deliveries=2)
    assert sent == []
    send(client, batch, 2, deliveries=2)
    assert len(sent) == 1


def test_an_answer_goes_into_the_file_that_is_there(
    batch: Batch, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may replace the file while this one waits for its lock."""
    lock, replaced = module.fcntl.flock, saved.with_name("new")

    def late(file: int, how: int) -> None:
        lock(file, how)
        if not replaced.exists():
            replaced.write_bytes(answer(batch, 2))
            os.link(replaced, other := saved.with_name("other"))
            os.replace(other, saved)

    monkeypatch.setattr(module.fcntl, "flock", late)
    asyncio.run(Results(saved, (), batch).save(1, answer(batch, 1)))
    assert lines_of(saved) == [2, 1]


HOST = "https://a.example"
# What is sent, and where


@pytest.mark.parametrize(
    ("url", "path", "full"),
    [
        ("/api/v1/chat", "/v1/chat", "/api/v1/chat"),
        ("/api/v1/chat?version=2", "/v1/embeddings", "/api/v1/embeddings?version=2"),
        ("/api/v1", "/v1/chat?x=1", "/api/v1/chat?x=1"),
        ("/v1/chat/completions", "/chat/completions", "/v1/chat/completions"),
        ("", "/v1/chat", "/v1/chat"),
        ("/v1", HOST + "/v2", "/v2"),
        ("/v1", "/v2", None),
        ("/v1", "//b.example/v1", None),
        ("/v1", "https://a.example:81/v1", None),
    ],
)
def test_where_a_line_is_sent(url: str, path: str, full: str | None) -> None:
    """What stands before a line's path in --url stays; another host, which would see the key, and
    a path that fits nowhere are refused before anything is sent."""
    if full is None:
        with pytest.raises(ValueError, match="url is "):
            target(HOST + url, path)
    else:
        assert target(HOST + url, path) == HOST + full


@pytest.mark.parametrize(("requests", "mode"), [(0o600, 0o600), (0o644, 0o644), (0o400, 0o600)])
def test_a_new_file_is_as_private_as_the_requests(
    requests: int, mode: int, tmp_path: Path, batch: Batch, saved: Path
) -> None:
    """Who may not read the requests may not read the answers; its owner may write them."""
    batch.path.chmod(requests)
    before = os.umask(0o022)
    try:
        asyncio.run(Results(saved, (), batch).save(1, answer(batch, 1)))
    finally:
        os.umask(before)
    assert saved.stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("url", "given", "set_"),
    [
        ("https://api.openai.com/v1/x", "500/m", "500/min"),
        ("https://api.openai.com/v1/x", "tokens=1000/m", "tokens=1000/min,burst=150"),
        ("https://API.Anthropic.com:443/v1/messages", "100/m", "100/min,burst=15"),
        ("https://api.anthropic.com/v1/messages", "100/m,burst=2", "100/min,burst=2"),
        ("https://shop.myshopify.com/admin", "40/m", "40/min,burst=6"),
        ("https://notmyshopify.com/admin", "40/m", "40/min"),
        ("https://api.pyannote.ai/v1/diarize", "100/m", "100/min,moving"),
        ("https://api.pyannote.ai/v1/diarize", "tokens=900/m", "tokens=900/min,moving"),
        ("https://api.pyannote.ai/v1/diarize", "9/day@UTC", "9/day@UTC"),
        ("https://api.pyannote.ai/v1/diarize", "2.5/m", "2.5/min"),
    ],
)
def test_a_plain_rate_has_the_window_of_its_vendor(url: str, given: str, set_: str) -> None:
    """A window that the user has chosen stays as it is, and so does that of an unknown host."""
    job = BatchJob(Path("asks.jsonl"), url)
    assert write_word(fitted(read_word(given), {"tokens": 20}, job.host)) == set_


@pytest.mark.parametrize(
    ("url", "group"),
    [
        ("http://127.0.0.1:8000/v1", "127.0.0.1"),
        ("https://user@API.Example.:8443/v1", "api.example"),
        ("https://bücher.example/v1", "xn--bcher-kva.example"),
        ("http://[::1]:80/v1", "::1"),
    ],
)
def test_the_group_is_the_host_as_the_transports_name_it(url: str, group: str) -> None:
    """However it is spelled, and without its port."""
    assert BatchJob(Path("asks.jsonl"), url).group == group


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"workers": 0}, "workers is 0: it must be an int from 1 to 10000"),
        ({"timeout": 0}, "timeout is 0: it must be seconds from 0.001"),
        ({"limits": ["5/m"]}, "limits has '5/m': it must be RateLimits and Quotas"),
        ({"headers": {"X Key": "x"}}, "header 'X Key': its name must be letters"),
        ({"headers": {"A": 5}}, "header A is empty, or no printable ASCII text"),
        ({"headers": {5: "x"}}, "header 5: its name must be letters"),
        ({"cost_from": 5}, "cost_from is 5: it must be a name, or None"),
        ({"attempts": 0}, "attempts is 0: it must be an int from 1 to 1000000"),
        ({"visibility": 0}, "visibility is 0: it must be seconds from 0.001"),
    ],
)
def test_a_job_says_which_value_cannot_work(more: dict[str, Any], said: str) -> None:
    """Before a file is read, and not as ten failures of each request."""
    with pytest.raises(ConfigurationError, match=said):
        BatchJob(Path("asks.jsonl"), "http://a.example/", **more)
