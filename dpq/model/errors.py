"""Every error that DPQ raises itself; `signals` has what a handler may raise.

Errors of the Redis client pass through unwrapped: callers already handle them.
"""

from collections.abc import Sequence
from typing import Any

MOST_QUOTED = 200
"""Characters of a wrong argument, with its name, in the text of an error."""


class Portable(Exception):
    """An exception that copies and process pools keep whole: they do not call its `__init__`."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__new__, (type(self),), vars(self) | {"args": self.args}


class DPQError(Portable):
    """Base of every error that DPQ raises itself."""


class ConfigurationError(DPQError, ValueError):
    """An argument or a setting is out of its bounds; unless the text says so, nothing changed."""

    def __init__(self, message: str) -> None:
        said, colon, bound = message.rpartition(": it must")
        if len(said) > MOST_QUOTED:
            message = f"{said[:MOST_QUOTED]}...{colon}{bound}"
        super().__init__(message)


class PayloadError(DPQError, ValueError):
    """A payload cannot be encoded, decoded or validated; `task_id` is None if nothing is stored."""

    def __init__(self, message: str, *, task_id: str | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id


class DuplicateTaskError(DPQError):
    """A push with `on_duplicate="error"` found that its key is taken; nothing was changed.

    `task_id` is the task that has the `key`; None if that is an earlier push of the same batch.
    """

    def __init__(self, key: str, task_id: str | None) -> None:
        holder = "an earlier push of the batch" if task_id is None else f"task {task_id}"
        super().__init__(
            f"key {key!r} is taken by {holder}: wait until it is gone, or choose another "
            "on_duplicate"
        )
        self.key, self.task_id = key, task_id


class QueueFullError(DPQError):
    """A bound leaves no room for a push. Nothing of the refused push, or batch, was stored.

    Attributes:
        queue_name: The queue.
        group: The group whose `max_waiting` is reached; None for `max_tasks` of the queue.
        size: The tasks that the bound counts.
        bound: The bound.
        stored: What earlier batches of the same `push_many` have stored: index of the push -> id.
    """

    def __init__(
        self, queue_name: str, group: str | None, size: int, bound: int, coming: int = 1
    ) -> None:
        where, held, name = f"queue {queue_name!r}", "holds", "max_tasks"
        if group is not None:
            where, held, name = f"group {group!r} of {where}", "has waiting", "max_waiting"
        way_out = "wait with push(timeout=...), or push later"
        if coming > bound:
            way_out = f"push at most {bound} at once"
        super().__init__(
            f"{where} is full: it {held} {size} of at most {bound} tasks ({name}), and {coming} "
            f"more would come; nothing of this push was stored: {way_out}, or raise the bound with "
            f"q.admin.set_bounds({name}=...)"
        )
        self.queue_name = queue_name
        self.group = group
        self.size = size
        self.bound = bound
        self.coming = coming
        self.stored: dict[int, str] = {}


class BatchFinishedError(DPQError):
    """A push names a batch that is sealed and finished; nothing was changed."""

    def __init__(self, batch: str, queue_name: str) -> None:
        super().__init__(
            f"batch {batch!r} of queue {queue_name!r} is finished: it was sealed, and none of its "
            "tasks is left. Push into a batch of another name, and seal a batch only after its "
            "last push, unless its own tasks push the others while they run"
        )
        self.batch, self.queue_name = batch, queue_name


class BatchNotFoundError(DPQError):
    """The queue has no batch of this name."""

    def __init__(self, batch: str, queue_name: str) -> None:
        super().__init__(
            f"queue {queue_name!r} has no batch {batch!r}: no task was pushed into it and nobody "
            "has sealed it, or it ended more than 90 days or 10000 batches ago; "
            "q.admin.batches() lists those that are stored"
        )
        self.batch, self.queue_name = batch, queue_name


class ExportFileError(DPQError, ValueError):
    """A line of an export, counted from 1, cannot be read, or tasks or lines are missing."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


class ImportConflictError(DPQError):
    """An import meets another task under the id or the key of one of its tasks.

    The lines before it were imported, up to 100 of them perhaps not. A second call goes on there.
    `key` is None if the id is taken; `holder` is the id of the task that is stored.
    """

    def __init__(self, line: int, task_id: str, key: str | None, holder: str) -> None:
        met = f"its key {key!r} is taken by task {holder}"
        if key is None:
            met = "the queue has another task with this id (its group or key differs)"
        super().__init__(
            f"line {line}: task {task_id} cannot be imported: {met}. Cancel one of them, or import "
            "with keep=True (--keep), which leaves out the tasks of the export that meet others"
        )
        self.line, self.task_id, self.key, self.holder = line, task_id, key, holder


class LimitChangedError(DPQError):
    """A limit is not what its changer has seen (`dpq limit`, dashboard); nothing was changed.

    `stands` has the rules that stand now, as stored; "" for no limit.
    """

    def __init__(self, stands: str, words: str) -> None:
        super().__init__(
            f"the limit was changed meanwhile, and nothing was done: now it is {words}; look at it "
            "again, then repeat the change"
        )
        self.stands = stands


class TaskNotFoundError(DPQError):
    """The queue holds no live task with this id; or, for `peek(after=)`, none in that state.

    `task_id` is "" if the call named a key.
    """

    def __init__(
        self,
        task_id: str,
        queue_name: str,
        action: str,
        *,
        key: str | None = None,
        state: str | None = None,
        why: str = "holds no such live task (finished, cancelled, dead, or never pushed here)",
    ) -> None:
        which = f"task {task_id!r}" if key is None else f"the task with key {key!r}"
        if state is not None:
            why = f"has no such {state} task now; start again from the first one"
        super().__init__(f"cannot {action} {which}: queue {queue_name!r} {why}")
        self.task_id, self.key, self.action = task_id, key, action


class LeaseLostError(DPQError):
    """The delivery is over: another consumer has the task, it was cancelled, or it ended before.

    The call changed nothing.

    Attributes:
        task_id: The task; for `ack_many`, the first whose lease is lost.
        action: The call that was refused.
        task_ids: All tasks of the call whose lease is lost.
        cancelled: It was cancelled, or purged, during this delivery; known for an hour.
    """

    def __init__(self, action: str, task_ids: Sequence[str], *, cancelled: bool = False) -> None:
        more = f" and {len(task_ids) - 1} more" if len(task_ids) > 1 else ""
        why = "the task was cancelled during this delivery; stop to work on it"
        if not cancelled:
            why = (
                "the token of this delivery is no longer the live one (the lease ran out and "
                "another consumer has the task, or the delivery was finished before)"
            )
        super().__init__(f"cannot {action} task {task_ids[0]}{more}: {why}")
        self.cancelled, self.task_id = cancelled, task_ids[0]
        self.task_ids = tuple(task_ids)
        self.action = action


class LimitTimeoutError(DPQError):
    """`acquire` cannot have its units within its timeout. Nothing was taken.

    It is raised as soon as that is known. `group` is None for the queue's limit. `retry_after`:
    seconds until the limit may have the units, as far as it is known now.
    """

    def __init__(self, group: str | None, retry_after: float, timeout: float, cost: str) -> None:
        scope = "the queue" if group is None else f"group {group!r}"
        super().__init__(
            f"the limit of {scope} has no room for cost={cost} within timeout={timeout:g} s: ask "
            f"again in {retry_after:.3f} s, or wait longer (timeout=None waits for ever)"
        )
        self.group, self.retry_after, self.timeout = group, retry_after, timeout


class TaskDeadError(DPQError):
    """The task whose result was asked for is a dead letter: it has none.

    `reason` and `last_error` are those of its `DeadTask`.
    """

    def __init__(
        self, task_id: str, queue_name: str, reason: str, last_error: str | None = None
    ) -> None:
        said = f", last error: {last_error}" if last_error else ""
        super().__init__(
            f"task {task_id!r} of queue {queue_name!r} is dead ({reason}{said}): it has no result; "
            "dead.replay([task_id]) lets it run again"
        )
        self.task_id = task_id
        self.queue_name = queue_name
        self.reason = reason
        self.last_error = last_error


class ResultTimeoutError(DPQError, TimeoutError):
    """The task whose result was asked for has not ended within `timeout` seconds."""

    def __init__(self, task_id: str, queue_name: str, timeout: float) -> None:
        super().__init__(
            f"task {task_id!r} of queue {queue_name!r} has not ended within timeout={timeout:g} s: "
            "ask again, wait longer (timeout=None waits for ever), or see why it does not run: "
            "why(task_id)"
        )
        self.task_id, self.queue_name, self.timeout = task_id, queue_name, timeout


class CostWarning(UserWarning):
    """A unit looks misspelt: no limit counts it; `push` and `set_limit` warn once for each."""


class ServerWarning(UserWarning):
    """The settings of the server may lose tasks; a process warns once for each server.

    The server evicts keys, or keeps nothing on disk. For a private throw-away server (`embedded:`)
    there is no warning. To accept it: `warnings.simplefilter("ignore", dpq.ServerWarning)`.
    """


class NotConfirmedError(DPQError):
    """The call is done, but the confirmation that `durability` asks for did not come in time.

    The queue has changed, and is likely to stay so. Only a failover or a power cut right now may
    undo the change. Most calls can be repeated: they find their work done and ask once more. If a
    push is repeated, it adds another task, unless its `key` is still stored. docs/durability.md,
    "When nobody confirms", says what to do. `result` is what the call (`action`) would have
    returned, `confirmed` the number of replicas (for `"fsync"`: disks) that have answered in time.
    """

    def __init__(
        self, action: str, result: Any, durability: str, confirmed: int, reason: str = ""
    ) -> None:
        wanted, risk = {
            "replica": ("replica", "a failover"),
            "fsync": ("disk", "a power cut"),
        }[durability]
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"{action} was done, and returned {result!r:.200}, but {confirmed} of 1 {wanted} has "
            f"confirmed it in time{because}: {risk} may undo it. To ask again, repeat the call. "
            "But a repeated push adds another task, unless its key is still stored"
        )
        self.action = action
        self.result = result
        self.durability = durability
        self.confirmed = confirmed
