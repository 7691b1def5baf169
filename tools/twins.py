"""Makes the blocking twin of each asyncio module in `TWINS`: `make twins`.

The asyncio module is the source. Its twin is the same text with the words of blocking code:

    dpq/queue/queue_async.py    async def ack(...): return await self._end(...)    AsyncDPQ
    dpq/queue/queue.py          def ack(...): return self._end(...)                DPQ

A line of a source is for both, so a source imports no `asyncio`. What asyncio really does in
another way stands in a module of its own, and so does its blocking counterpart: both are written by
hand, and have the same names. Then the twin needs no exception here. `tests/unit/test_twins.py`
fails if a twin is not what this program makes.
"""

import ast
import re
import subprocess
import sys
import tokenize
from io import StringIO
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "dpq"

TWINS = [
    "queue/dead",
    "queue/exchange",
    "queue/httpx_like",
    "queue/lease_loops",
    "queue/permits",
    "queue/queue",
    "transport/session",
]
"""The twins, without `.py`; the source of each has `_async` behind its name."""

WORDS = [
    (r"async (def|with|for)", r"\1"),
    (r"await ", ""),
    (r"Awaitable\[((?:[^][]|\[[^][]*\])*)\]", r"\1"),
    (r"AbstractAsyncContextManager", "AbstractContextManager"),
    (r"asynccontextmanager", "contextmanager"),
    (r"StopAsyncIteration", "StopIteration"),
    (r"Async([A-Z]\w*)", r"\1"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"aclose", "close"),
    (r"handle_async_request", "handle_request"),
    (r"(\w+)_async", r"\1"),
    (r"([Aa])n asyncio", r"\1 blocking"),
    (r"asyncio", "blocking"),
    (r"tasks of one event loop", "threads"),
]
"""What stands in a source, and what its twin has there: patterns between the ends of words."""

_WORDS = [(re.compile(rf"(?<!\w){word}" + r"(?!\w)" * (word[-1] != " ")), to) for word, to in WORDS]


def source_of(twin: str) -> Path:
    """Return the file that a twin is made from."""
    return PACKAGE / f"{twin}_async.py"


def file_of(twin: str) -> Path:
    """Return the file of a twin."""
    return PACKAGE / f"{twin}.py"


def blocking(text: str, source: str) -> str:
    """Return the twin of a text. Its format is that of the source, so lines may be too short."""
    for pattern, replacement in _WORDS:
        text = pattern.sub(replacement, text)
    return f"# Made from {source} by `make twins`: change that file, not this one.\n{text}"


def meaning(text: str) -> tuple[str, list[str]]:
    """Return what a formatter keeps: the code with its docstrings, and the comments.

    Imports are left out: the formatter sorts them, and removes those that only asyncio needs.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for body in (getattr(node, name, None) for name in ("body", "orelse")):
            if isinstance(body, list):
                body[:] = [
                    each for each in body if not isinstance(each, ast.Import | ast.ImportFrom)
                ]
    tokens = tokenize.generate_tokens(StringIO(text).readline)
    return ast.dump(tree), [each.string for each in tokens if each.type == tokenize.COMMENT]


def is_current(twin: str) -> bool:
    """Return True if the file of a twin says what its source says."""
    source, file = source_of(twin), file_of(twin)
    made = blocking(source.read_text(encoding="utf-8"), source.name)
    return file.exists() and meaning(made) == meaning(file.read_text(encoding="utf-8"))


def write(twin: str) -> None:
    """Write the file of a twin, in ruff's format."""
    source, file = source_of(twin), file_of(twin)
    file.write_text(blocking(source.read_text(encoding="utf-8"), source.name), encoding="utf-8")
    ruff = (str(Path(sys.executable).with_name("ruff")), "--quiet")
    subprocess.run([*ruff[:1], "check", "--quiet", "--fix", "--select=I,F401", file], check=True)
    subprocess.run([*ruff[:1], "format", "--quiet", file], check=True)


if __name__ == "__main__":
    for each in TWINS:
        write(each)
