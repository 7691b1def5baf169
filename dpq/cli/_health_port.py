"""The health endpoint of `dpq worker` and `dpq scheduler`: /live and /ready, for orchestrators.

    GET /live    200 while the loops move; 503 if one is stuck: restart it
    GET /ready   200 while it works; 503 while it begins or stops, or the server is away

It answers from a thread of its own, without a call to the server, and keeps whatever a client
sends within bounds: connections, bytes and seconds. Must not know a queue.
"""

import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Annotated

import typer

from dpq.model.log_fields import fields
from dpq.model.reports import Health

log = logging.getLogger(__name__)

MOST_CLIENTS = 32
"""Connections at once; for one more, the oldest is closed."""

MOST_BYTES = 4096
"""Bytes of a request."""

CLIENT_SECONDS = 2.0
"""Seconds from the connection to the end of the request."""

NOT_BEGUN = Health(live=True, ready=False, reasons=("it has not begun",))

STATUS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
STATUS[503] = "Service Unavailable"


class HealthSource:
    """Asks for the health of what runs, once there is something that runs.

    Attributes:
        ask: Returns the health.
    """

    def __init__(self) -> None:
        self.ask: Callable[[], Health] = lambda: NOT_BEGUN


class _Client:
    """A connection, until when its request must have come, and what has come so far."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.until = time.monotonic() + CLIENT_SECONDS
        self.request = b""


class HealthServer:
    """Answers HTTP requests about a source.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        source: The source.

    Attributes:
        address: Host and port.

    Raises:
        OSError: The address is taken, or not one of this machine.
    """

    def __init__(self, host: str, port: int, source: HealthSource) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=MOST_CLIENTS)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]
        self._source = source
        self._clients: dict[socket.socket, _Client] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def start(self) -> None:
        """Answer from a thread of its own, to the end of the process."""
        threading.Thread(target=self._run, name="dpq-health", daemon=True).start()
        about = fields("health_begins")
        log.info("health: http://%s:%d/live and /ready", *self.address, extra=about)

    def _run(self) -> None:
        while True:
            try:
                self.step(1.0)
            except Exception:  # of one connection: the endpoint goes on
                log.debug("health: a request failed", exc_info=True)

    def step(self, seconds: float) -> None:
        """Wait for requests, at most so long, and answer those that have come."""
        for key, _ in self._selector.select(seconds if not self._clients else 0.1):
            if key.fileobj is self._listener:
                self._accept()
            elif client := self._clients.get(key.fileobj):  # type: ignore[call-overload]
                self._read(client)
        now = time.monotonic()
        for client in [each for each in self._clients.values() if each.until <= now]:
            self._close(client)

    def close(self) -> None:
        """Listen no more."""
        for client in list(self._clients.values()):
            self._close(client)
        self._selector.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        connection.setblocking(False)
        if len(self._clients) >= MOST_CLIENTS:
            self._close(next(iter(self._clients.values())))
        self._clients[connection] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _close(self, client: _Client) -> None:
        del self._clients[client.connection]
        self._selector.unregister(client.connection)
        client.connection.close()

    def _read(self, client: _Client) -> None:
        try:
            came = client.connection.recv(MOST_BYTES)
            client.request += came
            over = b"\r\n\r\n" in client.request or b"\n\n" in client.request
            if over or len(client.request) >= MOST_BYTES:
                client.connection.send(answer(client.request, self._source.ask, whole=over))
            elif came:
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._close(client)


def answer(request: bytes, ask: Callable[[], Health], *, whole: bool = True) -> bytes:
    """Answer one HTTP request."""
    words = request.partition(b"\n")[0].split()
    if not whole or len(words) != 3 or not words[2].startswith(b"HTTP/"):
        return _response(400, {"error": "bad request"})
    method, path = words[0], words[1].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response(405, {"error": "only GET and HEAD"})
    if path not in (b"/live", b"/ready"):
        return _response(404, {"error": "there are /live and /ready"})
    health = ask()
    good = health.live if path == b"/live" else health.ready
    return _response(200 if good else 503, health.model_dump(), body=method == b"GET")


def _response(code: int, said: dict[str, object], *, body: bool = True) -> bytes:
    text = json.dumps(said).encode() + b"\n"
    head = (
        f"HTTP/1.1 {code} {STATUS[code]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(text)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + text * body


HealthPort = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        min=0,
        max=65535,
        help="Answer HTTP /live and /ready on this port, for orchestrators; 0 takes a free one.",
        show_default="none",
    ),
]
HealthHost = Annotated[
    str, typer.Option(metavar="ADDRESS", help="The address of --health-port; 0.0.0.0 for all.")
]
LOCAL = "127.0.0.1"


def health_source(port: int | None, host: str) -> HealthSource:
    """Make a source; listen, if there is a port."""
    source = HealthSource()
    if port is not None:
        HealthServer(host, port, source).start()
    return source
