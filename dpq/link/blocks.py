"""The rules of blocking on wake-up markers; `waiter` and `endpoint` send what they say. No I/O.

A marker is a member of a sorted set: `w` (score 0), "look now"; `e`, "look at this moment" (its
score, ms of the server's clock); or `d`, the same for a second waiter. A server ends a timed-out
block up to 100 ms late, so a block stays open on a connection of its own, and the client's own
timer ends the wait.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from dpq.link import watches
from dpq.link.cluster import Node, Nodes, raise_if_demoted, refused
from dpq.link.watches import Marker

RECHECKS_OF_A_BLOCK = 3
"""Looks without a marker during one block on the server. If the machine of a waiter has died, its
block takes one marker at most, and none after the end of the block."""

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


def connection_to(nodes: Nodes, key: str, retry: Any) -> tuple[Node, Any]:
    """Make a connection of its own to the node that holds a key."""
    node = nodes.home(key)
    settings = {"health_check_interval": 0, "socket_timeout": REPLY_TIMEOUT}
    return node, node.connection(retry=retry(NoBackoff(), 0), **settings)


def block_seconds(nodes: Nodes, left: float) -> float:
    """Return the seconds of a block: it outlasts a wait of `left` seconds, if DPQ can end it."""
    longest = watches.RECHECK_SECONDS
    if nodes.fails_over:
        longest = FAILOVER_RECHECK_SECONDS
    elif nodes.direct:
        longest *= RECHECKS_OF_A_BLOCK
    return longest if nodes.direct else min(left, longest)


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
    return Marker(markers.index(reply[0].decode()), float(reply[2]), reply[1] == b"d")


def markers_maybe_lost(markers: Sequence[str], blocks: Iterable[Any]) -> list[Marker]:
    """List the markers that a server may have sent into an ended connection, each as "look now"."""
    keys = (key for block in blocks if block.maybe_lost for key in block.markers)
    return [Marker(markers.index(key), 0) for key in keys]


def handing_on(markers: Sequence[str], owned: Iterable[Marker]) -> Iterator[tuple[Any, ...]]:
    """Make the commands that put back the markers that a waiter has taken out."""
    for number, moment, second in sorted(set(owned)):
        member = "d" if second else "e"
        yield ("ZADD", markers[number], *(("NX", f"{moment:.3f}", member) if moment else (0, "w")))
