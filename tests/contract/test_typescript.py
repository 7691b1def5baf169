"""The client in TypeScript: it passes the conformance vectors, and works beside DPQ.

The tests need node and the packages of the client: `make typescript` installs them, and runs these
tests. Elsewhere they are skipped.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from dpq import DPQ
from dpq.server import Server

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
COMPILER = CLIENT / "node_modules" / ".bin" / "tsc"

NODE = shutil.which("node") or ""

Node = Callable[..., "subprocess.CompletedProcess[str]"]

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
def node(built: Path, first_server: Server) -> Node:
    """Runs a compiled program, or the tests, against the server."""

    def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [NODE, *words],
            cwd=built / "dist" / "test",
            env={**os.environ, "DPQ_TEST_URL": first_server.url, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_it_passes_the_vectors(node, tmp_path):
    """It sends the commands of the vectors, and reads their replies; a wrong vector is seen."""
    there = CLIENT.parent / "vectors"
    tests = ("--test", "--test-reporter=tap", "vectors.test.js", "scripts.test.js")
    done = node(*tests, DPQ_VECTORS=str(there))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    wrong = (there / "extend.json").read_text("utf-8")
    for old, new in {
        '"until_ms": 1700000061000': '"until_ms": 1700000061001',  # a result
        '"at_ms": 1700000030001': '"at_ms": 1700000030002',  # an argument
        '"reply": [-13]': '"reply": [-1]',  # a reply
    }.items():
        assert wrong.count(old) == 1
        wrong = wrong.replace(old, new)
    (tmp_path / "extend.json").write_text(wrong, "utf-8")
    done = node(*tests[:-1], DPQ_VECTORS=str(tmp_path))
    failed = re.findall(r"^not ok \d+ - extend.json: (.*)$", done.stdout, re.MULTILINE)
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
        done = node("cross.js", queue_name)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)

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
