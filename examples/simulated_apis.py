"""Hosts on loopback with the limits that the guides name, to try their programs on.

python examples/simulated_apis.py KIND [--port N] [--help]

    github       GET /repos/OWNER/NAME/issues?page=N; 5000 an hour, and secondary limits
    shopify      POST /admin/api/VERSION/graphql.json; a bucket of points that restores evenly
    anthropic    POST /v1/messages; requests, input tokens and output tokens of a minute
    web          100 hosts, a port each, whose pages link to each other
    proxies      three proxies: every host limits each of them by itself
    plain        GET /anything; so many in any second, else a 429 with Retry-After

Each serves until Ctrl-C, and prints its address, or its first one. GET /counts says what it saw.
"""

import argparse
import asyncio
import json
import math
import random
import re
import sys
import time
from collections import Counter, defaultdict, deque
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from simulated_llm_api import MAX_BODY, MAX_HEAD, REASONS, Bucket

Answer = tuple[int, dict[str, str], str]
"""Status, headers and body."""


class Request(NamedTuple):
    """A request, and the port at which it came."""

    verb: str
    target: str
    headers: dict[str, str]
    body: bytes
    port: int


class Seen(NamedTuple):
    """An answer that was given: when (monotonic seconds), to which request, with which status."""

    at: float
    request: Request
    status: int


def document(status: int, body: Any, **headers: object) -> Answer:
    """Make an answer of JSON; `_` in the name of a header is `-`."""
    return status, {k.replace("_", "-"): str(v) for k, v in headers.items()}, json.dumps(body)


class Window:
    """A moving window: never more than `most` in any `per` seconds."""

    def __init__(self, most: int, per: float) -> None:
        self.per = per
        self.recent = deque([-math.inf] * most, maxlen=most)

    def wait(self) -> float:
        """Return the seconds until the next one is allowed; if 0, it is taken."""
        now = time.monotonic()
        if (wait := self.recent[0] + self.per - now) > 0:
            return wait
        self.recent.append(now)
        return 0.0


@dataclass
class Host:
    """The base of all kinds.

    Attributes:
        port: The port of its first server; 0 takes a free one.
        latency: Seconds of an answer.
        seen: All answers that were given.
    """

    port: int = 8431
    latency: float = 0.02
    servers: int = field(default=1, init=False)
    seen: list[Seen] = field(default_factory=list[Seen], init=False)
    ports: list[int] = field(default_factory=list[int], init=False)

    async def answer(self, request: Request) -> Answer:
        """Answer a request, or refuse it."""
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        """Count the answers by status."""
        return {str(status): n for status, n in Counter(s.status for s in self.seen).items()}


@dataclass
class GitHub(Host):
    """Quotas and secondary limits of GitHub's REST API.

    Attributes:
        quota: Requests in an hour; the hour begins with its first request.
        hour: Seconds that the hour takes; 1 or more, since resets are whole seconds.
        points: Points in any minute: 1 for a GET, 5 for a POST.
        at_once: Requests at the same time.
        strict_at: The number of the request that meets a secondary limit of no known cause.
        pages: Pages of issues of each repository.
    """

    quota: int = 5000
    hour: int = 3600
    points: int = 900
    at_once: int = 100
    strict_at: int = 0
    pages: int = 5
    used: int = field(default=0, init=False)
    reset: int = field(default=0, init=False)
    closed_until: float = field(default=0.0, init=False)
    running: int = field(default=0, init=False)
    over_quota: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.minute = Window(self.points, 60)

    async def answer(self, request: Request) -> Answer:
        if time.time() >= self.reset:
            self.used, self.reset = 0, math.ceil(time.time()) + self.hour
        strict = len(self.seen) + self.running + 1 == self.strict_at
        if strict:
            self.closed_until = time.monotonic() + 1
        waits = [self.closed_until - time.monotonic()]
        if not strict and self.running < self.at_once:
            waits += [self.minute.wait() for _ in range(1 if request.verb == "GET" else 5)]
        elif not strict:
            waits.append(60)
        if max(waits) > 0:
            text = {"message": "You have exceeded a secondary rate limit."}
            return document(403, text, retry_after=math.ceil(max(waits)), **self.left())
        if self.used >= self.quota:
            self.over_quota += 1
            return document(403, {"message": "API rate limit exceeded"}, **self.left())
        self.used += 1
        self.running += 1
        await asyncio.sleep(self.latency)
        self.running -= 1
        where = urlsplit(request.target)
        page = int(parse_qs(where.query).get("page", ["1"])[0])
        link = f"<http://127.0.0.1:{request.port}{where.path}?page={page + 1}>"
        more = {"link": f'{link}; rel="next"'} if page < self.pages else {}
        return document(200, [{"number": n} for n in range(100)], **more, **self.left())

    def left(self) -> dict[str, object]:
        """Make the headers of the quota."""
        left = self.quota - self.used
        told: dict[str, object] = {"x_ratelimit_limit": self.quota, "x_ratelimit_remaining": left}
        return {**told, "x_ratelimit_reset": self.reset, "x_ratelimit_resource": "core"}


@dataclass
class Shopify(Host):
    """The bucket of points of Shopify's GraphQL Admin API.

    A query costs 2 points and the number behind its `first:`. As many must be in the bucket when
    it comes. What it has not really cost goes back at its end.

    Attributes:
        bucket: Points that the bucket holds.
        restore: Points that come back in a second.
        others_at: The number of the request at which another program of the shop takes points.
        others: The points that it takes then.
    """

    bucket: int = 2000
    restore: int = 100
    others_at: int = 0
    others: int = 0
    asked: int = field(default=0, init=False)
    throttled: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.left = Bucket(self.restore, 1, self.bucket)
        self.left.at = time.monotonic()

    async def answer(self, request: Request) -> Answer:
        said = json.loads(request.body)
        found = re.search(r"first:\s*(\d+)", said["query"])
        asked = 2 + int(found[1] if found else 10)
        if len(self.seen) == self.others_at:
            self.left.take(min(self.others, self.left.look(time.monotonic())))
        if self.left.look(time.monotonic()) < asked:
            self.throttled += 1
            errors: list[Any] = [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]
            return document(200, {"errors": errors, "extensions": self.cost(asked, None)})
        self.left.take(asked)
        self.asked += asked
        await asyncio.sleep(self.latency)
        actual = 2 + random.Random(request.body).randrange(1, asked // 2)
        self.left.look(time.monotonic())
        self.left.take(actual - asked)
        nodes = [{"id": n} for n in range(actual - 2)]
        data = {"orders": {"nodes": nodes}}
        return document(200, {"data": data, "extensions": self.cost(asked, actual)})

    def cost(self, asked: int, actual: int | None) -> dict[str, Any]:
        """Say what a query has cost, and what is left."""
        left = math.floor(self.left.look(time.monotonic()))
        status = {"maximumAvailable": self.bucket, "currentlyAvailable": left}
        status["restoreRate"] = self.restore
        costs = {"requestedQueryCost": asked, "actualQueryCost": actual}
        return {"cost": {**costs, "throttleStatus": status}}


@dataclass
class Anthropic(Host):
    """The limits of a minute of Anthropic's Messages API: buckets that refill evenly.

    Output tokens are taken at the end of an answer; a bucket below zero refuses.

    Attributes:
        rpm: Requests in a minute.
        itpm: Input tokens in a minute.
        otpm: Output tokens in a minute.
        minute: Seconds that the minute takes.
        strict_at: The number of the request that meets a 429 for one second, whatever is left.
    """

    rpm: int = 50
    itpm: int = 30_000
    otpm: int = 8_000
    minute: float = 60
    strict_at: int = 0
    came: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        sizes = {"requests": self.rpm, "input-tokens": self.itpm, "output-tokens": self.otpm}
        self.buckets = {name: Bucket(n, self.minute, n) for name, n in sizes.items()}
        for each in self.buckets.values():
            each.at = time.monotonic()

    async def answer(self, request: Request) -> Answer:
        asked = json.loads(request.body)
        prompt = math.ceil(sum(len(each["content"]) for each in asked["messages"]) / 4)
        needs = {"requests": 1, "input-tokens": prompt, "output-tokens": 1}
        now = time.monotonic()
        wait = max(self.buckets[name].wait(units, now) for name, units in needs.items())
        self.came += 1
        if self.came == self.strict_at:
            wait = max(wait, 1)
        if wait > 0:
            error = {"type": "rate_limit_error", "message": "This request would exceed your limit"}
            refusal = {"type": "error", "error": error}
            return document(429, refusal, retry_after=math.ceil(wait), **self.headers())
        self.buckets["requests"].take(1)
        self.buckets["input-tokens"].take(prompt)
        await asyncio.sleep(self.latency)
        output = round(asked["max_tokens"] * random.Random(request.body).uniform(0.1, 0.6))
        self.buckets["output-tokens"].look(time.monotonic())
        self.buckets["output-tokens"].take(output)
        content = [{"type": "text", "text": f"answer to {asked['messages'][-1]['content'][:40]}"}]
        message = {"id": "msg", "type": "message", "role": "assistant", "model": asked["model"]}
        usage = {"input_tokens": prompt, "output_tokens": output}
        body: dict[str, Any] = {
            **message,
            "content": content,
            "stop_reason": "end_turn",
            "usage": usage,
        }
        return document(200, body, **self.headers())

    def headers(self) -> dict[str, object]:
        """Make the headers that Anthropic sends with each answer."""
        told: dict[str, object] = {}
        for name, bucket in self.buckets.items():
            full = bucket.wait(bucket.capacity, time.monotonic())
            moment = datetime.now(UTC) + timedelta(seconds=full)
            told[f"anthropic-ratelimit-{name}-limit"] = round(bucket.limit)
            told[f"anthropic-ratelimit-{name}-remaining"] = max(0, math.floor(bucket.level))
            told[f"anthropic-ratelimit-{name}-reset"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        return told


@dataclass
class Web(Host):
    """A web of hosts: each has a front page, which links to its pages and to two other hosts.

    Attributes:
        hosts: The number of hosts.
        pages: Pages of a host besides its front page: `/1`, `/2/2`, `/3/3/3` and so on.
        rate: Requests that a host takes in any second, and never two at once.
    """

    hosts: int = 100
    pages: int = 4
    rate: int = 1

    def __post_init__(self) -> None:
        self.servers = self.hosts
        self.windows = defaultdict[int, Window](lambda: Window(self.rate, 1))
        self.busy = set[int]()

    async def answer(self, request: Request) -> Answer:
        wait = 1.0 if request.port in self.busy else self.windows[request.port].wait()
        if wait > 0:
            return 429, {"retry-after": str(math.ceil(wait))}, "too often"
        self.busy.add(request.port)
        await asyncio.sleep(self.latency)
        self.busy.discard(request.port)
        paths = ["/", *("/" + "/".join([str(n)] * n) for n in range(self.pages, 0, -1))]
        if request.target not in paths:
            return 404, {}, "no such page"
        here = self.ports.index(request.port)
        others = [self.ports[n] for n in (2 * here + 1, 2 * here + 2) if n < len(self.ports)]
        links = [f"http://127.0.0.1:{request.port}{path}" for path in paths]
        links += [f"http://127.0.0.1:{port}/" for port in others]
        body = "\n".join(f'<a href="{link}">{link}</a>' for link in links)
        return 200, {"content-type": "text/html"}, f"<title>{request.target}</title>\n{body}"


@dataclass
class Proxies(Host):
    """Proxies, which answer for all hosts: each host limits each proxy by itself.

    Attributes:
        proxies: The number of proxies.
        rate: Requests that a host takes from a proxy in any second.
    """

    proxies: int = 3
    rate: int = 5

    def __post_init__(self) -> None:
        self.servers = self.proxies
        self.windows = defaultdict[tuple[int, str], Window](lambda: Window(self.rate, 1))

    async def answer(self, request: Request) -> Answer:
        host = urlsplit(request.target).netloc
        if not host:
            return 400, {}, "this is a proxy: ask it for http://host/page"
        if (wait := self.windows[request.port, host].wait()) > 0:
            return 429, {"retry-after": str(math.ceil(wait))}, "too often"
        await asyncio.sleep(self.latency)
        return 200, {}, f"{request.target} by the proxy at port {request.port}"


@dataclass
class Plain(Host):
    """A host with one limit.

    Attributes:
        rate: Requests that it takes in any second.
    """

    rate: int = 10
    running: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.window = Window(self.rate, 1)

    async def answer(self, request: Request) -> Answer:
        if (wait := self.window.wait()) > 0:
            return 429, {"retry-after": str(math.ceil(wait))}, "too often"
        self.running += 1
        await asyncio.sleep(self.latency)
        self.running -= 1
        return 200, {}, f"here is {request.target}"


KINDS = {kind.__name__.lower(): kind for kind in (GitHub, Shopify, Anthropic, Web, Proxies, Plain)}


async def talk(host: Host, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection, until its client closes it."""
    port: int = writer.get_extra_info("sockname")[1]
    lost = (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError)
    with closing(writer), suppress(*lost):
        while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
            first, *lines = head.split("\r\n")
            verb, target, _ = first.split(" ", 2)
            pairs = [line.partition(":")[::2] for line in lines]
            sent = {name.lower(): value.strip() for name, value in pairs}
            length = int(sent.get("content-length", 0))
            body = await reader.readexactly(length) if length <= MAX_BODY else b""
            request = Request(verb, target, sent, body, port)
            if target == "/counts":
                status, headers, said = document(200, host.counts())
            else:
                status, headers, said = await host.answer(request)
                host.seen.append(Seen(time.monotonic(), request, status))
            data = said.encode()
            headers |= {"date": formatdate(usegmt=True), "content-length": str(len(data))}
            top = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {status} {REASONS[status]}\r\n{top}\r\n".encode() + data)
            await writer.drain()


async def serve(host: Host) -> list[asyncio.Server]:
    """Start the servers of a host on loopback; `host.ports` are theirs."""
    servers: list[asyncio.Server] = []
    for n in range(host.servers):
        server = await asyncio.start_server(
            lambda reader, writer: talk(host, reader, writer),
            *("127.0.0.1", host.port and host.port + n),
            limit=MAX_HEAD,
        )
        servers.append(server)
        host.ports.append(server.sockets[0].getsockname()[1])
    return servers


def read_host(words: list[str]) -> Host:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    for name, kind in KINDS.items():
        options = kinds.add_parser(
            name, description=kind.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        for each in fields(kind):
            if each.init:
                flag = "--" + each.name.replace("_", "-")
                number = int if isinstance(each.default, int) else float
                options.add_argument(flag, type=number, default=each.default)
    given = vars(parser.parse_args(words))
    return KINDS[given.pop("kind")](**given)


async def main(words: list[str]) -> None:
    """Serve until Ctrl-C."""
    host = read_host(words)
    await serve(host)
    print(f"http://127.0.0.1:{host.ports[0]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1:]))
