"""Listeners receive calls: messages that tell a waiting caller of a queue object to ask again.

    SUBSCRIBE dpq:calls:9Xk0_a3T   once for a queue object; message: the caller that asks now
    SUBSCRIBE dpq:calls:{emails}   once for all that wait for ends; message: a task that has ended

Nothing is stored for that. If a message is lost, no caller is: each asks again by itself.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from redis.exceptions import RedisError, ResponseError

from dpq.link.cluster import AsyncNodes
from dpq.link.endpoint_async import AsyncEndpoint, Background, Event, Lock, heard
from dpq.link.shared_async import here

PREFIX = "dpq:calls:"
"""The beginning of the channels' names; lua/lib/leases/callers.lua has the same."""

TRY_AGAIN_SECONDS = 30.0
"""Seconds until a listener that could not subscribe tries again: the right may be missing."""


class AsyncListener:
    """Receives the calls for the callers of one queue object, over one connection of its own.

    Args:
        nodes: The servers behind a client.
        key: A key of the queue. In a cluster all nodes pass messages on.
        name: The name of its channel, which other listeners may have as well; "" makes one.
    """

    def __init__(self, nodes: AsyncNodes, key: str, name: str = "") -> None:
        self._nodes, self._key, self._given_name = nodes, key, name
        self.direct = nodes.direct  # there is a server to subscribe to, and no fakeredis
        self._owner = here()
        self._heard_by: Background | None = None
        self._start()

    def _start(self) -> None:
        self._name = self._given_name or secrets.token_urlsafe(9)
        self._ears: set[tuple[str, Event]] = set()
        self._beginning = Lock()
        self._not_before = 0.0
        self.channel = ""
        """The name that callers tell the server; "" without a subscription."""

    @contextmanager
    def ear(self, caller: str) -> Iterator[Event]:
        """Receive the calls of one caller, or with "" of all, from before its first question."""
        if self._owner != (owner := here()):  # a forked child, or another event loop
            self._owner = owner
            self._start()
        ears, ear = self._ears, Event()
        ears.add((caller, ear))
        try:
            yield ear
        finally:
            ears.discard((caller, ear))

    @property
    def _due(self) -> bool:
        return not self.channel and time.monotonic() >= self._not_before

    async def subscribe(self) -> bool:
        """Subscribe, if that is due. If the result is True, the caller must ask once more."""
        if not (self.direct and self._due):
            return False
        async with self._beginning:
            if not self._due:  # another caller has subscribed meanwhile
                return bool(self.channel)
            endpoint = AsyncEndpoint(self._nodes, self._key)
            try:
                await endpoint.connect()
                await endpoint.send("SUBSCRIBE", PREFIX + self._name)
                await endpoint.read()
            except BaseException as error:
                await endpoint.aclose()
                if not isinstance(error, RedisError):
                    raise
                if isinstance(error, ResponseError):
                    self._not_before = time.monotonic() + TRY_AGAIN_SECONDS
                return False
            self.channel = self._name
            self._heard_by = Background(self._read, endpoint)
        return True

    async def wait(self, ear: Event, seconds: float) -> None:
        """Wait until a caller is called, at most so long."""
        await heard(ear, seconds)

    async def _read(self, endpoint: AsyncEndpoint) -> None:
        ears = self._ears
        try:
            with suppress(RedisError, OSError):
                async for message in endpoint.messages():
                    called = (message[2].decode(), "")
                    for caller, ear in list(ears):
                        if caller in called:
                            ear.set()
        finally:  # calls may be lost, so all ask again
            if ears is self._ears:
                self.channel = ""
            await endpoint.aclose()
            for _, ear in list(ears):
                ear.set()

    async def aclose(self) -> None:
        """Close the connection; the next caller that waits opens it again."""
        background, self._heard_by = self._heard_by, None
        if background is not None:
            await background.end()
