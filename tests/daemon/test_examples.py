"""The examples run as a reader would run them, and what they claim about themselves holds."""

import contextlib
import http.server
import importlib
import re
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from support import PATIENCE_S, wait_for

import dpq
from dpq import DPQ
from dpq.server import Server

ROOT = Path(dpq.__file__).parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture(autouse=True)
def surroundings(
    tmp_path: Path,  # pytest's own place is made before the temporary directory changes
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Nothing at all may be left in the temporary directory."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    yield
    wait_for(lambda: not list(scratch.iterdir()), lambda: f"left: {list(scratch.iterdir())}")


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


Lines = Callable[..., list[str]]


def test_producer_and_consumer(url: str, lines_of: Lines) -> None:
    """What the producer pushes, delayed or not, the consumer finishes, each task once."""
    pushed = lines_of("producer.py", url)
    assert len([line for line in pushed if re.match(r"pushed \S+: greeting \d", line)]) == 10
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


@pytest.fixture
def lines_of(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Lines:
    """Runs an example that ends by itself, in this process: what it has printed."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def run(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        code: object = 0
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as end:
            code = end.code
        said = capfd.readouterr()
        assert not code, said
        return said.out.splitlines()

    return run


def until(process: subprocess.Popen[str], pattern: str) -> str:
    """Read what a program prints until a line matches; the first group of it."""
    assert process.stdout
    seen = []
    while line := process.stdout.readline():
        seen.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"ended without {pattern!r}: {seen}")


def test_openai_batch_saves_every_answer(lines_of: Lines) -> None:
    """Without arguments it sends 30 requests to a simulated API, and saves 30 answers."""
    *_, last = lines_of("openai_batch.py")
    assert last == "30 of 30 saved in answers.jsonl, 0 left"


def test_execute_later_runs_functions_in_their_time(url: str, lines_of: Lines) -> None:
    """Each function runs once, whatever its delay; the order is a matter of `tests/lua`."""
    lines = lines_of("execute_later.py", url)
    assert [line.split(":")[0] for line in lines[:3]] == ["in 0.2 s", "in 0.1 s", "in 0 s"]
    assert sorted(line.strip() for line in lines[3:]) == [
        "hello Ada, hello Ada,",
        "hello Barbara,",
        "hello Grace,",
    ]
    with DPQ.from_url(url, "later") as q:
        assert (q.stats().acked, q.size(), q.check()) == (3, 0, [])


def test_outbox_delivers_each_order_once(url: str, lines_of: Lines, tmp_path: Path) -> None:
    """Its orders and their tasks are committed together, and the second start adds two more."""
    database = str(tmp_path / "shop.db")
    for start in (1, 2):
        assert lines_of("outbox.py", database, url) == ["delivers bread", "delivers tea"]
        with DPQ.from_url(url, "orders") as q:
            assert (q.stats().acked, q.size(), q.check()) == (2 * start, 0, [])


def test_callbacks_run_in_the_order_of_their_queues(url: str, lines_of: Lines) -> None:
    """The first queue is emptied first; an unknown name is dead. So too on an embedded server."""
    wanted = [
        "mail to grace: now",
        "mail to ada: later",
        "4 words",
        "dead: unknown task 'count_wrods'",
    ]
    assert lines_of("callbacks.py", url) == wanted
    for name, acked, dead in [("mails", 2, 0), ("reports", 1, 1)]:
        with DPQ.from_url(url, name) as q:
            stats = q.stats()
            assert (stats.acked, stats.dead, q.size(), q.check()) == (acked, dead, 0, [])
    assert lines_of("callbacks.py") == wanted


def test_scraper_fetches_every_page_of_its_small_site(lines_of: Lines) -> None:
    """All pages of both hosts are fetched once, though one answers 429; a 404 is rejected."""
    lines = lines_of("scraper.py")
    pattern = r"^(\d+) http://127.0.0.1:(\d+)/(\w+), priority \d+$"
    answers = [found.groups() for line in lines if (found := re.search(pattern, line))]
    [known] = {port for _, port, page in answers if page == "12"}
    [strict] = {port for _, port, _ in answers} - {known}
    fetched = sorted((port, int(page)) for status, port, page in answers if status == "200")
    assert fetched == sorted(
        [(known, n) for n in range(1, 13)] + [(strict, n) for n in range(1, 4)]
    )
    assert ("429", strict) in [(status, port) for status, port, _ in answers]
    [failed] = [line for line in lines if line.startswith("failed")]
    assert failed.startswith(f"failed: http://127.0.0.1:{known}/missing: Reject(")


class SlowSite(http.server.BaseHTTPRequestHandler):
    """Answers `/slow` when it may."""

    may, asked = threading.Event(), threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.asked.set()
            self.may.wait(PATIENCE_S)
        self.send_response(404 if self.path == "/missing" else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def slow_site() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowSite) as site:
        threading.Thread(target=site.serve_forever, args=(0.05,)).start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()


def test_the_api_fetches_what_it_takes(
    url: str, slow_site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page posted twice is one task, and its state can be asked for until it is fetched. SIGTERM
    ends uvicorn, and the worker inside of it, with 0: what runs is finished, the rest is kept."""
    monkeypatch.setenv("PORT", "0")
    monkeypatch.setenv("DPQ_URL", url)
    with DPQ.from_url(url, "pages") as q, running("api.py") as api:
        site = until(api, r"running on (http://127.0.0.1:\d+) ")
        with httpx.Client(base_url=site, trust_env=False) as http:
            assert http.post("/pages", json={"url": "no address"}).status_code == 422
            q.delay_group("127.0.0.1", None)
            page = {"url": f"{slow_site}/good", "priority": 9}
            posted = [
                http.post("/pages", json=each)
                for each in (page, page, {"url": f"{slow_site}/missing"})
            ]
            good, again, missing = (each.json()["id"] for each in posted)
            assert (posted[0].status_code, good) == (202, again)
            where = posted[0].headers["location"]
            assert where == f"{site}/pages/{good}"
            assert "closed (by hand)" in http.get(f"/pages/{good}/why").json()["why"]
            q.delay_group("127.0.0.1", 0)
            ended = http.get(where, params={"wait": 30})
            assert ended.json() == {"id": good, "state": "done", "result": 0}
            assert ended.status_code == 200
            wait_for(lambda: q.stats().dead == 1, q.stats)
            assert http.get(f"/pages/{missing}").json()["state"] == "dead"
            slow = http.post("/pages", json={"url": f"{slow_site}/slow"}).json()["id"]
            assert SlowSite.asked.wait(PATIENCE_S)
            with http.stream("GET", f"/pages/{slow}/events") as stream:
                lines = stream.iter_lines()
                assert '"state":"invisible"' in next(line for line in lines if line[:5] == "data:")
                api.send_signal(signal.SIGTERM)  # uvicorn waits for its connections
                assert not [line for line in lines if line[:6] == "event:"]
        until(api, r"(Waiting for application shutdown)")
        SlowSite.may.set()
        said, _ = api.communicate(timeout=PATIENCE_S)
        assert (api.returncode, "Application shutdown complete" in said) == (0, True), said
        stats = q.stats()
        assert (stats.acked, stats.dead, stats.invisible) == (2, 1, 0)
        assert (q.admin.workers(), q.check()) == ([], [])


def test_examples_are_short() -> None:
    """The first programs that a reader sees stay under 40 lines, or 40 to 45 lines of code."""
    for name in ("producer.py", "callbacks.py", "execute_later.py"):
        assert len((EXAMPLES / name).read_text().splitlines()) < 40
    for name, most in (("consumer.py", 40), ("scraper.py", 40), ("api.py", 45)):
        code = re.sub(r'"""(.*?)"""', "", (EXAMPLES / name).read_text(), flags=re.DOTALL)
        assert len([line for line in code.splitlines() if line.strip()]) <= most


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("_stdlib_site")


def test_the_crawler_fetches_all_pages(lines_of: Lines) -> None:
    """Its three consumers fetch all pages, though one is killed."""
    *said, last = lines_of("crawler.py", "--modules", "30", "--rate", "40")
    assert len({line.rpartition(" ")[2] for line in said if " links to " in line}) == 30
    assert last.startswith("30 pages: ")
    assert " 0 pages lost by the kill, " in last


def test_site_is_strict_on_each_host(library: Any) -> None:
    """Beyond its limit a host answers 429 with Retry-After and serves nothing; the other serves."""
    pages = {name: library.Page(200, ["re"], "words", 3) for name in ("json", "json.decoder")}
    rates = {"modules": 2, "submodules": 1}
    site = library.Site(pages, rates)
    assert [site.answer("modules", "json")[0] for _ in range(2)] == [200, 200]
    status, headers, _ = site.answer("modules", "json")
    assert (status, headers) == (429, {"Retry-After": "1"})
    assert site.answer("submodules", "json.decoder")[0] == 200
    assert [answer.status for answer in site.log] == [200, 200, 429, 200]
    assert site.limited == 1
