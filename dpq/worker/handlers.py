"""The handlers of a worker: their context, their kinds, which one a task gets. No I/O."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import CoroutineType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Union, get_args, get_origin

from typing_extensions import TypeVar

from dpq.limits.budget import read_answer
from dpq.limits.cost import write_spent
from dpq.limits.signals import Reject
from dpq.model.errors import ConfigurationError
from dpq.model.results import DEFAULT_KEEP, keep_seconds, progress_text
from dpq.model.validation import MAX_SECONDS, number

if TYPE_CHECKING:
    from dpq.limits.answers import Headers
    from dpq.limits.budget import Budget
    from dpq.model.task import Cost, Task
    from dpq.queue.base import QueueBase

Q = TypeVar("Q", bound="QueueBase[Any]", default=Any)

GENERATOR_HANDLER = "is a generator, and calling it runs nothing of it: let it return"
ASYNC_HANDLER = "is a coroutine function, and Worker has threads: give it to an AsyncWorker"

LEASE_LOST, CANCELLED, TIME_LIMIT = "lease lost", "cancelled", "time limit"
"""The reasons why a handler works in vain."""


class Context(Generic[Q]):
    """The second argument of a handler: its task, its queue, and the state of the worker.

    Attributes:
        task: The task.
        queue: The queue of the task.
        lost: True once the handler works in vain, for the `reason`. An async handler is cancelled
            instead.
        reason: Why: "lease lost" (another consumer may have the task), "cancelled" (the task is
            gone, by `DPQ.cancel` or `purge`), or "time limit" (the attempt has failed); else "".
        stopping: True once the worker is to stop: a long handler may `raise Release` then. If it
            returns, the task is finished.
        budgets: What `observe` has read, by unit.
        told: The units that the calls of `spent` have named, by unit; None before the first call.
    """

    def __init__(
        self,
        queue: Q,
        task: Task[Any],
        stopping: Callable[[], bool],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.queue, self.task = queue, task
        self.lost, self.reason = False, ""
        self._news: threading.Event | None = None  # set once `lost` is True
        self.told: dict[str, int] | None = None
        self.budgets: dict[str, Budget] = {}
        self._stopping, self._tell = stopping, tell

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Tell how far the work is: `get`, `dpq get ID --wait` and the task's page show it.

        The call sends nothing, so it may come a thousand times a second, and is no coroutine in an
        `AsyncWorker` either. The newest call counts. The worker sends it within a second.

        Args:
            done: The units of work that are done, from 0.
            total: All units of work; None if that is not known.
            text: What the work does now; up to 200 bytes of it are kept.

        Raises:
            ConfigurationError: A number is out of its bounds.
        """
        self._tell(progress_text(done, total, text))

    def observe(
        self, response: Any = None, *, status: int | None = None, headers: Headers | None = None
    ) -> list[Budget]:
        """Remember the budgets in an answer; the worker sends them with the end of the delivery.

        So the call costs no round trip, and is no coroutine in an `AsyncWorker` either. If a
        handler returns the answer, the worker reads the answer itself. If a handler ends
        its delivery itself, or makes many requests for one task, let it call
        `context.queue.observe(context.task, response)` at once.

        Args:
            response: The answer of any HTTP client, as `DPQ.observe` takes it.
            status: Instead of a response, its status; may be left out.
            headers: Instead of a response, its headers.

        Raises:
            ConfigurationError: There is no answer, or two.
        """
        budgets = read_answer(response, status, headers)
        self.budgets |= {budget.unit: budget for budget in budgets}
        return budgets

    def hear(self, budgets: Iterable[Budget]) -> None:
        """Take in the budgets of a returned answer; those that `observe` has read win."""
        self.budgets = {budget.unit: budget for budget in budgets} | self.budgets

    def spent(self, cost: Cost | None = None, **units: int) -> None:
        """Note what the task has spent, as `DPQ.spent`; it travels with the end of the delivery.

        The last value of each unit counts, so a handler may pass a sum as it grows.

        Raises:
            ConfigurationError: A value is out of its bounds.
        """
        given = cost if isinstance(cost, Mapping) else {} if cost is None else {"": cost}
        write_spent(cost, units)  # raises if a value is wrong
        told = {**(self.told or {}), **given, **units}
        write_spent(told)
        self.told = told

    @property
    def stopping(self) -> bool:
        """True once the worker is to stop."""
        return self._stopping()

    def wait(self, seconds: float) -> bool:
        """Sleep in a thread until `lost`, at most so long; return `lost`.

        A coroutine needs no such call: it is cancelled where it waits.

        Raises:
            ConfigurationError: `seconds` is not from 0 to 315 360 000 (10 years).
        """
        number("seconds", seconds, "seconds", 0, MAX_SECONDS)
        news = self._news = self._news or threading.Event()
        return self.lost or news.wait(min(seconds, threading.TIMEOUT_MAX))

    @property
    def cancelled(self) -> bool:
        """True once the task was cancelled."""
        return self.reason == CANCELLED

    def _lose(self, reason: str) -> None:
        self.reason, self.lost = reason, True
        if self._news:  # `wait` looks at `lost` after it has set this
            self._news.set()


class Finder(Protocol):
    """An object that finds the handler of a task, such as a `Tasks`."""

    def find(self, task: Task[Any]) -> Callable[..., Any]:
        """Return the handler, to be called as `handler(task, context)`; Reject if there is none."""
        ...


Handlers = Callable[..., Any] | Mapping[str, Callable[..., Any]] | Finder
"""One handler; a mapping of handlers by the name in `payload["task"]`; or a `Finder`."""


class Handler(NamedTuple):
    """A function to call for a task; `takes_context`: it takes the context, too."""

    call: Callable[..., Any]
    takes_context: bool
    is_async: bool  # it, or the function of its named task, is a coroutine function
    keep: float | None  # seconds that its results are kept; None: those of the worker


def finder(handlers: Any, *, blocking: bool = False) -> Callable[[Task[Any]], Handler]:
    """Make a function that finds the handler of a task; `blocking`: refuse coroutine functions."""
    for function in functions_of(handlers) if blocking else ():
        if awaits(function):
            raise ConfigurationError(f"handler {function!r} {ASYNC_HANDLER}")
    if isinstance(handlers, Mapping):
        by_name = {name: _handler(handler) for name, handler in handlers.items()}

        def find_by_name(task: Task[Any]) -> Handler:
            payload = task.payload
            name = payload.get("task") if isinstance(payload, Mapping) else None
            if not isinstance(name, str) or name not in by_name:
                raise Reject(f"unknown task {name!r}")
            return by_name[name]

        return find_by_name
    if _finds(handlers):
        return lambda task: _described(handlers.find(task), takes_context=True)
    only = _handler(handlers)
    return lambda task: only


def _handler(function: Any) -> Handler:
    if not callable(function):
        raise ConfigurationError(
            f"handler is {function!r}: it must be a function of a task, or of a task and a context"
        )
    if generates(function):
        raise ConfigurationError(f"handler {function!r} {GENERATOR_HANDLER}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin has no signature
        return _described(function, takes_context=False)
    for count in (1, 2):
        with suppress(TypeError):
            signature.bind(*range(count))
            return _described(function, takes_context=count == 2)
    raise ConfigurationError(
        f"handler {function!r} has the arguments {signature}: it gets a task, or a task and a "
        "context; for arguments by name see Tasks"
    )


def _described(call: Callable[..., Any], *, takes_context: bool) -> Handler:
    named = getattr(call, "__self__", None)  # the named task, if `call` is its `run`
    is_async = awaits(call) or awaits(getattr(named, "function", None))
    return Handler(call, takes_context, is_async, getattr(named, "kept", None))


def given_by_worker(annotation: Any) -> type | None:
    """Return `Task` or `Context` for their annotations, also with `| None`; None for others."""
    from dpq.model.task import Task

    if get_origin(annotation) in (Union, UnionType):
        members = [each for each in get_args(annotation) if each is not NoneType]
        annotation = members[0] if len(members) == 1 else None
    kind = get_origin(annotation) or annotation
    if not isinstance(kind, type):
        return None
    if issubclass(kind, Task):  # Task[dict] is a class of its own
        return Task
    return Context if issubclass(kind, Context) else None


def by_name(handlers: Handlers) -> bool:
    """Return True if handlers are found by the name in `payload["task"]`."""
    return isinstance(handlers, Mapping) or hasattr(handlers, "names")


def functions_of(handlers: Any) -> list[Any]:
    if isinstance(handlers, Mapping):
        return list(handlers.values())
    if _finds(handlers):
        names = getattr(handlers, "names", ())  # a `Tasks` has names
        return [handlers[name].function for name in names]
    return [handlers]


def _finds(handlers: Any) -> bool:
    return hasattr(handlers, "find") and not isinstance(handlers, str)


def awaits(function: Any) -> bool:
    """Return True if a call of the function makes a coroutine, as far as DPQ can see."""
    return _is(inspect.iscoroutinefunction, function)


def _is(kind: Callable[[Any], bool], function: Any) -> bool:
    function = inspect.unwrap(function) if callable(function) else function
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004 - a method


def generates(function: Any) -> bool:
    """Return True if a call of the function only makes a generator, and runs nothing."""
    return _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function)


def check_result(handler: Handler, result: Any) -> None:
    """Refuse a generator, or a coroutine that no worker awaits: the handler has done nothing."""
    if isinstance(result, CoroutineType):
        result.close()
    if inspect.isawaitable(result):
        raise ConfigurationError(f"handler {handler.call!r} {ASYNC_HANDLER}")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise ConfigurationError(f"handler {handler.call!r} {GENERATOR_HANDLER}")


def kept_for(keep_result: bool | float | None) -> float:
    """Return the seconds that the results of handlers are kept; 0 for no results."""
    if keep_result is None or isinstance(keep_result, bool):
        return DEFAULT_KEEP if keep_result else 0.0
    return keep_seconds(keep_result, "keep_result")
