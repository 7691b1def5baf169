"""A queue that is spread over several slots of a cluster: several plain queues behind one name.

It is a composition on the public face, and knows no command and no key. A group lives in one shard,
with its order and its limits; so does a key without a group. Other tasks go to the shards in turn.

    pages = ShardedQueue(client, "pages", 12)
    pages.push({"page": 1}, group="example.com")
    Worker(pages.queues, fetch).run()
"""

import itertools
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Generic, Unpack

from dpq.model.history import joined
from dpq.model.reports import QueueStats
from dpq.model.task import P, Popped, Push, Task
from dpq.queue.base import QueueSettings
from dpq.queue.first import pop_first
from dpq.queue.queue import DPQ


class ShardedQueue(Generic[P]):
    """Plain queues with the names `NAME.0`, `NAME.1`, and so on; any thread may use it.

    Attributes:
        queues: The shards: for a `Worker`, which takes from all of them, and for everything that
            concerns one shard.
    """

    def __init__(
        self,
        redis: Any,
        queue_name: str,
        shards: int,
        *,
        ask: int = 2,
        **settings: Unpack[QueueSettings],
    ) -> None:
        """Name the shards; nothing is sent. A pop compares the first tasks of `ask` shards."""
        self.queues = [DPQ[P](redis, f"{queue_name}.{n}", **settings) for n in range(shards)]
        self._turns = itertools.count(random.randrange(shards))  # noqa: S311 - spreads load
        self._ask = min(ask, shards)

    def queue_of(self, group: str | None = None, key: str | None = None) -> DPQ[P]:
        """Return the shard of a group, or of a key without a group; else the next one."""
        name = key if group is None else group
        number = next(self._turns) if name is None else zlib.crc32(name.encode())
        return self.queues[number % len(self.queues)]

    def push(self, payload: P, priority: float = 0, delay: float = 0, **named: Any) -> str:
        """Add a task, as `DPQ.push` does."""
        home = self.queue_of(named.get("group"), named.get("key"))
        return home.push(payload, priority, delay, **named)

    def push_many(self, pushes: Iterable[Push[P]]) -> list[str]:
        """Add tasks; each shard adds batches of 125, each whole."""
        ids: dict[int, str] = {}
        homes: dict[DPQ[P], dict[int, Push[P]]] = defaultdict(dict)
        for index, push in enumerate(pushes):
            homes[self.queue_of(push.group, push.key)][index] = push
        for queue, few in homes.items():
            ids |= zip(few, queue.push_many(few.values()), strict=True)
        return [ids[index] for index in range(len(ids))]

    def pop(self, timeout: float | None = 0, visibility: float | None = None) -> Popped[P]:
        """Take the best task of some shards; if they have none, wait for all of them."""
        some = [next(self._turns) % len(self.queues) for _ in range(self._ask)]
        heads = [(head[0].priority, n) for n in some if (head := self.queues[n].peek(1))]
        order = [n for _, n in sorted(heads, reverse=True)]
        order += [n for n in self._turned() if n not in order]
        found = pop_first([self.queues[n] for n in order], timeout, visibility)
        return found[0]._popped([found[1]]) if found else self.queues[0]._popped([])

    def _turned(self) -> list[int]:
        first = next(self._turns)
        return [(first + n) % len(self.queues) for n in range(len(self.queues))]

    def each(self, what: Callable[[DPQ[P]], Any]) -> list[Any]:
        """Do something in each shard: `pages.each(lambda q: q.pause())`."""
        return [what(queue) for queue in self.queues]

    def set_limit(self, *args: Any, group: str, **named: Any) -> None:
        """Limit a group, or with `"*"` every group; a limit of the whole queue needs one queue."""
        homes = self.queues if group == "*" else [self.queue_of(group)]
        for queue in homes:
            queue.set_limit(*args, group=group, **named)

    def stats(self) -> QueueStats:
        """Add up the counts of the shards."""
        found: list[QueueStats] = self.each(DPQ.stats)
        names = QueueStats.model_fields.keys() - {"oldest_ready_seconds", "wait", "run"}
        ages = [each.oldest_ready_seconds or 0.0 for each in found]
        return QueueStats(
            **{name: sum(getattr(each, name) for each in found) for name in names},
            oldest_ready_seconds=max(ages),
            wait=joined([each.wait for each in found]),
            run=joined([each.run for each in found]),
        )

    def find(self, task_id: str) -> tuple[DPQ[P], Task[P]] | None:
        """Find the shard of a task by its id: it asks all of them."""
        from dpq.model.errors import TaskNotFoundError

        for queue in self.queues:
            try:
                return queue, queue.get(task_id)
            except TaskNotFoundError:
                continue
        return None
