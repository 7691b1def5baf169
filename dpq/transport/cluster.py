"""The nodes that hold the keys: the only server, or in a cluster the master of each slot.

`connections` and `waiter` call it; no other module knows about clusters. They ask `Nodes.of` for
the node of a key, and open connections of their own to it (`own_connection`). If that fails, they
send through the client itself (`ask`), which follows redirections and learns the new slots; `of`
reads them from the client. Must not know about tasks.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Any, Self, TypeVar

from redis import Redis, RedisCluster
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelConnectionPool
from redis.client import NEVER_DECODE
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    ClusterError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from dpq.model.interrupts import interruption, raise_interruption

T = TypeVar("T")

RIDE_OUT_SECONDS = 3.0
"""Seconds for which a call that no server has run is repeated. While a slot moves, its keys are on
two nodes. During a failover a cluster refuses every call. redis-py alone repeats for 0.4 s."""

_PAUSE_SECONDS = 0.1

_FORBIDDEN = re.compile("ACL failure|can't (?:run|access)|no permission", re.IGNORECASE)

MISSING = RedisConnectionError("the connection was cut")
"""The sign for a missing reply of a command that may be sent again."""

_NOT_WRITTEN = "the handler is closed"
"""The words of uvloop's RuntimeError for a write to a connection that it has closed."""

_REFUSALS = (AskError, TryAgainError, ClusterDownError)  # MovedError is a subclass of AskError


class Node:
    """One server.

    Attributes:
        name: Its name in the cluster.
        client: The client, or the node of an asyncio cluster, that has its connection settings.
        changes: The settings that are different for DPQ's own connections.
    """

    __slots__ = ("changes", "client", "name")

    def __init__(self, name: str, client: Any, changes: Mapping[str, Any]) -> None:
        self.name = name
        self.client = client
        self.changes = changes

    @property
    def timeout(self) -> float | None:
        """The client's timeout for a reply, seconds; None if it waits for ever."""
        pool = getattr(self.client, "connection_pool", self.client)
        timeout: float | None = pool.connection_kwargs.get("socket_timeout")
        return timeout


def own_connection(node: Node, **changes: Any) -> Any:
    """Make a connection with a client's settings, outside of its pool.

    It speaks RESP2, so that only replies arrive on it; scripts reply the same in both protocols.
    """
    pool = getattr(node.client, "connection_pool", node.client)
    settings = {**pool.connection_kwargs, "protocol": 2, "decode_responses": False}
    if "maint_notifications_config" in settings:  # maintenance notifications need RESP3 or hiredis
        settings["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)
    try:
        connection = pool.connection_class(**{**settings, **node.changes, **changes})
    except RedisError as error:  # redis-py converts a ValueError of a signal handler
        raise_interruption(error)
        raise
    except OSError as error:  # redis-py reads its version from a file, and no file number is left
        raise_interruption(error)
        raise RedisConnectionError(f"no connection can be made: {error}") from error
    if heedful := _HEEDFUL.get(type(connection.retry)):  # a subclass of Retry is kept as it is
        connection.retry = heedful.like(connection.retry)
    return connection


class HeedfulRetry(Retry):
    """A `Retry` that does not take the error of a signal handler for a network error."""

    @classmethod
    def like(cls, retry: Retry) -> Self:
        """Make a `HeedfulRetry` with the settings of a `Retry`."""
        return cls(retry._backoff, retry._retries, retry._supported_errors)

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """Call as redis-py does, but raise the error of a signal handler at once."""

        heed = _heeding(is_retryable)
        return super().call_with_retry(do, fail, heed, with_failure_count)


class HeedfulAsyncRetry(AsyncRetry):
    """Async `HeedfulRetry`."""

    @classmethod
    def like(cls, retry: AsyncRetry) -> Self:
        """Make a `HeedfulAsyncRetry` with the settings of an `AsyncRetry`."""
        return cls(retry._backoff, retry._retries, retry._supported_errors)

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[T]],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """Call as redis-py does, but raise the error of a signal handler at once."""
        heed = _heeding(is_retryable)
        return await super().call_with_retry(do, fail, heed, with_failure_count)


def _heeding(is_retryable: Callable[[Exception], bool] | None) -> Callable[[Exception], bool]:
    return lambda error: not interruption(error) and (is_retryable is None or is_retryable(error))


_HEEDFUL: dict[type, Any] = {Retry: HeedfulRetry, AsyncRetry: HeedfulAsyncRetry}


# What goes wrong


def refused(error: object) -> bool:
    """Return True if a server has refused a command, since it does not hold the keys."""
    return isinstance(error, _REFUSALS)


def raise_if_demoted(error: ResponseError) -> ResponseError:
    """Return the error that a server has answered; raise if the server is no master any more.

    Raises:
        ConnectionError: The server was demoted. Redis 6.2 says so only in the error's text.
    """
    text = str(error)
    if isinstance(error, ReadOnlyError) or "-READONLY" in text or text.startswith("UNBLOCKED"):
        raise RedisConnectionError(text) from error
    return error


def forbidden(error: object) -> bool:
    """Return True if the Redis user may not log in, or may not run the command.

    The error comes again until the rights of the user are changed. If a script calls a forbidden
    command, some servers send an error without its class, only with its text.
    """
    return isinstance(error, AuthenticationError | NoPermissionError) or (
        isinstance(error, ResponseError) and bool(_FORBIDDEN.search(str(error)))
    )


@contextmanager
def unspoiled(client: Any) -> Iterator[None]:
    """Close a client's idle connections after an interrupt, so that no call reads an old reply.

    If a call is interrupted between command and reply, redis-py still puts its connection back
    into the pool. Before the next use it does not check connections that speak RESP3.

    Raises:
        BaseException: The error that interrupted the call, instead of redis-py's own.
    """
    try:
        yield
    except RedisError as error:
        if found := interruption(error):
            close_idle(client)
            raise found from None
        raise
    except BaseException as error:
        close_idle(client)
        raise_interruption(error)
        raise


def close_idle(client: Any) -> None:
    """Close all connections of a client that no call uses now."""
    if own := _own_connection(client):
        own.disconnect()
    for pool in _pools(client):
        pool.disconnect(inuse_connections=False)


def _own_connection(client: Any) -> Any:
    """Return the connection of a single-connection client; None for all other clients."""
    return client.connection if isinstance(client, Redis | AsyncRedis) else None


def _pools(client: Any) -> Iterator[Any]:
    manager = vars(client).get("nodes_manager") if isinstance(client, RedisCluster) else None
    for node in list(manager.nodes_cache.values()) if manager else ():
        if node.redis_connection:
            yield node.redis_connection.connection_pool
    if isinstance(client, Redis | AsyncRedis):
        yield client.connection_pool


async def close_idle_async(client: Any) -> None:
    """Async `close_idle`."""
    if isinstance(client, AsyncRedis):
        if client.connection:
            await client.connection.disconnect()
        await client.connection_pool.disconnect(inuse_connections=False)
    elif isinstance(client, AsyncRedisCluster):
        for node in client.nodes_manager.nodes_cache.values():
            for connection in list(node._free):
                await connection.disconnect()


@asynccontextmanager
async def unspoiled_async(client: Any) -> AsyncIterator[None]:
    """Async `unspoiled`. A call that is cancelled closes its connection itself."""
    try:
        yield
    except asyncio.CancelledError:
        raise
    except RedisError as error:
        if found := interruption(error):
            await close_idle_async(client)
            raise found from None
        raise
    except BaseException as error:
        await close_idle_async(client)
        raise_interruption(error)
        raise


def passed_on(error: BaseException) -> bool:
    """Return True if an asyncio task may pass this error to the callers that wait for its result.

    asyncio itself raises KeyboardInterrupt and SystemExit out of the event loop.
    """
    ends = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
    return not isinstance(error, ends)


class NotWrittenError(RedisConnectionError):
    """The event loop had closed the connection before the command was written."""


@contextmanager
def writing() -> Iterator[None]:
    """Convert uvloop's error for a write to a closed connection into a `RedisError`.

    The reader of the connection does not know yet that the server has cut it. If asyncio's own loop
    meets that, redis-py raises ConnectionError. uvloop raises RuntimeError, which redis-py lets
    pass.

    Raises:
        NotWrittenError: Nothing was sent.
    """
    try:
        yield
    except RuntimeError as error:
        if _NOT_WRITTEN not in str(error):
            raise
        raise NotWrittenError(str(error)) from error


@contextmanager
def reachable() -> Iterator[None]:
    """Convert the errors that redis-py lets pass, or raises for a cluster, into a `RedisError`.

    The first of these errors is a fault of redis-py: if ASK redirects it to a node without a slot,
    it raises AttributeError. The second error is raised by uvloop: see `writing`.
    """
    try:
        with writing():
            yield
    except RedisClusterException as error:
        raise RedisConnectionError(str(error)) from error
    except AttributeError as error:
        if "'NoneType'" not in str(error):
            raise
        raise ClusterError("redirected to a node that has no slot yet") from error


def ask(client: Any, *command: Any) -> Any:
    """Send a command through a client, with its retries and redirections; return the raw reply.

    Raises:
        RedisError: As the client raises it.
    """
    give_up = time.monotonic() + RIDE_OUT_SECONDS
    while True:
        try:
            with unspoiled(client), reachable():
                return client.execute_command(*command, **{NEVER_DECODE: True})
        except ClusterError:
            if time.monotonic() > give_up:
                raise
        time.sleep(_PAUSE_SECONDS)


async def ask_async(client: Any, *command: Any) -> Any:
    """Async `ask`; a command that was not written is repeated over another connection."""
    give_up = time.monotonic() + RIDE_OUT_SECONDS
    while True:
        try:
            async with unspoiled_async(client):
                with reachable():
                    return await client.execute_command(*command, **{NEVER_DECODE: True})
        except (ClusterError, NotWrittenError):
            if time.monotonic() > give_up:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


# Where things are


@cache
def _slot(key: str) -> int:
    return int(key_slot(key.encode()))


class Nodes:
    """The servers behind a blocking client.

    Attributes:
        client: The client.
        direct: DPQ may open connections beside the client's pool. False for test doubles, and for
            subclasses, which may change a command.
        clustered: The client is a direct client of a cluster.
        only: The server, if the client is not of a cluster.
        losses: The number of times that a master named by Sentinels was cut off or silent: then
            older connections are not used again.
        unblocks: The Redis user may call CLIENT UNBLOCK, as far as DPQ knows.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.clustered = self._is_cluster(client)
        self.direct = self.clustered or self._is_plain(client)
        self.only = Node("", client, {})
        self.losses = 0
        self.unblocks = True
        self._known: dict[str, Node] = {}

    @staticmethod
    def _is_plain(client: Any) -> bool:
        return type(client) is Redis and client.connection is None

    @staticmethod
    def _is_cluster(client: Any) -> bool:
        own = getattr(type(client), "execute_command", None)
        return isinstance(client, RedisCluster) and own is RedisCluster.execute_command

    def of(self, key: str) -> Node | None:
        """Return the node that holds a key, as far as the client knows; None if it does not.

        Raises:
            RedisError: No node of the cluster can be reached.
        """
        if not self.clustered:
            return self.only
        holder = self._holder(key)
        if holder is None:
            return None
        node = self._known.get(holder.name)
        if node is None:
            node = Node(holder.name, self._client_of(holder), self._changes())
            self._known[holder.name] = node
        return node

    def _holder(self, key: str) -> Any:
        with reachable():
            holders = self.client.nodes_manager.slots_cache.get(_slot(key))
        return holders[0] if holders else None

    def _client_of(self, holder: Any) -> Any:
        return self.client.get_redis_connection(holder)

    def _changes(self) -> dict[str, Any]:
        """Take over the user's function for new connections, without redis-py's own READONLY."""
        on_connect = self.client.user_on_connect_func

        def connected(connection: Any) -> None:
            connection.on_connect()
            on_connect(connection)

        return {"redis_connect_func": connected if on_connect else None}

    @property
    def label(self) -> str:
        """The name of the servers in errors: an address, or the known ones of a cluster."""
        if self.clustered:
            return ",".join(self.client.nodes_manager.startup_nodes)
        settings = getattr(getattr(self.client, "connection_pool", None), "connection_kwargs", {})
        return str(settings.get("path") or f"{settings.get('host')}:{settings.get('port')}")

    def split(self, keys: Iterable[str]) -> dict[Node | None, list[int]]:
        """Find the nodes that hold keys, and for each node the positions of its keys.

        Raises:
            RedisError: As `of`.
        """
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

    def aimed(self, key: str) -> dict[str, Any]:
        """Return the arguments that make a method of the client ask the node that holds a key."""
        holder = self._holder(key) if self.clustered else None
        return {"target_nodes": holder} if holder else {}

    @property
    def sends_once(self) -> bool:
        """True if the client has no retries: a call that may have run is never sent again."""
        holder = self.client if self.clustered else own_connection(self.only)
        return bool(holder.retry.get_retries() == 0)

    @property
    def finds_master(self) -> bool:
        """True if connections ask Sentinels for the address of the master."""
        pool = getattr(self.client, "connection_pool", None)
        return isinstance(pool, SentinelConnectionPool | AsyncSentinelConnectionPool)

    @property
    def fails_over(self) -> bool:
        """True if another server may take over while this one is silent."""
        return self.clustered or self.finds_master

    def learn(self, error: ResponseError) -> None:
        """Tell the client the new node of a slot, which other nodes may not know yet."""
        if self.clustered and isinstance(error, MovedError):
            with suppress(KeyError):  # if no known node has the slot, the client learns it later
                self.client.nodes_manager.move_slot(error)

    def unblocks_no_more(self, refusal: ResponseError) -> None:
        """Remember that the user may not call CLIENT UNBLOCK; raise any other refusal."""
        if not forbidden(refusal):
            raise refusal
        self.unblocks = False

    def lost(self, node: Node) -> None:
        """Look for the server that replaces a node which was cut off, or is silent."""
        if self.finds_master:  # idle connections lead to the same node, and would fail too
            self.losses += 1
            self.client.connection_pool.disconnect(inuse_connections=False)
        if self.clustered:
            try:
                self.client.nodes_manager.initialize(last_failed_node_name=node.name)
            except (RedisError, RedisClusterException) as error:
                raise_interruption(error)


class AsyncNodes(Nodes):
    """The servers behind an asyncio client; call `ready` before `of` and `aimed`."""

    @staticmethod
    def _is_plain(client: Any) -> bool:
        return type(client) is AsyncRedis and not client.single_connection_client

    @staticmethod
    def _is_cluster(client: Any) -> bool:
        own = getattr(type(client), "execute_command", None)
        return isinstance(client, AsyncRedisCluster) and own is AsyncRedisCluster.execute_command

    async def ready(self) -> None:
        """Make the client read the nodes of its cluster.

        Raises:
            RedisError: No node of the cluster can be reached.
        """
        if self.clustered:
            with reachable():
                await self.client.initialize()

    def _client_of(self, holder: Any) -> Any:
        return holder

    def _changes(self) -> dict[str, Any]:
        return {"redis_connect_func": None}

    async def learn_async(self, error: MovedError) -> None:
        """Async `learn`."""
        with suppress(KeyError):
            await self.client.nodes_manager.move_slot(error)

    async def lost_async(self, node: Node) -> None:
        """Async `lost`."""
        if self.finds_master:
            self.losses += 1
            await self.client.connection_pool.disconnect(inuse_connections=False)
        if self.clustered:
            try:
                await self.client.nodes_manager.initialize(last_failed_node_name=node.name)
            except (RedisError, RedisClusterException) as error:
                raise_interruption(error)
