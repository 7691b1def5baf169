"""The names of redis-py that it does not document: no other file of DPQ may use such names.

Each has a reason, and means the same in redis-py 6.4, 7.4 and 8.1. `make redis-versions` runs the
core of the tests on these.
"""

from collections.abc import Mapping
from contextlib import suppress
from inspect import signature
from typing import Any

from redis._parsers.helpers import parse_info
from redis.asyncio.connection import AbstractConnection
from redis.client import NEVER_DECODE
from redis.exceptions import ConnectionError as RedisConnectionError

RAW: dict[str, Any] = {NEVER_DECODE: True}
"""The option of `execute_command` for a raw reply, also if the client decodes replies."""


_NO_NOTICES: dict[str, Any] = {}
"""The setting of a TCP connection that turns off notices of maintenance; redis-py 6 has none."""

with suppress(ImportError):
    from redis.maint_notifications import MaintNotificationsConfig

    _NO_NOTICES["maint_notifications_config"] = MaintNotificationsConfig(enabled=False)

QUIET = (
    _NO_NOTICES if "maint_notifications_config" in signature(AbstractConnection).parameters else {}
)
"""The same for a new client. redis-py 7 has no notices by itself, and refuses it in asyncio."""


def socket_of(connection: Any) -> Any:
    """Return the socket of a blocking connection, or None: to watch it, or to set its timeout."""
    return connection._sock


def write(connection: Any, packed: bytes) -> None:
    """Write to an asyncio connection at once."""
    if connection._writer is None:
        raise RedisConnectionError("the connection was closed")
    connection._writer.write(packed)


def pool_of(client: Any) -> Any:
    """Return the part of a client, or of a node of an asyncio cluster, that makes connections."""
    return getattr(client, "connection_pool", client)


def no_notices(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting that turns notices of maintenance off, if there is another."""
    return _NO_NOTICES if "maint_notifications_config" in settings else {}


def holder_of(client: Any, slot: int) -> Any:
    """Return the node that a cluster's client believes to hold a slot; None if it knows none."""
    holders = client.nodes_manager.slots_cache.get(slot)
    return holders[0] if holders else None


def startup_nodes(client: Any) -> Any:
    """Return the nodes, by name, of which a cluster's client asks one for all others."""
    return client.nodes_manager.startup_nodes


def learn_nodes(client: Any) -> Any:
    """Make a cluster's client read the nodes anew; of an asyncio client, return a coroutine."""
    return client.nodes_manager.initialize()


def read_info(reply: Any) -> dict[str, Any]:
    """Read the answer to INFO, unless the client has done that."""
    found: dict[str, Any] = reply if isinstance(reply, dict) else parse_info(reply)  # type: ignore[no-untyped-call]
    return found
