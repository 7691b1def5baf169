"""The dashboard of a crawl: a process of its own, which ends with the demo however that ends.

It needs the packages of DPQ's extra `web`; without them there is none, and nothing is said.
"""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def dashboard(url: str, port: int) -> Iterator[Callable[[], str]]:
    """Start it, on a free port if `port` is 0; give a function that waits for its address.

    The address is "" if there is no dashboard.
    """
    command = [sys.executable, __file__, url, str(port)]
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: the demo ends it
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, interrupted)
    with process:
        assert process.stdin
        yield lambda: process.stdout.readline().strip() if process.stdout else ""
        process.stdin.close()  # it ends; so it does if this process is killed


def main(url: str, port: int) -> None:
    """Print the address, and serve until stdin ends."""
    try:
        import uvicorn

        from dpq.views.sampler import Known
        from dpq.web import app
    except ImportError:
        return
    import socket

    from dpq.link.connect import open_url

    opened = open_url(url)
    config = uvicorn.Config(
        app(Known(opened.client), server=opened.label),
        log_level="critical",
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    try:
        listening = socket.create_server(("127.0.0.1", port), backlog=64)
    except OSError as error:
        print(f"none: port {port} cannot be used ({error.strerror})", flush=True)
        return
    with listening:
        # Not in the main thread: there uvicorn would take the signals.
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
        sys.stdin.read()
        server.should_exit = True
        thread.join()
    opened.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
