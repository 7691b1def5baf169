"""The loading of a batch: queue a file once, whichever process begins.

A second queue, `NAME.batch`, holds one task: the file that this queue works on. Loading the file is
the work of that task. So one process loads while the others wait, and if it dies, the next one
begins anew: none sends before the file is loaded, and keys make a second push of a line harmless.
Then the task is put off for ten years: "loaded". From then on the queue alone says what is left: a
line is in it until its answer is saved.

When all answers are saved, the queue goes (`finish`). On a server that others may use, that the
file was sent is known for a day more: a machine that comes late, without the file of answers, would
send it all again. The second queue then is in no list of queues, and its keys expire.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from redis.exceptions import NoPermissionError

from dpq import AsyncDPQ, LeaseLostError, Push, Release, Task, TaskNotFoundError, TaskState
from dpq.batch.job import BatchJob
from dpq.batch.reader import SLICE_LINES, Batch, BatchError, Request
from dpq.batch.results import Results, hash_text
from dpq.batch.sender import Progress
from dpq.model.validation import MAX_SECONDS
from dpq.queue.inside import session_of
from dpq.registry.all_queues import absent
from dpq.script.keys import PARTS, REGISTRY, key_of

BATCH_KEY = "batch"
LOADED_SECONDS = MAX_SECONDS  # the longest delay: a file that is loaded stays so
KNOWN_SECONDS = 86_400  # a day: machines that were to share a batch have begun by then


@dataclass(eq=False)
class Loader:
    """Queues a file, unless that is done; removes the queue, once its requests are answered."""

    _job: BatchJob
    _batch: Batch
    _results: Results
    _queue: AsyncDPQ[Any]
    _progress: Progress
    _owns = False  # nothing of the queue was stored before this batch

    def __post_init__(self) -> None:
        self._marks = AsyncDPQ[Any](self._queue.redis, f"{self._job.queue}.batch")

    async def load(self) -> None:
        """Queue the file, unless that is done."""
        again = self._job.again
        waited, leased = False, None
        async with self._marks as batches:
            while True:
                try:
                    task = await batches.get(key=BATCH_KEY)
                except TaskNotFoundError:
                    owns = await session_of(self._queue).send(absent(self._job.queue))
                    named = {"file": self._batch.digest, "name": self._batch.path.name}
                    mark = named | {"owns": owns}
                    await batches.push(mark, key=BATCH_KEY, max_attempts=1_000_000)
                    again = False
                    continue
                self._owns = bool(task.payload.get("owns"))
                loaded = task.state is TaskState.DELAYED
                same = task.payload["file"] == self._batch.digest
                if not same or (again and loaded):
                    await self._require_idle(task)
                    await self._let_marks_last(LOADED_SECONDS)
                    await batches.cancel(task.id)
                elif loaded:
                    return
                else:
                    with suppress(LeaseLostError):  # another process loads now
                        async with batches.lease(timeout=1) as leased:
                            if leased:
                                await self._push(batches, leased)
                                raise Release(delay=LOADED_SECONDS)
                    if leased is None and not waited:
                        self._progress.say("another process loads the file: waiting for it")
                        waited = True

    async def finish(self, *, missing: int) -> None:
        """Remove the queue, all of whose requests are answered; but none that was there before."""
        # Without the right to do it, an administrator removes it
        async with self._marks as marks:
            with suppress(NoPermissionError):
                if self._owns:
                    await self._queue.admin.drop()
                if self._job.is_private and not missing:
                    await marks.admin.drop()
                else:
                    await self._let_marks_last(KNOWN_SECONDS)
                    await marks.redis.srem(REGISTRY, marks.queue_name)

    async def _let_marks_last(self, seconds: int) -> None:
        """Let all keys of the second queue expire after some seconds."""
        for part in PARTS:
            await self._marks.redis.pexpire(key_of(self._marks.queue_name, part), seconds * 1000)

    async def _require_idle(self, task: Task[Any]) -> None:
        left = await self._queue.size()
        if left or task.state is not TaskState.DELAYED:
            raise BatchError(
                f"queue {self._job.queue!r} still works on {task.payload['name']!r} ({left} "
                "requests are left): finish that first, with the same command as before, or name "
                "another --queue"
            )
        await self._queue.purge(TaskState.DEAD)

    async def _push(self, batches: AsyncDPQ[Any], leased: Task[Any]) -> None:
        """Push what has no result yet, as far as is known by now."""
        await asyncio.to_thread(self._results.read_on)
        wanted = (each for each in self._batch.requests() if not self._results.has(each.line))
        while some := list(islice(wanted, SLICE_LINES)):
            await batches.extend(leased, self._job.visibility)  # ends if the lease is lost
            await self._queue.push_many([self._as_push(each) for each in some])

    def _as_push(self, request: Request) -> Push[Any]:
        return Push(
            {
                "line": request.line,
                "request": hash_text(request.known),
                "id": request.custom_id,
                "path": request.path,
                "body": request.body,
            },
            request.priority,
            group=self._job.group,
            key=f"{self._batch.digest[:16]}:{request.line}",
            cost=request.cost,
        )
