"""What survives what: each cell of the table in docs/durability.md, on a real server.

A power cut cannot be had here. What stands for it: the AOF as it is when a call returns, in a
directory of its own; and a server that never asks its disk (`appendfsync no`).
"""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from kit.nodes import alone
from soak.servers import Node, Pair
from support import has_waitaof, wait_for

from dpq import DPQ, NotConfirmedError
from dpq.script import durability as durability_module
from dpq.server import find_binary

pytestmark = pytest.mark.filterwarnings("ignore:.*keeps nothing on disk")

SOAK = settings.get_current_profile_name() == "soak"
soak = pytest.mark.skipif(not SOAK, reason="make test-all")
waitaof = pytest.mark.skipif(not has_waitaof(find_binary()), reason="no WAITAOF")

AOF = {"appendonly": "yes"}
AOF_POLICIES = ("everysec", "always")
KEPT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "none": ({"appendonly": "no"}, set()),
    "RDB": ({"appendonly": "no", "save": "3600 1000"}, {"before the save"}),
    "AOF everysec": (AOF | {"appendfsync": "everysec"}, {"before the save", "after it"}),
    "AOF always": (AOF | {"appendfsync": "always"}, {"before the save", "after it"}),
}
"""Persistence -> the server's settings, and what is there after its process was killed."""


@pytest.fixture
def place(directory: str) -> Path:
    return Path(directory)


def payloads(node: Node, queue_name: str) -> set[str]:
    with DPQ.from_url(f"unix://{node.socket}", queue_name) as q:
        assert q.check() == []
        return {task.payload for task in q.peek(100)}


@pytest.mark.parametrize("persistence", KEPT)
def test_a_killed_process(place: Path, queue_name: str, persistence: str) -> None:
    """What was acknowledged before a SIGKILL is there after a restart as far as it is written.

    While an `everysec` fsync is under way the server keeps what is to be written, for up to 2 s.
    """
    how, kept = KEPT[persistence]
    with alone(place / "node", **how) as node:
        with DPQ.from_url(f"unix://{node.socket}", queue_name) as q:
            q.push("before the save")
            if how.get("save"):
                node.client.save()
            q.push("after it")
        wait_for(lambda: not node.client.info().get("aof_buffer_length"), node.client.info)
        node.kill()
        node.start()
        assert payloads(node, queue_name) == kept


def payloads_on_the_disk(node: Node, place: Path, queue_name: str) -> set[str]:
    """What a server has that begins with the files of another one, as they are now."""
    with alone(place / "copy", node.binary, **node.settings) as other:
        other.kill()
        shutil.rmtree(other.directory / "appendonlydir")
        shutil.copytree(node.directory / "appendonlydir", other.directory / "appendonlydir")
        other.start()
        return payloads(other, queue_name)


@waitaof
def test_what_no_disk_was_asked_for_is_not_confirmed(
    place: Path, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the server never asks its disk, `async` returns all the same, and `fsync` refuses. When
    it does, at once or each second, `fsync` returns, and the file has the change."""
    with alone(place / "node", appendfsync="no") as node:
        url = f"unix://{node.socket}"
        with DPQ.from_url(url, queue_name) as q:
            q.push("a")
        with DPQ.from_url(url, queue_name, durability="fsync") as q:
            with monkeypatch.context() as patch:
                patch.setattr(durability_module, "CONFIRM_SECONDS", 0.05)
                with pytest.raises(
                    NotConfirmedError, match=r"0 of 1 disk .* a power cut may undo it"
                ):
                    q.push("b")
            for policy in AOF_POLICIES:
                node.client.config_set("appendfsync", policy)
                assert q.push(policy)
        assert payloads_on_the_disk(node, place, queue_name) == {"a", "b", *AOF_POLICIES}


@pytest.mark.parametrize(
    "persistence", [*list(KEPT)[-1:], *(pytest.param(k, marks=soak) for k in list(KEPT)[:-1])]
)
def test_a_failover(
    place: Path, queue_name: str, monkeypatch: pytest.MonkeyPatch, persistence: str
) -> None:
    """A replica that was cut off when it becomes the master has what was confirmed, and no more."""
    with closing(Pair(place, find_binary(), hz=100, **KEPT[persistence][0])) as pair:
        pair.start()
        with (
            DPQ.from_url(pair.url, queue_name) as loose,
            DPQ.from_url(pair.url, queue_name, durability="replica") as durable,
        ):
            durable.push("confirmed")
            loose.push("in time")
            pair.fence()
            pair.replica.client.execute_command("REPLICAOF", "NO", "ONE")  # the failover begins
            monkeypatch.setattr(durability_module, "CONFIRM_SECONDS", 0.05)
            loose.push("acknowledged by who is master no more")
            with pytest.raises(NotConfirmedError, match=r"0 of 1 replica .* a failover may undo"):
                durable.push("not confirmed")
        pair.master.kill()
        assert payloads(pair.replica, queue_name) == {"confirmed", "in time"}
