"""`dpq doctor --quick`, `--health-port`, `--log json`, leases, and giving many of them back."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, wait_for
from typer.testing import Result

from dpq import DPQ
from dpq.verbs.workers import Doing

pytestmark = pytest.mark.usefixtures("clean_environment")

Run = Callable[..., Result]

MODULE = """
import time
from pathlib import Path
from dpq import RateLimited, Reject

def until_told(task):
    Path(f"begun {task.payload}").touch()
    while not Path("go").exists():
        time.sleep(0.005)

async def bad(task):
    if task.payload == 1:
        raise Reject("no\\n2026-01-01 INFO forged\\u2028 {}")
    if task.payload == 2:
        raise ValueError("a\\nb\\x1b[2J")
"""


def beat(q: DPQ, worker: str, *tasks: Any, host: str = "elsewhere", more: int = 0) -> None:
    """Tells of a worker that holds tasks, and more of which nobody knows."""
    held = [(task.id, task.token) for task in tasks]
    doing = Doing([*held, *((f"id{n}", 9 * 10**15 + n) for n in range(more))], 5000, "hangs")
    q._session.run(q._operations.beat, worker, worker, host, 77, "0.1", 1, 8, 4.0, doing)


# dpq doctor --quick


def test_a_server_that_answers(run: Run, name: str) -> None:
    """Without questions, a server that answers is healthy: one short line."""
    said = run("doctor", "--quick").stdout
    assert re.fullmatch(r"ok\tserver\t-\tanswers in [\d.]+ ms\n", said)
    [check] = [json.loads(line) for line in run("doctor", "--quick", "--json").stdout.splitlines()]
    assert (check["check"], check["queue"], check["ok"]) == ("server", None, True)


def test_a_server_that_is_away(run: Run) -> None:
    """It is unhealthy, and the line says why, without the password."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    said = run("doctor", "--quick", code=1, at=f"redis://:secret@127.0.0.1:{port}/0").stdout
    assert said.startswith("failed\tserver\t-\tserver away: the server has not answered since ")
    assert "secret" not in said


def test_a_worker_of_this_host(run: Run, q: DPQ) -> None:
    """Only a young heartbeat from this host counts, or from the host that is named."""
    beat(q, "far")
    said = run("doctor", "--quick", "--worker", 30, code=1).stdout
    assert f"no heartbeat of a worker on {socket.gethostname()}" in said
    run("doctor", "--quick", "--worker", 30, "--host", "elsewhere")
    beat(q, "near", host=socket.gethostname())
    assert "heartbeat of near" in run("doctor", "--quick", "--worker", 30).stdout
    assert "failed\tworker" in run("doctor", "--quick", "--worker", 0, code=1).stdout


# Leases


def test_leases(run: Run, q: DPQ) -> None:
    """Who holds what since when, as a table or as JSON."""
    q.push("x", group="g\u2028")
    assert "no such task is running" in run("workers", "--leases").stderr
    q.push("y")
    a, b = q.pop_many(2)
    beat(q, "bee", a)
    look = ("workers", "--leases")
    found = [json.loads(line) for line in run(*look, "--json").stdout.split("\n")[:-1]]
    assert {each["id"]: each["worker"] for each in found} == {a.id: "bee", b.id: None}
    assert all(each["held_seconds"] >= 0 for each in found)
    shown = run(*look).stdout
    assert a.id in shown
    assert r"g\u2028" in shown
    assert json.loads(run(*look, "--worker", "bee", "--json").stdout)["id"] == a.id
    assert run(*look, "--older-than", 1000, "--json").stdout == ""
    assert "perhaps more" in run(*look, "-n", 1).stderr


def test_workers_show_what_hangs(run: Run, q: DPQ, url: str) -> None:
    """The longest running handler, its time and its task stand beside the worker."""
    q.push("x")
    beat(q, "bee", q.pop().task)
    row = json.loads(run("workers", "--json").stdout)
    assert (row["holds"], row["longest_seconds"], row["longest_task"]) == (1, 5.0, "hangs")
    assert "5 s hangs" in run("workers").stdout


def test_release_of_many(run: Run, q: DPQ) -> None:
    """By worker, by age, or all: uncounted, after `--yes`."""
    for n in range(30):
        q.push(n)
    tasks = q.pop_many(30)
    beat(q, "bee", *tasks[:15])
    refused = run("admin", "bulk", "release", "--worker", "bee", code=2)
    assert "to give back 15 running tasks of" in " ".join(refused.stderr.split())
    assert q.stats().invisible == 30
    done = run("admin", "bulk", "release", "--worker", "bee", "--yes")
    assert done.stdout == "15\n"
    assert "gave back 15; 0 had ended meanwhile" in done.stderr
    assert q.stats().invisible == 15
    nothing = run("admin", "bulk", "release", "--held-for", 1000, "--yes").stderr
    assert "nothing to give back" in nothing
    assert run("admin", "bulk", "release").stdout == "15\n"
    assert (q.stats().invisible, q.stats().ready, q.stats().failed) == (0, 30, 0)
    assert {task.attempt for task in q.pop_many(30)} == {1}


# The endpoint, and JSON, of real processes


@pytest.fixture
def started(url: str, name: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts `dpq ...` with an endpoint: the process, its address, its log lines so far."""
    (tmp_path / "shop.py").write_text(MODULE)
    processes: list[subprocess.Popen[str]] = []
    readers: list[threading.Thread] = []
    where = {**os.environ, "DPQ_URL": url, "DPQ_QUEUES": name, "PYTHONDONTWRITEBYTECODE": "1"}

    def begin(*words: object, **more: str) -> Any:
        command = [sys.executable, "-m", "dpq", *map(str, words), "--log=json", "--health-port=0"]
        process = subprocess.Popen(
            command, cwd=tmp_path, env=where | more, stderr=subprocess.PIPE, text=True
        )
        processes.append(process)
        said: list[str] = []

        def read() -> None:
            said.extend(process.stderr or ())

        readers.append(threading.Thread(target=read))
        readers[-1].start()
        wait_for(lambda: any("health_begins" in line for line in said), lambda: said)
        [line] = [line for line in said if "health_begins" in line]
        return process, re.findall(r"http://([\d.]+:\d+)/", line)[0], said

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
    for reader, process in zip(readers, processes, strict=True):
        reader.join()  # to the end of the last process that writes there
        process.communicate()


def ask(address: str, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_endpoint_of_a_worker(started: Any, q: DPQ, tmp_path: Path) -> None:
    """Ready once it works; not ready, and live, while it drains; all that it says is JSON."""
    q.push("a")
    process, address, said = started("worker", "shop:until_told")
    assert address.startswith("127.0.0.1:")
    wait_for(lambda: ask(address, "ready")[0] == 200, lambda: (ask(address, "ready"), said))
    assert ask(address, "live") == (200, {"live": True, "ready": True, "reasons": []})
    wait_for((tmp_path / "begun a").exists, lambda: said)
    process.send_signal(signal.SIGTERM)
    wait_for(lambda: ask(address, "ready")[0] == 503, lambda: said)
    assert "it is stopping" in ask(address, "ready")[1]["reasons"]
    assert ask(address, "live")[0] == 200
    (tmp_path / "go").touch()
    assert process.wait(PATIENCE_S) == 0
    told = {"worker_begins", "worker_stopping", "worker_ended"}
    wait_for(lambda: told <= {json.loads(line).get("event") for line in said}, lambda: said)


def test_the_endpoint_of_a_scheduler(started: Any, url: str, q: DPQ) -> None:
    """Ready once a server has answered, with metrics beside; and then it ends as it is told."""
    process, address, said = started("admin", "scheduler", "--metrics-port", "0")
    wait_for(lambda: ask(address, "ready")[0] == 200, lambda: (ask(address, "ready"), said))
    [at] = re.findall(r"http://[\d.]+:\d+/metrics", "".join(said))
    with urllib.request.urlopen(at, timeout=PATIENCE_S) as answer:  # noqa: S310
        assert b"dpq_tasks" in answer.read()
    assert ask(address, "live")[0] == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    wait_for(lambda: any("scheduler_ended" in line for line in said), lambda: said)
    assert all(json.loads(line)["level"] for line in said)
