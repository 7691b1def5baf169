"""Makes each module in `TWINS` from its source, word by word: `make twins`.

The asyncio module is the source of its blocking twin:

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

BLOCKING = [
    "queue/admin",
    "queue/waits",
    "http/exchange",
    "http/httpx_like",
    "queue/lease_loops",
    "queue/permits",
    "queue/queue",
    "link/connect",
    "link/connections",
    "link/listener",
    "link/session",
    "link/waiter",
    "worker/fetcher",
    "worker/telling",
]

TWINS = {twin: f"{twin}_async" for twin in BLOCKING} | {"httpx2": "httpx"}
"""The twins, and the source of each, without `.py`."""

WORDS = [
    (r"async (def|with|for)", r"\1"),
    (r"await ", ""),
    (r"Awaitable\[((?:[^][]|\[[^][]*\])*)\]", r"\1"),
    (r"AbstractAsyncContextManager", "AbstractContextManager"),
    (r"_AsyncGeneratorContextManager", "_GeneratorContextManager"),
    (r"asynccontextmanager", "contextmanager"),
    (r"StopAsyncIteration", "StopIteration"),
    (r"Async([A-Z]\w*)", r"\1"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"aclose", "close"),
    (r"handle_async_request", "handle_request"),
    (r"(\w+)_async", r"\1"),
    (r"redis\.asyncio", "redis"),
    (r"([Aa])n asyncio", r"\1 blocking"),
    (r"asyncio", "blocking"),
    (r"tasks of one event loop", "threads"),
]
"""What stands in a source, and what its blocking twin has there."""

HTTPX2 = [(r"httpx(?! and httpx2)", "httpx2")]
"""The same for the transports of httpx, whose successor has other names for nothing else."""


def source_of(twin: str) -> Path:
    """Return the file that a twin is made from."""
    return PACKAGE / f"{TWINS[twin]}.py"


def file_of(twin: str) -> Path:
    """Return the file of a twin."""
    return PACKAGE / f"{twin}.py"


def made(twin: str) -> str:
    """Return the text of a twin. Its lines break where those of its source do."""
    source = source_of(twin)
    text = source.read_text(encoding="utf-8")
    for word, replacement in WORDS if twin in BLOCKING else HTTPX2:
        whole = rf"(?<!\w){word}" + r"(?!\w)" * (word[-1] != " ")
        text = re.sub(whole, replacement, text)
    return f"# Made from {source.name} by `make twins`: change that file, not this one.\n{text}"


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
    file = file_of(twin)
    return file.exists() and meaning(made(twin)) == meaning(file.read_text(encoding="utf-8"))


def write(twin: str) -> None:
    """Write the file of a twin, in ruff's format."""
    file, ruff = file_of(twin), Path(sys.executable).with_name("ruff")
    file.write_text(made(twin), encoding="utf-8")
    subprocess.run([ruff, "check", "--quiet", "--fix", "--select=I,F401", file], check=True)
    subprocess.run([ruff, "format", "--quiet", file], check=True)


if __name__ == "__main__":
    for each in TWINS:
        write(each)
