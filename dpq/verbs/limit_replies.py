"""Replies of the scripts about limits and groups, as data."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dpq.limits.budget import Budget
from dpq.limits.limits import EVERY_GROUP, Quota, RateLimit
from dpq.limits.pools import UNTIL_OPENED_MS
from dpq.limits.rules import LimitRules, plain_rules
from dpq.limits.states import LimitState, MemberState, QuotaState, reason_of
from dpq.model.moments import moment_of


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
