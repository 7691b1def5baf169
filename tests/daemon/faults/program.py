"""Worker processes for the tests of faults, forked from one that has imported DPQ already.

A program of its own, started by workers.py. It reads orders from stdin, a line of JSON each, and
writes reports to stdout:

    {"start": name, ...}            -> {"started": name, "pid": 17}; the rest is for `work`
    {"signal": name, "number": 9}      to a worker that has not ended
                                    -> {"ended": name, "status": 0}; negative: the signal

When stdin ends, as it does when the tests are killed, it kills its workers and ends: none is left.
"""

import asyncio
import contextlib
import json
import logging
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ledger import Ledger

from dpq import DPQ, AsyncDPQ, AsyncWorker, Task, Worker


def note_what_is_held(leases: Any, ledger: Ledger) -> None:
    """Write down each task that reaches the process, prefetched or not."""
    hold = leases.hold

    def hold_and_note(tasks: Sequence[Task[Any]], *rest: Any) -> Any:
        for task in tasks:
            ledger.note("held", task)
        return hold(tasks, *rest)

    leases.hold = hold_and_note


def work(
    kind: str, url: str, queue: str, ledger: str, until_empty: bool = False, **settings: Any
) -> None:
    """Run a worker; its handler takes `payload["ms"]` milliseconds, and notes the task.

    Args:
        kind: "sync" or "async".
        url: The server.
        queue: The queue's name.
        ledger: The process's own file.
        until_empty: As in `Worker.run`.
        settings: Those of `Worker`.
    """
    book = Ledger(ledger)

    def handle(task: Task[Any]) -> None:
        time.sleep(task.payload["ms"] / 1000)
        book.note("done", task)

    async def handle_async(task: Task[Any]) -> None:
        await asyncio.sleep(task.payload["ms"] / 1000)
        book.note("done", task)

    async def run_async() -> None:
        async with AsyncDPQ.from_url(url, queue) as q:
            note_what_is_held(q._leases, book)
            await AsyncWorker(q, handle_async, **settings).run(
                until_empty=until_empty, signals=True
            )

    if kind == "async":
        asyncio.run(run_async())
    else:
        with DPQ.from_url(url, queue) as q:
            note_what_is_held(q._leases, book)
            Worker(q, handle, **settings).run(until_empty=until_empty)


def fork(log: str, body: Callable[[], None]) -> int:
    """Fork a process that runs `body`, with its output in a file; its pid."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(
            signal.SIGTERM, lambda *_: leave(0)
        )  # until the worker listens: it has nothing
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
        body()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        leave(status)


def leave(status: int) -> NoReturn:
    """End a forked process, and nothing of what its parent has registered for its own end."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(status)


class Foreman:
    """Starts workers, tells them signals, and says when they have ended."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}  # not reaped yet: the numbers are still theirs
        self._orders = b""

    def run(self) -> None:
        """Follow orders until there are no more."""
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data = os.read(key.fd, 65536)
                    if key.fd == 0 and not data:
                        return
                    if key.fd == 0:
                        self._follow(data)
                self._reap()

    def end(self) -> None:
        """Kill whoever is left."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _follow(self, data: bytes) -> None:
        *orders, self._orders = (self._orders + data).split(b"\n")
        for order in map(json.loads, orders):
            if name := order.pop("start", None):
                self._pids[name] = fork(order.pop("log"), lambda order=order: work(**order))
                self._report(started=name, pid=self._pids[name])
            elif order["signal"] in self._pids:
                os.kill(self._pids[order["signal"]], order["number"])

    def _reap(self) -> None:
        for name, pid in list(self._pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._pids[name]
                self._report(ended=name, status=os.waitstatus_to_exitcode(status))

    def _report(self, **report: Any) -> None:
        os.write(1, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    foreman = Foreman()
    try:
        foreman.run()
    finally:
        foreman.end()
