"""What the documents show runs as it stands: Python blocks and commands."""

import asyncio
import codeop
import importlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from kit.beside import beside
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support import wait_for
from typer.testing import CliRunner

import dpq
import dpq.otel
from dpq import DPQ, Backoff, Release
from dpq.cli import app

ROOT = Path(dpq.__file__).parents[1]
RECURRING = (ROOT / "docs" / "recurring.md").read_text(encoding="utf-8")
GUIDE = "".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("rate_limits.md", "limits_in_depth.md")
)
PERMITS = (ROOT / "docs" / "limits_without_tasks.md").read_text(encoding="utf-8")
NAMED_TASKS = (ROOT / "docs" / "named_tasks.md").read_text(encoding="utf-8")
WORKERS = (ROOT / "docs" / "workers.md").read_text(encoding="utf-8")
USAGE = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
TRACING = (ROOT / "docs" / "tracing.md").read_text(encoding="utf-8")
BATCHES = (ROOT / "docs" / "llm_batches.md").read_text(encoding="utf-8")
RUNS = (ROOT / "docs" / "batches.md").read_text(encoding="utf-8")
SHOP = "# shop.py\n"  # begins the module that the commands of that guide run
README = (ROOT / "README.md").read_text(encoding="utf-8")
URLS = ("redis://localhost", "embedded:./queue")  # as the documents write them
URL = URLS[0]

RAN = "blocks that were run"  # among a session's names
WHOLE_PAGES = {
    "batches.md": "test_the_crawl_of_batches_runs",
    "five_minutes.md": "test_five_minutes_print_what_they_say",
    "limits_in_depth.md": "test_every_block_of_the_guide_runs",
    "limits_without_tasks.md": "test_every_block_of_limits_without_tasks_runs",
    "llm_batches.md": "test_every_block_of_llm_batches_runs",
    "named_tasks.md": "test_every_block_of_named_tasks_runs",
    "rate_limits.md": "test_every_block_of_the_guide_runs",
    "recurring.md": "test_every_block_of_the_guide_to_recurring_tasks_runs",
    "tracing.md": "test_every_block_of_the_page_on_traces_runs",
    "usage.md": "test_every_block_of_usage_runs",
    "workers.md": "test_every_block_of_workers_runs",
}
"""The pages of which a test here runs each block, and looks at what it does; the fixture `session`
holds it to that. `test_a_page_without_a_test_of_its_own_runs` runs all other pages."""

NOT_HERE = {
    ("durability.md", 'q = DPQ.from_url("redis://..."'): "test_lease_and_worker_go_on",
    ("durability.md", "for _ in range(3):"): "test_the_guide_shows_how_to_repeat",
    ("operations.md", "from dpq import DPQ\nfrom redis"): "test_the_life_of_tasks",
    ("scrapy.md", ""): "test_what_the_page_for_users_shows_runs",
    ("security.md", "from dpq import DPQ"): "test_a_queue_works_over_tls",
    ("testing.md", ""): "test_every_block_of_the_guide_runs",
    ("workers.md", "# shop.py"): "test_every_command_of_workers_runs",
}
"""Page and begin of blocks that need a server, a file or a runner of their own ("" is each block of
the page), and the test elsewhere that runs them, or the calls in them."""

COMMANDS_ELSEWHERE = {
    *("limits_in_depth.md", "llm_batches.md", "other_languages.md"),
    *("rate_limits.md", "scrapy.md", "workers.md"),
}
"""Pages whose commands a test of the page runs in their order."""

ENDLESS = {"web", "metrics", "scheduler", "worker", "--follow"}
"""Words of commands that run until Ctrl-C: tests/daemon and tests/web start those."""

FAILS = {
    "dpq doctor": 1  # a task is due, and there is no consumer
}
"""Begin of commands that fail on this test's queues, and the exit code."""

OTHER_PROGRAMS = {
    "curl ": "test_a_program_of_another_language_pushes",
    "opentelemetry-instrument ": "test_the_entry_point_instruments_as_a_program_expects",
}
"""Programs of others that a block for a shell begins with, and the test that does what they do."""


class Host:
    """Stands in for `requests`: a 429, an error, a page; then the reader has seen enough."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(
        self, url: str, timeout: float, headers: dict[str, str] | None = None
    ) -> requests.Response:
        """Answer like the host of the documents."""
        self.asked.append(url)
        if len(self.asked) >= 4:
            if len(self.asked) == 4:
                os.kill(os.getpid(), signal.SIGINT)  # the reader has seen enough
            raise Release
        answer = requests.Response()
        answer.status_code = (429, 500, 200)[len(self.asked) - 1]
        answer.headers["Retry-After-Ms"] = "30" if answer.status_code == 429 else ""
        answer._content = b'{"doc": "a page"}'
        return answer


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def typed(code: str) -> None:
    """Check that a block can be typed into Python's prompt: it ends a `with` by an empty line."""
    lines: list[str] = []
    for line in code.splitlines():
        lines.append(line)
        if codeop.compile_command("\n".join(lines)) is not None:
            lines.clear()
    assert codeop.compile_command("\n".join([*lines, ""])) is not None


def read(page: str) -> str:
    """The text of a page of docs/."""
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def elsewhere(page: str, code: str) -> bool:
    """True if a block stands in `NOT_HERE`."""
    return any(page == where and code.startswith(begin) for where, begin in NOT_HERE)


def left_out(page: str, ran: list[str]) -> list[str]:
    """The first line of each block of a page that was not run, and need have been."""
    return [
        f"{page}: {code.partition(chr(10))[0]}"
        for code in blocks(read(page), "python")
        if code not in ran and not elsewhere(page, code)
    ]


def pages_run_as_they_stand() -> list[str]:
    """The pages without a test of their own: a new page of docs/ is among them by itself.

    A page of a folder has its own test if a test of guides or moves names it or its stem."""
    pages = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.relative_to(ROOT / "docs").as_posix()
        own = Path(__file__).parent.glob("test_[gm]*.py") if "/" in page else ()
        words = re.compile(rf'["/]{re.escape(path.stem)}(\.md)?"')
        named = any(words.search(test.read_text(encoding="utf-8")) for test in own)
        if page not in WHOLE_PAGES and not named and left_out(page, []):
            pages.append(page)
    return pages


def section(text: str, title: str) -> str:
    """What stands below a heading, up to the next one of its kind."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title!r}"
    return found[1]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()
    monkeypatch.setitem(sys.modules, "requests", host)
    return host


@pytest.fixture
def session(url: str, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The names that a reader's session has; its queue is dropped at the end.

    A test that stands in `WHOLE_PAGES` has then run each block of its page."""
    names: dict[str, Any] = {}
    yield names
    test = request.function.__name__
    pages = [page for page, name in WHOLE_PAGES.items() if name == test]
    assert [first for page in pages for first in left_out(page, names.get(RAN, []))] == []
    for queue in [each for each in names.values() if isinstance(each, DPQ)]:
        queue.admin.drop()
        queue.close()


def run(code: str, names: dict[str, Any], url: str, **instead: str) -> None:
    """Run a block as a reader would, on a server that is there, with other words here and there."""
    names.setdefault(RAN, []).append(code)
    for written, meant in instead.items():
        assert written in code
        code = code.replace(written, meant)
    for written in URLS:
        code = code.replace(written, url)
    exec(compile(code, "<block>", "exec"), names)  # noqa: S102 - our own documents


def test_the_program_of_readme_survives_a_kill(url, tmp_path):
    """It follows links; another process goes on when one is killed, and Ctrl-C ends it."""
    (code,) = blocks(README, "python")
    demo = [sys.executable, "-m", "dpq.demo", "--serve"]
    told = subprocess.run([*demo, "--help"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"--port PORT\s+8429;", told)  # the address of the program, without an option
    with subprocess.Popen([*demo, "--port", "0"], stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout
        (address,) = re.findall("^http://([0-9.:]+) answers", served.stdout.readline())
        code = code.replace("127.0.0.1:8429", address).replace("embedded:./queue", url)
        program = tmp_path / "pages.py"
        program.write_text(code.replace('"pages"', '"readme"'))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(
                [sys.executable, program], env=environment, stdout=subprocess.PIPE, text=True
            )

        with DPQ.from_url(url, "readme") as q:
            with start() as killed, start() as other:
                wait_for(lambda: q.stats().acked >= 5, q.stats)
                killed.kill()
                before = q.stats().acked
                wait_for(lambda: q.stats().acked >= before + 5, q.stats)
                other.send_signal(signal.SIGINT)
                printed = [
                    *killed.communicate()[0].splitlines(),
                    *other.communicate()[0].splitlines(),
                ]
                assert other.returncode == 0
            pages = [line.split()[1] for line in printed]
            assert len(set(pages)) >= q.stats().acked > 9
            assert q.check() == []
            q.admin.drop()
        served.kill()


def test_the_program_asks_as_it_says(url, host, session, capsys, monkeypatch):
    """The first program defers at a 429, uncounted, asks again after an error, and goes on in
    priority order; what is stopped is not lost."""
    monkeypatch.setattr(Backoff, "delay", lambda *_: 0.0)
    run(blocks(GUIDE, "python")[0], session, url)
    best, rest = "http://127.0.0.1:8429/heapq", "http://127.0.0.1:8429/sched"
    assert host.asked == [best, best, best, rest]
    assert capsys.readouterr().out == "a page\n"
    [left] = [*session["q"].peek(state="waiting"), *session["q"].peek()]
    assert (left.key, left.attempt, left.deferrals) == ("/sched", 1, 0)
    stats = session["q"].stats()
    assert (stats.deferred, stats.failed, stats.acked) == (1, 1, 1)
    [limit] = [state for state in session["q"].admin.limits() if state.group == session["HOST"]]
    assert (limit.windows[0].rate, limit.in_flight) == (20, 0)


def test_five_minutes_print_what_they_say(url, session, capsys):
    """Each block of the first look runs, and prints what stands behind its `print`."""
    text = read("five_minutes.md")
    for code in blocks(text, "python"):
        typed(code)
        run(code, session, url, **({'"embedded:"': repr(url)} if '"embedded:"' in code else {}))
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(r"^print\(.*\)(?:  # ([^:\n]*))?", "\n".join(blocks(text, "python")), re.M)
    handled = [line for line in printed if line.startswith("handled ")]
    others = [line for line in printed if line not in handled]
    assert len(said) == len(others) > 5
    assert [
        word for word, line in zip(said, others, strict=True) if not line.startswith(word)
    ] == []
    assert sum(map(bool, said)) > 5
    assert handled[0] == "handled not before tomorrow"


@pytest.mark.parametrize("page", pages_run_as_they_stand())
def test_a_page_without_a_test_of_its_own_runs(page, url, session, tmp_path, monkeypatch):
    """Its Python blocks run one after the other, in one session, on a server without tasks. None
    of them reaches another machine."""

    def refuse(host: str, *_: Any) -> None:
        raise AssertionError(f"{page} asks for {host}: it needs a test of its own")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    with warnings.catch_warnings():
        for code in blocks(read(page), "python"):
            if not elsewhere(page, code):
                servers = re.findall(
                    r"redis://(?:localhost(?::6379/0)?|\.\.\.)|embedded:[./a-z]*", code
                )
                run(code, session, url, **dict.fromkeys(sorted(servers, key=len)[::-1], url))
    assert left_out(page, session[RAN]) == []
    for queue in [each for each in session.values() if isinstance(each, DPQ)]:
        assert queue.check() == []


def test_every_block_is_run_by_some_test():
    """Each Python block of a page is run: here, or by a test elsewhere that is there. A page of
    `WHOLE_PAGES` whose test leaves out a block is seen."""
    everywhere = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = {*WHOLE_PAGES.values(), *NOT_HERE.values()}
    assert [test for test in named if f"def {test}(" not in everywhere] == []
    stale = [
        each
        for each in NOT_HERE
        if not any(elsewhere(each[0], code) for code in blocks(read(each[0]), "python"))
    ]
    assert stale == []
    for page in WHOLE_PAGES:
        shown = [each for each in blocks(read(page), "python") if not elsewhere(page, each)]
        first = shown[0].partition("\n")[0]
        assert left_out(page, shown[1:]) == [f"{page}: {first}"]
    assert {"results.md", "transactions.md"} <= {*pages_run_as_they_stand()}


def shell_lines(
    path: Path, languages: tuple[str, ...] = ("", "sh", "bash", "console")
) -> list[str]:
    """The lines of a page's blocks that a reader gives to a shell, without the prompt."""
    text = path.read_text(encoding="utf-8")
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    shown = "".join(block for language, block in fences if language in languages)
    shown = shown.replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in shown.splitlines() if line]


def commands_run_as_they_stand() -> list[tuple[str, str]]:
    """Page and line of each `dpq` command in a block, but of pages in `COMMANDS_ELSEWHERE`."""
    found = []
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.relative_to(ROOT / "docs").as_posix()
        if page not in COMMANDS_ELSEWHERE and "/" not in page:
            found += [(page, line) for line in shell_lines(path) if re.match("dpq [a-z-]", line)]
    return found


def test_commands_without_a_test_of_their_own_run(url, tmp_path, monkeypatch):
    """Each can be given on a server with a few tasks, ends with 0, and says no traceback; and
    what runs until Ctrl-C is known as such."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPQ_URL", url)
    monkeypatch.setenv("DPQ_QUEUE", "emails")
    queues = {name: DPQ.from_url(url, name) for name in ("emails", "mails", "pages", "reports")}
    for queue in queues.values():
        queue.push({"to": "ada"}, key="crawl-7:ada")
    endless, ran = [], 0
    for page, line in commands_run_as_they_stand():
        line = re.sub(r"redis://localhost(:6379/0)?|embedded:\S*", url, line)
        words = shlex.split(line, comments=True)[1:]
        if {*words} & ENDLESS:
            endless.append(line)
            continue
        given = None
        if "<" in words:
            given = Path(words[words.index("<") + 1]).read_text(encoding="utf-8")
        end = min((words.index(mark) for mark in "<>" if mark in words), default=len(words))
        done = CliRunner().invoke(app, words[:end], input=given)
        if ">" in words:
            Path(words[-1]).write_text(done.stdout, encoding="utf-8")
        wanted = next((code for begin, code in FAILS.items() if line.startswith(begin)), 0)
        assert done.exit_code == wanted, f"{page}: {line}\n{done.output}"
        assert "Traceback" not in done.output
        ran += 1
    assert (ran > 6, len(endless) > 3) == (True, True), (ran, endless)
    for queue in queues.values():
        queue.admin.drop()
        queue.close()


def test_every_command_is_of_a_program_that_is_looked_at():
    """A line of a block for a shell is of `dpq`, which is run; of a program whose line
    tests/daemon/test_commands.py reads; or it is listed, with the test that does the same."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        others = [
            line
            for line in shell_lines(path, ("sh", "bash", "console"))
            if not re.match(r"(\.venv/bin/)?(dpq|make|pip|python3?) ", line)
            and not line.startswith(tuple(OTHER_PROGRAMS))
        ]
        assert (path.name, others) == (path.name, [])
    everywhere = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert [test for test in OTHER_PROGRAMS.values() if f"def {test}(" not in everywhere] == []


def test_every_block_of_usage_runs(url, session, capsys):
    """The page's loop takes the best first, each task once, and ends."""
    code, plain, keys, debounced, failures, bounds = blocks(USAGE, "python")
    run(code, session, url)
    assert capsys.readouterr().out == "fetch https://b.example/1\nfetch https://a.example/1\n"
    run(plain, session, url)
    assert capsys.readouterr().out == "{'body': 'hello'}\n"
    session["url"] = "https://a.example/3"
    run(keys, session, url)
    assert session["q"].purge() == 1
    run(debounced, session, url)
    assert [task.key for task in session["q"].peek(state="delayed")] == ["doc-7"]
    run(failures, session, url)
    said, frame = capsys.readouterr().out.splitlines()
    assert said == "1 failed ZeroDivisionError: division by zero"
    assert frame.endswith(" in <module>")
    run(bounds, session, url)
    assert session["q"].check() == []


def test_every_block_of_the_guide_runs(url, host, session, capsys):
    """The blocks of the guide run one after the other in one session, and break no invariant."""
    for code in blocks(GUIDE, "python"):
        run(code, session, url)
    queue = session["q"]
    assert queue.check() == []
    printed = capsys.readouterr().out
    assert "its group 'api.example' is closed (by hand) for another " in printed
    assert "False closed by hand " in printed


def test_the_crawl_of_batches_runs(url, session, capsys):
    """It ends, and says so; the command line shows the batch with its counts. Tasks that wait for
    others come after them."""
    program, waiting = blocks(RUNS, "python")
    run(program, session, url)
    assert capsys.readouterr().out == "the crawl is over: 4 pages, 1 lost\n"
    env = {"DPQ_URL": url, "DPQ_QUEUE": "crawl"}
    for words in (
        ["stats", "--batch", "run-7", "--watch"],
        ["stats", "--batch", "run-7", "--json"],
    ):
        result = CliRunner().invoke(app, words, env=env)
        assert (result.exit_code, "finished" in result.output) == (0, True), result.output
    run(waiting, session, url)
    came = [next(iter(task.payload)) for task in session["q"].leases(until_empty=True)]
    assert (came.index("make") > 1, came.count("step")) == (True, 3), came


def test_every_block_of_limits_without_tasks_runs(url, session, monkeypatch, capsys):
    """Its blocks run one after the other: each request takes a unit of its host."""
    monkeypatch.setattr(
        httpx.HTTPTransport, "handle_request", lambda _, request: httpx.Response(200)
    )
    for code in blocks(PERMITS, "python"):
        run(code, session, url)
    queue = session["q"]
    printed = capsys.readouterr().out
    assert re.fullmatch(r"200\nkey-a\nasking\nnot before (59|60) s\n", printed)
    assert queue.check() == []
    session["client"].close()


def test_every_block_of_the_page_on_traces_runs(url, session, monkeypatch, capsys):
    """Its blocks run one after the other, with the global provider: a worker and a loop of pops
    make the spans that the page names."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    try:
        for code in blocks(TRACING, "python"):
            run(code, session, url)
    finally:
        dpq.otel.uninstrument()
    assert capsys.readouterr().out == "/index.html\n/about.html\n"
    made = [span.name for span in exporter.get_finished_spans()]
    for verb in ("push", "pop", "process", "ack"):
        assert f"| `{verb} pages`" in TRACING
        assert made.count(f"{verb} pages") == 2
    assert made.index("ack pages", 4) < made.index("process pages", 4)  # inside of the block


def test_every_block_of_the_guide_to_recurring_tasks_runs(url, session, capsys):
    """Its blocks run one after the other: a task runs, comes back, is changed, and ends."""
    begin, change = blocks(RECURRING, "python")
    run(begin, session, url)
    assert "{'do': 'poll'} was due at 20" in capsys.readouterr().out
    queue = session["q"]
    assert [task.key for task in queue.peek(state="delayed")] in (
        ["poll", "report"],
        ["report", "poll"],
    )
    run(change, session, url)
    [left] = queue.peek(state="delayed")
    assert left.cron == "0 3 * * 1-5 Europe/Berlin"
    assert queue.check() == []


def test_every_command_of_the_guide_runs(url, session):
    """The shell lines of the guide are taken by `dpq`, in their order."""
    run(f'from dpq import DPQ\nq = DPQ.from_url("{URL}", "shell")', session, url)
    queue = session["q"]
    task_id = queue.push("a page", group="api.example")
    lines = "".join(blocks(GUIDE, "sh")).splitlines()
    assert lines
    for line in lines:
        name, *words = shlex.split(line, comments=True)
        words = [task_id if word == "ID" else word for word in words]
        result = CliRunner().invoke(app, words, env={"DPQ_URL": url, "DPQ_QUEUE": "shell"})
        assert (name, result.exit_code) == ("dpq", 0), f"{line}: {result.output}"
    hosts = {
        "api.example",
        "shop.example",
        "far.example",
        "pool.example",
    }  # the first is removed, and put back
    assert {state.group for state in queue.admin.limits()} == {None, "*", *hosts}


def test_every_block_of_named_tasks_runs(url, session, capsys):
    """The blocks about named tasks run one after the other, print what they say, and break no
    invariant."""
    for code in blocks(NAMED_TASKS, "python"):
        run(code, session, url)
    assert session["q"].check() == []
    with DPQ.from_url(url, "pages-async") as pinged:
        assert (pinged.stats().acked, pinged.check()) == (1, [])
        pinged.admin.drop()
    printed = capsys.readouterr().out
    assert "fetching api.example /best at depth 1\n" in printed
    assert "unknown task 'fetsh'\n" in printed
    assert "its group 'api.example' is closed" in printed
    assert "ping api.example\n" in printed


def test_every_block_of_workers_runs(url, session, capsys):
    """The blocks about workers run one after the other, print what they say, and lose no task."""
    for code in blocks(WORKERS, "python"):
        if not code.startswith(SHOP):
            run(code, session, url)
    for queue in (session["mails"], session["reports"]):
        assert (queue.size(), queue.check(), queue.admin.workers()) == (0, [], [])
    with DPQ.from_url(url, "pages") as pages:
        assert (pages.stats().acked, pages.check()) == (1, [])
        pages.admin.drop()
    printed = capsys.readouterr().out
    assert printed.startswith("mail to ada@example.org\nmail to grace@example.org\n")
    assert "unknown task 'cuont'" in printed
    assert "'not by this program'" in printed
    assert "fetched https://api.example/\n" in printed


def test_every_command_of_workers_runs(url, tmp_path, monkeypatch, capfd):
    """The commands about workers run the guide's module, each until its queues are empty."""
    monkeypatch.setenv("DPQ_URL", url)
    [shop] = [code for code in blocks(WORKERS, "python") if code.startswith(SHOP)]
    (tmp_path / "shop.py").write_text(shop)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    lines = "".join(blocks(WORKERS, "sh")).splitlines()
    assert len(lines) == 9
    with DPQ.from_url(url, "mails") as mails:
        for line in lines:
            name, command, *words = shlex.split(line, comments=True)
            if command == "worker":
                mails.push({"task": "mail", "args": {"to": "ada"}})
                words = [*words, "--drain"]
            if {"--quiet", "--unquiet"} & {*words}:  # as a worker of that name
                beat = mails._operations.beat
                mails._session.run(beat, "id", words[1], "web-1", 77, "0.1", 0, 8, 9.0)
                shown = CliRunner().invoke(app, [command, *words])
                mails._session.run(mails._operations.leave, "id")
                assert (name, shown.exit_code) == ("dpq", 0), shown.stderr
                continue
            if command in ("workers", "admin"):
                shown = CliRunner().invoke(app, [command, *words])
                assert (name, shown.exit_code) == ("dpq", 0), shown.stderr
                continue
            done = CliRunner().invoke(app, [command, *words])
            assert (done.exit_code, capfd.readouterr().out + done.stdout) == (0, "mail to ada\n")
        assert (mails.stats().acked, mails.size()) == (3, 0)
        mails.admin.drop()
    del sys.modules["shop"]  # other tests have another one


def test_every_block_of_llm_batches_runs(url, session, tmp_path, monkeypatch, capsys):
    """The blocks and commands of the guide run in their order against the simulated API: each
    request is answered once, whatever is run again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.syspath_prepend(ROOT / "examples")
    programs = importlib.import_module("simulated_llm_api")
    servers = []

    async def start() -> list[asyncio.Server]:
        servers.append(await programs.serve(["--latency", "0.05"]))
        return servers

    write, read, program, library = blocks(BATCHES, "python")
    commands = [line for block in blocks(BATCHES, "sh") for line in block.splitlines()]
    assert len(commands) == 3
    with beside(start):
        address = programs.url_of(servers[0])
        run(write, session, url)
        for line in commands:
            line = line.replace("http://127.0.0.1:8000/v1/chat/completions", address)
            _, *words = shlex.split(line.replace(URL, url))
            done = CliRunner().invoke(app, words)
            assert (done.exit_code, done.stdout) == (0, ""), done.stderr
            assert "3 of 3 saved" in done.stderr
        run(read, session, url)
        whole, base = "http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"
        run(program, session, url, **{whole: address})
        run(library, session, url, **{base: address.rpartition("/chat")[0]})
        used = httpx.get(f"{address.rpartition('/v1')[0]}/counts", trust_env=False).json()
        session["client"].close()
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed[:3]] == ["1", "2", "3"]
    assert "Paris" in printed[0]
    assert printed[3] == "3 of 3 done ()"
    assert [line.split()[0] for line in printed[4:]] == ["answer"] * 3
    assert used["limited"] == 0
    queue = session["q"]
    assert (queue.stats().acked, queue.stats().failed, queue.check()) == (3, 0, [])
    assert queue.admin.group("chat").units_left[1] > 20_000 - 3 * 300  # what was not used came back
    for name in ("cities", "cities.batch"):
        with DPQ.from_url(url, name) as queue:
            queue.admin.drop()
