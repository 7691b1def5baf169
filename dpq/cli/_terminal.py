"""The terminal: data on stdout, messages and the log on stderr, and the exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. With `--log json` each log record and
each message is one JSON object, whose keys are stable: docs/operations.md has them. Such a line is
ASCII, so no character of a remote text ends it or steers a terminal.
"""

import json
import logging
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, ParamSpec, TypeVar

import typer
from pydantic_core import to_json
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rich.console import Console
from typer.core import TyperGroup

from dpq.model.display import shown, shown_json
from dpq.model.errors import ConfigurationError, DPQError, ServerWarning
from dpq.model.log_fields import FIELDS
from dpq.model.masking import mask

if TYPE_CHECKING:
    from dpq.explain.verdict import Verdict

P = ParamSpec("P")
T = TypeVar("T")

FAILED, USAGE, INTERRUPTED = 1, 2, 130

TABLE_WIDTH = 160
"""Columns of a table in a file or a pipe: wide enough for ids, times and some payload."""

LOG_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)

TEXT = logging.Formatter("%(asctime)s UTC %(levelname)-7s %(message)s")
"""The form of a log record. Times are UTC, as in all that the program writes."""

TEXT.converter, TEXT.default_msec_format = time.gmtime, "%s.%03d"

on_talk: Callable[[str], object] | None = None
"""A function that writes the messages of `talk` instead, as `--log json` does."""

errors = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


class Failed(Exception):
    """The command failed for the reason in its message; exit code 1."""


def at_terminal() -> bool:
    """Return True if stdout is a terminal."""
    return sys.stdout.isatty()


def asks() -> bool:
    """Return True if a person can answer a question: stdin is a terminal."""
    return sys.stdin.isatty()


def talk(text: str) -> None:
    """Write a message to stderr."""
    if on_talk:
        on_talk(text)
    else:
        errors.print(shown(text, lines=True))


def say(*texts: object) -> None:
    """Write texts, also stored ones, as one line to stdout, with a tab between them."""
    print(*map(shown, texts), sep="\t")


def emit(value: Any, *, indent: int | None = None) -> None:
    """Write one value as a line of JSON, or indented; NaN and infinities as the queue stores them.

    At a terminal, characters that would control it are escaped; the JSON means the same.
    """
    line = to_json(value, inf_nan_mode="constants", indent=indent)
    if at_terminal():
        line = "\n".join(map(shown_json, line.decode().split("\n"))).encode()
    sys.stdout.buffer.write(line + b"\n")


def show_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an unexpected error: a `sys.excepthook`."""
    talk("".join(traceback.format_exception(kind, error, trace)).rstrip())


def tables() -> Console:
    """Make a console on stdout for tables; in a pipe it has a fixed width."""
    width = None if at_terminal() else TABLE_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def log_to_stderr(ctx: typer.Context, verbose: int) -> None:
    """Show the library's log until the program ends: warnings, or more with each `-v`."""
    logger, handler = logging.getLogger("dpq"), logging.StreamHandler()
    handler.setFormatter(TEXT)
    before = logger.level
    logger.setLevel(LOG_LEVELS[min(verbose, len(LOG_LEVELS) - 1)])
    logger.addHandler(handler)
    ctx.meta["dpq.log"] = handler
    ctx.call_on_close(lambda: logger.removeHandler(handler))
    ctx.call_on_close(lambda: logger.setLevel(before))


def tell_warnings(ctx: typer.Context) -> None:
    """Write each warning in one line, until the program ends; none of the server."""
    ctx.with_resource(warnings.catch_warnings())
    warnings.simplefilter("ignore", ServerWarning)
    warnings.showwarning = lambda message, *_: talk(f"warning: {message}")


def for_long(command: Callable[P, T]) -> Callable[P, T]:
    """Let a command that runs for long log what it does without `-v`, and warn of the server."""

    @wraps(command)
    def run(*args: P.args, **given: P.kwargs) -> T:
        logger = logging.getLogger("dpq")
        logger.setLevel(logging.DEBUG if logger.level < logging.WARNING else logging.INFO)
        warnings.simplefilter("default", ServerWarning)
        return command(*args, **given)

    return run


class Program(TyperGroup):
    """The program: shows each error as one line, with the password in the URL masked."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept `-v` also behind the command."""
        return super().parse_args(ctx, loud_first(args))

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:  # the program that reads stdout has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            talk("interrupted")
            raise typer.Exit(INTERRUPTED) from error
        except ConfigurationError as error:
            _report(ctx, error, USAGE)
        except (DPQError, RedisError, OSError, Failed) as error:
            away: Exception = error
            if said := server_away_by(error):
                away = Failed(f"{str(said).rstrip('.')}. {said.what_to_do}")
                away.__cause__ = error
            _report(ctx, away, FAILED)
        return result


def server_away_by(error: BaseException, queue: str = "") -> "Verdict | None":
    """Make the verdict `server away` of an error which says that a server does not answer."""
    from dpq.explain.verdict import server_away
    from dpq.queue.looking import no_answer

    silent = isinstance(error, RedisConnectionError | RedisTimeoutError)
    if not silent or isinstance(error, AuthenticationError):  # then the server has answered
        return None
    return server_away(queue, no_answer(error), time.time() * 1000)


def loud_first(args: list[str]) -> list[str]:
    """Move every `-v` to the front, but nothing behind `--`."""
    end = args.index("--") if "--" in args else len(args)
    loud = [word for word in args[:end] if word == "--verbose" or re.fullmatch("-v+", word)]
    return loud + [word for word in args[:end] if word not in loud] + args[end:]


def _report(ctx: Any, error: Exception, code: int) -> NoReturn:
    text = " ".join(str(error).split()) or type(error).__name__
    lines = [f"error: {text}"]
    if ctx.params.get("verbose"):
        lines = [*traceback.format_exception(error), *lines]
    url = str(ctx.params.get("url"))
    if ":" in url:  # a URL without ":" has no password, and may be a part of any text
        lines = [line.replace(url, mask(url)) for line in lines]
    talk("".join(lines))
    raise typer.Exit(code) from error


# The log as JSON

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
    global on_talk
    own, everybody = logging.getLogger("dpq"), logging.getLogger()
    own.removeHandler(handler)
    everybody.addHandler(handler)
    before, on_talk = on_talk, lambda text: handler.handle(_talked(text))
    try:
        yield
    finally:
        on_talk = before
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
        rich_help_panel="Seldom needed",
    ),
]
