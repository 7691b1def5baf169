"""The site that crawler.py crawls: this Python's standard library, on two hosts with strict limits.

Every page is read from the real source files. `GET /asyncio.events` answers with the first line of
the module's docstring, its number of lines and links to the modules that it imports. A module that
is written in C has a page without links; one that this Python does not carry is a 404; one that
does not parse is a 422 with the parser's words; and what is beyond the limit of its host is a 429
with Retry-After, in whole seconds. Until then the host is closed, and a request that does not wait
makes the closing twice as long, as hosts do. `GET /` costs nothing: it is there to measure the way.

One host has the modules of the top level, the other one the submodules; imports lead to both.
`python _stdlib_site.py` serves all of them on one host, until Ctrl-C: so does
`python -m dpq.demo --serve`.
"""

import argparse
import ast
import json
import math
import signal
import sys
import sysconfig
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import EXTENSION_SUFFIXES, FrozenImporter
from pathlib import Path
from typing import Any, NamedTuple

STDLIB = Path(sysconfig.get_path("stdlib"))
EXTENSIONS = Path(sysconfig.get_config_var("DESTSHARED") or STDLIB / "lib-dynload")
HOSTS = ("modules", "submodules")
UNDER_WAY_S = 0.25  # what arrives so soon after a 429 was sent before it
MOST_CLOSING_S = 2  # of a closing that is ignored; else it is 1


def host_of(module: str) -> str:
    """Name the host that has a module: `json` is one of the top level, `json.decoder` is not."""
    return HOSTS["." in module]


class Page(NamedTuple):
    """What the site says about a module."""

    status: int
    imports: list[str]
    text: str  # the docstring's first line, or what is wrong
    lines: int = 0


def read_library(starts: Sequence[str], budget: int | None = None) -> dict[str, Page]:
    """Read the start modules and all they lead to, breadth first, up to `budget` pages."""
    pages: dict[str, Page] = {}
    waiting, known = deque(starts), set(starts)
    while waiting and (budget is None or len(pages) < budget):
        name = waiting.popleft()
        pages[name] = read_page(name)
        new = [found for found in pages[name].imports if found not in known]
        known.update(new)
        waiting.extend(new)
    return {
        name: page._replace(imports=[found for found in page.imports if found in pages])
        for name, page in pages.items()
    }


def read_page(name: str) -> Page:
    """Read one module."""
    named = all(part.isidentifier() for part in name.split("."))  # else it is some other path
    file = _source(name) if named else None
    if file is None:
        if named and _is_carried(name):
            return Page(200, [], "written in C, or frozen: no Python source")
        return Page(404, [], f"not found: this Python carries no module {name}")
    source = file.read_bytes()
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source, str(file.relative_to(STDLIB)))
    except (SyntaxError, ValueError) as error:
        return Page(422, [], f"does not parse: {error}")
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    found = dict.fromkeys(_imports(tree, package))
    found.pop(name, None)
    words = (ast.get_docstring(tree) or "").strip().partition("\n")[0]
    return Page(200, list(found), words, len(source.splitlines()))


def _source(name: str) -> Path | None:
    path = STDLIB.joinpath(*name.split("."))
    candidates = (path / "__init__.py", path.with_name(path.name + ".py"))
    return next((file for file in candidates if file.is_file()), None)


def _is_carried(name: str) -> bool:
    return (
        _source(name) is not None
        or name in sys.builtin_module_names
        or any((EXTENSIONS / (name + suffix)).is_file() for suffix in EXTENSION_SUFFIXES)
        or FrozenImporter.find_spec(name) is not None
    )


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the modules that the statements of `tree` name, in the order of the source."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if isinstance(node, ast.Import):
            yield from (_module(alias.name) for alias in node.names)
            continue
        parts = [node.module] if node.module else []
        if node.level:
            above = package.split(".")
            parts = above[: len(above) - node.level + 1] + parts
        for alias in node.names:
            yield _module(".".join([*parts, alias.name]), ".".join(parts))


def _module(name: str, otherwise: str = "") -> str:
    """Return the module that `name` means: `os.path` is an attribute of `os`."""
    shorter = name
    while shorter:
        if _is_carried(shorter):
            return shorter
        shorter = shorter.rpartition(".")[0]
    return otherwise or name


class Answer(NamedTuple):
    """One request and its answer."""

    at: float  # monotonic
    host: str
    module: str
    status: int


class Host:
    """Where a host is, and what it allows: never more than `rate` pages in any second."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.url = ""
        self.recent: deque[float] = deque(maxlen=rate)
        self.closed_at = self.closed_until = 0.0
        self.lock = threading.Lock()

    def wait(self, now: float) -> int:
        """Return the seconds of Retry-After; 0 when the request may be answered."""
        if now >= self.closed_until:
            if len(self.recent) < self.rate or self.recent[0] + 1 <= now:
                self.recent.append(now)
                return 0
            self.closed_at, self.closed_until = now, now + 1
        elif now - self.closed_at > UNDER_WAY_S:
            self.closed_until = self.closed_at + MOST_CLOSING_S
        return math.ceil(self.closed_until - now)


class Site:
    """The running server: where its hosts are, and what they have answered.

    Attributes:
        hosts: By name.
        log: All requests, each host's in order.
    """

    def __init__(self, pages: dict[str, Page], rates: dict[str, int]) -> None:
        self.pages = pages
        self.hosts = {name: Host(rate) for name, rate in rates.items()}
        self.log: list[Answer] = []

    @property
    def limited(self) -> int:
        """Requests that were answered 429."""
        return sum(answer.status == 429 for answer in self.log)

    def link(self, module: str) -> str:
        """Return the address of a module's page; one host alone has all pages."""
        host = self.hosts.get(host_of(module)) or next(iter(self.hosts.values()))
        return f"{host.url}/{module}"

    def answer(self, name: str, module: str) -> tuple[int, dict[str, str], str]:
        """Return the status, headers and body with which a host answers."""
        host = self.hosts[name]
        if not module:
            return 200, {}, name
        with host.lock:
            now = time.monotonic()
            if wait := host.wait(now):
                self.log.append(Answer(now, name, module, 429))
                return 429, {"Retry-After": str(wait)}, "over the limit"
            page = self.pages.get(module) or read_page(module)
            self.log.append(Answer(now, name, module, page.status))
        if page.status != 200:
            return page.status, {}, page.text
        links = [self.link(found) for found in page.imports]
        body = {"doc": page.text, "lines": page.lines, "links": links}
        return 200, {"Content-Type": "application/json"}, json.dumps(body)


@contextmanager
def serve(
    pages: dict[str, Page],
    rates: dict[str, int],
    port: int = 0,
    tell: Callable[[int, str], None] = lambda status, module: None,
) -> Iterator[Site]:
    """Serve `pages` on loopback ports, one for each host that `rates` names.

    `port` is that of the first host; 0 takes a free one. `tell` is called with each answer's status
    and module.
    """
    site = Site(pages, rates)
    with ExitStack() as stack:
        for name, host in site.hosts.items():
            host.url = stack.enter_context(_listen(site, name, port, tell))
            port = 0
        yield site


@contextmanager
def _listen(site: Site, host: str, port: int, tell: Callable[[int, str], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            module = self.path.strip("/")
            status, headers, body = site.answer(host, module)
            tell(status, module)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Leave the terminal to the view."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a killed client is no fault
                super().handle_error(request, client_address)

    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def main() -> int:
    """Serve all pages on one host, and print each answer, until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="Serve the pages that crawler.py crawls.")
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--port", type=int, default=8429, help="%(default)s; 0: any free port")
    asked = parser.parse_args()

    def tell(status: int, module: str) -> None:
        path = module.encode("unicode_escape").decode()  # nothing that controls the terminal
        print(f"{time.strftime('%H:%M:%S')} {status} /{path}", flush=True)

    over = threading.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda number, frame: over.set())
    try:
        with serve({}, {"all": asked.rate}, asked.port, tell) as site:
            print(
                f"{site.hosts['all'].url} answers {asked.rate} pages in any second, more with 429; "
                "Ctrl-C ends it",
                flush=True,
            )
            while not over.wait(0.1):  # in steps: a wait without an end may hold up a signal
                pass
    except OSError as error:
        said = f"cannot serve on 127.0.0.1:{asked.port}: {error}; --port 0 takes a free port"
        print(said, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
