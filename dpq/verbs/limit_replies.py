"""Replies of the scripts about limits and groups, as data; and the sentence that `why` returns."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpq.limits.budget import Budget
from dpq.limits.limits import (
    EVERY_GROUP,
    RateLimit,
    last_to_open,
    reason_of,
    spent_words,
)
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.quota import Quota, quota_text
from dpq.limits.rules import LimitRules, plain_rules
from dpq.limits.states import LimitState, MemberState, QuotaState, spent_quota
from dpq.model.batch_state import BatchState
from dpq.model.moments import moment_of
from dpq.model.rates import span
from dpq.model.task import TaskState
from dpq.script.batch_texts import read_batch_state
from dpq.script.values import read_texts


def read_limits(
    groups: Sequence[str | None], running: Mapping[str, int], texts: Sequence[str]
) -> list[LimitState]:
    """Read the objects that view returns; `running` counts the running tasks by group (None: the
    queue)."""
    states = []
    for group, view in zip(groups, map(json.loads, texts), strict=True):
        own, text, unreadable = (view.get(name, "") for name in ("field", "rules", "unreadable"))
        rules = LimitRules.stored(text) if text and not unreadable else LimitRules()
        everyone = group == EVERY_GROUP
        if everyone:  # it has no gate
            view |= {"rate": 0, "slack": 0, "left": (), "quotas": (), "budgets": (), "opens": 0}
            view |= {"due": 0, "why": "u" if unreadable else ""}
        is_own = own not in ("", "groups")
        if not is_own:
            view["granted"] = ()
        states.append(
            LimitState(
                group=group,
                windows=rules.windows,
                concurrency=rules.concurrency,
                in_order=rules.in_order,
                default=own == "groups" and not everyone,
                waiting=view["due"],
                in_flight=_in_flight(running, group) + view["permits"],
                members=tuple(
                    MemberState(
                        name=each["name"],
                        in_flight=running.get(f"{group}\t{each['name']}", 0) + each["permits"],
                        **_seen(each, rules.windows, rules.quotas),
                    )
                    for each in view.get("members", ())
                ),
                weight=1.0 if rules.weight is None else rules.weight,
                rules=plain_rules(text) if is_own or everyone else "",
                **_seen(view, () if everyone else rules.windows, rules.quotas),
            )
        )
    return states


def _seen(
    view: dict[str, Any], windows: Sequence[RateLimit], quotas: Sequence[Quota]
) -> dict[str, Any]:
    """Read what view says of any gate: of a scope, or of a member of its pool."""
    opens = float(view["opens"])
    return {
        "open": not view["why"],
        "opens_at": moment_of(opens) if 0 < opens < UNTIL_OPENED_MS else None,
        "reason": reason_of(view["why"]),
        "rate": float(view["rate"]) if windows and windows[0].adaptive else None,
        "slack": float(view["slack"]) / 1000,
        "units_left": tuple(map(float, view["left"])),
        "quotas": _read_quotas(quotas, view["quotas"]),
        "budgets": tuple(
            Budget(
                unit,
                int(left),
                int(ms) / 1000,
                int(full) or None,
                int(most) or None,
                int(length) / 1000 if most != "0" else None,
            )
            for unit, left, ms, full, most, length in sorted(view["budgets"])
        ),
        "granted": tuple(map(int, view["granted"])),
        "rate_limited": int(view["met"]),
    }


def _read_quotas(
    quotas: Sequence[Quota], counts: Sequence[Sequence[str]]
) -> tuple[QuotaState, ...]:
    """Read what is left of each quota, and its reset; without counts, all of it is left."""
    counts = counts or [(str(quota.amount), "") for quota in quotas]
    return tuple(
        QuotaState(
            quota=quota, left=int(left), resets_at=moment_of(float(reset)) if reset else None
        )
        for quota, (left, reset) in zip(quotas, counts, strict=True)
    )


def _in_flight(running: Mapping[str, int], group: str | None) -> int:
    """Count the running tasks of a group with all its members; None is the queue."""
    if group is None:
        return sum(running.values())
    return sum(count for name, count in running.items() if name.partition("\t")[0] == group)


class Waiting(NamedTuple):
    """The reply of the script why about one task.

    Attributes:
        state: Its state; None if it is in no set: another program has written into Redis.
        until_ms: The time when a delayed task is due or a lease ends, by the server's clock.
        group: Its group, or "".
        ahead: Ready tasks that come before it, or before the head of its group.
        in_group: Tasks of its group that come before it.
        paused_until: "", "inf", or ms.
        held_until_ms: The time when the limit of the queue has enough units for this task.
        pinned: The member that its push named, or "".
        batch: The batch that it waits for, or None.
        after: The ids of the tasks that it waits for.
        about_ms: The time when the limits let it start after all before it; 0 for never.
        more: Tasks of other groups, behind their heads, may come before it, too.
    """

    state: TaskState | None
    until_ms: int
    group: str
    ahead: int
    in_group: int
    paused_until: str
    held_until_ms: int = 0
    pinned: str = ""
    batch: BatchState | None = None
    after: Sequence[str] = ()
    about_ms: int = 0
    more: bool = False


def read_waiting(reply: list[Any]) -> Waiting | None:
    """Read the reply of why; None if nothing is stored under the id."""
    if not reply:
        return None
    texts = read_texts(reply)
    state, until, group, ahead, in_group, paused, held, pinned, batch, text, after = texts[:11]
    return Waiting(
        TaskState(state) if state else None,
        int(until),
        group,
        int(ahead),
        int(in_group),
        paused,
        int(held),
        pinned,
        read_batch_state(batch, text),
        tuple(after.split("\x01")[1:]),
        int(texts[11] or 0),
        bool(texts[12]),
    )


def explain(found: Waiting, limits: Sequence[LimitState], now_ms: int, unattended: str = "") -> str:
    """Say in one sentence why a task is not running."""

    def within(moment_ms: float) -> str:
        return f"{max(0.0, (moment_ms - now_ms) / 1000):.1f} s"

    def soon(said_ms: float) -> str:
        if found.about_ms < said_ms + 1000:
            return ""
        least = found.more and (limits[0].windows or limits[0].quotas)
        about = "at least" if least or any(each.concurrency for each in limits) else "about"
        return f", so it may run after {about} {span(round((found.about_ms - now_ms) / 1000))}"

    if found.state is None:
        return "it stands nowhere, and nothing would run it: see `dpq doctor`"
    if found.state is TaskState.DEAD:
        return "it is in the dead letters, until it is replayed"
    if found.state is TaskState.INVISIBLE:
        return f"it is running: its lease ends in {within(found.until_ms)}"
    if found.state is TaskState.DELAYED and found.batch:
        batch, verb = found.batch, "is" if found.batch.left == 1 else "are"
        left = f"{batch.left} of its {batch.pushed} tasks {verb} left"
        return f"it waits for the end of batch {batch.name!r}: {left}"
    if found.state is TaskState.DELAYED and found.until_ms >= UNTIL_OPENED_MS and found.after:
        names = ", ".join(found.after)
        many = "the end of task" if len(found.after) == 1 else f"{len(found.after)} tasks to end:"
        return f"it waits for {many} {names}"
    if found.state is TaskState.DELAYED and found.until_ms >= UNTIL_OPENED_MS:
        return "it waits for a batch that is not stored: see `dpq doctor`"
    paused = found.paused_until
    pause = (
        f"for another {within(float(paused or 0))}" if paused != "inf" else "until it is resumed"
    )
    if found.state is TaskState.DELAYED:
        due = f"it is delayed: due in {within(found.until_ms)}"
        return f"{due}, but the queue is paused {pause}" if _outlasts(found) else due
    before = []
    if found.in_group:
        before.append(f"{_tasks(found.in_group)} of its group")
    if found.ahead:
        others = _tasks(found.ahead, "other ready" if found.in_group else "ready")
        before.append("at least " * found.more + others)
    behind = f"behind {' and '.join(before)}" if before else ""
    nobody = f", but nobody takes it: {unattended}" if unattended else ""
    if paused:
        said = float(paused)
        reason = f"the queue is paused {pause}"
    else:
        shut: LimitState | MemberState | None
        shut = next((limit for limit in reversed(limits) if not limit.open), None)
        pool = limits[-1].members if found.pinned else ()
        member = next((m for m in pool if m.name == found.pinned), None)
        if pool and member is None:
            return (
                f"it runs only as {found.pinned!r}, which is no member of its group's pool: it "
                f"waits until set_limit names that member, and it is {behind or 'first'} then"
            )
        if member and not member.open and (shut is None or shut.group is not None):
            shut = member
        if shut is None and not before and found.held_until_ms > now_ms:
            wait = within(found.held_until_ms)
            return f"it waits for units of the queue's limit, for another {wait}{nobody}"
        if shut is None:
            place = behind and f" {behind}" if nobody else f": {behind or 'next'}"
            return f"it is {found.state}{place}{soon(now_ms)}{nobody}"
        if isinstance(shut, MemberState):
            what = f"it runs only as {shut.name!r}, which"
        else:
            what = "the queue" if shut.group is None else f"its group {shut.group!r}"
        windows = limits[-1].windows if isinstance(shut, MemberState) else shut.windows
        reason = f"{what} is closed ({_why_closed(shut, windows)})"
        if shut.opens_at is None and shut.reason == "closed by hand":
            reason += " until it is opened"
        said = shut.opens_at.timestamp() * 1000 if shut.opens_at else math.inf
        if shut.opens_at:
            reason += f" for another {within(said)}"
    return f"{reason}, and it is {behind or 'first'} then{soon(said)}{nobody}"


def _outlasts(found: Waiting) -> bool:
    """Return True if the queue is paused for longer than the task is delayed."""
    return float(found.paused_until or 0) > found.until_ms


_CLOSED = {
    "rate limited": "rate limited by its host",
    "closed by hand": "by hand",
    "unreadable": "its stored limit cannot be read: set it again, or clear it",
    "probe": "the first task after a rate limit is still running",
    "concurrency": "as many tasks run as may",
    "observed": "its host has said that no more is left",
    "in order": "its first task waits for its retry, and comes first",
    "quota": "its quota is spread over the rest of the period",
}


def _why_closed(shut: LimitState | MemberState, windows: Sequence[RateLimit]) -> str:
    """Say why a limit lets no task run; if units are spent, name the window or quota."""
    if spent := spent_quota(shut):
        return f"its quota of {quota_text(spent.quota)} {spent_words(spent.left)}"
    return _CLOSED.get(shut.reason or "") or _spent(windows, shut.units_left)


def _spent(windows: Sequence[RateLimit], units_left: Sequence[float]) -> str:
    """Name the window that opens last by its unit; add its length if other windows share it."""
    last = last_to_open(windows, units_left)
    if last is None:
        return "its rate is spent"
    window, left = last
    units = [other.unit for other in windows]
    name = f" of {window.unit or 'requests'}" if len(units) > 1 or window.unit else ""
    length = f" per {window.per:.15g} s" if units.count(window.unit) > 1 else ""
    return f"its rate{name}{length} {spent_words(left)}"


def _tasks(count: int, kind: str = "") -> str:
    return f"{count} {kind} task{'s' if count > 1 else ''}".replace("  ", " ")


def changes_at(found: Waiting, limits: Sequence[LimitState]) -> float | None:
    """Return the moment of the sentence that `explain` makes, ms."""
    delayed = found.state is TaskState.DELAYED and not _outlasts(found)
    if delayed or found.state is TaskState.INVISIBLE:
        return found.until_ms if found.until_ms < UNTIL_OPENED_MS else None
    if found.state is TaskState.DEAD:
        return None
    if found.paused_until:
        return None if found.paused_until == "inf" else float(found.paused_until)
    shut = next((limit for limit in reversed(limits) if not limit.open), None)
    if shut:
        return shut.opens_at.timestamp() * 1000 if shut.opens_at else None
    return found.held_until_ms or None
