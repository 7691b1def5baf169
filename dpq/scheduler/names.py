"""The list of names: a daemon walks over it in parts, and keeps only the names of queues."""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from dpq.link.cluster import forbidden
from dpq.link.session import Session
from dpq.model.log_fields import fields
from dpq.registry.all_queues import Sieve, forget_queues, readable, some_names

log = logging.getLogger(__name__)

NAMES_A_LOOK = 1000
"""New names that the daemon checks before the next step of queues: about 0.1 s."""

REST = 4
"""Rest after a walk over all names, as a multiple of the walk's time. So walks take at most a fifth
of the daemon's time, however often the list changes."""

LEAST_REST_SECONDS = 0.05


class Names:
    """Walks over the list of names, in parts; it keeps only the names of queues."""

    def __init__(self, redis: Any, session: Session) -> None:
        self._redis, self._session = redis, session
        self._sieve = Sieve()
        self._cursor, self._took = 0, 0.0
        self.walking = False  # the walk is in the middle of the list
        self.gone: set[str] = set()  # queues that were not in the list during the last walk
        self.rested_at = 0.0  # the time of the next walk, monotonic seconds

    def look(self, known: Iterable[str], *, full: bool = False) -> list[str]:
        """Check some names; return the queues among them that are not in `known`.

        A daemon that is `full` checks no unknown name. Raise RedisError if the list cannot be read.
        """
        began, known = time.monotonic(), set(known)
        if not self.walking:
            self._cursor, self._took, self.gone = 0, 0.0, set(known)
        found: list[str] = []
        looked = 0
        while looked < NAMES_A_LOOK:
            self._cursor, names = some_names(self._redis, self._cursor)
            self.walking = self._cursor != 0
            good, bad = readable(names)
            self.gone.difference_update(good)
            unknown = [name for name in dict.fromkeys(good) if name not in known and not full]
            found += self._queues_among(unknown)
            if bad:
                self._remove(bad)
            looked += len(unknown) + len(bad) + (len(good) // 10 if full else 0)
            if not self.walking:
                break
        self._took += time.monotonic() - began
        if not self.walking:
            rest = max(LEAST_REST_SECONDS, REST * self._took)
            self.rested_at = time.monotonic() + rest
        return found

    def _queues_among(self, names: Sequence[str]) -> list[str]:
        """Return the names of queues; names without an answer wait for the next walk."""
        answers = self._session.send_all([self._sieve.is_queue(name) for name in names])
        removed = answers.count(False)
        if removed and self._sieve.may_remove:
            about = fields("names_removed", count=removed)
            text = "scheduler: removed %d names without a queue from the list"
            log.info(text, removed, extra=about)
        asked = zip(names, answers, strict=True)
        return [name for name, yes in asked if yes is True or isinstance(yes, ResponseError)]

    def _remove(self, names: Sequence[bytes]) -> None:
        if self._sieve.may_remove:
            shown = ", ".join(ascii(name[:100]) for name in names[:3])
            about = fields("names_removed", count=len(names), reason="invalid")
            text = "scheduler: removed %d invalid names from the list: %s"
            log.warning(text, len(names), shown, extra=about)
            try:
                forget_queues(self._redis, names)
            except ResponseError as refusal:
                self._sieve.may_remove = not forbidden(refusal)
