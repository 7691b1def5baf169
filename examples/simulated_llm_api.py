"""An LLM API on loopback with limits that it does not tell: requests, tokens and a day's quota.

python examples/simulated_llm_api.py --rpm 500 --tpm 200000 [--rpd 10000] [--port 8000]

    POST /v1/chat/completions    as OpenAI's; answers after a while, with `usage.total_tokens`
    GET  /counts                 what it saw: requests, 429s, the share of each limit that was used
    GET  /answers                each answer: the `user` of its request (or the words before a
                                 colon), its moment, its tokens

Limits are token buckets that refill all the time, as OpenAI's headers show them: of 60 requests a
minute one is used, and the limit is as before in one second. `--quantum 1` makes the bucket hold
one second of the limit only: OpenAI may enforce a limit over less than its minute. A request needs
its prompt and `max_tokens` in the bucket when it arrives. What the answer did not use goes back
when it ends (`--keeps` lets the host keep it). A refused request takes nothing.

Real costs differ from `max_tokens`: an answer has 20 % to 80 % of it, half on average, always the
same for the same request. `--minute 6` makes all times a tenth: a minute, latencies, resets.
"""

import argparse
import asyncio
import json
import math
import random
import sys
from contextlib import closing, suppress
from typing import Any

MAX_HEAD, MAX_BODY = 64 * 1024, 8 * 1024 * 1024  # bytes of a request
REASONS = {
    **{200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found"},
    **{429: "Too Many Requests", 500: "Internal Server Error"},
    **{503: "Service Unavailable", 529: "Overloaded"},
}
CHARACTERS = 4  # of a token, about

Answer = tuple[int, dict[str, str], Any]
"""Status, headers and body."""


class Bucket:
    """A limit: refills all the time up to its capacity."""

    def __init__(self, limit: float, per: float, capacity: float) -> None:
        self.limit, self.rate, self.capacity = limit, limit / per, capacity
        self.level, self.at = capacity, 0.0
        self.used = 0.0

    def look(self, now: float) -> float:
        """Refill, and return what is there."""
        self.level = min(self.capacity, self.level + (now - self.at) * self.rate)
        self.at = now
        return self.level

    def take(self, units: float) -> None:
        """Take units; a negative number gives some back."""
        self.level = min(self.capacity, self.level - units)
        self.used += units

    def wait(self, units: float, now: float) -> float:
        """Return the seconds until so many units are there."""
        return max(0.0, (units - self.look(now)) / self.rate)


class Api:
    """The limits, the answers and the counts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.minute, self.latency = options.minute, options.latency * options.minute / 60
        share = options.quantum / 60
        rpm, tpm = options.rpm, options.tpm
        self.requests = Bucket(rpm, self.minute, max(1.0, rpm * share))
        self.tokens = Bucket(tpm, self.minute, tpm * share)
        self.left_today, self.day_ends = options.rpd, 1440 * self.minute
        self.rpd, self.keeps, self.key = options.rpd, options.keeps, options.key
        self.errors: float = options.errors
        self.error_status: int = options.error_status
        self.began: float | None = None
        self.seen = self.limited = self.refused = self.failed = 0
        self.answers: list[tuple[Any, float, int]] = []
        self.broken: set[str] = set()  # requests that have met their 500

    def now(self) -> float:
        """Seconds since the first request."""
        clock = asyncio.get_running_loop().time()
        if self.began is None:
            self.began = clock
        return clock - self.began

    async def complete(self, body: bytes, key: str) -> Answer:
        """Answer a chat completion, or refuse it."""
        now = self.now()
        self.seen += 1
        if self.key and key != f"Bearer {self.key}":
            return self.refuse(401, f"Incorrect API key provided: {key}")
        try:
            asked = json.loads(body)
            prompt = math.ceil(sum(len(each["content"]) for each in asked["messages"]) / CHARACTERS)
            most = int(asked.get("max_tokens", 256))
        except (ValueError, TypeError, KeyError, AttributeError):
            return self.refuse(400, "'messages' is a required property")
        reserved = prompt + most
        if reserved > self.tokens.capacity:
            return self.refuse(400, f"Request too large: {reserved} tokens")
        if limited := self.limit(now, reserved):
            return limited
        self.requests.take(1)
        self.tokens.take(reserved)
        chance = random.Random(body)
        used = prompt + round(most * chance.uniform(0.2, 0.8))
        await asyncio.sleep(self.latency * chance.uniform(0.5, 1.5))
        if chance.random() < self.errors and (known := body.hex()) not in self.broken:
            self.broken.add(known)
            self.failed += 1
            return self.error_status, {}, {"error": {"message": "The server had an error"}}
        self.tokens.look(self.now())
        if not self.keeps:
            self.tokens.take(used - reserved)
        said = asked["messages"][-1]["content"]
        self.answers.append((asked.get("user") or said.partition(":")[0], now, used))
        text = f"answer {len(self.answers)} to {said[:40]!r}"
        usage = {"prompt_tokens": prompt, "completion_tokens": used - prompt, "total_tokens": used}
        message = {"index": 0, "message": {"role": "assistant", "content": text}}
        return 200, self.headers(), {"choices": [message], "usage": usage}

    def refuse(self, status: int, text: str) -> Answer:
        self.refused += 1
        return status, {}, {"error": {"message": text, "type": "invalid_request_error"}}

    def limit(self, now: float, reserved: int) -> Answer | None:
        """Refuse what is beyond a limit: None if the request may go on."""
        if now >= self.day_ends:
            self.left_today, self.day_ends = self.rpd, self.day_ends + 1440 * self.minute
        waits = {
            "requests": self.requests.wait(1, now),
            "tokens": self.tokens.wait(reserved, now),
            "requests per day": self.day_ends - now if self.left_today == 0 else 0.0,
        }
        what = max(waits, key=lambda each: waits[each])
        if waits[what] > 0:
            self.limited += 1
            headers = {"retry-after-ms": str(math.ceil(waits[what] * 1000))}
            if self.minute == 60:
                headers["retry-after"] = str(math.ceil(waits[what]))
            text = f"Rate limit reached for {what}. Please try again in {waits[what]:.3f}s."
            error = {"message": text, "type": what, "code": "rate_limit_exceeded"}
            return 429, {**self.headers(), **headers}, {"error": error}
        if self.left_today is not None:
            self.left_today -= 1
        return None

    def headers(self) -> dict[str, str]:
        """Make the headers that OpenAI sends with each answer."""
        told: dict[str, str] = {}
        for name, bucket in {"requests": self.requests, "tokens": self.tokens}.items():
            full = bucket.wait(bucket.capacity, self.now())
            told[f"x-ratelimit-limit-{name}"] = f"{bucket.limit:.0f}"
            told[f"x-ratelimit-remaining-{name}"] = str(max(0, math.floor(bucket.level)))
            told[f"x-ratelimit-reset-{name}"] = f"{math.ceil(full * 1000)}ms"
        return told

    def counts(self) -> dict[str, Any]:
        """Say what was seen. A share of 1 is the limit's rate, from the first request to the last
        one that was answered."""
        last = max((moment for _, moment, _ in self.answers), default=0.0)
        allowed = max(last / self.minute, 1e-9)
        tokens = sum(used for *_, used in self.answers)
        shares = {
            "requests": len(self.answers) / self.requests.limit / allowed,
            "tokens": tokens / self.tokens.limit / allowed,
        }
        users = [user for user, *_ in self.answers]
        return {
            "requests": self.seen,
            "answered": len(self.answers),
            "limited": self.limited,
            "refused": self.refused,
            "failed": self.failed,
            "tokens": tokens,
            "seconds": last,
            "shares": shares,
            "distinct_users": len(set(users)),
        }


async def talk(api: Api, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection, until its client closes it."""
    lost = (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError)
    with closing(writer), suppress(*lost):
        while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
            first, *lines = head.split("\r\n")
            verb, path, _ = first.split(" ", 2)
            pairs = [line.partition(":")[::2] for line in lines]
            fields = {name.lower(): value.strip() for name, value in pairs}
            length = int(fields.get("content-length", 0))
            body = await reader.readexactly(length) if length <= MAX_BODY else b""
            if (verb, path) == ("POST", "/v1/chat/completions") and length <= MAX_BODY:
                status, headers, said = await api.complete(body, fields.get("authorization", ""))
            elif (verb, path) == ("GET", "/counts"):
                status, headers, said = 200, {}, api.counts()
            elif (verb, path) == ("GET", "/answers"):
                status, headers, said = 200, {}, api.answers
            else:
                status, headers, said = 404, {}, {"error": {"message": f"no {verb} {path}"}}
            data = json.dumps(said).encode()
            headers |= {"content-type": "application/json", "content-length": str(len(data))}
            top = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {status} {REASONS[status]}\r\n{top}\r\n".encode() + data)
            await writer.drain()


def read_options(words: list[str]) -> argparse.Namespace:
    """Read the command line; `[]` gives the defaults."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rpm", type=float, default=500, help="requests a minute")
    parser.add_argument("--tpm", type=float, default=200_000, help="tokens a minute")
    parser.add_argument("--rpd", type=int, help="requests a day (default: any number)")
    parser.add_argument("--latency", type=float, default=3, help="seconds of an answer, on average")
    parser.add_argument("--quantum", type=float, default=60, help="seconds that a bucket holds")
    parser.add_argument("--minute", type=float, default=60, help="seconds that a minute takes")
    parser.add_argument("--errors", type=float, default=0, help="share of requests with one error")
    parser.add_argument(
        "--error-status", type=int, choices=(500, 503, 529), default=500, help="status of errors"
    )
    parser.add_argument("--keeps", action="store_true", help="keep what an answer did not use")
    parser.add_argument("--key", help="the API key (default: any, or none)")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    return parser.parse_args(words)


async def serve(words: list[str]) -> asyncio.Server:
    """Start the API on loopback."""
    options = read_options(words)
    api = Api(options)
    return await asyncio.start_server(
        lambda reader, writer: talk(api, reader, writer),
        *("127.0.0.1", options.port),
        limit=MAX_HEAD,
        backlog=1000,
    )


def url_of(server: asyncio.Server) -> str:
    """Return the address of its chat completions."""
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions"


async def main(words: list[str]) -> None:
    """Serve until Ctrl-C."""
    server = await serve(words)
    print(url_of(server), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1:]))
