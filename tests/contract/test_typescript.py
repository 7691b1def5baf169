"""The client in TypeScript: it passes the conformance vectors, and works beside DPQ.

The tests need node and the packages of the client: `make typescript` installs them, and runs these
tests. Elsewhere they are skipped.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from support import wait_for

from dpq import DPQ
from dpq.protocol.keys import key_of
from dpq.server import Server

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
COMPILER = CLIENT / "node_modules" / ".bin" / "tsc"

NODE = shutil.which("node") or ""

Process = subprocess.Popen[str]
Node = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(
    not (NODE and COMPILER.exists() and (CLIENT / "node_modules/redis").exists()),
    reason="no node here, or no packages of clients/typescript: `make typescript` installs them",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled client, its tests and the program of its README, in a folder of their own."""
    folder: Path = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(CLIENT / "node_modules")
    for name in ("src", "test"):
        shutil.copytree(CLIENT / name, folder / name)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(CLIENT / name, folder)
    (block,) = re.findall(r"```ts\n(.*?)```", (CLIENT / "README.md").read_text("utf-8"), re.DOTALL)
    (folder / "test" / "readme.ts").write_text(block, "utf-8")
    done = subprocess.run([COMPILER], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture
def start_node(built: Path, first_server: Server) -> Iterator[Callable[..., Process]]:
    """Starts compiled programs or tests against the server, and kills what is left at the end."""
    with contextlib.ExitStack() as stack:

        def start(*words: str, **variables: str) -> Process:
            process = subprocess.Popen(
                [NODE, *words],
                cwd=built / "dist" / "test",
                env={**os.environ, "DPQ_TEST_URL": first_server.url, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def node(start_node: Callable[..., Process]) -> Node:
    """Runs such a program to its end; returns its code, its output and its errors."""

    def run(*words: str, **variables: str) -> tuple[int, str, str]:
        process = start_node(*words, **variables)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    return run


def test_it_passes_the_vectors(node, tmp_path):
    """It sends the commands of the vectors, and reads their replies; a wrong vector is seen."""
    there = CLIENT.parent / "vectors"
    tests = ("--test", "--test-reporter=tap", "vectors.test.js", "scripts.test.js")
    code, out, err = node(*tests, DPQ_VECTORS=str(there))
    assert code == 0, out[out.find("not ok") :][:3000] + err
    wrong = (there / "extend.json").read_text("utf-8")
    for old, new in {
        '"until_ms": 1700000061000': '"until_ms": 1700000061001',  # a result
        '"at_ms": 1700000030001': '"at_ms": 1700000030002',  # an argument
        '"reply": [-13]': '"reply": [-1]',  # a reply
    }.items():
        assert wrong.count(old) == 1
        wrong = wrong.replace(old, new)
    (tmp_path / "extend.json").write_text(wrong, "utf-8")
    _, out, _ = node(*tests[:-1], DPQ_VECTORS=str(tmp_path))
    failed = re.findall(r"^not ok \d+ - extend.json: (.*)$", out, re.MULTILINE)
    assert failed == [
        "a lease ends later",
        "a lease that ran out is held again",
        "it was cancelled",
    ]


def test_both_clients_work_on_one_queue(node, first_server, queue_name):
    """What Python pushes, the client pops and ends; what the client pushes, Python pops, under the
    limits that Python has set.
    """
    with Redis.from_url(first_server.url) as redis, DPQ(redis, queue_name, backoff=[0]) as q:
        q.set_limit(1, 3600, group="b")
        text = "grüße 🎉"
        q.push({"do": "ack", "text": text}, 2**53 + 1)
        fails = q.push({"do": "fail", "text": text}, 2**53, max_attempts=3)
        q.push({"do": "limit", "text": text}, 0.25, group="a")
        behind = q.push({"do": "limit", "text": text}, group="a")
        code, out, err = node("cross.js", queue_name)
        assert code == 0, err
        told = json.loads(out)

        common = {"group": None, "attempt": 1, "lastError": None, "text": text}
        failing = common | {"priority": str(2**53), "do": "fail"}
        assert told["seen"] == [
            common | {"priority": str(2**53 + 1), "do": "ack"},
            {"again": False},
            failing,
            {"stale": True},
            failing | {"attempt": 2, "lastError": "Error: no route: ü"},
            common | {"priority": "0.25", "group": "a", "do": "limit"},
        ]
        assert told["same"]
        running = q.get(fails)
        assert running is not None
        assert running.state == "invisible"
        q.cancel(fails)
        assert "group 'a' is closed" in q.why(behind)
        assert q.stats().rate_limited_503 == 1

        popped = q.pop_many(10)
        assert [(task.priority, task.group, task.cost) for task in popped] == [
            (2**62 + 1, "b", 1),
            (0.5, None, 1),
        ]
        assert popped[0].id == told["first"]
        assert popped[1].costs == {"tokens": 7}
        assert popped[1].payload == {"do": "ack", "text": "日本 🎉"}
        assert q.ack_many(popped) == [True, True]
        stats = q.stats()
        assert (stats.waiting, stats.delayed, stats.pushed) == (3, 1, 8)
        assert q.check() == []
        q.drop()


def test_a_waiting_pop_is_called(start_node, first_server, queue_name):
    """A pop that waits gets a task that Python pushes, by a marker, and then one that is due."""
    with Redis.from_url(first_server.url) as redis, DPQ(redis, queue_name) as q:
        q.cancel(q.push("to make the queue"))
        redis.delete(key_of(queue_name, "wake"))  # the marker of that push
        process = start_node("wait.js", queue_name)
        wait_for(lambda: redis.hget(key_of(queue_name, "conf"), "asked"), process.poll)
        q.push("now")
        q.push("later", delay=0.3)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        told = json.loads(out)
        assert told["found"] == ["now", "later"]
        assert told["markers"][0] == "w"
        assert q.check() == []
        q.drop()
