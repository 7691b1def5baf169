"""The nodes that hold the keys: the only server, or in a cluster the master of each slot.

`connections` and `endpoint` ask `Nodes.of` for the node of a key, and open connections of their own
to it. If that fails, `Connections` sends through the client itself, which follows redirections and
learns the new slots. Must not know about tasks.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache
from typing import Any

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    ClusterError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq.link import internals

CANNOT_LOAD = (
    "the server does not know DPQ's scripts (it forgets them when it starts, and a replica that "
    "takes over never had them), and this user may not load them: run `dpq doctor --load-scripts` "
    "as a user with +script|load, or a scheduler as one (docs/security.md)"
)

_FORBIDDEN = re.compile("ACL failure|can't (?:run|access)|no permission", re.IGNORECASE)

CUT = (RedisConnectionError, RedisTimeoutError)
"""The errors that stand for a missing reply: the server may have run the command, or not."""

MISSING = RedisConnectionError("the connection was cut")
"""The sign for a missing reply of a command that may be sent again."""

_REFUSALS = (AskError, TryAgainError, ClusterDownError)  # MovedError is a subclass of AskError


class Node:
    """One server.

    `client` (in an asyncio cluster: a node) has its connection settings; `changes` are DPQ's own.
    """

    __slots__ = ("changes", "client", "name")

    def __init__(self, name: str, client: Any, changes: Mapping[str, Any]) -> None:
        self.name, self.client, self.changes = name, client, changes

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the client's connections."""
        settings: dict[str, Any] = internals.pool_of(self.client).connection_kwargs
        return settings

    def connection(self, **changes: Any) -> Any:
        """Make a connection with the client's settings, outside of its pool."""
        settings = self.settings
        changes |= {"protocol": 2, "decode_responses": False, **internals.no_notices(settings)}
        kind = internals.pool_of(self.client).connection_class
        return kind(**{**settings, **self.changes, **changes})


def refused(error: object) -> bool:
    """Return True if a server has refused a command, since it does not hold the keys."""
    return isinstance(error, _REFUSALS)


FULL = (
    "the server's memory is full (maxmemory), so it refuses this call: raise maxmemory, or remove "
    "what fills it, such as dead letters"
)
NO_DISK = (
    "the server cannot write its data to disk, so it refuses all changes: look in its log for a "
    "full disk or missing rights"
)
REPLICA = (
    "the server is a read-only replica, so it refuses all changes: give DPQ its master's address"
)
"""Refusals of a server in words, without the name of a script."""


def raise_if_demoted(error: ResponseError) -> ResponseError:
    """Return the error of a server, in words if it refuses all calls; raise if it is no master."""
    text = str(error)
    if isinstance(error, ReadOnlyError) or "-READONLY" in text or text.startswith("UNBLOCKED"):
        raise RedisConnectionError(text) from error
    if isinstance(error, OutOfMemoryError) or "OOM " in text[:5]:
        return OutOfMemoryError(FULL)
    return ResponseError(f"MISCONF: {NO_DISK}") if "MISCONF" in text[:9] else error


def forbidden(error: object) -> bool:
    """Return True if the Redis user may not log in, or may not run the command."""
    return isinstance(error, AuthenticationError | NoPermissionError) or (
        isinstance(error, ResponseError) and bool(_FORBIDDEN.search(str(error)))
    )


def may_not_eval(error: object) -> bool:
    """Return True if a server has refused EVAL itself, not a command in the script."""
    return forbidden(error) and "'eval' command" in str(error).lower()


def is_undone(reply: object) -> bool:
    """Return True if a command is to be sent once more: no server has run it, or none may have."""
    return reply is MISSING or isinstance(reply, NoScriptError) or refused(reply)


class NotWrittenError(RedisConnectionError):
    """The event loop had closed the connection before the command was written."""


@contextmanager
def reachable() -> Iterator[None]:
    """Convert the errors that redis-py lets pass, or raises for a cluster, into a `RedisError`."""
    try:
        yield
    except RedisClusterException as error:
        raise RedisConnectionError(str(error)) from error
    except ReadOnlyError:
        raise ReadOnlyError(REPLICA) from None
    except AttributeError as error:
        if "'NoneType'" not in str(error):
            raise
        raise ClusterError("redirected to a node that has no slot yet") from error
    except RuntimeError as error:  # uvloop's, which redis-py lets pass
        if "the handler is closed" not in str(error):
            raise
        raise NotWrittenError(str(error)) from error


_OF_A_NODE = {"redis_connect_func": None}
"""Differences from a cluster's settings of connections: redis-py's own function sends READONLY."""


@lru_cache(10_000)
def _slot(key: str) -> int:
    return int(key_slot(key.encode()))


class Nodes:
    """The servers behind a client, which is direct if DPQ may open connections beside its pool: no
    double, no subclass."""

    _plain: type = Redis
    _cluster: type = RedisCluster

    def __init__(self, client: Any) -> None:
        self.client = client
        own = getattr(type(client), "execute_command", None)
        of_cluster = own is getattr(self._cluster, "execute_command")  # noqa: B009
        self.clustered = isinstance(client, self._cluster) and of_cluster
        self.direct = self.clustered or (
            type(client) is self._plain
            and not getattr(client, "connection", None)
            and not getattr(client, "single_connection_client", False)
        )
        self.only = Node("", client, {})  # the server, if there is no cluster
        self.losses = 0  # times that a master named by Sentinels was cut off or silent
        self.unblocks = True  # the Redis user may call CLIENT UNBLOCK, as far as DPQ knows
        self._known: dict[str, Node] = {}

    def ready(self) -> None:
        """Read the nodes: a blocking client does so by itself."""

    def of(self, key: str) -> Node | None:
        """Return the node that holds a key, as far as the client knows; None if it does not."""
        if not self.clustered:
            return self.only
        with reachable():
            holder = internals.holder_of(self.client, _slot(key))
        if holder and holder.name not in self._known:
            self._known[holder.name] = Node(holder.name, self._client_of(holder), _OF_A_NODE)
        return self._known[holder.name] if holder else None

    def home(self, key: str) -> Node:
        """Return the node that holds a key; raise RedisConnectionError if the client knows none."""
        if node := self.of(key):
            return node
        raise RedisConnectionError(f"no node of the cluster serves {key}")

    def _client_of(self, holder: Any) -> Any:
        return self.client.get_redis_connection(holder)

    @property
    def label(self) -> str:
        """The name of the servers in errors: an address, or the known ones of a cluster."""
        if self.clustered:
            return ",".join(internals.startup_nodes(self.client))
        settings = getattr(getattr(self.client, "connection_pool", None), "connection_kwargs", {})
        return str(settings.get("path") or f"{settings.get('host')}:{settings.get('port')}")

    def split(self, keys: Iterable[str]) -> dict[Node | None, list[int]]:
        """Find the nodes that hold keys, and for each node the positions of its keys."""
        parts: dict[Node | None, list[int]] = {}
        for position, key in enumerate(keys):
            parts.setdefault(self.of(key), []).append(position)
        return parts

    def by_slot(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Group keys by slot: one command may name the keys of one slot only."""
        if not self.clustered:
            return [tuple(keys)]
        slots: dict[int, list[str]] = {}
        for key in keys:
            slots.setdefault(_slot(key), []).append(key)
        return [tuple(together) for together in slots.values()]

    @cached_property
    def sends_once(self) -> bool:
        """True if the client has no retries: a call that may have run is never sent again."""
        holder = self.client if self.clustered else self.only.connection()
        return bool(holder.retry.get_retries() == 0)

    @property
    def finds_master(self) -> bool:
        """True if connections ask Sentinels for the address of the master."""
        return hasattr(getattr(self.client, "connection_pool", None), "sentinel_manager")

    @property
    def fails_over(self) -> bool:
        """True if another server may take over while this one is silent."""
        return self.clustered or self.finds_master

    def learn(self) -> None:
        """Make a cluster's client read the nodes anew, as far as it can."""
        if self.clustered:
            with suppress(RedisError, RedisClusterException):
                internals.learn_nodes(self.client)

    def lost(self) -> None:
        """Look for the server that replaces one which was cut off, or is silent."""
        if self.finds_master:  # idle connections lead to the same node, and would fail too
            self.losses += 1
            self.client.connection_pool.disconnect(inuse_connections=False)
        self.learn()


class AsyncNodes(Nodes):
    """The servers behind an asyncio client; call `ready` before `of`."""

    _plain, _cluster = AsyncRedis, AsyncRedisCluster

    async def ready(self) -> None:  # type: ignore[override]
        """Make the client read the nodes of its cluster."""
        if self.clustered:
            with reachable():
                await self.client.initialize()

    def _client_of(self, holder: Any) -> Any:
        return holder

    async def learn_async(self) -> None:
        """Async `learn`."""
        if self.clustered:
            with suppress(RedisError, RedisClusterException):
                await internals.learn_nodes(self.client)

    async def lost_async(self) -> None:
        """Async `lost`."""
        if self.finds_master:
            self.losses += 1
            await self.client.connection_pool.disconnect(inuse_connections=False)
        await self.learn_async()
