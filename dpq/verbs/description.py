"""The arguments of a queue object, checked once.

The queue objects make a `Description` and read it, and the operations are built from it. It sends
nothing.
"""

from collections.abc import Callable
from typing import Any, Generic, Unpack, get_args

from dpq.model.backoff import Backoff
from dpq.model.errors import ConfigurationError
from dpq.model.payload import Codec, codec_of
from dpq.model.queue_settings import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_PAYLOAD_BYTES,
    DEFAULT_VISIBILITY,
    Fairness,
    Order,
    Payloads,
    SharedSettings,
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

MAX_AGING = 1_000_000
"""Points of priority per second; lua/push, lua/lib/record and lua/pop/take have it, too."""

MAX_SEEN = 100_000_000
"""Keys of the largest seen-set: about 21 GB of memory, with keys of 40 bytes."""


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
        **shared: Unpack[SharedSettings],
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
        self.named = named_settings(**shared)
        self.visibility_ms = milliseconds("default_visibility", default_visibility, least=0.001)


def named_settings(
    *,
    order: Order | None = None,
    aging: float | None = None,
    fairness: Fairness | None = None,
    payloads: Payloads | None = None,
    dead_max_tasks: int | None = None,
    dead_max_age: float | None = None,
    seen_max_keys: int | None = None,
) -> dict[str, str]:
    """Check the settings that a client names, and convert them to the texts to store."""
    named: dict[str, str] = {}
    if order is not None:
        if order not in get_args(Order):
            raise ConfigurationError(f"order is {order!r}: it must be 'fifo', 'lifo' or 'min'")
        named["order"] = order
    if aging is not None:
        number("aging", aging, "points of priority per second", 0, MAX_AGING)
        named["aging"] = repr(float(aging))
    if fairness is not None:
        kind, _, unit = fairness.partition(":") if isinstance(fairness, str) else ("", "", "")
        if kind == "units" and unit:
            unit_name("the unit of fairness", unit)
        elif fairness not in ("none", "round_robin", "units"):
            raise ConfigurationError(
                f"fairness is {fairness!r}: it must be 'none', 'round_robin', 'units', or "
                "'units:' and the name of a unit, such as 'units:tokens'"
            )
        named["fairness"] = fairness
    if payloads is not None:
        if payloads not in ("inline", "apart"):
            raise ConfigurationError(f"payloads is {payloads!r}: it must be 'inline' or 'apart'")
        named["payloads"] = payloads
    if dead_max_tasks is not None:
        named["dead_max_tasks"] = str(whole_number("dead_max_tasks", dead_max_tasks, 0, 10**9))
    if dead_max_age is not None:
        named["dead_max_age"] = str(milliseconds("dead_max_age", dead_max_age, least=0.001))
    if seen_max_keys is not None:
        bound = whole_number("seen_max_keys", seen_max_keys, 0, MAX_SEEN)
        named["seen_max_keys"] = str(bound)
    return named
