"""What the documents and examples show passes mypy and pyright, both strict, as a reader's would.

Each document's blocks are one program, in their order; those of README.md stand alone.
"""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import get_overloads, get_type_hints

import pytest
from hypothesis import settings

import dpq
from dpq import Push
from dpq.tasks import Pushing, PushOptions

ROOT = Path(dpq.__file__).parents[1]

SOAK = settings.get_current_profile_name() == "soak"

REDIS_IS_UNTYPED = "# mypy: allow-untyped-calls\n"
"""Parts of redis-py have no types: that is not the reader's to mend."""

OF_REDIS = re.compile(
    r'Type of "(from_url|master_for)" is partially unknown[^"]*".* -> Redis"', re.DOTALL
)

BEFORE = {
    "durability": (
        "import logging\nimport dpq\nfrom dpq import DPQ\n"
        "log = logging.getLogger()\npayload = 1\norder_id = ''\n"
    ),
    "limits_in_depth": (  # rate_limits.md, whose program it goes on with
        "# mypy: disable-error-code=union-attr\n"
        "# pyright: basic, reportOptionalMemberAccess=false\n"
        "from dpq import DPQ, RateLimited\nfrom requests import get\n"
        "q = DPQ.from_url('redis://localhost', 'pages')\n"
    ),
    "operations": REDIS_IS_UNTYPED + "# pyright: basic\n",  # its blocks import the same
    "llm_batches": "# pyright: basic\n",  # so do its blocks
    "testing": "# mypy: allow-untyped-defs, allow-untyped-calls\n# pyright: basic\n",
}
"""What a reader has around the blocks of a document; tests are seldom annotated."""

IMPORTED = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)

SIDE_BY_SIDE = {"api", "tenacity"}
"""The guides whose blocks are programs of their own."""

STUBS = {
    "requests.pyi": (
        "from typing import Any\n"
        "class Response:\n    status_code: int\n    text: str\n"
        "    def json(self) -> Any: ...\n"
        "    def raise_for_status(self) -> None: ...\n"
        "class RequestException(OSError): ...\n"
        "def get(\n"
        "    url: str, *, timeout: float, headers: dict[str, str] = ...\n"
        ") -> Response: ...\n"
    ),
}
"""Modules that need not be there."""

FACTS = """
from typing import Any, assert_type

from pydantic import BaseModel
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dpq import DPQ, AsyncDPQ, Context, Popped, Push, Task, Tasks
from dpq.types import DeadTask


class Email(BaseModel):
    to: str


assert_type(DPQ(Redis(), "q"), DPQ[Any])
assert_type(DPQ(Redis(), "q", payload_type=Email), DPQ[Email])
assert_type(DPQ.from_url("embedded:", "q"), DPQ[Any])
q = DPQ.from_url("embedded:", "q", payload_type=Email, order="min")
assert_type(q, DPQ[Email])
assert_type(DPQ[int | str](Redis(), "q", payload_type=int | str), DPQ[int | str])
q.push(Email(to="ada"), 3)
with q.lease(timeout=None) as task:
    assert_type(task, Task[Email])
with q.lease(timeout=5) as may_be:
    assert_type(may_be, Task[Email] | None)
sure, on_success, set_visibility = q.pop(timeout=None)
assert_type(sure, Task[Email])
popped: Popped[Email] = q.pop()
assert_type(popped.task, Task[Email] | None)
assert_type(q.dead.list(), list[DeadTask[Email]])


async def main() -> None:
    async with AsyncDPQ.from_url("embedded:", "q", payload_type=Email) as queue:
        assert_type(queue, AsyncDPQ[Email])
        async with queue.lease(timeout=None) as task:
            assert_type(task, Task[Email])
        async with queue.lease() as may_be:
            assert_type(may_be, Task[Email] | None)
        sure = (await queue.pop(timeout=None)).task
        assert_type(sure, Task[Email])
    assert_type(AsyncDPQ(AsyncRedis(), "q"), AsyncDPQ[Any])


def handler(task: Task, context: Context) -> None: ...


tasks = Tasks(q)


@tasks.task(max_attempts=3)
def fetch(url: str, depth: int = 0) -> None: ...


assert_type(fetch("x"), None)
fetch.push("x", depth=1)
fetch.push("x", priority=3, group="g")
assert_type(fetch.prepare(url="x"), Push[dict[str, Any]])
"""

FAULTS = """
from dpq import DPQ, Tasks

q = DPQ.from_url("embedded:", "q")
tasks = Tasks(q)
@tasks.task()
def fetch(url: str, depth: int = 0) -> None: ...
DPQ.from_url("embedded:", "q", visibility=3)
DPQ(q.redis, "q", payload_type=int).push("text")
q.lease(timeout="5")
tasks.task(retries=3)
fetch.push(ulr="x")
fetch.push(3)
fetch.push("x", priority="high")
"""

REFUSED = [8, 9, 10, 11, 12, 13, 14]
"""The lines of `FAULTS` that a checker refuses."""


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every block and example as a module, and two modules of our own."""
    folder = tmp_path_factory.mktemp("types")
    modules = {
        f"README_{n}": code for n, code in enumerate(blocks((ROOT / "README.md").read_text()))
    }
    for guide in (ROOT / "docs").glob("*.md"):
        if found := blocks(guide.read_text()):
            name = {"scrapy": "page_on_scrapy"}.get(guide.stem, guide.stem)  # or it hides Scrapy
            modules[name] = "\n".join(found)
    for guide in [
        path for each in ("guides", "move") for path in (ROOT / "docs" / each).glob("*.md")
    ]:
        found = blocks(guide.read_text())
        if not all(map(find_spec, IMPORTED.findall("".join(found)))):
            continue  # a library that the suite does not bring
        programs = found if guide.stem in SIDE_BY_SIDE else ["\n".join(found)]
        for n, code in enumerate(programs):  # not "openai", which one of them imports
            modules[f"guide_{guide.stem}_{n}"] = code
    assert set(BEFORE) <= set(modules)
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(BEFORE.get(name, "") + code)
    for example in (ROOT / "examples").glob("*.py"):
        if example.name == "spider.py" and find_spec("scrapy") is None:
            continue
        shutil.copy(example, folder)
    for name, text in STUBS.items():
        (folder / name).write_text(text)
    (folder / "facts.py").write_text(FACTS)
    (folder / "faults.py").write_text(FAULTS)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "reportDeprecated": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return folder


def by_mypy(folder: Path) -> list[tuple[str, int, str]]:
    """Run mypy over a directory: file, line and message of each error."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += ["--python-version=3.11", "--cache-dir", str(folder.parent / "mypy"), "."]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert said.stderr == ""
    found = re.findall(r"^(\S+?):(\d+): error: (.*)$", said.stdout, re.MULTILINE)
    return [(name, int(line), text) for name, line, text in found]


def by_pyright(folder: Path) -> list[tuple[str, int, str]]:
    """Run pyright over a directory, as basedpyright: its wheel brings all that it needs."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error"]
    command += ["--pythonpath", sys.executable]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = json.loads(said.stdout)
    assert report["summary"]["filesAnalyzed"] > 20, said.stderr
    return [
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["message"])
        for each in report["generalDiagnostics"]
        if each["severity"] == "error" and not OF_REDIS.search(each["message"])
    ]


@pytest.mark.timeout(600)  # 10 s of processor time each, however busy the machine is
@pytest.mark.skipif(not SOAK, reason="slow: make lint runs it")
@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_what_is_shown_is_well_typed(
    check: Callable[[Path], list[tuple[str, int, str]]], program: Path
) -> None:
    """A checker, strict, finds nothing in what a reader copies, and every planted fault."""
    found = check(program)
    assert [error for error in found if error[0] != "faults.py"] == []
    assert sorted({line for name, line, _ in found if name == "faults.py"}) == REFUSED


def test_type_checkers_know_every_option() -> None:
    """What checkers are told of a named task's options is what `push` takes."""
    told = get_type_hints(PushOptions, localns=vars(dpq.tasks))
    assert told.keys() == set(Push._fields) - {"payload"}
    calls = [
        inspect.signature(each).parameters
        for each in get_overloads(
            SimpleNamespace(__module__=Pushing.__module__, __qualname__="Pushing.__call__")
        )
    ]
    named = {
        name: parameter.annotation
        for call in calls
        for name, parameter in call.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    assert named == told
