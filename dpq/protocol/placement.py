"""Names of the partitions of a queue, and the partition of each group, key and task id.

Used by `operations`. Knows no commands and no server. For a stored queue none of this may change.
"""

import binascii
import zlib
from functools import lru_cache

MAX_PARTITIONS = 1024

_SLOTS = 16384
# The same digits as in ids.
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_VALUES = {digit: value for value, digit in enumerate(DIGITS)}

PLAIN_ID_LENGTH = 12
"""Characters of the random part of an id: all of it in the first partition of several."""


@lru_cache(maxsize=1000)
def tags_of(queue_name: str, count: int) -> tuple[str, ...]:
    """Choose the hash tags of the partitions.

    The first tag is the queue's name. The others contain a brace, so they cannot be a name. The
    slots are divided into `count` equal ranges, and each tag lies in another range. So the
    partitions are spread evenly over a cluster whose nodes have equal ranges.
    """
    found: dict[int, str] = {_range_of(queue_name, count): queue_name}
    number = 0
    while len(found) < count:
        number += 1
        tag = f"{queue_name}{{{number}"
        found.setdefault(_range_of(tag, count), tag)
    home = _range_of(queue_name, count)
    return tuple(found[(home + partition) % count] for partition in range(count))


def _range_of(tag: str, count: int) -> int:
    return binascii.crc_hqx(tag.encode(), 0) % _SLOTS * count // _SLOTS


def home_of(group: str | None, key: str | None, count: int) -> int | None:
    """Return the partition of a group, or of a key without a group; None if any will do."""
    name = group if group is not None else key
    return None if name is None else zlib.crc32(name.encode()) % count


def mark_of(partition: int) -> str:
    """Return the beginning of the ids of a partition; "" for the first."""
    return DIGITS[partition // 64] + DIGITS[partition % 64] if partition else ""


def partition_of(task_id: str, count: int) -> int:
    """Return the partition that an id names; the first for a text that is no id of this queue."""
    if len(task_id) != PLAIN_ID_LENGTH + 2:
        return 0
    partition = _VALUES.get(task_id[0], 0) * 64 + _VALUES.get(task_id[1], 0)
    return partition if partition < count else 0
