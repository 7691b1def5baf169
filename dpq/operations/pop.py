"""Pop from several partitions: chooses partitions to look at, and partitions to take from. No I/O.

With `ask` of N:

* 1: the partitions in turn, without comparing: one round trip.
* from 2 on: a look at the heads of `ask` partitions, then a pop from the partition with the best
  head. Half of these partitions have the best heads that this client remembers; the others come in
  turn. A pop that looks at a task never takes a worse one. So of any ceil(N / (`ask` / 2)) pops of
  a client, one does not pass a given task over. A higher `ask` stays better with many consumers,
  since the heads that it compares are fresh. (A pop from the partition whose remembered head is the
  best would need one round trip only. But then all consumers go to the same partitions, and a
  higher `ask` makes it worse. Source: docs/scaling.md.)
* N: a look at all partitions: strict, for one consumer at a time.

Before a pop answers that no task is ready, all partitions have answered so.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Generic, TypeVar

from dpq.model.task import Task
from dpq.operations.base import BATCH_BYTES
from dpq.operations.partition import Partition
from dpq.protocol.command import Steps, together
from dpq.protocol.replies import Batch, Look, LookAgain

P = TypeVar("P")

Head = tuple[float, bytes]
"""Score and member of a ready task: the lesser pair runs first."""


class _Taken(Generic[P]):
    """The result of one pop so far.

    Attributes:
        looks: As `Batch.looks`.
        refused: As `Batch.failed`.
        buried: As `Batch.buried`.
        failed: The last error of a partition; ignored if other partitions have brought tasks.
        broken: The partitions whose look has failed.
    """

    def __init__(self, most: int) -> None:
        self.tasks: list[Task[P]] = []
        self.looks: dict[int, LookAgain] = {}
        self.broken: set[int] = set()
        self.failed: Exception | None = None
        self.refused: Exception | None = None
        self.buried: list[tuple[str, str]] = []
        self._most, self._size = most, 0

    @property
    def left(self) -> int:
        """The number of tasks that are still missing; 0 if no bytes are left."""
        return self._most - len(self.tasks) if self.bytes_left > 0 else 0

    @property
    def bytes_left(self) -> int:
        """The bytes of payloads that may still come."""
        return BATCH_BYTES - self._size

    def add(self, batches: dict[int, Batch[P] | Exception], order: Sequence[int]) -> set[int]:
        """Add the answers of partitions, their tasks in `order`; return those without a task."""
        none: set[int] = set()
        brought: dict[int, list[Task[P]]] = {}
        for partition, batch in batches.items():
            if isinstance(batch, Exception):
                self.failed = batch
            else:
                brought[partition] = batch.tasks
                self._size += batch.size
                self.refused = batch.failed or self.refused
                self.buried += batch.buried
            if not brought.get(partition):
                none.add(partition)
        coming = {partition: iter(tasks) for partition, tasks in brought.items()}
        self.tasks += (task for partition in order for task in islice(coming.get(partition, ()), 1))
        return none

    def batch(self) -> Batch[P]:
        """Make the result of the pop.

        Raises:
            Exception: There is no task, and this is the error of a partition.
        """
        if self.failed and not (self.tasks or self.refused):
            raise self.failed
        looks = self.looks or None
        batch: Batch[P] = Batch(self.tasks, [], size=self._size, looks=looks, failed=self.refused)
        return batch._replace(buried=self.buried)


class PartitionPop(Generic[P]):
    """Takes tasks from the partitions of one queue; each pop compares `ask` of them."""

    def __init__(self, parts: Sequence[Partition[P]], ask: int) -> None:
        self._parts = parts
        self._ask = ask
        self._all = range(len(parts))
        # None: the last look found no ready task.
        self._heads: list[Head | None] = [None] * len(parts)
        self._turns = itertools.count(random.randrange(len(parts)))  # noqa: S311 - spreads load

    def pop(self, most: int, visibility: float | None, waiter: str = "") -> Steps[Batch[P]]:
        """Take tasks as `Partition.pop` does.

        Args:
            most: The most tasks to take.
            visibility: Seconds of the lease, or None.
            waiter: "" or "-" as in `Partition.pop`; or the `waiter` argument of each partition,
                with a space between: "" where the watched moment is not due.
        """
        self._parts[0].lease_ms(most, visibility)
        most = int(most)
        waiters = waiter.split(" ") if " " in waiter else [waiter and "-"] * len(self._parts)
        woken = " " in waiter
        taken: _Taken[P] = _Taken(most)
        if woken:
            partitions = [partition for partition, word in enumerate(waiters) if word]
        else:
            yield from self._take_some(taken, visibility)
            partitions = list(self._all)
        yield from self._take_all(taken, visibility, partitions, waiters, register=woken)
        return taken.batch()

    def _take_some(self, taken: _Taken[P], visibility: float | None) -> Steps[None]:
        """Take from `ask` of the partitions, again while that brings tasks."""
        if self._ask == 1:
            partition = self._turn()
            (batch,) = yield from together([self._parts[partition].pop(taken.left, visibility)])
            taken.add({partition: batch}, [partition] * taken.left)
            return
        no_waiters = [""] * len(self._parts)
        while self._ask < len(self._parts) and taken.left:
            before = taken.left
            yield from self._round(taken, visibility, self._some(), no_waiters, no_waiters)
            if taken.left == before:
                return

    def _turn(self) -> int:
        return next(self._turns) % len(self._parts)

    def _some(self) -> list[int]:
        """Choose `ask` partitions: half in turn, half with the best heads that are remembered."""
        partitions = [self._turn() for _ in range(self._ask // 2)]
        known = ((head, partition) for partition, head in enumerate(self._heads) if head)
        partitions += (
            partition
            for _, partition in heapq.nsmallest(self._ask, known)
            if partition not in partitions
        )
        while len(partitions) < self._ask:
            partitions.append(self._turn())
        return list(dict.fromkeys(partitions[: self._ask]))

    def _take_all(
        self,
        taken: _Taken[P],
        visibility: float | None,
        partitions: list[int],
        waiters: list[str],
        *,
        register: bool,
    ) -> Steps[None]:
        """Take from these partitions, the best first, until all have answered that none is ready.

        The waiter is registered at empty partitions, once all are believed to be empty.
        """
        no_waiters = [""] * len(waiters)
        while partitions and taken.left:
            register = register or not any(self._heads[partition] for partition in partitions)
            waiting = no_waiters if taken.tasks else waiters
            looking = waiting if register else no_waiters
            over, empty = yield from self._round(taken, visibility, partitions, looking, waiting)
            if register or taken.tasks or waiters == no_waiters:
                over |= empty
            partitions = [partition for partition in partitions if partition not in over]

    def _round(
        self,
        taken: _Taken[P],
        visibility: float | None,
        partitions: list[int],
        looking: list[str],
        taking: list[str],
    ) -> Steps[tuple[set[int], set[int]]]:
        """Look at some partitions, and take the best tasks of all of them.

        Returns:
            The partitions that a pop found empty, or that failed; the ones that a look found empty.
        """
        count = max(-(-2 * taken.left // len(partitions)), 2)
        found = yield from self._look(partitions, count, looking, taken)
        order = _best(found, count, taken.left)
        shares = Counter(order)
        size = taken.bytes_left // max(len(order), 1)  # bytes for each task
        results = yield from together(
            [
                self._parts[p].pop(share, visibility, taking[p], size * share)
                for p, share in shares.items()
            ]
        )
        batches = dict(zip(shares, results, strict=True))
        over = taken.add(batches, order) | taken.broken
        for partition, batch in batches.items():
            seen = found[
                partition
            ]  # if all tasks are taken, keep the last: its group may have a next head
            heads = seen[shares[partition] :] or seen[-1:]
            self._heads[partition] = None if partition in over else heads[0]
            if taking[partition] and not isinstance(batch, Exception):
                again = (batch.now_ms, batch.next_event_ms, batch.recheck_ms)
                taken.looks[partition] = again
        return over, set(partitions) - found.keys()

    def _look(
        self, partitions: Sequence[int], count: int, waiters: list[str], taken: _Taken[P]
    ) -> Steps[dict[int, list[Head]]]:
        """Look at the best tasks of some partitions; leave out those that have none."""
        looks = yield from together([self._parts[p].look(count, waiters[p]) for p in partitions])
        found = {}
        for partition, look in zip(partitions, looks, strict=True):
            self._remember(partition, look)
            if isinstance(look, Exception):
                taken.failed = look
                taken.broken.add(partition)
            elif look.first:
                found[partition] = look.first
            elif waiters[partition]:
                taken.looks[partition] = (look.now_ms, look.wait_ms, look.recheck_ms)
        return found

    def _remember(self, partition: int, look: Look | Exception) -> None:
        if not isinstance(look, Exception):
            self._heads[partition] = look.first[0] if look.first else None


def _best(found: dict[int, list[Head]], seen: int, wanted: int) -> list[int]:
    """Choose the partition of each task to take, the best task first.

    If a look at a partition brought as many tasks as it asked for, there may be more. Behind the
    last of these tasks the order is unknown, so the list ends there.
    """
    order: list[int] = []
    left = dict.fromkeys(found, seen)
    for _, partition in sorted(
        (head, partition) for partition, heads in found.items() for head in heads
    ):
        order.append(partition)
        left[partition] -= 1
        if len(order) == wanted or left[partition] == 0:
            break
    return order
