"""Blocking on a wake-up marker, for a time that the client measures itself.

A marker says "look now" (`w`, score 0), or "you are the one to look at that moment" (`e`, its
score in ms of the server's clock). A server lets go of timed-out blocked clients only at its own
tick, up to 100 ms late. So the blocking read stays outstanding on a connection of its own, and
this side watches the socket with a timer of its own. Must not decide anything about tasks.
"""

import math
import os
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from typing import Any, NamedTuple

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from dpq.model.interrupts import raise_interruption
from dpq.protocol.replies import Batch
from dpq.transport.cluster import Node, Nodes, ask, own_connection, refused, told
from dpq.transport.connections import Idle

RECHECK_SECONDS = 5.0
"""How long a waiter trusts in being woken, and the server's own limit on its block. So a lost
wake-up costs at most this, and a dead waiter swallows one at most. lua/lib/notice.lua has it,
in ms."""

FAILOVER_RECHECK_SECONDS = 2.0
"""A block's limit where another server may take over from one that is silent: each costs one plain
command, and that server is given up after this and `REPLY_TIMEOUT`."""

REPLY_TIMEOUT = 2.0
"""Seconds for what a live server answers at once."""

ANSWERED_SECONDS = 0.1
"""For the answer to a block of which a server knows nothing any more: it is on the way, or was at
another server."""

HUNG_UP_SECONDS = 0.5
"""For the server's end of a connection that this side has ended: one round trip. A proxy that does
not pass the end on costs so long, and perhaps a wake-up."""

PAUSE_AFTER_FAULT = 0.1
"""Seconds; the pop that follows meets the same fault with its own retries."""

MOST_BLOCKS = 64
"""Connections of one waiter to a cluster, where each slot wants its own: of a worker or a daemon
with more queues. A server takes 10 000 clients at most, as it is set up."""

_SHORTEST_BLOCK = 0.001  # 0 would block for ever


class Marker(NamedTuple):
    """What woke a waiter, who now owns it.

    Attributes:
        number: Which of the waiter's markers, from 0.
        moment: When to look, ms of the server's clock; 0 for now.
    """

    number: int
    moment: float


class Waiter:
    """Blocks on one or more markers (one-member sorted sets).

    One connection does on a server, and in a cluster one for each slot that has markers of them:
    up to 64. What has happened at the others shows when somebody looks.

    Args:
        nodes: The servers behind a client; its pool is left alone.
        markers: Keys of the markers.
    """

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        self._nodes = nodes
        self.markers = tuple(markers)
        self._blocks = [_Block(nodes, some) for some in nodes.by_slot(markers)[:MOST_BLOCKS]]
        self._asked = self._blocks[0]  # the one that is to answer now

    def wait(self, seconds: float) -> Marker | None:
        """Wait for a marker, at most so long.

        Returns:
            None when none came; a fault of a connection ends the wait early: the caller looks
            again anyway.
        """
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                for block in self._blocks:
                    self._asked = block
                    block.begin(self._block_seconds(left))
                if not self._answered(patience(self._nodes, self._blocks, left)):
                    continue
                if (reply := self._asked.read()) is not None:
                    return read_marker(self.markers, reply)
        except (RedisConnectionError, RedisTimeoutError) as error:
            raise_interruption(error)
            self._asked.lost()
            time.sleep(max(0.0, min(PAUSE_AFTER_FAULT, until - time.monotonic())))
        return None

    def _block_seconds(self, left: float) -> float:
        return min(left, longest_block(self._nodes))

    def _answered(self, seconds: float) -> bool:
        """Whether a block has something to read within so long: then that one is asked next."""
        if len(self._blocks) == 1:
            return self._asked.can_read(seconds)
        until = time.monotonic() + seconds
        with DefaultSelector() as selector:
            for block in self._blocks:
                selector.register(block.file(), EVENT_READ, block)
            while (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    self._asked = key.data
                    if self._asked.can_read(0):  # what a TLS layer keeps to itself is nothing
                        return True
        return False

    def withdraw(self, watched: Iterable[Marker] = ()) -> None:
        """Stop waiting. Markers that came too late for this waiter are handed on to the next one.

        Args:
            watched: What this waiter was to watch for, if it goes without having looked.
        """
        try:
            ended = [block for block in self._blocks if block.end()]
            replies = [block.read() for block in ended]
            late = [read_marker(self.markers, reply) for reply in replies if reply is not None]
            late += doubtful(self.markers, self._blocks)
            for command in handing_on(self.markers, [*watched, *late]):
                ask(self._nodes.client, *command)
        except RedisError as error:  # refused or cut: never at the cost of a task that was popped
            raise_interruption(error)
            self.close()

    def close(self) -> None:
        """Drop the connections; the next wait opens them again."""
        for block in self._blocks:
            block.close()


class _Block:
    """One connection that blocks on markers of one slot, and finds them again when they move."""

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        self._nodes = nodes
        self.markers = markers
        """The keys, in the order in which a server looks at them."""
        self._node: Node | None = None
        self._connection: Any = None
        self._client_id: int | None = None  # 0 while nobody may use it
        self._hung_up = False
        self.in_doubt = False
        """The connection was ended, and nothing came: the server may have sent a marker into it."""
        self.until: float | None = None
        """When even a slow server has answered, monotonic seconds; None while nothing is asked."""

    def begin(self, seconds: float) -> None:
        """Block, unless it does. A server that does not even end it in time is given up.

        Raises:
            ConnectionError, TimeoutError: There is no answer.
        """
        if self.until is not None:
            overdue = self._nodes.direct and time.monotonic() > self.until
            if overdue and not self.can_read(0):
                raise RedisTimeoutError("a block did not end in time")
            return
        if self._connection is None:
            self._connect()
        if self._client_id is None:
            self._connection.connect()  # it asks Sentinels where to go, as sending does not
            self._client_id = self._own_id() if self._nodes.unblocks else 0
        self._connection.send_command(*block_command(self.markers, seconds))
        self.until = time.monotonic() + seconds + REPLY_TIMEOUT

    def served(self, marker: str) -> None:
        """Let a marker come last: a server looks at them in their order."""
        after = self.markers.index(marker) + 1
        self.markers = (*self.markers[after:], *self.markers[:after])

    def _connect(self) -> None:
        self._node, self._connection = connection_to(self._nodes, self.markers[0], Retry)

    def _own_id(self) -> int:
        self._connection.send_command("CLIENT", "ID")
        try:
            return int(self._connection.read_response())
        except ResponseError as refusal:
            self._nodes.unblocks_no_more(refusal)
            return 0

    def can_read(self, seconds: float) -> bool:
        """Whether there is an answer, or an end of the connection, within so long."""
        return bool(self._connection.can_read(timeout=seconds))

    def file(self) -> Any:
        """What a selector watches."""
        return self._connection._get_socket()

    def read(self) -> Any:
        """The answer; None when the block ended without a marker.

        Raises:
            ConnectionError: The node does not hold the marker any more.
        """
        hung_up = self._hung_up
        try:
            reply = self._connection.read_response(disable_decoding=True)
        except ResponseError as refusal:
            raise cut(refusal) from None
        except RedisConnectionError:
            if not hung_up:
                raise
            reply, self.in_doubt = None, True
        self.until = None
        if hung_up:
            self.close()
        return reply

    def end(self) -> bool:
        """Have the server end the block, for `read` to tell.

        False when there is none, or when another server is in charge by now: a silent one would
        take the time of the task that was popped at that one.
        """
        self.in_doubt = False
        if self.until is None or self._node is None:
            return False
        if self._nodes.of(self.markers[0]) is self._node:
            blocked = self._unblock(self._node) if self._client_id else None
            if blocked is None:
                if self._hang_up():
                    return True
            elif blocked or not self._nodes.fails_over or self.can_read(ANSWERED_SECONDS):
                return True
        self.close()
        return False

    def _hang_up(self) -> bool:
        """End the connection in its order; whether there is something to read then."""
        hang_up(self._connection._get_socket().fileno())
        with suppress(
            RedisConnectionError
        ):  # the server's end comes with the answer, or as an error
            if not self.can_read(HUNG_UP_SECONDS):
                self.in_doubt = True
                return False
        self._hung_up = True
        return True

    def _unblock(self, node: Node) -> bool | None:
        """Whether the server has ended the block; None when this user may not ask for it."""
        try:
            return bool(ask(node.client, "CLIENT UNBLOCK", self._client_id))
        except ResponseError as refusal:
            self._nodes.unblocks_no_more(refusal)
            return None

    def lost(self) -> None:
        """Drop the connection, and look where to find the markers now."""
        self.close()
        if self._node:
            self._nodes.lost(self._node)

    def close(self) -> None:
        """Drop the connection."""
        self._client_id, self.until, self._hung_up = None, None, False
        if self._connection is not None:
            self._connection.disconnect()
        if self._nodes.clustered:
            self._connection = None


def connection_to(nodes: Nodes, marker: str, retry: Any) -> tuple[Node, Any]:
    """A connection to block on a marker, to the node that holds it.

    Args:
        nodes: The servers behind a client.
        marker: Its key.
        retry: The client's kind of it: nothing may be sent again over a blocked connection.

    Raises:
        ConnectionError: Nobody holds it.
    """
    node = nodes.of(marker)
    if node is None:
        raise RedisConnectionError(f"no node of the cluster serves {marker}")
    settings = {"health_check_interval": 0, "socket_timeout": REPLY_TIMEOUT}
    return node, own_connection(node, retry=retry(NoBackoff(), 0), **settings)


def hang_up(file: int) -> None:
    """End this side of a connection: the server answers with its own end, or with what it has sent.

    So it ends a block without CLIENT UNBLOCK. The price is a new connection for the next wait, and
    a doubt when no answer comes: a server drops what it was to send in the turn of its loop in
    which it sees the end.

    Args:
        file: The number of the socket: TLS layers and event loops have other ways to say the end.
    """
    with socket.socket(fileno=os.dup(file)) as same, suppress(OSError):
        same.shutdown(socket.SHUT_WR)


def longest_block(nodes: Nodes) -> float:
    """Seconds after which the server is to end a block, at the latest."""
    return FAILOVER_RECHECK_SECONDS if nodes.fails_over else RECHECK_SECONDS


def patience(nodes: Nodes, blocks: Iterable[Any], left: float) -> float:
    """Seconds until one of the blocks that were begun is overdue, at most so many."""
    if not nodes.direct:
        return left
    until: float = min(block.until for block in blocks)
    return max(0.0, min(left, until - time.monotonic()))


def block_command(markers: Sequence[str], seconds: float) -> tuple[str, ...]:
    """The command that blocks on markers."""
    return ("BZPOPMIN", *markers, f"{max(seconds, _SHORTEST_BLOCK):.3f}")


def cut(refusal: ResponseError) -> RedisError:
    """What a refused block means: the end of its connection, when the marker is elsewhere now."""
    return RedisConnectionError(str(refusal)) if refused(refusal) else told(refusal)


def read_marker(markers: Sequence[str], reply: Any) -> Marker:
    """The marker in the answer to a block."""
    return Marker(markers.index(reply[0].decode()), float(reply[2]))


def doubtful(markers: Sequence[str], blocks: Iterable[Any]) -> list[Marker]:
    """The markers that a server may have sent into a connection that was ended: look now."""
    keys = (key for block in blocks if block.in_doubt for key in block.markers)
    return [Marker(markers.index(key), 0) for key in keys]


def handing_on(markers: Sequence[str], owned: Iterable[Marker]) -> Iterator[tuple[Any, ...]]:
    """The commands that put back what a waiter has taken out.

    A moment that stands there already is newer than what is put back: who has set it knew of that.
    """
    for number, moment in sorted(set(owned)):
        yield ("ZADD", markers[number], *(("NX", f"{moment:.3f}", "e") if moment else (0, "w")))


class Watch:
    """How long one waiter sleeps after it has looked, and for which moment.

    Args:
        now_ms: The server's clock when it looked, ms.
        wait_ms: How long until it is to look again by itself; None when another one does.

    Attributes:
        moment: What it watches for, ms of the server's clock; None for nothing.
        called: A marker said "look now".
        look_at: When to look again by itself, monotonic seconds.
    """

    def __init__(self, now_ms: float, wait_ms: float | None) -> None:
        looked = time.monotonic()
        self._offset = looked - now_ms / 1000  # never too early: the answer was under way
        self.look_at = looked + RECHECK_SECONDS
        self.moment: float | None = None
        self.called = False
        if wait_ms is not None and wait_ms < RECHECK_SECONDS * 1000:
            self.told(now_ms + wait_ms)

    def told(self, moment: float) -> None:
        """Watch for a moment that a marker named, or look now for 0."""
        if moment == 0:
            self.called, self.look_at = True, -math.inf
            return
        self.moment = moment
        self.look_at = min(self.look_at, moment / 1000 + self._offset)

    @property
    def mine(self) -> str:
        """The moment as pop takes it; 0 for none."""
        return f"{self.moment:.3f}" if self.moment else "0"


def sleep(waiter: Waiter, watches: Sequence[Watch], until: float) -> bool:
    """Sleep until it is time to look again; False when `until` (monotonic) has passed before.

    Args:
        waiter: Its markers are those of the watches, in the same order.
        watches: One for each queue that was found empty.
        until: The caller's patience.
    """
    if until <= time.monotonic():
        return False
    while (wait := time_left(watches, until)) > 0:
        marker = waiter.wait(wait)
        if not marker:
            break
        watches[marker.number].told(marker.moment)
    return True


def time_left(watches: Sequence[Watch], until: float) -> float:
    """Seconds until the first of the watches is to look, or the caller's patience ends."""
    return min(until, *(watch.look_at for watch in watches)) - time.monotonic()


def looked(batch: Batch[Any], before: Sequence[Watch] = ()) -> list[Watch]:
    """For what a waiter watches after a pop: in each partition, where it has looked anew.

    Where it has taken a task it watches no more.
    """
    if batch.looks is None:
        return [] if batch.tasks else [Watch(batch.now_ms, batch.next_event_ms)]
    count = len(before) or 1 + max(batch.looks)
    watches = [*before] or [Watch(0, None)] * count
    for place, look in batch.looks.items():
        watches[place] = Watch(*look)
    return watches


def asking(watches: Sequence[Watch]) -> str:
    """As whom a waiter asks: for each partition, with a space between, what it watches for.

    Nothing for those where it is not time to look; all are asked where none is due.
    """
    now = time.monotonic()
    due = [watch.look_at <= now for watch in watches]
    if not any(due):
        return " ".join(watch.mine for watch in watches)
    return " ".join(watch.mine if look else "" for watch, look in zip(watches, due, strict=True))


def watched(watches: Sequence[Watch]) -> list[Marker]:
    """What the watches were told, and have not looked for."""
    called = [Marker(number, 0) for number, watch in enumerate(watches) if watch.called]
    told = ((number, watch.moment) for number, watch in enumerate(watches))
    return called + [Marker(number, moment) for number, moment in told if moment is not None]


class Waiters:
    """The waiters of one queue object: one for each thread that waits, kept for the next wait."""

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        self.markers = tuple(markers)
        self._idle = Idle(partial(Waiter, nodes, self.markers))

    @contextmanager
    def take(self) -> Iterator[Waiter]:
        """Use a waiter for one wait; one that was left by an error is not used again."""
        waiter = self._idle.take()
        try:
            yield waiter
        except BaseException as error:
            waiter.close()
            raise_interruption(error)
            raise
        self._idle.kept.append(waiter)

    def close(self) -> None:
        """Close the connections that nobody is waiting on."""
        while self._idle.kept:
            self._idle.kept.pop().close()
