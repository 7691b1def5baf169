"""`DPQ` and `AsyncDPQ`, `Worker` and `AsyncWorker`: two ways to wait, and nothing else differs.

The blocking queue is made from the asyncio one: `tests/unit/test_twins.py`. Both workers are
written by hand.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpq
from dpq import DPQ, AsyncDPQ, AsyncWorker, Worker
from dpq.queue.admin import Admin, DeadLetters
from dpq.queue.admin_async import AsyncAdmin, AsyncDeadLetters

PACKAGE = Path(dpq.__file__).parent

PAIRS = {DPQ: AsyncDPQ, Admin: AsyncAdmin, DeadLetters: AsyncDeadLetters, Worker: AsyncWorker}

NOTHING_TO_AWAIT = {"running", "stop"}
"""The same in both: `running` is entered, `stop` only tells."""

SPECIAL = {
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__len__": None,  # cannot be awaited: `await q.size()`
}


def face(cls: type) -> dict[str, Any]:
    """The public names of a class, and what `with` and `len` use."""
    shown = {*SPECIAL, *SPECIAL.values()}
    return {
        name: getattr(member, "__func__", member)
        for base in reversed(cls.__mro__[:-1])
        for name, member in vars(base).items()
        if not name.startswith("_") or name in shown
    }


def pairs() -> Iterator[Any]:
    """Each public method of `Worker` with its asyncio twin."""
    theirs = face(AsyncWorker)
    for name, member in face(Worker).items():
        if inspect.isfunction(member):
            yield pytest.param(name, member, theirs[name], id=name)


def annotation(text: str) -> str:
    """An annotation as the other face writes it."""
    text = re.sub(r"\bAsync(?=Iterator)", "", text)
    text = re.sub(r"^(Awaitable|Coroutine)\[(.*)\]$", r"\2", text)
    return text.strip("\"'")


def signature(function: Any) -> list[tuple[Any, ...]]:
    parameters = inspect.signature(function).parameters.values()
    told = [
        (p.name, p.kind, p.default, annotation(inspect.formatannotation(p.annotation)))
        for p in parameters
    ]
    result = inspect.formatannotation(inspect.signature(function).return_annotation)
    return [*told, ("return", annotation(result))]


@pytest.mark.parametrize("blocking", PAIRS, ids=lambda cls: cls.__name__)
def test_both_have_the_same_names(blocking: type) -> None:
    """Whatever one face offers, the other does, too."""
    ours = {SPECIAL.get(name, name) for name in face(blocking)} - {None}
    assert ours == face(PAIRS[blocking]).keys()


@pytest.mark.parametrize("queue", [DPQ, AsyncDPQ])
def test_a_queue_has_the_verbs_of_work(queue: type) -> None:
    """It has at most 45 public names. Those for operators stand in `admin`, and nowhere else."""
    names = {name for name in dir(queue) if name[0] != "_"}
    assert len(names) <= 45
    assert not names & {name for name in dir(Admin) if name[0] != "_"}


@pytest.mark.parametrize(("name", "member", "twin"), list(pairs()))
def test_twins_take_and_return_the_same(name: str, member: Any, twin: Any) -> None:
    """Names, kinds, defaults and annotations of arguments are the same, and so is the result."""
    assert signature(twin) == signature(member)


@pytest.mark.parametrize(("name", "member", "twin"), list(pairs()))
def test_what_asks_the_server_is_awaited(name: str, member: Any, twin: Any) -> None:
    """The twin of a blocking call is a coroutine function; of an attribute, an attribute."""
    awaited = name not in NOTHING_TO_AWAIT and member is not twin
    assert inspect.iscoroutinefunction(twin) is awaited


@pytest.mark.parametrize(("name", "member", "twin"), list(pairs()))
def test_one_text_says_what_both_do(name: str, member: Any, twin: Any) -> None:
    """The twin's docstring names the blocking method, whose docstring is the contract."""
    if member is twin:
        return
    assert member.__doc__
    first = twin.__doc__.splitlines()[0]
    assert re.match(rf"Async `{re.escape(member.__qualname__)}`[.;]", first)


@pytest.mark.parametrize("path", ["queue_async.py", "admin_async.py"])
def test_a_face_reads_no_task_and_no_reply(path: str) -> None:
    """No reply code is looked at in an asyncio face, and of a task only its id, to log it."""
    tree = ast.parse((PACKAGE / "queue" / path).read_text())
    fields = set(dpq.Task.model_fields) - {"id", "payload", "group", "key", "priority"}
    looked = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "task"
    }
    assert not looked & fields
    assert not re.search(
        r"(refusals|replies) import .*Code", (PACKAGE / "queue" / path).read_text()
    )
