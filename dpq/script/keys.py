"""The names of all Redis keys; no other module makes one. Knows no Redis and no task."""

STORAGE_FORMAT = "05"
"""The number of the storage format: any change to a key, a field or a stored encoding raises it.
A queue stores it in `conf`, as this text; lua/lib/refusal.lua has it, too. Programs from before the
first release know the texts 1 to 4: docs/design.md, "Another storage format"."""

INLINE_BYTES = 512
"""Bytes of the longest payload that stands in its record; lib/record/body.lua has the same number.
Each change of a record writes it again, to replicas and to the disk as well."""

REGISTRY = "{dpq}:queues"
"""SET of the names of all queues on this server."""

REGISTRY_TICK = "{dpq}:tick"
"""The marker that wakes one daemon when there is a new queue."""

PARTS = (
    "ready",  # ZSET: order and id -> score
    "delayed",  # ZSET: id -> due, ms
    "invisible",  # ZSET: id -> lease end, ms
    "waiting",  # ZSET: group, score, order and id of tasks behind a head or in a closed group
    "groups",  # HASH: group -> the head of the group
    "closed",  # ZSET: group -> the time when it opens, ms
    "payload",  # HASH: id -> a payload that is too long for the record
    "meta",  # HASH: id -> record, and a short payload
    "dead",  # ZSET: id -> the time of death, ms
    "keys",  # HASH: unique key -> id
    "conf",  # HASH: settings
    "stats",  # HASH: running totals
    "wake",  # ZSET: the marker that waiting consumers block on
    "tick",  # ZSET: the marker that daemons block on
    "limits",  # HASH: what is limited -> how
    "gates",  # HASH: group -> what its limit has granted
    "tracked",  # ZSET: leases whose end lets others run
    "workers",  # HASH: worker -> its last heartbeat
    "results",  # HASH: number -> what a finished task has returned; task -> its newest number
    "progress",  # HASH: id -> how far the work on a running task is
    "history",  # HASH: minute or quarter of an hour -> counts and states of that time
    "events",  # STREAM: the last 10 000 or so events that people want to see
    "changes",  # STREAM: the last 200 or so events of what operators have done
    "batches",  # HASH: batch -> how many of its tasks are left, done and dead
    "recent",  # ZSET: unique key of a task that was acked -> until it is free again, ms
    "followers",  # ZSET: id and the id of a task that waits for its end; ids that have ended
    "cancelled",  # ZSET: token of a delivery whose task was cancelled -> until it is forgotten, ms
)
"""The keys of a queue. Their number does not grow with its tasks or groups."""


_SHARED = {"queues": REGISTRY, "queues_tick": REGISTRY_TICK}


def key_of(tag: str, part: str) -> str:
    """Name the key that a script's header calls `part`."""
    if part in _SHARED:
        return _SHARED[part]
    return f"dpq:{{{tag}}}:{part}"


def queue_of(key: str) -> str:
    """Return the name of the queue that a key belongs to."""
    return key.removeprefix("dpq:{").rpartition(":")[0].removesuffix("}")


def beside(key: str, part: str) -> str:
    """Name another part of the queue that a key belongs to."""
    return f"{key.rpartition(':')[0]}:{part}"
