"""What belongs to a queue and not to a client: the names, bounds and texts of its settings.

The first client that names a setting writes it to the server; see lua/configure.lua.
"""

import re

from dpq.model.errors import ConfigurationError
from dpq.model.task import Fairness, Order
from dpq.model.validation import milliseconds, number, whole_number
from dpq.protocol.keys import STORAGE_FORMAT
from dpq.protocol.placement import MAX_PARTITIONS
from dpq.protocol.replies import other_format, other_partitions, read_settings

MAX_AGING = 1_000_000
"""Points of priority per second; push, _record and _take in lua/ have it, too."""


def named_settings(
    order: Order | None,
    aging: float | None,
    fairness: Fairness | None,
    dead_max_tasks: int | None,
    dead_max_age: float | None,
    partitions: int | None = None,
) -> dict[str, str]:
    """Check the settings that a client names, as the texts that are stored."""
    named: dict[str, str] = {}
    if order is not None:
        if order not in ("fifo", "lifo"):
            raise ConfigurationError(f"order is {order!r}: it must be 'fifo' or 'lifo'")
        named["order"] = order
    if aging is not None:
        number("aging", aging, "points of priority per second", 0, MAX_AGING)
        named["aging"] = repr(float(aging))
    if fairness is not None:
        if fairness not in ("none", "round_robin"):
            raise ConfigurationError(
                f"fairness is {fairness!r}: it must be 'none' or 'round_robin'"
            )
        named["fairness"] = fairness
    if dead_max_tasks is not None:
        named["dead_max_tasks"] = str(whole_number("dead_max_tasks", dead_max_tasks, 0, 10**9))
    if dead_max_age is not None:
        named["dead_max_age"] = str(milliseconds("dead_max_age", dead_max_age, least=0.001))
    if partitions is not None:
        named["partitions"] = str(whole_number("partitions", partitions, 1, MAX_PARTITIONS))
    return named


def partition_count(settings: dict[str, str]) -> int:
    """How many partitions a queue has by its settings.

    Raises:
        ConfigurationError: That cannot be read.
    """
    text = settings.get("partitions", "1")
    if not (re.fullmatch("[1-9][0-9]{0,3}", text) and int(text) <= MAX_PARTITIONS):
        raise ConfigurationError(
            f"partitions is stored as {text!r}: it must be an int from 1 to {MAX_PARTITIONS}. "
            "Somebody has written into the queue's settings (`conf`): write it there again"
        )
    return int(text)


def aging_rate(settings: dict[str, str]) -> float:
    """The points of priority per second that a queue has by its settings.

    Raises:
        ConfigurationError: That cannot be read; lua/push.lua then takes it for none.
    """
    text = settings.get("aging", "0")
    if not (re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", text, re.ASCII) and float(text) <= MAX_AGING):
        raise ConfigurationError(
            f"aging is stored as {text!r}: it must be a number from 0 to {MAX_AGING}. Somebody has "
            "written into the queue's settings (`conf`): write it there again"
        )
    return float(text)


def agree(queue_name: str, named: dict[str, str], reply: list[bytes]) -> dict[str, str]:
    """The reply of configure: all settings that are stored, none of which may contradict.

    Raises:
        ConfigurationError: The queue has another format, or another value than the client names.
    """
    settings = read_settings(reply)
    stored_format = settings.get("format", str(STORAGE_FORMAT))
    if stored_format != str(STORAGE_FORMAT):
        raise other_format(queue_name, str(STORAGE_FORMAT), stored_format)
    has = settings.get("partitions", "1") if settings else ""
    if has and named.get("partitions", has) != has:
        raise other_partitions(queue_name, named["partitions"], has)
    ages = aging_rate({**named, **settings}) > 0
    for name, value in named.items():
        if settings.get(name, value) != value:
            raise ConfigurationError(
                f"{name} is {value}, but queue {queue_name!r} has {name} "
                f"{settings[name]}: leave it out to follow the queue, or use another queue"
            )
    together = {**named, **settings}
    if together.get("order") == "lifo" and ages:
        raise ConfigurationError(
            f"order is lifo and aging is {together['aging']} in queue {queue_name!r}: "
            "last in, first out cannot age; leave out one of them"
        )
    if together.get("fairness") == "round_robin" and (together.get("order") == "lifo" or ages):
        raise ConfigurationError(
            f"fairness is round_robin in queue {queue_name!r}: taking turns goes with order 'fifo' "
            "and without aging; leave out one of them"
        )
    return settings
