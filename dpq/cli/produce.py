"""`dpq push`: one task from the command line, or any number from a file or stdin."""

import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from pydantic_core import from_json

from dpq import DPQ, Push
from dpq.cli._lines import push_lines
from dpq.cli._options import (
    DEFAULT_QUEUE,
    DEFAULT_URL,
    Delay,
    Priority,
    Queue,
    Url,
    read_cost,
)
from dpq.cli._terminal import talk
from dpq.queue.base import DEFAULT_MAX_ATTEMPTS


class Duplicate(StrEnum):
    """The action of a push whose key is taken; typer needs an enum."""

    KEEP = "keep"
    UPDATE = "update"
    RAISE_PRIORITY = "raise_priority"
    RERUN = "rerun"
    ERROR = "error"


def push(
    payload: Annotated[
        str | None,
        typer.Argument(metavar="[JSON]", help="One payload. Without it, stdin is read."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="A file with one JSON payload on each line (NDJSON); - is stdin.",
            show_default="stdin",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Each line is an object with the arguments of push: payload, and optionally "
            "priority, delay, at, group, key, on_duplicate, max_attempts, expires_in, cost, every, "
            "cron, timezone, visibility, time_limit, member. The options here are the defaults.",
        ),
    ] = False,
    priority: Priority = 0,
    delay: Delay = 0,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Time when it is due, instead of --delay, as in 2026-12-24T18:00+01:00.",
            show_default="now",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Tasks of one group share a limit.", show_default="none")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="A unique name, taken as long as the task is stored, also dead.",
            show_default="none",
        ),
    ] = None,
    on_duplicate: Annotated[
        Duplicate, typer.Option(help="What to do if the key is taken.")
    ] = Duplicate.KEEP,
    max_attempts: Annotated[
        int, typer.Option(help="Failed attempts until the task is dead.")
    ] = DEFAULT_MAX_ATTEMPTS,
    expires_in: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="If it has not started by then, it is dead.",
            show_default="never",
        ),
    ] = None,
    cost: Annotated[
        Any,
        typer.Option(
            parser=read_cost,
            metavar="UNITS",
            help="Requests that it takes of every limit; or by unit, as in tokens=1800.",
        ),
    ] = 1,
    every: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Run again every so many seconds.", show_default="once"
        ),
    ] = None,
    cron: Annotated[
        str | None,
        typer.Option(
            metavar="'M H D M W'",
            help="Run again at the times of a cron expression.",
            show_default="once",
        ),
    ] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Time zone of --cron, as in Europe/Berlin.")
    ] = "UTC",
    visibility: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Length of its leases.", show_default="the consumer's"
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Longest run of its handler.", show_default="the worker's"
        ),
    ] = None,
    member: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The member of its group's pool that it is to run as.",
            show_default="any",
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="For a new queue: spread it over so many slots of a cluster.",
            show_default="1, or as the queue has",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    queue: Queue = DEFAULT_QUEUE,
) -> None:
    """Add one task, or one for each line of a file or of stdin; prints the ids.

    Lines are pushed as they come, so a file may be long and a pipe may be slow.
    A bad line ends the command; the tasks of the lines before it are in the queue.
    """
    options: dict[str, Any] = {"priority": priority, "delay": delay, "group": group, "key": key}
    options |= {"on_duplicate": on_duplicate.value, "max_attempts": max_attempts}
    options |= {"expires_in": expires_in, "cost": cost, "at": _option_at(at)}
    options |= {"every": every, "cron": cron, "timezone": timezone}
    options |= {"visibility": visibility, "time_limit": time_limit, "member": member}
    with (
        _source(payload, file, full) as stream,
        DPQ[Any].from_url(url, queue, partitions=partitions) as q,
    ):
        if payload is None:
            push_lines(q, stream, partial(_full_push if full else _push, options))
        else:
            print(q.push(_value(payload), **options))
    _tell_of_throw_away(url)


def _tell_of_throw_away(url: str) -> None:
    if url.partition("?")[0] == "embedded:":
        talk(
            "warning: the server of embedded: ends with this command, and its queue is lost; use "
            "embedded:./queue to keep it"
        )


def _source(payload: str | None, file: Path | None, full: bool) -> AbstractContextManager[BinaryIO]:
    """Open the source of the lines; an empty one if there is a payload."""
    if payload is not None:
        if full or file:
            raise typer.BadParameter("give JSON, or lines with --file or --full, not both")
        _value(payload)  # refused before a server is asked
        return BytesIO()
    if file and file != Path("-"):
        return file.open("rb")
    if sys.stdin.isatty():
        raise typer.BadParameter("give JSON, --file PATH, or lines of JSON on stdin")
    return nullcontext(sys.stdin.buffer)


def _value(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"it is not JSON: {error}; a string needs quotes, as in '\"hello\"'",
            param_hint="JSON",
        ) from None


def _moment(text: object) -> datetime:
    """Read a moment with a time zone.

    Raises:
        ValueError: The text is no such moment.
    """
    with suppress(ValueError):
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        if moment and moment.utcoffset() is not None:
            return moment
    raise ValueError(f"at: {text!r} must be a time with a time zone, as in 2026-12-24T18:00+01:00")


def _option_at(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return _moment(text)
    except ValueError as error:
        raise typer.BadParameter(str(error).removeprefix("at: "), param_hint="--at") from None


def _push(options: dict[str, Any], value: Any) -> Push[Any]:
    return Push[Any](payload=value, **options)


def _full_push(options: dict[str, Any], value: Any) -> Push[Any]:
    if not isinstance(value, dict) or "payload" not in value:
        raise ValueError("payload: with --full, each line must be an object with a payload")
    if unknown := sorted(set(value) - set(Push._fields)):
        raise ValueError(f"{unknown[0]}: push has no such argument")
    if value.get("at") is not None:
        value["at"] = _moment(value["at"])
    return Push[Any](**{**options, **value})
