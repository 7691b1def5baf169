"""One change of the code, planted in a copy: what the tests or the soak are to find.

A change names a function and a text inside of it, so the function may move to another file, and the
text may stand elsewhere, too. A list of changes is a text, three lines for each:

    Partition.push | a push is told of no cost | lua/push contract/order
    - a text that stands there once
    + what it becomes

Further lines with the same sign belong to the same text; lines with a bar go on with the first.
Lines that begin with a # say what follows. A change that the code has outlived fails.
"""

import ast
import functools
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

LEFT_OUT = (".*", "__pycache__", "*.egg-info", "dist", "build")

LUA_FUNCTION = re.compile(r"( *)(?:local )?(?:function ([\w.]+)|([\w.]+) = function)\(.*")


class Place(NamedTuple):
    """A part of a file: a function, a class, an assignment, or all of it."""

    file: Path
    start: int
    end: int


@functools.cache
def text_of(path: Path) -> str:
    """The text of a file of the project."""
    return path.read_text(encoding="utf-8")


def python_places(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """The names of what a module defines, as `Class.method`, with its first and last line."""
    for node in ast.iter_child_nodes(tree):
        names = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        for name in names:
            yield prefix + name, node.lineno, node.end_lineno or node.lineno
        inner = f"{prefix}{names[0]}." if names else prefix
        yield from python_places(node, inner)


def lua_places(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    """The names of the functions of a script, with their first and last line."""
    for first, line in enumerate(lines, 1):
        found = LUA_FUNCTION.fullmatch(line)
        if found:
            end, last = f"{found[1]}end", first
            while not (lines[last - 1].startswith(end) or re.search(r"\bend[,)]*$", line)):
                last += 1
            yield found[2] or found[3], first, last


@functools.cache
def places() -> dict[str, list[Place]]:
    """The parts of DPQ by their names: `function`, `Class.method`, `CONSTANT`, `file.lua`."""
    found = defaultdict(list)
    for path in sorted((ROOT / "dpq").rglob("*.*")):
        if path.suffix not in (".py", ".lua"):
            continue
        text = text_of(path)
        lines = text.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        bare = [line.rstrip("\n") for line in lines]
        parts = lua_places(bare) if path.suffix == ".lua" else python_places(ast.parse(text))
        found[path.name].append(Place(path, 0, len(text)))
        for name, first, last in parts:
            found[name].append(Place(path, starts[first - 1], starts[last]))
    return found


@dataclass(frozen=True, kw_only=True)
class Change:
    """A text of one function, and what stands there instead.

    Attributes:
        name: What is wrong then, in words.
        place: The function, wherever it stands in DPQ; or a class, a constant, the name of a file.
        old: Stands there exactly once.
        new: What it becomes.
    """

    name: str
    place: str
    old: str
    new: str

    def found(self) -> tuple[Path, int]:
        """The file, and where in it the old text begins.

        Raises:
            LookupError: The old text is not there exactly once.
        """
        at = {
            (file, match.start())
            for file, start, end in places().get(self.place, ())
            for match in re.compile(re.escape(self.old)).finditer(text_of(file), start, end)
        }
        if len(at) != 1:
            raise LookupError(f"{self.name!r}: {self.place} has {len(at)} times {self.old!r}")
        return at.pop()

    def changed(self) -> str:
        """The text of the file with the change."""
        file, start = self.found()
        text = text_of(file)
        return text[:start] + self.new + text[start + len(self.old) :]

    def file(self, root: Path) -> Path:
        """The file that is changed, below another top."""
        return root / self.found()[0].relative_to(ROOT)

    def plant(self, root: Path) -> str:
        """Change the file below another top, and return its text as it was."""
        path = self.file(root)
        sound = path.read_text(encoding="utf-8")
        path.write_text(self.changed(), encoding="utf-8")
        return sound


def read_changes(text: str) -> Iterator[tuple[dict[str, str], str]]:
    """The changes of a list, each as arguments of `Change` and the last part of its first line."""
    listed = re.sub(r"^(#.*)?\n", "", text, flags=re.MULTILINE).rstrip("\n")
    for block in re.split(r"\n(?![-+|])", listed):
        head, *lines = block.split("\n")
        while lines[0].startswith("|"):
            head += lines.pop(0)
        place, name, *rest = (part.strip() for part in head.split("|"))
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        yield {"name": name, "place": place, "old": old, "new": new}, " ".join(rest)


def copy_project(into: Path, *names: str) -> None:
    """Copy the project, or some of its top folders, without environments and caches."""
    ignore = shutil.ignore_patterns(*LEFT_OUT)
    if not names:
        shutil.copytree(ROOT, into, ignore=ignore, dirs_exist_ok=True, symlinks=True)
    for name in names:
        shutil.copytree(ROOT / name, into / name, ignore=ignore)
