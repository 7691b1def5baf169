"""From which partitions a pop takes. No I/O.

A client remembers the head of each partition from when it last looked there. With `ask` of N:

* 1: the partitions in turn, without comparing.
* from 2 on: the one whose head is best as far as is known; in the same round trip the head that it
  has then, and those of `ask` - 1 others in turn, are looked at. So each is looked at in any
  ceil(N / (ask - 1)) pops of a client, and what became ready is overtaken no more often by that
  client alone.
* N: all are looked at, then the best is asked: strict, for one consumer at a time.

Before a pop says that there is nothing, all partitions have said so.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from dpq._command import Steps, together
from dpq._commands import BATCH_BYTES, Commands
from dpq._replies import Batch, Look
from dpq.models import Task

P = TypeVar("P")

Head = tuple[float, bytes]
"""Score and member of a ready task: the lesser one is to run first."""


class _Taken(Generic[P]):
    """What one pop has brought so far.

    Attributes:
        looks: As of a `Batch`.
        failed: What a partition has met; of no interest when others have brought tasks.
        broken: The partitions that have failed.
    """

    def __init__(self, most: int) -> None:
        self.tasks: list[Task[P]] = []
        self.looks: dict[int, tuple[float, float | None]] = {}
        self.broken: set[int] = set()
        self.failed: Exception | None = None
        self._most, self._size = most, 0

    @property
    def left(self) -> int:
        """How many more are wanted."""
        return 0 if self._size >= BATCH_BYTES else self._most - len(self.tasks)

    def add(
        self, batches: dict[int, Batch[P] | Exception], order: Sequence[int] | None = None
    ) -> list[int]:
        """Add what partitions have answered.

        Args:
            batches: Of each place.
            order: The places in the order of their tasks, where it is known; else the priorities
                say it.

        Returns:
            The places that had none.
        """
        none: list[int] = []
        brought: dict[int, list[Task[P]]] = {}
        for place, batch in batches.items():
            if isinstance(batch, Exception):
                self.failed = batch
            else:
                brought[place] = batch.tasks
                self._size += batch.size
            if not brought.get(place):
                none.append(place)
        if order is None:
            self.tasks += heapq.merge(*brought.values(), key=lambda task: -task.priority)
        else:
            queues = {place: iter(tasks) for place, tasks in brought.items()}
            self.tasks += (task for place in order for task in islice(queues.get(place, ()), 1))
        return none

    def batch(self) -> Batch[P]:
        """All of it."""
        if self.failed and not self.tasks:
            raise self.failed
        return Batch(self.tasks, [], size=self._size, looks=self.looks or None)


class PartitionPop(Generic[P]):
    """Takes tasks from the partitions of one queue; each pop compares `ask` of them."""

    def __init__(self, parts: Sequence[Commands[P]], ask: int) -> None:
        self._parts = parts
        self._ask = ask
        self._all = range(len(parts))
        self._heads: list[Head | None] = [None] * len(parts)  # none: nothing there, when last seen
        self._looked = False
        self._turns = itertools.count(random.randrange(len(parts)))  # noqa: S311 - spreads load

    def pop(self, most: int, visibility: float | None, waiter: str = "") -> Steps[Batch[P]]:
        """As `Commands.pop`.

        Args:
            most: Tasks at most.
            visibility: Seconds of the lease, or None.
            waiter: "" or "-" as there; or for each partition, with a space between, as whom it is
                asked: "" for those where it is not time to look.
        """
        self._parts[0].lease_ms(most, visibility)
        words = waiter.split(" ") if " " in waiter else [waiter and "-"] * len(self._parts)
        woken = " " in waiter
        taken: _Taken[P] = _Taken(most)
        if not woken and self._ask < len(self._parts):
            yield from self._take_known(taken, visibility)
        places = [place for place in self._all if words[place] or not woken]
        yield from self._take_best(taken, visibility, places, words, register=woken)
        return taken.batch()

    def _take_known(self, taken: _Taken[P], visibility: float | None) -> Steps[None]:
        """Take from where the best is, as far as is known; and look at some."""
        if self._ask == 1:
            shares = {next(self._turns) % len(self._parts): taken.left}
            looked_at: list[int] = []
        else:
            if not self._looked:
                yield from self._look(self._all, 1, [""] * len(self._parts), taken)
                self._looked = True
            known = sorted((head, place) for place, head in enumerate(self._heads) if head)
            first = [place for _, place in known[: 1 if taken.left == 1 else self._ask]]
            shares = dict(zip(first, _spread(taken.left, len(first)), strict=True))
            turns = islice(self._turns, self._ask - 1) if shares else ()
            looked_at = list(dict.fromkeys([*first, *(turn % len(self._parts) for turn in turns)]))
        operations: list[Steps[Any]] = [
            self._parts[place].pop(share, visibility) for place, share in shares.items() if share
        ]
        operations += [self._parts[place].look(1, "") for place in looked_at]
        results = yield from together(operations)
        looks = results[len(results) - len(looked_at) :]
        for place, look in zip(looked_at, looks, strict=True):
            self._remember(place, look)
        asked = (place for place, share in shares.items() if share)
        taken.add(dict(zip(asked, results, strict=False)))

    def _take_best(
        self,
        taken: _Taken[P],
        visibility: float | None,
        places: list[int],
        words: list[str],
        *,
        register: bool,
    ) -> Steps[None]:
        """Look at all of these partitions, and take from the best, until all say there is nothing.

        Who is to wait is noted where nothing was found: when all are believed to be empty.
        """
        waiting = any(words)
        while places and taken.left:
            register = register or not any(self._heads[place] for place in places)
            noted = register and not taken.tasks
            count = -(-taken.left // len(places)) + (taken.left > 1)
            asked_as = words if noted else [""] * len(words)
            found = yield from self._look(places, count, asked_as, taken)
            noted = noted or not waiting or bool(taken.tasks)
            places = [p for p in places if p in found or not (noted or p in taken.broken)]
            order = _best(found, count, taken.left)
            shares = Counter(order)
            who = [""] * len(words) if taken.tasks else words
            results = yield from together(
                [self._parts[p].pop(share, visibility, who[p]) for p, share in shares.items()]
            )
            batches = dict(zip(shares, results, strict=True))
            for place in taken.add(batches, order):
                places.remove(place)
            for place, batch in batches.items():
                if words[place] and not isinstance(batch, Exception):
                    taken.looks[place] = (batch.now_ms, batch.next_event_ms)

    def _look(
        self, places: Sequence[int], count: int, words: list[str], taken: _Taken[P]
    ) -> Steps[dict[int, list[Head]]]:
        """Look at some partitions: the first of each, of those that have any."""
        looks = yield from together([self._parts[p].look(count, words[p]) for p in places])
        found = {}
        for place, look in zip(places, looks, strict=True):
            self._remember(place, look)
            if isinstance(look, Exception):
                taken.failed = look
                taken.broken.add(place)
            elif look.first:
                found[place] = look.first
            elif words[place]:
                taken.looks[place] = (look.now_ms, look.wait_ms)
        return found

    def _remember(self, place: int, look: Look | Exception) -> None:
        if not isinstance(look, Exception):
            self._heads[place] = look.first[0] if look.first else None


def _spread(total: int, count: int) -> list[int]:
    """So many in about equal shares, larger ones first."""
    return [total // count + (i < total % count) for i in range(count)]


def _best(found: dict[int, list[Head]], seen: int, wanted: int) -> list[int]:
    """From which partitions to take the best in all, one after the other.

    Where as many were seen as were asked for, there may be more: after the last of those nothing is
    known to be the best.
    """
    order: list[int] = []
    left = dict.fromkeys(found, seen)
    for _, place in sorted((head, place) for place, heads in found.items() for head in heads):
        order.append(place)
        left[place] -= 1
        if len(order) == wanted or left[place] == 0:
            break
    return order
