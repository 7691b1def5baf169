"""Limits in numbers and words: what a window allows, promises and has left, and its drain time."""

from typing import Any

from dpq import RateLimit
from dpq.limits.limits import most_granted, quota_text
from dpq.limits.rules import LimitRules
from dpq.limits.words import rate_text
from dpq.model.rates import span
from dpq.types import LimitState
from dpq.views.words import number


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


def drain_ms(state: LimitState, now_ms: float) -> float | None:
    """Compute when all waiting tasks of a scope will have begun, if each costs one request."""
    times = []
    for gauge in gauges(state):
        if gauge["unit"] == "" and gauge["left"] is not None:
            missing = max(0.0, state.waiting - max(0.0, gauge["left"]))
            times.append(missing / gauge["a_second"] * 1000)
    opens = state.opens_at.timestamp() * 1000 if state.opens_at else now_ms
    return max(opens, now_ms) + max(times) if times and state.waiting else None
