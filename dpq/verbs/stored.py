"""The operations on stored tasks, their results and their progress, without a lease. No I/O."""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from pydantic_core import from_json

from dpq.limits.cost import write_cost
from dpq.model.errors import ConfigurationError, TaskNotFoundError
from dpq.model.filter import Filter, filter_text, group_filter
from dpq.model.moments import moment_of
from dpq.model.priority import priority_or_none
from dpq.model.reports import QueueStats
from dpq.model.task import Cost, DeadTask, P, Task, TaskState
from dpq.model.task_data import Progress, Result
from dpq.model.validation import delay_milliseconds, label, number, whole_number
from dpq.script import replies
from dpq.script.command import Command, Steps, all_of, leased, once, same, task_id, task_name
from dpq.script.records import UNREADABLE, make_task, reason_of
from dpq.script.remembered import read_stats
from dpq.script.values import in_rows, read_texts
from dpq.verbs.base import BATCH_BYTES, PAGE, in_batches
from dpq.verbs.browse import BrowseOperations, Found

T = TypeVar("T")


FORGOTTEN = 500
"""Fields of results and progress, or seen keys, that are removed in one round trip."""

START = Found([], 0, 1, None, 0)
"""The page before the first one."""


MAX_RESULTS = 1000
"""Results in one call."""

PROGRESS_BATCH = 100
"""Tasks whose progress is told in one round trip."""


class Outcome(NamedTuple):
    """The end of a task, or its state."""

    state: str  # done, dead, live, or "" if nothing is known of it
    result: Result | None = None  # of a done task: its newest result that is kept
    reason: str = ""  # of a dead task, as its last error
    last_error: str | None = None
    token: int = 0  # of a live task: its newest delivery
    progress: Progress | None = None  # what the delivery `told_by` has said last
    told_by: int = 0


class StoredOperations(BrowseOperations[P]):
    # Looking

    def get(self, id_: str | None, key: str | None) -> Steps[Task[P]]:
        name = task_name(id_, key)
        read = partial(replies.read_stored, self._codec, name.id)
        asked = f"\t{name.key}" if name.key else name.id
        task: Task[P] | None = yield self._command("get", [asked], read)
        if task is None:
            raise TaskNotFoundError(name.id, self.queue_name, "get", key=name.key or None)
        if task.state is not TaskState.INVISIBLE:
            return task
        return _with_progress(task, (yield from self.outcome(task.id)))

    def examine(self, id_: str) -> Steps[tuple[Outcome, Task[P] | None]]:
        """Read what has become of a task, and the task if it has not ended, in one round trip."""
        known = task_id(id_)
        read = partial(replies.read_stored, self._codec, known)
        both: list[Any] = yield from all_of([self._ask("get", [known], read), self.outcome(known)])
        task, outcome = both
        live = task and task.state is not TaskState.DEAD and outcome.state == "live"
        return outcome, _with_progress(task, outcome) if live else None

    def peek(self, count: int, state: TaskState, after: str | None = None) -> Steps[list[Task[P]]]:
        """Look at the first tasks of one state, or at those behind the task `after`."""
        count = whole_number("n", count, 0, 10**9)
        passed = after is None or not task_id(after)
        tasks: list[Task[P]] = []
        page = START
        while page.left and len(tasks) < count:
            most = min(PAGE, count - len(tasks)) if passed else PAGE
            page = yield from self._page(state, page, most)
            for task in page.tasks:
                if passed:
                    tasks.append(task)
                passed = passed or task.id == after
        if not passed and count:
            raise TaskNotFoundError(str(after), self.queue_name, "peek after", state=state)
        return tasks[:count]

    def _page(
        self, state: TaskState, before: Found, most: int, *, newest: bool = False
    ) -> Steps[Found]:
        return self.search(Filter(state), before.position, most, newest=newest)

    def stats(self) -> Steps[QueueStats]:
        return self.report("stats", [], read_stats)

    def report(self, name: str, args: Sequence[int | str], read: Callable[[Any], T]) -> Steps[T]:
        """Run a script that reports on the queue at one moment."""
        return self._ask(name, [self._now(), *args], read)

    def server_time(self) -> Steps[int]:
        """Read the server's clock, ms."""
        ask = self._command("push", [self._now()], replies.read_time)
        return once(ask._replace(needs_confirmation=False))

    # Changing

    def update(
        self,
        id_: str | None,
        key: str | None,
        priority: float | None,
        delay: float | timedelta | None,
        cost: Cost | None,
    ) -> Steps[None]:
        if priority is None and delay is None and cost is None:
            raise ConfigurationError("update changes nothing: give priority, delay or cost")
        units = "" if cost is None else write_cost(cost)
        wait = "" if delay is None else delay_milliseconds(delay)
        name = task_name(id_, key)
        read = partial(replies.read_change, "update", name, self.queue_name)
        args = [self._now(), name.id, *priority_or_none(priority), wait, name.key, units]
        return self._ask("update", args, read)

    def cancel(self, id_: str | None, key: str | None, *, running: bool = True) -> Steps[None]:
        """Remove a live task; one that is running only if `running`."""
        name = task_name(id_, key)
        read = partial(replies.read_change, "cancel", name, self.queue_name)
        args = [self._now(), name.id, name.key]
        return self._ask("cancel", args if running else [*args, "0"], read)

    def forget_key(self, key: str) -> Steps[bool]:
        """Free a seen key; True if it was one."""
        return self._ask("forget", [1, label("key", key)], bool)

    def purge(self, state: TaskState | None) -> Steps[int]:
        """Remove the tasks of one state, or of all; tasks that are pushed meanwhile may stay."""
        if state is None:
            while (yield self._command("forget", [FORGOTTEN, ""], same)):
                pass
        # "waiting" before "ready": if a head goes, the next waiting task of its group becomes ready
        order = ("waiting", "ready", "delayed", "invisible", "dead")
        stats = yield from self.stats()
        stored = sum(getattr(stats, name) for name in order)  # a due task may stand in any state
        removed = 0
        states = order if state is None else (state.value,)
        for name in states:
            left, done, last = stored, 0, False
            while left > 0 and not last:
                last = left <= PAGE
                args = [self._now(), name, min(left, PAGE), done if last else ""]
                gone = yield self._command("purge", args, same)
                if not gone and not last:  # others have removed the rest: the event counts our part
                    yield self._command("purge", [self._now(), name, 0, done], same)
                    break
                done += gone
                left -= gone
            removed += done
        if not removed:  # the removals of an earlier call may still need a confirmation
            yield self._command("purge", [self._now(), states[0], 0, 0], same)
        return removed

    # Results and progress

    def outcome(self, id_: str) -> Steps[Outcome]:
        known = task_id(id_)
        return self._ask("result", [self._now(), known], partial(read_outcome, known))

    def results(self, after: str, limit: int) -> Steps[list[Result]]:
        """Read results behind a position, up to 4 MiB of them, but at least one."""
        most, after = whole_number("limit", limit, 1, MAX_RESULTS), after or "0"
        if not isinstance(after, str) or not re.fullmatch(r"\d{1,16}(-\d{1,16})?", after, re.ASCII):
            raise ConfigurationError(
                f"after is {after!r}: it must be the id of a result of this queue, or '' to begin "
                "with the oldest"
            )
        found: list[Result] = []
        room = BATCH_BYTES
        again: bytes | bool = True
        while again and len(found) < most and room > 0:
            args = [self._now(), after, most - len(found), room]
            known, again, *page = yield self._command("results", args, list)
            found += _results(page)
            room -= sum(map(len, page[4::5]))
            after = known.decode()
        return found

    def tell_progress(self, told: Sequence[tuple[Task[Any], str]]) -> Steps[list[bool]]:
        """Store how far the work on tasks is; False if a delivery is not the live one."""
        kept: list[bool] = []
        for batch in in_batches(told, PROGRESS_BATCH):
            args: list[Any] = [self._now()]
            for task, text in batch:
                args += (leased(task).id, task.token, text)
            reply = yield self._command("progress", args, list)
            kept += (code == 1 for code in reply)
        return kept

    # Dead letters

    def dead_list(
        self, count: int, chosen: Callable[[DeadTask[P]], bool], *, newest: bool = False
    ) -> Steps[list[DeadTask[P]]]:
        """List dead letters, the longest dead first, or the newest."""
        count = whole_number("n", count, 0, 10**9)
        found: list[DeadTask[P]] = []
        page = START
        while page.left and len(found) < count:
            page = yield from self._page(TaskState.DEAD, page, PAGE, newest=newest)
            found += filter(chosen, cast("list[DeadTask[P]]", page.tasks))
        return found[:count]

    def dead_replay(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        rate: float | None,
        *,
        before: int = 0,
        tells: bool = True,
    ) -> Steps[int]:
        """Make dead tasks live, at most `rate` per second, of which `before` were made just now."""
        spacing = spacing_of(rate)

        def replay(batch: Sequence[str], done: int, told: int | str) -> Command[int]:
            args = [self._now(), (before + done) * spacing, spacing, told, *batch]
            return self._command("replay", args, same)

        return self._each_dead(ids, chosen, replay, tells=tells)

    def dead_purge(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        *,
        tells: bool = True,
    ) -> Steps[int]:

        def purge(batch: Sequence[str], _: int, told: int | str) -> Command[int]:
            return self._command("purge", [self._now(), "dead", len(batch), told, *batch], same)

        return self._each_dead(ids, chosen, purge, tells=tells)

    def _each_dead(
        self,
        ids: Sequence[str] | None,
        chosen: Callable[[DeadTask[P]], bool],
        act: Callable[[Sequence[str], int, int | str], Command[int]],
        *,
        tells: bool,
    ) -> Steps[int]:
        """Act in steps; the last step adds an event that counts all of them, if `tells`."""
        done = 0

        def step(batch: Sequence[str], *, last: bool) -> Command[int]:
            return act(batch, done, done if last and tells else "")

        if ids is not None:
            batches = list(in_batches([task_id(id_) for id_ in ids], PAGE)) or [[]]
            for i, batch in enumerate(batches, 1):
                done += yield step(batch, last=i == len(batches))
            return done
        stats = yield from self.stats()
        page, left, last = START, stats.dead, False  # tasks that die meanwhile come behind these
        while page.left and left > 0:
            page = yield from self._page(TaskState.DEAD, page, min(PAGE, left))
            left -= page.looked
            batch = [task.id for task in cast("list[DeadTask[P]]", page.tasks) if chosen(task)]
            last = left <= 0 and bool(batch)
            done += (yield step(batch, last=last)) if batch else 0
        if not done or not last:  # the changes of an earlier call may still need a confirmation
            yield step([], last=True)
        return done


def spacing_of(rate: float | None) -> float:
    """Convert a rate to the ms from one replayed task to the next."""
    if rate is not None:
        number("rate", rate, "tasks per second", 0.001, 1_000_000)
    return 1000 / rate if rate else 0.0


def _with_progress(task: Task[P], outcome: Outcome) -> Task[P]:
    """Add the progress that the delivery of a task has told; a later delivery may have told it."""
    progress = outcome.progress if outcome.told_by == task.token else None
    return task.model_copy(update={"progress": progress}) if progress else task


def chosen_by(
    reason: str | None, group: str | None, where: Callable[[DeadTask[P]], bool] | None
) -> Callable[[DeadTask[P]], bool]:
    """Make a function that returns True for a dead task which passes all filters."""
    if reason is not None:
        filter_text("reason", reason)
    if group is not None:
        group_filter(group)
    if where is not None and not callable(where):
        raise ConfigurationError(f"where is {where!r:.200}: it must be a function of a dead task")
    return lambda task: (
        (reason is None or task.reason == reason)
        and (group is None or task.group == group)
        and (where is None or where(task))
    )


def some_ids(ids: Iterable[str] | str | None) -> Sequence[str] | None:
    """Make a list of one id or several, without duplicates; None for all."""
    if ids is None:
        return None
    several = isinstance(ids, Iterable) and not isinstance(ids, str)
    return list(dict.fromkeys(map(task_id, ids if several else [ids])))


def read_outcome(id_: str, reply: list[bytes]) -> Outcome:
    kind, *rest = reply
    state = kind.decode()
    if state == "done":
        return Outcome(state, _result(rest[0], rest[1], rest[2], id_.encode(), rest[3]))
    if state == "dead":
        try:
            task = make_task(Task, id_, rest[0].partition(b"\n")[0], None, TaskState.DEAD, None)
            reason = reason_of(rest[0].partition(b"\n")[0])[1]
        except UNREADABLE:
            return Outcome(state, reason="bad record")
        return Outcome(state, reason=reason, last_error=task.last_error)
    if state == "live":
        by, progress = read_progress(rest[1].decode("utf-8", "replace"))
        return Outcome(state, token=int(rest[0]), progress=progress, told_by=by)
    return Outcome(state)


def read_progress(stored: str) -> tuple[int, Progress | None]:
    """Read a stored progress, and the token of its delivery; leave out what others wrote."""
    try:
        token, at, done, total, text = stored.split(" ", 4)
        whole = None if total == "-" else float(total)
        return int(token), Progress(done=float(done), total=whole, text=text, at=moment_of(int(at)))
    except ValueError:
        return 0, None


def _results(page: Sequence[bytes]) -> list[Result]:
    found = []
    for fields in in_rows(page, 5):
        try:
            found.append(_result(*fields))
        except ValueError:  # another program wrote into Redis
            continue
    return found


def _result(number: bytes, at: bytes, until: bytes, id_: bytes, body: bytes) -> Result:
    place, when, end, name = read_texts([number, at, until, id_])
    return Result(
        id=f"{place}-{when}",
        task_id=name,
        value=from_json(body),
        at=moment_of(int(when)),
        kept_until=moment_of(int(end)),
    )
