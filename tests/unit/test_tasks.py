"""tasks: functions that can be pushed, without a server."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from kit.scripted import a_task
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, Strict
from pydantic_core import from_json, to_json

from dpq import ConfigurationError, PayloadError, Push, Reject, Task
from dpq.tasks import Tasks
from dpq.worker.handlers import Context


class FakeQueue:
    """Keeps what is pushed; an id is the number of the push."""

    def __init__(self) -> None:
        self.pushed: list[dict[str, Any]] = []

    def push(self, **arguments: Any) -> str:
        """Keep one push."""
        self.pushed.append(arguments)
        return str(len(self.pushed))


class AsyncFakeQueue(FakeQueue):
    """The same, to be awaited."""

    async def push(self, **arguments: Any) -> str:  # type: ignore[override]
        """Keep one push."""
        return super().push(**arguments)


class Colour(Enum):
    RED = "red"


class Page(BaseModel):
    model_config = ConfigDict(strict=True)

    url: str
    size: int = Field(alias="Size")
    seen: datetime


@dataclass
class Point:
    x: int
    y: float


PAGE = Page(url="/a", Size=3, seen=datetime(2026, 1, 2, tzinfo=UTC))


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


@pytest.fixture
def tasks(queue: Any) -> Tasks:
    return Tasks(queue)


def stored(payload: Any) -> Task[Any]:
    """A popped task whose payload has been on a server."""
    return a_task(from_json(to_json(payload, inf_nan_mode="constants")))


def arguments_of(tasks: Tasks, task: Task[Any], context: Any = None) -> Any:
    """What a task's function returns: in these tests, its arguments."""
    return tasks.find(task)(task, context)


# Registration


def test_a_direct_call_is_the_function(tasks: Tasks, queue: FakeQueue) -> None:
    """Calling a task runs its function as Python does, without pushing or converting anything."""

    @tasks.task()
    def double(number: int) -> int:
        """Twice as much."""
        return number * 2

    assert double(4) == 8
    assert double("ab") == "abab"  # type: ignore[arg-type, comparison-overlap]
    assert queue.pushed == []
    assert inspect.getdoc(double) == "Twice as much."
    assert repr(double) == "TaskFunction('double')"
    assert list(inspect.signature(double).parameters) == ["number"]


def test_a_name_is_taken_once(tasks: Tasks) -> None:
    """A second function of the same name is refused, and the first one stays."""

    @tasks.task("fetch")
    def first() -> str:
        return "first"

    with pytest.raises(ConfigurationError, match="a task 'fetch' is registered already"):

        @tasks.task("fetch")
        def second() -> None: ...

    assert arguments_of(tasks, stored({"task": "fetch"})) == "first"


def option_as_parameter(key: str) -> None: ...
def many(*urls: str) -> None: ...
def keywords(**urls: str) -> None: ...
def positional(url: str, /) -> None: ...
def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


def unresolved(url: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def no_schema(q: FakeQueue) -> None: ...
def field_as_default(depth: int = Field(ge=0)) -> None: ...


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (option_as_parameter, "parameter 'key' has the name of an option of push: rename it"),
        (many, "parameter 'urls' is variadic positional: a payload names every"),
        (keywords, "parameter 'urls' is variadic keyword: a payload names every"),
        (positional, "parameter 'url' is positional-only: a payload names every"),
        (generator, "it is a generator"),
        (async_generator, "it is a generator"),
        (unresolved, "name 'Nowhere' is not defined"),
        (no_schema, "Unable to generate pydantic-core schema for .*FakeQueue"),
        (field_as_default, r"parameter 'depth' has Field\(\) as its default"),
    ],
)
def test_functions_that_are_no_tasks(
    tasks: Tasks, function: Callable[..., Any], complaint: str
) -> None:
    """What JSON cannot call is refused where it is registered, with its name and the reason."""
    refused = f"task '{function.__name__}' cannot be registered: {complaint}"
    with pytest.raises(ConfigurationError, match=refused):
        tasks.task()(function)
    assert tasks.names == []


# Pushing


def test_push(tasks: Tasks, queue: FakeQueue) -> None:
    """A push has the name and the arguments as JSON, and the options that queues take."""

    @tasks.task("fetch")
    def fetch(url: HttpUrl, depth: int = 0) -> None: ...

    assert fetch.push(url="https://a.example", depth="2", delay=5, key="a") == "1"
    wanted = Push(
        {"task": "fetch", "args": {"url": "https://a.example/", "depth": 2}}, delay=5, key="a"
    )
    assert queue.pushed == [wanted._asdict()]


def test_options_override_defaults(tasks: Tasks) -> None:
    """What a push names holds for that push, None too; the defaults hold for the others."""

    @tasks.task("fetch", priority=5, group="a.example", max_attempts=3, expires_in=60, cost=2)
    def fetch(url: str) -> None: ...

    payload = {"task": "fetch", "args": {"url": "/a"}}
    defaults = Push(payload, 5, group="a.example", max_attempts=3, expires_in=60, cost=2)
    assert fetch.prepare(url="/a") == defaults
    changed = fetch.prepare(url="/a", priority=9, group=None, on_duplicate="rerun")
    assert changed == defaults._replace(priority=9, group=None, on_duplicate="rerun")
    assert fetch.prepare(url="/a") == defaults


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "missing a required argument: 'url'"),
        (
            {"url": "/a", "dely": 5},
            r"no argument 'dely'; did you mean 'delay'\? \(it takes url, depth, ",
        ),
        ({"url": "/a", "depth": "deep"}, "depth: Input should be a valid integer"),
        ({"url": "/a", "depth": 11}, "depth: Input should be less than or equal to 10"),
        ({"url": 7, "page": {"url": 7}}, "url: .*; page.Size: Field required; page.seen"),
        ({"url": "/a", "other": object()}, "Unable to serialize unknown type"),
        ({"url": "/a", "other": 10**5000}, "args: Invalid JSON: number out of range"),
        ({"url": "/a", "other": b"\xff"}, "can't decode byte 0xff|invalid utf-8"),
    ],
)
def test_bad_arguments(
    tasks: Tasks, queue: FakeQueue, given: dict[str, Any], complaint: str
) -> None:
    """Arguments that do not fit are refused at the push with their names, and nothing is pushed."""

    @tasks.task()
    def fetch(
        url: str,
        depth: Annotated[int, Field(le=10)] = 0,
        page: Page | None = None,
        other: Any = None,
    ) -> None: ...

    with pytest.raises(PayloadError, match=f"arguments of task 'fetch': .*({complaint})"):
        fetch.push(**given)
    assert queue.pushed == []


# Running


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (HttpUrl, HttpUrl("https://a.example/b?c=d")),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (Annotated[datetime, Strict()], datetime(2026, 1, 2, tzinfo=UTC)),
        (timedelta, timedelta(seconds=1.5)),
        (Colour, Colour.RED),
        (UUID, UUID(int=7)),
        (Decimal, Decimal("1.10")),
        (bytes, b"abc"),
        (set[int], {1, 2}),
        (tuple[int, str], (1, "a")),
        (dict[int, Point], {1: Point(1, 2.5)}),
        (Page, PAGE),
        (list[Page | None], [PAGE, None]),
        (Optional[int], None),  # noqa: UP045 - the older way to write it
        (float, float("inf")),
        (int | str, "3"),
        (Literal["a", "b"], "b"),
        (Annotated[int, Field(alias="number")], 3),
        (Any, {"a": [1, None, "b"]}),
    ],
    ids=str,
)
def test_arguments_arrive_as_their_types(tasks: Tasks, annotation: Any, value: Any) -> None:
    """An argument that has been JSON comes back equal, and of the type that it is annotated with.

    Strict types and aliases of models included.
    """

    def function(value):  # type: ignore[no-untyped-def]
        return value

    function.__annotations__["value"] = annotation
    payload = tasks.task()(function).prepare(value=value).payload
    came = arguments_of(tasks, stored(payload))
    assert came == value
    assert type(came) is type(value)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"task": "unheard", "args": {}}, "unknown task 'unheard'"),
        ({"args": {}}, "not a named task: its payload has no 'task'"),
        ({"task": ["fetch"]}, "not a named task: its payload has no 'task'"),
        ("fetch", "not a named task: its payload has no 'task'"),
    ],
)
def test_tasks_that_nobody_knows(tasks: Tasks, payload: Any, reason: str) -> None:
    """A payload that names no registered task is rejected with the reason."""

    @tasks.task()
    def fetch() -> None: ...

    with pytest.raises(Reject) as caught:
        tasks.find(stored(payload))
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"depth": 1}, "url: Field required"),
        ({"url": "/a", "depth": "deep"}, "depth: Input should be a valid integer, unable to parse"),
        ({"url": "/a", "old": 1}, "old: Extra inputs are not permitted"),
        (["/a"], "args: Input should be an object"),
        (None, "args: Input should be an object"),
    ],
)
def test_stored_arguments_that_do_not_fit(tasks: Tasks, args: Any, reason: str) -> None:
    """Arguments that no longer fit are rejected, without their values, before the function runs."""
    ran = []

    @tasks.task()
    def fetch(url: str, depth: int = 0) -> None:
        ran.append(url)

    with pytest.raises(Reject) as caught:
        arguments_of(tasks, stored({"task": "fetch", "args": args}))
    assert caught.value.reason.startswith(f"arguments of task 'fetch': {reason}")
    assert "deep" not in caught.value.reason
    assert ran == []


def test_the_functions_own_errors_pass_through(tasks: Tasks) -> None:
    """An error of the function, pydantic's too, is the attempt's failure and no rejection."""

    @tasks.task()
    def fetch() -> None:
        Page.model_validate({})

    with pytest.raises(ValueError, match="3 validation errors for Page"):
        arguments_of(tasks, stored({"task": "fetch"}))


def test_a_function_may_ask_for_its_task_and_context(tasks: Tasks) -> None:
    """Parameters annotated `Task` or `Context` come from the worker and are never stored."""

    @tasks.task()
    def fetch(
        task: Task[dict[str, Any]],
        url: str,
        context: Context[Any] | None = None,
        *,
        again: Task | None = None,  # type: ignore[type-arg]
        bare: Context,  # type: ignore[type-arg]
    ) -> Any:
        return task, url, context, again, bare

    payload = fetch.prepare("/a").payload
    assert payload["args"] == {"url": "/a"}
    popped, queue = stored(payload), FakeQueue()
    context: Any = Context(queue, popped, lambda: False)
    assert arguments_of(tasks, popped, context) == (popped, "/a", context, popped, context)
    with pytest.raises(PayloadError, match="no argument 'task'"):
        fetch.prepare("/a", task=popped)
    with pytest.raises(Reject, match="again: Extra inputs"):
        arguments_of(tasks, stored({"task": "fetch", "args": {"url": "/a", "again": {}}}))


def test_async_functions() -> None:
    """An async task gives its coroutine when called or run; a push to an async queue is awaited."""
    queue: Any = AsyncFakeQueue()
    tasks = Tasks(queue)

    @tasks.task()
    async def fetch(url: str) -> str:
        return url

    async def main() -> None:
        assert await fetch("/a") == "/a"
        assert await fetch.push(url="/b") == "1"
        task = stored(queue.pushed[0]["payload"])
        assert await tasks.find(task)(task, None) == "/b"

    asyncio.run(main())
