"""Each guide's program runs as it stands on the page, and does what the page says of it.

The hosts are those of `examples/simulated_apis.py`, with numbers that take seconds.
"""

import importlib
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from kit.beside import beside
from support import PATIENCE_S, wait_for
from typer.testing import CliRunner

import dpq
from dpq import DPQ
from dpq.cli import app

ROOT = Path(dpq.__file__).parents[1]
GUIDES = ROOT / "docs" / "guides"
SOAK = settings.get_current_profile_name() == "soak"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
HOST, QUEUE = "http://127.0.0.1:8431", "embedded:./queue"  # as the pages write them

Serve = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of the examples; programs ask loopback without a proxy."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return importlib.import_module


@pytest.fixture
def serve(example: Callable[[str], Any]) -> Serve:
    """Starts a simulated host: its name there, and its options."""
    apis = example("simulated_apis")

    @contextmanager
    def begin(kind: str, **options: Any) -> Iterator[Any]:
        host = apis.KINDS[kind](port=0, **options)
        with beside(lambda: apis.serve(host)):
            yield host

    return begin


def programs(page: str) -> list[str]:
    """The Python blocks of a guide."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def fitted(code: str, host: Any, url: str, **changes: str) -> str:
    """A program with the addresses of this test, and with other numbers: each stands there once."""
    changes |= {HOST: f"http://127.0.0.1:{host.ports[0]}", QUEUE: url}
    for old, new in changes.items():
        assert code.count(old) == 1, (old, code.count(old))
        code = code.replace(old, new)
    return code


def run_names(code: str) -> dict[str, Any]:
    """Run a program, and return its names; no task may be left, dead, or break an invariant."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<guide>", "exec"), names)  # noqa: S102 - our own documents
    for client in (names.get("http"), names.get("client"), *names.get("clients", {}).values()):
        if client:
            client.close()
    queue: DPQ = names["q"]
    assert (queue.size(), queue.stats().dead, queue.check()) == (0, 0, [])
    return names


def run(code: str) -> DPQ:
    """Run a program, and return its queue."""
    queue: DPQ = run_names(code)["q"]
    return queue


PAGES = ("api.md", "crawl.md", "../move/tenacity.md")
GITHUB, SHOPIFY, PROXIES, TEAMS = programs("api.md")


def test_commands(url: str, example: Callable[[str], Any]) -> None:
    """What the pages say to type is taken: how hosts are started, and how queues are looked at."""
    apis, llm = example("simulated_apis"), example("simulated_llm_api")
    text = " ".join((GUIDES / page).read_text(encoding="utf-8") for page in PAGES)
    started = re.findall(r"python examples/(simulated_\w+)\.py ([^`\n]+)", text)
    for program, words in started:
        (llm.read_options if program == "simulated_llm_api" else apis.read_host)(words.split())
    assert {words.split()[0] for _, words in started} >= {*apis.KINDS} - {"anthropic"}
    looks = re.findall(r"`dpq --url embedded:\./queue --queue (\S+) ([^`]+)`", text)
    assert len(looks) == 2
    for name, words in looks:
        with DPQ.from_url(url, name.strip("'")) as q:
            q.push({}, group="a.example")
            line = ["--url", url, "--queue", q.queue_name, *words.replace(" --watch", "").split()]
            done = CliRunner().invoke(app, line)
            assert done.exit_code == 0, (line, done.output)
            q.admin.drop()


def test_github(url: str, serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    """Each page comes once. No request goes beyond the quota that the headers say. At
    a secondary limit only what was under way is refused. A second start asks for nothing."""
    with serve("github", quota=12, hour=1, strict_at=5) as host:
        code = fitted(GITHUB, host, url)
        with run(code) as q:
            asked = [seen.request.target for seen in host.seen if seen.status == 200]
            lines = capsys.readouterr().out.splitlines()
            assert len(set(asked)) == len(asked) == len(lines) == 15
            refused = [seen for seen in host.seen if seen.status != 200]
            assert 1 <= len(refused) <= 3, host.counts()
            assert host.over_quota == 0
            assert (q.stats().failed, q.stats().deferred) == (0, len(refused))
            run(code)
            assert len(host.seen) == 15 + len(refused)
            q.admin.drop()


def test_shopify(url: str, serve: Serve) -> None:
    """Queries ask for more than the bucket holds, and none is throttled. If another program takes
    points, only what was under way is throttled."""
    with serve("shopify", bucket=600, others_at=20, others=400, restore=300) as host:
        code = fitted(SHOPIFY, host, url, **{"2000, 100": "600, 300"})
        with run(code) as q:
            assert len(host.seen) - host.throttled == 60
            assert host.throttled <= 4
            assert all(seen.status == 200 for seen in host.seen)
            q.admin.drop()


def test_crawl(url: str, serve: Serve) -> None:
    """Each page of each host comes once. No host meets two requests at once, or more than its pace.
    Of the pages that are known, those with the shortest paths come first."""
    (code,) = programs("crawl.md")
    hosts, pages, rate = (100 if SOAK else 7), 5, 4
    # A request that is late on its way may come beside those of the next second: rate + 1.
    with serve("web", hosts=hosts, pages=pages, rate=rate + 1, latency=0.3) as host:
        code = fitted(code, host, url, **{"q.set_limit(1, 1,": f"q.set_limit({rate}, 1,"})
        with run(code) as q:
            came: dict[int, list[str]] = {}
            for seen in host.seen:
                assert seen.status == 200
                came.setdefault(seen.request.port, []).append(seen.request.target)
            best = ["/", "/1", "/2/2", "/3/3/3", "/4/4/4/4", "/5/5/5/5/5"]  # linked worst first
            assert came == dict.fromkeys(host.ports, best)
            q.admin.drop()


def test_proxies(url: str, serve: Serve) -> None:
    """Each page comes once, by proxies in turn. One that is away is closed at each host, and costs
    no attempt: nothing is lost."""
    with serve("proxies", proxies=2, rate=5 + 4) as host, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and never listens
        ports = {"8432": str(host.ports[1]), "8433": str(nobody.getsockname()[1])}
        changes = {f":{old}": f":{new}" for old, new in ports.items()} | {"range(20)": "range(12)"}
        code = fitted(PROXIES, host, url, **changes)
        with run(code) as q:
            asked = [seen.request.target for seen in host.seen if seen.status == 200]
            assert len(set(asked)) == len(asked) == len(host.seen) == 24
            by_port = Counter(seen.request.port for seen in host.seen)
            assert min(by_port.values()) > 6
            for group in ("a.example", "b.example"):
                members = {each.name: str(each.reason) for each in q.admin.group(group).members}
                assert [name for name in members if "by hand" in members[name]] == ["proxy-3"]
            assert q.stats().failed == 0
            q.admin.drop()


def test_from_tenacity(url: str, serve: Serve, tmp_path: Path) -> None:
    """A process of the queue that is killed with a page in its hands loses none: another process
    fetches it when its lease ends. No request is refused."""
    _, code = programs("../move/tenacity.md")
    with serve("plain", rate=15 + 2, latency=0.02) as host:
        changes = {"set_limit(10,": "set_limit(15,", "visibility=10": "visibility=1"}
        changes["range(60)"] = "range(24)"
        code = fitted(code, host, url, **changes)
        file = tmp_path / "pages.py"
        file.write_text(code)
        with subprocess.Popen([sys.executable, file], env=ENVIRONMENT) as killed:
            wait_for(lambda: len(host.seen) > 5 and host.running, lambda: host.counts())
            killed.kill()
        with run(code) as q:
            asked = Counter(seen.request.target for seen in host.seen)
            assert sorted(asked) == sorted(f"/{number}" for number in range(24))
            assert sum(asked.values()) <= 25
            assert host.counts() == {"200": sum(asked.values())}
            q.admin.drop()


def test_two_teams(url: str, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both keep to one limit, and while the web team has pages it has three turns of four."""
    monkeypatch.setattr(sys, "argv", ["team.py", "web", "30"])
    with serve("plain", rate=40 + 4) as host:
        code = fitted(TEAMS, host, url, **{"q.set_limit(16,": "q.set_limit(36,"})
        file = tmp_path / "team.py"
        file.write_text(code)
        with subprocess.Popen([sys.executable, file, "crawl", "60"], env=ENVIRONMENT) as crawl:
            wait_for(lambda: len(host.seen) >= 5, lambda: host.counts())
            run(code)
            assert crawl.wait(PATIENCE_S) == 0
        asked = [seen.request.target.split("/")[1] for seen in host.seen]
        assert {seen.status for seen in host.seen} == {200}
        assert Counter(asked) == {"crawl": 60, "web": 30}
        turns = asked[asked.index("web") : len(asked) - asked[::-1].index("web")]
        assert 5 <= turns.count("crawl") <= 20  # ten, more or less
        with DPQ.from_url(url, "api") as q:
            q.admin.drop()
