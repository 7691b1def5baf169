"""The verdict on a queue that a limit holds: whose limit, of which kind, until when. No I/O."""

from __future__ import annotations  # Held is loaded for types only

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dpq.explain.incidents import VerdictState
from dpq.explain.verdict_facts import Facts, Verdict, hangs, tasks_are, worker_name
from dpq.limits.limits import quota_text
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import spent_quota, spent_words
from dpq.model.rates import many, per_text, span

if TYPE_CHECKING:
    from dpq.explain.survey import Held

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


def _opens_ms(held: Held) -> float | None:
    return held.state.opens_at.timestamp() * 1000 if held.state.opens_at else None


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
    moves = {VerdictState.CONCURRENCY: facts.flows, VerdictState.PACED: lately}
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
