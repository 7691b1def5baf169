"""The incidents of a queue, each with what to do, as data: one state, any number of warnings.

docs/operations.md has a row for each, with the same words.
"""

from enum import StrEnum
from typing import Literal

Severity = Literal["bad", "warn", "good", "soft"]


class VerdictState(StrEnum):
    """The states of a queue, in the order in which they are looked for: the first one decides."""

    SERVER_AWAY = "server away"
    SERVER_REFUSES = "server refuses"
    UNREADABLE = "limit unreadable"
    PAUSED = "paused"
    ALL_QUIET = "all workers quiet"
    NO_CONSUMER = "no consumer"
    HANDLERS_BUSY = "all handlers busy"
    FAILING = "failing"
    RATE_LIMITED = "held by a 429"
    PACED = "paced"
    CONCURRENCY = "held by a concurrency"
    QUOTA = "held by a quota"
    BY_HAND = "held by hand"
    ONLY_DELAYED = "only delayed"
    ONLY_DEAD = "only dead"
    MOVING = "moving"
    EMPTY = "empty"
    UNKNOWN_QUEUE = "unknown queue"


class Warned(StrEnum):
    """The warnings: what goes wrong beside the state of a queue."""

    EVICTS = "server evicts"
    NOT_SAVED = "not saved"
    FULL = "full"
    GROUP_FULL = "group full"
    PRODUCERS_WAIT = "producers wait"
    SEEN_FULL = "seen keys full"
    SCHEDULE_DIED = "schedule died"
    KEY_HELD = "key held by a dead letter"
    BATCH_STANDS = "batch stands still"
    NOT_SEALED = "batch not sealed"


OF_SERVER = frozenset({Warned.EVICTS, Warned.NOT_SAVED})
"""The warnings that every queue of a server has."""

UNATTENDED = frozenset({VerdictState.ALL_QUIET, VerdictState.NO_CONSUMER})
"""The states in which no consumer takes tasks."""

LEAST_URGENT = (
    *(VerdictState.BY_HAND, VerdictState.ALL_QUIET, VerdictState.PAUSED),
    VerdictState.ONLY_DEAD,
)
"""The states behind all faults on a page: those that a person has wanted, then what is over."""

SEVERITIES: dict[VerdictState, Severity] = {
    VerdictState.RATE_LIMITED: "warn",
    VerdictState.PACED: "soft",
    VerdictState.ONLY_DELAYED: "soft",
    VerdictState.MOVING: "good",
    VerdictState.EMPTY: "soft",
}
"""Severities of states; a state that is not named is bad."""

REASONS = {
    "rate limited": (VerdictState.RATE_LIMITED, "rate limited by its host"),
    "probe": (VerdictState.RATE_LIMITED, "the first task after a rate limit is still running"),
    "closed by hand": (VerdictState.BY_HAND, "by hand"),
    "concurrency": (VerdictState.CONCURRENCY, "as many tasks run as may"),
    "quota": (VerdictState.QUOTA, "its quota is spread over the rest of the period"),
    "observed": (VerdictState.QUOTA, "its host has said that no more is left"),
    "in order": (VerdictState.PACED, "its first task waits for its retry, and comes first"),
    "unreadable": (VerdictState.UNREADABLE, "its stored limit cannot be read: set or clear it"),
}
"""The state of each reason for which a limit lets no task run, and its words in the answer about a
task; all other reasons pace."""

PACED = VerdictState.PACED, ""

REMEDIES = {
    "server away": "Start the server, or look at its log. `dpq doctor --quick` says when it "
    "answers again.",
    "server silent": "Its process is there: look whether it is stopped, or busy with a long "
    "command. `dpq doctor --quick` says when it answers again.",
    "memory full": "Raise maxmemory (`CONFIG SET maxmemory BYTES`), or remove what fills it: "
    "`dpq queues` counts tasks and dead letters. `dpq doctor --quick {queue}` looks again.",
    "read-only replica": "Give DPQ the address of its master. Make this server the master only if "
    "the other one is gone. `dpq doctor --quick {queue}` looks again.",
    "disk error": "Look in the server's log for a full disk or missing rights. "
    "`dpq doctor --quick {queue}` looks again.",
    "limit unreadable": "Set the limit again: `dpq limit set RATE {scope}{queue}`. Without it, "
    "`dpq limit clear {scope}{queue}`, its tasks run unlimited.",
    "paused": "`dpq admin resume {queue}` lets its tasks run.",
    "all workers quiet": "`dpq workers --unquiet {worker} {queue}` lets it take tasks again.",
    "no consumer": "Start a worker: `dpq worker MODULE:NAME {queue}`. If one has ended, its log "
    "says why.",
    "consumers elsewhere": "Let the consumers ask this queue, `dpq worker MODULE:NAME {queue}`, or "
    "push into the queue that they ask.",
    "all handlers busy": "Restart that process; `dpq admin bulk release --worker {worker} {queue}` "
    "gives its tasks to other workers.",
    "all consumers busy": "Restart that consumer; `dpq admin bulk release --held-for {seconds} "
    "{queue}` gives its tasks to others.",
    "failing": "`dpq admin events --kind failed --kind lease_expired {queue}` shows each. "
    "`dpq admin pause {queue}` keeps the others until the cause is gone.",
    "all die": "`dpq dead list {queue}` shows why. `dpq admin pause {queue}` keeps the others "
    "until the cause is gone.",
    "in order": "`dpq task update {task} --delay 0 {queue}` runs it now.",
    "held by a concurrency": "`dpq task release {task} {token} {queue}` gives its place to others.",
    "concurrency too low": "`dpq limit set RATE --concurrency N {scope}{queue}` lets N of them "
    "run; it replaces the limit, so name all its rates.",
    "held by permits": "Ask the callers of `acquire`; one that died loses its permit then. "
    "`dpq limit set RATE --concurrency N {scope}{queue}` lets N of them run; it replaces the "
    "limit, so name all its rates.",
    "held by a quota": "If the host allows more, `dpq limit set RATE {scope}{queue}` sets another "
    "quota; it replaces the limit, so name all its rates.",
    "held by hand": "`dpq group open {group} {queue}` opens it.",
    "only dead": "`dpq dead list {queue}` shows why. When the cause is gone, `dpq dead replay "
    "--all --rate 10 {queue}` runs them again.",
    "unknown queue": "`dpq queues` lists the queues of this server.",
    "server evicts": "`CONFIG SET maxmemory-policy noeviction` ends it; `dpq doctor {queue}` finds "
    "what is damaged.",
    "not saved": "`CONFIG SET appendonly yes` writes each change to disk.",
    "full": "Add workers, push less, or raise the bound: `q.admin.set_bounds(max_tasks=N)`.",
    "group full": "Find why its tasks do not run, or raise the bound: "
    "`q.admin.set_bounds(max_waiting=N)`.",
    "producers wait": "If it lasts, add workers, or push less.",
    "seen keys full": "Open the queue with a higher `seen_max_keys`, or push with a shorter "
    "`unique_for`.",
    "schedule died": "`dpq dead replay {task} {queue}` starts it again.",
    "key held by a dead letter": "`dpq dead list {queue}` shows why; `dpq dead replay {task} "
    "{queue}` runs it again.",
    "batch stands still": "`dpq stats --batch {batch} {queue}` counts its tasks; "
    "`dpq peek --state delayed {queue}` shows when they are due.",
    "batch not sealed": "If none is to come, `dpq push --file /dev/null --batch {batch} --seal "
    "{queue}` ends it.",
}
"""Sentences on what to do, by the name of a state, of a cause of one, or of a warning."""
