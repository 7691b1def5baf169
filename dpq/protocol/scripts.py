"""The Lua scripts: read from package data, with all that they need in place, and their SHA-1.

An operation is a file of `lua/`. Files that many operations share are in folders of `lua/lib/`;
files that a few share are in a folder of their name. A line `-- Needs: record, groups` is replaced
by these files, each after the files that it needs itself. A file comes in once for each block.

The header of an operation is its contract: `-- Keys: ready meta` names its keys for the script
and for the commands. So a command can only send keys that are declared there.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_NEEDS = re.compile(r"^( *)-- Needs: ((?:.*,\n *--  +)*.*)\n", re.MULTILINE)
_HEADER = re.compile(r"--(?! Needs: )")
_KEYS = re.compile(r"^-- Keys: (.*(?:\n--  +.*)*)\n", re.MULTILINE)
_GIVES = re.compile(r"^-- Gives: (.*(?:\n--  +.*)*)\n", re.MULTILINE)
_LOCAL = re.compile(r"^local (function )?([\w, ]+?)(?= *[=(\n])", re.MULTILINE)


@dataclass(frozen=True, eq=False)  # each script has one object, compared by identity
class Script:
    """One atomic operation on the server.

    Attributes:
        name: The file's name without its ending.
        text: The source with all that it needs in its place.
        parts: The parts of a queue that it touches, in the order of KEYS.
        sha: The hash by which EVALSHA finds it.
    """

    name: str
    text: str
    parts: tuple[str, ...]
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest)


class Sources:
    """The texts of Lua files: of operations, and of what they share."""

    def __init__(self, operations: dict[str, str], shared: dict[str, str]) -> None:
        self.operations = operations
        self.shared = shared
        self._needs = {name: needs_of(text) for name, text in shared.items()}
        self._enclosed = {name: enclosed(text) for name, text in shared.items()}

    def script(self, name: str) -> Script:
        """Put one operation together, with all that it needs.

        Raises:
            ValueError: A needed file is missing, or needs itself.
        """
        source = self.operations[name]
        declared = _KEYS.search(source)
        if not declared:
            raise ValueError(f"{name} does not say which keys it touches")
        parts = tuple(re.findall(r"\w+", declared[1]))
        slots = ", ".join(f"KEYS[{i}]" for i in range(1, len(parts) + 1))
        lines = source.splitlines(keepends=True)
        top = next((i for i, line in enumerate(lines) if not _HEADER.match(line)), len(lines))
        header, body = "".join(lines[:top]), "".join(self._resolved(name, "".join(lines[top:])))
        keys = f"local {', '.join(parts)} = {slots}\n"
        return Script(name, header + keys + body, parts)

    def _resolved(self, name: str, body: str) -> Iterator[str]:
        """Put the files that each block needs into a text; blocks differ by their indentation."""
        there: list[tuple[int, str]] = []  # the indentation and the name of each file
        end = 0
        for line in _NEEDS.finditer(body):
            between, depth = body[end : line.start()], len(line[1])
            end = line.end()
            shallowest = min([depth, *(len(indent) for indent in _indents(between))])
            there = [known for known in there if known[0] <= shallowest]
            yield between
            done = {known for _, known in there}
            for need in self._in_order(_names(line[2]), (f"{name}.lua",), done):
                there.append((depth, need))
                yield self._enclosed[need]
        yield body[end:]

    def _in_order(self, names: list[str], above: tuple[str, ...], done: set[str]) -> Iterator[str]:
        """List files, each after the files that it needs; add them to `done`."""
        for name in names:
            if name not in self.shared:
                raise ValueError(f"{' -> '.join(above)} needs {name}, which is not there")
            if name in above:
                raise ValueError(f"a circle of needs: {' -> '.join((*above, name))}")
            if name not in done:
                yield from self._in_order(self._needs[name], (*above, name), done)
                done.add(name)
                yield name


def _indents(text: str) -> list[str]:
    return re.findall(r"^( *)\S", text, re.MULTILINE)


def _names(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def needs_of(source: str) -> list[str]:
    """List the files that the text of a Lua file needs."""
    return [name for line in _NEEDS.finditer(source) for name in _names(line[2])]


def enclosed(text: str) -> str:
    """Put a shared file into a block, so that only the names that it gives are seen behind it.

    Lua allows 200 local variables in a function, and a script is one function.
    """
    gives = _GIVES.search(text)
    given: list[str] = []

    def hoist(found: re.Match[str]) -> str:
        names = _names(found[2])
        if not gives or not set(names) & set(_names(gives[1])):
            return found[0]
        given.extend(names)
        return f"{found[1] or ''}{found[2]}"

    body = _LOCAL.sub(hoist, text.rstrip() + "\n")
    return f"local {', '.join(given)}\ndo\n{body}end\n" if given else body


_LUA = resources.files("dpq.protocol").joinpath("lua")


@cache
def sources() -> Sources:
    """Read the Lua files of DPQ."""
    operations, shared = _texts(_LUA), dict[str, str]()
    folders = [path for path in _LUA.iterdir() if path.is_dir()]
    for folder in folders:
        shared |= _texts(folder)
        folders += [path for path in folder.iterdir() if path.is_dir()]
    return Sources(operations, shared)


def _texts(folder: Traversable) -> dict[str, str]:
    """Read the Lua files of a folder, by their names without an ending."""
    found = (path for path in folder.iterdir() if path.name.endswith(".lua"))
    return {path.name[:-4]: path.read_text(encoding="utf-8") for path in found}


@cache
def script(name: str) -> Script:
    """Load one script by its file's name."""
    return sources().script(name)


def script_names() -> list[str]:
    """List the names of all scripts, in alphabetical order."""
    return sorted(sources().operations)
