"""A stream of lines, in slices, so that the memory is bounded. `dpq run` and `dpq push` read so."""

from collections.abc import Callable, Iterator
from typing import BinaryIO

from dpq.model.errors import DPQError

__all__ = ["BatchError"]

CHUNK_BYTES = 1024 * 1024
"""Bytes of one read at most; a pipe gives the bytes it has, so no task waits for the next one."""

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Bytes of a line at most: a payload of 1 MiB, the queue's bound, fits with all its escapes."""

SLICE_LINES = 200
"""Lines of a slice: push_many sends them in one round trip, so all of them are added, or none."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The bytes that some editors write before UTF-8."""


class BatchError(DPQError):
    """The file of requests, its results or the queue do not fit. Nothing was sent."""


Numbered = tuple[int, bytes]
"""A line and its number, from 1."""


def slices(stream: BinaryIO) -> Iterator[list[Numbered]]:
    """Cut a stream into slices of lines that are not blank."""
    rest, number = b"", 0
    while chunk := _read(stream):
        *whole, rest = (rest + chunk).split(b"\n")
        lines = list(enumerate(whole, number + 1))
        number += len(whole)
        yield from _filled(lines)
        if len(rest) > MAX_LINE_BYTES:
            raise BatchError(f"line {number + 1} is too long: at most {MAX_LINE_BYTES} bytes")
    yield from _filled([(number + 1, rest)])


def _read(stream: BinaryIO) -> bytes:
    read1: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    return read1(CHUNK_BYTES)


def _filled(lines: list[Numbered]) -> Iterator[list[Numbered]]:
    filled = [line for line in lines if line[1].strip()]
    for start in range(0, len(filled), SLICE_LINES):
        yield filled[start : start + SLICE_LINES]
