"""The meaning of each problem in a sentence, and the way out. Changes nothing.

`dpq doctor` and the server check call it. Source: docs/operations.md, "Doctor".
"""

import re
from collections.abc import Mapping
from typing import Any

from dpq.model.reports import Problem

REPAIR = "`dpq doctor --repair`"

EXPLAINED: dict[str, tuple[str, str]] = {
    # The server
    "eviction": (
        "The server may throw stored data away when its memory is full: maxmemory-policy is "
        "{subject}. A queue that loses a key loses tasks.",
        "Set `maxmemory-policy noeviction` (redis.conf, `CONFIG SET` or your provider's settings).",
    ),
    "no persistence": (
        "The server keeps nothing on disk, neither AOF nor RDB: when it restarts, all tasks are "
        "gone.",
        "Set `appendonly yes` (redis.conf, or `CONFIG SET appendonly yes`), or accept the loss.",
    ),
    "disk error": (
        "The server could not write its data to disk the last time it tried ({subject}); with RDB "
        "it then refuses to write, with AOF tasks may be lost at its next end.",
        "Look for a full disk or missing rights in the server's log.",
    ),
    "memory nearly full": (
        "The server uses {detail} of the memory it may use: when all is used, pushes are refused.",
        "Raise maxmemory, or look for what fills it: `dpq stats`, `dpq queues`, dead letters.",
    ),
    # Keys of the server
    "wrong type": (
        "The key {subject} is {detail}: something else wrote it, and calls that need it end with "
        "WRONGTYPE. Nothing else was looked at.",
        "{repair} removes it, since it holds no task (so does `DEL {subject}`), and then mends "
        "what is missing.",
    ),
    # Tasks
    "bad record": (
        "The record of task {subject} cannot be read: something else wrote into Redis.",
        "{repair} moves its payload to the dead letters (`bad record`): look there, and push again "
        "what you want to keep.",
    ),
    "no record": (
        "Task {subject} is named {detail}, but its record is gone.",
        "{repair} moves its payload, if it is there, to the dead letters (`bad record`), and "
        "removes the name.",
    ),
    "no payload": (
        "The payload of task {subject} is gone: nobody can run it.",
        "{repair} moves it to the dead letters (`payload missing`): its record says when it was "
        "pushed, its group and its key.",
    ),
    "in 0 states": (
        "Task {subject} is stored, but stands nowhere: nothing would ever run it.",
        "{repair} makes it ready again; or delayed or dead, where its record says so.",
    ),
    "in N states": (
        "Task {subject} stands in several places at once ({detail}): it might run twice.",
        "{repair} leaves it in the safest: dead with a reason, then under its lease, then delayed.",
    ),
    "wrong score": (
        "Task {subject} stands at a place in the order that is not its own ({detail}).",
        "{repair} puts it where its priority says.",
    ),
    "stale place": (
        "There is a place in the order for task {subject} that its record does not bear out.",
        "{repair} removes that place; the task keeps its right one.",
    ),
    "not the head": (
        "Task {subject} is ready though another task leads its group {detail!r}.",
        "{repair} puts it behind the head, or makes it the head.",
    ),
    "event not noticed": (
        "{subject} is {detail}, and no consumer knows that it is to look then.",
        "{repair} notes the moment; `dpq scheduler` or `dpq promote` does so, too.",
    ),
    "never due": (
        "{subject} stands {detail}: so far away no call of DPQ puts anything, and it would never "
        "come.",
        "{repair} makes a delayed task due when its record says so, ends a lease, and has a group "
        "open when its limit lets it.",
    ),
    # Groups
    "head not ready": (
        "The first task of group {subject!r} is not where it can be taken: the group stands still.",
        "{repair} makes the best of its waiting tasks the first.",
    ),
    "no head": (
        "Group {detail!r} has waiting tasks, but none is first and it is not closed: it stands "
        "still.",
        "{repair} makes the best of its waiting tasks the first.",
    ),
    "closed group with a head": (
        "Group {subject!r} is closed, and yet one of its tasks can be taken.",
        "{repair} closes it while its limit says so, else opens it.",
    ),
    # Keys
    "key lost": (
        "Task {subject} has the unique key {detail!r}, but a push of that key would not find it.",
        "{repair} gives it the key back, unless another task has it by now.",
    ),
    "key of another task": (
        "The unique key {detail!r} is held for task {subject}, which does not have it.",
        "{repair} frees the key.",
    ),
    "bad schedule": (
        "Task {subject} is to recur, but when cannot be read or computed: {detail!r}.",
        "{repair} makes it a task that runs once: push it again with its schedule. It leaves one "
        "with a time zone that this machine does not know: install tzdata, or cancel it.",
    ),
    # Settings
    "settings lost": (
        "The queue has lost its setting {subject} ({detail}): somebody has deleted it from `conf`, "
        "or all of `conf`.",
        "{repair} restores it from its copy; so does the next pop or push when all are lost.",
    ),
    "limits not in force": (
        "A limit that was set is not where the scripts look for it ({subject}: {detail}).",
        "{repair} restores it from its copy. Those that are lost with their copies must be set "
        "again; until then nothing runs, and after a repair they are forgotten.",
    ),
    "limit cannot be read": (
        "The stored limit of {limited} cannot be read ({detail!r}): nothing that it limits runs.",
        "{repair} restores it from its copy. Where there is none, set the limit again or clear it.",
    ),
    "stray limit": (
        "A limit is stored for what no group is called ({subject!r}): nothing reads it.",
        "{repair} removes it.",
    ),
    # Limits
    "bad gate": (
        "What the limit of {scope} has granted so far cannot be read.",
        "{repair} counts it as spent: it opens again after one window of its limit.",
    ),
    "stray gate": (
        "There is a gate of a group without a name ({detail!r}): nothing reads it.",
        "{repair} removes it.",
    ),
    "probe without a lease": (
        "{scope} waits for task {subject_or_detail} to tell whether a 429 is over, but nobody "
        "runs that.",
        "{repair} lets the next task find out.",
    ),
    "lease that has ended": (
        "A lease is counted against a limit though it is over ({subject!r}): one task less runs.",
        "{repair} counts it no more.",
    ),
    "lease not counted": (
        "The running task {subject} is not counted against the concurrency of its group: one more "
        "could run.",
        "{repair} counts it.",
    ),
}
"""A kind of problem -> its meaning, and the way out."""

SETTINGS = (
    "The key {subject} is {detail}: something else wrote it, and calls that need it end with "
    "WRONGTYPE. It held the queue's settings, and how many partitions there are: who does not "
    "name their number sees one. Nothing else was looked at.",
    "`dpq doctor --repair --partitions N` removes it, and then mends what is missing. N is 1 "
    "unless somebody has named another number for this queue; a wrong one hides tasks.",
)
"""The same for the key of the settings: its repair needs the number of partitions."""


def explain(problem: Problem) -> tuple[str, str]:
    """Return the meaning of a problem, and the way out."""
    kind = re.sub(r"^in [1-9]\d* states$", "in N states", problem.kind)
    meaning, way_out = EXPLAINED.get(kind, ("{kind}: {subject} {detail}", ""))
    if kind == "wrong type" and re.fullmatch(r"dpq:\{[^{}]*\}:conf", problem.subject):
        meaning, way_out = SETTINGS  # of the first partition
    scope = f"group {problem.subject!r}" if problem.subject else "the queue"
    words = problem.model_dump() | {
        "repair": REPAIR,
        "scope": scope,
        "limited": "every group" if problem.subject == "*" else scope,
        "subject_or_detail": problem.detail,
    }
    meaning, way_out = meaning.format(**words), way_out.format(**words)
    return meaning[:1].upper() + meaning[1:], way_out


def server_problems(info: Mapping[str, Any], save: str | None) -> list[Problem]:
    """Find settings of a server that endanger tasks.

    Args:
        info: The reply of INFO; a field that is missing counts as good.
        save: The server's setting `save`; None if it is not known.
    """
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


def wants_save(info: Mapping[str, Any]) -> bool:
    """Return True if only the setting `save` makes the server keep data on disk."""
    return str(info.get("aof_enabled", 1)) == "0"
