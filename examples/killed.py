"""Three processes fetch 60 pages, one of them is killed: by a tenacity loop, and by DPQ.

python examples/killed.py [--rounds N]

The host is on loopback. It allows 10 requests in any second, and answers 429 to the others. Needs
httpx and tenacity beside DPQ: pip install '.[embedded,httpx]' tenacity
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import simulated_apis

PROCESSES = 3
RATE = 10  # requests in any second
KILL_AFTER = 12  # pages


def loop(url: str, pages: list[str], part: int) -> None:
    """Fetch one process's part of the list, and try again at each error."""
    import httpx
    from tenacity import retry, stop_after_attempt, wait_random_exponential

    client = httpx.Client(timeout=20, trust_env=False)

    @retry(wait=wait_random_exponential(multiplier=0.5, max=10), stop=stop_after_attempt(6))
    def fetch(page: str) -> None:
        client.get(url + page).raise_for_status()

    for page in pages[part::PROCESSES]:
        fetch(page)


def queue(url: str, pages: list[str], part: int, directory: str) -> None:
    """Push the whole list, in each process: the keys keep one task for each page. Then work."""
    import httpx

    from dpq import DPQ, Push, Task, Worker

    client = httpx.Client(timeout=20, trust_env=False)
    q = DPQ.from_url(f"embedded:{directory}", "pages", default_visibility=5)
    q.set_limit(RATE, 1, group="host")
    q.push_many(Push({"page": page}, group="host", key=page, unique_for=3600) for page in pages)

    def fetch(task: Task) -> None:
        response = client.get(url + task.payload["page"])
        response.raise_for_status()

    Worker(q, fetch, name=f"process {part}").drain()


@contextmanager
def served(host: Any) -> Iterator[str]:
    """Serve a simulated host in a thread; yield its address."""
    event_loop = asyncio.new_event_loop()
    event_loop.run_until_complete(simulated_apis.serve(host))
    thread = threading.Thread(target=event_loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{host.ports[0]}"
    finally:
        event_loop.call_soon_threadsafe(event_loop.stop)
        thread.join()


def measure(way: str, pages: int) -> tuple[int, int, float]:
    """Return the pages that never came, the requests that were refused, and the seconds."""
    kind: Any = simulated_apis.KINDS["plain"]
    host = kind(port=0, rate=RATE)
    with served(host) as url, tempfile.TemporaryDirectory() as directory:
        began = time.monotonic()
        command = [sys.executable, __file__, "--pages", str(pages), "--as", way, url, directory]
        started = [
            subprocess.Popen([*command, str(part)], stderr=subprocess.DEVNULL)
            for part in range(PROCESSES)
        ]
        while host.counts().get("200", 0) < KILL_AFTER:
            time.sleep(0.01)
        started[0].kill()
        for each in started:
            each.wait()
        seconds = time.monotonic() - began
    came = {seen.request.target for seen in host.seen if seen.status == 200}
    return pages - len(came), host.counts().get("429", 0), seconds


def main(words: list[str]) -> None:
    """Measure both ways, or be one of the processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--pages", type=int, default=60)
    parser.add_argument("--as", nargs=4, dest="process", help=argparse.SUPPRESS)
    told = parser.parse_args(words)
    if told.process:
        way, url, directory, part = told.process
        pages = [f"/{number}" for number in range(told.pages)]
        if way == "loop":
            loop(url, pages, int(part))
        else:
            queue(url, pages, int(part), directory)
        return
    print(f"{told.pages} pages, {PROCESSES} processes, one killed after {KILL_AFTER} pages")
    for way, name in {"loop": "tenacity loop", "queue": "DPQ"}.items():
        rounds = [measure(way, told.pages) for _ in range(told.rounds)]
        lost, refused, seconds = (median(values) for values in zip(*rounds, strict=True))
        print(f"{name:14} {lost:3.0f} lost  {refused:3.0f} refused  {seconds:4.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
