"""AsyncDPQ, the asyncio queue: hands operations to its session, and waits without holding the loop.

The same methods as `DPQ`, with the same arguments, results and errors; so the documentation stands
there. Nothing here decides about tasks.

A call that is cancelled may have run all the same, as one whose reply is lost. Only a pop takes
something: what a cancelled pop still gets is given back, uncounted, or its lease runs out.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import asyncio
import logging
import math
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Never,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from dpq.model.errors import DPQError, LeaseLostError, NotConfirmedError
from dpq.model.log_fields import fields
from dpq.model.permit import DEFAULT_LEASE, PermitRequest
from dpq.model.signals import Scope, Signal, signal_of
from dpq.model.task import Cost, OnDuplicate, P, Popped, Push, TaskState, task_state
from dpq.model.validation import milliseconds, number
from dpq.queue.base import QueueBase, QueueSettings
from dpq.queue.end_log import log_failed

if TYPE_CHECKING:
    from dpq.model.budget import Budget
    from dpq.model.drain import Drain
    from dpq.model.forecast import Forecast
    from dpq.model.history import Event, Slot
    from dpq.model.limits import Adaptive, LimitState, RateLimit, Reserve
    from dpq.model.quota import Quota
    from dpq.model.rate_headers import Headers
    from dpq.model.reports import LeaseInfo, Problem, QueueStats, WorkerInfo
    from dpq.model.task import Task
    from dpq.operations.queue import QueueOperations
    from dpq.protocol.command import Steps
    from dpq.protocol.replies import Batch
    from dpq.queue.dead_async import AsyncDeadLetters
    from dpq.queue.lease_loops import AsyncLeaseLoop
    from dpq.queue.lease_renewal_async import AsyncKeeper
    from dpq.queue.permits_async import AsyncPermit
    from dpq.transport.connect_async import AsyncOpened
    from dpq.transport.session_async import AsyncQueueSession

__all__ = ["AsyncDPQ"]

log = logging.getLogger(__name__)

T = TypeVar("T")
A = ParamSpec("A")


GIVE_BACK_SECONDS = 5.0
"""Seconds that `close` waits for the releases of cancelled pops; then their leases run out."""

_OF_A_PARENT: list[object] = []
"""The objects of a parent process, which a forked child must keep."""


class AsyncDPQ(QueueBase[P]):
    """`DPQ` for asyncio: the same queue, methods, arguments and errors, to be awaited.

    One object serves any number of tasks of one event loop. A constructor cannot await. So a named
    setting (`order`, ...) is written, or refused, at the first call. `len(q)` is `await q.size()`.
    """

    _opened: AsyncOpened | None = None
    _leases: AsyncKeeper

    def _start(self) -> None:
        from dpq.protocol.confirmation import confirmation_of
        from dpq.queue.lease_renewal_async import AsyncKeeper
        from dpq.transport.connections_async import AsyncConnections
        from dpq.transport.listener_async import AsyncListener
        from dpq.transport.session_async import AsyncQueueSession
        from dpq.transport.waiter_async import AsyncWaiters

        self._pid = os.getpid()
        connections = AsyncConnections(self._redis, confirmation_of(self.durability))
        self._own_session = AsyncQueueSession(
            self._redis,
            connections,
            self._operations,
            durability=self.durability,
            queue_name=self.queue_name,
            agreed=self._watch_all,
        )
        self._leases = AsyncKeeper(self._extend_many, self.queue_name)
        self._waiters = AsyncWaiters(connections, self._operations.markers)
        self._listener = AsyncListener(connections, self._operations.markers[0])
        self._background: set[asyncio.Task[Any]] = set()

    def _start_in_child(self) -> None:
        """Start again in a forked child, and keep the objects of the parent: both share one epoll.

        If the child closed a connection, the parent's event loop would not see its replies any
        more.
        """
        if self._pid != os.getpid():  # pragma: no cover - a test does it in a child
            session = self._own_session
            waiting = (self._waiters, self._listener)
            parents = (self._opened, session, waiting, self._leases, self._background)
            _OF_A_PARENT.append(parents)
            self._opened = None
            self._start()
            self._own_session.checked = session.checked

    @property
    def _session(self) -> AsyncQueueSession[QueueOperations[P]]:
        self._start_in_child()
        return self._own_session

    async def _watch_all(self) -> None:
        """Async `DPQ._watch_all`."""
        from dpq.transport.waiter_async import AsyncWaiters

        markers = self._operations.markers
        if len(markers) != len(self._waiters.markers):
            await self._waiters.aclose()
            self._waiters = AsyncWaiters(self._own_session.connections, markers)

    @overload
    @classmethod
    def from_url(
        cls, url: str, queue_name: str, *, payload_type: type[T], **settings: Unpack[QueueSettings]
    ) -> AsyncDPQ[T]: ...
    @overload
    @classmethod
    def from_url(
        cls,
        url: str,
        queue_name: str,
        *,
        payload_type: Any = ...,
        **settings: Unpack[QueueSettings],
    ) -> Self: ...
    @classmethod
    def from_url(cls, url: str, queue_name: str, **settings: Any) -> Any:
        """Async `DPQ.from_url`; nothing to await: it connects at the first call."""
        from dpq.transport.connect_async import open_url_async

        opened = open_url_async(url)
        try:
            queue = cls(opened.client, queue_name, **settings)
        except BaseException:
            if opened.server:  # the client has not connected yet
                opened.server.close()
            raise
        queue._opened = opened
        queue._session.opened_label = opened.label
        return queue

    async def close(self) -> None:
        """Async `DPQ.close`."""
        self._start_in_child()
        await self._leases.aclose()
        if self._background:
            await asyncio.wait(self._background, timeout=GIVE_BACK_SECONDS)
        self._session.refusal = self._refusal()
        await self._waiters.aclose()
        await self._listener.aclose()
        await self._session.close()
        if self._opened:
            await self._opened.aclose()

    async def __aenter__(self) -> Self:
        self._session.refusal = ""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def push(
        self,
        payload: P,
        priority: float = 0,
        delay: float | timedelta = 0,
        *,
        group: str | None = None,
        key: str | None = None,
        on_duplicate: OnDuplicate = "keep",
        max_attempts: int | None = None,
        expires_in: float | None = None,
        cost: Cost = 1,
        every: float | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
        at: datetime | None = None,
        visibility: float | None = None,
        time_limit: float | None = None,
        member: str | None = None,
    ) -> str:
        """Async `DPQ.push`."""
        given = Push(
            payload,
            priority,
            delay,
            group=group,
            key=key,
            on_duplicate=on_duplicate,
            max_attempts=max_attempts,
            expires_in=expires_in,
            cost=cost,
            every=every,
            cron=cron,
            timezone=timezone,
            at=at,
            visibility=visibility,
            time_limit=time_limit,
            member=member,
        )
        return await self._session.run(self._operations.push, given)

    async def push_many(self, pushes: Iterable[Push[P]]) -> list[str]:
        """Async `DPQ.push_many`."""
        if isinstance(pushes, Iterator):  # it can be read only once
            self._session.require_open()
            await self._session.ready(create=True)
        return await self._session.run(self._operations.push_many, pushes)

    @overload
    async def pop(self, timeout: None, visibility: float | None = None) -> Popped[P, Never]: ...
    @overload
    async def pop(self, timeout: float = 0, visibility: float | None = None) -> Popped[P]: ...
    async def pop(
        self, timeout: float | None = 0, visibility: float | None = None
    ) -> Popped[P, Any]:
        """Async `DPQ.pop`."""
        return self._popped(await self._take(1, timeout, visibility))

    async def pop_many(
        self, max_tasks: int, timeout: float | None = 0, visibility: float | None = None
    ) -> list[Task[P]]:
        """Async `DPQ.pop_many`."""
        return await self._take(max_tasks, timeout, visibility)

    async def _take(
        self, most: int, timeout: float | None, visibility: float | None
    ) -> list[Task[P]]:
        stop = asyncio.get_running_loop().create_future()
        taking: asyncio.Task[list[Task[P]]] | None = None
        try:
            taking = asyncio.create_task(self._take_or_wait(most, timeout, visibility, stop))
            return await asyncio.shield(taking)
        except GeneratorExit:  # thrown away with its loop: nothing can be awaited
            raise
        except BaseException:  # cancelled, or interrupted by a signal handler
            stop.set_result(None)
            if taking and not (taking.done() and (taking.cancelled() or taking.exception())):
                self._finish(self._give_back(taking))
            raise

    async def _take_or_wait(
        self,
        most: int,
        timeout: float | None,
        visibility: float | None,
        stop: asyncio.Future[None],
    ) -> list[Task[P]]:
        if timeout is not None:
            milliseconds("timeout", timeout)
        who = "" if timeout == 0 else "-"
        batch = await self._session.run(self._operations.pop, most, visibility, who)
        if timeout == 0 or batch.failed or (batch.tasks and not batch.looks):
            return self._readable(batch)
        return await self._wait_and_take(most, timeout, visibility, stop, batch)

    async def _wait_and_take(
        self,
        most: int,
        timeout: float | None,
        visibility: float | None,
        stop: asyncio.Future[None],
        batch: Batch[P],
    ) -> list[Task[P]]:
        """Async `DPQ._wait_and_take`; it ends early when `stop` is done."""
        from dpq.transport.waiter import owned_markers, waiter_argument, watches_after
        from dpq.transport.waiter_async import sleep

        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            waiters = self._waiters
            async with waiters.take() as waiter:
                watches = watches_after(batch)
                while not batch.tasks and await sleep(waiter, watches, until, stop):
                    batch = await self._look_again(most, visibility, waiter_argument(watches))
                    if self._waiters is not waiters:  # the queue has begun, with partitions
                        watches = []
                        break
                    if batch.failed:
                        break
                    watches = watches_after(batch, watches)
                await waiter.withdraw(owned_markers(watches))
            if self._waiters is waiters or batch.failed:
                return self._readable(batch)
            await waiters.aclose()  # the queue has other markers now

    async def _look_again(self, most: int, visibility: float | None, waiter: str) -> Batch[P]:
        """Async `DPQ._look_again`."""
        from dpq.transport.waiter import begun

        known = self._operations
        if known.settings is None and not known.description.named:
            self._session.require_open()
            batch = await self._session.send(self._operations.pop(most, visibility, waiter))
            if not begun(batch):
                return batch
        return await self._session.run(self._operations.pop, most, visibility, waiter)

    async def _give_back(self, taking: asyncio.Task[list[Task[P]]]) -> None:
        """Release the tasks of a cancelled pop; if that fails, their leases run out."""
        from redis.exceptions import RedisError

        with suppress(DPQError, RedisError):
            tasks = await taking
            await self._session.run_all([self._operations.release(task, 0, None) for task in tasks])

    def _finish(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run a coroutine to its end, even if its caller is cancelled; `close` waits for it."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._background.discard)
        self._background.add(task)
        return asyncio.shield(task)

    @overload
    def lease(
        self, timeout: None, visibility: float | None = None
    ) -> AbstractAsyncContextManager[Task[P]]: ...
    @overload
    def lease(
        self, timeout: float = 0, visibility: float | None = None
    ) -> AbstractAsyncContextManager[Task[P] | None]: ...
    @asynccontextmanager
    async def lease(
        self, timeout: float | None = 0, visibility: float | None = None
    ) -> AsyncIterator[Any]:
        """Async `DPQ.lease`; if its body is cancelled, the task is released.

        The delivery is ended also if its end is cancelled.
        """
        tasks = await self._take(1, timeout, visibility)
        if not tasks:
            yield None
            return
        task = tasks[0]
        try:
            self._leases.hold((task,), visibility or self.default_visibility)
            try:
                yield task
            except GeneratorExit:  # thrown away with its loop: nothing can be awaited
                raise
            except BaseException as raised:
                error = signal_of(raised)
                await self._end_lease(task, error)
                if not isinstance(error, Signal):
                    raise
            else:
                if self._leases.let_go(task):
                    await self._finish(self.ack(task))
        finally:  # also where this was interrupted: nobody else would let it run out
            self._leases.let_go(task)

    async def _end_lease(self, task: Task[P], error: BaseException) -> None:
        """Async `DPQ._end_lease`."""
        if self._leases.let_go(task):
            failed = isinstance(error, Exception)  # an interrupt gives the task back
            if failed:  # without the traceback: the caller gets the error itself
                log_failed(None, self.queue_name, task, error, traceback=False)
            try:
                await self._finish(self._end_delivery(task, error))
                if failed:
                    self._end_log.ended(self.queue_name, task, error)
            except LeaseLostError:
                log.warning(
                    "%s: lease of task %s lost before its work was done",
                    *(self.queue_name, task.id),
                    extra=fields("lease_lost", queue=self.queue_name, task_id=task.id),
                )
            except NotConfirmedError as unconfirmed:  # the error of the body is more useful
                about = fields("not_confirmed", queue=self.queue_name, task_id=task.id)
                log.warning("%s: %s", self.queue_name, unconfirmed, extra=about)

    def leases(
        self, visibility: float | None = None, *, until_empty: bool = False
    ) -> AsyncLeaseLoop[P]:
        """Async `DPQ.leases`; `async for task in q.leases(until_empty=True)`."""
        from dpq.queue.lease_loops import AsyncLeaseLoop

        return AsyncLeaseLoop(self, visibility, until_empty)

    async def _end_delivery(self, task: Task[P], error: BaseException) -> None:
        await self._leases.end(task)
        await self._session.run(self._operations.finish, task, error)

    async def _extend_many(self, leases: Sequence[tuple[Task[Any], float]]) -> list[bool]:
        return await self._session.send(self._operations.extend_many(leases))

    async def _end(
        self,
        verb: Callable[Concatenate[Task[P], A], Steps[T]],
        task: Task[P],
        *args: A.args,
        **named: A.kwargs,
    ) -> T:
        """Async `DPQ._end`."""
        return await self._session.run_after(
            partial(self._leases.end, task), verb, task, *args, **named
        )

    # Ending or going on with a delivery

    async def ack(self, task: Task[P], cost: Cost | None = None) -> bool:
        """Async `DPQ.ack`."""
        return await self._end(self._operations.ack, task, cost)

    async def ack_many(
        self, tasks: Iterable[Task[P]], costs: Iterable[Cost | None] | None = None
    ) -> list[bool]:
        """Async `DPQ.ack_many`."""
        told = None if costs is None else list(costs)
        return await self._session.run(self._operations.ack_many, list(tasks), told)

    async def extend(self, task: Task[P], seconds: float) -> datetime:
        """Async `DPQ.extend`."""
        return datetime.fromtimestamp(
            await self._session.run(self._operations.extend, task, seconds) / 1000, UTC
        )

    async def spent(self, task: Task[P], cost: Cost | None = None, **units: int) -> bool:
        """Async `DPQ.spent`."""
        return await self._session.run(self._operations.spent, task, cost, units)

    async def set_visibility(self, task: Task[P], seconds: float) -> None:
        """Async `DPQ.set_visibility`."""
        await self._end(self._operations.set_visibility, task, seconds)

    async def release(
        self,
        task: Task[P],
        delay: float | timedelta = 0,
        *,
        priority: float | None = None,
        cost: Cost | None = None,
    ) -> None:
        """Async `DPQ.release`."""
        await self._end(self._operations.release, task, delay, priority, cost)

    async def fail(
        self,
        task: Task[P],
        error: object = None,
        delay: float | timedelta | None = None,
        cost: Cost | None = None,
    ) -> None:
        """Async `DPQ.fail`."""
        await self._end(self._operations.fail, task, error, delay, cost)

    async def bury(self, task: Task[P], reason: object, cost: Cost | None = None) -> None:
        """Async `DPQ.bury`."""
        await self._end(self._operations.bury, task, reason, cost)

    async def get(self, task_id: str | None = None, *, key: str | None = None) -> Task[P]:
        """Async `DPQ.get`."""
        return await self._session.run(self._operations.get, task_id, key)

    async def peek(
        self,
        n: int = 10,
        state: TaskState | str = TaskState.READY,
        *,
        after: str | None = None,
    ) -> list[Task[P]]:
        """Async `DPQ.peek`."""
        return await self._session.run(self._operations.peek, n, task_state(state), after)

    async def size(self) -> int:
        """Async `DPQ.size`."""
        stats = await self.stats()
        return stats.ready + stats.delayed + stats.invisible + stats.waiting

    async def stats(self) -> QueueStats:
        """Async `DPQ.stats`."""
        return await self._session.run(self._operations.stats)

    async def update(
        self,
        task_id: str | None = None,
        *,
        key: str | None = None,
        priority: float | None = None,
        delay: float | timedelta | None = None,
        cost: Cost | None = None,
    ) -> None:
        """Async `DPQ.update`."""
        await self._session.run(self._operations.update, task_id, key, priority, delay, cost)

    async def cancel(self, task_id: str | None = None, *, key: str | None = None) -> None:
        """Async `DPQ.cancel`."""
        await self._session.run(self._operations.cancel, task_id, key)

    async def pause(self, seconds: float | None = None) -> None:
        """Async `DPQ.pause`."""
        await self._session.run(self._operations.pause, seconds)

    async def resume(self) -> None:
        """Async `DPQ.resume`."""
        await self._session.run(self._operations.resume)

    async def purge(self, state: TaskState | str | None = None) -> int:
        """Async `DPQ.purge`."""
        return await self._session.run(
            self._operations.purge, None if state is None else task_state(state)
        )

    async def register(self) -> None:
        """Async `DPQ.register`."""
        await self._session.ready()
        await self._session.open(create=True)
        await self._session.run(self._operations.register)

    async def drop(self) -> None:
        """Async `DPQ.drop`."""
        self._session.require_open()
        if not self._session.checked:
            await self._session.check_server()
        await self._session.send(self._operations.drop())  # whatever its format
        self._operations.forget()

    async def set_limit(
        self,
        rate: float | str | Quota | Sequence[RateLimit | Quota] | None = None,
        per: float | None = None,
        burst: int = 1,
        *,
        group: str | None = None,
        concurrency: int | None = None,
        adaptive: Adaptive | None = None,
        reserve: Reserve | None = None,
        slack: float | None = None,
        members: Sequence[str] | None = None,
        weight: float | None = None,
        reset: bool = False,
    ) -> None:
        """Async `DPQ.set_limit`."""
        await self._session.run(
            self._operations.set_limit,
            rate,
            per,
            burst,
            group,
            concurrency,
            adaptive,
            reserve,
            slack,
            members,
            weight,
            reset,
        )

    async def clear_limit(self, group: str | None = None) -> None:
        """Async `DPQ.clear_limit`."""
        await self._session.run(self._operations.clear_limit, group)

    async def rate_limited(
        self,
        task: Task[P],
        retry_after: float,
        scope: Scope = "member",
        cost: Cost | None = None,
        status: int | None = None,
    ) -> None:
        """Async `DPQ.rate_limited`."""
        await self._end(self._operations.rate_limited, task, retry_after, scope, cost, status)

    async def observe(
        self,
        task_or_group: Task[P] | str | None,
        response: Any = None,
        *,
        status: int | None = None,
        headers: Headers | None = None,
    ) -> list[Budget]:
        """Async `DPQ.observe`."""
        from dpq.model.budget import read_answer

        budgets = read_answer(response, status, headers)
        return await self._session.run(self._operations.observe, task_or_group, budgets)

    async def delay_group(
        self, group: str, seconds: float | None, *, member: str | None = None
    ) -> None:
        """Async `DPQ.delay_group`."""
        await self._session.run(self._operations.delay_group, group, seconds, member)

    @asynccontextmanager
    async def acquire(
        self,
        group: str | None = None,
        *,
        cost: Cost = 1,
        timeout: float | None = None,
        priority: float = 0,
        lease: float = DEFAULT_LEASE,
        member: str | None = None,
    ) -> AsyncIterator[AsyncPermit]:
        """Async `DPQ.acquire`."""
        request = PermitRequest.checked(group, cost, timeout, priority, lease, member)
        from dpq.queue.permits_async import take_permit_async

        permit = await take_permit_async(self, request)
        try:
            yield permit
        except GeneratorExit:  # thrown away with its loop: nothing can be awaited
            raise
        except BaseException as error:
            await permit.end(error)
            raise
        await permit.end(None)

    async def limits(self) -> list[LimitState]:
        """Async `DPQ.limits`."""
        return await self._session.run(self._operations.limits)

    async def groups(self) -> list[LimitState]:
        """Async `DPQ.groups`."""
        return await self._session.run(self._operations.groups)

    async def group(self, name: str) -> LimitState:
        """Async `DPQ.group`."""
        return await self._session.run(self._operations.group, name)

    async def why(self, task_id: str) -> str:
        """Async `DPQ.why`."""
        return await self._session.run(self._operations.why, task_id)

    async def forecast(self, n: int = 50, *, run: float | None = None) -> list[Forecast]:
        """Async `DPQ.forecast`."""
        return await self._session.run(self._operations.forecast, n, run)

    async def drain(self, *, over: float | None = None) -> Drain:
        """Async `DPQ.drain`."""
        from dpq.model.drain import MAX_OVER_SECONDS, drain_of

        if over is None:
            return drain_of(await self._session.run(self._operations.drain_look))
        number("over", over, "seconds", 0.001, MAX_OVER_SECONDS)
        before = await self._session.run(self._operations.drain_look)
        await asyncio.sleep(over)
        return drain_of(await self._session.run(self._operations.drain_look), before)

    async def history(self, seconds: float = 3600) -> list[Slot]:
        """Async `DPQ.history`."""
        return await self._session.run(self._operations.history, seconds)

    async def events(self, after: str = "", limit: int = 100) -> list[Event]:
        """Async `DPQ.events`."""
        return await self._session.run(self._operations.events, after, limit)

    async def trail(self, after: str = "", limit: int = 100) -> list[Event]:
        """Async `DPQ.trail`."""
        return await self._session.run(self._operations.trail, after, limit)

    async def workers(self) -> list[WorkerInfo]:
        """Async `DPQ.workers`."""
        return await self._session.run(self._operations.workers)

    async def held(
        self, n: int = 100, *, worker: str | None = None, older_than: float | None = None
    ) -> list[LeaseInfo]:
        """Async `DPQ.held`."""
        return await self._session.run(self._operations.held, n, worker, older_than)

    async def release_held(self, leases: Iterable[LeaseInfo]) -> int:
        """Async `DPQ.release_held`."""
        return await self._session.run(self._operations.release_held, leases)

    async def promote(self) -> int:
        """Async `DPQ.promote`."""
        return (await self._session.run(self._operations.promote))[0]

    async def next_event(self) -> float | None:
        """Async `DPQ.next_event`."""
        wait = await self._session.run(self._operations.next_event)
        return None if wait is None else wait / 1000

    async def check(self) -> list[Problem]:
        """Async `DPQ.check`."""
        return await self._session.run(self._operations.check)

    async def repair(self) -> list[Problem]:
        """Async `DPQ.repair`."""
        return await self._session.run(self._operations.repair)

    @property
    def dead(self) -> AsyncDeadLetters[P]:
        """Async `DPQ.dead`."""
        from dpq.queue.dead_async import AsyncDeadLetters

        return AsyncDeadLetters(self._session)
