"""The fastest way to send scripts: DPQ's own connections to the servers of the caller's client.

The session calls it. For an empty script, redis-py's pool, packing and metrics take 23 us, the
server 12 us. Source: benchmarks/README.md, "The way to the server". So DPQ opens a few connections
beside the pool of a plain `redis.Redis`, with the same settings, and some to each node of a
`RedisCluster`. If a connection fails, or a server does not hold the keys, the call is sent again:
`resending` says how. Of any other client (a subclass, a double) only `execute_command` is used.

With a `Confirmation`, the commands that confirm changes go along, over the same connection. Must
not know what a command means.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.model.interrupts import raise_interruption
from dpq.protocol.command import Command
from dpq.protocol.confirmation import Confirmation, needs_confirmation
from dpq.protocol.durability import error_in, require_direct
from dpq.protocol.packing import Packer, pack_plain, pack_texts, script_call
from dpq.transport.cluster import (
    MISSING,
    Node,
    Nodes,
    ask,
    own_connection,
    raise_if_demoted,
    refused,
)
from dpq.transport.idle import Idle
from dpq.transport.resending import FAILED, Resending, Try
from dpq.transport.script_loading import load_instead
from dpq.transport.spin import Spin, can_read


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
        self._client = client
        self._confirmation = confirmation
        self._packer = Packer()
        self._endpoints: dict[str, _Endpoint] = {}
        one = self.nodes.direct and not self.nodes.clustered
        self._only = self._endpoint(self.nodes.only) if one and confirmation is None else None
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

    def begin(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands; return a function that waits for their replies, and returns them.

        The commands for several nodes of a cluster are sent to all nodes before the first reply is
        read. If there are no commands, nothing is sent.
        """
        if self._only:
            receive = self._only.send(self._packer.pack_all(commands), len(commands))
            return lambda: self._complete(commands, receive())
        if self._confirmation is None:
            return self._begin_by_node(commands)
        every, judge = self._confirmation.with_settings(commands)
        receive = self._begin_by_node(every)
        return lambda: judge(receive())

    def _begin_by_node(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        if not commands:
            return list
        if not self.nodes.direct:
            return lambda: self._complete(commands, [MISSING] * len(commands))
        try:
            parts = self.nodes.split(command.keys[0] for command in commands)
        except RedisError as error:
            raise_interruption(error)
            unreachable: list[Any] = [error] * len(commands)
            return lambda: unreachable
        sent = [
            (positions, self._send(node, [commands[position] for position in positions]))
            for node, positions in parts.items()
            if node
        ]

        def receive_all() -> list[Any]:
            replies: list[Any] = [MISSING] * len(commands)
            for positions, receive in sent:
                for position, reply in zip(positions, receive(), strict=True):
                    replies[position] = reply
            return self._complete(commands, replies)

        return receive_all

    def _send(
        self, node: Node, commands: Sequence[Command[Any]], *, as_text: bool = False
    ) -> Callable[[], list[Any]]:
        """Send commands to one node, with those that confirm them."""
        packed = pack_texts(commands) if as_text else self._packer.pack_all(commands)
        endpoint = self._endpoint(node)
        if self._confirmation is None or not needs_confirmation(commands):
            return endpoint.send(packed, len(commands))
        exchange = self._confirmation.exchange(commands, node.timeout)
        packed = pack_plain(exchange.before) + packed + pack_plain(exchange.behind)
        receive = endpoint.send(packed, exchange.size)
        return lambda: exchange.read(receive())

    def _endpoint(self, node: Node) -> "_Endpoint":
        endpoint = self._endpoints.get(node.name)
        if endpoint is None:
            endpoint = self._endpoints.setdefault(node.name, _Endpoint(self.nodes, node))
        return endpoint

    def _complete(self, commands: Sequence[Command[Any]], replies: list[Any]) -> list[Any]:
        for position, reply in enumerate(replies):
            if isinstance(reply, FAILED):
                replies[position] = self.resend(commands[position], reply)
        return replies

    def resend(self, command: Command[Any], reply: Any) -> Any:
        """Send a command again, if its failed reply asks for that; return the reply that stands."""
        confirmation = self._confirmation
        again = Resending(reply, confirmation.mark_of_client(command) if confirmation else None)
        while (attempt := again.next_try()) is not None:
            try:
                again.reply = self._send_again(command, attempt)
            except RedisError as error:
                raise_interruption(error)
                again.reply = error
        return again.result

    def _send_again(self, command: Command[Any], attempt: Try) -> Any:
        if attempt.load:
            load_instead(self._client)
        if not attempt.own:
            return ask(self._client, *script_call(command, as_text=attempt.as_text))
        node = self.nodes.of(command.keys[0])
        if node is None:
            return MISSING
        (reply,) = self._send(node, (command,), as_text=attempt.as_text)()
        if refused(error_in(reply)):
            self.nodes.lost(node)  # another node has the slot
        return reply

    def close(self) -> None:
        """Close the connections that no call uses now."""
        for endpoint in list(self._endpoints.values()):
            endpoint.close()


class _Endpoint:
    """The connections to one node."""

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self._nodes = nodes
        self._node = node
        self._sends_once = nodes.sends_once
        self._finds_master = nodes.finds_master
        self._idle: Idle[Any] = Idle(partial(own_connection, node))
        self._losses = 0
        self._spin = Spin()

    def send(self, packed: bytes, count: int) -> Callable[[], list[Any]]:
        """Send packed commands; return a function that waits for their replies.

        A missing reply is `MISSING`. If the client has no retries, it is the error instead.
        """
        connection = self._take()
        try:
            # Otherwise only `connect` asks the Sentinels.
            if self._finds_master and not connection.is_connected:
                connection.connect_to(connection.connection_pool.get_master_address())
            connection.send_packed_command([packed])
        except (RedisConnectionError, RedisTimeoutError) as error:
            self._keep_closed(connection)
            raise_interruption(error)
            replies = self._broken(error, count)
            return lambda: replies
        except BaseException as error:  # half of the command may be on the wire
            self._keep_closed(connection)
            raise_interruption(error)
            raise
        return partial(self._receive, connection, count)

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
            self._keep_closed(connection)
            raise_interruption(error)
            return replies + self._broken(error, count - len(replies))
        except BaseException as error:  # replies may still come
            self._keep_closed(connection)
            raise_interruption(error)
            raise
        self._idle.kept.append(connection)  # all replies are read: now others may use it
        return replies

    def _broken(self, error: Exception, missing: int) -> list[Any]:
        """Say that a connection failed; return the signs for its missing replies."""
        self._nodes.lost(self._node)
        return [error if self._sends_once else MISSING] * missing

    def _keep_closed(self, connection: Any) -> None:
        """Close a connection, and keep it: the next call opens it again.

        A new one would cost a destructor here, and a copy of the settings. In both, Python and
        redis-py swallow the error of a signal handler.
        """
        connection.disconnect()
        self._idle.kept.append(connection)

    def _take(self) -> Any:
        """Take a connection. If the server has closed it meanwhile, the call fails, and is sent
        again. If the client has no retries, the connection is checked before."""
        if self._losses != self._nodes.losses:
            self._losses = self._nodes.losses
            self.close()
        connection = self._idle.take()
        if self._sends_once and connection.is_connected:
            try:
                over = can_read(connection, 0)
            except (RedisConnectionError, RedisTimeoutError) as error:
                raise_interruption(error)
                over = True
            if over:  # no reply was due, so the server has closed the connection
                connection.disconnect()
        return connection

    def close(self) -> None:
        while self._idle.kept:
            self._idle.kept.pop().disconnect()
