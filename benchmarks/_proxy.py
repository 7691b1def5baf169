"""The process that makes a server seem further away: `distance.py` runs it as a script.

It passes on what comes, each piece some time after it came. Its arguments are the path of the
socket where it listens, and the server: `unix:PATH`, or `tcp:HOST:PORT`. Each line of its stdin is
the seconds that it holds a piece back; it answers with a line. It ends with its stdin, so it never
outlives the program that uses it.

It is never imported and must not import anything but the standard library: it runs under
`python -I -S`, in some 50 ms.
"""

import ctypes
import os
import selectors
import socket
import sys
import time
from collections import deque

LONGEST_PIECE = 1 << 18
SET_TIMER_SLACK = 29  # prctl: else Linux wakes a sleeper up to 50 us late
CONNECT_S = 5.0  # seconds: a server that does not answer by then counts as away

Piece = tuple[float, socket.socket, bytes]


def main(door_path: str, target: str) -> None:
    """Pass pieces on until stdin ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_TIMER_SLACK, 1)
    selector = selectors.SelectSelector()  # its timeout has microseconds, that of epoll has not
    held: deque[Piece] = deque()
    delay = 0.0
    door = _listen(door_path)
    selector.register(door, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    _answer()
    while True:
        wait = max(0.0, held[0][0] - time.perf_counter()) if held else None
        for key, _ in selector.select(wait):
            if key.fileobj == 0:
                line = os.read(0, 100)
                if not line:
                    return
                delay = float(line)
                _answer()
            elif key.fileobj is door:
                _accept(door, target, selector)
            else:
                _read(key, selector, held, delay)
        _pass_on(held)


def _answer() -> None:
    os.write(1, b"ok\n")


def _listen(path: str) -> socket.socket:
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    door.listen(64)
    return door


def _accept(door: socket.socket, target: str, selector: selectors.BaseSelector) -> None:
    near = door.accept()[0]
    try:
        far = _connect(target)
    except OSError:  # the server is away: so is this way to it
        near.close()
        return
    selector.register(near, selectors.EVENT_READ, far)
    selector.register(far, selectors.EVENT_READ, near)


def _connect(target: str) -> socket.socket:
    kind, _, place = target.partition(":")
    if kind == "unix":
        far = socket.socket(socket.AF_UNIX)
        far.connect(place)
        return far
    host, _, port = place.rpartition(":")
    far = socket.create_connection((host, int(port)), CONNECT_S)
    far.settimeout(None)
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return far


def _read(
    key: selectors.SelectorKey, selector: selectors.BaseSelector, held: deque[Piece], delay: float
) -> None:
    here: socket.socket = key.fileobj  # type: ignore[assignment]  # only sockets get here
    try:
        piece = here.recv(LONGEST_PIECE)
    except OSError:  # that side has gone
        piece = b""
    held.append((time.perf_counter() + delay, key.data, piece))
    if not piece:
        selector.unregister(here)


def _pass_on(held: deque[Piece]) -> None:
    now = time.perf_counter()
    while held and held[0][0] <= now:
        _, there, piece = held.popleft()
        try:
            if piece:
                there.sendall(piece)
            else:
                there.shutdown(socket.SHUT_WR)
        except OSError:  # that side has gone
            pass


if __name__ == "__main__":
    main(*sys.argv[1:])
