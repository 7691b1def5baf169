"""Queues of storage format 3, as the last DPQ that knew no other wrote them: for tests.

format3.json holds what they stored, key by key; `{600}` stands for 600 bytes of a long payload.
Each has a task in every state, with and without a group, a key, a schedule, options, and limits.
"""

import json
from pathlib import Path
from typing import Any

from redis import Redis

from dpq.protocol.keys import REGISTRY, key_of
from dpq.protocol.placement import tags_of

VARIANTS = ("fifo", "aging", "turns", "lifo", "partitions")
"""The queues: as usual, with aging, with fairness round_robin, last in first out, 3 partitions."""

_STORED: dict[str, Any] = json.loads(
    Path(__file__).with_suffix(".json").read_text().replace("{600}", "x" * 600)
)

NOW = 1_700_000_002_000
"""The ms at which they were written."""


def plant(redis: Redis, queue_name: str, variant: str = "fifo") -> dict[str, str]:
    """Write one of them by plain commands; return the ids of its tasks by their names."""
    stored = _STORED[variant]
    partitions = stored["partitions"]
    redis.sadd(REGISTRY, queue_name)
    for tag, parts in zip(tags_of(queue_name, len(partitions)), partitions, strict=True):
        for part, entries in parts.items():
            if isinstance(entries, dict):
                redis.hset(key_of(tag, part), mapping=entries)
            else:
                redis.zadd(key_of(tag, part), {member: float(at) for member, at in entries})
    ids: dict[str, str] = stored["ids"]
    return ids
