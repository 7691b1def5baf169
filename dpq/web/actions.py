"""Actions on tasks: on some tasks by their ids, or on all that match a filter, in steps of 200.

An action on a filter is a job. It first counts the matching tasks. Then a user confirms the number,
and the job acts on at most that many tasks. It shows its progress, and can be stopped after each
step.
"""

import secrets
import threading
from collections.abc import Sequence
from typing import Any, Literal

from dpq import DPQ, ConfigurationError
from dpq.queue.inside import operations_of, session_of
from dpq.verbs import bulk
from dpq.verbs.bulk import Bulk

JOBS_KEPT = 50
JOBS_AT_ONCE = 4

DESTROYS = ("cancel", "bury", "purge")
"""Actions that need a further confirmation by the user."""

JobState = Literal["counting", "counted", "running", "done", "stopped", "failed"]


def act(
    queue: DPQ[Any], action: str, ids: Sequence[str], value: Any = None, by: str = ""
) -> tuple[int, int]:
    """Do an action on some tasks; return how many were changed, and how many had changed."""
    session, done, missed = session_of(queue), 0, 0
    alone = action in ("bury", "cancel") and len(ids) == 1
    for start in range(0, len(ids), bulk.STEP):
        some = ids[start : start + bulk.STEP]
        more = session.run(bulk.act, session.operations, action, some, value, alone=alone)
        done, missed = done + more[0], missed + more[1]
    if not alone:
        session.run(bulk.tell, session.operations, action, done, value, by)
    return done, missed


class Job:
    """An action on all tasks that match a filter, in a thread."""

    def __init__(self, queue: DPQ[Any], *action: Any, **more: Any) -> None:
        """Take the queue, and the other arguments of a `Bulk`."""
        self._bulk = Bulk(operations_of(queue), *action, **more)
        self.id = secrets.token_hex(8)
        self.queue = queue
        self.state: JobState = "counting"
        self.error = ""
        self._stop = threading.Event()

    def __getattr__(self, name: str) -> Any:
        """Return what the action says of itself: `action`, `chosen`, `count`, `done`, ..."""
        return getattr(self._bulk, name)

    @property
    def ended(self) -> bool:
        """Return True if the job does nothing any more."""
        return self.state in ("done", "stopped", "failed")

    def stop(self) -> None:
        """Stop after the step that is running."""
        self._stop.set()
        if self.state == "counted":
            self.state = "stopped"

    def start(self) -> None:
        """Count the matching tasks, or act on as many as were counted, in a thread."""
        bulk, counts = self._bulk, self.state == "counting"
        work = (bulk.count_some, "counted") if counts else (bulk.step, "done", bulk.tell)
        name = f"dpq web {self.action}"
        threading.Thread(target=self._repeat, args=work, name=name, daemon=True).start()

    def _repeat(self, step: Any, state: JobState, *last: Any) -> None:
        """Do steps until one returns False or the job is stopped, then the last ones."""
        run = session_of(self.queue).run
        try:
            while not self._stop.is_set() and run(step):
                pass
            for each in last:
                run(each)
            self.state = "stopped" if self._stop.is_set() else state
        except Exception as error:
            self.error, self.state = f"{type(error).__name__}: {error}", "failed"


class Jobs:
    """The jobs of this process, the newest last."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Any:
        """Go over the jobs, the newest first."""
        return iter(list(reversed(self._jobs.values())))

    def get(self, id_: str) -> Job | None:
        """Return the job of an id."""
        return self._jobs.get(id_)

    def begin(self, job: Job) -> Job:
        """Count the tasks of a job, in a thread."""
        with self._lock:
            if sum(each.state in ("counting", "running") for each in self) >= JOBS_AT_ONCE:
                raise ConfigurationError(
                    f"{JOBS_AT_ONCE} actions are running: stop one, or wait for its end"
                )
            self._jobs[job.id] = job
            for each in list(self._jobs.values()):
                if len(self._jobs) > JOBS_KEPT and (each.ended or each.state == "counted"):
                    del self._jobs[each.id]
        job.start()
        return job

    def confirm(self, job: Job, expected: int) -> None:
        """Run a job that was counted."""
        with self._lock:
            if job.state != "counted":
                raise ConfigurationError(f"this action is {job.state}: it cannot be confirmed now")
            if expected != job.count:
                raise ConfigurationError(
                    f"{expected} tasks were expected, and {job.count} match: look again"
                )
            job.state = "running"
        job.start()
