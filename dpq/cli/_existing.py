"""Queues of commands: `on_queue` makes a command of a function that takes a queue.

    @on_queue
    def pause(q: DPQ[Any], seconds: float | None = None) -> None: ...

The command has the options `--url` and `--queue` as well. `on_queue` refuses a misspelt name, with
the nearest one; `on_new_queue` takes any name, for what may come before the first push.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from redis.exceptions import RedisError

from dpq import DPQ
from dpq.cli._options import DEFAULT_QUEUE, DEFAULT_URL, Queue, Url
from dpq.cli._terminal import Failed, server_away_by, talk
from dpq.queue.looking import looking
from dpq.registry.all_queues import missing_queue
from dpq.types import Verdict

Command = Callable[..., None]


def judged(url: str, queue: str) -> Verdict:
    """Make the verdict on a queue, also if it does not exist, or if its server does not answer."""
    try:
        with DPQ[Any].from_url(url, queue) as q:
            return looking(q).why()
    except RedisError as error:
        if away := server_away_by(error, queue):
            return away
        raise


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


def on_queue(function: Command) -> Command:
    """Make a command that opens an existing queue for a function; with `watch` it may come yet."""

    def opened(url: str, queue: str, given: dict[str, Any]) -> Any:
        return existing(url, queue, awaited=given.get("watch") is not None)

    return _command(function, opened)


def on_new_queue(function: Command) -> Command:
    """Make a command that opens a queue for a function, whether it exists or not."""

    def opened(url: str, queue: str, given: dict[str, Any]) -> Any:
        return DPQ[Any].from_url(url, queue, order=given.pop("order", None))

    return _command(function, opened)


def _command(function: Command, opened: Callable[[str, str, dict[str, Any]], Any]) -> Command:
    @wraps(function)
    def command(*, url: str, queue: str, **given: Any) -> None:
        with opened(url, queue, given) as q:
            function(q, **given)

    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    where = [
        inspect.Parameter("url", kind, default=DEFAULT_URL, annotation=Url),
        inspect.Parameter("queue", kind, default=DEFAULT_QUEUE, annotation=Queue),
    ]
    shown = [*(each.replace(kind=kind) for each in own), *where]
    vars(command)["__signature__"] = inspect.Signature(shown)
    del vars(command)["__wrapped__"]
    command.__annotations__ = {each.name: each.annotation for each in shown}
    return command
