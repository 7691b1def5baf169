"""Real clusters and Sentinel groups of throw-away servers, for tests that kill and stop them.

No node outlives the process that has started it (on Linux; elsewhere it must not be killed). Ports
are on 127.0.0.1, below those that the kernel gives to clients, with room for the bus (+ 10000).
"""

import contextlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis import Redis, RedisCluster
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import RedisError
from redis.retry import Retry
from support import PATIENCE_S, wait_for

from dpq.server import Binary

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
"""How long the nodes of a cluster wait for a silent one."""

DOWN_AFTER_MS = 500
"""How long a Sentinel does."""

BUS = 10_000
"""The nodes of a cluster talk with each other at their port + this."""

SERVICE = "tasks"

REFUSALS = ("MOVED", "ASK", "TRYAGAIN")

PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h


class Node:
    """One server with a port: to be killed, stopped, and let go on.

    No `dpq.server.Server`: its keeper takes a server that is stopped for one that has ended.
    """

    def __init__(self, binary: Binary, *options: object) -> None:
        self.binary = binary
        self.directory = tempfile.TemporaryDirectory(prefix="dpq-node-")
        self.stopped = False
        for _ in range(20):
            self.port = random.randrange(10_100, 22_000)
            if _free(self.port) and _free(self.port + BUS):
                self._process = subprocess.Popen(
                    [*map(str, (binary.path, *self._options(), *options))],
                    stdout=subprocess.DEVNULL,
                    preexec_fn=_end_with_parent,
                )
                self.redis = Redis(
                    port=self.port,
                    socket_timeout=5,
                    retry=Retry(NoBackoff(), 0),
                    decode_responses=True,
                )
                if self._answers():
                    return
        raise AssertionError("no server starts on any port")

    def _options(self) -> tuple[object, ...]:
        return (
            *("--port", self.port, "--bind", "127.0.0.1", "--dir", self.directory.name),
            *("--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", 0),
        )

    def _answers(self) -> bool:
        """Wait until it does; False when it has ended, since somebody else has the port."""
        give_up = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:
            with contextlib.suppress(RedisError):
                return bool(self.redis.ping())
            assert time.monotonic() < give_up, f"{self} does not answer"
            time.sleep(0.002)
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.port})"

    def ask(self, *words: Any) -> Any:
        return self.redis.execute_command(*words)

    def refusals(self) -> int:
        """How often it has sent a client elsewhere, or to try again."""
        errors = self.redis.info("errorstats")
        return sum(
            errors[f"errorstat_{name}"]["count"]
            for name in REFUSALS
            if f"errorstat_{name}" in errors
        )

    def replication(self) -> dict[str, Any]:
        return self.redis.info("replication")

    def kill(self) -> None:
        """SIGKILL: it is gone for good, with all that it knew."""
        self.redis.close()
        self.stopped = False
        self._process.kill()
        self._process.wait()
        self.directory.cleanup()

    def stop(self) -> None:
        """SIGSTOP: to all others it is behind a partition."""
        self._process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.stopped = False


class SentinelNode(Node):
    """A Sentinel, which wants a file to write into."""

    def __init__(self, binary: Binary, master: Node) -> None:
        self._master = master
        super().__init__(binary)

    def _options(self) -> tuple[object, ...]:
        config = Path(self.directory.name, "sentinel.conf")
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.directory.name}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._master.port} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {SERVICE} 5000\n"
        )
        return config, "--sentinel"


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _end_with_parent() -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Cluster:
    """Masters, with one replica each; `nodes` has those that were not killed."""

    def __init__(self, binary: Binary, masters: int = 3) -> None:
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
            *("--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS),
            *("--cluster-replica-validity-factor", 0),
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

    def masters(self) -> list[Node]:
        return [node for node in self._alive() if node.replication()["role"] == "master"]

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
        alive = {f"127.0.0.1:{node.port}" for node in self._alive()}
        try:
            for node in self._alive():
                known = node.ask("CLUSTER NODES")
                if not alive <= {name for name in known if "handshake" not in known[name]["flags"]}:
                    return False
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

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        self.nodes: list[Node] = []
        self.sentinels: list[SentinelNode] = []
        try:
            self.nodes += (Node(binary) for _ in range(3))
            for replica in self.nodes[1:]:
                replica.ask("REPLICAOF", "127.0.0.1", self.nodes[0].port)
            self.sentinels += (SentinelNode(binary, self.nodes[0]) for _ in range(3))
            self.settle()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    def master(self) -> Node:
        """The master, as the Sentinels say."""
        port = self.master_port()
        return next(node for node in self.nodes if node.port == port)

    def master_port(self) -> int:
        """Its port, also while it is not known whether it lives."""
        _, port = self.sentinels[0].ask("SENTINEL GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(port)

    def failovers(self) -> int:
        """A number that each failover raises."""
        return int(self.sentinels[0].ask("SENTINEL MASTER", SERVICE)["config-epoch"])

    def kill(self, node: Node) -> None:
        node.kill()
        self.nodes.remove(node)

    def settle(self) -> None:
        """Wait until all Sentinels name one master, and the replicas follow it."""
        wait_for(self._settled, self.seen)

    def _settled(self) -> bool:
        try:
            states = [sentinel.redis.sentinel_masters()[SERVICE] for sentinel in self.sentinels]
            alive = [node.replication() for node in self.nodes if not node.stopped]
        except (RedisError, KeyError):
            return False
        followed = [told["master_port"] for told in alive if told.get("master_link_status") == "up"]
        return (
            len({state["port"] for state in states}) == 1
            and all(state["flags"] == "master" for state in states)
            and all(state["num-other-sentinels"] == 2 for state in states)
            and all(state["num-slaves"] >= len(alive) - 1 for state in states)
            and followed == [states[0]["port"]] * (len(alive) - 1)
        )

    def heal(self) -> None:
        """Bring the replicas to two again, and wait until all is well."""
        for node in list(self.nodes):
            if node.stopped:  # as a master that comes back it would take the Sentinels 10 s
                self.kill(node)
        while len(self.nodes) < 3:
            self.nodes.append(Node(self.binary))
        wait_for(self._led, self.seen)

    def _led(self) -> bool:
        """Settled; a node that the Sentinels have not heard of yet they do not turn, so do it."""
        if self._settled():
            return True
        with suppress(RedisError, StopIteration):  # they may be about to choose another master
            master = self.master()
            for node in self.nodes:
                if node is not master and node.replication().get("master_port") != master.port:
                    node.ask("REPLICAOF", "127.0.0.1", master.port)
        return False

    def seen(self) -> str:
        alive = [node for node in self.nodes if not node.stopped]
        return _seen(alive, "INFO replication") + _seen(self.sentinels, "SENTINEL MASTERS")

    def close(self) -> None:
        for node in (*self.sentinels, *self.nodes):
            node.kill()
        self.sentinels.clear()
        self.nodes.clear()


def _seen(nodes: Sequence[Node], *words: str) -> str:
    lines = []
    for node in nodes:
        try:
            lines.append(f"{node}: {node.ask(*words)}\n")
        except RedisError as error:
            lines.append(f"{node}: {error}\n")
    return "".join(lines)
