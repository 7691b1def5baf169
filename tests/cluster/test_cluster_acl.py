"""The users of docs/security.md need some commands more on a cluster: docs/operations.md."""

import re
from pathlib import Path

import pytest
from redis import RedisCluster
from redis.exceptions import RedisClusterException, ResponseError
from roles import ROLES, Stage, words_of
from topology import Cluster

import dpq
from dpq.link.connections import load_scripts

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
        stage.owner().admin.drop()
    for without in MORE[:2] if not cluster.binary.version.startswith("6.") else ():
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", role, without.replace("+", "-"))
        with pytest.raises((ResponseError, RedisClusterException)):
            cluster.client(username=role, password=PASSWORD)
        for node in cluster.nodes:
            node.ask("ACL", "SETUSER", role, without)
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", role)
