"""The verdict on a queue: why it does not move, who is at fault, and what to do. No I/O, no clock.

`verdict_of` is the only place that judges a queue. `DPQ.why()` returns its verdict; the command
line, the dashboard, the API and the metrics show the same words.

To add a state: name it in `VerdictState`, write its rule here, and put the rule into `RULES`. The
first rule that finds something decides. docs/operations.md has a row for each state, and
tests/daemon/test_verdicts.py plants each.
"""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from dpq.explain.pace import Pace
from dpq.explain.survey import Overview, Survey
from dpq.explain.verdict_facts import (
    LATE_SECONDS,
    UNATTENDED,
    Facts,
    Finding,
    Verdict,
    VerdictState,
    alive,
    awake,
    busy_handlers,
    is_attended,
    moment_of,
    others_ask,
    tasks_are,
    with_queue,
    worker_name,
)
from dpq.explain.verdict_limits import (
    HELD_STATES,
    closed_groups,
    held_by_limit,
    kind_of,
    others_closed,
    scope_name,
    scope_words,
    until_text,
)
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.history import Event
from dpq.model.rates import span

__all__ = ["Verdict", "VerdictState"]

NAMES_SHOWN = 5
"""Names of queues in a sentence without a near name: enough to see which server answers."""


FAILED_LEAST, FAILED_SHARE = 10, 0.2
"""The failed attempts of the last minutes, and their share of all, that make a queue failing."""

CULPRIT_SHARE = 0.7
"""The share of the failures that names a culprit."""


def verdict_of(
    queue: str,
    seen: Overview,
    pace: Pace,
    names: Sequence[str] = (),
    failures: Sequence[Event] = (),
) -> Verdict:
    """Judge a queue.

    Args:
        queue: Its name.
        seen: Its counts, what may hold it, and its workers.
        pace: Its pace, as far as it is known.
        names: The names of all queues, for a queue that does not exist.
        failures: The events of attempts that have failed in the last minutes, the newest last.
    """
    facts = Facts(queue, *seen, pace, names, failures)
    first, *others = (finding for rule in RULES if (finding := rule(facts)))
    also = [each.state for each in others if each.state in HOLDS and first.state in HOLDS]
    return Verdict(
        queue=queue,
        state=first.state,
        because=first.because + full_text(facts.survey) + evicting_text(facts.survey),
        since=moment_of(first.since),
        until=moment_of(first.until),
        who=first.who,
        what_to_do=first.what_to_do,
        also=tuple(also),
        needs_person=first.needs_person,
    )


SILENT = "no answer"
"""The first words of what is said of a server that takes a connection, but does not answer."""


def full_text(survey: Survey) -> str:
    """Say that the queue takes no new tasks, whatever holds it; "" if it has room."""
    if not survey.full:
        return ""
    where = f"full: {survey.live} of {survey.max_tasks} tasks"
    return f"; {where}, so new tasks are refused"


def evicting_text(survey: Survey) -> str:
    """Say that the server deletes stored data when its memory is full; "" if it does not."""
    policy = survey.server.get("maxmemory_policy", "noeviction")
    evicts = policy != "noeviction" and survey.server.get("maxmemory", "0") != "0"
    return "; the server deletes tasks when its memory is full" if evicts else ""


def server_away(queue: str, error: object, since_ms: float) -> Verdict:
    """Make the verdict on a queue whose server does not answer since a moment.

    Args:
        queue: Its name.
        error: What was seen; it begins with `SILENT` if the server takes connections.
        since_ms: The moment.
    """
    since, what_to_do = moment_of(since_ms), "Start the server, or look at its log"
    if str(error).startswith(SILENT):
        what_to_do = "Its process is there: look whether it is stopped, or busy with a long command"
    return Verdict(
        queue=queue,
        state=VerdictState.SERVER_AWAY,
        because=f"the server has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: {error}",
        since=since,
        what_to_do=f"{what_to_do}. `dpq doctor --quick` says when it answers again.",
        needs_person=True,
    )


def no_such_queue(name: str, names: Sequence[str]) -> str:
    """Say that there is no queue of a name; add the nearest name, or some names of queues."""
    known = sorted({*names} - {name})
    near = get_close_matches(name, known, n=1)
    if near:
        return f"there is no queue {name!r}; did you mean {near[0]!r}?"
    if not known:
        return f"there is no queue {name!r}, nor any other: the first push makes one"
    more = ", ..." * (len(known) > NAMES_SHOWN)
    return (
        f"there is no queue {name!r}; there are {', '.join(map(repr, known[:NAMES_SHOWN]))}{more}"
    )


# The rules, in the order of `VerdictState`


def _server_refuses(facts: Facts) -> Finding | None:
    info = facts.survey.server
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if info.get("role") == "slave" and info.get("slave_read_only") == "1":
        because = "the server is a read-only replica, so it refuses all changes"
        what_to_do = "Give DPQ the address of the master, or make this server the master"
    elif most and used > most and info.get("maxmemory_policy") == "noeviction":
        because = f"the server's memory is full ({used} of {most} bytes), so it refuses new tasks"
        what_to_do = "Raise maxmemory, or remove what fills it, such as dead letters"
    elif "err" in (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status")):
        because = "the server could not write its data to disk, so it may refuse all changes"
        what_to_do = "Look in its log for a full disk or missing rights"
    else:
        return None
    return Finding(
        VerdictState.SERVER_REFUSES,
        because,
        what_to_do=f"{what_to_do}. `dpq doctor --quick {with_queue(facts.queue)}` looks again.",
        needs_person=True,
    )


def _unreadable(facts: Facts) -> Finding | None:
    shut = next((held for held in facts.survey.held if held.state.reason == "unreadable"), None)
    if not shut:
        return None
    scope = scope_name(shut)
    return Finding(
        VerdictState.UNREADABLE,
        f"the stored limit of {scope} cannot be read, so none of its tasks runs",
        what_to_do=f"Set the limit of {scope} again, or clear it: "
        f"`dpq limit clear {scope_words(shut)}{with_queue(facts.queue)}`.",
        needs_person=True,
    )


def _paused(facts: Facts) -> Finding | None:
    until, pause = facts.survey.paused_until, facts.survey.pause
    if not until:
        return None
    ends = None if until == "inf" else float(until)
    because = "it is paused until " + ("it is resumed" if ends is None else facts.say(ends))
    told = re.match(r"by (.*), until ", pause.detail) if pause else None
    by = told[1] if told else ""
    if pause:
        because += f"; the pause began at {facts.say(pause.at_ms)}" + (f", by {by}" if by else "")
    return Finding(
        VerdictState.PAUSED,
        because,
        since=pause.at_ms if pause else None,
        until=ends,
        who=by,
        what_to_do=f"`dpq admin resume {with_queue(facts.queue)}` lets its tasks run.",
        needs_person=ends is None,
    )


def _all_quiet(facts: Facts) -> Finding | None:
    few = alive(facts.workers)
    if not facts.due or not few or awake(few) or others_ask(facts.survey, facts.workers):
        return None
    last = max(few, key=lambda worker: worker.quiet_since or worker.seen)
    since = (last.quiet_since or last.seen).timestamp() * 1000
    all_of_them = "its only worker is" if len(few) == 1 else f"all {len(few)} workers are"
    because = f"{tasks_are(facts.due)}, and {all_of_them} quiet"
    because += "" if len(few) == 1 else ", the last one"
    because += f" since {facts.say(since)}: {worker_name(last)}"
    because += f", told by {last.quiet_by}" if last.quiet_by else ""
    return Finding(
        VerdictState.ALL_QUIET,
        because,
        since=since,
        who=worker_name(last),
        what_to_do=f"`dpq workers --unquiet {shlex.quote(last.name)} {with_queue(facts.queue)}` "
        "lets it take tasks again.",
        needs_person=True,
    )


def _no_consumer(facts: Facts) -> Finding | None:
    asked, late = facts.survey.asked_ms, facts.workers
    if not facts.due or alive(late) or is_attended(facts.survey, late):
        return None
    seen = max((worker.seen.timestamp() * 1000 for worker in late), default=0.0)
    due, since, who = tasks_are(facts.due), asked, ""
    because = f"{due}, and no consumer has ever asked for one"
    if late:
        last = min(late, key=lambda worker: worker.seen_seconds)
        who, since = worker_name(last), seen
        because = (
            f"{due}, and its last worker, {who}, has sent no heartbeat since {facts.say(seen)}"
        )
    elif asked is not None:
        because = f"{due}, and no consumer has asked for one since {facts.say(asked)}"
    if facts.survey.lapsed:
        because += f"; the leases of {facts.survey.lapsed} of them have ended without an ack"
    return Finding(
        VerdictState.NO_CONSUMER,
        because,
        since=since,
        who=who,
        what_to_do=f"Start a worker, `dpq worker MODULE:NAME {with_queue(facts.queue)}`, or look "
        "into the log of the one that ended.",
        needs_person=True,
    )


def _handlers_busy(facts: Facts) -> Finding | None:
    if facts.seconds_since(facts.survey.asked_ms) < LATE_SECONDS:
        return None
    workers = awake(facts.workers)
    if facts.flows and any(worker.holds > worker.running for worker in workers):
        return None  # tasks end that were popped ahead
    if not facts.workers:
        return None if facts.flows else _consumers_busy(facts)
    places = busy_handlers(facts.workers)
    slowest = max(facts.workers, key=lambda worker: worker.longest_seconds or 0.0)
    seconds, task = slowest.longest_seconds or 0.0, slowest.longest_task
    if not places or not facts.hangs(seconds):
        return None
    running = sum(worker.running for worker in workers)
    who = worker_name(slowest)
    because = (
        f"{running} of {places} handlers are busy, the longest for {span(seconds)}{facts.usual()}: "
        f"task {task} in {who}"
    )
    if slowest.seen_seconds > LATE_SECONDS:
        because += f", which has sent no heartbeat for {span(slowest.seen_seconds)}"
    return Finding(
        VerdictState.HANDLERS_BUSY,
        because,
        since=facts.now - seconds * 1000,
        who=who,
        what_to_do="Restart that process; `dpq admin bulk release --worker "
        f"{shlex.quote(slowest.name)} {with_queue(facts.queue)}` gives its tasks to other workers.",
        needs_person=True,
    )


def _consumers_busy(facts: Facts) -> Finding | None:
    """Judge consumers that send no heartbeats, by their leases."""
    survey = facts.survey
    seconds = facts.seconds_since(survey.oldest_ms)
    if not facts.due or not survey.leases or not facts.hangs(seconds) or survey.oldest_ms is None:
        return None
    return Finding(
        VerdictState.HANDLERS_BUSY,
        f"consumers that send no heartbeat hold {survey.leases} "
        f"lease{'s' * (survey.leases > 1)} and ask for no more, the "
        f"longest for {span(seconds)}{facts.usual()}: task {survey.oldest}",
        since=survey.oldest_ms,
        what_to_do=f"Restart that consumer; `dpq admin bulk release --held-for {seconds:.0f} "
        f"{with_queue(facts.queue)}` gives its tasks to others.",
        needs_person=True,
    )


def _failing(facts: Facts) -> Finding | None:
    failed, tried = facts.pace.failed, facts.pace.failed + facts.pace.acked
    if not is_failing(facts.pace):
        return None
    because = f"{failed} of {tried} attempts of the last minutes have failed"
    errors = Counter(_error(event) for event in facts.failures)
    for error, _ in errors.most_common(1):
        because += f", most often: {error}"
    who = _culprit(facts)
    because += f"; most of them {who}" if who else ""
    return Finding(
        VerdictState.FAILING,
        because,
        who=who,
        what_to_do=f"`dpq admin events --kind failed {with_queue(facts.queue)}` shows each.",
        needs_person=True,
    )


def is_failing(pace: Pace) -> bool:
    """Return True if many of the attempts of the last minutes have failed."""
    return pace.failed >= max(FAILED_LEAST, FAILED_SHARE * (pace.failed + pace.acked))


def _error(event: Event) -> str:
    """Write the error of an attempt without what differs from task to task."""
    if event.kind == "lease_expired":
        return "the lease ran out"
    return re.sub(r"\d{4,}", "…", event.detail.partition("\n")[0])[:100] or "no reason given"


def _culprit(facts: Facts) -> str:
    """Name the task, worker, group or handler of most failures, or return ""."""
    found = facts.failures
    kinds: list[tuple[str, Iterable[str]]] = [
        ("of task", (event.task_id for event in found)),
        ("of worker", (event.worker for event in found if len(facts.workers) > 1)),
        ("of group", (event.group for event in found)),
        ("in", (event.frames[-1] if event.frames else "" for event in found)),
    ]
    for words, names in kinds:
        for name, count in Counter(filter(None, names)).most_common(1):
            if count >= CULPRIT_SHARE * len(found):
                return f"{words} {name}"
    return ""


def _only_delayed(facts: Facts) -> Finding | None:
    stats, due = facts.stats, facts.survey.due_ms
    if not facts.idle or not stats.delayed:
        return None
    because = tasks_are(stats.delayed, "delayed")
    if due is not None and due >= UNTIL_OPENED_MS:
        because += " until other tasks have ended, and none of the queue's tasks is due"
    else:
        if stats.following:
            because += f", {stats.following} of them until other tasks have ended"
        because += f", the next one is due at {facts.say(due)}"
    return Finding(VerdictState.ONLY_DELAYED, because, until=due)


def _only_dead(facts: Facts) -> Finding | None:
    stats, (reason, fault) = facts.stats, facts.survey.first_death
    if not facts.idle or stats.delayed or not stats.dead:
        return None
    first = f": {reason}" + (f" ({fault})" if fault else "") if reason else ""
    return Finding(
        VerdictState.ONLY_DEAD,
        f"no live task is left, and {tasks_are(stats.dead, 'dead')}; the first died{first}",
        what_to_do=f"`dpq dead list {with_queue(facts.queue)}` shows why; `dpq dead replay "
        f"--all {with_queue(facts.queue)}` runs them again.",
        needs_person=True,
    )


def _moving(facts: Facts) -> Finding | None:
    if facts.idle:
        return None
    leases = facts.survey.leases
    said = [f"{tasks_are(facts.due)}, and {leases} {'is' if leases == 1 else 'are'} running"]
    if facts.due and facts.pace.kind != "counting":
        said.append(facts.pace.say)
    said += [
        f"{scope_name(held)} is {kind_of(held)}{until_text(facts, held.state)}"
        f"{others_closed(facts, held)}"
        for held in [*facts.survey.held[:1], *closed_groups(facts)[:1]]
        if not held.state.open
    ][:1]
    said += [
        f"{worker_name(worker)} has sent no heartbeat for {span(worker.seen_seconds)}"
        for worker in facts.workers
        if worker.seen_seconds > LATE_SECONDS
    ][:1]
    if facts.pace.failed:
        said.append(f"{facts.pace.failed} attempts have failed in the last minutes")
    if facts.stats.dead:
        said.append(tasks_are(facts.stats.dead, "dead"))
    if quiet := [worker for worker in alive(facts.workers) if worker.quiet_since]:
        verb = "is" if len(quiet) == 1 else "are"
        said.append(f"{len(quiet)} of {len(facts.workers)} workers {verb} quiet")
    return Finding(VerdictState.MOVING, "; ".join(said))


def _unknown_queue(facts: Facts) -> Finding | None:
    if facts.exists:
        return None
    return Finding(
        VerdictState.UNKNOWN_QUEUE,
        no_such_queue(facts.queue, facts.names),
        what_to_do="`dpq queues` lists the queues of this server.",
        needs_person=True,
    )


def _empty(facts: Facts) -> Finding:
    return Finding(VerdictState.EMPTY, "no task is stored")


RULES: tuple[Callable[[Facts], Finding | None], ...] = (
    _server_refuses,
    _unreadable,
    _paused,
    _all_quiet,
    _no_consumer,
    _handlers_busy,
    _failing,
    held_by_limit,
    _only_delayed,
    _only_dead,
    _moving,
    _unknown_queue,
    _empty,
)
"""The rules, in the order in which they are asked."""

HOLDS = frozenset({VerdictState.UNREADABLE, VerdictState.PAUSED, *HELD_STATES}) | {
    *UNATTENDED,
    VerdictState.HANDLERS_BUSY,
}
"""The states that may hold a queue at the same time."""
