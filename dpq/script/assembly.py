"""The Lua scripts: read from package data, with all that they need in place, and their SHA-1.

An operation is a file of `lua/`, whose header names its keys and its arguments. What operations
share stands in folders of `lua/lib/` or of their name. A line `-- Needs: record, groups` brings in
the functions of files that are used, each once. Those of lines that are not indented are made at
once. In a small script all others are made where their line stands (`_with_locals`); in a large one
when a name is first read (`_made_later`).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

_NEEDS = re.compile(r"^( *)-- Needs: ((?:.*,\n *--  +)*.*)\n", re.MULTILINE)
_KEYS = re.compile(r"^-- Keys: (.*(?:\n--  +.*)*)\n", re.MULTILINE)
_GIVES = re.compile(r"^-- Gives: (.*(?:\n--  +.*)*)\n", re.MULTILINE)
_LOCAL = re.compile(r"^local (?:(function) (\w+)|([\w, ]+?)(?= = (?!.*\bnil\b)))", re.MULTILINE)
_TOP = re.compile(r"^(?=local )", re.MULTILINE)
_DECLARED = re.compile(r"local (?:function )?(\w+(?:, \w+)*)")
_STRING = r"'(?:[^'\\\n]|\\.)*'"
_COMMENT = re.compile(rf"({_STRING})|--.*")
_NAME = re.compile(rf"{_STRING}|[{{}}]|(?<![\w:])(?<!(?<!\.)\.)([A-Za-z_]\w*)(\s*=(?!=))?")
_SLOT = re.compile(r"^-- (ARGV\[\d+)(\.\.)?\] +(\w*)( +number:)?", re.MULTILINE)


@dataclass(frozen=True, eq=False)  # each script has one object, compared by identity
class Script:
    """One atomic operation on the server.

    Attributes:
        name: The file's name without its ending.
        text: The source with all that it needs in its place.
        parts: The parts of a queue that it touches, in the order of KEYS.
    """

    name: str
    text: str
    parts: tuple[str, ...]

    @cached_property
    def sha(self) -> str:
        """The hash by which EVALSHA finds it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


MOST_LOCALS = 50
"""Functions of shared files in a small script. Lua allows 200 locals; but to make 100 functions
takes longer (50 us) than to find those that a call uses."""


class _Part(NamedTuple):
    """A function or another local of a shared file."""

    code: str
    sets: list[str]
    gives: list[str]
    reads: set[str]


class Sources:
    """The texts of Lua files: of operations, and of what they share."""

    def __init__(self, operations: Mapping[str, str], shared: Mapping[str, str]) -> None:
        self.operations = operations
        self.shared = shared

    def script(self, name: str) -> Script:
        """Put one operation together, with all that it needs."""
        source = self.operations[name]
        declared = _KEYS.search(source)
        if not declared:
            raise ValueError(f"{name} does not say which keys it touches")
        parts = tuple(_names(declared[1]))
        slots = ", ".join(f"KEYS[{i}]" for i in range(1, len(parts) + 1))
        keys = f"local {', '.join(parts)} = {slots}\n"
        return Script(name, keys + _arguments(source) + self._body(name, source), parts)

    def _body(self, name: str, source: str) -> str:
        """Put what an operation needs before its code."""
        files: dict[str, None] = {}
        self._collect(needs_of(source), (f"{name}.lua",), files)
        used = self._used(source, list(files))
        gives = {
            file: [each for part in parts for each in part.gives] for file, parts in used.items()
        }
        needs = list(_NEEDS.finditer(source))
        at_once = [each for found in needs if not found[1] for each in _names(found[2])]
        if sum(map(len, gives.values())) <= MOST_LOCALS:
            return self._with_locals(source, used, gives, needs)
        later = [file for file in files if file not in at_once]
        slots: dict[str, str] = {}
        firsts = []
        for file in later:
            firsts.append(len(slots) + 1)
            slots |= {given: f"lib[{len(slots) + i}]" for i, given in enumerate(gives[file], 1)}

        def linked(code: str, needs: Iterable[str]) -> str:
            given = {each for file in needs for each in gives[file]}
            return _renamed(code, {each: slot for each, slot in slots.items() if each in given})

        codes = {
            file: linked("".join(part.code for part in used[file]), [file, *self._needs(file)])
            for file in files
        }
        made = [
            f"local {', '.join(gives[file])}\ndo\n{codes[file]}end\n"
            for file in files
            if file in at_once and gives[file]
        ]
        texts = [(first, codes[file]) for first, file in zip(firsts, later, strict=True)]
        made = ["local lib = {}\n", *made, _made_later(texts)] if later else made
        return "".join(made) + linked(_stripped(source), needs_of(source))

    def _with_locals(
        self,
        source: str,
        used: Mapping[str, list[_Part]],
        gives: Mapping[str, list[str]],
        needs: list[re.Match[str]],
    ) -> str:
        """Put what a small operation needs where it says so; what two places need, at its start."""
        wanted = []
        for found in needs:
            files: dict[str, None] = {}
            self._collect(_names(found[2]), (), files)
            named = {name for file in _names(found[2]) for name in gives[file]}
            chosen = self._used(" ".join(named & _read_in(_stripped(source))), list(files))
            wanted.append([file for file, parts in chosen.items() if parts])
        at_once = {
            file
            for found, made in zip(needs, wanted, strict=True)
            for file in made
            if not found[1] or sum(file in each for each in wanted) > 1
        }
        code = {
            file: "do\n" + "".join(part.code for part in parts) + "end\n" if parts else ""
            for file, parts in used.items()
        }
        for found, made in reversed(list(zip(needs, wanted, strict=True))):
            text = "".join(code[file] for file in made if file not in at_once)
            source = source[: found.start()] + text + source[found.end() :]
        names = [name for given in gives.values() for name in given]
        first = f"local {', '.join(names)}\n" if names else ""
        first += "".join(code[file] for file in used if file in at_once)
        return first + _stripped(source)

    def _used(self, source: str, files: list[str]) -> dict[str, list[_Part]]:
        """Choose the parts of files that an operation uses, itself or by other parts."""
        parts = {file: _parts_of(self.shared[file]) for file in files}
        own = {file: {name: part for part in parts[file] for name in part.sets} for file in files}
        giver = {name: file for file in files for part in parts[file] for name in part.gives}
        found = [(giver[name], name) for name in _read_in(_stripped(source)) & giver.keys()]
        marked: set[tuple[str, str]] = set()
        while found:
            file, name = found.pop()
            if (file, name) not in marked:
                marked.add((file, name))
                needs = self._needs(file)
                for each in own[file][name].reads:
                    holder = file if each in own[file] else giver.get(each)
                    if holder == file or holder in needs:
                        found.append((holder, each))
        return {
            file: [
                part for part in parts[file] if any((file, name) in marked for name in part.sets)
            ]
            for file in files
        }

    def _needs(self, file: str) -> list[str]:
        return needs_of(self.shared[file])

    def _collect(self, names: list[str], above: tuple[str, ...], files: dict[str, None]) -> None:
        """Add files to `files`, each once, and behind most of the files that it needs."""
        for name in names:
            if name not in self.shared:
                raise ValueError(f"{' -> '.join(above)} needs {name}, which is not there")
            if name not in files and name not in above:
                self._collect(self._needs(name), (*above, name), files)
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


@cache
def _parts_of(source: str) -> list[_Part]:
    """Cut a shared file at the start of each function and other local.

    The names that the file gives become no locals of its own.
    """
    gives = _GIVES.search(source)
    public = set(_names(gives[1])) if gives else set[str]()
    parts = []
    for text in _TOP.split(_stripped(source, indented=True))[1:]:
        found = _LOCAL.match(text)
        names = _names(_DECLARED.findall(text)[0])
        given = [each for each in names if found and public.issuperset(names)]
        if given:
            text = _LOCAL.sub(_without_local, text, 1)
        code = _stripped(text)
        parts.append(_Part(code, names, given, _read_in(code)))
    return parts


def _without_local(found: re.Match[str]) -> str:
    return f"{found[2]} = function" if found[1] else found[3]


def _arguments(source: str) -> str:
    """Name the arguments as the header does; `args` has all of them if their number is open."""
    slots = {
        "args" if more else name: "ARGV" if more else f"tonumber({slot}])" if number else f"{slot}]"
        for slot, more, name, number in _SLOT.findall(source)
    }
    return f"local {', '.join(slots)} = {', '.join(slots.values())}\n" if slots else ""


def _stripped(source: str, *, indented: bool = False) -> str:
    """Leave out comments and empty lines, and the indentation unless it is to stay."""
    code = _COMMENT.sub(lambda found: found[1] or "", source)
    lines = (line.rstrip() if indented else line.strip() for line in code.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


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


def _read_in(code: str) -> set[str]:
    """Find all names in code."""
    return set(_parts(code)[1::2])


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
