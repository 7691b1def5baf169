"""A network between workers and a server: TCP on loopback, which can be cut and healed."""

import os
import re
import selectors
import socket
import struct
import threading
from collections.abc import Callable
from typing import Literal

Cut = Literal["reset", "silent"]
"""How a network is cut.

    reset    connections are refused and reset, but only on the workers' side: the server learns
             nothing until the network is healed, and finishes what has reached it
    silent   no byte goes either way; what is on its way arrives when the network is healed
"""

UNDER_WAY = 256 * 1024
"""Bytes of a connection's last replies that are remembered: more than one batch of tasks."""

FULL = 1024 * 1024
"""Bytes that wait for one side until the other is no longer read."""


_DELIVERY = re.compile(rb"\r\n[\w-]{8,40}\r\n\$\d+\r\n(\d+) ")
"""An id and the beginning of its record, which is the token: see lua/pop/lease.lua."""


class _Pair:
    """A connection of a worker (None when it is gone), the one to the server, and what waits."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client: socket.socket | None = client
        self.server = server
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.replies = bytearray()
        self.last_request = False  # the worker has said all it will say
        self.was_cut = False


class Proxy:
    """Listens on a free port of 127.0.0.1, and forwards to a unix socket.

    Attributes:
        url: For `from_url`.
        refused: Connections that were reset or refused by a cut.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self.refused = 0
        self._cut: Cut | None = None
        self._pairs: list[_Pair] = []
        self._lost: list[bytes] = []  # the last replies of connections that were cut
        self._orders: list[Callable[[], None]] = []
        self._ended = False
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()

    def cut(self, how: Cut) -> None:
        """Cut the network; nothing gets through when this returns."""
        self._do(lambda: self._begin_cut(how))

    def heal(self) -> None:
        """Mend it."""
        self._do(self._end_cut)

    def under_way(self) -> set[int]:
        """The tokens of deliveries among the last replies on connections that a cut has ended."""
        return {int(token) for replies in self._lost for token in _DELIVERY.findall(replies)}

    def close(self) -> None:
        """Close all connections."""
        self._do(self._end)
        self._thread.join()
        for end in (self._woken, self._wake):
            os.close(end)

    def _do(self, order: Callable[[], None]) -> None:
        """Let the proxy's own thread do something, and wait until it has."""
        done = threading.Event()

        def do() -> None:
            order()
            done.set()

        self._orders.append(do)
        os.write(self._wake, b"!")
        assert done.wait(10), "the proxy does not answer"

    # In the proxy's thread

    def _run(self) -> None:
        while not self._ended:
            with selectors.DefaultSelector() as selector:
                selector.register(self._woken, selectors.EVENT_READ, None)
                if self._cut != "silent":
                    self._watch(selector)
                chosen = selector.select()
            for key, events in chosen:
                if key.fileobj == self._woken:
                    os.read(self._woken, 100)
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._forward(key.data, key.fileobj is key.data.server, events)
            while self._orders:
                self._orders.pop(0)()

    def _watch(self, selector: selectors.BaseSelector) -> None:
        selector.register(self._listener, selectors.EVENT_READ, None)
        for pair in self._pairs:
            sides = [(pair.server, pair.to_client, pair.to_server)]
            if pair.client:
                sides.append((pair.client, pair.to_server, pair.to_client))
            for side, inward, outward in sides:
                ended = side is pair.client and pair.last_request
                read = selectors.EVENT_READ if len(inward) < FULL and not ended else 0
                write = selectors.EVENT_WRITE if outward else 0
                if read | write:
                    selector.register(side, read | write, pair)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except BlockingIOError:
            return
        if self._cut:
            self._reset(client)
            return
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._path)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for side in (client, server):
            side.setblocking(False)
        self._pairs.append(_Pair(client, server))

    def _forward(self, pair: _Pair, from_server: bool, events: int) -> None:
        side = pair.server if from_server else pair.client
        if side is None or pair not in self._pairs:
            return  # it ended just now
        outward = pair.to_server if from_server else pair.to_client
        try:
            if events & selectors.EVENT_WRITE and outward:
                del outward[: side.send(outward)]
            if events & selectors.EVENT_READ:
                self._read(pair, side, from_server)
        except BlockingIOError:
            pass
        except OSError:
            self._over(pair) if from_server else self._leave(pair)
        if pair.last_request and not pair.to_server:
            self._leave(pair)

    def _read(self, pair: _Pair, side: socket.socket, from_server: bool) -> None:
        data = side.recv(65536)
        if from_server and not data:
            self._over(pair)
        elif from_server:
            pair.replies += data
            del pair.replies[:-UNDER_WAY]
            if pair.client:
                pair.to_client += data
        elif data:
            pair.to_server += data
        else:
            pair.last_request = True

    def _leave(self, pair: _Pair) -> None:
        """The worker has gone: the server is told, and may say what it has to say."""
        if pair.client:
            pair.client.close()
            pair.client = None
            pair.to_client.clear()
            pair.to_server.clear()
            if not self._cut:
                self._shut(pair)

    def _shut(self, pair: _Pair) -> None:
        try:
            pair.server.shutdown(socket.SHUT_WR)
        except OSError:
            self._over(pair)

    def _over(self, pair: _Pair) -> None:
        if pair.was_cut:
            self._lost.append(bytes(pair.replies))
        for side in (pair.server, pair.client):
            if side:
                side.close()
        self._pairs.remove(pair)

    def _reset(self, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        self.refused += 1

    def _begin_cut(self, how: Cut) -> None:
        self._cut = how
        for pair in self._pairs:
            pair.was_cut = True
            if pair.client and how == "reset":
                self._reset(pair.client)
                pair.client = None
                pair.to_server.clear()  # half a command, perhaps: it never arrives
                pair.to_client.clear()

    def _end_cut(self) -> None:
        self._cut = None
        for pair in list(self._pairs):
            if pair.client is None:
                self._shut(pair)

    def _end(self) -> None:
        self._ended = True
        for pair in list(self._pairs):
            self._over(pair)
        self._listener.close()
