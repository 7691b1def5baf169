"""`dpq admin metrics`, `dpq admin scheduler --metrics-port`: programs for Prometheus."""

import re
import socket
import subprocess
import sys
import threading
from urllib.request import urlopen

import pytest

from dpq import DPQ
from dpq.metrics import Exporter
from dpq.model.masking import server_name
from dpq.server import Server
from dpq.views.sampler import Named


@pytest.mark.parametrize(
    "words",
    [["metrics", "--listen", "127.0.0.1:0"], ["scheduler", "--metrics-port", "0"]],
    ids=["metrics", "scheduler"],
)
def test_a_program_answers_scrapes(first_server: Server, words: list[str]) -> None:
    """It tells of all queues of the server, whatever idle connections it has; SIGTERM ends it."""
    queue = DPQ.from_url(first_server.url, f"scraped-{words[0]}")
    queue.push("x")
    command = [sys.executable, "-m", "dpq", "admin", *words, "--url", first_server.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = None
            while not found:
                line = process.stderr.readline() if process.stderr else ""
                assert line, "it has ended"
                found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", line)
            at = ("127.0.0.1", int(found[1]))
            idle = [socket.create_connection(at, timeout=60) for _ in range(20)]
            with urlopen(found[0], timeout=60) as answer:  # noqa: S310
                text = answer.read().decode()
            for connection in idle:
                connection.close()
        finally:
            process.terminate()
            process.communicate(timeout=60)
    labels = f'queue="{queue.queue_name}",server="{server_name(first_server.url)}",state="ready"'
    assert f"dpq_tasks{{{labels}}} 1.0" in text
    queue.drop()
    queue.redis.close()


def test_a_silent_server_holds_no_scrape_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and says nothing is `dpq_up 0` in time."""
    monkeypatch.setattr("dpq.metrics.WITHIN_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        queue = DPQ.from_url(
            f"redis://127.0.0.1:{port}/0?socket_timeout=0.5&retry_on_timeout=no", "q"
        )
        exporter = Exporter(Named([queue]), server="far")
        assert b'dpq_up{server="far"} 0.0' in exporter.text()
        looking = exporter._looking
        assert isinstance(looking, threading.Thread)
        assert looking.is_alive()  # it has not waited for its end
    looking.join(60)
    queue.close()
