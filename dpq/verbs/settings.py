"""The stored settings of a queue: reads them, and refuses a client that contradicts them.

The first client that names a setting writes it to the server; see lua/configure.lua.
"""

import re

from dpq.model.errors import ConfigurationError
from dpq.script.keys import STORAGE_FORMAT
from dpq.script.refusals import other_format, read_settings
from dpq.verbs.description import MAX_AGING


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
