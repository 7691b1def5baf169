"""The shortest way to send a script: connections of our own to the caller's server.

A pooled call of redis-py spends more time on its pool, its packing and its metrics than the server
on the script: 23 us against 12 us for an empty one. Source: benchmarks/README.md, "The way to the
server". So a plain `redis.Redis` gets a few connections beside its pool, with its own settings. A
fault there is handled by sending the call again through the client itself, with the client's own
retries. Any other kind of client (subclasses, doubles, clusters) is used through its
`execute_command` alone.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from redis import Redis
from redis.client import NEVER_DECODE
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq._command import Command
from dpq._scripts import Script

C = TypeVar("C")


def own_connection(client: Any, **changes: Any) -> Any:
    """Make a connection with a client's settings that does not belong to its pool.

    RESP2, so that nothing but replies arrives on it; scripts reply the same in both protocols.
    """
    pool = client.connection_pool
    settings = {**pool.connection_kwargs, "protocol": 2, "decode_responses": False, **changes}
    return pool.connection_class(**settings)


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
    """Sends commands to one server, for any number of threads."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._plain = type(client) is Redis and client.connection is None
        self._packer = Packer()
        self._idle: Idle[Any] = Idle(partial(own_connection, client))

    def call(self, command: Command[Any]) -> Any:
        """Run a command's script; the raw reply, bytes for every text.

        Raises:
            RedisError: As the client raises it, after the client's own retries.
        """
        reply = self.call_all((command,))[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def call_all(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Run commands in one round trip (on any but a plain client, one by one).

        Returns:
            For each command its raw reply, or the RedisError that it met.
        """
        return self.begin(commands)()

    def begin(self, commands: Sequence[Command[Any]]) -> Callable[[], list[Any]]:
        """Send commands; what is returned waits for their replies, as `call_all` returns them."""
        if not self._plain:
            return lambda: self._complete(commands, [])
        connection = self._take()
        try:
            connection.send_packed_command([self._packer.pack_all(commands)])
        except (RedisConnectionError, RedisTimeoutError) as error:
            replies = self._broken(connection, error, len(commands))
            return lambda: self._complete(commands, replies)
        except BaseException:  # an interrupt: half a command may be on its way
            connection.disconnect()
            self._idle.kept.append(connection)
            raise
        return lambda: self._complete(commands, self._receive(connection, len(commands)))

    def _receive(self, connection: Any, count: int) -> list[Any]:
        """The replies to what was sent; fewer when the connection broke."""
        replies: list[Any] = []
        try:
            for _ in range(count):
                try:
                    replies.append(connection.read_response(disable_decoding=True))
                except ResponseError as refused:
                    replies.append(refused)
        except (RedisConnectionError, RedisTimeoutError) as error:
            return replies + self._broken(connection, error, count - len(replies))
        except BaseException:  # an interrupt: replies may still be on their way
            connection.disconnect()
            self._idle.kept.append(connection)
            raise
        self._idle.kept.append(connection)
        return replies

    def _broken(self, connection: Any, error: Exception, missing: int) -> list[Any]:
        """What a client that never sends twice gets for its replies; others ask again."""
        connection.disconnect()
        self._idle.kept.append(connection)
        return [error] * missing if connection.retry.get_retries() == 0 else []

    def _complete(self, commands: Sequence[Command[Any]], replies: list[Any]) -> list[Any]:
        """Ask through the client for the replies that are missing."""
        for i, command in enumerate(commands):
            if i == len(replies):
                replies.append(self._by_client(command))
            elif isinstance(replies[i], NoScriptError):
                replies[i] = self._by_client(command, known=False)
        return replies

    def _by_client(self, command: Command[Any], *, known: bool = True) -> Any:
        script, tail = command.script, (len(command.keys), *command.keys, *command.args)
        send = self._client.execute_command
        try:
            if known:
                with suppress(NoScriptError):
                    return send("EVALSHA", script.sha, *tail, **{NEVER_DECODE: True})
            return send("EVAL", script.text, *tail, **{NEVER_DECODE: True})
        except RedisError as error:
            return error

    def close(self) -> None:
        """Close the connections that nobody uses now."""
        while self._idle.kept:
            self._idle.kept.pop().disconnect()

    def _take(self) -> Any:
        """A connection to send on. One that the server has ended meanwhile shows when it is used,
        and the call is sent again; for a client that never sends twice it is looked at before."""
        connection = self._idle.take()
        if connection.retry.get_retries() == 0 and connection.is_connected:
            try:
                over = connection.can_read(timeout=0)
            except (RedisConnectionError, RedisTimeoutError):
                over = True
            if over:  # nothing was due here
                connection.disconnect()
        return connection


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
