"""`dpq push`: one task from the command line, or any number from a file or stdin, in slices."""

import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer
from pydantic_core import from_json
from redis.exceptions import RedisError
from rich.progress import BarColumn, TaskProgressColumn, TimeElapsedColumn

from dpq import DPQ, Push, QueueFullError
from dpq.batch.reader import BYTE_ORDER_MARK, Numbered, slices
from dpq.cli import _command as cmd
from dpq.cli._progress import Bar
from dpq.cli._terminal import Failed, talk
from dpq.model.errors import DPQError
from dpq.model.queue_settings import DEFAULT_MAX_ATTEMPTS
from dpq.model.rates import many
from dpq.views.words import batch_counts


def _moment(text: object) -> datetime:
    with suppress(ValueError):
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment and moment.utcoffset() is not None:
            return moment
    raise ValueError(f"at: {text!r} must be a time with a time zone, as in 2026-12-24T18:00+01:00")


_attempts = cmd.reader(
    lambda text: math.inf if text == cmd.FOREVER else int(text), f"a whole number, or {cmd.FOREVER}"
)


@cmd.on_new_queue
def push(
    q: DPQ[Any],
    ctx: typer.Context,
    payload: Annotated[str | None, cmd.argument("JSON")] = None,
    file: Annotated[Path | None, cmd.option("PATH")] = None,
    full: bool = False,
    priority: cmd.Number = 0,
    delay: cmd.Seconds = 0,
    at: Annotated[Any, cmd.option("MOMENT", parser=cmd.reader(_moment))] = None,
    group: cmd.Name | None = None,
    key: cmd.Name | None = None,
    on_duplicate: Annotated[
        Literal["keep", "update", "raise_priority", "rerun", "error"], cmd.option("MODE")
    ] = "keep",
    max_attempts: Annotated[Any, cmd.option("N", parser=_attempts)] = DEFAULT_MAX_ATTEMPTS,
    expires_in: cmd.Seconds | None = None,
    cost: cmd.Units = 1,
    every: cmd.Seconds | None = None,
    cron: Annotated[str | None, cmd.option("EXPR")] = None,
    timezone: Annotated[str, cmd.option("ZONE")] = "UTC",
    batch: cmd.Name | None = None,
    seal: bool = False,
    unique_for: cmd.Seconds | None = None,
    after: Annotated[list[str] | None, cmd.option("ID")] = None,
    timeout: cmd.Seconds = 0,
    order: cmd.NewOrder | None = None,
) -> None:
    """Add one task, or one for each line of a file or of stdin; print the ids.

    A bad line ends the command; the lines before it are pushed. With --full, a line may have all
    arguments of the library's `push`, such as debounce, backoff or time_limit.

    Args:
        payload: One payload. Without it, stdin is read.
        file: A file with one JSON payload on each line (NDJSON); - is stdin.
        full: Each line is an object: payload, and options by name, such as on_duplicate. The
            options given here are the defaults.
        priority: Higher runs first (lower if the order is "min"): any 64-bit int, or float.
        at: When it is ready, as 2026-12-24T18:00+01:00.
        group: Tasks of one group share a limit.
        key: A name that only one stored task has.
        on_duplicate: If the key is taken: keep, update, raise_priority, rerun or error.
        cost: The units it takes of each limit: 3, or by name, as in tokens=1800.
        every: Run again this often.
        cron: Run again at these times, as 'minute hour day month weekday'.
        unique_for: Its key stays taken this long after its ack; inf: for ever.

    Seldom needed:
        max_attempts: Failures until it is dead; inf: never.
        expires_in: If it has not started within this time, it is dead.
        timezone: Time zone of --cron.
        batch: Its batch, which `dpq stats --batch` counts.
        seal: No more tasks of --batch are to come.
        after: A task that must end before it; repeat it for more.
        timeout: Wait this long for room in a full queue.
    """
    if seal and batch is None:
        raise typer.BadParameter("name the batch with --batch", param_hint="--seal")
    options = {name: ctx.params[name] for name in Push._fields[1:] if name in ctx.params}
    if payload is None:
        with open_lines(file, "give JSON, --file PATH, or lines of JSON on stdin") as stream:
            push_lines(q, stream, partial(_push, options, full), timeout)
    elif full or file:
        raise typer.BadParameter("give JSON, or lines with --file or --full, not both")
    else:
        print(q.push(json_value(payload), **options, timeout=timeout))
    if seal:
        talk(f"sealed batch {batch!r}: {batch_counts(q.seal_batch(str(batch)))}")
    if ctx.params["url"].partition("?")[0] == "embedded:":
        talk(
            "warning: the server of embedded: ends with this command, and its queue is lost; use "
            "embedded:./queue to keep it"
        )


def json_value(text: str) -> Any:
    """Read JSON of the command line."""
    try:
        return from_json(text)
    except ValueError as error:
        said = f"it is not JSON: {error}; a string needs quotes, as in '\"hello\"'"
        raise typer.BadParameter(said, param_hint="JSON") from None


def _push(options: dict[str, Any], full: bool, value: Any) -> Push[Any]:
    if not full:
        return Push[Any](payload=value, **options)
    if not isinstance(value, dict) or "payload" not in value:
        raise ValueError("payload: with --full, each line must be an object with a payload")
    if unknown := sorted(set(value) - set(Push._fields)):
        raise ValueError(f"{unknown[0]}: push has no such argument")
    if value.get("at") is not None:
        value["at"] = _moment(value["at"])
    if any(type(each) is int for each in value.get("after") or ()):
        raise ValueError("after: it must be a list of ids")
    return Push[Any](**{**options, **value})


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
    done, read, size = 0, 0, _size(stream)
    with Bar(BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as bar:
        for lines in slices(stream):
            pushes, refusal = _pushes(lines, to_push)
            ids, fault = _push_some(q, pushes, lines, timeout)
            sys.stdout.write("".join(f"{task_id}\n" for task_id in ids))
            sys.stdout.flush()
            done += len(ids)
            read += sum(len(line) + 1 for _, line in lines)
            bar.show(f"{done} tasks pushed", read, size)
            if fault or refusal:
                before = many(done, "task before was", "tasks before were")
                raise Failed(f"{fault or refusal}; {before} pushed")
    talk(f"pushed {many(done, 'task')} to {q.queue_name!r}")


def _size(stream: BinaryIO) -> int | None:
    """Return the bytes of the stream; None if they are not known, as for a pipe."""
    with suppress(OSError):  # it is no file
        return os.fstat(stream.fileno()).st_size or None
    return None


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


def _push_some(
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
