"""Actions on tasks: on some tasks by their ids, or on all that match a filter, in steps of 200.

An action on a filter is a job. It first counts the matching tasks. Then a user confirms the number,
and the job acts on at most so many tasks. It shows its progress, and can be stopped after each
step.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from redis.exceptions import RedisError

from dpq import DPQ, ConfigurationError, DPQError, TaskNotFoundError, TaskState
from dpq.model.errors import LeaseLostError
from dpq.model.interrupts import FAULTS
from dpq.model.priority import encode_priority
from dpq.model.validation import number
from dpq.operations.browse import LOOK_A_PAGE, Browser, Filter, Position
from dpq.operations.dead import chosen_by
from dpq.queue.inside import operations_of, session_of

STEP = 200
"""Tasks in one step: 5 to 20 ms of server time, in calls for one task each."""

JOBS_KEPT = 50
JOBS_AT_ONCE = 4

OF_STATES: dict[str, tuple[TaskState, ...]] = {
    "cancel": (TaskState.READY, TaskState.DELAYED, TaskState.WAITING, TaskState.INVISIBLE),
    "update": (TaskState.READY, TaskState.DELAYED, TaskState.WAITING, TaskState.INVISIBLE),
    "run": (TaskState.DELAYED,),
    "release": (TaskState.INVISIBLE,),
    "bury": (TaskState.INVISIBLE,),
    "replay": (TaskState.DEAD,),
    "purge": (TaskState.DEAD,),
}
"""The states of the tasks that each action takes."""

EVENTFUL = ("replay", "purge")
"""Actions that add an event of their own: a job adds one when it ends, whatever its steps."""

DESTROYS = ("cancel", "bury", "purge")
"""Actions that need a further confirmation by the user."""

JobState = Literal["counting", "counted", "running", "done", "stopped", "failed"]


def act(
    queue: DPQ[Any], action: str, ids: Sequence[str], value: Any = None, told: int | None = 0
) -> tuple[int, int]:
    """Do an action on some tasks.

    Args:
        queue: Their queue.
        action: A key of `OF_STATES`.
        ids: Their ids.
        value: The new priority of `update`, or the reason of `bury`.
        told: None for a step of a job, which adds no event of its own.

    Returns:
        The number of changed tasks, and the number of tasks that were left out: they had changed
        meanwhile.

    Raises:
        ConfigurationError: The value is out of its bounds.
    """
    session = session_of(queue)
    session.ready()
    operations = session.operations
    if action in EVENTFUL:
        done = _change_dead(session, operations, action, list(dict.fromkeys(ids)), told)
        return done, len(ids) - done
    if action == "cancel":
        steps: list[Any] = [operations.cancel(id_, None) for id_ in ids]
    elif action == "update":
        steps = [operations.update(id_, None, value, None, None) for id_ in ids]
    elif action == "run":
        steps = [operations.update(id_, None, None, 0, None) for id_ in ids]
    elif action in ("bury", "release"):
        found = session.run_all([operations.get(id_, None) for id_ in ids])
        running = [task for task in found if getattr(task, "state", None) is TaskState.INVISIBLE]
        if action == "release":
            steps = [operations.release(task, 0, None, None) for task in running]
        else:
            steps = [operations.bury(task, value or "buried by hand") for task in running]
    else:
        raise ConfigurationError(f"action is {action!r}: it must be one of {', '.join(OF_STATES)}")
    done = 0
    for result in session.run_all(steps) if steps else ():
        if not isinstance(result, Exception):
            done += 1
        elif isinstance(result, ConfigurationError) and action == "run":
            pass  # the task runs by now
        elif not isinstance(result, TaskNotFoundError | LeaseLostError):
            raise result
    return done, len(ids) - done


def _change_dead(session: Any, where: Any, action: str, ids: list[str], told: int | None) -> int:
    """Replay or remove dead letters of a queue or of a partition."""
    every = chosen_by(None, None, None)
    if action == "replay":
        return int(session.run(where.dead_replay, ids, every, None, told))
    return int(session.run(where.dead_purge, ids, every, told))


class Job:
    """An action on all tasks that match a filter.

    Attributes:
        id: Its name in URLs.
        state: The stage of the job, such as counting or running.
        searched: The number of tasks that the job has looked at, while counting or running.
        left: The number of tasks that are still to be looked at.
        count: The number of tasks that matched when they were counted.
        done: The number of tasks that the action has changed.
        missed: The number of tasks that had changed when their turn came.
        error: The reason why the job failed.
    """

    def __init__(
        self,
        queue: DPQ[Any],
        action: str,
        chosen: Filter,
        value: Any = None,
        rate: float | None = None,
    ) -> None:
        """Describe a job; `rate` is for a replay, in tasks per second."""
        if chosen.state not in OF_STATES.get(action, ()):
            raise ConfigurationError(f"{action!r} takes no tasks that are {chosen.state}")
        if action == "update":
            encode_priority(value)
        if rate is not None:
            number("rate", rate, "tasks per second", 0.001, 1_000_000)
        self.id = secrets.token_hex(8)
        self.queue, self.action, self.chosen, self.value = queue, action, chosen, value
        self.rate = rate
        self.state: JobState = "counting"
        self.count = self.searched = self.left = self.done = self.missed = 0
        self.error = ""
        self._browser = Browser(operations_of(queue))
        self._stop = threading.Event()

    @property
    def ended(self) -> bool:
        """Return True if the job does nothing any more."""
        return self.state in ("done", "stopped", "failed")

    def stop(self) -> None:
        """Stop after the step that is running."""
        self._stop.set()
        if self.state == "counted":
            self.state = "stopped"

    def count_all(self) -> None:
        """Count the matching tasks, in steps."""
        if self.chosen.everything:
            self.count = getattr(self.queue.stats(), self.chosen.state.value)
            self.searched = self.count
        else:
            for found in self._pages(0):
                self.count += found.passed
        self.state = "stopped" if self._stop.is_set() else "counted"

    def run(self) -> None:
        """Act on matching tasks, in steps: at most on as many tasks as were counted."""
        self.searched = 0
        taken = 0
        for found in self._pages(STEP):
            tasks = [task for task in found.tasks if not self._is_so(task)]
            ids = [task.id for task in tasks][: self.count - taken]
            done, missed = act(self.queue, self.action, ids, self.value, None)
            self.done, self.missed, taken = self.done + done, self.missed + missed, taken + len(ids)
            if taken >= self.count:
                break
            if self.rate and ids:
                self._stop.wait(len(ids) / self.rate)
        self._tell()
        self.state = "stopped" if self._stop.is_set() else "done"

    def _tell(self) -> None:
        """Add the one event of the job: how many tasks it has changed."""
        if self.action in EVENTFUL and self.done:
            first = operations_of(self.queue).partitions[0]
            _change_dead(session_of(self.queue), first, self.action, [], self.done)

    def _is_so(self, task: Any) -> bool:
        """Return True for a task that has the new priority already: a task may come twice."""
        return self.action == "update" and bool(task.priority == self.value)

    def _pages(self, most: int) -> Iterable[Any]:
        positions: list[Position] = []
        search = session_of(self.queue).run
        step = most if not self.rate else max(1, min(most, int(self.rate)))
        while not self._stop.is_set():
            found = search(self._browser.search, self.chosen, positions, step, LOOK_A_PAGE)
            positions, self.left = found.positions, found.left
            self.searched += found.looked
            yield found
            if not found.left or not (found.looked or found.tasks):
                return


class Jobs:
    """The jobs of this process, the newest last."""

    def __init__(self) -> None:
        """Begin without jobs."""
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._lock = threading.Lock()

    def __iter__(self) -> Any:
        """Go over the jobs, the newest first."""
        return iter(list(reversed(self._jobs.values())))

    def get(self, id_: str) -> Job | None:
        """Return the job of an id."""
        return self._jobs.get(id_)

    def begin(self, job: Job) -> Job:
        """Count the tasks of a job, in a thread.

        Raises:
            ConfigurationError: Too many jobs are running.
        """
        with self._lock:
            if sum(each.state in ("counting", "running") for each in self) >= JOBS_AT_ONCE:
                raise ConfigurationError(
                    f"{JOBS_AT_ONCE} actions are running: stop one, or wait for its end"
                )
            self._jobs[job.id] = job
            for each in list(self._jobs.values()):
                if len(self._jobs) > JOBS_KEPT and (each.ended or each.state == "counted"):
                    del self._jobs[each.id]
        self._start(job, job.count_all)
        return job

    def confirm(self, job: Job, expected: int) -> None:
        """Run a job that was counted.

        Raises:
            ConfigurationError: The number is wrong, or the job does not wait for a number.
        """
        with self._lock:
            if job.state != "counted":
                raise ConfigurationError(f"this action is {job.state}: it cannot be confirmed now")
            if expected != job.count:
                raise ConfigurationError(
                    f"{expected} tasks were expected, and {job.count} match: look again"
                )
            job.state = "running"
        self._start(job, job.run)

    def _start(self, job: Job, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except (DPQError, RedisError, OSError, *FAULTS) as error:
                job.error, job.state = f"{type(error).__name__}: {error}", "failed"

        threading.Thread(target=run, name=f"dpq web {job.action}", daemon=True).start()
