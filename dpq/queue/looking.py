"""A queue object for screens: a server that does not answer is known after 3 s.

The dashboard, the metrics and `dpq queues` read through it. It must not change anything:
a reply that is late counts as missing, and nothing is sent twice.
"""

from __future__ import annotations

from copy import copy
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from redis import BlockingConnectionPool, ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from dpq.explain.verdict_facts import SILENT
from dpq.link.connections import Connections
from dpq.link.internals import no_notices
from dpq.link.session import QueueSession
from dpq.model.validation import one_line

if TYPE_CHECKING:
    from dpq.model.task import P
    from dpq.queue.queue import DPQ

LOOK_SECONDS = 3.0
"""Seconds that a screen waits for a reply: scripts take milliseconds, and a person waits."""

_clients: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_lock = Lock()


def looking_client(client: Any) -> Any:
    """Return a client of the same server that waits at most `LOOK_SECONDS`, and never retries.

    A client of a cluster or of Sentinels, a subclass and a double are returned as they are: DPQ's
    URLs give the first two the same timeout.
    """
    pool: Any = getattr(client, "connection_pool", None)
    plain = type(client) is Redis and client.connection is None
    if not plain or type(pool) not in (ConnectionPool, BlockingConnectionPool):
        return client
    with _lock:
        if client not in _clients:
            settings = dict(pool.connection_kwargs)
            timeout = min(settings.get("socket_timeout") or LOOK_SECONDS, LOOK_SECONDS)
            settings |= {"socket_timeout": timeout, "retry": Retry(NoBackoff(), 0)}
            settings |= no_notices(settings)  # they would lengthen the timeout
            kind = pool.connection_class
            _clients[client] = Redis.from_pool(ConnectionPool(connection_class=kind, **settings))
        return _clients[client]


def looking(queue: DPQ[P]) -> DPQ[P]:
    """Return a queue object for reading: it shares all but the connections with another one."""
    client, session = looking_client(queue.redis), queue._session
    if client is queue.redis:
        return queue
    seen = copy(queue)
    seen._redis = client
    seen._session = QueueSession(Connections(client), session.operations)
    seen._session.opened_label = session.opened_label
    return seen


def no_answer(error: BaseException) -> str:
    """Say in one line why a server does not answer, for the verdict `server away`."""
    silent = isinstance(error, RedisTimeoutError) and "Timeout connecting" not in str(error)
    return f"{SILENT} for {LOOK_SECONDS:g} s" if silent else one_line(error)
