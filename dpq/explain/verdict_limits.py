"""The verdict on a queue that a limit holds: whose limit, of which kind, until when. No I/O."""

import shlex
from collections.abc import Callable, Sequence

from dpq.explain.survey import Held, News
from dpq.explain.verdict_facts import (
    Facts,
    Finding,
    VerdictState,
    tasks_are,
    with_queue,
    worker_name,
)
from dpq.limits.limits import quota_text
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import LimitState, spent_quota
from dpq.model.rates import per_text, span

FLOWS_SECONDS = 60.0
"""Seconds: a limit that opens sooner paces its tasks, and holds none."""

LONG_SECONDS = 86_400.0
"""Seconds until a quota is whole again from which on a person has to decide."""


KINDS = {
    "rate limited": VerdictState.RATE_LIMITED,
    "probe": VerdictState.RATE_LIMITED,
    "closed by hand": VerdictState.BY_HAND,
    "concurrency": VerdictState.CONCURRENCY,
    "quota": VerdictState.QUOTA,
    "observed": VerdictState.QUOTA,
    "unreadable": VerdictState.UNREADABLE,
}
"""The state of each reason for which a limit lets no task run; all other reasons pace."""


def kind_of(held: Held) -> VerdictState:
    return KINDS.get(held.state.reason or "", VerdictState.PACED)


def _still_flows(facts: Facts, held: Held) -> bool:
    """Return True if tasks of a closed scope start again and again."""
    if kind_of(held) is VerdictState.CONCURRENCY:
        return not facts.hangs(facts.seconds_since(held.held_ms)) and bool(held.holder)
    opens = held.state.opens_at
    soon = opens is None or opens.timestamp() * 1000 - facts.now <= FLOWS_SECONDS * 1000
    return kind_of(held) is VerdictState.PACED and soon


def closed_groups(facts: Facts) -> list[Held]:
    return [held for held in facts.survey.held[1:] if not held.state.open and held.due]


def held_by_limit(facts: Facts) -> Finding | None:
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


def _finding_of(facts: Facts, few: Sequence[Held]) -> Finding | None:
    first = few[0]
    state, kind = first.state, kind_of(first)
    moments = [held.state.opens_at.timestamp() * 1000 for held in few if held.state.opens_at]
    until = min(moments, default=None)
    if kind not in SENTENCES:
        return None  # another rule speaks of it
    because, since, who, what_to_do = SENTENCES[kind](facts, first)
    if kind is VerdictState.CONCURRENCY and facts.flows:
        return None
    if kind is VerdictState.PACED and facts.pace.lately:
        return None  # its tasks start again and again: it is moving, at that pace
    because += others_closed(facts, first)
    if state.group is not None:
        because += f"; {sum(held.due for held in few)} of {facts.due} due tasks wait for that"
    else:
        because += f"; {tasks_are(facts.due)}"
    needs = kind in (VerdictState.BY_HAND, VerdictState.CONCURRENCY)
    if kind in (VerdictState.QUOTA, VerdictState.BY_HAND) and until is not None:
        needs = until - facts.now > LONG_SECONDS * 1000
    needs = needs and not _still_flows(facts, first)
    helps = needs or kind is VerdictState.BY_HAND or state.reason == "in order"
    return Finding(kind, because, since, until, who, what_to_do if helps else "", needs)


def others_closed(facts: Facts, first: Held) -> str:
    """Say how many other groups are closed, and when one of them opens, if that is sooner."""
    others = facts.survey.closed - (first.state.group is not None)
    if others < 1:
        return ""
    said = "; 1 more group is closed" if others == 1 else f"; {others} more groups are closed"
    soonest, opens = facts.survey.opens_ms, first.state.opens_at
    if soonest is None or soonest >= (opens.timestamp() * 1000 if opens else UNTIL_OPENED_MS):
        return said
    return f"{said}, the first until {facts.say(soonest)}"


def scope_name(held: Held) -> str:
    return "the queue" if held.state.group is None else f"group {held.state.group!r}"


def scope_words(held: Held) -> str:
    """Write the option of a command that names the group, with a space behind it."""
    return "" if held.state.group is None else f"--group {shlex.quote(held.state.group)} "


Said = tuple[str, float | None, str, str]
"""The reason, its beginning (ms), the holder, and the sentence on what to do."""


def until_text(facts: Facts, state: LimitState) -> str:
    return f" until {facts.say(state.opens_at.timestamp() * 1000)}" if state.opens_at else ""


def _say_429(facts: Facts, held: Held) -> Said:
    news = held.limited
    status = news.detail[:3] if news and news.detail[:3].isdecimal() else "429"
    since = news.at_ms if news else None
    members = [repr(m.name) for m in held.state.members if m.reason == held.state.reason]
    who = scope_name(held)
    if members:
        more = f" and {members[1] if len(members) == 2 else f'{len(members) - 1} more'}"
        who += f", member{'s' * (len(members) > 1)} {members[0]}" + more * (len(members) > 1)
    if held.state.reason == "probe":
        why = f"the first task of {who} after a {status} still runs, and all others wait for it"
        return why, since, who, ""
    when = f" at {facts.say(since)}" if since else ""
    until = until_text(facts, held.state)
    return f"the host of {who} has answered {status}{when}: it is closed{until}", since, who, ""


def _say_paced(facts: Facts, held: Held) -> Said:
    state = held.state
    if state.reason == "in order":
        name, until = scope_name(held), until_text(facts, state)
        why = f"{name} keeps its order: task {held.holder} waits for its retry{until}"
        todo = f"`dpq task update {held.holder} --delay 0 {with_queue(facts.queue)}` runs it now."
        return why, None, name, todo
    rates = ", ".join(
        per_text((not n and state.rate) or window.rate, window.per)
        + (f" {window.unit}" if window.unit else "")
        for n, window in enumerate(state.windows)
    )
    left = ", ".join(f"{max(0.0, units):.1f}" for units in state.units_left)
    allows = f"allows {rates}, of which {left} are left" if rates else "lets no task run yet"
    why = f"the limit of {scope_name(held)} {allows}: it opens{until_text(facts, state) or ' soon'}"
    return why.replace(" until ", " at "), None, scope_name(held), ""


def _say_concurrency(facts: Facts, held: Held) -> Said:
    most, queue = held.state.concurrency or 1, with_queue(facts.queue)
    why = f"{scope_name(held)} lets {most} task{'s' if most > 1 else ''} run at once"
    if held.permits and held.permits_until_ms is not None:
        ends = facts.say(held.permits_until_ms)
        permits = "1 permit of `acquire` holds" if held.permits == 1 else ""
        permits = permits or f"{held.permits} permits of `acquire` hold"
        why += f", and {permits} it, the first until {ends}"
        todo = (
            "Ask the callers of `acquire`; "
            f"`dpq limit set --concurrency N {scope_words(held)}{queue}` lets N of them run."
        )
        return why, None, "callers of `acquire`", todo
    if not held.holder:
        todo = f"`dpq limit set --concurrency N {scope_words(held)}{queue}` lets N of them run."
        return why, None, "", todo
    seconds = facts.seconds_since(held.held_ms)
    holder = next((w for w in facts.workers if w.longest_task == held.holder), None)
    who = worker_name(holder) if holder else f"task {held.holder}"
    by = f" in {worker_name(holder)}" if holder else ""
    why += f", and task {held.holder}{by} has held it for {span(seconds)}{facts.usual()}"
    todo = f"`dpq task release {held.holder} {held.token} {queue}` gives its place to others."
    return why, held.held_ms, who, todo


def _say_quota(facts: Facts, held: Held) -> Said:
    state, name, until = held.state, scope_name(held), until_text(facts, held.state)
    spent = spent_quota(state)
    if state.reason == "observed":
        why = f"the host of {name} has said that no more is left{until}"
    elif spent:
        why = f"the quota of {quota_text(spent)} of {name} is spent{until}"
    else:
        why = f"the quota of {name} is spread over its period, and closed{until}"
    scope = scope_words(held) + with_queue(facts.queue)
    todo = f"If the host allows more, `dpq limit set RATE {scope}` raises the quota."
    return why, None, name, todo


def _say_by_hand(facts: Facts, held: Held) -> Said:
    news: News | None = held.closed
    when = f" at {facts.say(news.at_ms)}" if news else ""
    until = until_text(facts, held.state) or " until it is opened"
    group = shlex.quote(held.state.group or "")
    todo = f"`dpq group open {group} {with_queue(facts.queue)}` opens it."
    return (
        f"{scope_name(held)} was closed by hand{when}{until}",
        news and news.at_ms,
        scope_name(held),
        todo,
    )


SENTENCES: dict[VerdictState, Callable[[Facts, Held], Said]] = {
    VerdictState.RATE_LIMITED: _say_429,
    VerdictState.PACED: _say_paced,
    VerdictState.CONCURRENCY: _say_concurrency,
    VerdictState.QUOTA: _say_quota,
    VerdictState.BY_HAND: _say_by_hand,
}
"""The sentence of each state that a limit causes."""

HELD_STATES = frozenset(SENTENCES)
"""The states that a limit causes."""
