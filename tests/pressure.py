"""Producers and consumers that go on whatever happens, and a ledger of what they were told."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from redis.exceptions import RedisError, ResponseError
from support import PATIENCE_S, wait_for

from dpq import DPQ, AsyncDPQ, DPQError, TaskState
from dpq.script.keys import key_of
from dpq.testing import _stored

PAUSE_S = 0.002
"""Between two calls: enough of a load, and not too long a ledger."""

REPLICA_S = 0.5
"""How long a push waits for being confirmed by a replica: after a failover there is none."""

LEAST_CONFIRMED = 20


LAG_S = 1.0
"""Seconds by which a replica may lag: what was acknowledged before them is never lost."""


class Pressure:
    """Threads, each with a client of its own; what was acknowledged is written down here.

    Attributes:
        pushed: The id of each acknowledged push -> when it was sent, and when its answer was
            noted, monotonic seconds.
        confirmed: Those of them that so many replicas have as there are: any may take over.
        acked: The id of each acknowledged ack.
        errors: What was raised instead, by name.
        longest: Seconds of the longest push, by a client that does not wait for replicas.
    """

    def __init__(
        self,
        url: str,
        queue_name: str,
        *,
        replicas: int = 1,
        producers: int = 2,
        consumers: int = 1,
    ) -> None:
        self.pushed: dict[str, tuple[float, float]] = {}
        self.confirmed: set[str] = set()
        self.acked: list[str] = []
        self.gone: set[str] = set()
        self.errors: Counter[str] = Counter()
        self.longest = 0.0
        self._url = url
        self._name = queue_name
        self._replicas = replicas
        self._safe: _Confirmed | None = None
        self._stop = threading.Event()
        works = [self._push] * (producers - 1) + [self._push_safely] + [self._consume] * consumers
        self._threads = [
            *(threading.Thread(target=self._go_on, args=(work,), daemon=True) for work in works),
            threading.Thread(target=lambda: asyncio.run(self._consume_async()), daemon=True),
        ]

    def _go_on(self, work: Callable[[DPQ[Any]], None]) -> None:
        with DPQ[Any].from_url(self._url, self._name, default_max_attempts=1000) as queue:
            while not self._stop.is_set():
                try:
                    work(queue)
                except (RedisError, DPQError) as error:
                    self.errors[f"{type(error).__name__}: {error}"[:60]] += 1
                time.sleep(PAUSE_S)

    def _push(self, queue: DPQ[Any]) -> None:
        began = time.monotonic()
        task_id = queue.push("x")
        self.pushed[task_id] = began, time.monotonic()
        self.longest = max(self.longest, time.monotonic() - began)

    def _push_safely(self, queue: DPQ[Any]) -> None:
        safe = self._safe = self._safe or _Confirmed(queue, self._replicas)
        began = time.monotonic()
        task_id, confirmed = safe.push()
        self.pushed[task_id] = began, time.monotonic()
        if confirmed:
            self.confirmed.add(task_id)

    def _consume(self, queue: DPQ[Any]) -> None:
        task, _, _ = queue.pop(timeout=0.2, visibility=600)
        if task:
            with self._asked(task.id):
                self._ended(task.id, queue.ack(task))

    @contextmanager
    def _asked(self, task_id: str) -> Iterator[None]:
        """Note an ack without an answer: it may have been taken, also by a replica."""
        try:
            yield
        except (RedisError, DPQError):
            self.gone.add(task_id)
            raise

    def _ended(self, task_id: str, acked: bool) -> None:
        if acked:
            self.acked.append(task_id)
        else:  # an ack before this one, whose answer was lost, or a failover: its work is done
            self.gone.add(task_id)

    async def _consume_async(self) -> None:
        async with AsyncDPQ[Any].from_url(self._url, self._name) as queue:
            while not self._stop.is_set():
                try:
                    task, _, _ = await queue.pop(timeout=0.2, visibility=600)
                    if task:
                        with self._asked(task.id):
                            self._ended(task.id, await queue.ack(task))
                except (RedisError, DPQError) as error:
                    self.errors[f"{type(error).__name__}: {error}"[:60]] += 1
                await asyncio.sleep(PAUSE_S)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.goes_on()
        wait_for(lambda: len(self.confirmed) >= LEAST_CONFIRMED, lambda: self.errors)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def goes_on(self, more: int = 30) -> None:
        """Wait until so many more pushes and acks were acknowledged."""
        pushed, acked = len(self.pushed) + more, len(self.acked) + more
        wait_for(
            lambda: len(self.pushed) >= pushed and len(self.acked) >= acked,
            lambda: (len(self.pushed), len(self.acked), len(self.confirmed), self.errors),
        )

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in self._threads)

    def account(self, queue: DPQ[Any], faults: Sequence[tuple[float, float]]) -> str:
        """Close the books: whatever was acknowledged is acked or stored, but for replication.

        Args:
            queue: The queue, which nobody uses any more.
            faults: From when until when a master that was replaced may have answered, monotonic
                seconds.

        Returns:
            What asynchronous replication has lost.
        """
        assert queue.check() == []
        stored = {task.id for state in TaskState for task in _stored(queue, state)}
        lost = self.pushed.keys() - self.acked - self.gone - stored
        assert not lost & self.confirmed, f"lost, though a replica had it: {lost & self.confirmed}"
        for task_id in lost:
            sent, noted = self.pushed[task_id]
            at_one = any(sent <= end and noted > begin - LAG_S for begin, end in faults)
            assert at_one, f"lost: {task_id}, sent at {sent}, noted at {noted}, not at {faults}"
        again = len(self.acked) - len(set(self.acked)) + len(stored & set(self.acked))
        return (
            f"{len(self.pushed)} pushes and {len(self.acked)} acks acknowledged; lost by "
            f"replication: {len(lost)} pushes, {again} acks; confirmed and lost: 0 of "
            f"{len(self.confirmed)}; errors: {dict(self.errors)}"
        )


class _Confirmed:
    """Pushes that a replica has: WAIT knows of what its own connection has written only."""

    def __init__(self, queue: DPQ[Any], replicas: int) -> None:
        self._queue = queue
        self._replicas = replicas
        self._again = queue._session.connections._again
        queue._session.connections._again = self._elsewhere  # type: ignore[method-assign]
        self._direct = True

    def _elsewhere(self, command: Any, reply: Any) -> Any:
        self._direct = False
        return self._again(command, reply)

    def push(self) -> tuple[str, bool]:
        """Push a task: its id, and whether it is known that the replicas have it."""
        self._direct = True
        link = self._queue._session.connections
        task_id = self._queue.push("safe")
        node = link.nodes.of(key_of(self._queue.queue_name, "ready"))
        if not (self._direct and node):
            return task_id, False
        connection = link._links[node.name]._idle[-1]
        connection.send_command("WAIT", self._replicas, round(REPLICA_S * 1000))
        try:
            return task_id, int(connection.read_response()) >= self._replicas
        except ResponseError:  # the master was demoted meanwhile
            return task_id, False
