"""The examples run as a reader would run them, and what they claim about themselves holds."""

import contextlib
import http.server
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import settings
from kit.terminals import Terminal
from redis import Redis
from support import PATIENCE_S, wait_for

import dpq
from dpq import DPQ
from dpq.server import Server

ROOT = Path(dpq.__file__).parents[1]
EXAMPLES = ROOT / "examples"
SOAK = settings.get_current_profile_name() == "soak"

STREAMS = ("stdin", "stdout", "stderr")

SMALL = ("--modules", "30", "--rate", "12")
"""Some twenty to thirty submodules at 9 a second: the other ways meet the limit at least twice."""


@pytest.fixture(scope="session")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where matplotlib writes down which fonts there are, for all tests together."""
    return tmp_path_factory.mktemp("matplotlib")


@pytest.fixture(autouse=True)
def surroundings(scratch: Path, monkeypatch: pytest.MonkeyPatch, fonts: Path) -> Iterator[None]:
    """Nothing at all may be left in the temporary directory."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("MPLCONFIGDIR", str(fonts))
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
    """Run an example in a session of its own, of which nothing may be left at the end.

    "demo" is `python -m dpq.demo`.
    """
    program = ["-m", "dpq.demo"] if name == "demo" else [EXAMPLES / name]
    command = [sys.executable, *program, *arguments]
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


PNG = b"\x89PNG\r\n\x1a\n"


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
    assert re.search(r"time [\d.]+ s are [\d.]+ of the physical least", said)
    assert re.search(r"machine \d+ processors, load .* a slack of \d+ ms; timers were up to", said)
    assert re.search(r"physical least [\d.]+ s: submodules decides, \d+ pages at 9 a second", said)
    least = re.search(r"physical least (\d+) 0 0.0 [\d.]+ s 1.00", said)
    assert least, said
    for name in map(re.escape, NAMES):
        row = re.search(
            rf"{name} +(\d+) +(\d+) +[\d.]+ +[\d.]+ s +[\d.]+ s +([\d.]+) (?=[a-zFD])", said
        )
        assert row, said
        assert int(row[1]) >= int(least[1]) + int(row[2])
        assert float(row[3]) >= 1, "nothing can be faster than the least"


@pytest.mark.parametrize("name", ["demo"] + SOAK * ["crawler.py"])
def test_crawler_draws_in_place_on_a_terminal(
    name: str, monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> None:
    """On a terminal crawls redraw their counts in place, no line too wide for it, and report; and
    make a picture if wanted. The dashboard stays until Ctrl-C. `dpq demo` is the crawler."""
    monkeypatch.setenv("TERM", "xterm")
    png = scratch / "demo.png"
    options = (*SMALL, "--plot", str(png))
    with (
        Terminal() as terminal,
        running(name, *options, **dict.fromkeys(STREAMS, terminal.theirs)) as process,
    ):
        terminal.hand_over()
        terminal.wait_for("until Ctrl-C: ")
        terminal.wait_for("/\r\n")
        where = re.search(r"until Ctrl-C: (http://127\S+/)", terminal.shown)
        assert where
        assert "/q/stdlib-dpq-limits-" in httpx.get(where[1], trust_env=False).text
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = terminal.read_all()
        assert process.wait(PATIENCE_S) == 0, said
    assert said.count("\x1b[1A") > 20, "the cursor never went up to draw again"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said)
    assert re.search(r"ready .* delayed .* waiting .* invisible .* dead .* requests .* 429s", plain)
    assert "consumer 3" in plain
    assert re.search(r"killed while it held [\w.]+", plain)
    assert max(len(line) for line in re.split(r"[\r\n]+", plain)) <= 80
    expect_full_report(words(plain))
    assert f"The same as a picture: {png}" in words(plain)
    assert png.read_bytes().startswith(PNG)
    png.unlink()


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


def lines_of(name: str, *arguments: str) -> list[str]:
    """What an example that ends by itself has printed; it must end well."""
    with running(name, *arguments) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    return said.splitlines()


def until(process: subprocess.Popen[str], pattern: str) -> str:
    """Read what a program prints until a line matches; the first group of it."""
    assert process.stdout
    seen = []
    while line := process.stdout.readline():
        seen.append(line)
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"ended without {pattern!r}: {seen}")


def test_openai_batch_saves_every_answer() -> None:
    """Without arguments it sends 30 requests to a simulated API, and saves 30 answers."""
    *_, last = lines_of("openai_batch.py")
    assert last == "30 of 30 saved in answers.jsonl, 0 left"


def test_openai_batch_loses_nothing_to_a_wrong_key(tmp_path: Path) -> None:
    """A wrong key stops it with all requests left, and stands in no output; the same command with
    the right one sends them, and names what is refused."""
    said = [{"role": "user", "content": "hello"}]
    bodies = [{"messages": said}, {"none": 1}, {"messages": said, "max_tokens": 10}]
    asks, answers = tmp_path / "asks.jsonl", tmp_path / "answers.jsonl"
    asks.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    with running("simulated_llm_api.py", "--latency", "0.01", "--key", "right") as api:
        assert api.stdout
        url = api.stdout.readline().strip()
        program = "import asyncio, sys, openai_batch as b\nfrom pathlib import Path\n"
        program += f"asks, answers = Path({str(asks)!r}), Path({str(answers)!r})\n"
        program += f"sys.exit(asyncio.run(b.main(asks, answers, {url!r})))"
        command = [sys.executable, "-c", program]
        path = os.pathsep.join(map(str, (ROOT, EXAMPLES)))
        told = []
        for key in ("wrong-key-4711", "right"):
            environment = {**os.environ, "PYTHONPATH": path, "OPENAI_API_KEY": key}
            environment["NO_PROXY"] = "127.0.0.1"
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert done.returncode == 1, done
            assert "wrong-key-4711" not in done.stdout + done.stderr
            told.append(done.stdout)
        counts = httpx.get(url.replace("/v1/chat/completions", "/counts"), trust_env=False).json()
    stopped, sent = told
    assert stopped.startswith("0 of 3 saved in answers.jsonl, 3 left\nstopped: the API refuses")
    assert sent.startswith("2 of 3 saved in answers.jsonl, 0 left\nrefused: line 2: 400: ")
    assert counts["answered"] == 2
    assert sorted(json.loads(line)["line"] for line in answers.read_text().splitlines()) == [1, 3]


def test_execute_later_runs_functions_in_their_time(url: str) -> None:
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


def test_outbox_delivers_each_order_once(url: str, tmp_path: Path) -> None:
    """Its orders and their tasks are committed together, and the second start adds two more."""
    database = str(tmp_path / "shop.db")
    for start in (1, 2):
        assert lines_of("outbox.py", database, url) == ["delivers bread", "delivers tea"]
        with DPQ.from_url(url, "orders") as q:
            assert (q.stats().acked, q.size(), q.check()) == (2 * start, 0, [])


def test_callbacks_run_in_the_order_of_their_queues(url: str) -> None:
    """The first queue is emptied first; an unknown name is dead. So too on an embedded server."""
    wanted = [
        "mail to grace: now",
        "mail to ada: later",
        "4 words",
        "reports: task ID (count_wrods), attempt 1 of 10: Reject: unknown task 'count_wrods'",
        "dead: unknown task 'count_wrods'",
    ]

    def lines(*arguments: str) -> list[str]:
        return [
            re.sub(r"task [\w-]+ \(", "task ID (", line)
            for line in lines_of("callbacks.py", *arguments)
        ]

    assert lines(url) == wanted
    for name, acked, dead in [("mails", 2, 0), ("reports", 1, 1)]:
        with DPQ.from_url(url, name) as q:
            stats = q.stats()
            assert (stats.acked, stats.dead, q.size(), q.check()) == (acked, dead, 0, [])
    assert lines() == wanted


def test_scraper_fetches_every_page_of_its_small_site() -> None:
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
    assert failed == f"failed: http://127.0.0.1:{known}/missing: Reject('404 Not Found')"


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
            wait_for(lambda: q.stats().failed == 1, q.stats)
            assert http.get(f"/pages/{missing}").json()["state"] in ("delayed", "ready")
            slow = http.post("/pages", json={"url": f"{slow_site}/slow"}).json()["id"]
            assert SlowSite.asked.wait(PATIENCE_S)
            with http.stream("GET", f"/pages/{slow}/events") as stream:
                lines = stream.iter_lines()
                assert '"state":"invisible"' in next(line for line in lines if line[:5] == "data:")
                api.send_signal(signal.SIGTERM)  # uvicorn waits for its connections
                assert not [line for line in lines if line[:6] == "event:"]
        until(api, r"(Waiting for application shutdown)")
        q.push({"url": f"{slow_site}/late"})
        SlowSite.may.set()
        said, _ = api.communicate(timeout=PATIENCE_S)
        assert (api.returncode, "Application shutdown complete" in said) == (0, True), said
        stats = q.stats()
        kept = stats.ready + stats.delayed  # the wait of the page that is missing may be over
        assert (stats.acked, kept, stats.invisible) == (2, 2, 0)
        assert (q.workers(), q.check()) == ([], [])
        with running("scraper.py", url) as scraper:  # a worker of its own
            until(scraper, r"^200 (\S+/late), priority 0$")
            scraper.send_signal(signal.SIGINT)
            assert scraper.wait(PATIENCE_S) == 0
        assert q.stats().acked == 3


@pytest.mark.skipif(not SOAK, reason="tests/contract/test_scrapy.py crawls in process")
def test_spider_fetches_every_page_of_its_small_site(url: str) -> None:
    """Each page comes once, with a server of its own or with one that is given."""
    pytest.importorskip("scrapy", reason="no scrapy here: pip install '.[scrapy]'")
    for arguments in ((), (url,)):
        lines = lines_of("spider.py", *arguments)
        pages = [re.fullmatch(r"200 http://127.0.0.1:\d+/(\d+)", line) for line in lines]
        found = sorted(int(page[1]) for page in pages if page)
        assert found == sorted([*range(1, 13), *range(1, 4)])


def test_examples_are_short() -> None:
    """The first programs that a reader sees stay under 40 lines, or 40 to 45 lines of code."""
    for name in ("producer.py", "callbacks.py", "execute_later.py"):
        assert len((EXAMPLES / name).read_text().splitlines()) < 40
    for name, most in (("consumer.py", 40), ("scraper.py", 40), ("api.py", 45)):
        code = re.sub(r'"""(.*?)"""', "", (EXAMPLES / name).read_text(), flags=re.DOTALL)
        assert len([line for line in code.splitlines() if line.strip()]) <= most


def test_crawler_refuses_a_plot_without_a_directory(scratch: Path) -> None:
    """A picture that could not be written is refused before a minute of crawling."""
    with running("crawler.py", "--plot", str(scratch / "absent" / "demo.png")) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "there is no such directory" in words(said)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the examples, as crawler.py does."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


@pytest.fixture
def watch(example: Callable[[str], Any]) -> Any:
    return example("_crawl_watch")


@pytest.fixture
def report(example: Callable[[str], Any]) -> Any:
    return example("_crawl_report")


@pytest.fixture
def library(example: Callable[[str], Any]) -> Any:
    return example("_stdlib_site")


def test_report_sees_a_task_that_did_not_come_back(watch: Any, report: Any) -> None:
    """The check fails without a kill, and while the killed consumer's task is not acknowledged."""
    record = watch.Record(pages=1)
    assert not report.check_recovered(record).passed
    record.killed = watch.Event(1, "popped", 0.0, "id", "json", 0, 1)
    assert not report.check_recovered(record).passed
    record.add(watch.Event(2, "popped", 3.0, "id", "json", 0, 2))
    assert not report.check_recovered(record).passed
    record.add(watch.Event(2, "acknowledged", 3.1, "id", "json", 0, 2))
    assert report.check_recovered(record).passed


def test_report_sees_a_second_acknowledgement(
    watch: Any, report: Any, library: Any, url: str
) -> None:
    """The check fails when a module is acknowledged twice, or when the queue counted otherwise."""
    page = library.Library({"json": library.Page(200, [], "")}, [], 0)
    record = watch.Record(pages=1)
    with DPQ.from_url(url, "report") as q:
        record.add(watch.Event(1, "acknowledged", 0.0, "id", "json", 0, 1))
        assert "the queue's own count: 0" in report.check_modules(q, page, record).text
        q.push("json")
        q.pop().on_success()
        assert report.check_modules(q, page, record).passed
        record.add(watch.Event(2, "acknowledged", 0.1, "other", "json", 0, 1))
        passed, text = report.check_modules(q, page, record)
    assert not passed
    assert "acknowledged more than once: json" in text


NAMES = ("plain FIFO", "set_visibility", "FIFO + limits", "DPQ's limits")


def figures(report: Any, name: str = "way", **changes: Any) -> Any:
    """A crawl of 200 pages in 20 s, without a 429."""
    pages = [i / 10 for i in range(200)]
    crawl = report.Figures(name, 200, 0, pages, pages[:25], [], 20.0)
    return crawl._replace(**changes)


def test_time_fails_no_demo(example: Callable[[str], Any], report: Any) -> None:
    """However slow and refused a crawl was on a busy machine: that is said, and the status is 0."""
    demo, site = example("_crawl_demo"), example("_stdlib_site")
    console = example("rich.console").Console(file=io.StringIO(), width=80)
    bound = report.Least({"one": 200}, {"one": 10})
    crawls = [
        demo.Crawl(figures(report, name, seconds=900.0, limited=150), bound, {}, "timers were late")
        for name in NAMES
    ]
    assert demo.show(console, crawls, site.Library({}, [], 0), None) == 0
    assert re.search(r"time +900.0 s are 47.37 of the physical least", console.file.getvalue())
    assert re.search(r"machine +timers were late", console.file.getvalue())


def test_no_crawl_can_be_faster_than_the_least(report: Any, library: Any) -> None:
    """Whoever asks a host without any pause is served what the bound says, to the page."""
    host, now = library.Host(10), 1000.0
    bound = report.Least({"one": 35}, {"one": 10})
    served = []
    while len(served) < 35:
        if not host.wait(now):
            served.append(now - 1000)
        # a burst at each moment at which the host is open, and none while it is closed
        now += 0 if len(served) % 10 else 1
    assert (served[-1], bound.seconds) == (3.0, 3.0)
    for count, moment in enumerate(served, 1):
        assert count <= bound.at(moment)
    assert [bound.at(seconds) for seconds in (0, 0.999, 1, 2.5, 3, 99)] == [10, 10, 20, 30, 35, 35]


def test_the_slower_host_is_the_physical_least(report: Any) -> None:
    """The host that needs the longest for its own pages decides, and is named."""
    bound = report.Least({"one": 100, "other": 60}, {"one": 20, "other": 10})
    assert (bound.host, bound.seconds) == ("other", 5.0)
    assert str(bound).startswith("5.0 s: other decides, 60 pages at 10 a second; one alone needs 4")
    assert [bound.at(seconds) for seconds in (0, 1, 4.5, 99)] == [30, 60, 150, 160]


def test_the_room_is_sized_by_what_was_measured(
    example: Callable[[str], Any], library: Any, watch: Any
) -> None:
    """The way is measured on the running site, at no cost for its limits, and said."""
    demo = example("_crawl_demo")
    rates = {"modules": 1, "submodules": 1}
    with library.serve(library.Library({}, [], 0), rates) as site:
        ways = demo.measure(site)
        assert site.log == []
    assert ways == sorted(ways)
    assert len(ways) >= 20
    assert re.search(
        r"a request took \d+ to \d+ ms, so the limits got a slack of 31 ms; timers were up to 0 ms",
        demo.describe_machine(ways, 0.031, watch.Record(pages=1)),
    )


def test_a_site_punishes_hammering(library: Any) -> None:
    """Who waits as told is served; who asks while the host is closed waits twice as long."""
    for hammers in (False, True):
        host = library.Host(1)
        assert [host.wait(now) for now in (10.0, 10.5, 10.6)] == [0, 1, 1]  # 10.6 was under way
        if hammers:
            assert host.wait(11.0) == 2
            assert host.wait(11.6) == 1
            assert host.wait(12.4) == 1
        assert host.wait(12.5 if hammers else 11.5) == 0


def test_report_fails_with_any_of_the_crawls(example: Callable[[str], Any], report: Any) -> None:
    """A check that failed in one of the other ways is shown, and makes the exit status 1."""
    demo, site = example("_crawl_demo"), example("_stdlib_site")
    console = example("rich.console").Console(file=io.StringIO(), width=80)
    bound = report.Least({"one": 200}, {"one": 10})
    crawls = [
        demo.Crawl(figures(report, name), bound, {"modules": report.Check(True, "all fetched")}, "")
        for name in NAMES
    ]
    library = site.Library({}, [], 0)
    assert "not all" in report.describe_order(crawls[0].figures, crawls[2].figures, library)
    assert demo.show(console, crawls, library, None) == 0
    crawls[0].checks["modules"] = report.Check(False, "one is missing")
    assert demo.show(console, crawls, library, None) == 1
    assert re.search(r"FAILED +plain FIFO: modules +one is missing", console.file.getvalue())


def test_plots_are_narrow_and_headless(
    example: Callable[[str], Any], report: Any, tmp_path: Path
) -> None:
    """The text has at most 80 columns and names every way; the PNG is written without a display."""
    pytest.importorskip("plotext")
    pytest.importorskip("matplotlib")
    plot = example("_crawl_plot")
    bound = report.Least({"one": 150, "other": 50}, {"one": 10, "other": 5})
    crawls = [figures(report, name) for name in NAMES]
    text = plot.draw(crawls, bound, 200, colors=False)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert all(name in text for name in [*NAMES, "physical least"])
    assert "\x1b[" in plot.draw(crawls, bound, 80, colors=True)
    plot.save(crawls, bound, tmp_path / "demo.png")
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)


def test_without_web_there_is_no_dashboard(
    example: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """Without the packages of the extra `web` the demo says nothing of a dashboard, and goes on."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    example("_crawl_web").main("redis://127.0.0.1:1/0", 0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("missing", ["plotext", "matplotlib"])
def test_a_missing_plot_library_is_named(
    missing: str,
    example: Callable[[str], Any],
    report: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Without a library for the plots the report says in one line what to install."""
    monkeypatch.setitem(sys.modules, missing, None)
    demo = example("_crawl_demo")
    console = example("rich.console").Console(file=io.StringIO(), width=80)
    bound = report.Least({"one": 200}, {"one": 10})
    demo.picture(console, [figures(report)] * 4, bound, tmp_path / "demo.png")
    *_, last = console.file.getvalue().splitlines()
    # the module asked for, or one in it: that depends on what other tests have imported
    assert re.sub(rf"{missing}[\w.]*", missing, last) == (
        f"No picture: {missing} is missing; pip install 'matplotlib>=3.9' 'plotext>=6'"
    )


def test_site_is_strict_on_each_host(library: Any) -> None:
    """Beyond its limit a host answers 429 with Retry-After and serves nothing; the other serves."""
    pages = {name: library.Page(200, ["re"], "words", 3) for name in ("json", "json.decoder")}
    rates = {"modules": 2, "submodules": 1}
    site = library.Site(library.Library(pages, [], 0), rates)
    assert [site.answer("modules", "json")[0] for _ in range(2)] == [200, 200]
    status, headers, _ = site.answer("modules", "json")
    assert (status, headers) == (429, {"Retry-After": "1"})
    assert site.answer("submodules", "json.decoder")[0] == 200
    assert [answer.status for answer in site.log] == [200, 200, 429, 200]
    assert site.limited == 1


def test_site_links_across_its_hosts(library: Any) -> None:
    """A page links to the host of each module that it imports."""
    pages = {"json": library.Page(200, ["json.decoder", "re"], "words", 3)}
    with library.serve(library.Library(pages, [], 0), {"modules": 9, "submodules": 9}) as site:
        top, sub = (site.hosts[name].url for name in library.HOSTS)
        body = json.loads(site.answer("modules", "json")[2])
    assert top != sub
    assert body["links"] == [f"{sub}/json.decoder", f"{top}/re"]


def test_site_reads_real_sources(library: Any) -> None:
    """A page holds what the source says; a module in C has one too, an unknown one has none."""
    page = library.read_page("json")
    assert page.status == 200
    assert page.text.startswith("JSON")
    assert {"json.decoder", "json.encoder"} <= set(page.imports)
    assert "os" in library.read_page("glob").imports  # imports os.path too, which is no module
    assert library.read_page("sys")[:2] == (200, [])
    assert library.read_page("no_such_module").status == 404
