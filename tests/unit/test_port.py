"""The HTTP port of daemons: what it answers, and what strangers can take of the process."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import wait_for

from dpq.cli import _port
from dpq.cli._port import ANSWERS, MOST_BYTES, MOST_CLIENTS, Port, answer

LARGE = b"x" * 8 * 2**20


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Says what it was asked; `/large` is more than a socket takes at once."""
    if environ["PATH_INFO"] == "/fault":
        raise ZeroDivisionError("secret")
    start_response("200 OK", [("Content-Type", "text/plain")])
    asked = [environ[name] for name in ("PATH_INFO", "QUERY_STRING")]
    said = "|".join([*asked, environ.get("HTTP_ACCEPT_ENCODING", "")]).encode()
    return [LARGE] if environ["PATH_INFO"] == "/large" else [said, b"."]


def test_an_application_is_asked_as_wsgi_says() -> None:
    """It finds path, query and headers; HEAD is its answer without the body."""
    asked = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\naccept-encoding:  gzip \r\n"
    head, _, body = answer(asked, application).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n")
    assert b"Connection: close" in head
    assert body == b"/a|b=c|gzip."
    assert answer(asked.replace(b"GET", b"HEAD"), application) == head + b"\r\n\r\n"


def test_what_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Other methods, what is no HTTP, and a fault of the application, whose text is not told."""
    assert answer(b"POST / HTTP/1.1\r\n", application).startswith(b"HTTP/1.1 405 ")
    for wrong in (b"", b"GET /live\r\n", b"GET / FTP/1\r\n", b"GET / a HTTP/1.1\r\n"):
        assert answer(wrong, application).startswith(b"HTTP/1.1 400 ")
    said = answer(b"GET /fault HTTP/1.1\r\n", application)
    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"secret" not in said
    assert "a request failed: /fault" in caplog.text


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(request: bytes) -> None:
    """No request makes it fail, and none can write a header of the answer."""
    said = answer(request, lambda environ, start: start("200 OK", []) or [b""])
    assert said.startswith(b"HTTP/1.1 ")
    assert said.count(b"\r\n\r\n") == 1


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port("127.0.0.1", 0, application, "test").start()
    yield made
    made.close()


def ask(port: Port, *parts: bytes) -> bytes:
    """Everything that the port answers to a request that comes in parts."""
    with socket.create_connection(port.address, timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0)
        said = b""
        while more := connection.recv(2**20):
            said += more
        return said


def test_requests_over_a_socket(port: Port) -> None:
    """One after the other, whole or byte by byte, with bare line feeds, and a large answer."""
    for _ in range(3):
        assert ask(port, b"GET /a HTTP/1.1\r\n\r\n").endswith(b"/a||.")
    request = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
    assert b" 200 OK" in ask(port, *(request[n : n + 1] for n in range(len(request))))
    assert b" 200 OK" in ask(port, b"GET /a HTTP/1.0\n\n")
    assert ask(port, b"GET /large HTTP/1.1\r\n\r\n").endswith(LARGE)


def test_a_request_is_bounded(port: Port) -> None:
    """One that is too long, in one line or in many, is refused, and the next one is answered."""
    for line in (b"X: " + b"x" * (MOST_BYTES - 20), b"X: y\r\n" * (MOST_BYTES // 6)):
        assert b" 400 " in ask(port, b"GET /a HTTP/1.1\r\n" + line[:MOST_BYTES] + b"\r\n")
    assert b" 200 " in ask(port, b"GET /a HTTP/1.1\r\n\r\n")


def test_silent_clients_hold_nobody_up(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many connections are kept, the oldest go first, each goes in its time; no threads."""
    silent = []
    for _ in range(3 * MOST_CLIENTS):
        silent.append(socket.create_connection(port.address, timeout=60))
    wait_for(lambda: len(port._clients) == MOST_CLIENTS, lambda: len(port._clients))
    assert silent[0].recv(1) == b""
    assert b" 200 " in ask(port, b"GET /a HTTP/1.1\r\n\r\n")
    assert len(port._clients) <= MOST_CLIENTS
    ours = [each for each in threading.enumerate() if each.name.startswith("dpq-test")]
    assert len(ours) <= 1 + ANSWERS
    monkeypatch.setattr(_port, "ASK_SECONDS", 0.0)
    late = socket.create_connection(port.address, timeout=60)
    assert late.recv(1) == b""
    for connection in (*silent, late):
        connection.close()
    wait_for(lambda: not port._clients, lambda: len(port._clients))


def test_who_takes_no_answer_is_sent_away(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is not taken is dropped in its time."""
    monkeypatch.setattr(_port, "TAKE_SECONDS", 0.05)
    with socket.create_connection(port.address, timeout=60) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert slow.recv(1)  # it has begun
        wait_for(lambda: not port._clients, lambda: len(port._clients))


def test_the_port_is_taken(port: Port) -> None:
    """Then it says so at once."""
    with pytest.raises(OSError, match="use"):
        Port(*port.address, application, "test")


NO_FILES = """
import asyncio.constants, logging, os, resource, socket, sys, time
logging.basicConfig(format="%(message)s")
from dpq.cli._port import Port
asyncio.constants.ACCEPT_RETRY_DELAY = 0.1
def application(environ, start):
    start("200 OK", [])
    return [b"here"]
port = Port("127.0.0.1", 0, application, "test").start()
told = port._complain
refused = []
port._loop.set_exception_handler(lambda *said: refused.append(time.monotonic()) or told(*said))
client = socket.socket()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while True:
        files.append(os.dup(0))
except OSError:
    client.connect(port.address)
client.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
spent = time.process_time()
while len(refused) < 3 * 32:
    time.sleep(0.001)
print(refused[95] - refused[0], time.process_time() - spent)
for each in files:
    os.close(each)
print(client.recv(1000).partition(b"\\r\\n\\r\\n")[2].decode())
"""


def test_without_files_it_waits(port: Port) -> None:
    """If the process has no file left, it tries again now and then, says so once, and goes on."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", NO_FILES],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    times, said = done.stdout.splitlines()
    assert said == "here"
    assert done.stderr == "test: no file is left for a connection (ulimit -n)\n"
    waited, worked = map(float, times.split())
    assert waited > 0.09  # a burst of 32 tries, and a tenth of a second to the next
    assert worked < waited
