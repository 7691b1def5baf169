"""Waiters: block on the wake-up markers of queues, for a time that the client measures.

`DPQ._take`, workers and the scheduler use them. A marker is a sorted set with one member. Its
member is `w` (score 0): "look now"; or `e`: "look at this moment" (its score, ms of the server's
clock). A server ends a timed-out block only at its own tick, up to 100 ms late. So the block stays
open on a connection of its own, and the client watches the socket with its own timer:

    BZPOPMIN {q}:wake 30.000   no marker within the wait: the block stays for the next wait
    CLIENT UNBLOCK 17          the caller stops waiting

Must not decide anything about tasks.
"""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from selectors import EVENT_READ, DefaultSelector
from typing import Any

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from dpq.link import watches
from dpq.link.cluster import CUT, Node, Nodes, ask, raise_if_demoted, refused
from dpq.link.internals import socket_of
from dpq.link.watches import Marker, Watch, time_left

RECHECKS_OF_A_BLOCK = 3
"""Looks without a marker during one block on the server. If the machine of a waiter has died, its
block takes one marker at most, and none after the end of the block."""

SHORT_SECONDS = 4.0
"""Seconds of a wait whose block does not outlast it: if a proxy hides from the server that the
waiter has gone, the block ends soon."""

FAILOVER_RECHECK_SECONDS = 2.0
"""Seconds of a block if another server may take over from a silent server. After this time and
`REPLY_TIMEOUT` the waiter gives up the silent server. Each block costs one plain command."""

REPLY_TIMEOUT = 2.0
"""Seconds to wait for a reply that a live server sends at once."""

ANSWERED_SECONDS = 0.1
"""Seconds to wait for the answer to a block that the server does not know any more: the answer is
under way, or the block was on another server."""

PAUSE_AFTER_FAULT = 0.1
"""Seconds to wait after a failed connection; the next pop has retries of its own."""

MOST_BLOCKS = 64
"""Connections of one waiter to a cluster, where each slot needs its own. A worker or a daemon with
more queues polls the others. By default a server takes 10 000 clients at most."""

_SHORTEST_BLOCK = 0.001  # a block of 0 s would never end


class Waiter:
    """Blocks on one or more markers (sorted sets with one member).

    On a single server one connection is enough. In a cluster there is one for each slot of the
    markers, up to 64; a marker of another slot wakes no waiter.

    Args:
        nodes: The servers behind a client; its pool is not used.
        markers: Keys of the markers.
    """

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        self._nodes = nodes
        self.markers = tuple(markers)
        slots = nodes.by_slot(markers)
        self.hears_all = len(slots) <= MOST_BLOCKS
        self._blocks = [_Block(nodes, some) for some in slots[:MOST_BLOCKS]]
        self._asked = self._blocks[0]  # the block whose answer is read next

    def wait(self, seconds: float) -> Marker | None:
        """Wait for a marker, at most so long."""
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
        except CUT:
            self._asked.lost()
            time.sleep(max(0.0, min(PAUSE_AFTER_FAULT, until - time.monotonic())))
        return None

    def _block_seconds(self, left: float) -> float:
        return block_seconds(self._nodes, left)

    def _answered(self, seconds: float) -> bool:
        """Wait until a block has an answer to read, at most so long; that block is read next."""
        if len(self._blocks) == 1:
            return self._asked.can_read(seconds)
        until = time.monotonic() + seconds
        with DefaultSelector() as selector:
            for block in self._blocks:
                selector.register(block.file(), EVENT_READ, block)
            while (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    self._asked = key.data
                    if self._asked.can_read(0):  # a part of a TLS record is no answer yet
                        return True
        return False

    def withdraw(self, owned: Iterable[Marker] = ()) -> None:
        """Stop waiting; put markers that came too late back for another waiter."""
        try:
            ended = [block for block in self._blocks if block.end()]
            replies = [block.read() for block in ended]
            late = [read_marker(self.markers, reply) for reply in replies if reply is not None]
            lost = markers_maybe_lost(self.markers, self._blocks)
            # The first of two may still go into a connection whose end the server has not seen.
            for some in ([*owned, *late, *lost], lost):
                for command in handing_on(self.markers, some):
                    ask(self._nodes.client, *command)
        except RedisError:  # no error here may cost a task that was popped
            self.close()

    def close(self) -> None:
        """Close the connections; the next wait opens them again."""
        for block in self._blocks:
            block.close()


class _Block:
    """One connection that blocks on the markers of one slot, and follows the slot if it moves."""

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        self._nodes = nodes
        self.markers = markers
        """The keys, in the order in which a server looks at them."""
        self._node: Node | None = None
        self._connection: Any = None
        self._client_id = 0  # 0 if the Redis user may not call CLIENT UNBLOCK
        self.maybe_lost = False
        """True if the connection was ended without an answer: a marker may be lost with it."""
        self.until: float | None = None
        """The time by which even a slow server answers, monotonic seconds; None: no block."""

    def begin(self, seconds: float) -> None:
        """Begin a block, unless one is open. If a block did not end in time, give the server up."""
        if self.until is not None:
            overdue = self._nodes.direct and time.monotonic() > self.until
            if overdue and not self.can_read(0):
                raise RedisTimeoutError("a block did not end in time")
            return
        if self._connection is None:
            self._node, self._connection = connection_to(self._nodes, self.markers[0], Retry)
            self._connection.connect()
            self._client_id = self._own_id() if self._nodes.unblocks else 0
        self._connection.send_command(*block_command(self.markers, seconds))
        self.until = time.monotonic() + seconds + REPLY_TIMEOUT

    def served(self, marker: str) -> None:
        """Put a marker last: a server looks at the markers in their order."""
        after = self.markers.index(marker) + 1
        self.markers = (*self.markers[after:], *self.markers[:after])

    def _own_id(self) -> int:
        self._connection.send_command("CLIENT", "ID")
        try:
            return int(self._connection.read_response())
        except ResponseError as refusal:
            self._nodes.unblocks_no_more(refusal)
            return 0

    def can_read(self, seconds: float) -> bool:
        """Wait for an answer, or for the end of the connection, at most so long."""
        return bool(self._connection.can_read(timeout=seconds))

    def file(self) -> Any:
        """Return the socket, for a selector."""
        return socket_of(self._connection)

    def read(self) -> Any:
        """Read the answer; None if the block ended without a marker."""
        try:
            reply = self._connection.read_response(disable_decoding=True)
        except ResponseError as refusal:
            raise cut(refusal) from None
        self.until = None
        return reply

    def end(self) -> bool:
        """Make the server end the block; return True if there is an answer to read."""
        self.maybe_lost = False
        if self.until is None or self._node is None:
            return False
        if self._nodes.of(self.markers[0]) is self._node:
            blocked = self._unblock(self._node) if self._client_id else None
            if blocked or (blocked is not None and not self._nodes.fails_over):
                return True
            if blocked is not None and self.can_read(ANSWERED_SECONDS):
                return True
            self.maybe_lost = blocked is None
        self.close()
        return False

    def _unblock(self, node: Node) -> bool | None:
        """Ask the server to end the block: False if it has none, None if the user may not ask."""
        try:
            return bool(ask(node.client, "CLIENT UNBLOCK", self._client_id))
        except ResponseError as refusal:
            self._nodes.unblocks_no_more(refusal)
            return None

    def lost(self) -> None:
        """Close the connection, and look for the node that holds the markers now."""
        self.close()
        if self._node:
            self._nodes.lost()

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection, self.until = self._connection, None, None
        if connection is not None:
            connection.disconnect()


def connection_to(nodes: Nodes, marker: str, retry: Any) -> tuple[Node, Any]:
    """Make a connection that blocks on a marker, to the node that holds it."""
    node = nodes.of(marker)
    if node is None:
        raise RedisConnectionError(f"no node of the cluster serves {marker}")
    settings = {"health_check_interval": 0, "socket_timeout": REPLY_TIMEOUT}
    return node, node.connection(retry=retry(NoBackoff(), 0), **settings)


def longest_block(nodes: Nodes) -> float:
    """Return the most seconds of a block on the server."""
    if nodes.fails_over:
        return FAILOVER_RECHECK_SECONDS
    recheck = watches.RECHECK_SECONDS
    return RECHECKS_OF_A_BLOCK * recheck if nodes.direct else recheck


def block_seconds(nodes: Nodes, left: float) -> float:
    """Return the seconds of a block for a wait of `left` seconds; a long wait has several
    blocks."""
    longest = longest_block(nodes)
    return longest if nodes.direct and left > SHORT_SECONDS else min(left, longest)


def patience(nodes: Nodes, blocks: Iterable[Any], left: float) -> float:
    """Return the seconds until the first open block is overdue, at most `left`."""
    if not nodes.direct:
        return left
    until: float = min(block.until for block in blocks)
    return max(0.0, min(left, until - time.monotonic()))


def block_command(markers: Sequence[str], seconds: float) -> tuple[str, ...]:
    """Make the command that blocks on markers."""
    return ("BZPOPMIN", *markers, f"{max(seconds, _SHORTEST_BLOCK):.3f}")


def cut(refusal: ResponseError) -> RedisError:
    """Return the error for a refused block: a connection error if another node has the marker."""
    return RedisConnectionError(str(refusal)) if refused(refusal) else raise_if_demoted(refusal)


def read_marker(markers: Sequence[str], reply: Any) -> Marker:
    """Read the marker from the answer to a block."""
    return Marker(markers.index(reply[0].decode()), float(reply[2]))


def markers_maybe_lost(markers: Sequence[str], blocks: Iterable[Any]) -> list[Marker]:
    """List the markers that a server may have sent into an ended connection, each as "look now"."""
    keys = (key for block in blocks if block.maybe_lost for key in block.markers)
    return [Marker(markers.index(key), 0) for key in keys]


def handing_on(markers: Sequence[str], owned: Iterable[Marker]) -> Iterator[tuple[Any, ...]]:
    """Make the commands that put back the markers that a waiter has taken out."""
    for number, moment in sorted(set(owned)):
        yield ("ZADD", markers[number], *(("NX", f"{moment:.3f}", "e") if moment else (0, "w")))


def sleep(waiter: Waiter, watches: Sequence[Watch], until: float) -> bool:
    """Sleep until it is time to look again; False if `until` has passed before."""
    if until <= time.monotonic():
        return False
    if not waiter.hears_all:
        for watch in watches:
            watch.hurry()
    while (wait := time_left(watches, until)) > 0:
        marker = waiter.wait(wait)
        if not marker:
            break
        watches[marker.number].marker_received(marker.moment)
    return True


class Waiters:
    """The waiters of one queue object: one for each waiting thread, kept for the next wait."""

    def __init__(self, nodes: Nodes, markers: Sequence[str]) -> None:
        self._nodes, self.markers = nodes, tuple(markers)
        self._kept: deque[Waiter] = deque()
        self._pid = os.getpid()

    @contextmanager
    def take(self) -> Iterator[Waiter]:
        """Lend a waiter for one wait; after an error it is closed, and not used again."""
        if self._pid != os.getpid():  # pragma: no cover - after a fork; a test does it in a child
            self._kept, self._pid = deque(), os.getpid()
        try:
            waiter = self._kept.pop()
        except IndexError:
            waiter = Waiter(self._nodes, self.markers)
        try:
            yield waiter
        except BaseException:
            waiter.close()
            raise
        self._kept.append(waiter)

    def close(self) -> None:
        """Close the waiters that no thread uses now."""
        while self._kept:
            self._kept.pop().close()
