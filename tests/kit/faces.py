"""Both faces of DPQ, called alike: tests that say the same of each are written once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kit.awaited import Awaited, AwaitedWorker, loop_in_a_thread

from dpq import DPQ, Worker


class Face(NamedTuple):
    """What a queue and a worker are made of."""

    queue: Any
    worker: Any


FACES = {"blocking": Face(DPQ, Worker), "asyncio": Face(Awaited, AwaitedWorker)}


@contextmanager
def face_of(kind: str) -> Iterator[Face]:
    """A face, with the event loop that it needs."""
    if kind == "blocking":
        yield FACES[kind]
        return
    with loop_in_a_thread():
        yield FACES[kind]
