"""The common part of `DPQ` and `AsyncDPQ`: their arguments, checked once.

Both queue classes derive from it; workers read its attributes. It sends nothing.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Unpack, cast, overload

from dpq.model.backoff import Backoff
from dpq.model.errors import ConfigurationError
from dpq.model.queue_settings import DEFAULT_SEEN_MAX_KEYS, Settings, SharedSettings
from dpq.model.task import P, Popped
from dpq.model.validation import Delays, nearest
from dpq.queue.end_log import EndLog, log_refused
from dpq.script.durability import Durability, named_durability

if TYPE_CHECKING:
    from dpq.explain.operations import Operations
    from dpq.model.task import Task
    from dpq.queue.lease_renewal import Leases
    from dpq.script.replies import Batch
    from dpq.verbs.base import Description


class QueueSettings(SharedSettings, total=False):
    """The keyword arguments of `DPQ` without `payload_type`, for type checkers."""

    default_visibility: float
    default_max_attempts: float
    backoff: Backoff | Delays
    max_payload_bytes: int
    durability: Durability
    clock: Callable[[], int] | None


class QueueBase(Generic[P]):
    """The constructor and the read-only attributes of `DPQ`."""

    _opened: Any = None  # the client that `from_url` has opened
    _leases: Leases
    _session: Any  # a blocking or an asyncio session
    _around: ClassVar[Callable[..., AbstractContextManager[Any]]] = nullcontext  # a lease's body

    @overload
    def __init__(
        self,
        redis: Any,
        queue_name: str,
        *,
        payload_type: type[P],
        **settings: Unpack[QueueSettings],
    ) -> None: ...
    @overload
    def __init__(
        self,
        redis: Any,
        queue_name: str,
        *,
        payload_type: Any = ...,
        **settings: Unpack[QueueSettings],
    ) -> None: ...
    def __init__(
        self,
        redis: Any,
        queue_name: str,
        *,
        payload_type: Any = Any,
        **settings: Unpack[QueueSettings],
    ) -> None:
        """Describe one queue: `q = DPQ(Redis(), "pages", default_visibility=60)`.

        The settings from `order` to `payloads`, `dead_max_tasks`, `dead_max_age` and
        `seen_max_keys` belong to the queue. The first client that names one writes it to the
        server, at once. None follows the queue. If none is named, nothing is sent before the first
        call. `q.settings` has them all.

        Args:
            redis: The caller's own client; DPQ uses it as it is, and never closes it.
            queue_name: 1 to 200 bytes without braces or control characters.
            payload_type: Anything pydantic's `TypeAdapter` takes; payloads are validated on push
                and pop. Payloads of `bytes` are stored as base64 in a JSON string, which takes a
                third more room and counts towards `max_payload_bytes` so.
            durability: Where a change is stored before its call returns. `"async"`: the server.
                `"replica"`: one of its replicas too. `"fsync"`: its disk too (Redis 7.2, Valkey). A
                change that is not confirmed within 3 s raises `NotConfirmedError`. `pop` and
                `extend` do not wait; nor does this constructor: the first push confirms what it
                writes. See docs/durability.md.
            default_visibility: Seconds of a lease, from 0.001 to 315 360 000 (10 years); 30.
            default_max_attempts: Failed attempts until a task is dead, from 1 to 1 000 000;
                `math.inf` for no limit; 10.
            order: `"fifo"` or `"lifo"` among equal priorities, of which the biggest runs first; or
                `"min"`: the smallest runs first, and equal ones first in, first out. A queue with
                tasks cannot become `"min"`. A new queue: FIFO.
            aging: Points of priority that a task gains per second from the moment it is first due,
                0 to 1 000 000. No task is ever rescored. Priorities beyond 2^53 are exact only with
                0. LIFO with aging is refused. A new queue: 0.
            fairness: `"round_robin"` serves groups of equal priority in turn, whatever their
                backlog; `"none"` in the order of their tasks. `"units"` serves the group that has
                spent the fewest requests, and `"units:tokens"` the one that has spent the fewest
                tokens. Only `"none"` goes with LIFO or aging; a new queue has it.
            payloads: `"apart"` stores every payload in a key that only roles which read payloads
                reach; `"inline"` stores those of at most 512 bytes in the tasks' records, which is
                faster: docs/security.md. A new queue: `"inline"`.
            backoff: The delay of a failed task before its next attempt: a `Backoff`, or a list of 1
                to 16 delays, as in `[1, 5, 30, 300]` (seconds, or timedeltas, 0 to 10 years). The
                last delay repeats, and a list has no jitter. A task's own (`push(backoff=)`) comes
                first. A failed task waits as the client says that fails it.
            max_payload_bytes: The longest encoded payload, from 1 to 64 MiB; 1 MiB.
            dead_max_tasks: The most dead letters that are kept. A new queue: 100 000.
            dead_max_age: Seconds that a dead letter is kept. A new queue: 90 days.
            seen_max_keys: The most keys that stay taken after their tasks' ack (`unique_for` of
                `push`), 0 to 100 000 000. Beyond it, the keys that would be free soonest are free.
                A new queue: 1 000 000.
            clock: The time in ms, instead of the server's; for tests only.

        Raises:
            ConfigurationError: An argument is out of its bounds, or contradicts the queue.
        """
        from dpq.explain.operations import Operations
        from dpq.verbs.base import Description

        for name in settings.keys() - QueueSettings.__annotations__:
            hint = nearest(name, QueueSettings.__annotations__)
            raise TypeError(f"{type(self).__name__} has no setting {name!r}{hint}")
        self._durability = named_durability(settings.pop("durability", "async"))
        self._described: Description[P] = Description(
            queue_name, payload_type=payload_type, **settings
        )
        self._end_log = EndLog()
        self._operations = Operations(self._described)
        self._redis = self._operations.client = redis
        wanted = inspect.iscoroutinefunction(getattr(type(self), "push", None))
        if not hasattr(redis, "execute_command"):
            raise ConfigurationError(
                f"redis is {redis!r}: it must be a client; from_url() opens one"
            )
        if any(kind.__name__.endswith("Pipeline") for kind in type(redis).__mro__):
            raise ConfigurationError(
                f"redis is a {type(redis).__module__}.{type(redis).__name__}: a call of DPQ needs "
                "its answer at once, so it cannot be part of a pipeline or transaction of Redis; "
                "give the client. To push within a transaction of a database, use an outbox: "
                "docs/transactions.md"
            )
        if inspect.iscoroutinefunction(redis.execute_command) is not wanted:
            raise ConfigurationError(
                f"redis is a {type(redis).__module__}.{type(redis).__name__}, and "
                f"{type(self).__name__} needs {'an asyncio' if wanted else 'a blocking'} client"
            )

        self._start()

    def _start(self) -> None:
        """Make the session and its helpers, once the arguments are checked."""

    def _popped(self, tasks: Sequence[Task[P]]) -> Popped[P]:
        """Make the result of `pop` from the one task that it took, or from none."""
        if not tasks:
            return Popped(None, cast("Any", None), cast("Any", None))
        task, queue = tasks[0], cast("Any", self)
        return Popped(task, partial(queue.ack, task), partial(queue.set_visibility, task))

    def _readable(self, batch: Batch[P]) -> list[Task[P]]:
        """Return the tasks of a pop."""
        if batch.failed and not batch.tasks:
            raise batch.failed
        if batch.failed or batch.buried:
            log_refused(self.queue_name, batch)
        return batch.tasks

    def _refusal(self) -> str:
        """Say why this object sends nothing once it is closed."""
        if not self._opened:
            return ""
        return (
            f"this {type(self).__name__} of queue {self.queue_name!r} is closed: call it inside of "
            "its `with`, or make another; what is queued is safe"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.queue_name!r})"

    def __bool__(self) -> bool:
        """Return True, also for an empty queue, whose `len` is 0."""
        return True

    @property
    def redis(self) -> Any:
        """The client."""
        return self._redis

    @property
    def queue_name(self) -> str:
        """The queue's name."""
        return self._described.name

    @property
    def settings(self) -> Settings:
        """The settings: those of this object, and the queue's own as far as it knows them."""
        here, operations = self._described, self._operations
        known = operations.settings or here.named
        return Settings(
            payload_type=here.payload_type,
            default_visibility=here.default_visibility,
            default_max_attempts=here.default_max_attempts,
            backoff=here.backoff,
            max_payload_bytes=here.codec.max_bytes,
            durability=self._durability,
            order=known.get("order", "fifo"),
            aging=float(known.get("aging", 0)),
            fairness=known.get("fairness", "none"),
            payloads=known.get("payloads", "inline"),
            dead_max_tasks=int(known.get("dead_max_tasks", 100_000)),
            dead_max_age=int(known.get("dead_max_age", 7_776_000_000)) / 1000,
            seen_max_keys=int(known.get("seen_max_keys", DEFAULT_SEEN_MAX_KEYS)),
        )


def check_one_client(queues: Sequence[QueueBase[Any]], kind: type[QueueBase[Any]]) -> None:
    """Refuse queues with different clients, which one connection cannot serve."""
    if any(queue.redis is not queues[0].redis for queue in queues):
        raise ConfigurationError(
            "the queues have different clients: give all of them one, as in "
            f"{kind.__name__}(first.redis, 'second')"
        )


def wanted_task(
    id_: str | None, timeout: float | None, *, force: bool
) -> tuple[str, str] | tuple[()]:
    """Check the arguments of a pop that names its task, as the verb takes them; () for none."""
    from dpq.script.command import task_id

    if id_ is None:
        if force:
            raise ConfigurationError("force is True without an id: give the id of a delayed task")
        return ()
    if timeout != 0:
        raise ConfigurationError(
            f"timeout is {timeout!r}: a pop by id does not wait, so leave it out; why({id_!r}) "
            "says when the task may run"
        )
    return task_id(id_), "1" if force else ""


def operations_named(queue_name: str) -> Operations[Any]:
    """Build the operations of a queue of which this process knows only the name."""
    from dpq.explain.operations import Operations
    from dpq.verbs.base import Description

    return Operations(Description(queue_name))
