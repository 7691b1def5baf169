"""A real Prometheus scrapes a real `dpq metrics`, and answers each query of `deploy/`.

Where `prometheus` is missing, this test is skipped, and says so. Grafana itself is tested nowhere:
its dashboard is JSON, whose queries are asked here.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from hypothesis import settings
from support import wait_for

import dpq
from dpq import DPQ, Push, RateLimit
from dpq.operations.workers import Doing
from dpq.server import Server

SOAK = settings.get_current_profile_name() == "soak"
DEPLOY = Path(dpq.__file__).parents[1] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((DEPLOY / "grafana" / "dpq.json").read_text())


@contextmanager
def program(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is ended with the block."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str], pattern: str) -> str:
    """The first line of its log that has the pattern, or the part in brackets."""
    seen = []
    for line in process.stderr or ():
        seen.append(line)
        if found := re.search(pattern, line):
            return found[found.lastindex or 0]
    raise AssertionError("".join(seen))


def fill(queue: DPQ[Any]) -> None:
    """Give a queue something of all that is told."""
    queue.set_limit([RateLimit(5, 60), RateLimit(100, 3600)], group="g")
    queue.set_limit(60, 60, burst=9, group="pool", members=["k1", "k2"])
    queue.push_many([Push(n, group=("g", "pool", None)[n % 3], max_attempts=1) for n in range(9)])
    first, second, third, *_ = queue.pop_many(5)
    queue.ack(first)
    queue.fail(second, "no")
    queue.rate_limited(third, 600)
    queue.delay_group("closed", 600)
    queue.push("x", group="closed")
    doing = Doing([], 1500, "id-of-a-task")
    queue._session.run(queue._operations.beat, "id", "the bee", "host", 7, 1, 8, 4.0, doing)


Ask = Callable[..., Any]
"""Asks a Prometheus: a path of its API, and the words of the query."""


@contextmanager
def prometheus(target: str, folder: Path, work: Callable[[], object]) -> Iterator[Ask]:
    """A Prometheus that has scraped a target some times, with the rules of `deploy/`.

    The work is done between two scrapes.
    """
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(DEPLOY / "prometheus" / "alerts.yml")],
        "scrape_configs": [{"job_name": "dpq", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]

    def ask(path: str, **query: str) -> Any:
        url = f"http://{address}/api/v1/{path}?{urlencode(query)}"
        with urlopen(url, timeout=60) as said:
            return json.load(said)["data"]

    def scraped(times: int) -> None:
        query = f"count_over_time(dpq_up[1h]) >= {times}"
        wait_for(lambda: ask("query", query=query)["result"], lambda: ask("targets"))

    with program("prometheus", *words, f"--web.listen-address={address}") as process:
        line_of(process, "Server is ready")
        scraped(1)
        work()
        scraped(4)
        yield ask


def silent(ask: Ask, queries: Iterable[str]) -> list[str]:
    """The queries that are answered by no sample, with all servers and queues chosen."""
    chosen = {each: re.sub(r"\$(server|queue)\b", ".*", each) for each in queries}
    asked = {
        each: ask("query", query=query.replace("$__rate_interval", "1m"))["result"]
        for each, query in chosen.items()
    }
    return [each for each, samples in asked.items() if not samples]


@pytest.mark.skipif(
    not (SOAK and shutil.which("prometheus")),
    reason="with a prometheus on the PATH: pytest --hypothesis-profile soak "
    "tests/daemon/test_prometheus.py",
)
def test_each_query_is_answered(first_server: Server, tmp_path: Path) -> None:
    """Each panel and variable of the dashboard has samples, and so has each series of a rule."""
    full, done = (DPQ.from_url(first_server.url, f"seen-by-prometheus-{n}") for n in (1, 2))
    fill(full)

    def work() -> None:
        done.push("x")
        done.ack(done.pop().task)

    work()
    words = ["admin", "metrics", "--listen", "127.0.0.1:0"]
    words += [f"--queue={each.queue_name}" for each in (full, done)]
    words += ["--url", first_server.url, "--server-name", "prod"]
    with program(sys.executable, "-m", "dpq", *words) as told:
        target = line_of(told, r"http://(127\.0\.0\.1:\d+)/metrics")
        with prometheus(target, tmp_path, work) as ask:
            panels = [each["expr"] for panel in BOARD["panels"] for each in panel["targets"]]
            variables = [each.get("query", "") for each in BOARD["templating"]["list"]]
            found = [re.findall(r"label_values\((.*), \w+\)", each) for each in variables]
            assert silent(ask, [*panels, *chain(*found)]) == []
            rules = chain(*(re.findall(r"\bdpq_\w+", rule["expr"]) for rule in RULES))
            assert silent(ask, set(rules)) == []
            [group] = ask("rules")["groups"]
            assert {(rule["name"], rule["health"]) for rule in group["rules"]} == {
                (rule["alert"], "ok") for rule in RULES
            }
            assert ask("label/server/values") == ["prod"]
    for queue in (full, done):
        queue.drop()
        queue.close()
