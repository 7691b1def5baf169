"""The Lua scripts: read from package data, with all that they need in place, and their SHA-1.

An operation is a file of `lua/`; what operations share stands in folders of `lua/lib/` or of their
name. A line `-- Needs: record, groups` brings files in, each once. Those of the first line that is
not indented are made at once; all others when a name that they give is read (`_made_later`).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

_NEEDS = re.compile(r"^( *)-- Needs: ((?:.*,\n *--  +)*.*)\n", re.MULTILINE)
_KEYS = re.compile(r"^-- Keys: (.*(?:\n--  +.*)*)\n", re.MULTILINE)
_GIVES = re.compile(r"^-- Gives: (.*(?:\n--  +.*)*)\n", re.MULTILINE)
_LOCAL = re.compile(r"^local (?:(function) (\w+)|([\w, ]+?)(?= = (?!.*\bnil\b)))", re.MULTILINE)
_STRING = r"'(?:[^'\\\n]|\\.)*'"
_COMMENT = re.compile(rf"({_STRING})|--.*")
_NAME = re.compile(rf"{_STRING}|[{{}}]|(?<![\w:])(?<!(?<!\.)\.)([A-Za-z_]\w*)(\s*=(?!=))?")
_ARGUMENTS = re.compile(r"(?:local .*\b(?:KEYS|ARGV)\b.*\n)*")


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

    def __init__(self, operations: Mapping[str, str], shared: Mapping[str, str]) -> None:
        self.operations = operations
        self.shared = shared
        self._needs = {name: needs_of(text) for name, text in shared.items()}
        self._gives: dict[str, list[str]] = {}
        self._code: dict[str, str] = {}
        for name, text in shared.items():
            self._code[name], self._gives[name] = _hoisted(text)

    def script(self, name: str) -> Script:
        """Put one operation together, with all that it needs."""
        source = self.operations[name]
        declared = _KEYS.search(source)
        if not declared:
            raise ValueError(f"{name} does not say which keys it touches")
        parts = tuple(_names(declared[1]))
        slots = ", ".join(f"KEYS[{i}]" for i in range(1, len(parts) + 1))
        keys = f"local {', '.join(parts)} = {slots}\n"
        return Script(name, keys + self._body(name, source), parts)

    def _body(self, name: str, source: str) -> str:
        """Put what an operation needs behind the lines that name its arguments."""
        files: dict[str, None] = {}
        self._collect(needs_of(source), (f"{name}.lua",), files)
        first = next((found for found in _NEEDS.finditer(source) if not found[1]), None)
        at_once = _names(first[2]) if first else []
        later = [file for file in files if file not in at_once]
        slots: dict[str, str] = {}
        firsts = []
        for file in later:
            firsts.append(len(slots) + 1)
            slots |= {
                given: f"lib[{len(slots) + i}]" for i, given in enumerate(self._gives[file], 1)
            }

        def linked(code: str, needs: Iterable[str]) -> str:
            given = {each for file in needs for each in self._gives[file]}
            return _renamed(code, {each: slot for each, slot in slots.items() if each in given})

        made = [
            f"local {', '.join(self._gives[file])}\ndo\n"
            f"{linked(self._code[file], self._needs[file])}end\n"
            for file in files
            if file in at_once
        ]
        if later:
            texts = [linked(self._code[file], [file, *self._needs[file]]) for file in later]
            made = ["local lib = {}\n", *made, _made_later(list(zip(firsts, texts, strict=True)))]
        code = _stripped(source)
        arguments = _ARGUMENTS.match(code)
        start = arguments.end() if arguments else 0
        return code[:start] + "".join(made) + linked(code[start:], needs_of(source))

    def _collect(self, names: list[str], above: tuple[str, ...], files: dict[str, None]) -> None:
        """Add files to `files`, each once, and behind most of the files that it needs."""
        for name in names:
            if name not in self.shared:
                raise ValueError(f"{' -> '.join(above)} needs {name}, which is not there")
            if name not in files and name not in above:
                self._collect(self._needs[name], (*above, name), files)
                files[name] = None


def _made_later(texts: list[tuple[int, str]]) -> str:
    """Write what makes the functions of a file when the first of them is read from the table
    `lib`."""

    def choice(texts: list[tuple[int, str]]) -> str:
        middle = len(texts) // 2
        if not middle:
            return texts[0][1]
        low, high = choice(texts[:middle]), choice(texts[middle:])
        return f"if n < {texts[middle][0]} then\n{low}else\n{high}end\n"

    made = choice(texts)
    return f"setmetatable(lib, {{ __index = function(_, n)\n{made}return rawget(lib, n)\nend }})\n"


def _hoisted(source: str) -> tuple[str, list[str]]:
    """Make the names that a shared file gives no locals of its own. Returns its code, and them."""
    gives = _GIVES.search(source)
    public = set(_names(gives[1])) if gives else set[str]()
    given: list[str] = []

    def hoist(found: re.Match[str]) -> str:
        names = _names(found[2] or found[3])
        if not public.issuperset(names):
            return found[0]
        given.extend(names)
        return f"{found[2]} = function" if found[1] else found[3]

    return _stripped(_LOCAL.sub(hoist, source)), given


def _stripped(source: str) -> str:
    """Leave out comments, indentation and empty lines."""
    code = _COMMENT.sub(lambda found: found[1] or "", source)
    return "".join(f"{line.strip()}\n" for line in code.splitlines() if line.strip())


def _renamed(code: str, names: Mapping[str, str]) -> str:
    """Replace names; not those of fields and in strings."""
    parts = list(_parts(code))
    parts[1::2] = [names.get(name, name) for name in parts[1::2]]
    return "".join(parts)


@cache
def _parts(code: str) -> tuple[str, ...]:
    """Cut code at the names that may be replaced: text, name, text, ... ; once for all scripts."""
    parts: list[str] = []
    end = depth = 0
    for found in _NAME.finditer(code):
        depth += (found[0] == "{") - (found[0] == "}")
        if found[1] and not (depth and found[2]):
            parts += (code[end : found.start(1)], found[1])
            end = found.end(1)
    return (*parts, code[end:])


def _names(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def needs_of(source: str) -> list[str]:
    """List the files that the text of a Lua file needs."""
    return [name for line in _NEEDS.finditer(source) for name in _names(line[2])]


_LUA = resources.files("dpq.script").joinpath("lua")


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
