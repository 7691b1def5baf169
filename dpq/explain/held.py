"""The limit that holds a queue: whose it is, of which kind, until when. No I/O, no clock.

Each kind of limit has its sentence in `SENTENCES`.
"""

from collections.abc import Callable, Sequence

from dpq.explain.incidents import VerdictState
from dpq.explain.survey import Held
from dpq.explain.verdict_facts import Facts, Found, hangs, tasks_are
from dpq.limits.limits import quota_text
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.states import spent_quota, spent_words
from dpq.model.rates import many, per_text, span

FLOWS_SECONDS = 60.0
"""Seconds: a limit that opens sooner, also after a 429, paces its tasks, and holds none."""

LONG_SECONDS = 86_400.0
"""Seconds until a quota is whole again from which on a person has to decide."""


def closed(facts: Facts) -> list[Held]:
    """Return the closed scopes with due tasks: the queue first, then groups with most of them."""
    return [held for held in facts.survey.held if not held.state.open and held.due]


def held_by_limit(facts: Facts) -> Found | None:
    """Find the limit that holds the queue: its own, or the one that holds most due tasks."""
    shut = closed(facts)
    if not facts.stats.due or not shut:
        return None
    if shut[0].state.group is None:
        return _finding(facts, shut[:1])
    if facts.stats.ready:
        return None
    by_kind: dict[VerdictState, list[Held]] = {}
    for held in shut:
        by_kind.setdefault(held.kind, []).append(held)
    most = max(by_kind.values(), key=lambda few: sum(held.due for held in few))
    if not _flows(facts, most[0]) and any(_flows(facts, held) for held in shut):
        return None
    return _finding(facts, most)


def _flows(facts: Facts, held: Held) -> bool:
    """Return True if tasks of a closed scope start again and again."""
    if held.kind is VerdictState.CONCURRENCY:
        return not hangs(facts.stats, facts.seconds_since(held.held_ms)) and bool(held.holder)
    return held.kind is VerdictState.PACED and _opens_soon(facts, held)


def _opens_soon(facts: Facts, held: Held) -> bool:
    return (held.opens_ms or 0.0) - facts.survey.now_ms <= FLOWS_SECONDS * 1000


def _finding(facts: Facts, few: Sequence[Held]) -> Found | None:
    first, kind, lately = few[0], few[0].kind, facts.pace.lately
    moves = {VerdictState.CONCURRENCY: bool(facts.pace.done), VerdictState.PACED: lately}
    moves[VerdictState.RATE_LIMITED] = lately and _opens_soon(facts, first)
    if kind not in SENTENCES or moves.get(kind):
        return None  # another rule speaks of it
    said = SENTENCES[kind](facts, first)
    because = said.because + others_closed(facts, first)
    if first.state.group is None:
        because += f"; {tasks_are(facts.stats.due)}"
    else:
        waiting = sum(held.due for held in few)
        because += f"; {waiting} of {facts.stats.due} due tasks wait for that"
    until = min((held.opens_ms for held in few if held.opens_ms), default=None)
    needs = kind in (VerdictState.BY_HAND, VerdictState.CONCURRENCY)
    if kind in (VerdictState.QUOTA, VerdictState.BY_HAND) and until is not None:
        needs = until - facts.survey.now_ms > LONG_SECONDS * 1000
    needs &= not _flows(facts, first)
    helps = needs or kind is VerdictState.BY_HAND or first.state.reason == "in order"
    return said._replace(
        because=because,
        incident=said.incident if helps else "",
        until=until,
        who=said.who or first.name,
        needs_person=needs,
        named={"group": first.state.group or "", "task": first.holder, "token": first.token},
    )


def others_closed(facts: Facts, first: Held) -> str:
    """Say how many other groups are closed, and when one of them opens, if that is sooner."""
    others = facts.survey.closed - (first.state.group is not None)
    if others < 1:
        return ""
    said = "; " + many(others, "more group is closed", "more groups are closed")
    soonest = facts.survey.opens_ms or UNTIL_OPENED_MS
    sooner = soonest < (first.opens_ms or UNTIL_OPENED_MS)
    return f"{said}, the first until {facts.say(soonest)}" if sooner else said


def until_text(facts: Facts, held: Held) -> str:
    """Say until when a scope is closed; "" if that is not known."""
    return f" until {facts.say(held.opens_ms)}" if held.opens_ms else ""


def _say_429(facts: Facts, held: Held) -> Found:
    news, who = held.limited, held.name
    status = news.detail[:3] if news and news.detail[:3].isdecimal() else "429"
    since = news.at_ms if news else None
    names = [repr(m.name) for m in held.state.members if m.reason == held.state.reason]
    if len(names) == 1:
        who += f", member {names[0]}"
    elif names:
        who += f", members {names[0]} and "
        who += names[1] if len(names) == 2 else f"{len(names) - 1} more"
    if held.state.reason == "probe":
        why = f"the first task of {who} after a {status} still runs, and all others wait for it"
    else:
        when = f" at {facts.say(since)}" if since else ""
        why = f"the host of {who} has answered {status}{when}: it is closed"
        why += until_text(facts, held)
    return Found(held.kind, why, since=since, who=who)


def _say_paced(facts: Facts, held: Held) -> Found:
    state = held.state
    if state.reason == "in order":
        why = f"{held.name} keeps its order: task {held.holder} waits for its retry"
        return Found(held.kind, why + until_text(facts, held), "in order")
    learned = min((each.rate for each in (state, *state.members) if each.rate), default=None)
    rates = ", ".join(
        f"{per_text((not n and learned) or window.rate, window.per)} {window.unit}".rstrip()
        for n, window in enumerate(state.windows)
    )
    left = ", ".join(f"{max(0.0, units):.1f}" for units in state.units_left)
    allows = f"allows {rates}" if rates else "lets no task run yet"
    allows += f", of which {left} are left" if rates and left else ""
    opens = f"at {facts.say(held.opens_ms)}" if held.opens_ms else "soon"
    return Found(held.kind, f"the limit of {held.name} {allows}: it opens {opens}")


def _say_concurrency(facts: Facts, held: Held) -> Found:
    why = f"{held.name} lets {many(held.state.concurrency or 1, 'task')} run at once"
    if held.permits and held.permits_until_ms is not None:
        permits = many(held.permits, "permit of `acquire` holds", "permits of `acquire` hold")
        why += f", and {permits} it, the first until {facts.say(held.permits_until_ms)}"
        return Found(held.kind, why, "held by permits", who="callers of `acquire`")
    if not held.holder:
        return Found(held.kind, why, "concurrency too low")
    who = facts.worker_of(held.holder)
    why += f", and task {held.holder}{who and f' in {who}'} has held it for "
    why += span(facts.seconds_since(held.held_ms)) + facts.usual()
    return Found(held.kind, why, since=held.held_ms, who=who or f"task {held.holder}")


def _say_quota(facts: Facts, held: Held) -> Found:
    spent = spent_quota(held.state)
    why = f"the quota of {held.name} is spread over its period, and closed"
    if held.state.reason == "observed":
        why = f"the host of {held.name} has said that no more is left"
    elif spent:
        why = f"the quota of {quota_text(spent.quota)} of {held.name} {spent_words(spent.left)}"
    return Found(held.kind, why + until_text(facts, held))


def _say_by_hand(facts: Facts, held: Held) -> Found:
    news = held.closed
    when = f" at {facts.say(news.at_ms)}" if news else ""
    until = until_text(facts, held) or " until it is opened"
    why = f"{held.name} was closed by hand{when}{until}"
    return Found(held.kind, why, since=news and news.at_ms)


SENTENCES: dict[VerdictState, Callable[[Facts, Held], Found]] = {
    VerdictState.RATE_LIMITED: _say_429,
    VerdictState.PACED: _say_paced,
    VerdictState.CONCURRENCY: _say_concurrency,
    VerdictState.QUOTA: _say_quota,
    VerdictState.BY_HAND: _say_by_hand,
}
"""The sentence of each state that a limit causes."""
