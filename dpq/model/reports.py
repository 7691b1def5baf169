"""Reports on a queue: statistics, problems, workers, leases, batches. No connection inside."""

from datetime import datetime

from dpq.model.history import Counts
from dpq.model.task_data import Attempts, Frozen


class QueueStats(Counts):
    """The number of tasks in each state, and running totals since the queue began.

    Attributes:
        ready: Tasks that could be popped now (of each group, only the first), or are due.
        delayed: Tasks that are not due yet.
        invisible: Tasks under a lease.
        waiting: Tasks behind the first of their group, or in a closed group.
        dead: Dead letters.
        following: Of `delayed`: tasks that wait for the end of other tasks, or of a batch.
        seen_keys: Keys that stay taken after the ack of their task (`unique_for`).
        pushed: Tasks that were added; pushes whose key was taken do not count.
        popped: Deliveries.
        acked: Finished tasks.
        failed: Calls of `fail`.
        deferred: Deliveries given back by `set_visibility` or `rate_limited`.
        expired_leases: Leases that ran out.
        buried: Tasks that became dead letters, for any reason.
        replayed: Dead tasks made live again.
        dropped: Dead letters removed by the limits on their number and age.
        rate_limited: Of `deferred`: those that met a limit of their host, mostly a 429.
        oldest_ready_seconds: Seconds since the oldest ready task became due, or None. Of more than
            200 ready tasks, only some are looked at.
        wait: Time of tasks from when they were due to their first delivery; None before the first.
        run: Time of deliveries from the pop to ack, fail or bury; None before the first.
        buried_attempts_spent: Of `buried`: by a `fail` that was the last attempt.
        buried_lease_expired: Of `buried`: by a lease that ran out in the last attempt.
        buried_lapses_spent: Of `buried`: by a lease that ran out as the last of `max_lapses`.
        buried_expired: Of `buried`: not started in time.
        buried_payload_missing: Of `buried`: another program has removed the payload.
        rate_limited_403: Of `rate_limited`: the host has answered 403.
        rate_limited_503: Of `rate_limited`: 503, with a time.
        rate_limited_529: Of `rate_limited`: 529, with a time.
        rate_limited_other: Of `rate_limited`: another status than these and 429.
    """

    invisible: int = 0
    following: int = 0
    seen_keys: int = 0
    popped: int = 0
    expired_leases: int = 0
    oldest_ready_seconds: float | None = None

    @property
    def live(self) -> int:
        """The tasks that are ready, delayed, invisible or waiting."""
        return self.due + self.delayed + self.invisible


class Health(Frozen):
    """The health of a worker or a scheduler, as it sees itself; no call to a server is made.

    Attributes:
        live: Its loops move. If not, only a restart helps.
        ready: It works: the server has answered its last calls, and it is not told to stop.
        reasons: What is wrong, a short line for each; empty if it is live and ready.
    """

    live: bool
    ready: bool
    reasons: tuple[str, ...] = ()


class Problem(Frozen):
    """A broken invariant found by `check()`.

    Attributes:
        kind: The kind of the problem, in a few words.
        subject: The task's id, the group's name, or the key.
        detail: The value that was found there.
    """

    kind: str
    subject: str
    detail: str = ""


class WorkerInfo(Frozen):
    """A worker of a queue, by its last heartbeat.

    Attributes:
        id: The id of one run of a worker; the same in all of its queues.
        name: The worker's `name`, or its host and process.
        host: The machine that it runs on.
        pid: Its process there.
        version: The version of DPQ that it runs, with the commit.
        queue: The queue that was asked.
        running: Handlers that ran on tasks of this queue.
        concurrency: Handlers that may run at once, on tasks of all its queues together.
        since: The time when it began, by the server's clock, UTC.
        seen: The time of its last heartbeat, UTC: one every 10 s; after 60 s it is forgotten.
        seen_seconds: Seconds from that heartbeat to the moment when the server was asked.
        holds: Tasks of this queue that it had then, running or taken ahead.
        longest_seconds: Seconds that its longest running handler of this queue had run then, or
            None.
        longest_task: The id of the task of that handler, or None.
        quiet_since: The time since when it is to take no new tasks (`quiet`), UTC; or None.
        quiet_by: The person or program that has said so, or "".
        program: The version of its program (`Worker(version=)`), or "".
    """

    id: str
    name: str
    host: str
    pid: int
    version: str
    queue: str
    running: int
    concurrency: int
    since: datetime
    seen: datetime
    seen_seconds: float = 0.0
    holds: int = 0
    longest_seconds: float | None = None
    longest_task: str | None = None
    quiet_since: datetime | None = None
    quiet_by: str = ""
    program: str = ""


class LeaseInfo(Frozen):
    """A lease, and the worker that holds it, by the last heartbeats.

    Attributes:
        id: The id of the task.
        token: The token of the delivery.
        queue: The queue.
        group: The group of the task, or None.
        attempt: The number of this attempt, from 1.
        max_attempts: The failed attempts after which the task is dead; `math.inf` is null in JSON.
        since: The time of the pop, by the server's clock, UTC.
        until: The time when the lease ends, unless it is extended, UTC.
        held_seconds: Seconds from `since` to the moment when the server was asked.
        worker: The name of its worker; None if no heartbeat names it: it is less than 10 s old, its
            holder is no worker of DPQ or is gone, or holds more than 1000.
        worker_id: The id of that run of the worker, or None.
        host: The machine of that worker, or None.
        pid: Its process there, or None.
    """

    id: str
    token: int
    queue: str
    group: str | None
    attempt: int
    max_attempts: Attempts
    since: datetime
    until: datetime
    held_seconds: float
    worker: str | None = None
    worker_id: str | None = None
    host: str | None = None
    pid: int | None = None


class BatchState(Frozen):
    """A batch of tasks at the moment of the call: what has become of them.

    Attributes:
        name: The name that its pushes have.
        left: Live tasks: ready, waiting, delayed or running.
        done: Tasks that were finished by an ack.
        dead: Tasks that became dead letters, and were not replayed; also if they were dropped
            since.
        removed: Live tasks that were cancelled, purged, moved into another batch, or made
            recurring.
        sealed: `seal_batch` was called: once nothing is left, the batch is finished.
        began_at: The time of its first push, by the server's clock, UTC.
        changed_at: The time of its last change, UTC.
        finished_at: The time when it was sealed and nothing was left, UTC; None before.
        callback: The id of the task that waits for its end, or ran behind it; None without one.
    """

    name: str
    left: int
    done: int
    dead: int
    removed: int
    sealed: bool
    began_at: datetime
    changed_at: datetime
    finished_at: datetime | None = None
    callback: str | None = None

    @property
    def pushed(self) -> int:
        """All tasks that were ever in the batch."""
        return self.left + self.done + self.dead + self.removed

    @property
    def finished(self) -> bool:
        """Return True once the batch was sealed and nothing was left of it."""
        return self.finished_at is not None


class Imported(Frozen):
    """The end of an import.

    Attributes:
        added: Tasks that this call has added.
        stored: Tasks that the queue has already; with `keep=True`, also those that met another
            task.
        before: Tasks of lines that an earlier call has imported; some may have ended since.
        damaged: Tasks that were damaged in the exported queue, and are left out.
        limits: Limits that were set, or stood already.
    """

    added: int = 0
    stored: int = 0
    before: int = 0
    damaged: int = 0
    limits: int = 0


class BulkProgress(Frozen):
    """The progress of an action on many tasks, or its end.

    Attributes:
        count: Tasks that passed the filter when they were counted.
        done: Tasks that were changed.
        missed: Tasks that had changed when their turn came, and were left.
        searched: Tasks that were looked at.
        left: Tasks of the current state that are still to be looked at.
        stopped: The caller has stopped it.
    """

    count: int = 0
    done: int = 0
    missed: int = 0
    searched: int = 0
    left: int = 0
    stopped: bool = False
