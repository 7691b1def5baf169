"""The shortest way to send a script: connections of our own to the caller's servers.

A pooled call of redis-py spends more time on its pool, its packing and its metrics than the server
on the script: 23 us against 12 us for an empty one. Source: benchmarks/README.md, "The way to the
server". So a plain `redis.Redis` gets a few connections beside its pool, with its own settings, and
a `RedisCluster` some to each node. A fault there, and a refusal of a server that does not hold the
keys, is handled by sending the call again through the client itself, with the client's own retries.
Any other kind of client (subclasses, doubles) is used through its `execute_command` alone.
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
from dpq.transport.cluster import Node, Nodes, ask, own_connection, refused, told
from dpq.transport.script_loading import load_instead, may_not_eval
from dpq.transport.spin import Spin

C = TypeVar("C")

MISSING = object()
"""Instead of a reply: to be asked for through the client."""


class Idle(Generic[C]):
    """What is kept for the next use, by whichever thread. A forked child begins with none.

    Attributes:
        kept: The connections that nobody uses now; the last one was used last.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._pid = os.getpid()
        self.kept: deque[C] = deque()

    def take(self) -> C:
        """Take one out, or make one."""
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self.kept, self._pid = deque(), os.getpid()
        try:
            return self.kept.pop()
        except IndexError:
            return self._make()


class Link:
    """Sends commands to the servers behind one client, for any number of threads.

    Attributes:
        nodes: Those servers.
    """

    def __init__(self, client: Any) -> None:
        self.nodes = Nodes(client)
        self._client = client
        self._packer = self._make_packer()
        self._ways: dict[str, _Way] = {}
        one = self.nodes.direct and not self.nodes.clustered
        self._only = self._way(self.nodes.only) if one else None

    @staticmethod
    def _make_packer() -> "Packer":
        return Packer()

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one round trip (on any but a direct client, one by one).

        Returns:
            For each command its raw reply, or the RedisError that it met.
        """
        return self.begin(commands)()

    def begin(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands; what is returned waits for their replies, as `call_all` returns them.

        What goes to several nodes of a cluster is under way to all of them at the same time. For no
        commands nothing is sent.
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
        return self._way(node).send(commands)

    def _way(self, node: Node) -> "_Way":
        way = self._ways.get(node.name)
        if way is None:
            way = self._ways.setdefault(node.name, _Way(self.nodes, node, self._packer))
        return way

    def _complete(self, commands: Sequence[Command[Any]], replies: list[Any]) -> list[Any]:
        """Ask through the client for the replies that are missing, or of the wrong server."""
        for i, command in enumerate(commands):
            reply = replies[i]
            if reply is MISSING or isinstance(reply, NoScriptError) or refused(reply):
                replies[i] = self._again(command, reply)
        return replies

    def _again(self, command: Command[Any], refusal: Any) -> Any:
        """Send a command that got no reply, or went to a server that does not know its script."""
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
        for way in list(self._ways.values()):
            way.close()


class _Way:
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
        """Send commands; what is returned waits for their replies, `MISSING` where there is none.

        A client that never sends twice gets what has gone wrong in the place of a missing reply.
        """
        connection = self._take()
        try:
            if self._finds_master and not connection.is_connected:  # else only `connect` does
                connection.connect_to(connection.connection_pool.get_master_address())
            connection.send_packed_command([self._packer.pack_all(commands)])
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise_interruption(error)  # redis-py has closed it, and nobody else has it
            replies = self._broken(connection, error, len(commands))
            return lambda: replies
        except BaseException as error:  # half a command may be on its way
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
                    replies.append(told(refusal))
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise_interruption(error)
            return replies + self._broken(connection, error, count - len(replies))
        except BaseException as error:  # replies may still be on their way
            connection.disconnect()
            raise_interruption(error)
            raise
        self._idle.kept.append(connection)  # all is read: only now may others have it
        return replies

    def _broken(self, connection: Any, error: Exception, missing: int) -> list[Any]:
        """The end of a connection, and what stands in the place of its replies."""
        connection.disconnect()
        self._idle.kept.append(connection)
        self._nodes.lost(self._node)
        return [error if self._sends_once else MISSING] * missing

    def _take(self) -> Any:
        """A connection to send on. One that the server has ended meanwhile shows when it is used,
        and the call is sent again; for a client that never sends twice it is looked at before."""
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
            if over:  # nothing was due here
                connection.disconnect()
        return connection

    def close(self) -> None:
        while self._idle.kept:
            self._idle.kept.pop().disconnect()


MOST_HEADS = 10_000
"""Beginnings of commands that are remembered, some 1 KB each: of 1024 partitions the usual ones."""


class Packer:
    """Writes commands as the server reads them, and remembers what is the same in every call."""

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
    """The words of a command as the server reads them."""
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
