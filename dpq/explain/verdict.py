"""The verdict on a queue: why it does not move, who is at fault, and what to do. No I/O, no clock.

`verdict_of` is the only place that judges a queue; all screens show its words. To add a state: name
it in `VerdictState`, with its remedy, write its rule here, and put it into `RULES`, where the first
one that finds something decides. A warning is named in `Warned`, and found in `_warnings`.
docs/operations.md has a row for each, and tests/daemon/test_verdicts.py plants each.
"""

from __future__ import annotations  # Held is loaded for types only

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from dpq.explain.drain import Scope
from dpq.explain.incidents import REMEDIES, UNATTENDED, VerdictState, Warned
from dpq.explain.verdict_facts import (
    LATE_SECONDS,
    Facts,
    Verdict,
    alive,
    awake,
    hangs,
    moment_of,
    others_ask,
    tasks_are,
    worker_name,
)
from dpq.limits.limits import EVERY_GROUP, quota_text
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import spent_quota, spent_words
from dpq.model.history import Event
from dpq.model.queue_settings import DEFAULT_SEEN_MAX_KEYS
from dpq.model.rates import many, per_text, span

if TYPE_CHECKING:
    from dpq.explain.survey import Held

__all__ = ["Verdict", "VerdictState"]

NAMES_SHOWN = 5
"""Names of queues in a sentence without a near name: enough to see which server answers."""

LOOKED_AT = 3
"""Groups without a limit, the largest ones, that are compared with 50 others: 0.5 ms."""

FAILED_LEAST, FAILED_SHARE = 10, 0.2
"""The failed attempts of the last minutes, and their share of all, that make a queue failing."""

CULPRIT_SHARE = 0.7
"""The share of the failures that names a culprit."""

UNSAVED_MS = 7_200_000
"""Milliseconds: a server that makes snapshots makes one an hour after a change, by default."""

FLOWS_SECONDS = 60.0
"""Seconds: a limit that opens sooner, also after a 429, paces its tasks, and holds none."""

LONG_SECONDS = 86_400.0
"""Seconds until a quota is whole again from which on a person has to decide."""


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


def verdict_of(facts: Facts) -> Verdict:
    """Judge a queue."""
    first, *others = (found for rule in RULES if (found := rule(facts)))
    also = [each.state for each in others if each.state in HOLDS and first.state in HOLDS]
    warned = [*_warnings(facts)]
    remedies = [first.what_to_do, *(facts.remedy(kind, **named) for kind, _, named in warned)]
    return first.model_copy(
        update={
            "because": "; ".join([first.because, *(said for _, said, _ in warned)]),
            "what_to_do": " ".join(dict.fromkeys(filter(None, remedies))),
            "also": tuple(also),
            "warnings": tuple(kind for kind, _, _ in warned),
            "drain": facts.drain,
        }
    )


SILENT = "no answer"
"""The first words of what is said of a server that takes a connection, but does not answer."""


def server_away(queue: str, error: object, since_ms: float) -> Verdict:
    """Make the verdict on a queue whose server does not answer since a moment."""
    since, silent = moment_of(since_ms), str(error).startswith(SILENT)
    return Verdict(
        queue=queue,
        state=VerdictState.SERVER_AWAY,
        because=f"the server has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: {error}",
        since=since,
        what_to_do=REMEDIES["server silent" if silent else "server away"],
        needs_person=True,
    )


def one_apart(one: str, other: str) -> bool:
    """Return True if two names differ by one letter or number."""
    short, long = sorted((one, other), key=len)
    n = next((n for n, each in enumerate(short) if each != long[n]), len(short))
    return short != long and long[n + 1 :] in (short[n:], short[n + 1 :])


def near_group(scopes: Sequence[Scope]) -> str:
    """Name a group with tasks and no limit beside one with a limit and no tasks, or return ""."""
    named = [scope for scope in scopes if scope.group not in ("", EVERY_GROUP)]
    idle = [scope.group for scope in named if scope.rated and not scope.waiting]
    free_ones = [scope.group for scope in named if scope.waiting and not scope.rules]
    for free in free_ones[:LOOKED_AT]:
        if near := next((group for group in idle if one_apart(group, free)), None):
            return f"group {free!r} has no limit; group {near!r}, one letter away, has one, unused"
    return ""


def no_such_queue(name: str, names: Sequence[str]) -> str:
    """Say that there is no queue of a name; add the nearest name, or some names of queues."""
    known = sorted({*names} - {name})
    near = get_close_matches(name, known, n=1)
    if near:
        return f"there is no queue {name!r}; did you mean {near[0]!r}?"
    if not known:
        return f"there is no queue {name!r}, nor any other: the first push makes one"
    return f"there is no queue {name!r}; there are {some_of(known)}"


def some_of(names: Sequence[str]) -> str:
    """List the first names."""
    return ", ".join(map(repr, names[:NAMES_SHOWN])) + ", ..." * (len(names) > NAMES_SHOWN)


# The rules, in the order of `VerdictState`


def _server_refuses(facts: Facts) -> Verdict | None:
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
    return facts.found(VerdictState.SERVER_REFUSES, because, incident)


def _unreadable(facts: Facts) -> Verdict | None:
    shut = next((held for held in facts.survey.held if held.state.reason == "unreadable"), None)
    if not shut:
        return None
    because = f"the stored limit of {scope_name(shut)} cannot be read, so none of its tasks runs"
    return facts.found(VerdictState.UNREADABLE, because, group=shut.state.group or "")


def _paused(facts: Facts) -> Verdict | None:
    until, pause, by, since = facts.survey.paused_until, facts.survey.pause, "", None
    if not until:
        return None
    ends = None if until == "inf" else float(until)
    because = "it is paused until " + ("it is resumed" if ends is None else facts.say(ends))
    if pause:
        told = re.match(r"by (.*), until ", pause.detail)
        since, by = pause.at_ms, told[1] if told else ""
        because += f"; the pause began at {facts.say(since)}" + (f", by {by}" if by else "")
    return facts.found(VerdictState.PAUSED, because, since=since, until=ends, who=by)


def _all_quiet(facts: Facts) -> Verdict | None:
    few = alive(facts.workers)
    if not facts.due or not few or awake(few) or others_ask(facts.survey, facts.workers):
        return None
    last = max(few, key=lambda worker: worker.quiet_since or worker.seen)
    since, who = _ms(last.quiet_since or last.seen), worker_name(last)
    all_of_them = f"all {len(few)} workers are quiet, the last one"
    quiet = "its only worker is quiet" if len(few) == 1 else all_of_them
    because = f"{tasks_are(facts.due)}, and {quiet} since {facts.say(since)}: {who}"
    because += f", told by {last.quiet_by}" if last.quiet_by else ""
    return facts.found(VerdictState.ALL_QUIET, because, since=since, who=who, worker=last.name)


def _ms(moment: datetime) -> float:
    return moment.timestamp() * 1000


def _no_consumer(facts: Facts) -> Verdict | None:
    asked, late = facts.survey.asked_ms, facts.workers
    if not facts.due or alive(late) or others_ask(facts.survey, late):
        return None
    since, who, why = asked, "", "no consumer has ever asked for one"
    if late:
        last = min(late, key=lambda worker: worker.seen_seconds)
        who, since = worker_name(last), max(_ms(worker.seen) for worker in late)
        why = f"its last worker, {who}, has sent no heartbeat since {facts.say(since)}"
    elif asked is not None:
        why = f"no consumer has asked for one since {facts.say(asked)}"
    because = f"{tasks_are(facts.due)}, and {why}"
    if facts.survey.lapsed:
        because += f"; the leases of {facts.survey.lapsed} of them have ended without an ack"
    because += facts.elsewhere and f"; {facts.elsewhere}"
    incident = "consumers elsewhere" if facts.elsewhere else None
    return facts.found(VerdictState.NO_CONSUMER, because, incident, since=since, who=who)


def _handlers_busy(facts: Facts) -> Verdict | None:
    survey, workers = facts.survey, awake(facts.workers)
    ahead = any(worker.holds > worker.running for worker in workers)
    if facts.seconds_since(survey.asked_ms) < LATE_SECONDS or (facts.pace.done and ahead):
        return None  # tasks end that were popped ahead
    if not facts.workers:  # consumers without heartbeats are judged by their leases
        if facts.pace.done or not facts.due or not (hang := _hang(facts)):
            return None
        leases, since = many(survey.leases, "lease"), survey.oldest_ms
        because = f"consumers that send no heartbeat hold {leases} and ask for no more; {hang}"
        state, held = VerdictState.HANDLERS_BUSY, int(facts.seconds_since(since)) - 1
        return facts.found(state, because, "all consumers busy", since=since, seconds=held)
    slowest = max(facts.workers, key=lambda worker: worker.longest_seconds or 0.0)
    seconds, task = slowest.longest_seconds or 0.0, slowest.longest_task
    free = any(worker.running < worker.concurrency for worker in workers)
    if free or not workers or not hangs(facts.stats, seconds):
        return None
    running = sum(worker.running for worker in workers)
    places, who = sum(worker.concurrency for worker in workers), worker_name(slowest)
    because = f"{running} of {places} handlers are busy, the longest for {span(seconds)}"
    because += f"{facts.usual()}: task {task} in {who}"
    if slowest.seen_seconds > LATE_SECONDS:
        because += f", which has sent no heartbeat for {span(slowest.seen_seconds)}"
    since = facts.now - seconds * 1000
    state = VerdictState.HANDLERS_BUSY
    return facts.found(state, because, since=since, who=who, worker=slowest.name)


def _hang(facts: Facts) -> str:
    """Say which task has been held for far longer than others run."""
    survey, seconds = facts.survey, facts.seconds_since(facts.survey.oldest_ms)
    if not survey.oldest_ms or not hangs(facts.stats, seconds):
        return ""
    group = f" of group {survey.oldest_group!r}" * bool(survey.oldest_group)
    worker = next((each for each in facts.workers if each.longest_task == survey.oldest), None)
    by = f", in {worker_name(worker)}" if worker else ""
    return f"task {survey.oldest}{group} is held for {span(seconds)}{facts.usual()}{by}"


def _failing(facts: Facts) -> Verdict | None:
    pace, died_of = facts.pace, facts.survey.died_of
    failed, tried = pace.failed, pace.failed + pace.acked
    if failed >= max(FAILED_LEAST, FAILED_SHARE * tried):
        have = many(tried, "attempt of the last minutes has", "attempts of the last minutes have")
        because = f"{failed} of {have} failed"
        for error, _ in Counter(map(_error, facts.failures)).most_common(1):
            because += f", most often: {error}"
        who = _culprit(facts)
        because += who and f"; most of them {who}"
        return facts.found(VerdictState.FAILING, because, who=who)
    if pace.acked or facts.idle or pace.died < FAILED_LEAST:
        return None
    because = f"{pace.died} tasks of the last minutes have died, and none ended well"
    because += died_of and f"; the last died: {died_of}"
    return facts.found(VerdictState.FAILING, because, "all die")


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


def _only_delayed(facts: Facts) -> Verdict | None:
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
    return facts.found(VerdictState.ONLY_DELAYED, because, until=due)


def _only_dead(facts: Facts) -> Verdict | None:
    stats, reason, fault = facts.stats, facts.survey.died_of, facts.survey.fault
    if not facts.idle or stats.delayed or not stats.dead:
        return None
    last = f": {reason}" + (f" ({fault})" if fault else "") if reason else ""
    because = f"no live task is left, and {tasks_are(stats.dead, 'dead')}; the last died{last}"
    return facts.found(VerdictState.ONLY_DEAD, because)


def _moving(facts: Facts) -> Verdict | None:
    if facts.idle:
        return None
    leases = facts.survey.leases
    if facts.due or leases:
        running = many(leases, "is running", "are running") if leases else "none is running"
        said = [f"{tasks_are(facts.due) if facts.due else 'no task is due'}, and {running}"]
    else:
        ended = many(facts.pace.acked, "task was finished", "tasks were finished")
        said = [f"no task is due or running now; {ended} in the last minutes"]
    if facts.due and facts.drain.state in ("clears", "even", "will not drain"):
        said.append(facts.drain.say)
    elif facts.due and facts.pace.kind == "stopped":
        said.append(facts.pace.say)
    held = [*facts.survey.held[:1], *closed_groups(facts)]
    for shut in [each for each in held if not each.state.open][:1]:
        until = until_text(facts, shut) + others_closed(facts, shut)
        said.append(f"{scope_name(shut)} is {kind_of(shut)}{until}")
    said += [each for each in (_hang(facts), facts.near) if each]
    for late in [each for each in facts.workers if each.seen_seconds > LATE_SECONDS][:1]:
        said.append(f"{worker_name(late)} has sent no heartbeat for {span(late.seen_seconds)}")
    if facts.pace.failed:
        have = many(facts.pace.failed, "attempt has", "attempts have")
        said.append(f"{have} failed in the last minutes")
    if facts.stats.dead:
        said.append(tasks_are(facts.stats.dead, "dead"))
    if quiet := [worker for worker in alive(facts.workers) if worker.quiet_since]:
        of = many(len(facts.workers), "worker")
        said.append(f"{len(quiet)} of {of} {'is' if len(quiet) == 1 else 'are'} quiet")
    return facts.found(VerdictState.MOVING, "; ".join(said))


def _unknown_queue(facts: Facts) -> Verdict | None:
    if facts.exists:
        return None
    because = no_such_queue(facts.queue, facts.names)
    because += facts.elsewhere and f"; {facts.elsewhere}"
    return facts.found(VerdictState.UNKNOWN_QUEUE, because)


def _empty(facts: Facts) -> Verdict:
    return facts.found(VerdictState.EMPTY, "no task is stored")


# Limits: whose limit holds the queue, of which kind, until when


def _opens_ms(held: Held) -> float | None:
    return _ms(held.state.opens_at) if held.state.opens_at else None


def kind_of(held: Held) -> VerdictState:
    return REASONS.get(held.state.reason or "", PACED)[0]


def _still_flows(facts: Facts, held: Held) -> bool:
    """Return True if tasks of a closed scope start again and again."""
    if kind_of(held) is VerdictState.CONCURRENCY:
        return not hangs(facts.stats, facts.seconds_since(held.held_ms)) and bool(held.holder)
    return kind_of(held) is VerdictState.PACED and _opens_soon(facts, held)


def _opens_soon(facts: Facts, held: Held) -> bool:
    return (_opens_ms(held) or 0.0) - facts.now <= FLOWS_SECONDS * 1000


def closed_groups(facts: Facts) -> list[Held]:
    return [held for held in facts.survey.held[1:] if not held.state.open and held.due]


def held_by_limit(facts: Facts) -> Verdict | None:
    """Find the limit that holds the queue: its own, or the one that holds most due tasks."""
    queue, groups = facts.survey.held[:1], closed_groups(facts)
    if not facts.due:
        return None
    if queue and not queue[0].state.open and queue[0].due:
        return _finding_of(facts, [queue[0]])
    if not groups or facts.stats.ready:
        return None
    by_kind: dict[VerdictState, list[Held]] = {}
    for held in groups:
        by_kind.setdefault(kind_of(held), []).append(held)
    most = max(by_kind.values(), key=lambda few: sum(held.due for held in few))
    flows = any(_still_flows(facts, held) for held in groups)
    if flows and not _still_flows(facts, most[0]):
        return None
    return _finding_of(facts, most)


def _finding_of(facts: Facts, few: Sequence[Held]) -> Verdict | None:
    first = few[0]
    state, kind = first.state, kind_of(first)
    until = min(filter(None, map(_opens_ms, few)), default=None)
    lately = facts.pace.lately
    moves = {VerdictState.CONCURRENCY: bool(facts.pace.done), VerdictState.PACED: lately}
    moves[VerdictState.RATE_LIMITED] = lately and _opens_soon(facts, first)
    if kind not in SENTENCES or moves.get(kind):
        return None  # another rule speaks of it
    said = SENTENCES[kind](facts, first)
    because = said.because + others_closed(facts, first)
    if state.group is not None:
        because += f"; {sum(held.due for held in few)} of {facts.due} due tasks wait for that"
    else:
        because += f"; {tasks_are(facts.due)}"
    needs = kind in (VerdictState.BY_HAND, VerdictState.CONCURRENCY)
    if kind in (VerdictState.QUOTA, VerdictState.BY_HAND) and until is not None:
        needs = until - facts.now > LONG_SECONDS * 1000
    needs &= not _still_flows(facts, first)
    helps = needs or kind is VerdictState.BY_HAND or state.reason == "in order"
    return facts.found(
        *(kind, because, said.incident if helps else ""),
        since=said.since,
        until=until,
        who=said.who,
        needs_person=needs,
        group=state.group or "",
        task=first.holder,
        token=first.token,
    )


def others_closed(facts: Facts, first: Held) -> str:
    """Say how many other groups are closed, and when one of them opens, if that is sooner."""
    others = facts.survey.closed - (first.state.group is not None)
    if others < 1:
        return ""
    said = "; " + many(others, "more group is closed", "more groups are closed")
    soonest = facts.survey.opens_ms or UNTIL_OPENED_MS
    sooner = soonest < (_opens_ms(first) or UNTIL_OPENED_MS)
    return f"{said}, the first until {facts.say(soonest)}" if sooner else said


def scope_name(held: Held) -> str:
    return "the queue" if held.state.group is None else f"group {held.state.group!r}"


class Said(NamedTuple):
    """The reason of a limit, its beginning (ms), the holder, and the incident of the remedy."""

    because: str
    since: float | None
    who: str
    incident: str | None = None


def until_text(facts: Facts, held: Held) -> str:
    opens = _opens_ms(held)
    return f" until {facts.say(opens)}" if opens else ""


def _say_429(facts: Facts, held: Held) -> Said:
    news = held.limited
    status = news.detail[:3] if news and news.detail[:3].isdecimal() else "429"
    since = news.at_ms if news else None
    names = [repr(m.name) for m in held.state.members if m.reason == held.state.reason]
    who = scope_name(held)
    if len(names) == 1:
        who += f", member {names[0]}"
    elif names:
        others = names[1] if len(names) == 2 else f"{len(names) - 1} more"
        who += f", members {names[0]} and {others}"
    if held.state.reason == "probe":
        why = f"the first task of {who} after a {status} still runs, and all others wait for it"
        return Said(why, since, who)
    when, until = f" at {facts.say(since)}" if since else "", until_text(facts, held)
    why = f"the host of {who} has answered {status}{when}: it is closed{until}"
    return Said(why, since, who)


def _say_paced(facts: Facts, held: Held) -> Said:
    state, name, until = held.state, scope_name(held), until_text(facts, held)
    if state.reason == "in order":
        why = f"{name} keeps its order: task {held.holder} waits for its retry{until}"
        return Said(why, None, name, "in order")
    rates_known = [state.rate, *(member.rate for member in state.members)]
    learned = min((rate for rate in rates_known if rate is not None), default=None)
    rates = ", ".join(
        per_text((not n and learned) or window.rate, window.per)
        + (f" {window.unit}" if window.unit else "")
        for n, window in enumerate(state.windows)
    )
    left = ", ".join(f"{max(0.0, units):.1f}" for units in state.units_left)
    allows = f"allows {rates}" if rates else "lets no task run yet"
    allows += f", of which {left} are left" if rates and left else ""
    opens = until.replace("until", "at") or " soon"
    return Said(f"the limit of {name} {allows}: it opens{opens}", None, name)


def _say_concurrency(facts: Facts, held: Held) -> Said:
    why = f"{scope_name(held)} lets {many(held.state.concurrency or 1, 'task')} run at once"
    if held.permits and held.permits_until_ms is not None:
        permits = many(held.permits, "permit of `acquire` holds", "permits of `acquire` hold")
        why += f", and {permits} it, the first until {facts.say(held.permits_until_ms)}"
        return Said(why, None, "callers of `acquire`", "held by permits")
    if not held.holder:
        return Said(why, None, "", "concurrency too low")
    seconds = facts.seconds_since(held.held_ms)
    holder = next((w for w in facts.workers if w.longest_task == held.holder), None)
    by = f" in {worker_name(holder)}" if holder else ""
    why += f", and task {held.holder}{by} has held it for {span(seconds)}{facts.usual()}"
    return Said(why, held.held_ms, by.removeprefix(" in ") or f"task {held.holder}")


def _say_quota(facts: Facts, held: Held) -> Said:
    state, name, until = held.state, scope_name(held), until_text(facts, held)
    spent = spent_quota(state)
    if state.reason == "observed":
        why = f"the host of {name} has said that no more is left{until}"
    elif spent:
        why = f"the quota of {quota_text(spent.quota)} of {name} {spent_words(spent.left)}{until}"
    else:
        why = f"the quota of {name} is spread over its period, and closed{until}"
    return Said(why, None, name)


def _say_by_hand(facts: Facts, held: Held) -> Said:
    news = held.closed
    when = f" at {facts.say(news.at_ms)}" if news else ""
    until = until_text(facts, held) or " until it is opened"
    name = scope_name(held)
    return Said(f"{name} was closed by hand{when}{until}", news and news.at_ms, name)


SENTENCES: dict[VerdictState, Callable[[Facts, Held], Said]] = {
    VerdictState.RATE_LIMITED: _say_429,
    VerdictState.PACED: _say_paced,
    VerdictState.CONCURRENCY: _say_concurrency,
    VerdictState.QUOTA: _say_quota,
    VerdictState.BY_HAND: _say_by_hand,
}
"""The sentence of each state that a limit causes."""


# What goes wrong beside the state


def _warnings(facts: Facts) -> Iterator[tuple[Warned, str, dict[str, str]]]:
    """Find what goes wrong beside the state: its kind, its words, and what its remedy names."""
    survey = facts.survey
    server, saved = survey.server, int(survey.server.get("rdb_last_save_time", 0)) * 1000
    policy = server.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and server.get("maxmemory", "0") != "0":
        gone = int(server.get("evicted_keys", 0))
        said = f"the server deletes keys when its memory is full ({policy})"
        yield Warned.EVICTS, said + f", {gone} so far" * bool(gone), {}
    unsaved = server.get("aof_enabled") == "0" and server.get("rdb_changes_since_last_save") != "0"
    if unsaved and facts.now - saved > UNSAVED_MS:
        said = f"the server writes no AOF, and what came since {facts.say(saved)} is on no disk"
        yield Warned.NOT_SAVED, said, {}
    if survey.full:
        tasks = many(survey.max_tasks, "task")
        yield Warned.FULL, f"full: {survey.live} of {tasks}, so new tasks are refused", {}
    for held in survey.held[1:]:
        if 0 < survey.max_waiting <= held.due:
            tasks = many(survey.max_waiting, "task")
            yield Warned.GROUP_FULL, f"{scope_name(held)} is full: {held.due} of {tasks}", {}
            break
    if survey.producers:
        wait = many(survey.producers, "producer waits", "producers wait")
        yield Warned.PRODUCERS_WAIT, f"{wait} for room", {}
    most = survey.seen_max or DEFAULT_SEEN_MAX_KEYS
    if facts.stats.seen_keys >= most:
        bound = f"its bound of {many(most, 'seen key')} is reached"
        yield Warned.SEEN_FULL, f"{bound}, so the oldest are forgotten early", {}
    if task := survey.recurs:
        said = f"the recurring task {task} is dead: {survey.recurs_died_of}"
        yield Warned.SCHEDULE_DIED, said, {"task": task}
    if count := survey.keyed:
        several = f"dead letters keep their keys, such as {survey.key!r}"
        letters = many(count, f"dead letter keeps its key, {survey.key!r}", several)
        said = f"{letters}: a push with that key may add no task"
        yield Warned.KEY_HELD, said, {"task": survey.key_task}
    if batch := survey.batch:
        left, since = survey.batch_left, facts.say(survey.batch_since_ms)
        kind, said = Warned.NOT_SEALED, f"nothing is left since {since}, but nobody has sealed it"
        if left:
            are = many(left, "of its tasks is", "of its tasks are")
            kind, said = Warned.BATCH_STANDS, f"{are} left, and none has ended since {since}"
        yield kind, f"batch {batch!r} cannot end: {said}", {"batch": batch}


RULES: tuple[Callable[[Facts], Verdict | None], ...] = (
    *(_server_refuses, _unreadable, _paused, _all_quiet, _no_consumer, _handlers_busy, _failing),
    *(held_by_limit, _only_delayed, _only_dead, _moving, _unknown_queue, _empty),
)
"""The rules, in the order in which they are asked."""

HOLDS = {
    *(VerdictState.UNREADABLE, VerdictState.PAUSED, VerdictState.HANDLERS_BUSY),
    *(*UNATTENDED, *SENTENCES),
}
"""The states that may hold a queue at the same time."""
