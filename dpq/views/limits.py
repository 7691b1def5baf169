"""Limits in numbers and words: what a window allows, promises and has left, and its drain time."""

from collections.abc import Sequence
from typing import Any

from dpq import Quota, RateLimit
from dpq.limits.limits import most_granted
from dpq.limits.rules import LimitRules
from dpq.limits.states import last_to_open, spent_quota, spent_words
from dpq.model.rates import span
from dpq.types import LimitState, MemberState
from dpq.views.words import number


def window_text(window: RateLimit) -> str:
    """Write a window in words: `10 in 1 s`, `200 000 tokens in 1 m`."""
    unit = f" {window.unit}" if window.unit else ""
    units = int(window.rate) if float(window.rate).is_integer() else window.rate
    shown = number(units) if isinstance(units, int) else f"{units:g}"
    return f"{shown}{unit} in {span(window.per)}"


def quota_text(quota: Quota) -> str:
    """Write a quota in words: `25 000 000 tokens a day (Europe/Berlin)`."""
    unit = f" {quota.unit}" if quota.unit else ""
    kept = (
        f", {quota.reserve.units} from priority {quota.reserve.priority}" if quota.reserve else ""
    )
    spread = ", spread evenly" if quota.spread else ""
    each = f"an {quota.period}" if quota.period == "hour" else f"a {quota.period}"
    return f"{number(quota.amount)}{unit} {each} ({quota.timezone}{spread}{kept})"


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


def spent(state: LimitState | MemberState, windows: Sequence[RateLimit]) -> str:
    """Name the window or the quota that lets no task run: `10 in 1 s is spent`."""
    if not state.open and state.reason == "spent":
        last = last_to_open(windows, state.units_left)
        return f"{window_text(last[0])} {spent_words(last[1])}" if last else "spent"
    closed_by = None if state.open else spent_quota(state)
    return f"{quota_text(closed_by.quota)} {spent_words(closed_by.left)}" if closed_by else ""


def why(closed: LimitState) -> str:
    """Say why a group is closed."""
    reason = spent(closed, closed.windows) or str(closed.reason or "about to open")
    return "rate limited, one task tries" if reason == "probe" else reason


def gauges(state: LimitState) -> list[dict[str, Any]]:
    """Describe the windows of a limit as gauges: a browser goes on counting the units by itself."""
    found = []
    for i, window in enumerate(state.windows):
        learned = state.rate if i == 0 and state.rate else window.rate
        slack = window.slack if window.slack is not None else state.slack
        left = state.units_left[i] if i < len(state.units_left) else None
        found.append(
            {
                "text": window_text(window) + f", now {learned:.3g}" * (learned != window.rate),
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
