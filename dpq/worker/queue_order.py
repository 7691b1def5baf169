"""The order in which a worker asks its queues. No I/O."""

from collections.abc import Sequence
from typing import Literal

QueueOrder = Literal["strict", "round_robin"]
"""The order of the queues: `"strict"` as they were named, `"round_robin"` each in turn."""


class AskOrder:
    """The order in which a worker asks its queues.

    Each queue pays for its tasks: 1 / weight for each task that it gave, and once if it gave none.
    The queue that has paid least is asked first. So the turns that an empty queue leaves go to
    the others, by their weights.
    """

    def __init__(self, weights: Sequence[int], order: QueueOrder) -> None:
        self._weights = weights
        self._strict = len(weights) == 1 or (order == "strict" and len(set(weights)) == 1)
        # Every queue starts with half a task, so heavy queues come in between.
        self._paid = [0.5 / weight for weight in weights]
        self._all = range(len(weights))

    def queue_indexes(self) -> Sequence[int]:
        """Return the indexes of all queues, in the order to ask them."""
        return self._all if self._strict else sorted(self._all, key=self._paid.__getitem__)

    def charge(self, queue_index: int, tasks: int) -> None:
        """Let a queue pay for an answer that had so many tasks."""
        if not self._strict:
            self._paid[queue_index] += max(1, tasks) / self._weights[queue_index]
