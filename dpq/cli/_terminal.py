"""The terminal: data on stdout, messages and the log on stderr, and the exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. With `--log json` each log record and
each message is one JSON object, whose keys are stable: docs/operations.md has them. Such a line is
ASCII, so no character of a remote text ends it or steers a terminal.
"""

import json
import logging
import math
import os
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NoReturn

import typer
from pydantic_core import to_json
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rich.console import Console
from typer.core import TyperGroup

from dpq.explain.verdict_facts import Verdict, server_away
from dpq.model.display import shown, shown_json
from dpq.model.errors import ConfigurationError, DPQError, ServerWarning
from dpq.model.log_fields import FIELDS
from dpq.model.masking import mask
from dpq.queue.looking import no_answer

FAILED, USAGE, INTERRUPTED = 1, 2, 130

TABLE_WIDTH = 160  # columns in a file or a pipe: wide enough for ids, times and some payload
TEXT = logging.Formatter("%(asctime)s UTC %(levelname)-7s %(message)s")
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


def show_fault(kind: Any, error: BaseException, trace: Any) -> None:
    """Show an unexpected error: a `sys.excepthook`."""
    talk("".join(traceback.format_exception(kind, error, trace)).rstrip())


def tables() -> Console:
    """Make a console on stdout for tables; in a pipe it has a fixed width."""
    width = None if at_terminal() else TABLE_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def log_to_stderr(ctx: typer.Context, verbose: int) -> None:
    """Show the library's log: warnings, or more with each `-v`; no warning of the server."""
    global on_talk
    on_talk = None
    logger, handler = logging.getLogger("dpq"), logging.StreamHandler()
    handler.setFormatter(TEXT)
    before = logger.level
    logger.setLevel((logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)])
    logger.addHandler(handler)
    ctx.meta["dpq.log"] = handler
    ctx.call_on_close(lambda: logger.removeHandler(handler))
    ctx.call_on_close(lambda: logger.setLevel(before))
    ctx.with_resource(warnings.catch_warnings())
    warnings.simplefilter("ignore", ServerWarning)
    warnings.showwarning = lambda message, *_: talk(f"warning: {message}")


def log_more() -> None:
    """Log what a daemon does without `-v`, and warn of its server."""
    logger = logging.getLogger("dpq")
    logger.setLevel(logging.DEBUG if logger.level < logging.WARNING else logging.INFO)
    warnings.simplefilter("default", ServerWarning)


class Program(TyperGroup):
    """The program: shows each error as one line, with the password in the URL masked."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move every `-v` to the front, but nothing behind `--`."""
        end = args.index("--") if "--" in args else len(args)
        loud = [word for word in args[:end] if word == "--verbose" or re.fullmatch("-v+", word)]
        rest = [word for word in args[:end] if word not in loud]
        return super().parse_args(ctx, loud + rest + args[end:])

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


def server_away_by(error: BaseException, queue: str = "") -> Verdict | None:
    """Make the verdict `server away` of an error which says that a server does not answer."""
    silent = isinstance(error, RedisConnectionError | RedisTimeoutError)
    if not silent or isinstance(error, AuthenticationError):  # then the server has answered
        return None
    return server_away(queue, no_answer(error), time.time() * 1000)


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
LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}
PIPE_BYTES = 4096  # of a line in a pipe of several processes: a longer one may be torn


class JsonLines(logging.Formatter):
    """Formats records as JSON, one in a line of `most_bytes` at most."""

    def __init__(self, most_bytes: float = math.inf) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def format(self, record: logging.LogRecord) -> str:
        """Write a record: its time, level, logger, message and fields."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": at.replace("+00:00", "Z"), "level": record.levelname}
        line |= {"logger": record.name, "message": shown(record.getMessage())}
        line |= {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        if record.exc_text:
            line["traceback"] = record.exc_text
        elif record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        while len(text := json.dumps(line, default=str)) >= self._most_bytes:
            name = max(line, key=lambda each: len(str(line[each])))
            long = str(line[name])
            line[name] = f"{long[: len(long) // 3]} ... {long[-len(long) // 3 :]}"
        return text


def style(ctx: typer.Context, value: LogStyle) -> LogStyle:
    """Write the log of all loggers, and all messages, in a style: a callback of the option."""
    global on_talk
    if value == "json" and "dpq.log" in ctx.meta:
        handler: logging.Handler = ctx.meta["dpq.log"]
        in_shared_pipe = ctx.params.get("report_to") is not None
        handler.setFormatter(JsonLines(PIPE_BYTES if in_shared_pipe else math.inf))
        logging.getLogger("dpq").removeHandler(handler)
        logging.getLogger().addHandler(handler)
        ctx.find_root().call_on_close(lambda: logging.getLogger().removeHandler(handler))
        on_talk = lambda text: handler.handle(_talked(text))  # noqa: E731
    return value


def _talked(text: str) -> logging.LogRecord:
    first, _, rest = text.partition(": ")
    level = LEVELS.get(first, logging.ERROR if "Traceback (most" in first else logging.INFO)
    said = rest if first in LEVELS else text
    record = logging.LogRecord("dpq.cli", level, "", 0, "%s", (said,), None)
    record.event = "message"
    return record


Log = Annotated[LogStyle, typer.Option("--log", envvar="DPQ_LOG", callback=style)]
