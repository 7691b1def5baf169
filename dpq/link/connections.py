"""Sends scripts over DPQ's own connections to the servers of the caller's client.

A few connections of redis-py, outside of its pool, carry the packed commands of an exchange and
bring the replies. A command without a reply, or at the wrong server, is sent once more through the
client itself, with the client's retries and redirections. Of any other client (a subclass, a
double) only `execute_command` is used. Must not know what a command means.
"""

import os
import select
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.asking import Asking
from dpq.link.cluster import CUT, MISSING, Node, Nodes, is_undone, raise_if_demoted
from dpq.link.internals import socket_of
from dpq.script.command import Command, Packer, pack_plain, script_call
from dpq.script.durability import Durability, confirming, judged, require_direct


class _Sent(NamedTuple):
    """Commands on their way to a node."""

    node: Node
    connection: Any
    commands: Sequence[Command[Any]]
    replies: int
    error: Exception | None = None


class Connections(Asking):
    """Sends commands to the servers (`nodes`) behind one client, for any number of threads."""

    def __init__(self, client: Any, durability: Durability = "async") -> None:
        """Make connections; nothing is sent yet."""
        self.nodes = Nodes(client)
        self._client, self._durability = client, durability
        self._packer = Packer()
        self._idle: defaultdict[str, list[Any]] = defaultdict(
            list
        )  # by node: open connections that no thread uses now
        self._pid, self._losses = os.getpid(), 0
        self._only = self.nodes.only if self.nodes.direct and not self.nodes.clustered else None
        if durability != "async":
            require_direct(durability, self.nodes.direct, client)

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one round trip; one by one, if the client is not a direct one."""
        if self._only is not None:
            return self._receive(self._send(self._only, commands))
        try:
            parts = self.nodes.split(command.keys[0] for command in commands)
        except RedisError as error:
            return [error] * len(commands)
        all_sent = [
            (positions, self._send(node, [commands[position] for position in positions]))
            for node, positions in parts.items()
            if node is not None and self.nodes.direct
        ]
        replies: list[Any] = [None] * len(commands)
        away = set(range(len(commands)))
        for positions, sent in all_sent:
            away.difference_update(positions)
            for position, reply in zip(positions, self._receive(sent), strict=True):
                replies[position] = reply
        for position in away:
            replies[position] = self._again(commands[position], MISSING)
        return replies

    def aimed(self, key: str) -> dict[str, Any]:
        """Return the arguments that make a method of the client ask the node that holds a key."""
        return self.nodes.aimed(key)

    def _send(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> _Sent:
        """Write commands, and behind them those that confirm them, to a connection."""
        count = len(commands)
        if as_text:
            packed = pack_plain(script_call(command, as_text=True) for command in commands)
        else:
            packed = self._packer.pack(commands)
        if self._durability != "async":
            timeout = node.settings.get("socket_timeout")
            behind = confirming(commands, self._durability, timeout)
            packed, count = packed + pack_plain(behind), count + len(behind)
        if self._losses != self.nodes.losses or self._pid != os.getpid():
            self._forget_idle()
        connected = False
        try:
            connection = self._idle[node.name].pop()
        except LookupError:  # all are in use; another thread may have taken the last one just now
            connection = None
        try:
            if connection is not None:
                if self.nodes.sends_once and select.select([socket_of(connection)], [], [], 0)[0]:
                    connection.disconnect()  # the server has closed it: no reply is due
                    connection.connect()
            else:
                connection = node.connection(health_check_interval=0)
                connection.connect()
            connected = True
            connection.send_packed_command((packed,), check_health=False)
        except BaseException as error:  # half of the commands may be on the wire
            hopeless = not connected and isinstance(error, RedisTimeoutError)
            fault = self._broken(node, connection, error, hopeless=hopeless)
            return _Sent(node, None, commands, count, fault)
        return _Sent(node, connection, commands, count)

    def _exchange(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> list[Any]:
        return self._receive(self._send(node, commands, as_text=as_text), last=True)

    def _receive(self, sent: _Sent, *, last: bool = False) -> list[Any]:
        """Read the replies; unless it is the last try, send those once more that need it."""
        node, connection, commands, count, broken = sent
        replies: list[Any] = []
        clean = broken is None
        if broken is None:
            try:
                for _ in range(count):
                    try:
                        replies.append(connection.read_response(disable_decoding=True))
                    except ResponseError as refusal:
                        clean = False
                        replies.append(raise_if_demoted(refusal))
            except BaseException as error:  # replies may still come
                clean, broken = False, self._broken(node, connection, error)
            else:
                self._idle[node.name].append(connection)
        replies += [broken] * (count - len(replies))
        if count > len(commands):
            replies = judged(commands, self._durability, replies)
        if not clean and not last:
            replies = [
                self._again(command, reply) if is_undone(reply) else reply
                for command, reply in zip(commands, replies, strict=True)
            ]
        return replies

    def _broken(
        self, node: Node, connection: Any, error: BaseException, *, hopeless: bool = False
    ) -> Exception:
        """Close a connection; return the sign of its missing replies, or raise the error."""
        if connection is not None:
            connection.disconnect()
        if not isinstance(error, CUT):
            raise error
        self.nodes.lost()
        final = self.nodes.sends_once or (hopeless and not self.nodes.fails_over)
        return error if final else MISSING

    def _forget_idle(self) -> None:
        """Close all idle connections; a forked child leaves those of its parent alone."""
        if self._pid == os.getpid():
            self._losses = self.nodes.losses
            self.close()
        else:  # pragma: no cover - a test does it in a child
            self._idle, self._pid = defaultdict(list), os.getpid()

    def close(self) -> None:
        """Close the connections that no call uses now."""
        for idle in list(self._idle.values()):
            while idle:
                idle.pop().disconnect()
