"""Take the pictures of the dashboard for README.md, light and dark, from an hour of a queue's life.

python tools/dashboard_pictures.py [DIRECTORY]   (or `make pictures`; docs/ if none is given)

It plays an hour on a clock that it moves itself: three hosts, a pool of keys with tokens, answers
of 429 and 503, dead letters. Then real workers go on, while a browser looks.
It needs Chromium (`apt-get install chromium`). Tests do not run it: pictures differ each time.
"""

import random
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from dpq import DPQ, Push, RateLimit, RateLimited, Reject, Task, Worker
from dpq.server import Server
from dpq.testing import Clock
from dpq.web import app

ROOT = Path(__file__).parents[1]
SECONDS = 3660  # of history: an hour, and the minute before its first one
LIVE_S = 25.0  # with real workers, before the first picture
WIDTH, HEIGHT = 1280, 760
COLOURS = 256
MOST_BYTES = 150_000

RATES = {"docs.python.org": 2.1, "en.wikipedia.org": 1.2, "export.arxiv.org": 0.27, "llm": 0.72}
"""Tasks a second of each group: about as many as its limit allows."""

KEYS = ("key-berlin", "key-lisbon", "key-oslo")

WORDS = ("heapq", "asyncio", "Dijkstra", "queueing", "sqlite3", "backoff", "Erlang", "priority")

PAGES = {
    "limits": ("q/research/limits", "#whole"),
    "limit": ("q/research/limit?group=llm", "#state"),
    "overview": ("", "header"),
}
"""Path of each picture, and the element at its top."""


class Life:
    """The queues, and what happens to their tasks."""

    def __init__(self, url: str, clock: Clock | None) -> None:
        """Open the queues, on a clock of their own or in real time."""
        names = ("research", "newsletter", "thumbnails")
        self.queues = [DPQ[Any].from_url(url, name, clock=clock) for name in names]
        self.chance = random.Random(29)  # noqa: S311

    def set_limits(self) -> None:
        """Set the limits of three hosts, of a pool of keys, and of the whole queue."""
        research, newsletter, _ = self.queues
        research.set_limit(5, 1, burst=5)
        research.set_limit(150, 60, burst=4, group="docs.python.org")
        research.set_limit(90, 60, burst=3, group="en.wikipedia.org")
        research.set_limit(1, 3, group="export.arxiv.org")
        rates = [RateLimit(20, 60, burst=3), RateLimit(16_000, 60, burst=4_000, unit="tokens")]
        research.set_limit(rates, group="llm", members=KEYS)
        newsletter.set_limit("300/m", group="smtp.example.org")

    def push(self, seconds: float) -> None:
        """Push what so many seconds bring."""
        research, newsletter, thumbnails = self.queues
        batch = []
        for group, rate in RATES.items():
            while self.chance.random() < rate * seconds / (1 + rate * seconds):
                word, number = self.chance.choice(WORDS), self.chance.randrange(1, 900)
                payload: dict[str, str] = {"url": f"https://{group}/{word}/{number}"}
                cost: Any = 1
                if group == "llm":
                    payload, cost = (
                        {"summarise": word},
                        {"tokens": self.chance.randrange(300, 1000)},
                    )
                tries = self.chance.choice((1, 5))
                batch.append(
                    Push(
                        payload,
                        self.chance.choice((0, 0, 0, 5)),
                        group=group,
                        cost=cost,
                        max_attempts=tries,
                    )
                )
        research.push_many(batch)
        if self.chance.random() < seconds:
            newsletter.push(
                {"to": f"reader {self.chance.randrange(9999)}"}, group="smtp.example.org"
            )
        thumbnails.push_many([Push({"image": n}) for n in range(self.chance.randrange(3))])

    def play(self, clock: Clock) -> None:
        """Play an hour, second by second, until the clock shows the present."""
        running: list[tuple[float, DPQ[Any], Task[Any]]] = []
        while clock.ms < time.time() * 1000:
            minute = (SECONDS - (time.time() * 1000 - clock.ms) / 1000) / 60
            self.push(1.5 if 25 < minute < 32 or minute > 57 else 1.0)
            for q in self.queues:
                for task in q.pop_many(12, visibility=300):
                    running.append((clock.ms + self.chance.expovariate(1 / 900), q, task))
            due, running = (
                [each for each in running if each[0] <= clock.ms],
                [each for each in running if each[0] > clock.ms],
            )
            for _, q, task in due:
                self.end(q, task, minute)
            if clock.ms % 60_000 < 1000:
                for q in self.queues:
                    q._session.run(q._session.operations.remember)
            clock.advance(1)
        for _, q, task in running:
            q.ack(task)

    def end(self, q: DPQ[Any], task: Task[Any], minute: float) -> None:
        """End a delivery: mostly well."""
        luck = self.chance.random()
        if task.group == "export.arxiv.org" and 21 < minute < 24:
            q.rate_limited(task, 20, status=429)
        elif task.group == "en.wikipedia.org" and 39 < minute < 41 and luck < 0.3:
            q.rate_limited(task, 10, status=503)
        elif task.member == "key-oslo" and 48 < minute < 51:
            q.rate_limited(task, 25, status=429)
        elif luck < 0.004 and task.group in RATES:
            q.bury(task, "HTTP 404: no such page")
        elif luck < 0.006 and task.group in RATES:
            q.fail(task, "ReadTimeout after 10 s", delay=5)
        else:
            q.ack(task)

    def handle(self, task: Task[Any]) -> None:
        """Handle a task for real, for some hundred ms."""
        time.sleep(self.chance.uniform(0.1, 0.9))
        if task.group == "export.arxiv.org":
            raise RateLimited(95, status=429)
        if self.chance.random() < 0.002 and task.group in RATES:
            raise Reject("HTTP 404: no such page")


@contextmanager
def living(life: Life) -> Iterator[None]:
    """Let workers run, and tasks come, during the body."""
    research, newsletter, thumbnails = life.queues
    ended = threading.Event()

    def feed() -> None:
        while not ended.wait(1):
            life.push(1)

    with ExitStack() as stack:
        for name, q, concurrency in (
            ("crawler on web-1", research, 6),
            ("crawler on web-2", research, 6),
            ("mailer on web-1", newsletter, 2),
            ("images on web-2", thumbnails, 2),
        ):
            worker = Worker(q, life.handle, concurrency=concurrency, name=name)
            stack.enter_context(worker.running())
        feeder = threading.Thread(target=feed)
        feeder.start()
        stack.callback(feeder.join)
        stack.callback(ended.set)
        yield


@contextmanager
def served(life: Life) -> Iterator[str]:
    """Serve the dashboard; give its address."""
    config = uvicorn.Config(
        app(life.queues, badge="staging", server="queues-1"), log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def main(directory: Path) -> None:
    """Play, look, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        sys.exit("there is no Chromium: apt-get install chromium")
    with Server.start() as redis:
        clock = Clock(round((time.time() - SECONDS) * 1000))
        past = Life(redis.url, clock)
        past.set_limits()
        past.play(clock)
        life = Life(redis.url, None)
        with served(life) as url, living(life), sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
            )
            light, dark = (
                browser.new_page(
                    viewport={"width": WIDTH, "height": HEIGHT},
                    color_scheme=scheme,
                )
                for scheme in ("light", "dark")
            )
            light.goto(url)
            light.wait_for_timeout(LIVE_S * 1000)
            for name, (path, top) in PAGES.items():
                for scheme, page in (("light", light), ("dark", dark)):
                    page.goto(url + path)
                    save(page, top, directory / f"dashboard-{name}-{scheme}.png")
            browser.close()


def save(page: Page, top: str, path: Path) -> None:
    """Save a page from an element on, with few colours: a small file."""
    place = f"document.querySelector({top!r}).getBoundingClientRect().top + scrollY"
    start = max(0, page.evaluate(place) - 12)
    foot = page.evaluate("document.querySelector('footer').getBoundingClientRect().top + scrollY")
    clip: Any = {"x": 0, "y": start, "width": WIDTH, "height": min(HEIGHT, foot - start)}
    page.screenshot(path=path, clip=clip, full_page=True)
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )  # rare colours stay
    small.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path}: {size} bytes")
    if size > MOST_BYTES:
        sys.exit(f"{path} has {size} bytes: at most {MOST_BYTES} may be in the repository")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
