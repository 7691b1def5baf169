"""`dpq web`: what it serves, to whom, and what it refuses to start."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

from dpq import DPQ
from dpq.cli import app
from dpq.server import Server

TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - for tests


@contextmanager
def serving(*words: str, **variables: str) -> Iterator[tuple[str, Any]]:
    """A running `dpq web`: its address and its process, ended at the end."""
    command = [sys.executable, "-m", "dpq", "web", "--port", "0", *words]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={"PATH": "", **variables}
    ) as process:
        try:
            said = ""
            while "Ctrl-C" not in said:
                line = process.stderr.readline() if process.stderr else ""
                assert line, said
                said += line
            found = re.search(r"(http://\S+/) \((.*)\)", said)
            assert found
            yield found[1], process
        finally:
            process.terminate()


def read(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> str:
    """The text of a page, or the status of an error."""
    try:
        asked = Request(url, body, method=method, headers=headers)  # noqa: S310 - http
        with urlopen(asked, timeout=60) as answer:  # noqa: S310
            return str(answer.read().decode())
    except HTTPError as error:
        return str(error.code)


def test_it_shows_all_queues_of_the_server_and_ends(server: Server, live: DPQ) -> None:
    """It prints its address, knows a queue by its name in Redis, and ends at SIGTERM."""
    live.push("x")
    with serving("--url", server.url, "--badge", "blue") as (url, process):
        page = read(url)
        assert live.queue_name in page
        assert "blue" in page
        assert "read only" in page
        assert read(f"{url}q/nobody") == "404"
        assert read(url, Host="evil.example") == "400"
        process.terminate()
        assert process.wait(60) is not None


def break_off(url: str, request: bytes) -> None:
    """Send a part of a request, and go."""
    at = urlsplit(url)
    with socket.create_connection((str(at.hostname), at.port or 0), timeout=60) as connection:
        connection.sendall(request)


def test_named_queues_and_a_token(server: Server, live: DPQ, queue_name: str) -> None:
    """Named queues alone are shown; a token is asked for, and writes are logged."""
    live.push("x")
    other = DPQ(live.redis, f"{queue_name}-2")
    other.push("y")
    words = ("--url", server.url, "--write", "--token-env", "SECRET")
    with serving(*words, "--queue", other.queue_name, SECRET=TOKEN) as (url, process):
        login = {"Authorization": f"Bearer {TOKEN}"}
        assert read(f"{url}api/queues") == "401"
        assert '"total":1' in read(f"{url}api/queues", **login)
        assert read(f"{url}api/queues/{live.queue_name}", **login) == "404"
        pause = f"{url}api/queues/{other.queue_name}:pause"
        assert '"paused":true' in read(pause, "POST", **login)
        head = f"HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nAuthorization: Bearer {TOKEN}"
        for path in ("/login", "/api/queues/x:pause"):
            break_off(url, f"POST {path} {head}\r\n\r\n{{".encode())
        assert '"total":1' in read(f"{url}api/queues", **login)
        process.terminate()
        rest = process.stderr.read()
        assert "Traceback" not in rest
        assert f"pause queue='{other.queue_name}'" in rest
        assert TOKEN not in rest
    other.admin.drop()


@pytest.mark.parametrize(
    ("words", "token", "said"),
    [
        (["--host", "0.0.0.0"], "", "at least 32 characters"),  # noqa: S104 - refused
        (["--host", "0.0.0.0"], "short", "at least 32"),  # noqa: S104
        ([], "short", "at least 32"),
    ],
)
def test_what_it_refuses_to_start(words: list[str], token: str, said: str) -> None:
    """Nobody else reaches it without a long token."""
    result = CliRunner().invoke(app, ["web", *words], env={"DPQ_WEB_TOKEN": token})
    assert result.exit_code == 2
    assert said in result.output
