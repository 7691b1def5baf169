"""Real clusters and Sentinel groups of throw-away servers, for tests that kill and stop them.

Each node is a `dpq.server.Server` with a port on 127.0.0.1, so none outlives the process that has
started it. Ports lie below those that the kernel gives to clients, with room for the bus (+ 10000).
"""

import contextlib
import os
import random
import signal
import socket
from typing import Any

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError
from redis.retry import Retry
from support import wait_for

from dpq.errors import ConfigurationError
from dpq.server import Binary, Server

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
"""How long the nodes of a cluster wait for a silent one."""

DOWN_AFTER_MS = 500
"""How long a Sentinel does."""

BUS = 10_000
"""The nodes of a cluster talk with each other at their port + this."""

SERVICE = "tasks"


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Node:
    """One server with a port: to be killed, stopped, and let go on."""

    def __init__(self, binary: Binary | None, *options: str) -> None:
        self.port, self.server = self._start(binary, options)
        self.pid = self.server.pid
        self.stopped = False
        self.redis = Redis(
            port=self.port, socket_timeout=5, retry=Retry(NoBackoff(), 0), decode_responses=True
        )

    @staticmethod
    def _start(binary: Binary | None, options: tuple[str, ...]) -> tuple[int, Server]:
        for _ in range(20):
            port = random.randrange(10_100, 22_000)
            if _free(port) and _free(port + BUS):
                with contextlib.suppress(ConfigurationError):  # somebody else was quicker
                    listen = ("--port", str(port), "--bind", "127.0.0.1")
                    return port, Server.start(binary, extra_args=[*listen, *options])
        raise AssertionError("no server starts on any port")

    def __repr__(self) -> str:
        return f"Node({self.port})"

    def ask(self, *words: Any) -> Any:
        return self.redis.execute_command(*words)

    def replication(self) -> dict[str, Any]:
        return self.redis.info("replication")

    def kill(self) -> None:
        """SIGKILL: it is gone for good, with all that it knew."""
        self.redis.close()
        self.stopped = False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.server.close()

    def stop(self) -> None:
        """SIGSTOP: to all others it is behind a partition."""
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped = True

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.stopped = False


class Cluster:
    """Masters, with one replica each; `nodes` has those that were not killed."""

    def __init__(self, binary: Binary | None = None, masters: int = 3) -> None:
        self.binary = binary
        self.nodes: list[Node] = []
        try:
            for number in range(2 * masters):
                self._add().ask("CLUSTER SET-CONFIG-EPOCH", number + 1)
            for number, node in enumerate(self.nodes[:masters]):
                begin, end = SLOTS * number // masters, SLOTS * (number + 1) // masters
                node.ask("CLUSTER ADDSLOTS", *range(begin, end))
            for node in self.nodes[1:]:
                node.ask("CLUSTER MEET", "127.0.0.1", self.nodes[0].port)
            for master, replica in zip(self.nodes[:masters], self.nodes[masters:], strict=True):
                self._follow(replica, master)
            self.settle()
        except BaseException:
            self.close()
            raise

    def _add(self) -> Node:
        node = Node(
            self.binary,
            *("--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
            *("--repl-diskless-sync-delay", "0", "--cluster-replica-validity-factor", "0"),
        )
        self.nodes.append(node)
        return node

    def _follow(self, replica: Node, master: Node) -> None:
        wanted = master.ask("CLUSTER MYID")
        wait_for(lambda: wanted in str(replica.ask("CLUSTER NODES")), self.seen)
        replica.ask("CLUSTER REPLICATE", wanted)

    @property
    def url(self) -> str:
        """Names two nodes: the others are to be found."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[-2:])

    def client(self, **settings: Any) -> RedisCluster:
        return RedisCluster(host="127.0.0.1", port=self.nodes[0].port, **settings)

    def master_of(self, queue_name: str) -> Node:
        """The node that holds a queue."""
        slot = key_slot(queue_name.encode())
        for begin, end, master, *_ in self._alive()[0].ask("CLUSTER SLOTS"):
            if begin <= slot <= end:
                return next(node for node in self.nodes if node.port == master[1])
        raise AssertionError(f"slot {slot}: {self.seen()}")

    def name_on(self, node: Node, prefix: str) -> str:
        """A queue name that this node holds."""
        names = (f"{prefix}-{number}" for number in range(1000))
        return next(name for name in names if self.master_of(name) is node)

    def kill(self, node: Node) -> None:
        node.kill()
        self.nodes.remove(node)

    def heal(self) -> None:
        """Give every master a replica again, and wait until all is well."""
        for node in self.nodes:
            if node.stopped:
                node.go_on()
        self.settle()
        for node in list(self.nodes):
            told = node.replication()
            if told["role"] == "master" and told["connected_slaves"] == 0:
                replica = self._add()
                replica.ask("CLUSTER MEET", "127.0.0.1", node.port)
                self._follow(replica, node)
        self.settle()

    def settle(self) -> None:
        """Wait until all nodes see one whole cluster, and every replica follows its master."""
        wait_for(self._settled, self.seen)

    def _settled(self) -> bool:
        views = set()
        try:
            for node in self._alive():
                if node.ask("CLUSTER INFO")["cluster_state"] != "ok":
                    return False
                told = node.replication()
                if told["role"] == "slave" and told["master_link_status"] != "up":
                    return False
                slots = node.ask("CLUSTER SLOTS")
                views.add(str(sorted((begin, end, master[1]) for begin, end, master, *_ in slots)))
        except RedisError:
            return False
        return len(views) == 1

    def _alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.stopped]

    def seen(self) -> str:
        return _seen(self._alive(), "CLUSTER NODES")

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        self.nodes.clear()


class Sentinels:
    """A master, two replicas and three Sentinels."""

    def __init__(self, binary: Binary | None = None) -> None:
        self.binary = binary
        self.nodes: list[Node] = []
        self.sentinels: list[Node] = []
        try:
            self.nodes += (self._add() for _ in range(3))
            for replica in self.nodes[1:]:
                replica.ask("REPLICAOF", "127.0.0.1", self.nodes[0].port)
            self.sentinels += (self._watch() for _ in range(3))
            self.settle()
        except BaseException:
            self.close()
            raise

    def _add(self) -> Node:
        return Node(self.binary, "--repl-diskless-sync-delay", "0")

    def _watch(self) -> Node:
        return _SentinelNode(self.binary, self.nodes[0].port)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def master(self) -> Node:
        """The master, as the Sentinels say."""
        _, port = self.sentinels[0].ask("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(node for node in self.nodes if node.port == int(port))

    def kill(self, node: Node) -> None:
        node.kill()
        self.nodes.remove(node)

    def settle(self) -> None:
        """Wait until all Sentinels name one master, and the replicas follow it."""
        wait_for(self._settled, self.seen)

    def _settled(self) -> bool:
        try:
            told = {
                sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)[1]
                for sentinel in self.sentinels
            }
            known = [sentinel.redis.sentinel_masters()[SERVICE] for sentinel in self.sentinels]
            following = [
                node.replication()
                for node in self.nodes
                if not node.stopped and node.port != int(next(iter(told)))
            ]
        except RedisError:
            return False
        return (
            len(told) == 1
            and all(state["num-other-sentinels"] == 2 for state in known)
            and all(state["num-slaves"] >= len(following) for state in known)
            and all(state["flags"] == "master" for state in known)
            and all(role["role"] == "slave" for role in following)
            and all(role["master_link_status"] == "up" for role in following)
        )

    def heal(self) -> None:
        """Bring the replicas to two again, and wait until all is well."""
        for node in self.nodes:
            if node.stopped:
                node.go_on()
        while len(self.nodes) < 3:
            node = self._add()
            node.ask("REPLICAOF", "127.0.0.1", self.master().port)
            self.nodes.append(node)
        self.settle()

    def seen(self) -> str:
        alive = [node for node in self.nodes if not node.stopped]
        return _seen(alive, "INFO replication") + _seen(self.sentinels, "SENTINEL MASTERS")

    def close(self) -> None:
        for node in (*self.sentinels, *self.nodes):
            node.kill()
        self.sentinels.clear()
        self.nodes.clear()


class _SentinelNode(Node):
    pass


def _seen(nodes: list[Node], *words: str) -> str:
    lines = []
    for node in nodes:
        try:
            lines.append(f"{node}: {node.ask(*words)}\n")
        except RedisError as error:
            lines.append(f"{node}: {error}\n")
    return "".join(lines)
