"""The examples run as a reader would run them, and what they claim about themselves holds."""

import contextlib
import importlib
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from support import PATIENCE_S, processes, wait_for

import dpq
from dpq import DPQ
from dpq.server import Server

ROOT = Path(dpq.__file__).parents[1]
EXAMPLES = ROOT / "examples"
SMALL = ("--modules", "30", "--rate", "60")


@pytest.fixture(autouse=True)
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short temporary directory for everything; the test fails if it leaves a process or file."""
    path = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    yield path
    wait_for(lambda: not processes(str(path)), lambda: f"left running: {processes(str(path))}")
    wait_for(lambda: not list(path.iterdir()), lambda: f"left: {list(path.iterdir())}")
    path.rmdir()


@pytest.fixture
def url() -> Iterator[str]:
    """A private server of this test alone: the examples choose their own queue names."""
    with Server.start() as server:
        yield server.url


def session(leader: int) -> list[str]:
    """The living processes of a session, by /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, _, _, number = path.read_text().rpartition(")")[2].split()[:4]
            if int(number) == leader and state != "Z":
                found.append(path.parent.name)
    return found


@contextlib.contextmanager
def running(name: str, *arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run an example in a session of its own, of which nothing may be left at the end."""
    command = [sys.executable, EXAMPLES / name, *arguments]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **options}
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()
    wait_for(lambda: not session(process.pid), lambda: f"left running: {session(process.pid)}")


def words(text: str) -> str:
    """The text with its line ends and runs of spaces as one space."""
    return " ".join(text.split())


def expect_full_report(said: str) -> None:
    assert "FAILED" not in said
    assert re.search(r"ok modules \d+ fetched, each acknowledged exactly once", said)
    assert re.search(r"ok dead (\d+ do not parse: \w|this Python carries no module that)", said)
    killed = re.search(
        r"ok recovered consumer (\d) was killed with [\w.]+ in its hands "
        r"\(task \S+, delivery (\d+)\); [\d.]+ s later it was popped again "
        r"\(delivery (\d+)\) and.* acknowledged by consumer (\d)",
        said,
    )
    assert killed, said
    assert killed[1] != killed[4]
    assert int(killed[2]) < int(killed[3])
    assert re.search(r"most referenced modules .* place [\d.]+ on average; plain FIFO: place", said)
    assert re.search(r"limit \d+ requests in [\d.]+ s; .* \d+ were answered 429", said)


def test_crawler_reports_lines_without_a_terminal() -> None:
    """A crawl acknowledges each module once, recovers the killed consumer's task, and says so."""
    with running("crawler.py", *SMALL) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert "\x1b" not in said
    assert re.search(
        r"s  ready +\d+  delayed +\d+  invisible \d  dead +\d+  requests +\d+  429s", said
    )
    expect_full_report(words(said))


def test_crawler_draws_in_place_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a crawl redraws its counts in place, no line too wide for it, and reports."""
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with running("crawler.py", *SMALL, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = read_all(ours).decode()
        assert process.wait(PATIENCE_S) == 0, said
    assert said.count("\x1b[1A") > 20, "the cursor never went up to draw again"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    assert re.search(r"ready .* delayed .* invisible .* dead .* requests .* 429s", plain)
    assert "consumer 3" in plain
    assert re.search(r"killed while it held [\w.]+", plain)
    assert max(len(line) for line in re.split(r"[\r\n]+", plain)) <= 80
    expect_full_report(words(plain))


def read_all(descriptor: int) -> bytes:
    """Read a pseudo-terminal until its last user has closed it."""
    said = b""
    with os.fdopen(descriptor, "rb", buffering=0) as terminal, contextlib.suppress(OSError):
        while chunk := terminal.read(65536):
            said += chunk
    return said


def test_crawler_leaves_nothing_on_the_users_server(url: str) -> None:
    """Interrupted in the middle, a crawl ends its consumers and removes every key it made."""
    with running("crawler.py", "--url", url, "--modules", "60", "--rate", "9") as process:
        assert process.stdout
        seen = []
        while not seen or "done" not in seen[-1] or "done 0/" in seen[-1]:
            seen.append(process.stdout.readline())
            assert seen[-1], f"ended early: {seen}"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: consumers get it too
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    with Redis.from_url(url) as redis:
        assert [key for key in redis.scan_iter() if b"stdlib-" in key] == []


def test_producer_and_consumer(url: str) -> None:
    """What the producer pushes, delayed or not, the consumer finishes, each task once."""
    with running("producer.py", url) as producer:
        pushed, _ = producer.communicate(timeout=PATIENCE_S)
    assert producer.returncode == 0, pushed
    assert len(re.findall(r"^pushed \S+: greeting \d", pushed, re.MULTILINE)) == 10
    with running("consumer.py", url) as consumer:
        assert consumer.stdout
        done = []
        while len(done) < 10:
            line = consumer.stdout.readline()
            assert line, f"ended early: {done}"
            done += re.findall(r"^done: (greeting \d), priority \d+$", line)
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(PATIENCE_S) == 0
    assert sorted(done) == [f"greeting {number}" for number in range(10)]
    with Redis.from_url(url) as redis:
        stats = DPQ(redis=redis, queue_name="my_queue").stats()
    assert (stats.pushed, stats.acked, stats.ready, stats.delayed) == (10, 10, 0, 0)


def test_examples_are_short() -> None:
    """The two programs of the first page stay under 40 lines."""
    for name in ("producer.py", "consumer.py"):
        assert len((EXAMPLES / name).read_text().splitlines()) < 40


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `_crawl_watch`, as crawler.py imports it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("_crawl_watch")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `_stdlib_site`, as crawler.py imports it."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("_stdlib_site")


def test_report_sees_a_task_that_did_not_come_back(watch: Any) -> None:
    """The check fails without a kill, and while the killed consumer's task is not acknowledged."""
    record = watch.Record(pages=1)
    assert not watch.check_recovered(record)[0]
    record.killed = watch.Event(1, "popped", "id", "json", 0, 1, 0.0)
    assert not watch.check_recovered(record)[0]
    record.add(watch.Event(2, "popped", "id", "json", 0, 2, 3.0))
    assert not watch.check_recovered(record)[0]
    record.add(watch.Event(2, "acknowledged", "id", "json", 0, 2, 3.1))
    assert watch.check_recovered(record)[0]


def test_report_sees_a_second_acknowledgement(watch: Any, library: Any, url: str) -> None:
    """The check fails when a module is acknowledged twice, or when the queue counted otherwise."""
    page = library.Library({"json": library.Page(200, [], "")}, [], 0)
    record = watch.Record(pages=1)
    with DPQ.from_url(url, "report") as q:
        record.add(watch.Event(1, "acknowledged", "id", "json", 0, 1, 0.0))
        assert "the queue's own count: 0" in watch.check_modules(q, page, record)[1]
        q.push("json")
        q.pop().on_success()
        assert watch.check_modules(q, page, record)[0]
        record.add(watch.Event(2, "acknowledged", "other", "json", 0, 1, 0.1))
        passed, text = watch.check_modules(q, page, record)
    assert not passed
    assert "acknowledged more than once: json" in text


def test_site_is_strict(library: Any) -> None:
    """Beyond the limit the site answers 429 with Retry-After, and serves nothing."""
    page = library.Page(200, ["re"], "words", 3)
    site = library.Site(library.Library({"json": page}, [], 0), rate=2)
    assert [site.answer("json")[0] for _ in range(2)] == [200, 200]
    status, headers, _ = site.answer("json")
    assert (status, headers) == (429, {"Retry-After": "1"})
    assert (site.requests, site.limited, site.served) == (3, 1, ["json", "json"])


def test_site_reads_real_sources(library: Any) -> None:
    """A page holds what the source says; a module in C has one too, an unknown one has none."""
    page = library.read_page("json")
    assert page.status == 200
    assert page.text.startswith("JSON")
    assert {"json.decoder", "json.encoder"} <= set(page.imports)
    assert "os" in library.read_page("glob").imports  # imports os.path too, which is no module
    assert library.read_page("sys")[:2] == (200, [])
    assert library.read_page("no_such_module").status == 404
