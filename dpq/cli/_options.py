"""The options and arguments that several commands share.

`--url` and `--queue` stand before the command or after it; the later one wins.
"""

import math
import re
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, TypeVar

import typer
from redis.exceptions import RedisError
from typer.core import TyperCommand

from dpq.limits.header_values import span_in
from dpq.link.connect import open_url
from dpq.model.errors import DPQError
from dpq.model.masking import SCHEMES
from dpq.model.queue_settings import Order
from dpq.registry.all_queues import known_queues
from dpq.types import Cost

WITHIN_SECONDS = 1.0
"""Seconds for the server to answer: somebody waits at the terminal."""


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the names of queues that begin so; none if the server does not answer soon."""
    url = str(ctx.params.get("url") or ctx.find_root().params.get("url"))
    if url.startswith("embedded:"):
        return []
    names: list[str] = []
    looking = threading.Thread(target=_look, args=(url, names), daemon=True)
    looking.start()
    looking.join(WITHIN_SECONDS)
    return [name for name in names if name.startswith(incomplete)]


def _look(url: str, names: list[Any]) -> None:
    with suppress(RedisError, DPQError, OSError), closing(open_url(url)) as opened:
        names += known_queues(opened.client)


T = TypeVar("T")

DEFAULT_URL = "redis://localhost:6379/0"
DEFAULT_QUEUE = "default"

FOREVER = "inf"
"""The value of `--wait` without a number."""

TAKES_IDS = {"ignore_unknown_options": True}
"""Context settings of commands that take ids: one id in 64 starts with "-". No short options."""


def _inherit(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    root, name = ctx.find_root(), str(param.name)
    if ctx is root:
        return value
    if given(ctx, name):
        root.params[name] = value
    return str(root.params.get(name, value))


def given(ctx: Any, name: str) -> bool:
    """Return True if the command line itself names this option."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def named(ctx: Any, name: str) -> bool:
    """Return True if the command line, also before the command, or a variable names this option."""
    sources = [each.get_parameter_source(name) for each in (ctx, ctx.find_root())]
    return any(source and source.name in ("COMMANDLINE", "ENVIRONMENT") for source in sources)


def named_queues(ctx: Any, queue: list[str] | None, *, also: bool = True) -> list[str]:
    """List the queues that are named, each once; with `also` DPQ_QUEUE counts, too."""
    root = ctx.find_root()
    if queue:
        return list(dict.fromkeys(queue))
    before = named(root, "queue") if also else given(root, "queue")
    return [str(root.params["queue"])] if before else []


def reader(read: Callable[[str], T], form: str = "") -> Callable[[object], T]:
    """Make a parser of an option: an error of `read` is wrong usage, and says the form."""

    def parse(text: object) -> T:  # the default of an option may be a number
        try:
            return read(str(text))
        except ValueError as error:
            said = f"{text!r}: write {form}" if form else str(error)
            raise typer.BadParameter(said) from None

    return parse


def number(text: str) -> float:
    """Read an int as an int, however long: a double would lose its last digits."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _seconds(least: float, text: str) -> float:
    seconds = span_in(text)
    if seconds is None:
        seconds = number(text)
    if not seconds >= least:
        raise ValueError
    return seconds


def seconds(least: float = -math.inf) -> Callable[[object], float]:
    """Make a parser of seconds, which also takes a span as `5m` or `1h30m`."""
    bound = "" if least == -math.inf else f", {least:g} or more"
    return reader(partial(_seconds, least), f"seconds, or a time as 90s, 5m or 1h30m{bound}")


class BareNumber(TyperCommand):
    """A command whose `--wait` or `--watch` may stand without a number: for ever, each second."""

    bare = {"--wait": FOREVER, "--watch": "1"}  # noqa: RUF012 - never changed

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the missing number."""
        full: list[str] = []
        for word, following in zip_longest(args, args[1:], fillvalue=""):
            full.append(word)
            if word in self.bare and not re.match(r"-?[\d.]|inf|nan", following):
                full.append(self.bare[word])
        return super().parse_args(ctx, full)


def _cost(text: str) -> Cost:
    if text.isdecimal() and text.isascii():
        return int(text)
    units: dict[str, int] = {}
    for word in text.split(","):
        unit, equals, amount = word.strip().rpartition("=")
        if not re.fullmatch("[0-9]{1,10}", amount) or (equals and not unit) or unit in units:
            raise ValueError
        units[unit] = int(amount)
    return units


read_cost = reader(_cost, "a cost as 3, as tokens=1800, or as 1,tokens=1800,usd=900")
read_attempts = reader(
    lambda text: math.inf if text == FOREVER else int(text), f"a whole number, or {FOREVER}"
)
SELDOM = "Seldom needed"
"""The panel of a long help for seldom needed options: the everyday options stand before it."""


def option(
    metavar: str,
    text: str,
    *names: str,
    unset: str | bool = True,
    seldom: bool = False,
    **more: Any,
) -> Any:
    """Make an option with a value; `unset` is the default in its help, none if it is ""."""
    panel = SELDOM if seldom else more.pop("rich_help_panel", None)
    return typer.Option(*names, rich_help_panel=panel, **_shown(metavar, text, unset, more))


def argument(metavar: str, text: str, *, unset: str | bool = True, **more: Any) -> Any:
    """Make an argument, as `option` does."""
    return typer.Argument(**_shown(metavar, text, unset, more))


def flag(text: str, *names: str, seldom: bool = False) -> Any:
    """Make an option without a value."""
    return typer.Option(*names, help=text, rich_help_panel=SELDOM if seldom else None)


def _shown(metavar: str, text: str, unset: str | bool, more: dict[str, Any]) -> dict[str, Any]:
    if metavar.strip("[]") == "SECONDS":
        more["parser"] = seconds(more.pop("min", -math.inf))
    return {"metavar": metavar, "help": text, "show_default": unset or False, **more}


def _url(help_text: str) -> Any:
    return option("URL", help_text, envvar="DPQ_URL", callback=_inherit, rich_help_panel="Where")


AnyUrl = Annotated[
    str,
    _url("The server: " + SCHEMES.replace("[", "\\[") + " (a private server that dpq starts)."),
]
Url = Annotated[str, _url("The server (all forms: dpq --help).")]
Queue = Annotated[
    str,
    option(
        "NAME",
        "The queue's name.",
        envvar="DPQ_QUEUE",
        callback=_inherit,
        autocompletion=complete_queue,
        rich_help_panel="Where",
    ),
]
Queues = Annotated[
    list[str] | None,
    option(
        "NAME",
        "A queue; repeat it for more.",
        "--queue",
        autocompletion=complete_queue,
        envvar="DPQ_QUEUES",
        rich_help_panel="Where",
    ),
]
TaskId = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
AnyTaskId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="The task's id; or name its --key.", show_default=False),
]
Key = Annotated[
    str | None, typer.Option(help="The task's unique key, instead of its id.", show_default="none")
]
TaskIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of dead tasks.")]
Token = Annotated[
    int, typer.Argument(metavar="TOKEN", help="The delivery's token, as pop has printed it.")
]
Json = Annotated[bool, flag("Print JSON, one object per line.", "--json")]
Yes = Annotated[bool, flag("Do not ask. Needed where nobody can answer.", "--yes")]
Priority = Annotated[
    float,
    option(
        "NUMBER",
        'Higher runs first (lower if the order is "min"): any 64-bit int, or float.',
        parser=reader(number, "a number"),
    ),
]
NewPriority = Annotated[
    float | None,
    option("NUMBER", "The new priority.", unset="unchanged", parser=reader(number, "a number")),
]
Delay = Annotated[float, option("SECONDS", "Seconds until the task is ready.")]


NewOrder = Annotated[
    Order | None,
    option(
        "ORDER",
        "Make a new queue in which the biggest priority runs first, equal ones fifo or lifo; or "
        "with min the smallest.",
        seldom=True,
    ),
]
OfReason = Annotated[
    str | None, typer.Option(help="Only tasks that died for this reason.", show_default="any")
]
OfGroup = Annotated[str | None, typer.Option(help="Only tasks of this group.", show_default="any")]
