"""A host on loopback with a limit: never more than so many requests in any second.

    python host.py RATE

    GET /ask/17    200 after 20 ms, or at once 429 with `Retry-After: 1`, which takes nothing
    GET /counts    JSON: requests, refused, under way, answered, answered again, seconds from the
                   first request to the last new answer

It prints its address. It speaks the least of HTTP/1.1, and keeps connections open.
"""

import asyncio
import json
import sys
import time
from collections import Counter, deque
from contextlib import suppress

ANSWER_S = 0.02
WINDOW_S = 1.0
BACKLOG = 1000


class Host:
    """Counts requests, and refuses those beyond the limit."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.recent: deque[float] = deque()
        self.answers: Counter[str] = Counter()
        self.requests = self.refused = self.under_way = 0
        self.first = self.last = 0.0

    def admit(self, now: float) -> bool:
        """Count a request; return whether the limit has room for it."""
        self.requests += 1
        self.first = self.first or now
        while self.recent and self.recent[0] <= now - WINDOW_S:
            self.recent.popleft()
        if len(self.recent) >= self.rate:
            self.refused += 1
            return False
        self.recent.append(now)
        return True

    def counts(self) -> str:
        """Return what it saw."""
        return json.dumps(
            {
                "requests": self.requests,
                "refused": self.refused,
                "under_way": self.under_way,
                "answered": len(self.answers),
                "repeated": self.answers.total() - len(self.answers),
                "seconds": self.last - self.first,
            }
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                path = line.split()[1].decode()
                while (await reader.readline()).strip():
                    pass
                if path == "/counts":
                    answer = "200 OK", self.counts()
                elif self.admit(time.monotonic()):
                    self.under_way += 1
                    await asyncio.sleep(ANSWER_S)
                    self.under_way -= 1
                    new = path not in self.answers
                    self.answers[path] += 1
                    if new:
                        self.last = time.monotonic()
                    answer = "200 OK", path
                else:
                    answer = "429 Too Many Requests\r\nRetry-After: 1", "slower, please"
                status, body = answer
                head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n"
                writer.write(f"{head}Content-Type: text/plain\r\n\r\n{body}".encode())
                await writer.drain()
        writer.close()


async def main(rate: int) -> None:
    """Serve until this process is killed."""
    server = await asyncio.start_server(Host(rate).serve, "127.0.0.1", 0, backlog=BACKLOG)
    address, port = server.sockets[0].getsockname()
    print(f"http://{address}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
