"""Bounds that hold on the server, whoever calls the scripts."""

import json
from typing import Any

import pytest
from redis.exceptions import ResponseError

from dpq import DPQ
from dpq.protocol.command import same
from dpq.server import Server
from dpq.testing import Clock

LONG = "x" * 201


def call(q: DPQ[Any], script: str, *args: Any) -> Any:
    return q._session.send(q._operations.partitions[0]._ask(script, ["", *args], same))


def spec(group: str = "", key: str = "") -> str:
    names = {name: text for name, text in (("group", group), ("key", key)) if text}
    return json.dumps({"priority": "0", "max_attempts": 3} | names)


def plain(group: str = "", body: bytes = b"1") -> tuple[str, bytes]:
    """The score of a plain task, and its record: what stands behind its place."""
    return "0", f"3 0\t{group}\n".encode() + body


@pytest.mark.parametrize(
    ("wrong", "push"),
    [
        ("id", (LONG, spec(), b"1")),
        ("id", (LONG, *plain())),
        ("group", ("a", *plain(LONG))),
        ("group", ("a", spec(group=LONG), b"1")),
        ("key", ("a", spec(key=LONG), b"1")),
    ],
)
def test_names(q: DPQ[Any], wrong: str, push: tuple[Any, ...]) -> None:
    """A name of more than 200 bytes is refused, and nothing of its batch is stored."""
    q.push("before")
    with pytest.raises(ResponseError, match=f"the {wrong} is too long"):
        call(q, "push", "good", spec(), b"1", *push)
    with pytest.raises(ResponseError, match=f"the {wrong} is too long"):
        call(q, "push", "good", *plain(), *push)
    assert q.size() == 1
    assert not q.check()


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ({"priority": "x"}, "priority is no number"),
        ({"priority": 5}, "priority is no text"),
        ({"priority": None}, "priority is no text"),
        ({"cost": 2}, "cost is no text"),
        ({"member": "a\tb"}, "member has control characters"),
        ({"delay": "5"}, "delay is out of its bounds"),
        ({"delay": -1}, "delay is out of its bounds"),
        ({"every": 0.5}, "every is out of its bounds"),
        ({"max_attempts": 1_000_001}, "max_attempts is out of its bounds"),
        ({"urgent": True}, "urgent is not known"),
        ({"notes": "\x1fx"}, "notes is not known"),
    ],
)
def test_options(q: DPQ[Any], option: dict[str, Any], wrong: str) -> None:
    """A wrong or unknown option is refused, and nothing of its batch is stored."""
    q.push("before")
    options = json.dumps({"priority": "0"} | option)
    with pytest.raises(ResponseError, match=f"the {wrong}"):
        call(q, "push", "good", spec(), b"1", "a", options, b"1")
    assert q.size() == 1
    assert not q.check()


@pytest.mark.parametrize(
    ("score", "body"),
    [
        ("", b"3 0\t\n1"),
        ("x", b"3 0\t\n1"),
        ("0", b""),
        ("0", b"1"),
        ("0", b"3 0\t1"),
        ("0", b" 3 0\n1"),
        ("0", b"+3 0\t\n1"),
        ("0", b"3\t\n1"),
        ("0", b" -3 0\t\n1"),
        ("0", b" 3 2.5\t\n1"),
        ("0", b"3 0\ta\tb\n1"),
        ("0", b" 3 0 \t\n1"),
    ],
)
def test_plain_tasks(q: DPQ[Any], score: str, body: bytes) -> None:
    """What is no plain task is refused, and nothing of its batch is stored."""
    q.push("before")
    with pytest.raises(ResponseError, match="a plain task has no score, or no record"):
        call(q, "push", "good", *plain(), "a", score, body)
    assert q.size() == 1
    assert not q.check()


def test_pushed_by_others(q: DPQ[Any], clock: Clock) -> None:
    """What keeps to the bounds is a task: plain, with a long payload of any bytes, and full."""
    long = b'"' + b"\\n\\t " * 1000 + b'"'
    name = "g" * 200
    q.push("before")
    q.ack(q.pop().task)
    score, body = "-7", f"2 7\t{name}\n".encode() + long
    call(q, "push", "a", score, body, "b", *plain(), "c", spec(name, "k"), long)
    assert not q.check()
    tasks = q.pop_many(9)
    assert [task.id for task in tasks] == ["a", "b", "c"]
    assert (tasks[0].group, tasks[0].priority, tasks[0].max_attempts) == (name, 7, 2)
    assert [task.payload for task in tasks] == ["\n\t " * 1000, 1, "\n\t " * 1000]
    for task in tasks:
        q.fail(task, "no", delay=0)
    assert not q.check()
    q.ack_many(q.pop_many(9))
    assert q.size() == 0


def test_longest_names(q: DPQ[Any]) -> None:
    """200 bytes are a name, everywhere."""
    name = "x" * 200
    q.push(1, group=name, key=name)
    q.set_limit(10, 1, group=name)
    q.delay_group(name, 5)
    assert q.group(name).waiting == 1
    assert not q.check()


def test_payloads(server: Server, q: DPQ[Any]) -> None:
    """More than 64 MiB are no payload."""
    q.push("before")
    with pytest.raises(ResponseError, match="the payload is too long"):
        call(q, "push", "a", spec(), b"1" * (64 * 1024 * 1024 + 1))
    with pytest.raises(ResponseError, match="the payload is too long"):
        call(q, "push", "a", *plain(body=b"1" * (64 * 1024 * 1024 + 1)))
    assert q.size() == 1


def test_groups_and_queues(q: DPQ[Any]) -> None:
    """Neither a limit, nor a closing, nor the registry takes a longer name."""
    for script, args in (
        ("set_limit", ("group:" + LONG, "", "0", "set", "0")),
        ("delay_group", (LONG, 1000)),
    ):
        with pytest.raises(ResponseError, match="too long"):
            call(q, script, *args)
    with pytest.raises(ResponseError, match="too long"):
        q._session.send(q._operations.partitions[0]._ask("register", [LONG], same))
