"""Commands: `command`, `on_queue` and `on_new_queue` make one of a function.

    @on_queue
    def release(q: DPQ[Any], task_id: TaskId, token: Token, delay: Seconds = 0) -> None:
        '''Give a task back. The attempt does not count.

        Args:
            delay: Seconds until the task is ready.
        '''

The docstring is the help, with a line for each option; a section other than `Args` is a panel of
the help. A command on a queue also has `--url` and `--queue`, before it or after it: the later one
wins. `on_queue` refuses a misspelt name, with the nearest one; `on_new_queue` takes any name, for
what may come before the first push.
"""

import inspect
import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import copy
from functools import partial, wraps
from itertools import zip_longest
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from redis.exceptions import RedisError
from typer.core import TyperCommand

from dpq import DPQ
from dpq.cli._terminal import Failed, talk
from dpq.limits.header_values import span_in
from dpq.link.connect import open_url
from dpq.model.errors import DPQError
from dpq.model.masking import SCHEMES
from dpq.model.queue_settings import Order
from dpq.registry.all_queues import known_queues, missing_queue
from dpq.types import Cost

T = TypeVar("T")
Command = Callable[..., None]

DEFAULT_URL = "redis://localhost:6379/0"
DEFAULT_QUEUE = "default"
FOREVER = "inf"  # the value of `--wait` without a number

# Values of options


def reader(read: Callable[[str], T], form: str = "") -> Callable[[object], T]:
    """Make a parser of an option: an error of `read` is wrong usage, and says the form."""

    def parse(text: object) -> T:  # the default of an option may be a number
        try:
            return read(str(text))
        except ValueError as error:
            said = f"{text!r}: write {form}" if form else str(error)
            raise typer.BadParameter(said) from None

    return parse


def _number(text: str) -> float:
    """Read an int as an int, however long: a double would lose its last digits."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _seconds(least: float, text: str) -> float:
    seconds = span_in(text)
    if seconds is None:
        seconds = _number(text)
    if not seconds >= least:
        raise ValueError
    return seconds


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


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the names of queues that begin so; none if the server does not answer soon."""
    url = str(ctx.params.get("url") or ctx.find_root().params.get("url"))
    if url.startswith("embedded:"):
        return []

    def look() -> list[str]:
        with suppress(RedisError, DPQError, OSError), closing(open_url(url)) as opened:
            return known_queues(opened.client)
        return []

    names = within(1.0, look) or []  # somebody waits at the terminal
    return [name for name in names if name.startswith(incomplete)]


def within(seconds: float, look: Callable[[], T]) -> T | None:
    """Look in a thread, so that no silent server or name server delays the answer; None if late."""
    found: list[T] = []
    looking = threading.Thread(target=lambda: found.append(look()), daemon=True)
    looking.start()
    looking.join(seconds)
    return found[0] if found else None


def _inherit(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    root, name = ctx.find_root(), str(param.name)
    if ctx is root:
        return value
    if _given(ctx, name, "COMMANDLINE"):
        root.params[name] = value
    return str(root.params.get(name, value))


def _given(ctx: Any, name: str, *sources: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name in sources


def named(ctx: Any, name: str) -> bool:
    """Return True if the command line, also before the command, or a variable names this option."""
    there = (ctx, ctx.find_root())
    return any(_given(each, name, "COMMANDLINE", "ENVIRONMENT") for each in there)


def named_queues(ctx: Any, queue: list[str] | None, *, also: bool = True) -> list[str]:
    """List the queues that are named, each once; with `also` DPQ_QUEUE counts, too."""
    if queue:
        return list(dict.fromkeys(queue))
    root = ctx.find_root()
    before = _given(root, "queue", "COMMANDLINE", *["ENVIRONMENT"] * also)
    return [str(root.params["queue"])] if before else []


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


# Kinds of options; `Seconds | None` is one that may be missing


def option(metavar: str, *names: str, **more: Any) -> Any:
    """Make an option with a value; seconds may be spans, such as 5m, and have a `min`."""
    return typer.Option(*names, metavar=metavar, **_with_parser(metavar, more))


def argument(metavar: str, **more: Any) -> Any:
    """Make an argument, as `option` does."""
    return typer.Argument(metavar=metavar, **_with_parser(metavar, more))


def _with_parser(metavar: str, more: dict[str, Any]) -> dict[str, Any]:
    if metavar.strip("[]") == "SECONDS":
        least = more.pop("min", -math.inf)
        bound = "" if least == -math.inf else f", {least:g} or more"
        form = f"seconds, or a time as 90s, 5m or 1h30m{bound}"
        more["parser"] = reader(partial(_seconds, least), form)
    return more


Name = Annotated[str, option("NAME")]
Names = Annotated[list[str] | None, option("NAME")]
Id = Annotated[str, option("ID")]
Text = Annotated[str, option("TEXT")]
Seconds = Annotated[float, option("SECONDS")]
Positive = Annotated[float, option("SECONDS", min=0)]
_LASTING = "For this long; if not given, until you end it."
ForSeconds = Annotated[float | None, argument("SECONDS", help=_LASTING)]
Watch = Annotated[float, option("[SECONDS]", min=0.1)]
FromNow = Annotated[float, argument("SECONDS", help="Seconds from now.")]
Number = Annotated[float, option("NUMBER", parser=reader(_number, "a number"))]
N = Annotated[int, option("N")]
Count = Annotated[int, option("COUNT", "-n", min=1)]
_units = reader(_cost, "a cost as 3, as tokens=1800, or as 1,tokens=1800,usd=900")
Units = Annotated[Any, option("UNITS", parser=_units)]

TaskId = Annotated[str, argument("ID", help="The task's id.")]
AnyTaskId = Annotated[str | None, argument("ID", help="The task's id; or name its --key.")]
Token = Annotated[int, argument("TOKEN")]
NewOrder = Annotated[Order, option("ORDER")]
_WHERE: dict[str, Any] = {"callback": _inherit, "rich_help_panel": "Where"}
_QUEUES: dict[str, Any] = {"autocompletion": complete_queue}
_FORMS = SCHEMES.replace("[", "\\[")
_ALL_FORMS = f"The server: {_FORMS} (a private server that dpq starts)."
AnyUrl = Annotated[str, option("URL", help=_ALL_FORMS, envvar="DPQ_URL", **_WHERE)]
Url = Annotated[str, option("URL", envvar="DPQ_URL", callback=_inherit)]
_ONE = option("NAME", help="The queue's name.", envvar="DPQ_QUEUE", **_WHERE, **_QUEUES)
Queue = Annotated[str, _ONE]
Queues = Annotated[list[str] | None, option("NAME", "--queue", envvar="DPQ_QUEUES", **_QUEUES)]

EVERYWHERE = """
Args:
    token: The delivery's token, as pop has printed it.
    count: Tasks to show at most.
    delay: Seconds until the task is ready.
    key: The task's unique key, instead of its id.
    priority: The new priority.
    reason: Only tasks that died for this reason.
    group: Only tasks of this group.
    every_group: The limit of each group without one of its own.
    member: Only this member of the group's pool.
    json: Print JSON, one object per line.
    watch: Look again this often, until Ctrl-C; without a number, each second.
    host: The address to listen on; 0.0.0.0 for all.
    port: The port; 0 takes a free one.
    server_name: The label `server` of the metrics: by default host:port/db of the URL, or the path
        of its socket. Programs that read the same server need the same name.

Seldom needed:
    order: Of a new queue: fifo or lifo, among equal priorities; or min: the smallest first.
    yes: Do not ask at a terminal.
    log: How to log: text; or json, one object on each line, with stable keys.
    health_port: Answer HTTP /live and /ready on this port, for orchestrators; 0 takes a free one.
    health_host: The address of --health-port; 0.0.0.0 for all.

Where:
    url: The server (all forms: dpq --help).
    queue: A queue; repeat it for more.
"""
"""The help of options, unless the docstring of a command has its own."""


# Commands


@contextmanager
def existing(url: str, queue: str, *, awaited: bool = False) -> Iterator[DPQ[Any]]:
    """Open a queue for a `with`; fail if it does not exist, or only say so if it is awaited."""
    with DPQ[Any].from_url(url, queue) as q:
        missing = missing_queue(q)
        if missing and not awaited:
            raise Failed(missing)
        if missing:
            talk(missing)
        yield q


def command(function: Command) -> Command:
    """Make a command of a function."""
    return _made(function, function, [])


def on_queue(function: Command) -> Command:
    """Make a command that opens an existing queue for a function; with `watch` it may come yet."""

    def run(*, url: str, queue: str, **given: Any) -> None:
        with existing(url, queue, awaited=given.get("watch") is not None) as q:
            function(q, **given)

    return _made(function, run, _ON_QUEUE)


def on_new_queue(function: Command) -> Command:
    """Make a command that opens a queue for a function, whether it exists or not."""

    def run(*, url: str, queue: str, **given: Any) -> None:
        with DPQ[Any].from_url(url, queue, order=given.pop("order", None)) as q:
            function(q, **given)

    return _made(function, run, _ON_QUEUE)


_KEYWORD: Any = inspect.Parameter.KEYWORD_ONLY
_ON_QUEUE = [
    inspect.Parameter("url", _KEYWORD, default=DEFAULT_URL, annotation=Url),
    inspect.Parameter("queue", _KEYWORD, default=DEFAULT_QUEUE, annotation=Queue),
]


def _made(function: Command, run: Command, more: list[inspect.Parameter]) -> Command:
    """Give `run` the docstring and the parameters of a function, as typer reads them."""

    @wraps(function)
    def made(**given: Any) -> None:
        run(**given)

    made.__doc__, texts = explained(function.__doc__ or "")
    own = inspect.signature(function, eval_str=True).parameters.values()
    shown = [_shown(each, texts) for each in (*own, *more) if each.name != "q"]
    vars(made)["__signature__"] = inspect.Signature(shown)
    del vars(made)["__wrapped__"]
    made.__annotations__ = {each.name: each.annotation for each in shown}
    return made


def explained(docstring: str) -> tuple[str, dict[str, tuple[str, str | None]]]:
    """Read a docstring: its text, with a line for each paragraph; text and panel of each option."""
    parts = re.split(r"^([A-Z][a-z ]+):\n(?=    \w+: )", inspect.cleandoc(docstring), flags=re.M)
    texts = {
        name: (" ".join(said.split()), None if panel == "Args" else panel)
        for panel, lines in zip(parts[1::2], parts[2::2], strict=True)
        for name, said in re.findall(r"^    (\w+): (.*(?:\n {5,}.*)*)", lines, re.M)
    }
    paragraphs = parts[0].strip().split("\n\n")
    lines = [re.sub("(?m)^  ", "", p) if p[:1] == " " else " ".join(p.split()) for p in paragraphs]
    return "\n\n".join(lines), texts


def _shown(own: inspect.Parameter, texts: dict[str, tuple[str, str | None]]) -> inspect.Parameter:
    """Give a parameter of a command its help."""
    kind = own.annotation
    if kind is typer.Context:
        return own.replace(kind=_KEYWORD)
    info = typer.Option("--" + own.name.replace("_", "-")) if kind is bool else typer.Option()
    for each in (kind, *get_args(kind)):
        if get_origin(each) is Annotated:
            inner, info = get_args(each)
            kind, info = inner if each is kind else inner | None, copy(info)
    if own.name in texts or not info.help:
        info.help, info.rich_help_panel = {**_EVERYWHERE, **texts}.get(own.name, ("", None))
    return own.replace(kind=_KEYWORD, annotation=Annotated[kind, info])


_, _EVERYWHERE = explained(EVERYWHERE)


def add(app: typer.Typer, panel: str | None, *functions: Command) -> None:
    """Add commands to a page of the program, by the names of their functions."""
    for each in functions:
        # One id in 64 begins with "-", so a command that takes ids has no short options
        ids = {"ids", "task_id"} & inspect.signature(each).parameters.keys()
        settings = {"ignore_unknown_options": bool(ids)}
        name = each.__name__.strip("_").replace("_", "-")
        app.command(name, cls=BareNumber, context_settings=settings, rich_help_panel=panel)(each)
