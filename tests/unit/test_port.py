"""The HTTP port of daemons: what it answers, and that a silent client holds no other one up."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dpq.cli import daemon
from dpq.cli.daemon import Port

LARGE = b"x" * 8 * 2**20


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Says what it was asked; `/large` is more than a socket takes at once."""
    if environ["PATH_INFO"] == "/fault":
        raise ZeroDivisionError("secret")
    start_response("200 OK", [("Content-Type", "text/plain")])
    asked = [environ[name] for name in ("PATH_INFO", "QUERY_STRING")]
    said = "|".join([*asked, environ.get("HTTP_ACCEPT_ENCODING", "")]).encode()
    return [LARGE] if environ["PATH_INFO"] == "/large" else [said, b"."]


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port("127.0.0.1", 0, application, "test")
    yield made
    made.close()


def ask(port: Port, request: bytes) -> bytes:
    """Everything that the port answers to a request."""
    with socket.create_connection(port.address, timeout=60) as connection:
        connection.sendall(request)
        said = b""
        while more := connection.recv(2**20):
            said += more
        return said


def test_requests_over_a_socket(port: Port) -> None:
    """The application finds path, query and headers; a large answer comes whole."""
    asked = b"GET /a?b=c HTTP/1.1\r\naccept-encoding:  gzip \r\n\r\n"
    assert ask(port, asked).endswith(b"\r\n\r\n/a|b=c|gzip.")
    assert ask(port, b"GET /large HTTP/1.1\r\n\r\n").endswith(LARGE)


def test_a_silent_client_holds_no_other_one_up(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are answered meanwhile; and a client that asks nothing in its time is cut off."""
    with socket.create_connection(port.address, timeout=60) as silent:
        assert b" 200 " in ask(port, b"GET /a HTTP/1.1\r\n\r\n")
        monkeypatch.setattr(daemon._Handler, "timeout", 0.01)
        with socket.create_connection(port.address, timeout=60) as late:
            assert late.recv(1) == b""
        silent.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        assert silent.recv(1)


def test_the_port_is_taken(port: Port) -> None:
    """Then it says so at once."""
    with pytest.raises(OSError, match="use"):
        Port(*port.address, application, "test")
