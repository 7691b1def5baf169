"""Several processes that do the same work in slices, as told by the benchmark.

A slice begins in all processes at the same moment and takes the same time. Each process says what
it has done. Processes are started once for all slices: a start takes longer than a slice.
"""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

HEAD_START = 0.02
"""Seconds from the word to the beginning of a slice: by then all processes have it."""

PATIENCE = 60
"""Seconds until a process that does not answer is given up."""

Work = Callable[[Any, str, float], Any]
"""Gets what `Opened` returned, the kind of the slice and its end; returns what was done."""

Opened = Callable[[str, str], Any]
"""Gets the URL and the name of the queue."""


def _serve(
    opened: Opened, work: Work, url: str, name: str, cores: Sequence[int], words: Connection
) -> None:
    if cores:
        os.sched_setaffinity(0, cores)
    tools = opened(url, name)
    words.send("ready")
    while (word := words.recv()) is not None:
        kind, begin, end = word
        time.sleep(max(0.0, begin - time.monotonic()))
        words.send(work(tools, kind, end))


class Processes:
    """The processes of one measure."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def slice(self, kind: str, seconds: float) -> list[Any]:
        """Let all processes work for so long; return what each has done."""
        begin = time.monotonic() + HEAD_START
        for pipe in self._pipes:
            pipe.send((kind, begin, begin + seconds))
        return [self._answer(pipe) for pipe in self._pipes]

    def _answer(self, pipe: Connection) -> Any:
        if not pipe.poll(PATIENCE):
            raise TimeoutError(f"a process has not answered within {PATIENCE} s")
        return pipe.recv()

    def ready(self) -> None:
        for pipe in self._pipes:
            assert self._answer(pipe) == "ready"


@contextmanager
def processes(
    count: int,
    opened: Opened,
    work: Work,
    url: str,
    name: str,
    cores: Sequence[int] = (),
) -> Iterator[Processes]:
    """Start processes; they end with the block. `cores`: where they may run, if not as this one."""
    context = multiprocessing.get_context("spawn")
    pipes, started = [], []
    for _ in range(count):
        here, there = context.Pipe()
        process = context.Process(
            target=_serve, args=(opened, work, url, name, cores, there), daemon=True
        )
        process.start()
        there.close()
        pipes.append(here)
        started.append(process)
    try:
        several = Processes(pipes)
        several.ready()
        yield several
        for pipe in pipes:
            pipe.send(None)
        for process in started:
            process.join(PATIENCE)
    finally:
        for process in started:
            process.kill()
            process.join()
