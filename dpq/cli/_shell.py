"""How the program meets its terminal: data on stdout, talk on stderr, and how it ends.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Must not know what a queue is.
"""

import logging
import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

import typer
from pydantic_core import to_json
from redis.exceptions import RedisError
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from dpq._url import mask
from dpq.errors import ConfigurationError, DPQError

FAILED, USAGE, INTERRUPTED = 1, 2, 130

TABLE_WIDTH = 160
"""Columns of a table in a file or a pipe: wide enough for ids, times and some payload."""

FOREVER = "inf"
"""What `--wait` without a number stands for."""

LOG_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)

errors = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


class Failed(Exception):
    """The command failed for a reason that its message tells; exit code 1."""


def talk(text: str) -> None:
    """Say something to the person at the terminal."""
    errors.print(text)


def emit(value: Any) -> None:
    """Write one value as one line of JSON; NaN and the infinities as the queue stores them."""
    sys.stdout.buffer.write(to_json(value, inf_nan_mode="constants") + b"\n")


def tables() -> Console:
    """A console on stdout that takes texts as they are and never wraps what is piped."""
    width = None if sys.stdout.isatty() else TABLE_WIDTH
    return Console(markup=False, highlight=False, emoji=False, width=width)


def log_to_stderr(ctx: typer.Context, verbose: int) -> None:
    """Show the library's log until the program ends: warnings, or more with each `-v`."""
    logger, handler = logging.getLogger("dpq"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    before = logger.level
    logger.setLevel(LOG_LEVELS[min(verbose, len(LOG_LEVELS) - 1)])
    logger.addHandler(handler)
    ctx.call_on_close(lambda: logger.removeHandler(handler))
    ctx.call_on_close(lambda: logger.setLevel(before))


def tell_warnings(ctx: typer.Context) -> None:
    """Say warnings in one line each, until the program ends."""
    ctx.with_resource(warnings.catch_warnings())
    warnings.showwarning = lambda message, *_: talk(f"warning: {message}")


class Program(TyperGroup):
    """Turns every error into one clear line, with the password in the URL masked."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:  # whoever read stdout has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            talk("interrupted")
            raise typer.Exit(INTERRUPTED) from error
        except ConfigurationError as error:
            _report(ctx, error, USAGE)
        except (DPQError, RedisError, OSError, Failed) as error:
            _report(ctx, error, FAILED)
        return result


def _report(ctx: Any, error: Exception, code: int) -> NoReturn:
    told = " ".join(str(error).split()) or type(error).__name__
    lines = [f"error: {told}"]
    if ctx.params.get("verbose"):
        lines = [*traceback.format_exception(error), *lines]
    url = str(ctx.params.get("url"))
    talk("".join(lines).replace(url, mask(url)))
    raise typer.Exit(code) from error


class BareNumber(TyperCommand):
    """Lets `--wait` stand without its number, for ever; and `--watch`, at its usual pace."""

    bare = {"--wait": FOREVER, "--watch": "1"}  # noqa: RUF012 - never changed

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the number that is left out."""
        full: list[str] = []
        for position, word in enumerate(args):
            full.append(word)
            if word in self.bare and not _is_number(args[position + 1 : position + 2]):
                full.append(self.bare[word])
        return super().parse_args(ctx, full)


def _is_number(words: list[str]) -> bool:
    try:
        return bool(words) and float(words[0]) is not None
    except ValueError:
        return False
