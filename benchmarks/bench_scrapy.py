"""What does a crawl of several spiders lose when one is killed, and how does it meet a limit?

A host on this machine has 400 pages, and answers 20 requests in any second; to others it says 429,
with `Retry-After: 1`. Two spiders crawl it. After a third of the pages one of them is killed
(SIGKILL), once it has asked 20 times, and a third spider begins. The schedulers are `dpq.scrapy`
and scrapy-redis, with the settings that their documents name. A page is lost if no callback ever
saw it. A request is repeated if the host had answered its page before.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks._harness import REPOSITORY, Bench, Result, run_one

PROGRAM = Path(__file__).parent / "peers" / "scrapy_spider.py"
PAGES, RATE = 400, 20
ROUNDS = 3
BOTH = 20  # pages that the spider has asked for that is killed
PATIENCE = 240  # seconds for a crawl

COMMON = {
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
}
DPQ = {"SCHEDULER": "dpq.scrapy.Scheduler", "DPQ_QUEUE": "tree"}
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": True,
}
WAYS: dict[str, dict[str, Any]] = {
    "dpq.scrapy, DPQ_LIMITS 20/s": {**DPQ, "DPQ_LIMITS": {"*": {"rate": RATE, "per": 1}}},
    "dpq.scrapy, no limit": DPQ,
    "scrapy-redis, DOWNLOAD_DELAY 0.1": {**SCRAPY_REDIS, "DOWNLOAD_DELAY": 0.1},
    "scrapy-redis, no delay": SCRAPY_REDIS,
}


class Host(ThreadingHTTPServer):
    """The limited host.

    Attributes:
        answered: How often each page was answered with 200.
        refused: The number of 429s.
        asked: How often each spider has asked.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.lock = threading.Lock()
        self.recent = deque([0.0] * RATE, maxlen=RATE)
        self.answered: Counter[int] = Counter()
        self.refused = 0
        self.asked: Counter[str] = Counter()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection whose spider was killed."""

    def allows(self, number: int, spider: str) -> bool:
        with self.lock:
            self.asked[spider] += 1
            now = time.monotonic()
            if now - self.recent[0] < 1:
                self.refused += 1
                return False
            self.recent.append(now)
            self.answered[number] += 1
            return True


class Answers(BaseHTTPRequestHandler):
    """A tree of pages: page n links to 2n + 1 and 2n + 2."""

    protocol_version = "HTTP/1.1"
    server: Host

    def do_GET(self) -> None:
        number = int(self.path[1:])
        allowed = self.server.allows(number, self.headers["User-Agent"])
        links = [n for n in (2 * number + 1, 2 * number + 2) if n < PAGES and allowed]
        body = "".join(f'<a href="/{n}">x</a>' for n in links).encode()
        self.send_response(200 if allowed else 429)
        if not allowed:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _crawl(bench: Bench, settings: dict[str, Any], folder: Path) -> dict[str, float]:
    """Crawl with two spiders, kill one, start a third; return what the host and the pages say."""
    out = folder / "pages"
    out.unlink(missing_ok=True)
    out.touch()
    url = bench.server.url
    given = {**COMMON, **settings, "DPQ_URL": url, "REDIS_URL": url}
    with Host() as host:
        thread = threading.Thread(target=host.serve_forever, daemon=True)
        thread.start()
        start = f"http://127.0.0.1:{host.server_address[1]}/0"
        spiders: list[subprocess.Popen[bytes]] = []

        def begin() -> None:
            own = json.dumps({**given, "USER_AGENT": f"spider {len(spiders)}"})
            command = [sys.executable, str(PROGRAM), start, str(out), own]
            spiders.append(subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL))

        begun = time.monotonic()
        try:
            begin()
            begin()
            while None in [each.poll() for each in spiders]:
                if len(host.answered) >= PAGES // 3 and host.asked["spider 0"] >= BOTH:
                    break
                time.sleep(0.02)
            spiders[0].send_signal(signal.SIGKILL)
            begin()
            for spider in spiders[1:]:
                spider.wait(PATIENCE)
            seconds = time.monotonic() - begun
        finally:
            for spider in spiders:
                spider.kill()
                spider.wait()
            host.shutdown()
            thread.join()
    seen = {int(line) for line in out.read_text(encoding="utf-8").split()}
    return {
        "lost": PAGES - len(seen),
        "repeated": sum(host.answered.values()) - len(host.answered),
        "429s": host.refused,
        "seconds": seconds,
    }


def measure(bench: Bench) -> Iterator[Result]:
    for name, settings in WAYS.items():
        package = "scrapy-redis" if "redis" in name else "scrapy"
        try:
            said = f"{name} ({package} {version(package)}, Scrapy {version('scrapy')})"
        except PackageNotFoundError:
            yield Result(f"{name}: not installed", "", None, [0])
            continue
        rounds = []
        for _ in range(ROUNDS):
            bench.redis.flushdb()  # the server is this benchmark's own
            with tempfile.TemporaryDirectory() as folder:
                rounds.append(_crawl(bench, settings, Path(folder)))
        for figure in rounds[0]:
            yield Result(f"{said}: {figure}", "", None, [each[figure] for each in rounds])
    bench.redis.flushdb()


if __name__ == "__main__":
    run_one("scrapy")
