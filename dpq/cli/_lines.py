"""A stream of lines -> tasks in the queue, in slices, so that the memory is bounded."""

import os
import stat
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import typer
from pydantic_core import from_json
from redis.exceptions import RedisError
from rich.progress import BarColumn, TaskProgressColumn, TimeElapsedColumn

from dpq import DPQ, Push, QueueFullError
from dpq.batch.lines import BYTE_ORDER_MARK, Numbered, slices
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, talk
from dpq.model.errors import DPQError


def open_lines(file: Path | None, asked: str) -> AbstractContextManager[BinaryIO]:
    """Open a file, or stdin; at a terminal ask for one."""
    if file and file != Path("-"):
        return file.open("rb")
    if sys.stdin.isatty():
        raise typer.BadParameter(asked)
    return nullcontext(sys.stdin.buffer)


def push_lines(
    q: DPQ[Any], stream: BinaryIO, to_push: Callable[[Any], Push[Any]], timeout: float = 0
) -> None:
    """Push every line of a stream and print the ids, in order, up to the first bad line."""
    done = 0
    read, size = 0, _size(stream)
    with Bar(BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as bar:
        for lines in slices(stream):
            pushes, refusal = _pushes(lines, to_push)
            ids, fault = _push(q, pushes, lines, timeout)
            sys.stdout.write("".join(f"{task_id}\n" for task_id in ids))
            sys.stdout.flush()
            done += len(ids)
            read += sum(len(line) + 1 for _, line in lines)
            bar.show(f"{done} tasks pushed", read, size)
            if fault or refusal:
                raise Failed(f"{fault or refusal}; {done} tasks before were pushed")
    talk(f"pushed {done} tasks to {q.queue_name!r}")


def _size(stream: BinaryIO) -> int | None:
    """Return the bytes of the stream; None if they are not known, as for a pipe."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _pushes(
    lines: list[Numbered], to_push: Callable[[Any], Push[Any]]
) -> tuple[list[Push[Any]], str]:
    """Make the pushes up to the first bad line; return them, and the fault of that line."""
    pushes: list[Push[Any]] = []
    for number, line in lines:
        try:
            value = from_json(line.removeprefix(BYTE_ORDER_MARK))
        except ValueError as error:
            return pushes, f"line {number}: it must be one JSON value: {error}"
        try:
            pushes.append(to_push(value))
        except ValueError as error:
            return pushes, f"line {number}: {error}"
    return pushes, ""


def _push(
    q: DPQ[Any], pushes: list[Push[Any]], lines: list[Numbered], timeout: float
) -> tuple[list[str], str]:
    """Push some lines; return the ids of the first ones, and the fault of the others."""
    ids, stored = list[str](), dict[int, str]()
    try:
        try:
            return q.push_many(pushes), ""
        except QueueFullError as full:
            stored = full.stored
            for index, push in enumerate(pushes):
                if index not in stored and not timeout:
                    raise
                ids.append(stored.get(index) or q.push(**push._asdict(), timeout=timeout))
            return ids, ""
    except DPQError as error:
        part = "some of these were" if len(stored) > len(ids) else "none of these was"
        return ids, f"{_rest(lines, ids)}: {error}; {part} pushed"
    except RedisError as error:
        return ids, f"{_rest(lines, ids)}: {error}; these were pushed or not"


def _rest(lines: list[Numbered], ids: list[str]) -> str:
    return f"lines {lines[len(ids)][0]} to {lines[-1][0]}"
