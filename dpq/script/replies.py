"""Raw replies of the scripts -> results or errors. `records` reads the tasks in them.

Operations name a function of this module as the reader of each command. A reader gets the reply as
the client returned it: ints, bytes and lists of them. It must not send anything.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.errors import (
    BatchFinishedError,
    ConfigurationError,
    DuplicateTaskError,
    LeaseLostError,
    PayloadError,
    QueueFullError,
    TaskNotFoundError,
)
from dpq.model.moments import moment_of
from dpq.model.payload import Codec
from dpq.model.reports import BatchState, Problem
from dpq.model.schedule import Later, read_later
from dpq.model.task import Task, TaskName, TaskState
from dpq.script.records import NO_RECORD, UNREADABLE, make_task, read_payload, stored_task
from dpq.script.refusals import Code
from dpq.script.values import in_rows, read_texts

P = TypeVar("P")


OLDEST_SERVER = (6, 2)
"""The oldest Redis version that the tests run on; older ones cannot block for parts of a second."""

_INVISIBLE = TaskState.INVISIBLE


Kept = bool | None
"""The answer to the extension of a lease: False if it is lost, None if its task was cancelled."""


class Batch(NamedTuple, Generic[P]):
    """The result of one pop.

    Attributes:
        tasks: The tasks that are leased now.
        unreadable: Leased tasks whose payload does not validate, or whose record cannot be read,
            each with the reason: they are buried.
        refused: Leased tasks for which a validator of the payload's type raised an error of its
            own, each with that error: a failed attempt.
        again: The upkeep is not done, so the caller must ask again at once.
        size: Bytes of all payloads.
        next_event_ms: The ms until time alone may let a task run; None if nothing is to come, or
            if another waiter watches that moment.
        second: At that moment another waiter asks first, and this one in case that one is dead.
        now_ms: The server's clock, if no task was ready, or tasks may be granted ahead; else 0.
        buried: The ids of the `unreadable` tasks that were buried, each with the reason.
        failed: The last error of `refused`: the caller gets it if there are no tasks.
        recheck_ms: The ms after which a waiter must look again at the latest; None if the queue
            does not exist, or if there may be more tasks. The time is shorter if an older DPQ may
            use the queue.
        waits_ms: The ms that each of `tasks` has to wait before it begins; or empty: none has to.
    """

    tasks: list[Task[P]]
    unreadable: list[tuple[Task[Any], str]]
    again: bool = False
    next_event_ms: float | None = None
    size: int = 0
    now_ms: float = 0
    refused: Sequence[tuple[Task[Any], Exception]] = ()
    failed: Exception | None = None
    recheck_ms: float | None = None
    buried: Sequence[tuple[str, str]] = ()
    waits_ms: Sequence[float] = ()
    second: bool = False


def require_version(info: Mapping[str, Any]) -> None:
    """Check the version in the reply of INFO."""
    version = str(info.get("redis_version", "7"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < OLDEST_SERVER:
        raise ConfigurationError(
            f"the server is Redis {version}: DPQ needs Redis 6.2 or newer, or Valkey"
        )


def read_batch(codec: Codec[P], reply: list[Any], lease_ms: int = 0) -> Batch[P]:
    """Read the reply of pop; `lease_ms` is the lease that pop was asked for."""
    first = reply[0]
    if first <= 0:
        return _nothing(reply)
    tasks: list[Task[P]] = []
    unreadable: list[tuple[Task[Any], str]] = []
    refused: list[tuple[Task[Any], Exception]] = []
    until = moment_of(first)
    size = 0
    wait_us, now_us, recheck_ms, *waits_us = reply.pop() if isinstance(reply[-1], list) else _NOTED
    waits: list[float] = []
    for number, (name, value) in enumerate(zip(reply[1::2], reply[2::2], strict=True)):
        task_id = name.decode("utf-8", "replace")
        record, _, body = value.partition(b"\n")
        size += len(body)
        try:
            payload, met = read_payload(codec, body, task_id)
            task = make_task(Task, task_id, record, payload, _INVISIBLE, until)
            if task.visibility:
                own = moment_of(first - lease_ms + task.visibility * 1000)
                task = task.model_copy(update={"visible_until": own})
            if met is None:
                tasks.append(task)
                waits.append(waits_us[number] / 1000 if waits_us else 0)
            else:
                refused.append((task, met))
        except UNREADABLE as error:  # the other tasks of the batch must reach the caller
            reason = f"payload: {error}" if isinstance(error, PayloadError) else "bad record"
            record = record.partition(b" ")[0] + NO_RECORD[1:]  # the token of the damaged record
            unreadable.append((make_task(Task, task_id, record, None, _INVISIBLE, until), reason))
    return Batch(
        tasks,
        unreadable,
        next_event_ms=_wait_of(wait_us),
        size=size,
        now_ms=now_us / 1000,
        refused=refused,
        recheck_ms=recheck_ms or None,
        waits_ms=waits if any(waits) else (),
        second=wait_us < -1,
    )


_NOTED = (-1, 0, 0)
"""The list at the end of a reply of pop, if the caller does not take tasks ahead."""


def _nothing(reply: list[Any]) -> Batch[Any]:
    if reply[0] == Code.AGAIN:
        return Batch([], [], again=True)
    return Batch(
        *([], []),
        next_event_ms=_wait_of(reply[1]),
        now_ms=reply[2] / 1000,
        recheck_ms=reply[3] if len(reply) > 3 else None,
        second=reply[1] < -1,
    )


def _wait_of(us: float) -> float | None:
    return None if us == -1 else abs(us) / 1000


def read_time(reply: list[Any]) -> int:
    """Read the reply of a push of no task: the server's time, ms."""
    return int(reply[1])


def read_ids(queue_name: str, ids: list[str], keys: Mapping[int, str], reply: list[Any]) -> bool:
    """Read the reply of push; replace ids by those of the tasks that have the keys already."""
    if reply[0] == Code.QUEUE_FULL:
        _, size, bound, group, coming = reply
        raise QueueFullError(queue_name, group.decode() or None, size, bound, coming)
    if reply[0] == Code.BATCH_FINISHED:
        raise BatchFinishedError(reply[2].decode(), queue_name)
    if reply[0] in (Code.AFTER_RECURRING, Code.AFTER_LATER):
        named, own = reply[2].decode(), ids[reply[1] - 1]
        raise ConfigurationError(
            f"after has task {named}, which recurs: it never ends, so no task can wait for that; "
            "let a run of it push the task"
            if reply[0] == Code.AFTER_RECURRING
            else f"after of task {own} has task {named}: a task can wait only for tasks that are "
            "stored, or that stand before it in the same push_many"
        )
    if reply[0] < 0:
        key, holder = keys[reply[1] - 1], reply[2].decode()
        if reply[0] == Code.KEY_TAKEN:
            raise DuplicateTaskError(key, None if holder in ids else holder)
        raise ConfigurationError(
            f"key {key!r} belongs to task {holder} of another group: a task cannot "
            "change its group; use another key, or cancel that task first"
        )
    for index, holder in zip(reply[1::2], reply[2::2], strict=True):
        ids[index - 1] = holder.decode()
    return bool(reply[0] == 1)


DONE = 1
"""The code of a finished task. ack does not send it: a task without a code is finished."""


def read_codes(ids: Sequence[str], reply: list[Any]) -> list[int | Later]:
    """Read the reply of ack, as one code for each task."""
    codes: list[int | Later] = [DONE] * len(ids)
    for index, code in zip(reply[::2], reply[1::2], strict=True):
        codes[index - 1] = code if isinstance(code, int) else read_later(code, ids[index - 1])
    return codes


def read_ack(task_id: str, reply: list[Any]) -> bool | Later:
    """Read the reply of ack for one task: False if the task was gone already."""
    if not reply:
        return True
    if reply[1] == Code.LEASE_LOST:
        raise LeaseLostError("ack", [task_id])
    return False if reply[1] == 0 else read_later(reply[1], task_id)


def read_fail(task_id: str, reply: int | bytes) -> int | Later:
    """Read the reply of fail."""
    if isinstance(reply, int):
        return read_lease("fail", task_id, reply)
    return read_later(reply, task_id)


def read_lease(action: str, task_id: str, reply: int) -> int:
    """Read the reply to a call that needs the live token."""
    if reply in (Code.LEASE_LOST, Code.CANCELLED):
        raise LeaseLostError(action, [task_id], cancelled=reply == Code.CANCELLED)
    return reply


def read_change(action: str, task: TaskName, queue_name: str, reply: int) -> None:
    """Read the reply to a call that needs a live task."""
    if reply == Code.NOT_FOUND:
        raise TaskNotFoundError(task.id, queue_name, action, key=task.key or None)
    if reply == Code.RUNNING and action == "cancel":
        raise ConfigurationError(
            f"{task} is running, and stays: running=True cancels a running task, too"
        )
    if reply == Code.RUNNING:
        raise ConfigurationError(
            f"{task} is running: of a running task only the priority can change; "
            "its holder can say set_visibility"
        )


def read_stored(codec: Codec[P], task_id: str, reply: list[Any]) -> Task[P] | None:
    """Read the reply of get for one id or key: None if it is not stored."""
    state, until, record, body = reply
    if not state:
        return None
    name, _, of_key = state.decode("utf-8", "replace").partition(" ")
    return stored_task(codec, of_key or task_id, TaskState(name), until, record, body)


class Promoted(NamedTuple):
    """The result of one step of upkeep.

    Attributes:
        moved: The number of tasks and groups that moved.
        wait_ms: The ms until the next event, or None.
        gone: Nothing of the queue is stored.
        pruned: The number of useless gates that were removed; there may be more.
    """

    moved: int
    wait_ms: int | None
    gone: bool = False
    pruned: int = 0


def read_promoted(reply: list[Any]) -> Promoted:
    """Read the reply of promote."""
    pruned = reply[2] if len(reply) > 2 else 0
    return Promoted(reply[0], read_wait(reply[1]), gone=reply[1] == -2, pruned=pruned)


UNKNOWN = -2
"""The reply of glance for a queue that must be stepped."""


class Glance(NamedTuple):
    """The result of a glance at many queues.

    Attributes:
        names: The number of names in the list of queues; -1 if they cannot be counted.
        waits: For each queue the ms until its next event, -1 if nothing is to come, or UNKNOWN.
    """

    names: int
    waits: list[int]


def read_glance(reply: list[Any]) -> Glance:
    """Read the reply of glance."""
    return Glance(reply[0], reply[1:])


def read_wait(reply: int) -> int | None:
    """Read the ms until the next event; None if no event is to come by time alone."""
    return None if reply < 0 or reply > UNTIL_OPENED_MS / 2 else int(reply)


def read_problems(reply: list[Any]) -> tuple[str, list[Problem]]:
    """Read the reply of check: the next cursor ("0" at the end), and the problems."""
    cursor, *texts = read_texts(reply)
    return cursor, [Problem(kind=k, subject=s, detail=d) for k, s, d in in_rows(texts, 3)]


_BATCH = re.compile(r"(\d+) (\d+) (\d+) (\d+) ([osf]) (\d+) (\d+) (\d+) [01] (\S*)", re.ASCII)


def read_batch_state(name: str, text: str) -> BatchState | None:
    """Read the text of a batch, as in lua/lib/batches.lua; None if it is unknown, or damaged."""
    found = _BATCH.fullmatch(text)
    if found is None or len(text) > 400:
        return None
    left, done, dead, removed = map(int, found.groups()[:4])
    state, began, changed, finished, callback = found.groups()[4:]
    return BatchState(
        name=name,
        left=left,
        done=done,
        dead=dead,
        removed=removed,
        sealed=state != "o",
        began_at=moment_of(int(began)),
        changed_at=moment_of(int(changed)),
        finished_at=moment_of(int(finished)) if state == "f" else None,
        callback=callback or None,
    )
