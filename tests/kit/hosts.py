"""A host on this machine that answers HTTP requests, and notes them."""

import gzip
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Came(NamedTuple):
    """A request that came."""

    at: float
    path: str
    key: str
    accepts: str


class Host(ThreadingHTTPServer):
    """Answers by path, and notes when each request came, with which key.

    Attributes:
        more: What holds the end of `/stream` back.
        limited: The keys that meet a 429.
    """

    daemon_threads = True

    def __init__(self, answers: "type[Answers] | None" = None) -> None:
        super().__init__(("127.0.0.1", 0), answers or Answers)
        self.came: list[Came] = []
        self.more = threading.Event()
        self.limited: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def keys(self) -> list[str]:
        return [each.key for each in self.came]

    @contextmanager
    def serving(self) -> Iterator["Host"]:
        """Answers until the end of the block."""
        with self:
            thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield self
            finally:
                self.more.set()
                self.shutdown()
                thread.join()


class Answers(BaseHTTPRequestHandler):
    """`/n` redirects n times, `/away` redirects to another host.

    `/429` is too many; `/told` says when to come again in its body, and that of `/403` that it is a
    limit. `/stream` sends its end when it is told.

    `/left` says what is left of its limit, `/usage` what it has spent, packed; `/events` says the
    same as a stream; `/cut` hangs up.

    Attributes:
        body: The body of the request.
    """

    server: Host
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        headers = self.headers
        self.body = self.rfile.read(int(headers.get("Content-Length") or 0))
        key = headers.get("X-Api-Key") or headers.get("Authorization", "").removeprefix("Bearer ")
        accepts = headers.get("Accept-Encoding", "")
        self.server.came.append(Came(time.monotonic(), self.path, key, accepts))
        if key in self.server.limited:
            self.reply(b"too many", status=429, Retry_After="30")
        else:
            self.answer(self.path.strip("/"))

    def do_POST(self) -> None:
        self.do_GET()

    def answer(self, name: str) -> None:
        """Answers one request."""
        if name.isdigit() and 0 < int(name) < 20:
            self.reply(b"", status=302, Location=f"/{int(name) - 1}")
        elif name == "away":
            port = self.server.server_address[1]
            self.reply(b"", status=302, Location=f"http://localhost:{port}/")
        elif name == "429":
            self.reply(b"too many", status=429, Retry_After="30")
        elif name == "told":
            body = gzip.compress(b'{"error": "too many", "retry_after": 40}')
            self.reply(body, status=429, Content_Encoding="gzip")
        elif name == "403":
            self.reply(b'{"message": "too many: a secondary rate limit"}', status=403)
        elif name == "left":
            self.reply(b"ok", RateLimit="limit=9, remaining=4, reset=60")
        elif name == "stream":
            self.send_response(200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"ab")
            self.server.more.wait(60)
            self.wfile.write(b"cd")
        elif name == "usage":
            body = gzip.compress(b'{"text": "hello", "usage": {"total_tokens": 7}}')
            self.reply(body, Content_Type="application/json", Content_Encoding="gzip")
        elif name == "events":
            events = ['{"usage": null}', '{"usage": {"total_tokens": 9}}', "[DONE]"]
            self.stream(f"data: {each}\n\n".encode() for each in events)
        elif name == "cut":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.reply(b"ok")

    def reply(self, body: bytes, *, status: int = 200, **headers: str) -> None:
        """Sends a whole answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def stream(self, parts: Iterable[bytes], content_type: str = "text/event-stream") -> None:
        """Sends an answer part by part."""
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
