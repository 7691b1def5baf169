"""`--log json`: one JSON object for each log record, and for each message of the program.

The keys are stable: docs/operations.md has them. A line is ASCII, so no character of a remote text
ends it or steers a terminal.
"""

import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from dpq.cli import _terminal
from dpq.cli._options import SELDOM
from dpq.model.display import shown
from dpq.model.log_fields import FIELDS

LogStyle = Literal["text", "json"]

PIPE_BYTES = 4096
"""Bytes of a line that several processes write to one pipe: a longer line may be torn. So the
longest field of such a line is cut in its middle."""

LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}


class JsonLines(logging.Formatter):
    """Formats records as JSON, one in a line of `most_bytes` at most."""

    def __init__(self, most_bytes: int | None = None) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def format(self, record: logging.LogRecord) -> str:
        """Write a record: its time, level, logger, message and fields."""
        line: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": shown(_message(record)),
        }
        line |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_text:
            line["traceback"] = record.exc_text
        elif record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return self._fitting(line)

    def _fitting(self, line: dict[str, Any]) -> str:
        text = _json(line)
        while self._most_bytes and len(text) >= self._most_bytes:
            name = max(line, key=lambda each: len(str(line[each])))
            long = str(line[name])
            line[name] = f"{long[: len(long) // 3]} ... {long[-len(long) // 3 :]}"
            text = _json(line)
        return text


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # the program logs badly: write the record, and its fault
        return f"{record.msg!s}: its arguments do not fit: {traceback.format_exc(limit=0)}"


def _json(line: dict[str, Any]) -> str:
    try:
        return json.dumps(line, default=str, allow_nan=False)
    except ValueError:  # NaN and the infinities are no JSON: write them as texts
        said = {
            name: value if isinstance(value, str | int | None) else str(value)
            for name, value in line.items()
        }
        return json.dumps(said)


def style(ctx: typer.Context, value: LogStyle) -> LogStyle:
    """Write the log in a style until the program ends: a callback of the option."""
    if value == "json" and "dpq.log" in ctx.meta:
        handler: logging.Handler = ctx.meta["dpq.log"]
        in_shared_pipe = ctx.params.get("child_of") is not None
        handler.setFormatter(JsonLines(PIPE_BYTES if in_shared_pipe else None))
        ctx.find_root().with_resource(_all_in(handler))
    return value


@contextmanager
def _all_in(handler: logging.Handler) -> Iterator[None]:
    """Let a handler write the records of all loggers, and the messages of this program."""
    own, everybody = logging.getLogger("dpq"), logging.getLogger()
    own.removeHandler(handler)
    everybody.addHandler(handler)
    before, _terminal.on_talk = _terminal.on_talk, lambda text: handler.handle(_talked(text))
    try:
        yield
    finally:
        _terminal.on_talk = before
        everybody.removeHandler(handler)


def _talked(text: str) -> logging.LogRecord:
    first, _, rest = text.partition(": ")
    level = LEVELS.get(first, logging.ERROR if "Traceback (most" in first else logging.INFO)
    said = rest if first in LEVELS else text
    record = logging.LogRecord("dpq.cli", level, "", 0, "%s", (said,), None)
    record.event = "message"
    return record


Log = Annotated[
    LogStyle,
    typer.Option(
        "--log",
        envvar="DPQ_LOG",
        callback=style,
        help="How to log: text; or json, one object on each line, with stable keys.",
        rich_help_panel=SELDOM,
    ),
]
