"""The heartbeats of a worker: the operations that tell its queues of it. No I/O.

`dpq workers` lists what they say. Both workers send them.
"""

import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dpq.protocol.command import Steps

if TYPE_CHECKING:
    from dpq.operations.queue import QueueOperations


class Heartbeats:
    """Makes the heartbeats of one run.

    Attributes:
        began: The time when the run began, monotonic seconds.
    """

    def __init__(
        self, name: str, concurrency: int, operations: Sequence["QueueOperations[Any]"]
    ) -> None:
        self.began = time.monotonic()
        self._name = name
        self._concurrency = concurrency
        self._operations = operations
        self._run_id = secrets.token_urlsafe(9)

    def beat(self, running: Iterable[int]) -> list[Steps[Any]]:
        """Make a heartbeat for each queue; `running` has the queue index of each handler."""
        counts = Counter(running)
        host, pid, age = socket.gethostname(), os.getpid(), time.monotonic() - self.began
        return [
            operations.beat(
                self._run_id, self._name, host, pid, counts[queue_index], self._concurrency, age
            )
            for queue_index, operations in enumerate(self._operations)
        ]

    def leave(self) -> list[Steps[Any]]:
        """Make the operations that tell every queue that this worker has ended."""
        return [operations.leave(self._run_id) for operations in self._operations]
