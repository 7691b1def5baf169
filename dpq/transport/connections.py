"""Sends scripts over DPQ's own connections to the servers of the caller's client.

A few connections of redis-py, outside of its pool, carry the packed commands of an exchange and
bring the replies. A command without a reply, or at the wrong server, is sent once more through the
client itself, with the client's retries and redirections. Of any other client (a subclass, a
double) only `execute_command` is used. Must not know what a command means.
"""

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.protocol.command import Command
from dpq.protocol.confirmation import Confirmation, judged
from dpq.protocol.durability import require_direct
from dpq.protocol.packing import Packer, pack_plain, script_call
from dpq.transport.cluster import MISSING, Node, Nodes, ask, raise_if_demoted, refused
from dpq.transport.idle import Idle
from dpq.transport.script_loading import load_instead, may_not_eval

CUT = (RedisConnectionError, RedisTimeoutError)
"""The errors that stand for a missing reply: the server may have run the command, or not."""

Replies = Callable[[], list[Any]]


class Connections:
    """Sends commands to the servers behind one client, for any number of threads.

    Attributes:
        nodes: The servers.
    """

    def __init__(self, client: Any, confirmation: Confirmation | None = None) -> None:
        """Make connections; nothing is sent yet.

        Args:
            client: The client of redis-py.
            confirmation: The confirmation that changes wait for, if they wait for one.
        """
        self.nodes = Nodes(client)
        self._client, self._confirmation = client, confirmation
        self._packer = Packer()
        self._links: dict[str, _Link] = {}
        alone = self.nodes.direct and not self.nodes.clustered and confirmation is None
        self._only = self._link(self.nodes.only) if alone else None
        if confirmation is not None:
            require_direct(confirmation.durability, self.nodes.direct, client)

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one round trip; one by one, if the client is not a direct one.

        Returns:
            For each command its raw reply or its RedisError; its `Unconfirmed`, if the script has
            run and was not confirmed.
        """
        return self.begin(commands)()

    def aimed(self, key: str) -> dict[str, Any]:
        """Return the arguments that make a method of the client ask the node that holds a key."""
        return self.nodes.aimed(key)

    def begin(self, commands: Sequence[Command[Any]]) -> Replies:
        """Send commands; return a function that waits for their replies, and returns them.

        The commands for several nodes of a cluster are sent to all nodes before the first reply is
        read.
        """
        if self._only:
            receive = self._only.send(self._packer.pack_all(commands), len(commands))
            return lambda: self._complete(commands, receive())
        try:
            parts = self.nodes.split(command.keys[0] for command in commands)
        except RedisError as error:
            unreachable: list[Any] = [error] * len(commands)
            return lambda: unreachable
        sent = [
            (positions, self._send(node, [commands[position] for position in positions]))
            for node, positions in parts.items()
        ]

        def receive_all() -> list[Any]:
            replies: list[Any] = [MISSING] * len(commands)
            for positions, receive in sent:
                for position, reply in zip(positions, receive(), strict=True):
                    replies[position] = reply
            return self._complete(commands, replies)

        return receive_all

    def _send(self, node: Node | None, commands: Sequence[Command[Any]]) -> Replies:
        if node is None or not self.nodes.direct:
            return lambda: [MISSING] * len(commands)
        packed, link = self._packer.pack_all(commands), self._link(node)
        confirmation = self._confirmation
        if confirmation is None or not (behind := confirmation.behind(commands, node.settings)):
            return link.send(packed, len(commands))
        receive = link.send(packed + pack_plain(behind), len(commands) + len(behind))
        return lambda: judged(confirmation.durability, commands, receive())

    def _link(self, node: Node) -> "_Link":
        if node.name not in self._links:
            self._links[node.name] = _Link(self.nodes, node)
        return self._links[node.name]

    def _complete(self, commands: Sequence[Command[Any]], replies: list[Any]) -> list[Any]:
        for position, reply in enumerate(replies):
            if reply is MISSING or isinstance(reply, NoScriptError) or refused(reply):
                replies[position] = self._again(commands[position], reply)
        return replies

    def _again(self, command: Command[Any], error: Any) -> Any:
        """Send a command once more: the text of a script that the server does not know over the
        same connections, all else through the client."""
        if isinstance(error, NoScriptError) and self.nodes.direct:
            node = self.nodes.of(command.keys[0])
            packed = pack_plain([script_call(command, as_text=True)])
            (error,) = self._link(node).send(packed, 1)() if node else (MISSING,)
            if not isinstance(error, Exception):
                return error
            if not may_not_eval(error) and error is not MISSING and not refused(error):
                return error
        confirms = self._confirmation and self._confirmation.mark_of_client(command)
        for as_text in (False, True):
            try:
                reply = ask(self._client, *script_call(command, as_text=as_text))
                return confirms.mark(reply) if confirms else reply
            except RedisError as refusal:
                error = refusal
            if may_not_eval(error):
                try:
                    load_instead(self._client)
                    return ask(self._client, *script_call(command, as_text=False))
                except RedisError as refusal:
                    return refusal
            if not isinstance(error, NoScriptError):
                break
        return error

    def close(self) -> None:
        """Close the connections that no call uses now."""
        for link in list(self._links.values()):
            link.close()


class _Link:
    """The connections to one node, which its threads share."""

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self._nodes, self._node = nodes, node
        self._once = nodes.sends_once
        self._idle: Idle[Any] = Idle(node.connection)
        self._losses = 0

    def send(self, packed: bytes, count: int) -> Replies:
        """Send packed commands; return a function that waits for their replies."""
        if self._losses != self._nodes.losses:
            self._losses = self._nodes.losses
            self.close()
        connection = self._idle.take()
        try:
            if not connection.is_connected:
                connection.connect()
            elif self._once and _is_over(connection):
                connection.disconnect()
                connection.connect()
            connection.send_packed_command([packed])
        except BaseException as error:  # half of the command may be on the wire
            replies = self._broken(connection, error, count)
            return lambda: replies
        return lambda: self._receive(connection, count)

    def _receive(self, connection: Any, count: int) -> list[Any]:
        replies: list[Any] = []
        try:
            for _ in range(count):
                try:
                    replies.append(connection.read_response(disable_decoding=True))
                except ResponseError as refusal:
                    self._nodes.learn(refusal)
                    replies.append(raise_if_demoted(refusal))
        except BaseException as error:  # replies may still come
            return replies + self._broken(connection, error, count - len(replies))
        self._idle.kept.append(connection)  # all replies are read: now others may use it
        return replies

    def _broken(self, connection: Any, error: BaseException, missing: int) -> list[Any]:
        """Close a connection and keep it for the next call; return the signs of missing replies."""
        connection.disconnect()
        self._idle.kept.append(connection)
        if not isinstance(error, CUT):
            raise error
        self._nodes.lost(self._node)
        return [error if self._once else MISSING] * missing

    def close(self) -> None:
        while self._idle.kept:
            self._idle.kept.pop().disconnect()


def _is_over(connection: Any) -> bool:
    """Return True if the server has closed a connection: no reply is due."""
    try:
        return bool(connection.can_read(timeout=0))
    except CUT:
        return True
