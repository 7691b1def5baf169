"""`dpq admin metrics`: a program for Prometheus."""

import re
import socket
import subprocess
import sys
from urllib.request import urlopen

from dpq import DPQ
from dpq.model.masking import server_name
from dpq.server import Server


def test_a_program_answers_scrapes(first_server: Server) -> None:
    """It tells of all queues of the server, whatever idle connections it has; SIGTERM ends it."""
    queue = DPQ.from_url(first_server.url, "scraped")
    queue.push("x")
    command = [
        sys.executable,
        "-m",
        "dpq",
        "admin",
        "metrics",
        "--port",
        "0",
        "--url",
        first_server.url,
    ]
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
    queue.admin.drop()
    queue.redis.close()
