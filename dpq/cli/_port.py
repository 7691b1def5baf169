"""An HTTP port beside a daemon, for `--health-port`, `--metrics-port` and `dpq admin metrics`.

It serves a WSGI application with the standard library's server, from threads. A client that does
not ask within `ASK_SECONDS` is cut off. Must not know a queue.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from dpq.cli._options import option
from dpq.cli._terminal import Failed

log = logging.getLogger(__name__)

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""

LOCAL = "127.0.0.1"

ASK_SECONDS = 10.0
"""Seconds without a byte after which a connection ends: as long as Prometheus waits."""


def port(text: str, **more: Any) -> Any:
    """Make an option for a port."""
    return option("PORT", f"{text}; 0 takes a free one.", min=0, max=65535, **more)


def missing(error: ImportError, extra: str, way_out: str) -> Failed:
    """Make the error for a command whose packages are not installed."""
    return Failed(
        f"{error.name or error} is missing: install DPQ with its extra {extra!r}, or give {way_out}"
    )


class _Handler(WSGIRequestHandler):
    timeout = ASK_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 32

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # the one of `HTTPServer` asks a name server
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request of %s failed", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class Port:
    """Serves a WSGI application at an address; port 0 takes a free one."""

    def __init__(self, host: str, port: int, application: Application, name: str) -> None:
        kind = _Server6 if ":" in host else _Server
        self._server = make_server(host, port, application, kind, _Handler)
        self.address: tuple[str, int] = self._server.socket.getsockname()[:2]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name=f"dpq-{name}", daemon=True
        )

    @property
    def url(self) -> str:
        """Return its address for a browser."""
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> "Port":
        """Answer from threads, until `close` or the end of the process."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
