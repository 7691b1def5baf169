"""Send a file of chat requests to OpenAI within its limits; save the answers; go on after a stop.

OPENAI_API_KEY=... python examples/openai_batch.py asks.jsonl answers.jsonl
python examples/openai_batch.py        30 requests to a simulated API, ten times as fast

Each line of the file is the body of a request. Stopped or killed, the same command goes on. The
command `dpq run` does the same, and on many machines at once.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from httpx import AsyncClient
from simulated_llm_api import serve, url_of

from dpq import AsyncDPQ, AsyncWorker, Context, Push, RateLimit, RateLimited, Reject, Task

URL = "https://api.openai.com/v1/chat/completions"
KEY = os.environ.get("OPENAI_API_KEY", "")
RPM, TPM = 500, 200_000  # of your account


def tokens(body: dict[str, Any]) -> int:
    """Estimate what a request takes at most: four characters a token, and the longest answer."""
    texts = sum(len(message["content"]) for message in body.get("messages", ()))
    return texts // 4 + int(body.get("max_tokens", 500))


class Batch:
    """One file of requests, and one of answers."""

    def __init__(self, asks: Path, out: TextIO, http: AsyncClient, url: str) -> None:
        self.lines = [json.loads(line) for line in asks.read_text().splitlines()]
        self.out, self.http, self.url = out, http, url
        out.seek(0)
        found = out.read().splitlines(keepends=True)
        self.saved = {json.loads(line)["line"] for line in found if line.endswith("}\n")}
        if found and found[-1][-1] != "\n":
            out.write("\n")  # a crash has cut the last line

    async def push(self, q: AsyncDPQ[Any]) -> None:
        """Queue what has no answer; a key that is in the queue stays as it is."""
        left = [(n, body) for n, body in enumerate(self.lines, 1) if n not in self.saved]
        await q.push_many(
            Push(
                {"line": n, "body": body}, group="openai", key=str(n), cost={"tokens": tokens(body)}
            )
            for n, body in left
        )

    async def ask(self, task: Task[Any], context: Context[Any]) -> None:
        """Send one request, and save its answer. When this returns, the task is gone."""
        line, body = task.payload["line"], task.payload["body"]
        if line in self.saved:  # a process died between the save and the ack
            return
        headers = {"Authorization": f"Bearer {KEY}"} if KEY else {}
        response = await self.http.post(self.url, json=body, headers=headers, timeout=600)
        if limited := RateLimited.from_response(response):
            raise limited  # 429: nobody asks until the time is over, and no attempt is counted
        if response.is_client_error:
            raise Reject(response.text[:500])  # a dead letter, with the reason
        response.raise_for_status()  # any other error: again, after a while
        answer = response.json()
        context.spent(tokens=answer["usage"]["total_tokens"])  # the rest is given back
        print(json.dumps({"line": line, "response": answer}), file=self.out, flush=True)
        os.fsync(self.out.fileno())
        self.saved.add(line)


async def main(asks: Path, answers: Path, url: str, minute: float = 60) -> None:
    """Send what is left of a file. `within` keeps to the limits in every minute."""
    limits = [
        RateLimit.within(RPM, minute, burst=5),
        RateLimit.within(TPM, minute, burst=5000, unit="tokens"),
    ]
    server = f"embedded:{answers}.queue"  # or redis://...
    async with AsyncDPQ.from_url(server, "openai-batch") as q, AsyncClient() as http:
        with answers.open("a+") as out:
            batch = Batch(asks, out, http, url)
            await q.set_limit(limits, group="openai")
            await batch.push(q)
            await AsyncWorker(q, batch.ask, concurrency=100).run(until_empty=True)
            print(f"{len(batch.saved)} of {len(batch.lines)} saved in {answers.name}", flush=True)
            for dead in await q.dead.list():
                print(f"line {dead.payload['line']} is refused: {dead.reason}", flush=True)


async def show() -> None:
    """Send 30 requests to a simulated API."""
    minute = 6  # seconds
    async with await serve(["--minute", str(minute)]) as server:
        with TemporaryDirectory() as folder:
            asks = Path(folder) / "asks.jsonl"
            said = [{"role": "user", "content": "Name a colour that rhymes."}]
            lines = (json.dumps({"messages": said, "max_tokens": 50 * n}) for n in range(1, 31))
            asks.write_text("\n".join(lines))
            await main(asks, Path(folder) / "answers.jsonl", url_of(server), minute)


if __name__ == "__main__":
    files = [Path(word) for word in sys.argv[1:]]
    asyncio.run(main(files[0], files[1], URL) if files else show())
