"""docs/life_of_a_task.md is true: its pictures, its map of rooms, its checklist, its glossary."""

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Timer
from types import FrameType
from typing import Any, NamedTuple

import pytest
from test_architecture import ROOMS, SCRIPTS

import dpq
from dpq import DPQ
from dpq.queue.admin import Admin

PACKAGE = Path(dpq.__file__).parent
ROOT = PACKAGE.parent
PAGE = (ROOT / "docs" / "life_of_a_task.md").read_text(encoding="utf-8")


class Arrow(NamedTuple):
    """One arrow of a picture: from whom to whom, and the function with its file below dpq/."""

    source: str
    target: str
    function: str
    file: str


def pictures() -> list[list[Arrow]]:
    """The arrows of each picture; a line with an arrow that says nothing fails."""
    found = []
    for picture in re.findall(r"^```mermaid\nsequenceDiagram\n(.*?)^```$", PAGE, re.M | re.S):
        lines = picture.splitlines()
        arrows = [re.fullmatch(r" +(\w+)--?>>(\w+): (\S+) in (\S+)", line) for line in lines]
        assert None not in arrows, lines
        found.append([Arrow(*arrow.groups()) for arrow in arrows if arrow])
    return found


PICTURES = dict(zip(("push", "pop", "wait", "ack", "worker"), pictures(), strict=True))
ARROWS = sorted({arrow for picture in PICTURES.values() for arrow in picture})


def functions(source: str) -> Iterator[str]:
    """The functions and methods that a module defines: `name`, `Class.name`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{inner.name}"


def is_there(arrow: Arrow) -> bool:
    """The file defines the function, or is the script of that name."""
    path = PACKAGE / arrow.file
    if not path.exists():
        return False
    if path.suffix == ".lua":
        return path.stem == arrow.function and arrow.function in SCRIPTS
    return arrow.function in functions(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("arrow", ARROWS, ids=lambda arrow: arrow.function)
def test_a_function_stands_where_the_page_says(arrow):
    """The file of each arrow has its function, and stands in a room that the arrow touches."""
    assert is_there(arrow), f"{arrow.function} is not in dpq/{arrow.file}: mend the page"
    room = "server" if arrow.file.endswith(".lua") else arrow.file.split("/")[0]
    assert room in (arrow.source, arrow.target)


MOST_CALLS, MOST_FILES = 16, 9
"""Of a warm push. More would be slower, and harder to follow."""

Calls = list[tuple[str, str]]  # functions, and their files below dpq/


def noting(calls: Calls, thread: str | None = None) -> Callable[[FrameType, str, Any], None]:
    """A profiler that notes the functions of DPQ that are called, or by the thread of a name."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        ours = event == "call" and code.co_filename.startswith(f"{PACKAGE}/")
        if ours and thread in (None, threading.current_thread().name):
            calls.append((code.co_qualname, code.co_filename.removeprefix(f"{PACKAGE}/")))

    return note


def calls_of(run: Callable[[], Any]) -> tuple[Any, Calls]:
    """What `run` returns, and the functions of DPQ that this thread has called or resumed."""
    calls: Calls = []
    before = sys.getprofile()
    sys.setprofile(noting(calls))
    try:
        return run(), calls
    finally:
        sys.setprofile(before)


def first_missing(picture: Sequence[Arrow], calls: Sequence[tuple[str, str]]) -> Arrow | None:
    """The first arrow that the calls, in their order, do not have; scripts run elsewhere."""
    rest = iter(calls)
    for arrow in picture:
        if arrow.file.endswith(".py") and (arrow.function, arrow.file) not in rest:
            return arrow
    return None


def test_the_pictures_show_what_is_called(server, queue_name):
    """A real push, pop, wait and ack call the functions of their pictures, in that order."""
    with (
        DPQ.from_url(server.url, queue_name) as q,
        DPQ.from_url(server.url, queue_name) as producer,
    ):
        q.push("first")  # what comes once only, as opening the queue, is in no picture
        first = q.pop().task
        q.ack(first)
        _, pushed = calls_of(lambda: q.push("text"))
        popped, taken = calls_of(q.pop)
        done, acked = calls_of(lambda: q.ack(popped.task))
        later = Timer(0.1, producer.push, ["late"])
        later.start()
        late, waited = calls_of(lambda: q.pop(timeout=60))
        later.join()
        assert (first.payload, popped.task.payload, done, late.task.payload) == (
            "first",
            "text",
            True,
            "late",
        )
        q.admin.drop()
    for name, calls in {"push": pushed, "pop": taken, "wait": waited, "ack": acked}.items():
        missing = first_missing(PICTURES[name], calls)
        assert missing is None, f"{name} does not call {missing} there: mend the page"
    assert first_missing(PICTURES["push"][::-1], pushed)  # the order counts


def test_a_push_is_a_short_way(server, queue_name):
    """A warm push, from `push` to the socket and back: at most 16 calls in 8 files of DPQ."""
    with DPQ.from_url(server.url, queue_name) as q:
        for _ in range(3):
            q.push("text")
        _, calls = calls_of(lambda: q.push("text"))
        q.admin.drop()
    assert len(calls) <= MOST_CALLS, calls
    assert len({file for _, file in calls}) <= MOST_FILES, calls


def test_the_table_of_a_worker_has_every_file():
    """Each file of the room has a row with its job; its asyncio twin has none."""
    section = PAGE.split("## Worker")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    files = {path.name.replace("_async", "") for path in (PACKAGE / "worker").glob("*.py")}
    assert named - {"worker"} == files - {"__init__.py"}


def test_the_map_of_the_rooms_is_the_rule():
    """The line of rooms is that of tests/test_architecture.py, and the table has each of them."""
    (line,) = re.findall(r"^```\n(model < .*)\n```$", PAGE, re.MULTILINE)
    shown = [set(rooms.split(", ")) for rooms in line.split(" < ")]
    assert shown == [{name or "dpq" for name in rooms} for rooms in ROOMS]
    section = PAGE.split("## Rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    named = {name.strip("/") for row in rows for name in re.findall(r"`(.*?)(?:\.py)?`", row)}
    rooms = {name or "__init__" for rooms in ROOMS[:-1] for name in rooms}
    assert named == rooms


def test_the_checklist_names_what_is_there():
    """Each file of the list to add a verb exists."""
    section = PAGE.split("## To add a verb")[1].split("\n## ")[0]
    files = re.findall(r"`((?:dpq|tests|docs)/[\w/.]+|CHANGELOG.md)`", section)
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_users_are_told_of_every_verb():
    """docs/usage.md names each method of a queue and its `admin`, docs/storage.md each script."""
    usage = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    design = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([\w.]+)`", usage))
    verbs = {
        name
        for part in (DPQ, Admin)
        for name, member in vars(part).items()
        if name[0] != "_" and callable(member) and name not in ("close", "from_url")
    }
    assert verbs - told == set()
    table = set(re.findall(r"`(\w+)`", design.split("## States")[1].split("\n## ")[0]))
    assert set(SCRIPTS) - table == set()


def glossary() -> dict[str, str]:
    """Word -> its meaning."""
    return dict(re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", PAGE.split("## Glossary")[1], re.M))


def test_the_glossary_is_used():
    """About sixty words, in the order of the alphabet; the code uses each."""
    words = list(glossary())
    assert words == sorted(words)
    assert 35 <= len(words) <= 70
    texts = [path.read_text(encoding="utf-8").lower() for path in PACKAGE.rglob("*.py")]
    texts += [path.read_text(encoding="utf-8").lower() for path in PACKAGE.rglob("*.lua")]
    unused = [
        word
        for word in words
        if sum(word in text and bool(re.search(rf"(?<![a-z]){word}", text)) for text in texts) < 2
    ]
    assert unused == []
