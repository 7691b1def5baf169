"""Every error that DPQ raises itself. `signals` has what a handler may raise.

    DPQError
      ConfigurationError (ValueError)   bad argument or setting: names the value and its bound
      PayloadError       (ValueError)   a payload cannot be encoded, decoded or validated
      DuplicateTaskError                the key is taken and on_duplicate="error"
      QueueFullError                    a bound leaves no room for a push
      TaskNotFoundError                 no such live task in this queue
      BatchFinishedError                the batch of a push is finished
      BatchNotFoundError                no such batch in this queue
      LeaseLostError                    the token is not the live one
      LimitChangedError                 (not public) other rules stand than `dpq limit` has shown
      LimitTimeoutError                 a limit grants nothing within the timeout of `acquire`
      NotConfirmedError                 the call is done, but not confirmed yet (`durability`)
      ResultTimeoutError                a task has not ended within the timeout of `result`
      TaskDeadError                     `result`: the task is a dead letter

    CostWarning   (UserWarning)         a unit of a limit or a cost looks misspelt
    ServerWarning (UserWarning)         the server is set up so that tasks may get lost

Errors of the Redis client pass through unwrapped: callers already handle them.
"""

from collections.abc import Sequence
from typing import Any

__all__ = [
    "BatchFinishedError",
    "BatchNotFoundError",
    "ConfigurationError",
    "CostWarning",
    "DPQError",
    "DuplicateTaskError",
    "LeaseLostError",
    "LimitTimeoutError",
    "NotConfirmedError",
    "PayloadError",
    "QueueFullError",
    "ResultTimeoutError",
    "ServerWarning",
    "TaskDeadError",
    "TaskNotFoundError",
]


MOST_QUOTED = 200
"""Characters of a wrong argument, with its name, in the text of an error."""


class DPQError(Exception):
    """Base of every error that DPQ raises itself."""


class ConfigurationError(DPQError, ValueError):
    """An argument or a setting is out of its bounds; unless the text says so, nothing changed.

    Its text quotes the beginning of a long value: `group is 'aaaa...: it must be ...`.
    """

    def __init__(self, message: str) -> None:
        said, colon, bound = message.rpartition(": it must")
        if len(said) > MOST_QUOTED:
            message = f"{said[:MOST_QUOTED]}...{colon}{bound}"
        super().__init__(message)


class PayloadError(DPQError, ValueError):
    """A payload cannot be encoded, decoded or validated.

    Attributes:
        task_id: The stored task, or None when nothing was stored yet.
    """

    def __init__(self, message: str, *, task_id: str | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id


class DuplicateTaskError(DPQError):
    """A push with `on_duplicate="error"` found that its key is taken; nothing was changed.

    Attributes:
        key: The unique key.
        task_id: The task that has the key; None if that is an earlier push of the same batch.
    """

    def __init__(self, key: str, task_id: str | None) -> None:
        holder = "an earlier push of the batch" if task_id is None else f"task {task_id}"
        super().__init__(
            f"key {key!r} is taken by {holder}: wait until it is gone, or choose another "
            "on_duplicate"
        )
        self.key = key
        self.task_id = task_id


class QueueFullError(DPQError):
    """A bound leaves no room for a push. Nothing of the refused push, or batch, was stored.

    Attributes:
        queue_name: The queue.
        group: The group whose `max_waiting` is reached; None for `max_tasks` of the queue.
        size: The tasks that the bound counts.
        bound: The bound.
        stored: The tasks that earlier batches of the same `push_many` have stored, and that stay:
            for each its index among the pushes, and its id.
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
            f"set_bounds({name}=...)"
        )
        self.queue_name = queue_name
        self.group = group
        self.size = size
        self.bound = bound
        self.coming = coming
        self.stored: dict[int, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        given = (self.queue_name, self.group, self.size, self.bound, self.coming)
        return type(self), given, {"stored": self.stored}


class BatchFinishedError(DPQError):
    """A push names a batch that is sealed and finished; nothing was changed.

    Attributes:
        batch: The name of the batch.
    """

    def __init__(self, batch: str, queue_name: str) -> None:
        super().__init__(
            f"batch {batch!r} of queue {queue_name!r} is finished: it was sealed, and none of its "
            "tasks is left. Push into a batch of another name, and seal a batch only after its "
            "last push, unless its own tasks push the others while they run"
        )
        self.batch = batch
        self.queue_name = queue_name

    def __reduce__(self) -> tuple[type["BatchFinishedError"], tuple[str, str]]:
        return type(self), (self.batch, self.queue_name)


class BatchNotFoundError(DPQError):
    """The queue has no batch of this name.

    Attributes:
        batch: The name of the batch.
    """

    def __init__(self, batch: str, queue_name: str) -> None:
        super().__init__(
            f"queue {queue_name!r} has no batch {batch!r}: no task was pushed into it and nobody "
            "has sealed it, or it ended more than 90 days or 10000 batches ago; batches() lists "
            "those that are stored"
        )
        self.batch = batch
        self.queue_name = queue_name

    def __reduce__(self) -> tuple[type["BatchNotFoundError"], tuple[str, str]]:
        return type(self), (self.batch, self.queue_name)


class ExportFileError(DPQError, ValueError):
    """A line of an export cannot be read, or tasks or lines are missing.

    Attributes:
        line: The number of the line, from 1.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason

    def __reduce__(self) -> tuple[type["ExportFileError"], tuple[int, str]]:
        return type(self), (self.line, self.reason)


class ImportConflictError(DPQError):
    """An import meets another task under the id or the key of one of its tasks.

    The lines before it were imported, up to 100 of them perhaps not. A second call goes on there.

    Attributes:
        line: The number of the line, from 1.
        task_id: The id of the task in the export.
        key: Its key, if that is taken; None if its id is taken.
        holder: The id of the task that is stored.
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

    def __reduce__(self) -> tuple[type["ImportConflictError"], tuple[int, str, str | None, str]]:
        return type(self), (self.line, self.task_id, self.key, self.holder)


class LimitChangedError(DPQError):
    """A limit is another one than its changer has seen; nothing was changed.

    `dpq limit` and the dashboard change a limit that they have shown before.

    Attributes:
        stands: The rules that stand now, as stored; "" for no limit.
    """

    def __init__(self, stands: str, words: str) -> None:
        super().__init__(
            f"the limit was changed meanwhile, and nothing was done: now it is {words}; look at it "
            "again, then repeat the change"
        )
        self.stands = stands


class TaskNotFoundError(DPQError):
    """The queue holds no live task with this id; or, for `peek(after=)`, none in that state.

    Attributes:
        task_id: The id in the call; "" if the call named a key.
        key: The key in the call, or None.
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
        self.task_id = task_id
        self.key = key
        self.action = action


class LeaseLostError(DPQError):
    """The delivery is over: another consumer has the task, it was cancelled, or it ended before.

    The call changed nothing.

    Attributes:
        task_id: The task; for `ack_many`, the first whose lease is lost.
        action: The call that was refused.
        task_ids: All tasks of the call whose lease is lost.
        cancelled: The task was cancelled, or purged, during this delivery. The server knows that
            for an hour.
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
        self.cancelled = cancelled
        self.task_id = task_ids[0]
        self.task_ids = tuple(task_ids)
        self.action = action


class LimitTimeoutError(DPQError):
    """`acquire` cannot have its units within its timeout. Nothing was taken.

    It is raised as soon as that is known, not when the timeout is over.

    Attributes:
        group: The group, or None for the queue's limit.
        retry_after: Seconds until the limit may have the units, as far as it is known now.
    """

    def __init__(self, group: str | None, retry_after: float, timeout: float) -> None:
        scope = "the queue" if group is None else f"group {group!r}"
        super().__init__(
            f"the limit of {scope} grants nothing within timeout={timeout:g} s: ask again in "
            f"{retry_after:.3f} s, or wait longer (timeout=None waits for ever)"
        )
        self.group = group
        self.retry_after = retry_after
        self.timeout = timeout

    def __reduce__(self) -> tuple[type["LimitTimeoutError"], tuple[str | None, float, float]]:
        return type(self), (self.group, self.retry_after, self.timeout)


class TaskDeadError(DPQError):
    """The task whose result was asked for is a dead letter: it has none.

    Attributes:
        task_id: The task.
        reason: The reason of its death, as in `DeadTask`.
        last_error: The text of its last failure, or None.
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

    def __reduce__(self) -> tuple[type["TaskDeadError"], tuple[str, str, str, str | None]]:
        return type(self), (self.task_id, self.queue_name, self.reason, self.last_error)


class ResultTimeoutError(DPQError, TimeoutError):
    """The task whose result was asked for has not ended yet.

    Attributes:
        task_id: The task.
        timeout: The seconds that the call has waited.
    """

    def __init__(self, task_id: str, queue_name: str, timeout: float) -> None:
        super().__init__(
            f"task {task_id!r} of queue {queue_name!r} has not ended within timeout={timeout:g} s: "
            "ask again, wait longer (timeout=None waits for ever), or see why it does not run: "
            "why(task_id)"
        )
        self.task_id = task_id
        self.queue_name = queue_name
        self.timeout = timeout

    def __reduce__(self) -> tuple[type["ResultTimeoutError"], tuple[str, str, float]]:
        return type(self), (self.task_id, self.queue_name, self.timeout)


class CostWarning(UserWarning):
    """A unit looks misspelt; `push` and `set_limit` warn once for each queue and unit.

    A limit counts only costs in its own unit. The task runs all the same.
    """


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
    "When nobody confirms", says what to do.

    Attributes:
        action: The call: `"push"`, `"ack"`, ...
        result: The result that the call would have returned; for a push, the ids.
        durability: `"replica"` or `"fsync"`.
        confirmed: The number of replicas (for `"fsync"`: disks) that have answered in time.
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
