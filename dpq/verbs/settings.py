"""A queue as a client names it, and its stored settings: checked once, compared once. No I/O.

The first client that names a setting writes it to the server; see lua/configure.lua.
"""

import re
from collections.abc import Callable
from typing import Any, Generic, get_args

from dpq.model.backoff import Backoff
from dpq.model.errors import ConfigurationError
from dpq.model.payload import Codec, codec_of
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
from dpq.script.keys import STORAGE_FORMAT
from dpq.script.refusals import other_format, read_settings

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
    """Read the bounds from the settings of a queue."""

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
    """Read all stored settings from the reply of configure; refuse a client that contradicts
    them."""
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
