"""The link of a spider to its queue: two asyncio tasks in the event loop of Scrapy.

The feeder pops tasks while the spider has room, and waits for them on the server. The writer sends
new requests and the ends of deliveries. It sends an end only when all requests that came before it
are stored. So if a spider is killed, a page and the requests that it led to are never both lost.
The scheduler calls the link, which tells Scrapy what has happened.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from redis.exceptions import RedisError
from scrapy import Request, signals

from dpq.limits.budget import Budget
from dpq.limits.signals import Release, Signal
from dpq.model.errors import (
    DPQError,
    DuplicateTaskError,
    LeaseLostError,
    NotConfirmedError,
    QueueFullError,
)
from dpq.model.log_fields import fields
from dpq.model.task import Push, Task
from dpq.queue.inside import leases_of, operations_of, session_of
from dpq.queue.queue_async import AsyncDPQ
from dpq.script.command import Steps

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks whether the queue is empty: acks of other spiders wake no waiter."""

RETRY_SECONDS = 1.0
"""Seconds until a call is made again that the server did not answer, or that had no room."""

CLOSE_SECONDS = 30.0
"""Seconds that a closing spider tries to send what it has: else its leases run out."""

AT_ONCE = 500
"""The most operations in one round trip: a larger reply would hold up the reactor."""

Verb = Callable[[], Steps[Any]]
"""An operation, ready to be sent."""


@dataclass(eq=False)
class Delivery:
    """A task that this spider holds."""

    task: Task[Any]
    status: int = 0  # of the last answer; 0 if there was none yet, -1 if none will come
    ending: Signal | None = None  # the way in which its task ends; None: it is done


class Link:
    """The tasks of one spider, and what it sends."""

    def __init__(self, queue: AsyncDPQ[Any], most: int, crawler: Any) -> None:
        self._queue, self._most, self._crawler = queue, most, crawler
        self.seen = 0  # requests that were not stored, since they were before
        self.waiting: deque[Delivery] = deque()  # for the engine, best first
        self.held = 0  # deliveries that are not ended, waiting ones included
        self.drained = False  # the queue had no live task, and nothing has come since
        self.drained_at = 0.0  # when that was found, monotonic seconds
        self._pushes: list[tuple[Push[Any], Request]] = []  # those not stored yet, in order
        self._verbs: list[tuple[Verb, Task[Any] | None]] = []  # and the task that one ends
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._feeder: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._closing = False
        self._said_full = 0.0

    def start(self) -> None:
        """Begin to take tasks and to send."""
        create = asyncio.get_running_loop().create_task
        self._feeder = create(self._feed(), name="dpq-feeder")
        self._writer = create(self._write(), name="dpq-writer")

    # What the scheduler calls; none of these waits

    def check(self, push: Push[Any]) -> None:
        """Raise ConfigurationError or PayloadError if the queue would refuse a push."""
        operations_of(self._queue).check_push(push)

    def push(self, push: Push[Any], request: Request) -> None:
        """Store a request soon."""
        self._pushes.append((push, request))
        self.drained = False
        self._news.set()

    def end(self, delivery: Delivery) -> None:
        """End a delivery soon, after all requests that were pushed before."""
        self.held -= 1
        self._room.set()
        task = delivery.task
        self._send(partial(operations_of(self._queue).finish, task, delivery.ending), task)

    def give_back(self, delivery: Delivery) -> None:
        """Release a delivery soon, uncounted."""
        delivery.ending = Release()
        self.end(delivery)

    def observe(self, told: Task[Any] | str | None, response: Any) -> None:
        """Store soon what a host says is left."""
        budgets = Budget.from_response(response)
        self._send(partial(operations_of(self._queue).observe, told, budgets))

    def delay_group(self, group: str, seconds: float) -> None:
        """Close a group soon."""
        self._send(partial(operations_of(self._queue).delay_group, group, seconds))

    def _send(self, verb: Verb, ends: Task[Any] | None = None) -> None:
        self._verbs.append((verb, ends))
        self._news.set()

    def count(self, *names: str) -> None:
        """Count what has happened, in the statistics of Scrapy."""
        for name in names:
            self._crawler.stats.inc_value(name)

    def _wake(self) -> None:
        """Let the engine ask for requests, and look whether the spider is idle, soon."""
        slot = getattr(self._crawler.engine, "_slot", None)
        if slot is not None:
            slot.nextcall.schedule()

    # The feeder

    async def _feed(self) -> None:
        while True:
            try:
                await self._take()
            except Exception as error:  # the spider would hang without a feeder
                self._tell("take tasks", error)
                await asyncio.sleep(RETRY_SECONDS)

    async def _take(self) -> None:
        """Take tasks for the room that is left, and wait for the first one at most a second."""
        if self.held >= self._most:
            self._room.clear()
            await self._room.wait()
        tasks = await self._queue.pop_many(self._most - self.held, LOOK_SECONDS)
        if not tasks:
            await self._look_for_end()
            return
        leases_of(self._queue).hold(tasks, self._queue.settings.default_visibility)
        self.held += len(tasks)
        self.drained = False
        self.waiting.extend(map(Delivery, tasks))
        self._wake()

    async def _look_for_end(self) -> None:
        """Look whether any live task is left, once this spider has nothing to do or to send."""
        if self._is_idle() and not await self._queue.size() and self._is_idle():
            if not self.drained:
                self.drained, self.drained_at = True, time.monotonic()
            self._wake()

    def _is_idle(self) -> bool:
        return not (self.held or self._pushes or self._verbs)

    # The writer

    async def _write(self) -> None:
        while self._pushes or self._verbs or not self._closing:
            await self._news.wait()
            self._news.clear()
            try:
                await self._flush()
                await self._look_for_end()
            except Exception as error:  # the spider would hang without a writer
                self._tell("send", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._news.set()

    async def _flush(self) -> None:
        """Send all there is, and what comes meanwhile."""
        while self._pushes or self._verbs:
            count = len(self._verbs)  # the pushes that came before these are stored first
            await self._push_all()
            await self._send_all(count)

    async def _push_all(self) -> None:
        """Store the pushes; raise the error of one that has to wait, which stays in the list."""
        while chunk := self._pushes[:AT_ONCE]:
            push = operations_of(self._queue).push
            results = await session_of(self._queue).run_all([push(each) for each, _ in chunk])
            later, reason = [], None
            for pushed, result in zip(chunk, results, strict=True):
                if isinstance(result, QueueFullError) or (
                    isinstance(result, Exception) and not isinstance(result, DPQError)
                ):
                    later.append(pushed)
                    reason = result
                elif isinstance(result, DPQError) and not isinstance(result, NotConfirmedError):
                    self._dropped(pushed[1], result)
                else:
                    self.count("scheduler/enqueued/dpq", "scheduler/enqueued")
            self._pushes[: len(chunk)] = later
            if reason is not None:
                raise reason

    def _dropped(self, request: Request, error: DPQError) -> None:
        """Count a request that was seen before, or refused, and tell Scrapy."""
        if isinstance(error, DuplicateTaskError):
            self.seen += 1
            self.count("dupefilter/filtered")
        else:
            log.error("%s: %s refused: %s", self._queue.queue_name, request, error)
            self.count("scheduler/unserializable")
        self._crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self._crawler.spider
        )

    async def _send_all(self, count: int) -> None:
        """Send the first verbs; raise the error of one that has to wait, with all behind it."""
        leases = leases_of(self._queue)
        while chunk := self._verbs[: min(count, AT_ONCE)]:
            for _, task in chunk:
                if task is not None:
                    leases.let_go(task)
            results = await session_of(self._queue).run_all([verb() for verb, _ in chunk])
            for (_, task), result in zip(chunk, results, strict=True):
                name = self._queue.queue_name
                if isinstance(result, LeaseLostError):
                    self.count("dpq/lease_lost")
                    about = fields("lease_lost", queue=name, task_id=task and task.id)
                    log.warning("%s: %s", name, result, extra=about)
                elif isinstance(result, DPQError):
                    log.warning("%s: %s", name, result)
                elif isinstance(result, Exception):
                    raise result
            del self._verbs[: len(chunk)]
            count -= len(chunk)

    def _tell(self, what: str, error: Exception) -> None:
        """Log why a loop waits for its next try; that the queue is full, once a minute."""
        name = self._queue.queue_name
        if isinstance(error, QueueFullError):
            if time.monotonic() - self._said_full >= 60 or not self._said_full:
                self._said_full = time.monotonic()
                log.warning("%s: requests wait for room: %s", name, error)
        elif isinstance(error, RedisError):
            said = "%s: the server does not answer, next try in %g s: %s"
            log.warning(said, name, RETRY_SECONDS, error)
        else:
            log.error("%s: cannot %s, next try soon", name, what, exc_info=error)

    # The end

    async def close(self) -> None:
        """Give back what was not begun, send what is left, and close the queue.

        If the server does not answer within `CLOSE_SECONDS`, the leases run out by themselves.
        """
        feeder, writer = self._feeder, self._writer
        if feeder is None or writer is None:  # it was not started
            return
        feeder.cancel()
        await asyncio.wait((feeder,))
        while self.waiting:
            self.give_back(self.waiting.popleft())
        self._closing = True
        self._news.set()
        try:
            await asyncio.wait_for(writer, CLOSE_SECONDS)
        except TimeoutError:
            log.error(  # noqa: TRY400 - the timeout says nothing more
                "%s: the server does not answer: %d new requests are lost, and up to %d pages "
                "will be fetched again when their leases end",
                *(self._queue.queue_name, len(self._pushes), len(self._verbs)),
            )
        await self._queue.close()
