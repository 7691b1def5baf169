"""Readings that requests share: Redis is asked at most once a second, however many tabs look.

Without requests nothing is read: there is no thread and no timer. If a reading is older than a
second, the next request reads again. Requests that come meanwhile wait for that reading.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

FRESH_SECONDS = 1.0
"""Seconds that a reading is shared."""

READINGS = 500
"""Readings that are kept at once; the oldest reading goes first."""


class _Reading:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.at = -1e9
        self.value: Any = None
        self.error: Exception | None = None


class Shared:
    """Readings that several requests share."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Share readings; `clock` returns the time in seconds."""
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: OrderedDict[Hashable, _Reading] = OrderedDict()

    def get(self, key: Hashable, read: Callable[[], T], seconds: float | None = None) -> T:
        """Return a reading of the last second, or read it now; an error is shared as well.

        Args:
            key: The name of the reading.
            read: A function that reads.
            seconds: Seconds that the reading is shared; None: `FRESH_SECONDS`.
        """
        fresh = FRESH_SECONDS if seconds is None else seconds
        with self._lock:
            reading = self._readings.setdefault(key, _Reading())
            self._readings.move_to_end(key)
            while len(self._readings) > READINGS:
                self._readings.popitem(last=False)
        with reading.lock:
            if self._clock() - reading.at >= fresh:
                reading.value = reading.error = None
                try:
                    reading.value = read()
                except Exception as error:  # requests that wait for the reading get the error, too
                    reading.error = error
                reading.at = self._clock()
            if reading.error:
                raise reading.error
            found: T = reading.value
        return found

    def forget(self) -> None:
        """Drop all readings, so that a user sees the change that was just made."""
        with self._lock:
            self._readings.clear()
