"""The meaning of each problem in a sentence, and the way out. Changes nothing.

`dpq doctor` and the server check call it. Source: docs/operations.md, "Doctor".
"""

import re
from collections.abc import Mapping
from typing import Any

from dpq.model.rates import span
from dpq.model.reports import Problem

CLOCK_SECONDS = 60.0
"""Seconds by which two clocks may differ: people see no difference on a screen."""

ANEW = (
    "Export the queue, drop it and import the file: an import takes all that can be read, and says "
    "what could not (docs/operations.md)."
)

_MENDED: dict[str, tuple[str, str]] = {
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
        "`dpq task run` or `update(id, delay=0)` lets the task run.",
    ),
    "limit cannot be read": (
        "The stored limit of {limited} cannot be read ({detail!r}). No task under this limit runs.",
        "Set the limit again, or clear it.",
    ),
}
"""A kind of problem -> its meaning, and the way out of it alone."""

_ANEW = {
    "bad record": "The record of task {subject} cannot be read: another program wrote into Redis.",
    "no record": "Task {subject} is still {detail}, but its record is gone.",
    "no payload": "The payload of task {subject} is gone: nobody can run it.",
    "in 0 states": "Task {subject} is stored, but it is in no state: it would never run.",
    "in N states": "Task {subject} is in several states at once ({detail}): it might run twice.",
    "stale place": "The order has an entry for task {subject} that does not fit the task's record.",
    "not the head": (
        "Task {subject} is ready, but another task is the head of its group {detail!r}."
    ),
    "end not noticed": (
        "Task {subject} waits for the end of task {detail}, but that end would not release it."
    ),
    "batch miscounted": "Batch {subject!r} counts other tasks than it has: it {detail}.",
    "batch not finished": (
        "Batch {subject!r} is sealed and nothing of it is left, but it is not finished."
    ),
    "head not ready": (
        "The head of group {subject!r} cannot be popped, so no task of the group runs."
    ),
    "no head": (
        "Group {detail!r} is open and has waiting tasks, but no head: none of its tasks runs."
    ),
    "bad share": (
        "What group {subject!r} has spent cannot be read: {detail!r}. The group has begun anew."
    ),
    "key lost": (
        "Task {subject} has the unique key {detail!r}, but a push with that key would not find it."
    ),
    "key of another task": (
        "The unique key {detail!r} is held for task {subject}, but that task has another key "
        "or none."
    ),
    "bad seen key": (
        "The unique key {subject!r} stays taken after an ack, but nobody can read until when "
        "({detail!r})."
    ),
    "seen key would stay": (
        "The unique key {subject!r} stays taken after an ack, and nothing would ever remove it."
    ),
    "settings lost": (
        "The queue has lost its setting {subject} ({detail}): somebody has deleted it from "
        "`conf`, or all of `conf`."
    ),
    "limits not in force": (
        "A limit that was set is not where the scripts look for it ({subject}: {detail})."
    ),
    "lease that has ended": (
        "A lease has ended, but still counts against a concurrency ({subject!r}): one task "
        "less can run."
    ),
    "lease not counted": (
        "Task {subject} is running, but does not count against the concurrency of its group: "
        "one task too many could run."
    ),
    "caller in no line": (
        "A caller of `acquire` waits for a permit ({subject!r}), but nothing calls it."
    ),
}
"""A kind of problem -> its meaning; the way out is to make the queue anew."""

EXPLAINED = _MENDED | {kind: (meaning, ANEW) for kind, meaning in _ANEW.items()}
"""A kind of problem -> its meaning, and the way out."""


def explain(problem: Problem) -> tuple[str, str]:
    """Return the meaning of a problem, and the way out."""
    kind = re.sub(r"^in [1-9]\d* states$", "in N states", problem.kind)
    meaning, way_out = EXPLAINED.get(kind, ("{kind}: {subject} {detail}", ""))
    groups = {"": "the queue", "*": "every group"}
    words = problem.model_dump() | {
        "limited": groups.get(problem.subject, f"group {problem.subject!r}"),
    }
    meaning, way_out = meaning.format(**words), way_out.format(**words)
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
