"""The facts of a verdict, and its values: all that its rules share. No I/O."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from dpq.explain.drain import Drain
from dpq.explain.incidents import REMEDIES, SEVERITIES, Severity, VerdictState, Warned
from dpq.explain.pace import Pace
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.history import Event
from dpq.model.moments import say_moment
from dpq.model.rates import many, span
from dpq.model.reports import QueueStats, WorkerInfo
from dpq.model.task_data import Frozen

if TYPE_CHECKING:
    from dpq.explain.survey import Survey

LATE_SECONDS = 20.0
"""Seconds without a heartbeat after which a worker is late: two are missing."""

ASKED_SECONDS = 60.0
"""Seconds without a question after which a consumer that is no worker counts as gone. A consumer
that waits asks every 10 s."""

BEAT_SECONDS = LATE_SECONDS / 2
"""Seconds from one heartbeat to the next. A question in the seconds after the last heartbeat may
come from the worker that has died; one in the seconds after `quiet`, from the quiet worker."""

HANGS_SECONDS, HANGS_TIMES, HANGS_UNKNOWN = 30.0, 5.0, 300.0
"""A run hangs after so many seconds, and after so many times of what 99 of 100 runs take; after the
last number of seconds if no run has ended yet."""


class Verdict(Frozen):
    """The one answer to "why does it not move, who is at fault, and what do I do?".

    `str(verdict)` is one line: the state, and why.

    Attributes:
        queue: The queue's name.
        state: The first state that fits.
        because: Why, in one sentence; behind it what its warnings say.
        since: The time since when it is so, UTC; None if it is not known.
        until: The time when it ends by itself, UTC; None if it does not, or if nobody knows.
        who: The worker, group, member or caller that holds it; "" if there is none.
        what_to_do: Sentences that name commands; "" if there is nothing to do.
        also: States that would be the verdict without this one.
        warnings: What goes wrong beside the state.
        needs_person: It does not go on by itself.
        drain: When the tasks that are due will have begun; None if the server does not answer.
    """

    queue: str
    state: VerdictState
    because: str
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    what_to_do: str = ""
    also: tuple[VerdictState, ...] = ()
    warnings: tuple[Warned, ...] = ()
    needs_person: bool = False
    drain: Drain | None = None

    def __str__(self) -> str:
        also = f" (also: {', '.join(self.also)})" if self.also else ""
        return f"{self.state}: {self.because}{also}"

    @property
    def severity(self) -> Severity:
        """`bad` if the queue does not go on without a person, else `warn`, `good` or `soft`."""
        mild = SEVERITIES.get(self.state, "warn")
        falls_behind = self.drain is not None and self.drain.state in ("will not drain", "stalled")
        worse = self.warnings or (self.state is VerdictState.MOVING and falls_behind)
        return "bad" if self.needs_person else "warn" if worse else mild


class Found(NamedTuple):
    """A state or a warning that a rule has found. Times are ms."""

    state: Any  # a `VerdictState` or a `Warned`
    because: str
    incident: str | None = None  # the name of its remedy; None: that of the state
    since: float | None = None
    until: float | None = None
    who: str = ""
    needs_person: bool | None = None  # None: as of its state, unless it ends by itself
    named: Mapping[str, Any] = {}  # what its remedy names


class Facts(NamedTuple):
    """All that a verdict depends on."""

    queue: str
    stats: QueueStats
    survey: "Survey"
    workers: Sequence[WorkerInfo]
    pace: Pace
    drain: Drain
    names: Sequence[str] = ()
    elsewhere: str = ""
    failures: Sequence[Event] = ()
    near: str = ""
    exists: bool = True  # anything of the queue is stored

    @property
    def idle(self) -> bool:
        """True if no task is due or runs, and none was finished in the last minute."""
        return not (self.stats.due or self.survey.leases or self.pace.lately)

    @property
    def alive(self) -> list[WorkerInfo]:
        """The workers that are not late."""
        return [worker for worker in self.workers if worker.seen_seconds <= LATE_SECONDS]

    @property
    def others_ask(self) -> bool:
        """True if another consumer takes tasks than workers that are late or quiet."""
        asked, leases = self.survey.asked_ms or 0.0, self.survey.leases
        moments = [(each.quiet_since or each.seen).timestamp() * 1000 for each in self.workers]
        lately = self.seconds_since(asked) <= ASKED_SECONDS
        asks = lately and asked > max(moments, default=0.0) + BEAT_SECONDS * 1000
        return asks or leases > sum(worker.holds for worker in self.workers)

    def seconds_since(self, at_ms: float | None) -> float:
        """Return the seconds since a moment; infinity without one."""
        return (
            float("inf") if at_ms is None else round(max(0.0, self.survey.now_ms - at_ms) / 1000, 3)
        )

    def worker_of(self, task_id: str) -> str:
        """Name the worker of a task that it runs longest, or return ""."""
        found = (each for each in self.workers if each.longest_task == task_id)
        return next(map(worker_name, found), "")

    def usual(self) -> str:
        """Say how long runs take."""
        run = self.stats.run
        return f" (99 of 100 end within {span(run.p99)})" if run else ""

    def say(self, at_ms: float | None) -> str:
        """Write a moment: `14:32:05 UTC`, with its date if that is another day."""
        moment = moment_of(at_ms or 0.0)
        today = datetime.fromtimestamp(self.survey.now_ms / 1000, UTC)
        return say_moment(moment, today) if moment else "a time far away"

    def remedy(self, found: Found) -> str:
        """Say what to do; "" if there is nothing to do."""
        words = {name: shlex.quote(str(value)) for name, value in found.named.items()}
        scope = f"--group {words['group']} " if found.named.get("group") else ""
        queue = f"--queue {shlex.quote(self.queue)}"
        incident = found.state if found.incident is None else found.incident
        return REMEDIES.get(incident, "").format(**words, scope=scope, queue=queue)


def hangs(stats: QueueStats, seconds: float) -> bool:
    """Return True if a run of so many seconds is far longer than other runs of the queue."""
    run = stats.run
    return seconds > (max(HANGS_SECONDS, HANGS_TIMES * run.p99) if run else HANGS_UNKNOWN)


def moment_of(at_ms: float | None) -> datetime | None:
    """Convert a time of the server; None without one, and for a moment that never comes."""
    if at_ms is None or not 0 <= at_ms < UNTIL_OPENED_MS:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def tasks_are(count: int, rest: str = "due") -> str:
    return many(count, f"task is {rest}", f"tasks are {rest}")


def worker_name(info: WorkerInfo) -> str:
    """Name a worker with its host and process, unless its name says them."""
    if info.host in info.name:
        return f"{info.name} (pid {info.pid})" if str(info.pid) not in info.name else info.name
    return f"{info.name} on {info.host} (pid {info.pid})"


SILENT = "no answer"
"""The first words of what is said of a server that takes a connection, but does not answer."""


def server_away(queue: str, error: object, since_ms: float) -> Verdict:
    """Make the verdict on a queue whose server does not answer since a moment."""
    since, silent = moment_of(since_ms), str(error).startswith(SILENT)
    return Verdict(
        queue=queue,
        state=VerdictState.SERVER_AWAY,
        because=f"the server has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: {error}",
        since=since,
        what_to_do=REMEDIES["server silent" if silent else "server away"],
        needs_person=True,
    )
