"""No page of the command line lets stored text steer the terminal, or forge a line of its own."""

import json
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support import steers
from typer.testing import CliRunner

from dpq import DPQ, Task
from dpq.cli import app
from dpq.cli._terminal import show_fault
from dpq.script.keys import key_of

ALL = "\x1b[2J\x1b]0;x\x07\x7f\x9b\u061c\u200e\u200f\u2028\u2029\u202e\u2066\u2069"
"""Clears the screen, sets the title, writes from right to left."""

NAMEABLE = "".join(c for c in ALL if c.isprintable() or ord(c) > 255)
"""What the names of queues, groups and keys may have of it: all but control characters."""

evils = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: text + ALL)


def plant(q: DPQ, evil: str) -> Task:
    """Tasks of every state, and all else that pages show, with a text in each place it may be."""
    group, key = f"group{NAMEABLE}", f"key{NAMEABLE}"
    q.push({evil: evil}, key=f"{key}1", delay=100)
    q.push(evil, group=f"{group}2", priority=9)
    task = q.pop().task
    assert task
    q.fail(task, evil, delay=50)
    q.push(evil, priority=8)
    held = q.pop().task
    assert held
    q.bury(held, evil)
    q.push(evil, group=group)
    q.push(evil, group=group)
    q.delay_group(group, 100)
    q.set_limit(1, 1, group=group)
    q._session.run(q._operations.beat, f"id{NAMEABLE}", evil, evil, 1, "0.1", 0, 1, 1.0)
    # What somebody has written into Redis needs no rules at all
    q.redis.hset(key_of(q.queue_name, "keys"), evil.encode(), evil.encode())
    q.redis.zadd(key_of(q.queue_name, "delayed"), {f"nobody{evil}".encode(): 4e12})
    return task


@given(evils)
@settings(max_examples=1, deadline=None, phases=[Phase.explicit, Phase.generate])
@pytest.mark.parametrize("terminal", [False, True])
def test_no_page_steers_the_terminal(url: str, terminal: bool, evil: str) -> None:
    """Every page, error and line of a log; JSON is exact in a pipe, and safe at a terminal."""
    with DPQ.from_url(url, f"pages{NAMEABLE}") as q:
        try:
            task = plant(q, evil)
            look_at_all_pages(url, q, task.id, evil, terminal)
        finally:
            q.admin.drop()


def look_at_all_pages(url: str, q: DPQ, task_id: str, evil: str, terminal: bool) -> None:
    states = ("ready", "delayed", "waiting", "dead")
    pages: list[tuple[str, ...]] = [
        *(("peek", "--state", state, *json) for state in states for json in ((), ("--json",))),
        *(("doctor", *json) for json in ((), ("--json",))),
        *(("get", task_id), ("get", evil), ("why", task_id), ("why", evil), ("stats",)),
        *(("queues",), ("workers",), ("workers", "--json"), ("dead", "list"), ("limit", "list")),
        *(("limit", "list", "--group", f"group{NAMEABLE}"), ("-v", "task", "cancel", evil)),
    ]
    for words in pages if not terminal else [page for page in pages if "--json" in page]:
        with mock.patch("dpq.cli._terminal.at_terminal", return_value=terminal):
            done = CliRunner().invoke(app, ["--url", url, "--queue", q.queue_name, *words])
        assert done.exit_code in (0, 1, 2), (words, done.stderr, done.exception)
        told = done.stderr
        if "--json" in words or words == ("get", task_id):
            assert all(json.loads(line) is not None for line in done.stdout.split("\n") if line)
            told += done.stdout if terminal else ""
        else:
            told += done.stdout
        assert not steers(told.replace("\n", "").replace("\t", "")), words
    found = CliRunner().invoke(app, ["--url", url, "--queue", q.queue_name, "get", task_id])
    assert json.loads(found.stdout)["payload"] == evil


def test_a_fault_of_its_own_is_shown_without_what_steers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An error that nobody has expected ends the program with a traceback that is safe, too."""
    show_fault(RuntimeError, RuntimeError(ALL), None)
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert not steers(said.replace("\n", ""))
