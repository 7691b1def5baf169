# Made from admin_async.py by `make twins`: change that file, not this one.
"""The calls of operators on a blocking queue: `q.admin`, and its dead letters: `q.dead`."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Generic

from dpq.explain.drain import MAX_OVER_SECONDS, Drain
from dpq.link.shared import pause
from dpq.model.filter import EVERY_TASK, Filter
from dpq.model.task import DeadTask, P, TaskState
from dpq.model.validation import number
from dpq.verbs.bulk import Bulk, BulkAction
from dpq.verbs.stored import chosen_by, some_ids

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.limits.states import LimitState
    from dpq.link.session import QueueSession
    from dpq.model.history import Event, Slot
    from dpq.model.queue_settings import Bounds, WhenFull
    from dpq.model.reports import BatchState, BulkProgress, Imported, LeaseInfo, WorkerInfo
    from dpq.queue.life import QueueLife


class Admin(Generic[P]):
    """The calls of operators on one queue, `q.admin`: `for worker in q.admin.workers(): ...`."""

    def __init__(self, queue: QueueLife[P]) -> None:
        self._queue = queue
        self._operations = queue._operations

    @property
    def _session(self) -> QueueSession[Operations[P]]:
        return self._queue._session  # another one in a forked child

    def limits(self) -> list[LimitState]:
        """Look at the queue, the default of all groups, and every group with its own limit."""
        return self._session.run(self._operations.limits)

    def groups(self) -> list[LimitState]:
        """Look at every group that is closed now, or has a limit of its own."""
        return self._session.run(self._operations.groups)

    def group(self, name: str) -> LimitState:
        """Look at one group: its limit, the units left, if it is open, and if not, why."""
        return self._session.run(self._operations.group, name)

    def drain(self, *, over: float | None = None) -> Drain:
        """Say when all tasks that are due now will have started, within a factor of 1.5.

        It may be farther off with tasks that take much of one unit first and of another later, or
        wait for what a reserve leaves; with spread quotas in a pool or beside a limit of the queue;
        with few unequal or pinned tasks of a pool; and while a rate is learned.

        Args:
            over: Seconds (0.001 to 3600) to measure how many tasks come and end, which the call
                waits for. None: the last 5 minutes of the history say it; if nobody has stored
                them, limits alone do, as if consumers kept up with them; else it is `unknown`.

        Source: docs/design.md, "Drain time".
        """
        before = None
        if over is not None:
            number("over", over, "seconds", 0.001, MAX_OVER_SECONDS)
            before = self._session.run(self._operations.overview)
            pause(over)
        _, verdict = self._session.run(self._operations.judged, before)
        assert verdict.drain  # noqa: S101 - the server has answered
        return verdict.drain

    def history(self, seconds: float = 3600) -> list[Slot]:
        """Return what the queue counted and held, minute by minute, the oldest first.

        Minutes are kept for a day, quarters of an hour for 14 days. Workers, the scheduler and the
        dashboard store them; a slot that is missing costs resolution and loses no count.

        Args:
            seconds: How far back (1 to 1 209 600). Up to a day the slots are minutes, else quarters
                of an hour.

        Source: docs/design.md, "History".
        """
        return self._session.run(self._operations.history, seconds)

    def events(
        self,
        after: str = "",
        limit: int = 100,
        *,
        task_id: str | None = None,
        kinds: str | Collection[str] = (),
    ) -> list[Event]:
        """Return what happened: failed attempts, deaths, 429s, limits set; the oldest first.

        The queue keeps the last 10 000 or so. A task that is pushed, runs and ends well has none.

        Args:
            after: The `id` of the last event that is known; "" returns the newest ones.
            limit: Events at most (1 to 1000).
            task_id: Only the events of this task, which may be gone.
            kinds: Only events of this kind, or of these; see `Event`.

        Source: docs/storage.md, "Events".
        """
        return self._session.run(self._operations.events, after, limit, task_id, kinds)

    def workers(self) -> list[WorkerInfo]:
        """List the workers of this queue, the longest running first.

        A worker reports when it begins, every 10 s and when it ends. A worker that died is listed
        for up to 60 s more.
        """
        return self._session.run(self._operations.workers)

    def quiet(self, worker: str, *, by: str | None = None) -> int:
        """Tell a worker to take no new tasks of this queue; it finishes those that it runs.

        The worker hears of it within 10 s. It gives back, uncounted, the tasks that it has not
        begun, and goes on with its other queues, until `unquiet`. Safe to call again.

        Args:
            worker: The name of a worker, or the id of one run: `workers` lists both.
            by: The person or program that does so: `workers` and the event say it.

        Returns:
            The number of running workers of that name or id; 0 if there is none.
        """
        return self._session.run(self._operations.quiet, worker, by)

    def unquiet(self, worker: str, *, by: str | None = None) -> int:
        """Tell a worker that is quiet to take tasks again; see `quiet`."""
        return self._session.run(self._operations.quiet, worker, by, quiet=False)

    def held(
        self, n: int = 100, *, worker: str | None = None, older_than: float | None = None
    ) -> list[LeaseInfo]:
        """List the leases of this queue, the longest held first, with holders and times.

        All leases are read, in bounded steps. A task that `set_visibility` hides is not among them.

        Args:
            n: The most leases to list.
            worker: Only those of the workers with this name, or of the run with this id.
            older_than: Only those of tasks that were popped that many seconds ago, or before.
        """
        return self._session.run(self._operations.held, n, worker, older_than)

    def release_held(self, leases: Iterable[LeaseInfo]) -> int:
        """Give tasks back that others hold, uncounted:
        `q.admin.release_held(q.admin.held(worker="w"))`.

        Each is ready at once, so it may run again while its holder, if that is alive, still works
        on it. The holder may still ack the task until another consumer has popped it.

        Returns:
            The number that were given back. A delivery that has ended meanwhile is left alone.
        """
        return self._session.run(self._operations.release_held, leases)

    def count(self, chosen: Filter) -> int:
        """Count the tasks that pass a filter, in bounded steps; without a state, the live ones."""
        dead = getattr(chosen, "state", None) is TaskState.DEAD
        bulk = Bulk(self._operations, "purge" if dead else "cancel", chosen)
        return self._session.run(bulk.count_all)

    def bulk(
        self,
        action: BulkAction,
        chosen: Filter | None = None,
        *,
        priority: float | None = None,
        reason: str | None = None,
        rate: float | None = None,
        progress: Callable[[BulkProgress], object] | None = None,
        by: str | None = None,
    ) -> BulkProgress:
        """Change all tasks that pass a filter: `q.admin.bulk("cancel", Filter(group="g"))`.

        It goes in steps of 200. The tasks are counted first, and at most that many are changed.
        Tasks that come meanwhile may be changed or not.

        Args:
            action: `cancel`, `update` (the priority) and `run` (delayed tasks, now) take live
                tasks, `release` and `bury` running ones, `replay` and `purge` dead ones.
            chosen: The filter; None for all tasks of the states that the action takes.
            priority: The new priority of `update`.
            reason: The reason of `bury`.
            rate: Of `replay`: tasks per second, from 0.001: they come due one after another.
            progress: Called after each step; the action stops if it returns False.
            by: The person or program that does so, for the event.

        Returns:
            What was done. Tasks that have changed before their turn are left, and counted. If a
            call ends early, call it again: it goes on with those that still pass.

        Raises:
            ConfigurationError: The action takes no such tasks.
        """
        value = priority if action == "update" else reason
        bulk = Bulk(
            self._operations, action, EVERY_TASK if chosen is None else chosen, value, rate, by
        )
        return self._session.run(bulk.run, progress)

    def set_bounds(
        self,
        *,
        max_tasks: int | None = None,
        max_waiting: int | None = None,
        when_full: WhenFull | None = None,
    ) -> None:
        """Bound the queue, for all producers together: `q.admin.set_bounds(max_tasks=10_000)`.

        What is not named stays as it is. So every process may set the same bounds at its start. A
        bound refuses new tasks only: a task that comes back and a push that meets the task of its
        key need no room.

        Args:
            max_tasks: The most live tasks, delayed and running ones included, 1 to 10^9; 0: no
                bound.
            max_waiting: The most tasks of each group that are due and that no consumer has, 1 to
                10^9; 0 for no bound. Tasks without a group do not count.
            when_full: For a group that is full: `"refuse"` (a new queue) raises `QueueFullError`;
                `"drop_worst"` takes the task, and makes the worst of the group, which may be the
                new one, a dead letter with the reason `group full`.

        Raises:
            ConfigurationError: No bound is named.
        """
        operation = self._operations.set_bounds
        self._session.run(operation, max_tasks, max_waiting, when_full)

    def bounds(self) -> Bounds:
        """Read the bounds of the queue."""
        return self._session.run(self._operations.bounds)

    def batches(self, n: int = 100) -> list[BatchState]:
        """List batches, the one that changed last first."""
        return self._session.run(self._operations.batches, n)

    def forget(self, key: str) -> bool:
        """Free a seen key (`unique_for`), so that the next push with it adds a task again.

        A key that a stored task has is not freed: `cancel` that task.

        Returns:
            True if it was a seen key. Else nothing has changed.
        """
        return self._session.run(self._operations.forget_key, key)

    def export(self) -> Iterator[str]:
        """Read the whole queue as lines of JSON: `file.writelines(q.admin.export())`.

        A line has all that is stored of a task. A running task is written as a ready one, with its
        counts and without its lease. Each step reads about 100 tasks, so a queue of any size goes
        on meanwhile. Then the lines are no snapshot: a task that is stored all the time is written
        once at least, as it is at some moment in between; one that is pushed or acked meanwhile may
        be there or not. For an exact copy, stop the producers and pause the queue before: the last
        line has as `changed` the totals that have moved, `{}` for none.

        Yields:
            Settings, limits, tasks: lines, each with its line break. The last one has counts, so
            that `import_` notices a file that was cut.

        Raises:
            ConfigurationError: There is no such queue.
            ExportFileError: Behind the last line: tasks are stored that were not written.

        Source: docs/operations.md, "Export and import".
        """
        from dpq.verbs.transfer import Export

        for step in Export(self._operations).steps():
            for line in self._session.run(step):
                yield line

    def import_(
        self,
        lines: Iterable[str | bytes],
        *,
        follow: bool = False,
        keep: bool = False,
        again: bool = False,
    ) -> Imported:
        """Add the tasks of an export, with their ids, states, due times, counts and places.

        If the queue does not exist, it is created with the settings of the export. Each step adds
        up to 100 tasks, all of them or none, and notes its last line in the queue. So a call with
        the same lines, after whatever error, goes on where the import was, and adds no task twice.

        Args:
            lines: The lines of `export`: a file, a list or any iterable.
            follow: Keep the queue's settings and limits, and give its order and aging to the tasks.
                By default another order, aging, fairness, cap or limit is an error.
            keep: Leave out tasks whose id or key another task has. By default that is an error.
            again: Add the tasks of an export that was imported here before once more: all that are
                not stored.

        Returns:
            The counts.

        Raises:
            ExportFileError: A line is not what an export writes, or lines are missing. Nothing was
                written: all lines are checked first.
            ImportConflictError: Another task has the id or the key of a task.
            ConfigurationError, LimitChangedError: Settings or limits differ.

        Source: docs/operations.md, "Export and import".
        """
        from dpq.verbs.transfer import Import, rereadable

        with rereadable(lines) as source:
            importing = Import(self._operations, source, follow=follow, keep=keep, again=again)
            for _ in importing.check():
                pause(0)
            self._session.run(importing.run)
        return importing.report

    def register(self) -> None:
        """Create the queue, and add its name to the list that daemons and the CLI read.

        The first push does both, unless its Redis user may not write that list. Then an
        administrator calls this once. Safe to call again.

        Raises:
            ConfigurationError: A setting that this client names contradicts the queue.
        """
        self._session.ready()
        self._session.open(create=True)
        self._session.run(self._operations.register)

    def drop(self) -> None:
        """Remove the whole queue: tasks, settings, totals and its name in the registry.

        Units of limits that its tasks have taken are forgotten with the limits.
        """
        self._session.require_open()
        if not self._session.checked:
            self._session.check_server()
        self._session.send(self._operations.drop())  # it works in any format
        self._operations.settings = None


class DeadLetters(Generic[P]):
    """The dead letters of one queue: `q.dead`."""

    def __init__(self, session: QueueSession[Operations[P]]) -> None:
        self._session = session

    def list(
        self,
        n: int = 100,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> list[DeadTask[P]]:
        """List up to `n` dead tasks, the longest dead first: those with this `reason`, of this
        `group`, and for which `where` returns True.
        """
        return self._session.run(
            self._session.operations.dead_list, n, chosen_by(reason, group, where)
        )

    def replay(
        self,
        ids: Iterable[str] | str | None = None,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
        rate: float | None = None,
    ) -> int:
        """Make dead tasks live again, with all their attempts and their old positions.

        Args:
            ids: One id or several; None for all tasks that the filters of `list` choose. `[]`
                changes nothing; with `durability` it asks for a confirmation of all earlier
                changes.
            rate: Tasks per second, from 0.001: they come due one after another. None: all at
                once.

        Returns:
            The number of replayed tasks. An id that is not dead is skipped, so a retry is
            harmless.
        """
        return self._session.run(
            self._session.operations.dead_replay,
            some_ids(ids),
            chosen_by(reason, group, where),
            rate,
        )

    def purge(
        self,
        ids: Iterable[str] | str | None = None,
        *,
        reason: str | None = None,
        group: str | None = None,
        where: Callable[[DeadTask[P]], bool] | None = None,
    ) -> int:
        """Remove dead tasks for good; the arguments are those of `replay`.

        Returns:
            The number of removed tasks.
        """
        return self._session.run(
            self._session.operations.dead_purge, some_ids(ids), chosen_by(reason, group, where)
        )
