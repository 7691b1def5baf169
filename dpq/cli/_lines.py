"""A stream of lines -> tasks in the queue, in slices, so that the memory is bounded."""

import os
import stat
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from pydantic_core import from_json
from redis.exceptions import RedisError
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dpq import DPQ, Push
from dpq.batch.lines import BYTE_ORDER_MARK, Numbered, slices
from dpq.cli._terminal import Failed, errors, talk
from dpq.model.errors import DPQError


def push_lines(q: DPQ[Any], stream: BinaryIO, to_push: Callable[[Any], Push[Any]]) -> None:
    """Push every line of a stream and print the ids, in order.

    Args:
        q: The queue.
        stream: Lines of JSON.
        to_push: Makes a push of a line's value, or raises ValueError with the reason.

    Raises:
        Failed: A line is refused; the tasks of the lines before it are in the queue.
    """
    done = 0
    with _progress() as progress:
        bar = progress.add_task("", total=_size(stream), done=0)
        for lines in slices(stream):
            pushes, refusal = _pushes(lines, to_push)
            ids = _push(q, pushes, lines, done)
            sys.stdout.write("".join(f"{task_id}\n" for task_id in ids))
            sys.stdout.flush()
            done += len(ids)
            progress.update(bar, advance=sum(len(line) + 1 for _, line in lines), done=done)
            if refusal:
                raise Failed(f"{refusal}; {_before(done)}")
    talk(f"pushed {done} tasks to {q.queue_name!r}")


def _progress() -> Progress:
    columns = (
        TextColumn("{task.fields[done]} tasks pushed"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    # rich can redirect stdout to its own stream: right only if both are the terminal
    mixed = sys.stdout.isatty()
    hidden = not errors.is_terminal
    return Progress(*columns, console=errors, redirect_stdout=mixed, disable=hidden, transient=True)


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


def _push(q: DPQ[Any], pushes: list[Push[Any]], lines: list[Numbered], done: int) -> list[str]:
    where = f"lines {lines[0][0]} to {lines[-1][0]}"
    try:
        return q.push_many(pushes)
    except DPQError as error:
        raise Failed(f"{where}: {error}; none of these was pushed; {_before(done)}") from error
    except RedisError as error:
        raise Failed(f"{where}: {error}; these were pushed or not; {_before(done)}") from error


def _before(done: int) -> str:
    return f"{done} tasks before were pushed"
