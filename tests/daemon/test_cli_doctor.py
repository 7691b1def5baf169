"""`dpq doctor`: what it finds and explains, and how it ends."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis
from typer.testing import Result

from dpq import DPQ
from dpq.script.keys import key_of
from dpq.server import Server

Run = Callable[..., Result]


@pytest.fixture
def elsewhere(private: Server, tmp_path: Path) -> Path:
    """Another way to the server's socket: beside it, nothing says that it is a private one."""
    link = tmp_path / "s.sock"
    link.symlink_to(Path(private.directory) / "server.sock")
    return link


def attend(q: DPQ) -> None:
    """Let a worker send a heartbeat, so that the queue has a consumer."""
    q._session.run(q._operations.beat, "w", "name", "host", 1, "0.1", 0, 2, 4.0)


def test_sound(run: Run, q: DPQ) -> None:
    """A sound queue is 0, and silence on stdout."""
    q.push(1)
    attend(q)
    for words in (["doctor"], ["doctor", "--json"]):
        result = run(*words)
        assert result.stdout == ""
        assert "no problems in" in result.stderr


def test_finds_and_explains(run: Run, q: DPQ) -> None:
    """Damage is 1, with a sentence and the way out; nothing has changed."""
    task_id = q.push({"a": 1})
    q.redis.delete(key_of(q.queue_name, "ready"))
    found = run("doctor", code=1)
    assert f"problem: in 0 states {task_id}" in found.stdout
    assert f"Stored data do not fit together: in 0 states: {task_id}" in found.stdout
    assert "Export the queue, drop it and import the file" in found.stdout
    assert run("doctor", code=1).stdout == found.stdout


def test_json(run: Run, q: DPQ) -> None:
    """With --json each problem is one object, with its meaning."""
    task_id = q.push("x" * 600)
    q.push("y", delay=60)  # with dead letters alone, the queue would need a person
    attend(q)
    q.redis.hdel(key_of(q.queue_name, "payload"), task_id)
    [line] = run("doctor", "--json", code=1).stdout.splitlines()
    told = json.loads(line)
    assert (told["kind"], told["subject"]) == ("no payload", task_id)
    assert told["meaning"].startswith(f"Stored data do not fit together: no payload: {task_id}")
    assert "Export the queue, drop it and import the file" in told["way_out"]


def test_the_server(run: Run, private: Server, elsewhere: Path) -> None:
    """What endangers tasks on the server is told with its fix, and is 1."""
    with Redis.from_url(private.url) as redis:
        redis.config_set("maxmemory-policy", "allkeys-lru")
        try:
            result = run("doctor", at=f"unix://{elsewhere}", code=1)
            assert "problem: eviction allkeys-lru" in result.stdout
            assert "maxmemory-policy noeviction" in result.stdout
            assert "problem: no persistence" in result.stdout
            assert "2 problems" in result.stderr
            assert "warning" not in result.stderr
        finally:
            redis.config_set("maxmemory-policy", "noeviction")


def test_daemons_warn_of_the_server_and_other_commands_do_not(
    run: Run, q: DPQ, elsewhere: Path
) -> None:
    """A command that looks, pushes or pops says nothing of it; a daemon does once, at its start."""
    for words in (["push", "1"], ["stats"], ["pop"]):
        assert "warning" not in run(*words, at=f"unix://{elsewhere}").stderr
    dpq = [sys.executable, "-m", "dpq", "--url", f"unix://{elsewhere}", "admin", "scheduler"]
    with subprocess.Popen(dpq, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        warned = f"{elsewhere}: The server keeps nothing on disk"
        assert any(line.startswith("warning: ") and warned in line for line in process.stderr)
        process.terminate()
        assert warned not in process.communicate(timeout=60)[1]


def test_it_shows_how_far_it_is(run: Run, q: DPQ, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of many tasks takes seconds; meanwhile it counts what it has looked at."""
    monkeypatch.setattr("dpq.cli._progress.LINE_SECONDS", 0)
    q.push(1)
    attend(q)
    assert "checked 200 entries" in run("doctor").stderr
