"""The settings of queues: those that all clients of a queue share, and defaults of the others."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypedDict

from dpq.model.backoff import Backoff

Order = Literal["fifo", "lifo", "min"]
"""The order of tasks: the biggest priority first, and equal ones first in, first out, or last in,
first out; or, with "min", the smallest priority first, and equal ones first in, first out."""

Fairness = Literal["none", "round_robin", "units"] | str
"""The order of groups of equal priority: by the order of their tasks; in turn, task by task; in
turn, by the units that they spend: requests, or, as in "units:tokens", those of a name."""

Payloads = Literal["inline", "apart"]
"""The place of short payloads: in the records of their tasks, or apart from them."""

WhenFull = Literal["refuse", "drop_worst"]
"""The fate of a push into a full group: an error; or the worst task of the group is dropped."""


class Bounds(NamedTuple):
    """The bounds of a queue, as `q.admin.bounds()` reads them; None for no bound.

    `max_waiting` bounds the tasks of each group that are due and that no consumer has.
    """

    max_tasks: int | None = None
    max_waiting: int | None = None
    when_full: WhenFull = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a queue object, `q.settings`; see the arguments of `DPQ`.

    Those from `order` on belong to the queue. The object asks for them once, at its first call;
    before that they are what it was opened with, or the defaults of a new queue.
    """

    payload_type: Any
    default_visibility: float
    default_max_attempts: float
    backoff: Backoff | tuple[float, ...]
    max_payload_bytes: int
    durability: str
    order: str
    aging: float
    fairness: str
    payloads: str
    dead_max_tasks: int
    dead_max_age: float
    seen_max_keys: int


DEFAULT_VISIBILITY = 30.0
"""Seconds of a lease: long enough for one slow request, short enough for a quick comeback."""

DEFAULT_MAX_ATTEMPTS = 10
"""Failed attempts until a task is dead: with the default backoff, about half an hour."""

DEFAULT_MAX_PAYLOAD_BYTES = 1024 * 1024
"""Bytes of a payload: 1 MiB. Put larger data into a store, and its address into the task."""

DEFAULT_SEEN_MAX_KEYS = 1_000_000
"""Seen keys of a queue that has no bound of its own. Source: lua/lib/seen.lua."""


class SharedSettings(TypedDict, total=False):
    """The settings that belong to a queue. A client that gives None for one follows the queue."""

    order: Order | None
    aging: float | None
    fairness: Fairness | None
    payloads: Payloads | None
    dead_max_tasks: int | None
    dead_max_age: float | None
    seen_max_keys: int | None
