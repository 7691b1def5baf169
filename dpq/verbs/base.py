"""The base of the operations on a queue: its keys, and its settings, checked and compared. No I/O.

The first client that names a setting writes it to the server; see lua/configure.lua.
"""

from __future__ import annotations  # the import makes no model for each `Task[P]`

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar, get_args

from dpq.model.backoff import Backoff
from dpq.model.errors import ConfigurationError
from dpq.model.payload import Codec, codec_of
from dpq.model.producer import Producer
from dpq.model.queue_settings import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_PAYLOAD_BYTES,
    DEFAULT_VISIBILITY,
    Bounds,
    Order,
    Payloads,
    WhenFull,
)
from dpq.model.task import P
from dpq.model.validation import (
    Delays,
    attempt_bound,
    listed_delays,
    milliseconds,
    number,
    queue_label,
    unit_name,
    whole_number,
)
from dpq.script.command import CommandMaker, Steps, once, same
from dpq.script.keys import STORAGE_FORMAT, key_of
from dpq.script.refusals import other_format, read_settings

T = TypeVar("T")

BATCH_BYTES = 4 * 1024 * 1024
"""Payload bytes in one call or reply: a larger one would hold up other clients."""

PAGE = 100
"""Tasks in one round trip of reading, checking or purging."""

MAX_AGING = 1_000_000
"""Points of priority per second; lua/push, lua/lib/record and lua/pop/take have it, too."""


class Description(Generic[P]):
    """A queue as this client names it. The arguments are those of `DPQ`.

    `named` are the settings that this client names, as the texts to store.
    """

    def __init__(
        self,
        name: str,
        *,
        payload_type: Any = Any,
        default_visibility: float = DEFAULT_VISIBILITY,
        default_max_attempts: float = DEFAULT_MAX_ATTEMPTS,
        backoff: Backoff | Delays = Backoff(),  # noqa: B008 - frozen
        max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES,
        clock: Callable[[], int] | None = None,
        **shared: Any,
    ) -> None:
        self.name = queue_label(name)
        self.clock = clock
        self.payload_type = payload_type
        self.default_visibility = default_visibility
        self.max_attempts = attempt_bound("default_max_attempts", default_max_attempts)
        self.default_max_attempts = default_max_attempts
        self.backoff: Backoff | tuple[float, ...] = (
            backoff if isinstance(backoff, Backoff) else listed_delays(backoff, "a Backoff, or ")
        )
        self.codec: Codec[P] = codec_of(payload_type, max_payload_bytes)
        self.named = named_settings(shared)
        self.visibility_ms = milliseconds("default_visibility", default_visibility, least=0.001)


def _aging(name: str, value: float) -> str:
    number(name, value, "points of priority per second", 0, MAX_AGING)
    return repr(float(value))


def _fairness(name: str, value: Any) -> str:
    kind, _, unit = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "units" and unit:
        unit_name("the unit of fairness", unit)
    elif value not in ("none", "round_robin", "units"):
        raise ConfigurationError(
            f"{name} is {value!r}: it must be 'none', 'round_robin', 'units', or 'units:' and the "
            "name of a unit, such as 'units:tokens'"
        )
    return str(value)


def _one_of(kind: Any) -> Callable[[str, Any], str]:
    *others, last = map(repr, get_args(kind))

    def check(name: str, value: Any) -> str:
        if value not in get_args(kind):
            raise ConfigurationError(
                f"{name} is {value!r}: it must be {', '.join(others)} or {last}"
            )
        return str(value)

    return check


def _up_to(most: int) -> Callable[[str, Any], str]:
    return lambda name, value: str(whole_number(name, value, 0, most))


_CHECKS: dict[str, Callable[[str, Any], str]] = {
    "order": _one_of(Order),
    "aging": _aging,
    "fairness": _fairness,
    "payloads": _one_of(Payloads),
    "dead_max_tasks": _up_to(10**9),
    "dead_max_age": lambda name, value: str(milliseconds(name, value, least=0.001)),
    "seen_max_keys": _up_to(100_000_000),  # about 21 GB of memory, with keys of 40 bytes
    "max_tasks": _up_to(10**9),
    "max_waiting": _up_to(10**9),
    "when_full": _one_of(WhenFull),
}
"""The check of each setting that belongs to a queue; it returns the text to store."""


def named_settings(given: dict[str, Any]) -> dict[str, str]:
    """Check settings, and convert them to the texts to store; None is a setting without a name."""
    return {name: _CHECKS[name](name, value) for name, value in given.items() if value is not None}


def bounds_of(settings: dict[str, str]) -> Bounds:
    def bound(name: str) -> int | None:
        text = settings.get(name, "0")
        return (int(text) or None) if text.isdecimal() else None

    how: WhenFull = "drop_worst" if settings.get("when_full") == "drop_worst" else "refuse"
    return Bounds(bound("max_tasks"), bound("max_waiting"), how)


def aging_rate(settings: dict[str, str]) -> float:
    """Read the aging, in points of priority per second, from a queue's settings."""
    text = settings.get("aging", "0")
    if not (re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", text, re.ASCII) and float(text) <= MAX_AGING):
        raise ConfigurationError(
            f"aging is stored as {text!r}: it must be a number from 0 to {MAX_AGING}. Another "
            "program has written into the queue's settings (`conf`): store the number there again"
        )
    return float(text)


def agree(queue_name: str, named: dict[str, str], reply: list[bytes]) -> dict[str, str]:
    """Read all stored settings from a reply; refuse a client that contradicts them."""
    settings = read_settings(reply)
    stored_format = settings.get("format", STORAGE_FORMAT)
    if stored_format != STORAGE_FORMAT:
        raise other_format(queue_name, STORAGE_FORMAT, stored_format)
    ages = aging_rate({**named, **settings}) > 0
    for name, value in named.items():
        if settings.get(name, value) != value:
            raise ConfigurationError(
                f"{name} is {value}, but queue {queue_name!r} has {name} "
                f"{settings[name]}: leave it out to follow the queue, or use another queue"
            )
    if named.get("order") == "min" and "format" in settings and "order" not in settings:
        raise ConfigurationError(
            f"order is min, but queue {queue_name!r} is there and has order fifo: leave it out to "
            "follow the queue, or use another queue. The order cannot change once a task was "
            "pushed; export the queue, drop it, and import it with the new order "
            "(docs/operations.md)"
        )
    together = {**named, **settings}
    if together.get("order") == "lifo" and ages:
        raise ConfigurationError(
            f"order is lifo and aging is {together['aging']} in queue {queue_name!r}: "
            "last in, first out cannot age; leave out one of them"
        )
    fairness = together.get("fairness", "none")
    if fairness != "none" and (together.get("order") == "lifo" or ages):
        raise ConfigurationError(
            f"fairness is {fairness} in queue {queue_name!r}: groups can take turns only with "
            "order 'fifo' and without aging; leave out one of them"
        )
    return settings


class OperationsBase(CommandMaker, Generic[P]):
    """A queue and its settings, for every class of operations on it.

    `settings` are the stored ones; None before they are read, and while the queue does not exist:
    a new queue of its name may have others.
    """

    settings: dict[str, str] | None = None

    def __init__(self, queue: Description[P]) -> None:
        super().__init__(queue.name, queue.clock)
        self.description = queue
        self.named = queue.named
        self._codec = queue.codec
        self.marker = key_of(queue.name, "wake")  # the key that waiting consumers block on
        self.tick = key_of(queue.name, "tick")  # the key that daemons block on
        self.conf = key_of(queue.name, "conf")  # the key that daemons glance at

    # Settings

    def open(self, *, create: bool = False) -> Steps[None]:
        """Read the settings, write the named ones, and register a queue that exists."""
        settings = yield from self.configure(create=create)
        exists = "format" in settings
        self.settings = settings if exists else None
        if exists:
            yield from self.enter()

    def after_opening(self, verb: Callable[[], Steps[T]]) -> Steps[T]:
        """Run an operation, and read the settings before it, unless they are known."""
        if self.settings is None:
            yield from self.open()
        return (yield from verb())

    def set_bounds(
        self, max_tasks: int | None, max_waiting: int | None, when_full: WhenFull | None
    ) -> Steps[None]:
        """Replace the named bounds, and call the producers that have room now."""
        bounds = {"max_tasks": max_tasks, "max_waiting": max_waiting, "when_full": when_full}
        if not (named := named_settings(bounds)):
            raise ConfigurationError(
                "set_bounds changes nothing: give max_tasks, max_waiting or when_full"
            )
        yield from self.open(create=True)
        yield from self.configure(create=True, named=named, replace=True)

    def bounds(self) -> Steps[Bounds]:
        return bounds_of((yield from self.stored_settings()))

    def await_room(self, producer: Producer, *, leave: bool = False) -> Steps[bool]:
        """Let a producer stand in the line, or leave it; True if it is to wait for a call."""
        place, ms = producer.place or producer.id, 0 if leave else producer.wait_ms
        args = [self._now(), producer.group, place, ms, producer.channel]
        stands, text = yield self._command("await_room", args, tuple[Any, ...])
        producer.place = "" if leave else text.decode()
        return bool(stands)

    def configure(
        self, *, create: bool = False, named: dict[str, str] | None = None, replace: bool = False
    ) -> Steps[dict[str, str]]:
        """Write the settings that this client names and no client has named before; read all."""
        named = self.named if named is None else named
        flat = [text for pair in named.items() for text in pair]
        read = partial(agree, self.queue_name, named)
        mode = 2 if replace else int(create)
        args = [self._now(), STORAGE_FORMAT, mode, *flat]
        command = self._command("configure", args, read)
        return once(command._replace(needs_confirmation=False))  # the first task confirms them

    def stored_settings(self) -> Steps[dict[str, str]]:
        """Read the settings, without checks."""
        command = self._command("configure", [self._now(), STORAGE_FORMAT, 0], read_settings)
        return once(command._replace(needs_confirmation=False))

    def register(self) -> Steps[Any]:
        """Add the queue to the registry that daemons and the CLI read."""
        return self._ask("register", [self.queue_name], same)

    def enter(self) -> Steps[None]:
        """Add the queue to the registry if possible; an error is ignored, and the queue works."""
        # `same` accepts an error as the answer.
        yield [self._command("register", [self.queue_name], same)]

    def unregister(self) -> Steps[Any]:
        return self._ask("unregister", [self.queue_name], same)

    def drop(self) -> Steps[None]:
        """Remove the whole queue, and its name in the registry."""
        yield self._command("drop", [], same)
        yield from self.unregister()
        if "format" in (yield from self.stored_settings()):  # another client has created it again
            yield from self.enter()


def in_batches(
    items: Iterable[T], most: int, size: Callable[[T], int] = lambda _: 0
) -> Iterator[list[T]]:
    """Cut items into parts of at most `most`, whose sizes are 4 MiB together, or one is larger."""
    batch: list[T] = []
    total = 0
    for item in items:
        own = size(item)
        if batch and (len(batch) == most or total + own > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += own
    if batch:
        yield batch
