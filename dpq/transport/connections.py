"""The fastest way to send scripts: DPQ's own connections to the servers of the caller's client.

The session calls it. For an empty script, redis-py's pool, packing and metrics take 23 us, the
server 12 us. Source: benchmarks/README.md, "The way to the server". So DPQ opens a few connections
beside the pool of a plain `redis.Redis`, with the same settings, and some to each node of a
`RedisCluster`. If a connection fails, or a server does not hold the keys, the call is sent again
through the client itself, with the client's own retries. Of any other client (a subclass, a double)
only `execute_command` is used. Must not know what a command means.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.interrupts import raise_interruption
from dpq.protocol.command import Command
from dpq.protocol.scripts import Script
from dpq.transport.cluster import Node, Nodes, ask, own_connection, raise_if_demoted, refused
from dpq.transport.script_loading import load_instead, may_not_eval
from dpq.transport.spin import Spin

C = TypeVar("C")

MISSING = object()
"""The sign for a missing reply: send the command again through the client."""


class Idle(Generic[C]):
    """Connections or waiters kept for the next use, by any thread. A forked child begins with none.

    Attributes:
        kept: The connections that no thread uses now; the last one was used last.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._pid = os.getpid()
        self.kept: deque[C] = deque()

    def take(self) -> C:
        """Take a kept connection, or make a new one."""
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self.kept, self._pid = deque(), os.getpid()
        try:
            return self.kept.pop()
        except IndexError:
            return self._make()


class Connections:
    """Sends commands to the servers behind one client, for any number of threads.

    Attributes:
        nodes: The servers.
    """

    def __init__(self, client: Any) -> None:
        self.nodes = Nodes(client)
        self._client = client
        self._packer = self._make_packer()
        self._endpoints: dict[str, _Endpoint] = {}
        one = self.nodes.direct and not self.nodes.clustered
        self._only = self._endpoint(self.nodes.only) if one else None

    @staticmethod
    def _make_packer() -> "Packer":
        return Packer()

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one round trip; one by one, if the client is not a direct one.

        Returns:
            For each command its raw reply or its RedisError.
        """
        return self.begin(commands)()

    def begin(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands; return a function that waits for their replies, and returns them.

        The commands for several nodes of a cluster are sent to all nodes before the first reply is
        read. If there are no commands, nothing is sent.
        """
        if self._only:
            receive = self._only.send(commands)
            return lambda: self._complete(commands, receive())
        if not commands:
            return list
        if not self.nodes.direct:
            return lambda: self._complete(commands, [MISSING] * len(commands))
        try:
            places = self.nodes.split(command.keys[0] for command in commands)
        except RedisError as error:
            raise_interruption(error)
            unreachable: list[Any] = [error] * len(commands)
            return lambda: unreachable
        parts = [
            (where, self._send(node, [commands[place] for place in where]))
            for node, where in places.items()
            if node
        ]

        def receive_all() -> list[Any]:
            replies: list[Any] = [MISSING] * len(commands)
            for where, receive in parts:
                for place, reply in zip(where, receive(), strict=True):
                    replies[place] = reply
            return self._complete(commands, replies)

        return receive_all

    def _send(self, node: Node, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        return self._endpoint(node).send(commands)

    def _endpoint(self, node: Node) -> "_Endpoint":
        endpoint = self._endpoints.get(node.name)
        if endpoint is None:
            endpoint = self._endpoints.setdefault(
                node.name, _Endpoint(self.nodes, node, self._packer)
            )
        return endpoint

    def _complete(self, commands: Sequence[Command[Any]], replies: list[Any]) -> list[Any]:
        """Send again through the client where a reply is missing, or from the wrong server."""
        for i, command in enumerate(commands):
            reply = replies[i]
            if reply is MISSING or isinstance(reply, NoScriptError) or refused(reply):
                replies[i] = self._again(command, reply)
        return replies

    def _again(self, command: Command[Any], refusal: Any) -> Any:
        """Send a command again that got no reply, or whose server does not know its script."""
        return self._by_client(command, known=not isinstance(refusal, NoScriptError))

    def _by_client(self, command: Command[Any], *, known: bool = True) -> Any:
        script, tail = command.script, (len(command.keys), *command.keys, *command.args)
        try:
            if known:
                with suppress(NoScriptError):
                    return ask(self._client, "EVALSHA", script.sha, *tail)
            try:
                return ask(self._client, "EVAL", script.text, *tail)
            except ResponseError as refusal:
                if not may_not_eval(refusal):
                    raise
            load_instead(self._client)
            return ask(self._client, "EVALSHA", script.sha, *tail)
        except RedisError as error:
            return error

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        for endpoint in list(self._endpoints.values()):
            endpoint.close()


class _Endpoint:
    """The connections to one node."""

    def __init__(self, nodes: Nodes, node: Node, packer: "Packer") -> None:
        self._nodes = nodes
        self._node = node
        self._packer = packer
        self._sends_once = nodes.sends_once
        self._finds_master = nodes.finds_master
        self._idle: Idle[Any] = Idle(partial(own_connection, node))
        self._losses = 0
        self._spin = Spin()

    def send(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands; return a function that waits for their replies.

        A missing reply is `MISSING`. If the client has no retries, it is the error instead.
        """
        connection = self._take()
        try:
            if self._finds_master and not connection.is_connected:  # else only `connect` does
                connection.connect_to(connection.connection_pool.get_master_address())
            connection.send_packed_command([self._packer.pack_all(commands)])
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise_interruption(error)  # redis-py has closed it, and no other call uses it
            replies = self._broken(connection, error, len(commands))
            return lambda: replies
        except BaseException as error:  # half a command may be sent
            connection.disconnect()
            raise_interruption(error)
            raise
        return partial(self._receive, connection, len(commands))

    def _receive(self, connection: Any, count: int) -> list[Any]:
        replies: list[Any] = []
        try:
            self._spin.until_readable(connection, count)
            for _ in range(count):
                try:
                    replies.append(connection.read_response(disable_decoding=True))
                except ResponseError as refusal:
                    self._nodes.learn(refusal)
                    replies.append(raise_if_demoted(refusal))
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise_interruption(error)
            return replies + self._broken(connection, error, count - len(replies))
        except BaseException as error:  # replies may still come
            connection.disconnect()
            raise_interruption(error)
            raise
        self._idle.kept.append(connection)  # all replies are read: now others may use it
        return replies

    def _broken(self, connection: Any, error: Exception, missing: int) -> list[Any]:
        """Close a connection that failed; return the signs for its missing replies."""
        connection.disconnect()
        self._idle.kept.append(connection)
        self._nodes.lost(self._node)
        return [error if self._sends_once else MISSING] * missing

    def _take(self) -> Any:
        """Take a connection. If the server has closed it meanwhile, the call fails, and is sent
        again. If the client has no retries, the connection is checked before."""
        if self._losses != self._nodes.losses:
            self._losses = self._nodes.losses
            self.close()
        connection = self._idle.take()
        if self._sends_once and connection.is_connected:
            try:
                over = connection.can_read(timeout=0)
            except (RedisConnectionError, RedisTimeoutError) as error:
                raise_interruption(error)
                over = True
            if over:  # no reply was due, so this is the server's end
                connection.disconnect()
        return connection

    def close(self) -> None:
        while self._idle.kept:
            self._idle.kept.pop().disconnect()


MOST_HEADS = 10_000
"""Packed beginnings of commands that are kept, about 1 KB each: enough for 1024 partitions."""


class Packer:
    """Packs commands as the server reads them, and keeps the part that is the same in each call."""

    def __init__(self) -> None:
        self._heads: dict[tuple[Script, tuple[str, ...]], tuple[int, bytes]] = {}

    def pack_all(self, commands: Sequence[Command[Any]]) -> bytes:
        """Pack commands to be sent together."""
        if len(commands) == 1:
            return self._pack(commands[0])
        return b"".join(map(self._pack, commands))

    def _pack(self, command: Command[Any]) -> bytes:
        head = self._heads.get((command.script, command.keys))
        if head is None:
            texts = ("EVALSHA", command.script.sha, str(len(command.keys)), *command.keys)
            head = (len(texts), bulk_strings(texts))
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            self._heads[command.script, command.keys] = head
        size, packed = head
        return b"*%d\r\n%b%b" % (size + len(command.args), packed, bulk_strings(command.args))


def bulk_strings(values: Sequence[str | bytes | float]) -> bytes:
    """Pack the words of a command as the server reads them."""
    parts = []
    for value in values:
        if type(value) is bytes:
            text = value
        elif type(value) is int:
            text = b"%d" % value
        else:
            text = str(value).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(text), text))
    return b"".join(parts)
