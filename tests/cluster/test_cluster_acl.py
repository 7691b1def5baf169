"""The users of docs/security.md need some commands more on a cluster: docs/operations.md."""

import asyncio
import re
from pathlib import Path

import pytest
from redis import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError
from roles import ROLES, Stage, words_of
from topology import Cluster

import dpq
from dpq import DPQ, AsyncDPQ
from dpq.transport.script_loading import load_scripts, scripts_there

DOCS = Path(dpq.__file__).parents[1] / "docs"
PASSWORD = "PASSWORD"  # noqa: S105 - a test's

MORE = re.findall(
    r"\+[a-z|]+",
    re.search(
        r"need `(.*?)`", (DOCS / "operations.md").read_text(encoding="utf-8").split("### Rights")[1]
    )[1],
)


@pytest.mark.parametrize("role", ["dpq-producer", "dpq-consumer"])
def test_enough(cluster: Cluster, client: RedisCluster, names: list[str], role: str) -> None:
    """With them a role can do on a cluster what it does elsewhere."""
    home = client.get_default_node()
    name = next(name for name in names if cluster.master_of(name).port == home.port)
    for node in cluster.nodes:
        words = [*words_of(role, name, cluster.binary.version), *MORE]
        node.ask("ACL", "SETUSER", role, "reset", "on", f">{PASSWORD}", *words)
    load_scripts(client)
    with cluster.client(username=role, password=PASSWORD) as user:
        stage = Stage(
            user, client, name, f"redis+cluster://{role}:{PASSWORD}@127.0.0.1:{home.port}"
        )
        ROLES[role](stage)
        stage.owner().drop()
    for without in MORE[:2] if not cluster.binary.version.startswith("6.") else ():
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", role, without.replace("+", "-"))
        with pytest.raises((ResponseError, RedisClusterException)):
            cluster.client(username=role, password=PASSWORD)
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", role, without)
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", role)


@pytest.mark.parametrize("shell", ["threads", "asyncio"])
def test_who_may_load_the_scripts(
    cluster: Cluster, client: RedisCluster, names: list[str], shell: str
) -> None:
    """A user without EVAL loads them into all masters when one of them does not know them."""
    words = [*words_of("dpq-producer", names[0], cluster.binary.version), *MORE, "+script|load"]
    for node in cluster.nodes:
        node.ask("ACL", "SETUSER", "loads", "reset", "on", f">{PASSWORD}", *words)
        node.ask("SCRIPT", "FLUSH")
    port = client.get_default_node().port
    url = f"redis+cluster://loads:{PASSWORD}@127.0.0.1:{port}"

    async def push() -> None:
        async with AsyncDPQ.from_url(url, names[0]) as q:
            await q.push(1)

    if shell == "asyncio":
        asyncio.run(push())
    else:
        with DPQ.from_url(url, names[0]) as q:
            q.push(1)
    assert scripts_there(client)
    with DPQ(client, names[0]) as owner:
        assert owner.size() == 1
        owner.drop()
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "loads")
