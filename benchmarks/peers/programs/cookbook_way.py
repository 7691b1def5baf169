"""A file of requests in the way of the script that OpenAI's cookbook shows, in words of our own.

python cookbook_way.py FILE.jsonl OUT.jsonl URL RPM TPM SECONDS_OF_A_MINUTE

One process counts for itself. It starts with a full minute of requests and tokens, and both come
back evenly. A request goes in the order of the file, when one request and its estimated tokens are
there; what the answer did not use is not given back. After a 429 no request begins for 15 s, and
the refused one is appended to a list of retries, which goes before the file. After 5 attempts a
request is given up. It looks each millisecond. Answers are appended to a file; a run that is killed
begins anew. The estimate is the one of `dpq run`.
"""

import asyncio
import json
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import httpx

from dpq.batch.reader import estimate

ATTEMPTS, PAUSE_S, LOOK_S = 5, 15, 0.001


class Script:
    """The state of one run."""

    def __init__(self, url: str, rpm: float, tpm: float, minute: float) -> None:
        self.url, self.rpm, self.tpm, self.minute = url, rpm, tpm, minute
        self.retries: deque[tuple[dict[str, Any], int]] = deque()
        self.last_429 = -1e9
        self.given_up = self.open = 0

    async def ask(self, http: httpx.AsyncClient, body: dict[str, Any], left: int, out: Any) -> None:
        """Make one attempt."""
        try:
            response = await http.post(self.url, json=body)
            if response.status_code == 429:
                self.last_429 = time.monotonic()
            response.raise_for_status()
            out.write(json.dumps([body, response.json()]) + "\n")
        except httpx.HTTPError:
            if left > 1:
                self.retries.append((body, left - 1))
            else:
                self.given_up += 1
        finally:
            self.open -= 1

    async def run(self, bodies: deque[dict[str, Any]], out: Any) -> None:
        """Go through the file."""
        requests, tokens, seen = self.rpm, self.tpm, time.monotonic()
        waiting: tuple[dict[str, Any], int] | None = None
        tasks: set[asyncio.Task[None]] = set()
        pause = PAUSE_S * self.minute / 60
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
            while bodies or self.retries or waiting or self.open:
                if waiting is None and self.retries:
                    waiting = self.retries.popleft()
                elif waiting is None and bodies:
                    waiting = bodies.popleft(), ATTEMPTS
                now = time.monotonic()
                share, seen = (now - seen) / self.minute, now
                requests = min(self.rpm, requests + self.rpm * share)
                tokens = min(self.tpm, tokens + self.tpm * share)
                if waiting and requests >= 1 and tokens >= (cost := estimate(waiting[0])):
                    requests, tokens = requests - 1, tokens - cost
                    self.open += 1
                    task = asyncio.create_task(self.ask(http, *waiting, out))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                    waiting = None
                await asyncio.sleep(LOOK_S)
                if (rest := self.last_429 + pause - time.monotonic()) > 0:
                    await asyncio.sleep(rest)


def main(asks: str, saved: str, url: str, *numbers: str) -> None:
    """Send a file, and say what was given up."""
    lines = map(json.loads, Path(asks).read_text().splitlines())
    script = Script(url, *map(float, numbers))
    with Path(saved).open("a") as out:
        asyncio.run(script.run(deque(line.get("body", line) for line in lines), out))
    print(json.dumps({"given_up": script.given_up}))


if __name__ == "__main__":
    main(*sys.argv[1:])
