"""`DPQ` and `AsyncDPQ` side by side: two ways to wait, and nothing else that differs."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpq
from dpq import DPQ, AsyncDPQ, AsyncWorker, Worker
from dpq.queue.dead import DeadLetters
from dpq.queue.dead_async import AsyncDeadLetters

PACKAGE = Path(dpq.__file__).parent

PAIRS = {DPQ: AsyncDPQ, DeadLetters: AsyncDeadLetters, Worker: AsyncWorker}

NOTHING_TO_AWAIT = {"from_url", "dead", "acquire", "lease", "leases", "running", "stop"}
"""The same in both: a client connects later; `acquire`, `lease`, `leases` and `running` are
entered; `stop` only tells."""

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
    """Each public method of a blocking class with its asyncio twin."""
    for blocking, awaited in PAIRS.items():
        theirs = face(awaited)
        for name, member in face(blocking).items():
            other = theirs.get(SPECIAL.get(name, name))
            if inspect.isfunction(member) and other is not None:
                yield pytest.param(name, member, other, id=f"{blocking.__name__}.{name}")


def annotation(text: str) -> str:
    """An annotation as the other face writes it."""
    text = re.sub(r"\bAsync(?=DPQ|DeadLetters|Iterator|LeaseLoop|Permit)", "", text)
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
    if member is twin or name.startswith("__"):
        return
    assert member.__doc__
    first = twin.__doc__.splitlines()[0]
    assert re.match(rf"Async `{re.escape(member.__qualname__)}`[.;]", first)


# Nothing is decided in a face: both hand the same arguments to the same commands.


class Shell:
    """What the methods of a class ask their operations for, directly and through each other."""

    def __init__(self, path: str, cls: str) -> None:
        tree = ast.parse((PACKAGE / "queue" / path).read_text())
        body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == cls).body
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        self.methods = {
            node.name: node
            for node in body
            if isinstance(node, kinds) and not node.name.startswith("_start")
        }

    def commands(self, name: str, seen: frozenset[str] = frozenset()) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(self.methods[name]):
            if isinstance(node, ast.Attribute):
                owner = ast.unparse(node.value)
                if owner in {"self._operations", "self._session.operations"}:
                    found.add(node.attr)
                elif owner == "self" and node.attr in self.methods.keys() - seen:
                    found |= self.commands(node.attr, seen | {name})
        return found


SHELLS = [
    (Shell("queue.py", "DPQ"), Shell("queue_async.py", "AsyncDPQ")),
    (Shell("dead.py", "DeadLetters"), Shell("dead_async.py", "AsyncDeadLetters")),
]


@pytest.mark.parametrize(
    ("blocking", "awaited", "name"),
    [
        pytest.param(blocking, awaited, name, id=name)
        for blocking, awaited in SHELLS
        for name in blocking.methods
        if not name.startswith("_")
    ],
)
def test_twins_ask_for_the_same_commands(blocking: Shell, awaited: Shell, name: str) -> None:
    """Both methods use the same set of commands, which hold every decision."""
    opening = {"open", "markers"}  # each face opens when it has to
    cancelled = {"release"} if "pop" in awaited.commands(name) else set()
    assert awaited.commands(name) - opening - cancelled == blocking.commands(name) - opening


def calls(function: Any) -> set[str]:
    """How a method calls commands, argument by argument."""
    return {
        ast.unparse(node)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and re.fullmatch(r"self\._(session\.(run|send)|end)", ast.unparse(node.func))
    }


@pytest.mark.parametrize(
    ("blocking", "awaited", "name"),
    [
        pytest.param(blocking, awaited, name, id=name)
        for blocking, awaited in SHELLS
        for name in sorted(blocking.methods.keys() & awaited.methods.keys())
        if not name.startswith("_")
    ],
)
def test_twins_pass_on_the_same_arguments(blocking: Shell, awaited: Shell, name: str) -> None:
    """What a method hands to its operations is written the same in both."""
    ours, theirs = calls(blocking.methods[name]), calls(awaited.methods[name])
    helped = {"lease"}  # settles in a helper of its own, which a cancelled end does not break off
    assert theirs == ours or name in helped


@pytest.mark.parametrize("path", ["queue_async.py", "dead_async.py"])
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
