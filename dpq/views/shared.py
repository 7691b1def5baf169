"""Readings that requests share: Redis is asked at most once a second, however many tabs look.

Without requests nothing is read: there is no thread and no timer. If a reading is older than a
second, the next request reads again. Requests that come meanwhile wait for that reading.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

FRESH_SECONDS = 1.0
"""Seconds that a reading is shared."""

READINGS = 500
"""Readings that are kept at once; the oldest reading goes first."""


class _Reading:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at = -1e9
        self.value: Any = None  # or the error instead


class Shared:
    """Readings that several requests share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Share readings; `clock` returns the time in seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: OrderedDict[Hashable, _Reading] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], T], seconds: float | None = None) -> T:
        """Return a reading of the last second, or read it now; an error is shared as well."""
        found = self.get_all([key], lambda _: {key: read()}, seconds)[key]
        if isinstance(found, Exception):
            raise found
        return found

    def get_all(
        self,
        keys: Sequence[K],
        read: Callable[[Sequence[K]], Mapping[K, T | Exception]],
        seconds: float | None = None,
    ) -> dict[K, T | Exception]:
        """Return several readings of the last second; `read` reads all the older ones at once."""
        ordered = sorted(set(keys), key=str)  # two requests must not wait for each other
        with ExitStack() as locks:
            readings = {key: locks.enter_context(self._reading(key)) for key in ordered}
            old = [key for key in keys if self._is_old(readings[key], seconds)]
            try:
                found = read(old) if old else {}
            except Exception as error:  # requests that wait for the readings get the error, too
                found = dict.fromkeys(old, error)
            for key, value in found.items():
                readings[key].value, readings[key].at = value, self._clock()
            return {key: readings[key].value for key in keys}

    @contextmanager
    def _reading(self, key: Hashable) -> Iterator[_Reading]:
        with self._lock:
            reading = self._readings.setdefault(key, _Reading())
            self._readings.move_to_end(key)
            while len(self._readings) > READINGS:
                self._readings.popitem(last=False)
        with reading.lock:
            yield reading

    def _is_old(self, reading: _Reading, seconds: float | None) -> bool:
        if seconds is None or isinstance(reading.value, Exception):
            seconds = FRESH_SECONDS
        return self._clock() - reading.at >= seconds

    def forget(self) -> None:
        """Drop all readings, so that a user sees the change that was just made."""
        with self._lock:
            self._readings.clear()
