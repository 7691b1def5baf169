"""The verdict on a queue: why it does not move, who is at fault, and what to do. No I/O, no clock.

`verdict_of` alone judges a queue; all screens show its words. The first of `RULES` that finds
something decides. docs/life_of_a_task.md says how to add a state or a warning.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from dpq.explain.held import SENTENCES, closed, held_by_limit, others_closed, until_text
from dpq.explain.incidents import SEVERITIES, UNATTENDED, VerdictState, Warned
from dpq.explain.verdict_facts import (
    LATE_SECONDS,
    Facts,
    Found,
    Verdict,
    hangs,
    moment_of,
    tasks_are,
    worker_name,
)
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.model.history import Event
from dpq.model.queue_settings import DEFAULT_SEEN_MAX_KEYS
from dpq.model.rates import many, span

__all__ = ["Verdict", "VerdictState"]

NAMES_SHOWN = 5
"""Names of queues in a sentence without a near name: enough to see which server answers."""

FAILED_LEAST, FAILED_SHARE = 10, 0.2
"""The failed attempts of the last minutes, and their share of all, that make a queue failing."""

CULPRIT_SHARE = 0.7
"""The share of the failures that names a culprit."""

UNSAVED_MS = 7_200_000
"""Milliseconds: a server that makes snapshots makes one an hour after a change, by default."""


def verdict_of(facts: Facts) -> Verdict:
    """Judge a queue."""
    first, *others = filter(None, (rule(facts) for rule in RULES))
    told, needs_person = [first, *_warnings(facts)], first.needs_person
    if needs_person is None:
        needs_person = first.state not in SEVERITIES and first.until is None
    return Verdict(
        queue=facts.queue,
        state=first.state,
        because="; ".join(each.because for each in told),
        since=moment_of(first.since),
        until=moment_of(first.until),
        who=first.who,
        what_to_do=" ".join(dict.fromkeys(filter(None, map(facts.remedy, told)))),
        also=tuple(each.state for each in others if {each.state, first.state} <= HOLDS),
        warnings=tuple(each.state for each in told[1:]),
        needs_person=needs_person,
        drain=facts.drain,
    )


def no_such_queue(name: str, names: Sequence[str]) -> str:
    """Say that there is no queue of a name; add the nearest name, or some names of queues."""
    known, said = sorted({*names} - {name}), f"there is no queue {name!r}"
    if near := get_close_matches(name, known, n=1):
        return f"{said}; did you mean {near[0]!r}?"
    if not known:  # perhaps it is the wrong server
        return f"{said}, nor any other: the first push makes one"
    return f"{said}; there are {some_of(known)}"


def some_of(names: Sequence[str]) -> str:
    """List the first names."""
    return ", ".join(map(repr, names[:NAMES_SHOWN])) + ", ..." * (len(names) > NAMES_SHOWN)


# The rules, in the order of `VerdictState`


def _server_refuses(facts: Facts) -> Found | None:
    info = facts.survey.server
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if info.get("role") == "slave" and info.get("slave_read_only") == "1":
        incident = "read-only replica"
        master = f"{info.get('master_host')}:{info.get('master_port')}"
        because = f"the server is a read-only replica of {master}, so it refuses all changes"
    elif most and used > most and not info.get("maxmemory_policy", "").startswith("allkeys"):
        incident = "memory full"
        full = f"{used / 2**20:.0f} of {most / 2**20:.0f} MiB"
        because = f"the server's memory is full ({full}), so it refuses new tasks"
    elif "err" in (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status")):
        incident = "disk error"
        because = "the server could not write its data to disk, so it may refuse all changes"
    else:
        return None
    return Found(VerdictState.SERVER_REFUSES, because, incident)


def _unreadable(facts: Facts) -> Found | None:
    shut = next((held for held in facts.survey.held if held.state.reason == "unreadable"), None)
    if not shut:
        return None
    because = f"the stored limit of {shut.name} cannot be read, so none of its tasks runs"
    return Found(VerdictState.UNREADABLE, because, named={"group": shut.state.group or ""})


def _paused(facts: Facts) -> Found | None:
    until, pause, by, since = facts.survey.paused_until, facts.survey.pause, "", None
    if not until:
        return None
    ends = None if until == "inf" else float(until)
    because = "it is paused until " + ("it is resumed" if ends is None else facts.say(ends))
    if pause:
        told = re.match(r"by (.*), until ", pause.detail)
        since, by = pause.at_ms, told[1] if told else ""
        because += f"; the pause began at {facts.say(since)}" + (f", by {by}" if by else "")
    return Found(VerdictState.PAUSED, because, since=since, until=ends, who=by)


def _all_quiet(facts: Facts) -> Found | None:
    few = facts.alive
    are_quiet = few and all(each.quiet_since for each in few)
    if not facts.stats.due or not are_quiet or facts.others_ask:
        return None
    last = max(few, key=lambda worker: worker.quiet_since or worker.seen)
    since, who = (last.quiet_since or last.seen).timestamp() * 1000, worker_name(last)
    all_of_them = f"all {len(few)} workers are quiet, the last one"
    quiet = "its only worker is quiet" if len(few) == 1 else all_of_them
    because = f"{tasks_are(facts.stats.due)}, and {quiet} since {facts.say(since)}: {who}"
    because += f", told by {last.quiet_by}" if last.quiet_by else ""
    return Found(VerdictState.ALL_QUIET, because, since=since, who=who, named={"worker": last.name})


def _no_consumer(facts: Facts) -> Found | None:
    if not facts.stats.due or facts.alive or facts.others_ask:
        return None
    since, who, why = facts.survey.asked_ms, "", "no consumer has ever asked for one"
    if facts.workers:
        last = min(facts.workers, key=lambda worker: worker.seen_seconds)
        who, since = worker_name(last), last.seen.timestamp() * 1000
        why = f"its last worker, {who}, has sent no heartbeat since {facts.say(since)}"
    elif since is not None:
        why = f"no consumer has asked for one since {facts.say(since)}"
    because = f"{tasks_are(facts.stats.due)}, and {why}"
    if facts.survey.lapsed:
        because += f"; the leases of {facts.survey.lapsed} of them have ended without an ack"
    because += facts.elsewhere and f"; {facts.elsewhere}"
    incident = "consumers elsewhere" if facts.elsewhere else None
    return Found(VerdictState.NO_CONSUMER, because, incident, since=since, who=who)


def _handlers_busy(facts: Facts) -> Found | None:
    survey, state = facts.survey, VerdictState.HANDLERS_BUSY
    workers = [worker for worker in facts.workers if not worker.quiet_since]
    ahead = any(worker.holds > worker.running for worker in workers)
    if facts.seconds_since(survey.asked_ms) < LATE_SECONDS or (facts.pace.done and ahead):
        return None  # tasks end that were popped ahead
    if not facts.workers:  # consumers without heartbeats are judged by their leases
        if facts.pace.done or not facts.stats.due or not (hang := _hang(facts)):
            return None
        leases, since = many(survey.leases, "lease"), survey.oldest_ms
        because = f"consumers that send no heartbeat hold {leases} and ask for no more; {hang}"
        held = int(facts.seconds_since(since)) - 1
        return Found(state, because, "all consumers busy", since=since, named={"seconds": held})
    slowest = max(facts.workers, key=lambda worker: worker.longest_seconds or 0.0)
    seconds, who = slowest.longest_seconds or 0.0, worker_name(slowest)
    free = any(worker.running < worker.concurrency for worker in workers)
    if free or not workers or not hangs(facts.stats, seconds):
        return None
    running = sum(worker.running for worker in workers)
    places = sum(worker.concurrency for worker in workers)
    because = f"{running} of {places} handlers are busy, the longest for {span(seconds)}"
    because += f"{facts.usual()}: task {slowest.longest_task} in {who}"
    if slowest.seen_seconds > LATE_SECONDS:
        because += f", which has sent no heartbeat for {span(slowest.seen_seconds)}"
    since = facts.survey.now_ms - seconds * 1000
    return Found(state, because, since=since, who=who, named={"worker": slowest.name})


def _hang(facts: Facts) -> str:
    """Say which task has been held for far longer than others run."""
    survey, seconds = facts.survey, facts.seconds_since(facts.survey.oldest_ms)
    if not survey.oldest_ms or not hangs(facts.stats, seconds):
        return ""
    group = f" of group {survey.oldest_group!r}" * bool(survey.oldest_group)
    who = facts.worker_of(survey.oldest)
    held = f"task {survey.oldest}{group} is held for {span(seconds)}{facts.usual()}"
    return held + (who and f", in {who}")


def _failing(facts: Facts) -> Found | None:
    pace, died_of = facts.pace, facts.survey.died_of
    failed, tried = pace.failed, pace.failed + pace.acked
    if failed >= max(FAILED_LEAST, FAILED_SHARE * tried):
        because = f"{failed} of {many(tried, 'attempt')} failed in the last minutes"
        for error, _ in Counter(map(_error, facts.failures)).most_common(1):
            because += f", most often: {error}"
        who = _culprit(facts)
        because += who and f"; most of them {who}"
        return Found(VerdictState.FAILING, because, who=who)
    if pace.acked or facts.idle or pace.died < FAILED_LEAST:
        return None
    because = f"{pace.died} tasks of the last minutes have died, and none ended well"
    because += died_of and f"; the last died: {died_of}"
    return Found(VerdictState.FAILING, because, "all die")


def _error(event: Event) -> str:
    """Write the error of an attempt without what differs from task to task."""
    if event.kind == "lease_expired":
        return "the lease ran out"
    return re.sub(r"\d{4,}", "…", event.detail.partition("\n")[0])[:100] or "no reason given"


def _culprit(facts: Facts) -> str:
    """Name the task, worker, version, group or handler of most failures, or return ""."""
    versions = {worker.name: worker.program for worker in facts.workers}
    several = len({*versions.values()}) > 1
    kinds: dict[str, Callable[[Event], str]] = {
        "of task": lambda event: event.task_id,
        "of worker": lambda event: event.worker * (len(facts.workers) > 1),
        "of version": lambda event: versions.get(event.worker, "") * several,
        "of member": lambda event: event.member,
        "of group": lambda event: event.group,
        "in": lambda event: event.frames[-1] if event.frames else "",
    }
    for words, name_of in kinds.items():
        for name, count in Counter(filter(None, map(name_of, facts.failures))).most_common(1):
            if count >= CULPRIT_SHARE * len(facts.failures):
                return f"{words} {name}"
    return ""


def _only_delayed(facts: Facts) -> Found | None:
    stats, due = facts.stats, facts.survey.due_ms
    if not facts.idle or not stats.delayed:
        return None
    because = tasks_are(stats.delayed, "delayed")
    if due is not None and due >= UNTIL_OPENED_MS:
        because += " until other tasks have ended, and none of the queue's tasks is due"
    else:
        following = f", {stats.following} of them until other tasks have ended"
        because += following * bool(stats.following) + f", the next one is due at {facts.say(due)}"
    return Found(VerdictState.ONLY_DELAYED, because, until=due)


def _only_dead(facts: Facts) -> Found | None:
    stats, reason, fault = facts.stats, facts.survey.died_of, facts.survey.fault
    if not facts.idle or stats.delayed or not stats.dead:
        return None
    last = reason and f": {reason}" + (fault and f" ({fault})")
    because = f"no live task is left, and {tasks_are(stats.dead, 'dead')}; the last died{last}"
    return Found(VerdictState.ONLY_DEAD, because)


def _moving(facts: Facts) -> Found | None:
    due, leases, pace = facts.stats.due, facts.survey.leases, facts.pace
    if facts.idle:
        return None
    running = many(leases, "is running", "are running") if leases else "none is running"
    said = [f"{tasks_are(due) if due else 'no task is due'}, and {running}"]
    if not due and not leases:
        ended = many(pace.acked, "task was finished", "tasks were finished")
        said = [f"{facts.drain.because}; {ended} in the last minutes"]
    elif due and facts.drain.state in ("clears", "even", "will not drain"):
        said.append(facts.drain.say)
    elif due and pace.kind == "stopped":
        said.append(pace.say)
    for shut in closed(facts)[:1]:
        until = until_text(facts, shut) + others_closed(facts, shut)
        said.append(f"{shut.name} is {shut.kind}{until}")
    said += [each for each in (_hang(facts), facts.near) if each]
    for late in [each for each in facts.workers if each.seen_seconds > LATE_SECONDS][:1]:
        said.append(f"{worker_name(late)} has sent no heartbeat for {span(late.seen_seconds)}")
    if pace.failed:
        said.append(f"{many(pace.failed, 'attempt')} failed in the last minutes")
    if facts.stats.dead:
        said.append(tasks_are(facts.stats.dead, "dead"))
    if quiet := sum(bool(worker.quiet_since) for worker in facts.alive):
        of = many(len(facts.workers), "worker")
        said.append(f"{quiet} of {of} {'is' if quiet == 1 else 'are'} quiet")
    return Found(VerdictState.MOVING, "; ".join(said))


def _unknown_queue(facts: Facts) -> Found | None:
    if facts.exists:
        return None
    because = no_such_queue(facts.queue, facts.names)
    because += facts.elsewhere and f"; {facts.elsewhere}"
    return Found(VerdictState.UNKNOWN_QUEUE, because)


def _empty(facts: Facts) -> Found:
    return Found(VerdictState.EMPTY, "no task is stored")


# What goes wrong beside the state


def _warnings(facts: Facts) -> Iterator[Found]:
    """Find what goes wrong beside the state."""
    survey = facts.survey
    server, saved = survey.server, int(survey.server.get("rdb_last_save_time", 0)) * 1000
    policy = server.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and server.get("maxmemory", "0") != "0":
        gone = int(server.get("evicted_keys", 0))
        said = f"the server deletes keys when its memory is full ({policy})"
        yield Found(Warned.EVICTS, said + f", {gone} so far" * bool(gone))
    unsaved = server.get("aof_enabled") == "0" and server.get("rdb_changes_since_last_save") != "0"
    if unsaved and facts.survey.now_ms - saved > UNSAVED_MS:
        said = f"the server writes no AOF, and what came since {facts.say(saved)} is on no disk"
        yield Found(Warned.NOT_SAVED, said)
    if survey.full:
        tasks = many(survey.max_tasks, "task")
        yield Found(Warned.FULL, f"full: {survey.live} of {tasks}, so new tasks are refused")
    for held in survey.held[1:]:
        if 0 < survey.max_waiting <= held.due:
            tasks = many(survey.max_waiting, "task")
            yield Found(Warned.GROUP_FULL, f"{held.name} is full: {held.due} of {tasks}")
            break
    if survey.producers:
        wait = many(survey.producers, "producer waits", "producers wait")
        yield Found(Warned.PRODUCERS_WAIT, f"{wait} for room")
    most = survey.seen_max or DEFAULT_SEEN_MAX_KEYS
    if facts.stats.seen_keys >= most:
        bound = f"its bound of {many(most, 'seen key')} is reached"
        yield Found(Warned.SEEN_FULL, f"{bound}, so the oldest are forgotten early")
    if task := survey.recurs:
        said = f"the recurring task {task} is dead: {survey.recurs_died_of}"
        yield Found(Warned.SCHEDULE_DIED, said, named={"task": task})
    if count := survey.keyed:
        several = f"dead letters keep their keys, such as {survey.key!r}"
        letters = many(count, f"dead letter keeps its key, {survey.key!r}", several)
        said = f"{letters}: a push with that key may add no task"
        yield Found(Warned.KEY_HELD, said, named={"task": survey.key_task})
    if batch := survey.batch:
        left, since = survey.batch_left, facts.say(survey.batch_since_ms)
        kind, said = Warned.NOT_SEALED, f"nothing is left since {since}, but nobody has sealed it"
        if left:
            are = many(left, "of its tasks is", "of its tasks are")
            kind, said = Warned.BATCH_STANDS, f"{are} left, and none has ended since {since}"
        yield Found(kind, f"batch {batch!r} cannot end: {said}", named={"batch": batch})


RULES: tuple[Callable[[Facts], Found | None], ...] = (
    *(_server_refuses, _unreadable, _paused, _all_quiet, _no_consumer, _handlers_busy, _failing),
    *(held_by_limit, _only_delayed, _only_dead, _moving, _unknown_queue, _empty),
)
"""The rules, in the order in which they are asked."""

HOLDS = {
    *(VerdictState.UNREADABLE, VerdictState.PAUSED, VerdictState.HANDLERS_BUSY),
    *(*UNATTENDED, *SENTENCES),
}
"""The states that may hold a queue at the same time."""
