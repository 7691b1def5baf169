"""Bounds that hold on the server, whoever calls the scripts."""

from typing import Any

import pytest
from redis.exceptions import ResponseError

from dpq import DPQ
from dpq.protocol.command import same
from dpq.server import Server

LONG = "x" * 201


def call(q: DPQ[Any], script: str, *args: Any) -> Any:
    return q._session.send(q._operations.partitions[0]._ask(script, ["", *args], same))


def spec(group: str = "", key: str = "") -> str:
    return f"3 1 0 0 0  k\t{group}\t{key}"


@pytest.mark.parametrize(
    ("wrong", "push"),
    [
        ("id", (LONG, spec(), b"1")),
        ("group", ("a", spec(group=LONG), b"1")),
        ("key", ("a", spec(key=LONG), b"1")),
    ],
)
def test_names(q: DPQ[Any], wrong: str, push: tuple[Any, ...]) -> None:
    """A name of more than 200 bytes is refused, and nothing of its batch is stored."""
    q.push("before")
    with pytest.raises(ResponseError, match=f"the {wrong} is too long"):
        call(q, "push", "good", spec(), b"1", *push)
    assert q.size() == 1
    assert not q.check()


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
