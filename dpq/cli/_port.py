"""An HTTP port beside a daemon, for `--health-port`, `--metrics-port` and `dpq metrics`.

It serves a WSGI application on an event loop in a thread of its own. It bounds the connections,
bytes, seconds and threads that strangers can take. Each connection has one request. If the process
has no file number left, asyncio accepts again a second later. Must not know a queue.
"""

import asyncio
import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

log = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application for GET. It finds method, path, query and headers, and no body."""

MOST_CLIENTS = 32
"""Connections at once; for one more, the oldest is closed."""

MOST_BYTES = 8192
"""Bytes of a request."""

ASK_SECONDS = 2.0
"""Seconds from the connection to the end of the request."""

TAKE_SECONDS = 10.0
"""Seconds in which a client takes the answer: as long as Prometheus waits for a scrape."""

ANSWERS = 4
"""Threads of the application: answers that are made at once."""

COMPLAINT_SECONDS = 60.0
"""Seconds between two lines of the log about files that are missing."""


class Port:
    """Serves an application at an address.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        application: The application.
        name: A word for the thread and the log.

    Attributes:
        address: Host and port.

    Raises:
        OSError: The address is taken, or not one of this machine.
    """

    def __init__(self, host: str, port: int, application: Application, name: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MOST_CLIENTS)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._application, self._name = application, name
        self._loop = asyncio.SelectorEventLoop()
        self._over = asyncio.Event()
        self._clients: dict[asyncio.StreamWriter, None] = {}  # the oldest connection first
        self._complained = -COMPLAINT_SECONDS
        self._thread = threading.Thread(target=self._run, name=f"dpq-{name}", daemon=True)

    @property
    def url(self) -> str:
        """Return its address for a browser."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> "Port":
        """Answer from a thread, until `close` or the end of the process."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Listen no more."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.set_exception_handler(self._complain)
        with ThreadPoolExecutor(ANSWERS, f"dpq-{self._name}") as threads:
            self._loop.set_default_executor(threads)
            self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._meet, sock=self._listener, backlog=MOST_CLIENTS, limit=MOST_BYTES
        )
        await self._over.wait()
        server.close()
        for client in self._clients:
            client.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MOST_CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]
            oldest.transport.abort()
        self._clients[writer] = None
        try:
            async with asyncio.timeout(ASK_SECONDS):
                head = await _read_head(reader)
            said = await asyncio.to_thread(answer, head, self._application)
            async with asyncio.timeout(TAKE_SECONDS):
                writer.write(said)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError):  # the client has gone, or its time is over
            pass
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort()

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            log.debug("%s: %s", self._name, context["message"], exc_info=error)
        elif time.monotonic() - self._complained >= COMPLAINT_SECONDS:
            self._complained = time.monotonic()
            log.warning("%s: no file is left for a connection (ulimit -n)", self._name)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Read the first line and the headers; return b"" if they are too long.

    Raises:
        EOFError: The client sends no more.
    """
    head = b""
    try:
        while (line := await reader.readline()).strip():
            head += line
            if len(head) > MOST_BYTES:
                return b""
    except ValueError:  # a header line is too long
        return b""
    if not line:
        raise EOFError
    return head


def answer(head: bytes, application: Application) -> bytes:
    """Answer one request: its first line and its headers."""
    first, *lines = head.decode("latin-1").split("\n")
    words = first.split()
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return _response("400 Bad Request", [], b"bad request\n")
    if words[0] not in ("GET", "HEAD"):
        return _response("405 Method Not Allowed", [("Allow", "GET, HEAD")], b"only GET and HEAD\n")
    path, _, query = words[1].partition("?")
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query}
    for line in lines:
        name, _, value = line.partition(":")
        environ[f"HTTP_{name.strip().upper().replace('-', '_')}"] = value.strip()
    began: list[Any] = []
    try:
        body = b"".join(application(environ, lambda *said: began.extend(said)))
        status, headers = began[:2]
    except Exception:  # an error in one request does not stop the port
        log.exception("a request failed: %s", path)
        status, headers, body = "500 Internal Server Error", [], b"its log has the details\n"
    said = _response(status, headers, body)
    return said if words[0] == "GET" else said[: len(said) - len(body)]


def _response(status: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    own = [
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in [*headers, *own])]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
