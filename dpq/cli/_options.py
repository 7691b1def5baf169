"""The options and arguments that several commands share.

`--url` and `--queue` stand before the command or after it; the later one wins.
"""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args

import typer

from dpq import ConfigurationError
from dpq.cli._completion import complete_queue
from dpq.cli._terminal import FOREVER
from dpq.model.masking import SCHEMES
from dpq.model.queue_settings import Order
from dpq.types import Cost

T = TypeVar("T")

DEFAULT_URL = "redis://localhost:6379/0"
DEFAULT_QUEUE = "default"

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


def word(read: Callable[[str], T]) -> Callable[[str], T]:
    """Make a reader of `dpq.limits.words` a parser of an option: its error is wrong usage."""

    def parse(text: str) -> T:
        try:
            return read(text)
        except ConfigurationError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def number(text: str) -> float:
    """Read an int as an int, however long: a double would lose its last digits."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def seconds(text: str) -> float:
    """Read seconds; the error says the form."""
    try:
        return number(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write seconds, as 300 for 5 minutes") from None


def read_attempts(text: str) -> float:
    """Read a bound of attempts: a whole number, or `inf`."""
    if str(text) == FOREVER:
        return math.inf
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write a whole number, or {FOREVER}") from None


def read_delays(text: str) -> list[float]:
    """Read delays in seconds, as in `1,5,30`; the queue knows their bounds."""
    try:
        return [float(word) for word in str(text).split(",")]
    except ValueError:
        raise typer.BadParameter(f"{text!r}: write delays in seconds, as in 1,5,30") from None


def read_cost(text: str) -> Cost:
    """Read the units of a task: `3`, or `tokens=1800` with commas between more.

    The queue knows the bounds, and what a unit may be called.
    """
    text = str(text)  # the default of the option is a number
    if text.isdecimal() and text.isascii():
        return int(text)
    units: dict[str, int] = {}
    for word in text.split(","):
        unit, equals, amount = word.strip().rpartition("=")
        if not re.fullmatch("[0-9]{1,10}", amount) or (equals and not unit) or unit in units:
            raise typer.BadParameter(
                f"{text!r}: write a cost as 3, as tokens=1800, or as 1,tokens=1800,usd=900"
            )
        units[unit] = int(amount)
    return units


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
    more |= {"metavar": metavar, "help": text, "show_default": unset or False}
    return typer.Option(*names, rich_help_panel=panel, **more)


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
        unset="",
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
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Yes = Annotated[bool, typer.Option("--yes", help="Delete. Without it, nothing is deleted.")]
Priority = Annotated[
    float,
    option(
        "NUMBER",
        'Higher runs first (lower if the order is "min"): any 64-bit int, or float.',
        parser=number,
    ),
]
NewPriority = Annotated[
    float | None, option("NUMBER", "The new priority.", unset="unchanged", parser=number)
]
Delay = Annotated[float, option("SECONDS", "Seconds until the task is ready.", parser=seconds)]


def _order(text: str) -> str:
    if text not in (orders := get_args(Order)):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(orders)}")
    return text


NewOrder = Annotated[
    Order | None,
    option(
        "ORDER",
        "Make a new queue in which the biggest priority runs first, equal ones fifo or lifo; or "
        "with min the smallest.",
        unset="",
        seldom=True,
        parser=_order,
    ),
]
OfReason = Annotated[
    str | None, typer.Option(help="Only tasks that died for this reason.", show_default="any")
]
OfGroup = Annotated[str | None, typer.Option(help="Only tasks of this group.", show_default="any")]
