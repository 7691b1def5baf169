"""The health endpoint, the pulse behind it, and the health of several processes."""

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import wait_for

from dpq import Health
from dpq.cli import _health_port, _processes
from dpq.cli._health_port import MOST_BYTES, MOST_CLIENTS, HealthServer, HealthSource, answer
from dpq.cli._processes import Child, Parent
from dpq.worker.pulse import Pulse

GOOD = Health(live=True, ready=True)
AWAY = Health(live=True, ready=False, reasons=("away",))
STUCK = Health(live=False, ready=False, reasons=("stuck",))


def status(request: bytes, health: Health = GOOD) -> int:
    return int(answer(request, lambda: health).split()[1])


@pytest.mark.parametrize(
    ("health", "live", "ready"), [(GOOD, 200, 200), (AWAY, 200, 503), (STUCK, 503, 503)]
)
def test_live_and_ready(health: Health, live: int, ready: int) -> None:
    """A worker that waits for its server is live, and only a stuck one is not."""
    assert status(b"GET /live HTTP/1.1\r\n\r\n", health) == live
    assert status(b"GET /ready?x=1 HTTP/1.0\r\nHost: x\r\n\r\n", health) == ready
    head, _, body = answer(b"GET /ready HTTP/1.1\r\n\r\n", lambda: health).partition(b"\r\n\r\n")
    assert json.loads(body) == json.loads(health.model_dump_json())
    assert f"Content-Length: {len(body)}".encode() in head
    assert answer(b"HEAD /ready HTTP/1.1\r\n\r\n", lambda: health) == head + b"\r\n\r\n"


def test_other_requests() -> None:
    """Nothing else is there, and nothing else may be done."""
    assert status(b"GET / HTTP/1.1\r\n\r\n") == 404
    assert status(b"GET /live/x HTTP/1.1\r\n\r\n") == 404
    assert status(b"POST /live HTTP/1.1\r\n\r\n") == 405
    assert status(b"GET /live\r\n\r\n") == 400


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(request: bytes) -> None:
    """No request makes it fail, and none is repeated in the answer."""
    said = answer(request, lambda: GOOD)
    assert said.startswith(b"HTTP/1.1 ")
    assert said.count(b"\r\n\r\n") == 1


@pytest.fixture
def endpoint() -> Iterator[HealthServer]:
    source = HealthSource()
    source.ask = lambda: GOOD
    made = HealthServer("127.0.0.1", 0, source)
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            made.step(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    yield made
    over.set()
    thread.join()
    made.close()


def ask(endpoint: HealthServer, *parts: bytes) -> bytes:
    """Everything that the endpoint answers to a request that comes in parts."""
    with socket.create_connection(endpoint.address, timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
            time.sleep(0)
        said = b""
        while more := connection.recv(4096):
            said += more
        return said


def test_requests_over_a_socket(endpoint: HealthServer) -> None:
    """One after the other, whole or byte by byte."""
    for _ in range(3):
        assert b" 200 OK" in ask(endpoint, b"GET /live HTTP/1.1\r\n\r\n")
    request = b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n"
    assert b" 200 OK" in ask(endpoint, *(request[n : n + 1] for n in range(len(request))))


def test_a_request_is_bounded(endpoint: HealthServer) -> None:
    """One that is too long is refused, and the next one is answered."""
    assert b" 400 " in ask(endpoint, b"GET /live HTTP/1.1\r\nX: " + b"x" * (MOST_BYTES - 23))
    assert b" 200 " in ask(endpoint, b"GET /live HTTP/1.1\r\n\r\n")


def test_silent_clients_hold_nobody_up(
    endpoint: HealthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many connections are kept; the oldest go first, and each goes in its time."""
    silent = [socket.create_connection(endpoint.address, timeout=30) for _ in range(MOST_CLIENTS)]
    wait_for(lambda: len(endpoint._clients) == MOST_CLIENTS, lambda: len(endpoint._clients))
    assert b" 200 " in ask(endpoint, b"GET /live HTTP/1.1\r\n\r\n")
    assert len(endpoint._clients) <= MOST_CLIENTS
    monkeypatch.setattr(_health_port, "CLIENT_SECONDS", 0.0)
    late = socket.create_connection(endpoint.address, timeout=30)
    assert late.recv(1) == b""
    for connection in (*silent, late):
        connection.close()
    wait_for(lambda: not endpoint._clients, lambda: len(endpoint._clients))


def test_the_port_is_taken(endpoint: HealthServer) -> None:
    """Then it says so at once."""
    with pytest.raises(OSError, match="use"):
        HealthServer(*endpoint.address, HealthSource())


def test_before_there_is_a_worker() -> None:
    """What has not begun is live, and not ready."""
    assert HealthSource().ask() == Health(live=True, ready=False, reasons=("it has not begun",))


# The pulse


def test_a_pulse() -> None:
    """All loops must move, and the server must answer, in their time."""
    pulse = Pulse(silent_seconds=1000)
    assert pulse.health(stopping=False).reasons == ("the server does not answer",)
    pulse.hear(answered=True)
    pulse.move("a")
    pulse.move("b")
    assert pulse.health(stopping=False) == GOOD
    assert pulse.health(stopping=True) == Health(
        live=True, ready=False, reasons=("it is stopping",)
    )
    pulse.stuck_seconds = -1
    told = pulse.health(stopping=False)
    assert (told.live, told.ready, len(told.reasons)) == (False, False, 2)
    pulse.rest("a")
    pulse.rest("b")
    assert pulse.health(stopping=False) == GOOD
    pulse.silent_seconds = -1
    assert not pulse.health(stopping=False).ready
    pulse.silent_seconds = math.inf
    pulse.trouble = "no"
    assert pulse.health(stopping=False).reasons == ("no",)


# Several processes


class Running:
    pid = 77


def parent(*children: Health | None, ago: float = 0.0) -> Parent:
    """A parent of processes that have told this so long ago; None runs no process."""
    made = []
    for health in children:
        child = Child([], {})
        child.health, child._told = health or AWAY, time.monotonic() - ago
        running: Any = Running()
        child.process = running if health else None
        made.append(child)
    return Parent(made, 1)


@pytest.mark.parametrize(
    ("children", "live", "ready"),
    [
        ([GOOD, GOOD], True, True),
        ([GOOD, AWAY], True, True),
        ([GOOD, None], True, True),
        ([AWAY, AWAY], True, False),
        ([None], True, False),
        ([GOOD, STUCK], False, False),
    ],
)
def test_the_parent_speaks_for_its_processes(
    children: list[Health | None], live: bool, ready: bool
) -> None:
    """Live if all that run are; ready if one is."""
    told = parent(*children).health()
    assert (told.live, told.ready) == (live, ready)
    assert told.ready == (not told.reasons)


def test_a_process_that_says_nothing_is_stuck() -> None:
    """Whatever it said before."""
    told = parent(GOOD, ago=_processes.SILENT_SECONDS + 1).health()
    assert (told.live, told.ready) == (False, False)
    assert "process 77 does not tell of itself" in told.reasons
