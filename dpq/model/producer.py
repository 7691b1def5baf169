"""A producer that waits for room in a full queue: its place, and how long it sleeps. No I/O.

`queue/waits.py` and its asyncio twin ask the server and sleep as `Producer` says.
"""

import math
import secrets

from dpq.model.errors import QueueFullError

ASK_FOR_ROOM_SECONDS = 10.0
"""Seconds until a waiting producer asks again though it was not called: a call may be lost."""

UNHEARD_SECONDS = 0.2
"""The same for a producer that hears no calls: on fakeredis, or without the right to subscribe."""

FORGOTTEN_SECONDS = 3.0
"""Seconds after the time to ask again until the server takes a producer for dead."""


class Producer:
    """One push that waits for room.

    `id` is the name by which it is called, `channel` where it hears that ("" if nowhere); `group`
    has refused it ("" for the queue), and `place` is its place in the line ("" if it stands in
    none).
    """

    def __init__(self, now: float, timeout: float | None) -> None:
        self.id = secrets.token_urlsafe(9)
        self.channel, self.group, self.place = "", "", ""
        self._until = math.inf if timeout is None else now + timeout

    @property
    def pause(self) -> float:
        """The seconds until it asks again at the latest."""
        return ASK_FOR_ROOM_SECONDS if self.channel else UNHEARD_SECONDS

    @property
    def wait_ms(self) -> int:
        """The ms until the server takes it for dead, unless it asks again."""
        return math.ceil((self.pause + FORGOTTEN_SECONDS) * 1000)

    def refused(self, full: QueueFullError, now: float) -> None:
        """Take in a refusal."""
        if now >= self._until:
            raise full
        if self.group != (full.group or ""):
            self.group, self.place = full.group or "", ""

    def left(self, now: float) -> float:
        """Return the seconds to sleep at most."""
        return max(0.0, min(self.pause, self._until - now))
