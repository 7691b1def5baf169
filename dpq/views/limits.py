"""Limits in numbers and words, and a change of one: the question before it, and the way back.

`dpq limit` and the dashboard ask with it. They read the change on paper, show both sides, and send
it with the rules that they have shown, so that a change by somebody else meanwhile is refused.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpq import DPQ, ConfigurationError, RateLimit
from dpq.explain.drain import LONGEST_SECONDS, DrainLook, drain_of
from dpq.limits.limits import EVERY_GROUP, most_granted, quota_text
from dpq.limits.pools import MAX_MEMBERS, UNTIL_OPENED_MS
from dpq.limits.rules import LimitRules, limit_words, plain_rules
from dpq.limits.words import rate_text
from dpq.model.rates import many, span
from dpq.queue.inside import operations_of, session_of
from dpq.types import Event, LimitState
from dpq.views.sampler import Snapshot
from dpq.views.words import number, say_drain


def promise(window: RateLimit) -> str:
    """Write the promise of a window."""
    fastest = window.adaptive.ceiling if window.adaptive else window.rate
    whole = most_granted(fastest, window.burst)
    unit = window.unit or ("request" if whole == 1 else "requests")
    return f"never more than {number(whole)} {unit} in any {span(window.per)}"


def promises(rules: LimitRules) -> list[str]:
    """Write all promises of a limit, a sentence each."""
    said = [promise(window) for window in rules.windows]
    said += [f"never more than {quota_text(quota)}" for quota in rules.quotas]
    if rules.in_order:
        said.append("never a task before the one ahead of it is finished or dead")
    if rules.concurrency is not None:
        said.append(f"never more than {number(rules.concurrency)} at once")
    whose = f"for each of {len(rules.members)} members " if rules.members else ""
    return [whose + each for each in said]


def gauges(state: LimitState) -> list[dict[str, Any]]:
    """Describe the windows of a limit as gauges: a browser goes on counting the units by itself."""
    found = []
    for i, window in enumerate(state.windows):
        learned = state.rate if i == 0 and state.rate else window.rate
        slack = window.slack if window.slack is not None else state.slack
        left = state.units_left[i] if i < len(state.units_left) else None
        found.append(
            {
                "text": rate_text(window) + f", now {learned:.3g}" * (learned != window.rate),
                "promise": promise(window),
                "left": left,
                "burst": window.at_once,
                "a_second": learned / (window.per + slack),
                "unit": window.unit,
            }
        )
    return found


def all_begun_ms(state: LimitState, seen: Snapshot) -> float | None:
    """Return when limits have let all due tasks of a scope start; None if they do not say it.

    The drain time counts some 100 scopes. In others each task counts as one request.
    """
    if state.group in (None, *seen.begun):
        return seen.begun.get(state.group or "")
    left = [(each["left"], each["a_second"]) for each in gauges(state) if not each["unit"]]
    seconds = [max(0.0, state.waiting - units) / rate for units, rate in left if units is not None]
    opens = state.opens_at.timestamp() * 1000 if state.opens_at else 0.0
    if not (seconds and state.waiting) or state.quotas or not (state.open or opens):
        return None
    start = max(opens, seen.survey.now_ms, float(seen.survey.paused_until or 0))
    return start + max(seconds) * 1000 if start < UNTIL_OPENED_MS else None


# A change


class Side(NamedTuple):
    """A limit as it is, or as it would be."""

    limit: list[str]  # its parts in words
    promises: list[str]  # its promises, a sentence each
    drain: str  # when the tasks that are due will have begun, in words
    begun_ms: float | None  # that moment, or None if it is now or not known


class Change(NamedTuple):
    """A change of a limit, before it is made."""

    stands: str  # the rules that stand, as `plain_rules`; the change expects them
    rules: str  # the rules that are to stand, as `plain_rules`; "" removes the limit
    was: Side  # the limit as it is
    will_be: Side  # the limit as it would be


def look_at(queue: DPQ[Any], group: str | None, rules: LimitRules | None) -> Change:
    """Read what a change of a limit would do; None would remove the limit. It changes nothing."""
    read = session_of(queue).run(operations_of(queue).limit_on_paper, group, rules)
    (stands, every, now, then), text = read, plain_rules(rules.text()) if rules else ""
    was, will_be = _side(stands, group, every, now), _side(text, group, every, then)
    return Change(stands, text, was, will_be)


def make(
    queue: DPQ[Any], group: str | None, rules: LimitRules | None, by: str, expected: str | None
) -> None:
    """Make a change that was shown."""
    operations, run = operations_of(queue), session_of(queue).run
    if rules is None:
        run(operations.clear_limit, group, by, expected)
    else:
        run(operations.set_limit, rules, by, expected)


def changes_of(events: Sequence[Event], group: str | None) -> list[Event]:
    """Find the events that changed a limit and can be undone, the newest first."""
    made = ("limit_set", group or "")
    found = (event for event in reversed(events) if (event.kind, event.group) == made)
    return [event for event in found if event.before not in (None, event.detail)]


def rules_before(event: Event) -> LimitRules | None:
    """Return the rules that stood before a change, None for no limit."""
    return LimitRules.read(event.before, event.group or None) if event.before else None


def _side(text: str, group: str | None, every: str, look: DrainLook) -> Side:
    limits_alone = look._replace(scopes=[scope._replace(busy=False) for scope in look.scopes])
    drain = drain_of(limits_alone, group=group)
    due = many(drain.backlog, "due task")
    said = f"{due}: {say_drain(drain)}" if drain.backlog else "no due task waits for it"
    limit, whose = [] if text else ["no limit"], ""
    if not text and group not in (None, EVERY_GROUP):
        limit, text, group = ["no limit of its own"], every, EVERY_GROUP
        whose = "of every group: "
    sentences: list[str] = []
    if text:
        try:
            rules = LimitRules.read(text, group)
        except ConfigurationError:
            limit.append(f"{whose}a limit that this DPQ cannot read: {text}")
        else:
            limit += [whose + each for each in limit_words(rules, MAX_MEMBERS)]
            sentences = promises(rules)
    seconds = drain.seconds if drain.backlog and drain.seconds else 0.0
    begun = look.now + seconds * 1000 if 0 < seconds <= LONGEST_SECONDS else None
    return Side(limit, sentences, said, begun)
