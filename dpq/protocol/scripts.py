"""The Lua scripts: read from package data, includes resolved, SHA-1 computed.

The header of a script is its contract: the names of its keys are read from there, so a command can
only send the keys that the header declares.
"""

import hashlib
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

_INCLUDE = re.compile(r"^ *-- @include (_\w+)$", re.MULTILINE)
_KEY_SLOT = re.compile(r"^-- KEYS\[\d+\] +(\w+)", re.MULTILINE)


@dataclass(frozen=True, eq=False)  # there is one of each, found by its identity
class Script:
    """One atomic operation on the server.

    Attributes:
        name: The file's name without its ending.
        text: The source with every include in its place.
        parts: The parts of a queue that it touches, in the order of KEYS.
        sha: What EVALSHA finds it by.
    """

    name: str
    text: str
    parts: tuple[str, ...]
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest)


_LUA = resources.files("dpq.protocol").joinpath("lua")


def _source(name: str) -> str:
    return _LUA.joinpath(f"{name}.lua").read_text(encoding="utf-8")


@cache
def script(name: str) -> Script:
    """Load one script by its file's name; a snippet (`_name`) is included one level deep."""
    source = _source(name)
    text = _INCLUDE.sub(lambda include: _source(include[1]).rstrip(), source)
    return Script(name, text, tuple(_KEY_SLOT.findall(source)))


def script_names() -> list[str]:
    """Every operation that has a script, in alphabetical order."""
    files = (path.name for path in _LUA.iterdir())
    return sorted(name[:-4] for name in files if name.endswith(".lua") and name[0] != "_")
