"""Which server holds which keys: the only one, or in a cluster the master of their slot.

Nothing above this module knows of clusters. Who sends asks `of` for the node and opens connections
of its own to it (`own_connection`). What fails there goes through the client itself (`ask`), which
follows redirections and finds the new topology; `of` reads it there. Must not know of tasks.
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
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from dpq.model.interrupts import interruption, raise_interruption

T = TypeVar("T")

RIDE_OUT_SECONDS = 3.0
"""How long a call is repeated that no server has run: while a slot moves, its keys are in two
places, and a cluster that fails over refuses everything. redis-py alone repeats for 0.4 s."""

_PAUSE_SECONDS = 0.1

_FORBIDDEN = re.compile("ACL failure|can't (?:run|access)|no permission", re.IGNORECASE)

_REFUSALS = (AskError, TryAgainError, ClusterDownError)  # a MovedError is an AskError


class Node:
    """One server.

    Attributes:
        name: Tells it from the others of its cluster.
        client: Has its connection settings: a client, or a node of an asyncio cluster.
        changes: The settings that our own connections do not share with it.
    """

    __slots__ = ("changes", "client", "name")

    def __init__(self, name: str, client: Any, changes: Mapping[str, Any]) -> None:
        self.name = name
        self.client = client
        self.changes = changes


def own_connection(node: Node, **changes: Any) -> Any:
    """Make a connection with a client's settings that does not belong to its pool.

    RESP2, so that nothing but replies arrives on it; scripts reply the same in both protocols.
    """
    pool = getattr(node.client, "connection_pool", node.client)
    settings = {**pool.connection_kwargs, "protocol": 2, "decode_responses": False}
    connection = pool.connection_class(**{**settings, **node.changes, **changes})
    if heedful := _HEEDFUL.get(type(connection.retry)):  # not a subclass: it may do something else
        connection.retry = heedful.like(connection.retry)
    return connection


class HeedfulRetry(Retry):
    """Does not take what a signal handler has raised for an error of the network."""

    @classmethod
    def like(cls, retry: Retry) -> Self:
        """Make one with the settings of another."""
        return cls(retry._backoff, retry._retries, retry._supported_errors)

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """As redis-py's; what has interrupted it is raised at once."""

        heed = _heeding(is_retryable)
        return super().call_with_retry(do, fail, heed, with_failure_count)


class HeedfulAsyncRetry(AsyncRetry):
    """Async `HeedfulRetry`."""

    @classmethod
    def like(cls, retry: AsyncRetry) -> Self:
        """Make one with the settings of another."""
        return cls(retry._backoff, retry._retries, retry._supported_errors)

    async def call_with_retry(
        self,
        do: Callable[[], Awaitable[T]],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """As redis-py's; what has interrupted it is raised at once."""
        heed = _heeding(is_retryable)
        return await super().call_with_retry(do, fail, heed, with_failure_count)


def _heeding(is_retryable: Callable[[Exception], bool] | None) -> Callable[[Exception], bool]:
    return lambda error: not interruption(error) and (is_retryable is None or is_retryable(error))


_HEEDFUL: dict[type, Any] = {Retry: HeedfulRetry, AsyncRetry: HeedfulAsyncRetry}


# What goes wrong


def refused(error: object) -> bool:
    """Is it the answer of a server that does not hold the keys (any more), and has run nothing?"""
    return isinstance(error, _REFUSALS)


def told(error: ResponseError) -> ResponseError:
    """What a server has answered; the end of the connection, when it is no master any more.

    Raises:
        ConnectionError: It was demoted. Redis 6.2 wraps what a script has met into a text.
    """
    text = str(error)
    if isinstance(error, ReadOnlyError) or "-READONLY" in text or text.startswith("UNBLOCKED"):
        raise RedisConnectionError(text) from error
    return error


def forbidden(error: object) -> bool:
    """Is it the answer to a user who may not log in, or may not do what it asks for?

    It comes again until somebody changes the user. From within a script some servers send a text.
    """
    return isinstance(error, AuthenticationError | NoPermissionError) or (
        isinstance(error, ResponseError) and bool(_FORBIDDEN.search(str(error)))
    )


@contextmanager
def unspoiled(client: Any) -> Iterator[None]:
    """Leave no connection of a client with a reply under way for its next call to find.

    redis-py puts a connection back into its pool also when a call was interrupted between its
    command and the reply, and looks at none that speaks RESP3 before it is used again.

    Raises:
        BaseException: What has interrupted the call, in the place of redis-py's word for it.
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
    """Close all connections of a client that no call is using now."""
    if own := _own_connection(client):
        own.disconnect()
    for pool in _pools(client):
        pool.disconnect(inuse_connections=False)


def _own_connection(client: Any) -> Any:
    """The only connection of a client without a pool; None for others, and for doubles."""
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
    """Look whether a task may give what has interrupted it to those who wait for its result.

    asyncio itself raises KeyboardInterrupt and SystemExit out of the event loop.
    """
    ends = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
    return not isinstance(error, ends)


@contextmanager
def reachable() -> Iterator[None]:
    """Make a `RedisError` of what redis-py raises for a cluster: others, and one by a fault of it.

    It stumbles over being sent (ASK) to a node of which it has not heard, since it has no slot yet.
    """
    try:
        yield
    except RedisClusterException as error:
        raise RedisConnectionError(str(error)) from error
    except AttributeError as error:
        if "'NoneType'" not in str(error):
            raise
        raise ClusterError("redirected to a node that has no slot yet") from error


def ask(client: Any, *words: Any) -> Any:
    """Send a command through a client, with its retries and redirections; the raw reply.

    Raises:
        RedisError: As the client raises it.
    """
    give_up = time.monotonic() + RIDE_OUT_SECONDS
    while True:
        try:
            with unspoiled(client), reachable():
                return client.execute_command(*words, **{NEVER_DECODE: True})
        except ClusterError:
            if time.monotonic() > give_up:
                raise
        time.sleep(_PAUSE_SECONDS)


async def ask_async(client: Any, *words: Any) -> Any:
    """Async `ask`."""
    give_up = time.monotonic() + RIDE_OUT_SECONDS
    while True:
        try:
            async with unspoiled_async(client):
                with reachable():
                    return await client.execute_command(*words, **{NEVER_DECODE: True})
        except ClusterError:
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
        direct: Connections of our own may be used beside its pool. Not for doubles, nor for
            subclasses, which may do something with a command.
        clustered: It is a direct one of a cluster.
        only: The server, when it is not.
        losses: How often a master that Sentinels have named was found cut off, or silent: from then
            on older connections are of no use.
        unblocks: The user may ask for CLIENT UNBLOCK, as far as is known.
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
        """The node that holds a key, as far as the client knows; None when it does not.

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
        """What the user wants done with new connections, without redis-py's own READONLY."""
        wanted = self.client.user_on_connect_func

        def connected(connection: Any) -> None:
            connection.on_connect()
            wanted(connection)

        return {"redis_connect_func": connected if wanted else None}

    @property
    def label(self) -> str:
        """What to call them in an error: an address, or those of a cluster that are known."""
        if self.clustered:
            return ",".join(self.client.nodes_manager.startup_nodes)
        settings = getattr(getattr(self.client, "connection_pool", None), "connection_kwargs", {})
        return str(settings.get("path") or f"{settings.get('host')}:{settings.get('port')}")

    def split(self, keys: Iterable[str]) -> dict[Node | None, list[int]]:
        """The nodes that hold keys, and of each the places of its keys among them.

        Raises:
            RedisError: As `of`.
        """
        places: dict[Node | None, list[int]] = {}
        for place, key in enumerate(keys):
            places.setdefault(self.of(key), []).append(place)
        return places

    def by_slot(self, keys: Iterable[str]) -> list[tuple[str, ...]]:
        """Keys, put together as one command may name them."""
        if not self.clustered:
            return [tuple(keys)]
        slots: dict[int, list[str]] = {}
        for key in keys:
            slots.setdefault(_slot(key), []).append(key)
        return [tuple(together) for together in slots.values()]

    def aimed(self, key: str) -> dict[str, Any]:
        """What a method of the client is called with to ask the node that holds a key."""
        holder = self._holder(key) if self.clustered else None
        return {"target_nodes": holder} if holder else {}

    @property
    def sends_once(self) -> bool:
        """The client has no retries: what may have run is never sent again."""
        holder = self.client if self.clustered else own_connection(self.only)
        return bool(holder.retry.get_retries() == 0)

    @property
    def finds_master(self) -> bool:
        """Connections ask Sentinels where to go."""
        pool = getattr(self.client, "connection_pool", None)
        return isinstance(pool, SentinelConnectionPool | AsyncSentinelConnectionPool)

    @property
    def fails_over(self) -> bool:
        """Another server may take over while this one is silent."""
        return self.clustered or self.finds_master

    def learn(self, error: ResponseError) -> None:
        """Take note of where a slot is now; other nodes may not have heard of it yet."""
        if self.clustered and isinstance(error, MovedError):
            with suppress(KeyError):  # a slot of nobody: the client is to find out
                self.client.nodes_manager.move_slot(error)

    def unblocks_no_more(self, refusal: ResponseError) -> None:
        """Remember that the user has not the right to end a block; anything else is raised."""
        if not forbidden(refusal):
            raise refusal
        self.unblocks = False

    def lost(self, node: Node) -> None:
        """Look for who serves instead of a node that was cut off, or is silent."""
        if self.finds_master:  # what is idle goes to it, too, and would have to find that out
            self.losses += 1
            self.client.connection_pool.disconnect(inuse_connections=False)
        if self.clustered:
            try:
                self.client.nodes_manager.initialize(last_failed_node_name=node.name)
            except (RedisError, RedisClusterException) as error:
                raise_interruption(error)


class AsyncNodes(Nodes):
    """The servers behind an asyncio client; `of` and `aimed` want `ready` before."""

    @staticmethod
    def _is_plain(client: Any) -> bool:
        return type(client) is AsyncRedis and not client.single_connection_client

    @staticmethod
    def _is_cluster(client: Any) -> bool:
        own = getattr(type(client), "execute_command", None)
        return isinstance(client, AsyncRedisCluster) and own is AsyncRedisCluster.execute_command

    async def ready(self) -> None:
        """Have the client know its cluster.

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
