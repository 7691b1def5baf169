"""Names of the partitions of a queue, and the partition of each group, key and task id.

Used by `operations`. Knows no commands and no server. For a stored queue none of this may change.
"""

import base64
import binascii
import hashlib
import zlib
from functools import lru_cache

MAX_PARTITIONS = 1024

_SLOTS = 16384
# The same digits as in ids.
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_VALUES = {digit: value for value, digit in enumerate(DIGITS)}

PLAIN_ID_LENGTH = 12
"""Characters of the random part of an id: all of it in the first partition of several."""

_ID_LENGTHS = (PLAIN_ID_LENGTH, PLAIN_ID_LENGTH + 2, PLAIN_ID_LENGTH + 7)
"""The lengths of ids that DPQ makes: `task_ids.new_ids`."""


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


def moved_id(task_id: str, partition: int, count: int) -> str:
    """Return the id that a task has after a move into a partition of another queue.

    It keeps its id if that names this partition. Else it keeps the random part, so that a second
    move gives the same id. A queue of one partition takes every id as it is.
    """
    if count == 1 or partition_of(task_id, count) == partition:
        return task_id
    return mark_of(partition) + _random_part(task_id)


def moved_home(task_id: str, count: int) -> int:
    """Return the partition of a task without group and key from a queue of another number."""
    return zlib.crc32(_random_part(task_id).encode()) % count


def _random_part(task_id: str) -> str:
    if len(task_id) in _ID_LENGTHS:
        return task_id[-PLAIN_ID_LENGTH:]
    digest = hashlib.sha256(task_id.encode()).digest()
    return base64.urlsafe_b64encode(digest)[:PLAIN_ID_LENGTH].decode()
