"""The pages about limits: the state of each scope, a limit to edit, and a dry run."""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from dpq import ConfigurationError
from dpq.model.limit_states import LimitState
from dpq.model.limits import EVERY_GROUP, RateLimit, read_rate
from dpq.views.limits import drain_ms, promise
from dpq.web.pages import PAGE, whole_of
from dpq.web.site import Call

WAYS = {
    "": "closed first",
    "largest": "most waiting",
    "closed": "open next",
    "own": "own limits",
    "name": "by name",
}
"""The lists of groups."""

SCOPES = 98
"""Groups in one read of limits: `states` reads 100 scopes, and two of them are no groups."""

PASSING = ("spent", "concurrency", "probe")
"""Reasons of a closing that ends by itself as tasks run: the usual life of a limit."""


def group_names(call: Call) -> tuple[list[str], dict[str, Any] | None]:
    """Choose the groups of a page, and the query of the next one; None after the last."""
    way, named = call.query.get("way", ""), call.query.get("q", "").strip()
    behind = call.query.get("behind", "")
    if way == "own":
        cursor, names = call.shared("own_limits", behind or "0")
        return names[:SCOPES], None if cursor == "0" else {"way": way, "behind": cursor}
    if way == "closed":
        start = max(0, whole_of(behind or "0"))
        names = call.shared("groups", "closed", str(start), "", PAGE)
        return names, {"way": way, "behind": start + PAGE} if len(names) == PAGE else None
    if way == "name" or named:
        names = call.shared("groups", "name", named, behind, PAGE)
        if named and not behind and named not in names:
            names = [named, *names][:PAGE]  # a group without waiting tasks is not in the list
        last = {"way": "name", "q": named, "behind": names[-1]} if len(names) == PAGE else None
        return names, last
    names = call.shared("groups", "largest", "", "", PAGE)
    if way != "largest":  # the closed groups that open last, then the largest groups
        last = call.shared("groups", "closed", str(1 - PAGE), "", PAGE - 1)
        names = list(dict.fromkeys([*last, *names]))[:SCOPES]
    return names, None


def closed_first(groups: Sequence[LimitState]) -> list[LimitState]:
    """Order groups: closed by a 429 or by hand, then spent, then open; most waiting first."""

    def rank(state: LimitState) -> tuple[int, int]:
        return 2 if state.open else state.reason in PASSING, -state.waiting

    return sorted(groups, key=rank)


def limits(call: Call) -> Response:
    """Show the state of each scope: open or closed, why, until when, units left, tasks."""
    names, following = group_names(call)
    states, counted, now_ms = call.shared("states", names)
    way = "name" if call.query.get("q") else call.query.get("way", "")
    return call.render(
        "limits.html",
        snapshot=call.site.snapshot(call.name),
        whole=states[0],
        default=states[1],
        groups=states[2:] if way else closed_first(states[2:])[:PAGE],
        events=call.site.events(call.name),
        counted=counted,
        ways=WAYS,
        way=way,
        q=call.query.get("q", ""),
        following=following,
        dry=_dry_run(call, states, now_ms),
        now_ms=now_ms,
        names=names,
    )


def _dry_run(call: Call, states: Any, now_ms: float) -> dict[str, Any] | None:
    """Say when all waiting tasks would have begun under another rate; None without such a rate."""
    text, scope = call.query.get("rate", "").strip(), call.query.get("scope", "")
    if not text:
        return None
    group = scope or None
    try:
        window: RateLimit = read_rate(text)
    except ConfigurationError as error:
        return {"error": str(error), "scope": group, "rate": text}
    state = next((each for each in states if each.group == group), None)
    if state is None:
        state = call.browse("states", [scope])[0][2]
    tried = state.model_copy(
        update={
            "windows": (window,),
            "units_left": (float(window.at_once),),
            "rate": None,
            "opens_at": state.opens_at
            if state.reason in ("rate limited", "closed by hand")
            else None,
        }
    )
    return {
        "scope": group,
        "rate": text,
        "error": "",
        "waiting": state.waiting,
        "now": drain_ms(state, now_ms),
        "then": drain_ms(tried, now_ms),
        "promise": promise(window),
    }


def limit(call: Call) -> Response:
    """Show the limit of one scope, to edit it, with its promise."""
    group = call.query.get("group", "")
    named = [group] if group not in ("", EVERY_GROUP) else []
    states, _, now_ms = call.shared("states", named)
    state = states[1] if group == EVERY_GROUP else states[-1] if group else states[0]
    return call.render(
        "limit.html",
        state=state,
        group=group,
        now_ms=now_ms,
        dry=_dry_run(call, states, now_ms),
        events=call.site.events(call.name),
    )
