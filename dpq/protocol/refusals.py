"""Refusals of scripts: their codes, and the errors for a client that knows other settings.

`command` calls it for each reply. `protocol/lua/lib/refusal.lua` is the other side.
"""

import re
from enum import IntEnum
from typing import Any

from dpq.model.errors import ConfigurationError
from dpq.model.family import head_of
from dpq.protocol.keys import queue_of
from dpq.protocol.values import read_texts


class Code(IntEnum):
    """The refusals of the scripts; the headers of the scripts name the same numbers."""

    LEASE_LOST = -1
    NOT_FOUND = -2
    KEY_TAKEN = -3
    OTHER_GROUP = -4
    AGAIN = -5
    RUNNING = -6
    OTHER_PARTITIONS = -7
    OTHER_FORMAT = -8
    SETTINGS_LOST = -9
    BATCH_FINISHED = -10
    AFTER_RECURRING = -11
    AFTER_LATER = -12
    CANCELLED = -13
    QUEUE_FULL = -15
    OTHER_FAMILY = -20
    HEAD = -21


OTHER = (int(Code.OTHER_PARTITIONS), int(Code.OTHER_FORMAT))
"""The codes of a refusal of this client, since it knows other settings of the queue."""


def other_queue(reply: Any) -> ConfigurationError:
    """Make the error for a refusal of this client: the queue has other partitions or formats."""
    code, stored, known, key = reply
    name, text = queue_of(key.decode()), stored.decode("utf-8", "replace")
    if code == Code.OTHER_FORMAT:
        return other_format(name, known.decode(), text)
    return other_partitions(name, text)


def other_format(queue_name: str, known: str, stored: str) -> ConfigurationError:
    """Make the error for a storage format that this DPQ does not know."""
    return ConfigurationError(
        f"queue {queue_name!r} is stored in format {stored}, and this DPQ knows format {known}: "
        "run this program with the DPQ that wrote it, or drop() the queue. See docs/operations.md, "
        '"Upgrades"'
    )


def other_partitions(queue_name: str, stored: str) -> ConfigurationError:
    """Make the error for a queue that an earlier DPQ has stored in several partitions."""
    return ConfigurationError(
        f"queue {queue_name!r} is stored in {stored} partitions, which this DPQ does not know: "
        "export it with the DPQ that wrote it, drop() it, and import it (docs/operations.md)"
    )


def no_member(queue_name: str, reason: str) -> ConfigurationError:
    """Make the error for a queue that cannot join its family; the reason is from configure."""
    head = head_of(queue_name)
    queues = _queues(reason)
    return ConfigurationError(
        f"queue {queue_name!r} cannot join the family of queue {head!r}, which has "
        f"{len(queues)} queues, the most there can be: {', '.join(queues)}. drop() the queue that "
        "is needed least, or push into one of them, with a group for each purpose"
    )


def still_head(queue_name: str, confs: str) -> ConfigurationError:
    """Make the error for the drop of a head while its family has other queues."""
    others = ", ".join(_queues(confs)[1:])
    return ConfigurationError(
        f"queue {queue_name!r} is the head of a family and has the limits of {others}: drop() "
        "these first, or remove only its own tasks with purge()"
    )


def _queues(confs: str) -> list[str]:
    """Name the queues of a family, as errors write them; `confs` is as `conf.family`."""
    return [repr(queue_of(conf)) for conf in confs.split("\n")]


def read_settings(reply: list[bytes]) -> dict[str, str]:
    """Read the reply of configure; leave out a format that is no number, since it is damaged."""
    texts = read_texts(reply)
    settings = dict(zip(texts[::2], texts[1::2], strict=True))
    # Lua/lib/refusal.lua has the same test.
    if not re.fullmatch("[0-9]+", settings.get("format", "0")):
        del settings["format"]
    return settings
