"""Refusals of scripts: their codes, and the error for a client that knows another format.

`command` calls it for each reply. `script/lua/lib/refusal.lua` is the other side.
"""

import re
from enum import IntEnum
from typing import Any

from dpq.model.errors import ConfigurationError
from dpq.script.keys import queue_of
from dpq.script.values import in_rows, read_texts

GIVEN_UP = 2
"""The reply of `rate_limited` if the task has become a dead letter."""


class Code(IntEnum):
    """The refusals of the scripts; the headers of the scripts name the same numbers."""

    LEASE_LOST = -1
    NOT_FOUND = -2
    KEY_TAKEN = -3
    OTHER_GROUP = -4
    AGAIN = -5
    RUNNING = -6
    OTHER_FORMAT = -8
    BATCH_FINISHED = -10
    AFTER_RECURRING = -11
    AFTER_LATER = -12
    CANCELLED = -13
    QUEUE_FULL = -15


def other_queue(reply: Any) -> ConfigurationError:
    """Make the error for a refusal of this client: the queue has another storage format."""
    _, stored, known, key = reply
    return other_format(queue_of(key.decode()), known.decode(), stored.decode("utf-8", "replace"))


def other_format(queue_name: str, known: str, stored: str) -> ConfigurationError:
    """Make the error for a storage format that this DPQ does not know."""
    return ConfigurationError(
        f"queue {queue_name!r} is stored in format {stored}, and this DPQ knows format {known}: "
        "run this program with the DPQ that wrote it, or remove the queue: q.admin.drop(). See "
        'docs/operations.md, "Upgrades"'
    )


def read_settings(reply: list[bytes]) -> dict[str, str]:
    """Read the reply of configure; leave out a format that is no number, since it is damaged."""
    settings: dict[str, str] = dict(in_rows(read_texts(reply), 2))
    # Lua/lib/refusal.lua has the same test.
    if not re.fullmatch("[0-9]+", settings.get("format", "0")):
        del settings["format"]
    return settings
