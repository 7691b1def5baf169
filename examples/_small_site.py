"""Small hosts on loopback for scraper.py: each answers so often in any second, then says 429."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

STATUS = {200: "OK", 404: "Not Found", 429: "Too Many Requests"}


@asynccontextmanager
async def small_site(*rates: int) -> AsyncIterator[list[str]]:
    """Serve a host for each rate; yields their names, with port.

    `/1`, `/2` and so on are pages; everything else is a 404, and what is beyond the rate is a 429
    with Retry-After, in whole seconds.
    """
    async with AsyncExitStack() as stack:
        hosts: list[str] = []
        for rate in rates:
            server = await asyncio.start_server(Host(rate).talk, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            hosts.append(f"127.0.0.1:{port}")
            await stack.enter_async_context(server)
        yield hosts


class Host:
    """One host: never more than `rate` answers in any second."""

    def __init__(self, rate: int) -> None:
        self.recent = deque([-math.inf] * rate, maxlen=rate)  # when the latest were given

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, until its client closes it."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while request := await reader.readuntil(b"\r\n\r\n"):
                status, header = self.answer(path=request.split()[1].decode())
                body = f"page or not: {status}\n"
                head = f"HTTP/1.1 {status} {STATUS[status]}\r\n{header}Content-Length: {len(body)}"
                writer.write(f"{head}\r\n\r\n{body}".encode())
                await writer.drain()
        writer.close()

    def answer(self, path: str) -> tuple[int, str]:
        """The status, and a header line or none."""
        now = asyncio.get_running_loop().time()
        if (wait := self.recent[0] + 1 - now) > 0:
            return 429, f"Retry-After: {math.ceil(wait)}\r\n"
        self.recent.append(now)
        return (200 if path[1:].isdecimal() else 404), ""
