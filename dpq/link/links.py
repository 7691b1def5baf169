"""Links for threads: the counterpart of links_async.py, with the same names."""

import os
import select
from typing import Any, NamedTuple

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link.cluster import CUT, MISSING, Node, Nodes, raise_if_demoted
from dpq.link.internals import socket_of


class Exchange(NamedTuple):
    """Commands on their way, over a connection that no other thread uses meanwhile."""

    connection: Any  # None if they could not be sent
    due: int  # the number of replies
    fault: Exception | None = None


class Link:
    """The connections to one node; each serves one thread at a time."""

    def __init__(self, nodes: Nodes, node: Node) -> None:
        self._nodes, self._node = nodes, node
        self._idle: list[Any] = []  # open connections that no thread uses now
        self._pid, self._losses = os.getpid(), nodes.losses

    def send(self, packed: bytes, count: int, *, alone: bool = False) -> Exchange:
        """Write packed commands; `receive` returns their replies."""
        if self._losses != self._nodes.losses or self._pid != os.getpid():
            self._forget_idle()
        connection, connected = None, False
        try:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread may have taken the last one just now
                connection = self._node.connection(health_check_interval=0)
                connection.connect()
            else:
                if self._nodes.sends_once and select.select([socket_of(connection)], [], [], 0)[0]:
                    connection.disconnect()  # the server has closed it: no reply is due
                    connection.connect()
            connected = True
            connection.send_packed_command((packed,), check_health=False)
        except BaseException as error:  # half of the commands may be on the wire
            hopeless = not connected and isinstance(error, RedisTimeoutError)
            return Exchange(None, count, self._broken(connection, error, hopeless=hopeless))
        return Exchange(connection, count)

    def receive(self, exchange: Exchange) -> list[Any]:
        """Read the replies; each may be an error."""
        connection, due, fault = exchange
        replies: list[Any] = []
        if connection is not None:
            try:
                for _ in range(due):
                    try:
                        replies.append(connection.read_response(disable_decoding=True))
                    except ResponseError as refusal:
                        replies.append(raise_if_demoted(refusal))
            except BaseException as error:  # replies may still come
                fault = self._broken(connection, error)
            else:
                self._idle.append(connection)
        replies += [fault] * (due - len(replies))
        return replies

    def _broken(
        self, connection: Any, error: BaseException, *, hopeless: bool = False
    ) -> Exception:
        """Close a connection; return the sign of its missing replies, or raise the error."""
        if connection is not None:
            connection.disconnect()
        if not isinstance(error, CUT):
            raise error
        self._nodes.lost()
        final = self._nodes.sends_once or (hopeless and not self._nodes.fails_over)
        return error if final else MISSING

    def _forget_idle(self) -> None:
        """Close all idle connections; a forked child leaves those of its parent alone."""
        if self._pid == os.getpid():
            self._losses = self._nodes.losses
            self.close()
        else:  # pragma: no cover - a test does it in a child
            self._idle, self._pid = [], os.getpid()

    def close(self) -> None:
        """Close the connections that no call uses now."""
        while self._idle:
            self._idle.pop().disconnect()
