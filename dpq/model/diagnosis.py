"""The meaning of each problem in a sentence, and the way out. Changes nothing.

`dpq doctor` and the server check call it. Source: docs/operations.md, "Doctor".
"""

from collections.abc import Mapping
from typing import Any

from dpq.model.rates import span
from dpq.model.reports import Problem

CLOCK_SECONDS = 60.0
"""Seconds by which two clocks may differ: people see no difference on a screen."""

EXPLAINED: dict[str, tuple[str, str]] = {
    "eviction": (
        "The server may delete stored data when its memory is full: maxmemory-policy is "
        "{subject}. A queue that loses a key loses tasks.",
        "Set `maxmemory-policy noeviction` (redis.conf, `CONFIG SET` or your provider's settings).",
    ),
    "no persistence": (
        "The server keeps nothing on disk, neither AOF nor RDB. When it restarts, all tasks are "
        "gone.",
        "Set `appendonly yes` (redis.conf, or `CONFIG SET appendonly yes`), or accept the loss.",
    ),
    "disk error": (
        "The last time, the server could not write its data to disk ({subject}). With RDB, it now "
        "refuses to write. With AOF, tasks may be lost when it stops.",
        "Look in the server's log for a full disk or missing rights.",
    ),
    "memory nearly full": (
        "The server uses {detail} of the memory that it may use. When all is used, pushes are "
        "refused.",
        "Raise maxmemory, or find what fills it: `dpq stats`, `dpq queues`, dead letters.",
    ),
    "clock far off": (
        "The server's clock is {detail} of this machine's. Deadlines follow the server's clock, so "
        "times of the day, quotas and schedules come at another time than people expect.",
        "Let both machines take their time from a time server (NTP).",
    ),
    "wrong type": (
        "The key {subject} is {detail}: another program wrote it. Calls that need it fail with "
        "WRONGTYPE. No other key of the queue was checked.",
        "`DEL {subject}` removes it: it holds no task.",
    ),
    "event not noticed": (
        "{subject} is {detail}, but no consumer would look at that time.",
        "`dpq admin scheduler` stores the time; so does a pop.",
    ),
    "waits for nothing": (
        "Task {subject} waits for the end of batch {detail!r}, but that batch will not release it.",
        "`dpq task update {subject} --delay 0` lets the task run.",
    ),
    "schedule died": (
        "The recurring task {subject} is dead ({detail}), and does not come back on its own.",
        "`dpq dead replay {subject}` starts it again.",
    ),
    "limit cannot be read": (
        "The stored limit of {limited} cannot be read ({detail!r}). No task under this limit runs.",
        "Set the limit again, or clear it.",
    ),
}
"""A kind of problem -> its meaning, and the way out."""

_DAMAGE = (
    "Stored data do not fit together: {kind}: {subject} {detail}. Another program has written into "
    "the queue's keys, or the server has lost some.",
    "Export the queue, drop it and import the file: an import takes all that can be read, and says "
    "what could not (docs/operations.md).",
)


def explain(problem: Problem) -> tuple[str, str]:
    """Return the meaning of a problem, and the way out."""
    groups = {"": "the queue", "*": "every group"}
    limited = groups.get(problem.subject, f"group {problem.subject!r}")
    meaning, way_out = (
        text.format(**problem.model_dump(), limited=limited)
        for text in EXPLAINED.get(problem.kind, _DAMAGE)
    )
    return meaning[:1].upper() + meaning[1:], way_out


def server_problems(info: Mapping[str, Any], save: str | None) -> list[Problem]:
    """Find settings of a server that endanger tasks."""
    found = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(Problem(kind="eviction", subject=str(policy)))
    if wants_save(info) and save == "":
        found.append(Problem(kind="no persistence", subject="appendonly no, no save points"))
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"):
        if info.get(name, "ok") != "ok":
            found.append(Problem(kind="disk error", subject=name, detail=str(info[name])))
    used, most = info.get("used_memory", 0), info.get("maxmemory", 0)
    if most and used > 0.9 * most:
        share = f"{used / most:.0%} ({used} of {most} bytes)"
        found.append(Problem(kind="memory nearly full", subject="maxmemory", detail=share))
    return found


def clock_problems(server_ms: float, here_ms: float) -> list[Problem]:
    """Find a clock of the server that is far off; a minute is nearer than any retry or hop."""
    ahead = (server_ms - here_ms) / 1000
    if abs(ahead) < CLOCK_SECONDS:
        return []
    detail = f"{span(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}"
    return [Problem(kind="clock far off", subject="TIME", detail=detail)]


def wants_save(info: Mapping[str, Any]) -> bool:
    """Return True if only the setting `save` makes the server keep data on disk."""
    return str(info.get("aof_enabled", 1)) == "0"
