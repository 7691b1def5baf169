"""Named tasks: functions that can be pushed; their arguments are checked at push and at run.

Programs and workers call it. The payload is plain JSON, so a program in any language may push one:

    {"task": "fetch", "args": {"url": "https://..."}}

It must send nothing but the queue's own `push`, and keep nothing but the registered functions.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import (
    Any,
    Generic,
    NotRequired,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    get_type_hints,
    overload,
)

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic.fields import FieldInfo
from pydantic_core import to_json
from typing_extensions import TypedDict  # pydantic brings it along; typing's own needs Python 3.12

from dpq.limits.signals import Reject
from dpq.model.errors import ConfigurationError, PayloadError
from dpq.model.payload import complaint
from dpq.model.task import Cost, KeyOptions, OnDead, OnDuplicate, Push, Task
from dpq.model.validation import Delays, label, nearest
from dpq.queue.base import operations_named
from dpq.queue.queue import DPQ
from dpq.queue.queue_async import AsyncDPQ
from dpq.worker.handlers import generates, given_by_worker, kept_for

__all__ = ["TaskFunction", "Tasks"]

Params = ParamSpec("Params")
Result = TypeVar("Result")

Made = TypeVar("Made", covariant=True)


class PushOptions(KeyOptions, total=False):
    """The options of a push, for type checkers."""

    priority: float
    delay: float | timedelta


class Pushing(Protocol[Params, Made]):
    """The parameters of a task's function, for type checkers; or anything beside an option.

    No type can say "these parameters, and the options". So a call with an option is not checked.
    """

    @overload
    def __call__(self, *args: Params.args, **values: Params.kwargs) -> Made: ...
    @overload
    def __call__(self, *args: Any, priority: float, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, delay: float | timedelta, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, group: str | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, key: str | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, on_duplicate: OnDuplicate, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, max_attempts: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, expires_in: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, cost: Cost, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, every: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, cron: str | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, timezone: str, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, at: datetime | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, visibility: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, time_limit: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, member: str | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, batch: str | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, unique_for: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, after: Sequence[str] | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, on_dead: OnDead, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, backoff: Delays | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, max_lapses: int | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, debounce: float | None, **values: Any) -> Made: ...
    @overload
    def __call__(self, *args: Any, debounce_max: float | None, **values: Any) -> Made: ...


OPTIONS = frozenset(Push._fields) - {"payload"}
"""Keywords that are never arguments of a task's function."""


class Tasks:
    """Functions by name, to be pushed here and run by a worker.

    Attributes:
        queue: The queue to which `push` adds tasks: a `DPQ`, an `AsyncDPQ`, or None in a program
            that only runs them. It may be set later, before the first push. Its `payload_type`
            must be the default.
    """

    def __init__(self, queue: DPQ[Any] | AsyncDPQ[Any] | None = None) -> None:
        self.queue = queue
        self._functions: dict[str, TaskFunction[..., Any]] = {}

    def task(
        self,
        name: str | None = None,
        *,
        keep_result: bool | float | None = None,
        **defaults: Unpack[PushOptions],
    ) -> Callable[[Callable[Params, Result]], "TaskFunction[Params, Result]"]:
        """Register the function below, which may be `async`.

        Its parameters are validated against their annotations; a parameter without one takes any
        JSON. A parameter annotated `Task` gets the task; a parameter annotated `Context` gets the
        worker's context. Neither is part of the payload.

        Args:
            name: 1 to 200 bytes, stored with each task; None takes the function's own name.
            keep_result: Whether a worker keeps what the function returns, as `Worker` takes it;
                None follows the worker.
            defaults: Options of `push` for each push of this task that does not name them.

        Raises:
            ConfigurationError: The name is taken, a default is out of its bounds, or a function
                like this cannot be called from JSON.
        """
        if callable(name):
            raise ConfigurationError("write @tasks.task() with parentheses")
        kept = None if keep_result is None else kept_for(keep_result)
        operations = operations_named("defaults")
        next(operations.push_many([Push(None, **defaults)]))  # a check; nothing is sent

        def register(function: Callable[Params, Result]) -> TaskFunction[Params, Result]:
            named = label("name", getattr(function, "__name__", None) if name is None else name)
            if named in self._functions:
                raise ConfigurationError(
                    f"a task {named!r} is registered already: give another name"
                )
            registered = TaskFunction(self, named, function, defaults, kept)
            self._functions[named] = registered
            return registered

        return register

    @property
    def names(self) -> list[str]:
        """The names of all tasks, in the order of their registration."""
        return list(self._functions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __getitem__(self, name: str) -> "TaskFunction[..., Any]":
        """Return the task of this name, as `@task` returned it; KeyError if there is none."""
        return self._functions[name]

    def find(self, task: Task[Any]) -> Callable[..., Any]:
        """Find the handler of a popped task; call it as `handler(task)` or `handler(task,
        context)`.

        Returns:
            `TaskFunction.run` of the task that the payload names.

        Raises:
            Reject: The payload names no task, or one that is not registered here.
        """
        name = task.payload.get("task") if isinstance(task.payload, dict) else None
        if not isinstance(name, str):
            raise Reject("not a named task: its payload has no 'task'")
        if name not in self._functions:
            raise Reject(f"unknown task {name!r}")
        return self._functions[name].run


class TaskFunction(Generic[Params, Result]):
    """A registered function. A call runs it here and now, as if it were not registered.

    Attributes:
        name: The name of its tasks.
        function: The function itself.
        kept: Seconds that a worker keeps its results; 0 for none, None follows the worker.
    """

    def __init__(
        self,
        tasks: Tasks,
        name: str,
        function: Callable[Params, Result],
        defaults: PushOptions,
        kept: float | None = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name, self.function, self.kept = name, function, kept
        self._tasks = tasks
        self._defaults = defaults
        try:
            self._signature, self._given, self._arguments = _read(function)
        except Exception as error:  # annotations are the user's code
            raise ConfigurationError(f"task {name!r} cannot be registered: {error}") from error

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        """Call the function, as Python does: nothing is pushed, validated or converted."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"TaskFunction({self.name!r})"

    @property
    def push(self) -> Pushing[Params, Any]:
        """Push a task that will call the function, as `fetch.push(url=..., priority=9)`.

        Args:
            args: Arguments of the function.
            values: Arguments of the function, and all options of `DPQ.push`, such as `priority`.

        Returns:
            The task's id, as the queue's `push` does: to be awaited with an `AsyncDPQ`.

        Raises:
            PayloadError: The arguments do not fit the function; nothing was pushed.
            ConfigurationError: An option is out of its bounds, or `Tasks` has no queue.
        """
        return self._push

    @property
    def prepare(self) -> Pushing[Params, Push[dict[str, Any]]]:
        """Make the `Push` of a task, for `push_many` or another queue; arguments as for `push`."""
        return self._prepare

    def _push(self, /, *args: Any, **values: Any) -> Any:
        if self._tasks.queue is None:
            raise ConfigurationError(
                f"cannot push {self.name!r}: its Tasks has no queue; give one, as in Tasks(q)"
            )
        return self._tasks.queue.push(**self._prepare(*args, **values)._asdict())

    def _prepare(self, /, *args: Any, **values: Any) -> Push[dict[str, Any]]:
        named = {option: values.pop(option) for option in OPTIONS & values.keys()}
        payload = {"task": self.name, "args": self._encode(args, values)}
        return Push(payload, **{**self._defaults, **named})

    def run(self, task: Task[Any], context: Any = None) -> Result:
        """Call the function for a popped task; return its result, which may be a coroutine.

        Raises:
            Reject: The stored arguments do not fit the function, and never will.
        """
        stored = to_json(task.payload.get("args", {}), inf_nan_mode="constants")
        try:
            arguments = self._arguments.validate_json(stored)  # strict types read text, too
        except ValidationError as error:
            raise Reject(self._misfit(error)) from error
        for parameter, wanted in self._given.items():
            arguments[parameter] = task if wanted is Task else context
        return self.function(**arguments)  # type: ignore[call-arg]

    def _check_names(self, values: dict[str, Any]) -> None:
        """Refuse an argument by name that the function does not have."""
        known = self._signature.parameters
        for name in values:
            if name not in known:
                hint = nearest(name, [*known, *OPTIONS])
                takes = ", ".join(known) or "none"
                raise TypeError(
                    f"no argument {name!r}{hint} (it takes {takes}; and push's options)"
                )

    def _encode(self, args: tuple[Any, ...], values: dict[str, Any]) -> Any:
        """Convert arguments to JSON data, without the defaults of the function."""
        try:
            self._check_names(values)
            given = self._signature.bind(*args, **values).arguments
            valid = self._arguments.validate_python(given)
            # JSON that can be read again has no computed fields of a model
            stored = self._arguments.dump_python(valid, mode="json", by_alias=True, round_trip=True)
            self._arguments.validate_json(to_json(stored, inf_nan_mode="constants"))
        except (TypeError, ValueError, RecursionError) as error:  # no fit, not valid, or no JSON
            raise PayloadError(self._misfit(error)) from error
        return stored

    def _misfit(self, error: Exception) -> str:
        return f"arguments of task {self.name!r}: {complaint(error, 'args')}"


def _read(
    function: Callable[..., Any],
) -> tuple[inspect.Signature, dict[str, type], TypeAdapter[Any]]:
    """Read the parameters of a function."""
    if generates(function):
        raise ConfigurationError("it is a generator, and a call would run nothing: use a function")
    plain = inspect.unwrap(function)
    if not inspect.isroutine(plain):
        raise ConfigurationError(
            f"a {type(plain).__name__} is not a function: write a function that calls it"
        )
    owner = plain.__qualname__.rpartition(".")[0]
    if owner and not owner.endswith("<locals>") and not inspect.ismethod(plain):
        first = next(iter(inspect.signature(function).parameters), "")
        if first in ("self", "cls"):
            raise ConfigurationError(
                "it is a method, and a worker has no object for it: register the method of an "
                "object, as in tasks.task()(thing.method)"
            )
    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True)
    given: dict[str, type] = {}
    fields: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        kind = hints.get(name, Any)
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigurationError(
                f"parameter {name!r} is {parameter.kind.description}: a payload names every "
                "argument, so make it an ordinary parameter"
            )
        if wanted := given_by_worker(kind):
            given[name] = wanted
        elif name in OPTIONS:
            raise ConfigurationError(
                f"parameter {name!r} has the name of an option of push: rename it"
            )
        elif isinstance(parameter.default, FieldInfo):
            raise ConfigurationError(
                f"parameter {name!r} has Field() as its default: write Annotated[..., Field()]"
            )
        else:
            fields[name] = kind if parameter.default is parameter.empty else NotRequired[kind]
    # no model: its fields could not be called `copy` or `json`
    arguments: Any = TypedDict("Arguments", fields)  # type: ignore[misc]
    config = with_config(ConfigDict(extra="forbid", populate_by_name=True))
    pushed = [signature.parameters[name] for name in fields]
    return signature.replace(parameters=pushed), given, TypeAdapter(config(arguments))
