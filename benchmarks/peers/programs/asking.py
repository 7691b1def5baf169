"""What the programs of all ways share: their words, and how to ask the host.

    python WAY.py REDIS_URL HOST_URL REQUESTS RATE WHAT FOLDER PLACE

`WHAT` is `fill` (push all requests; those without a queue have nothing to do), or the number of the
worker, 0 or 1. It must import nothing that a peer's own environment does not have.
"""

import asyncio
import http.client
import json
import sys
import threading

REDIS, HOST = sys.argv[1:3]
REQUESTS, RATE = int(sys.argv[3]), int(sys.argv[4])
WHAT, FOLDER = sys.argv[5:7]
WORKERS, AT_ONCE = 2, 10
QUEUE = "asks"
SHARE = RATE / WORKERS
"""What each worker may send in a second, where each counts for itself."""

ADDRESS, _, PORT = HOST.removeprefix("http://").partition(":")
RETRY_AFTER = 1.0  # seconds, as the host says
mine = range(int(WHAT), REQUESTS, WORKERS) if WHAT != "fill" else range(0)
"""The requests of this worker, where no queue shares them out."""

_kept = threading.local()


def filled() -> None:
    """Say that all is pushed."""
    print(json.dumps({"filled": REQUESTS}), flush=True)


def ask(number: int) -> bool:
    """Ask the host; return False after a 429."""
    link = getattr(_kept, "link", None)
    if link is None:
        link = _kept.link = http.client.HTTPConnection(ADDRESS, int(PORT), timeout=30)
    link.request("GET", f"/ask/{number}")
    answer = link.getresponse()
    answer.read()
    return answer.status == 200


async def ask_async(number: int) -> bool:
    """Ask the host on a connection of its own; return False after a 429."""
    reader, writer = await asyncio.open_connection(ADDRESS, int(PORT))
    writer.write(f"GET /ask/{number} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line.split()[1] == b"200"
