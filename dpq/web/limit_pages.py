"""The pages about limits: the state of each scope, a limit to edit, the question before a change.

A form sends what is to stand to the question, which is a page that changes nothing: so those who
may only look can try a limit on paper. The question sends the rules of both sides to `forms.limit`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from dpq import ConfigurationError
from dpq.limits.limits import EVERY_GROUP, MAX_QUOTAS, MAX_WINDOWS
from dpq.limits.rules import LimitRules, rules_words
from dpq.limits.states import LimitState
from dpq.limits.words import read_word, write_word
from dpq.types import Event
from dpq.views.limit_change import changes_of, look_at, rules_before
from dpq.views.used import used_by
from dpq.web.access import Refused
from dpq.web.pages import PAGE, whole_of
from dpq.web.site import Call, read_number, read_whole

CHANGES = 5
"""Changes of a limit that its page shows, the newest first."""

WINDOW_FIELDS = ("burst", "reserve", "adaptive", "slack", "estimate")
"""The fields of a window beside its rate, by the names that `limit_words` gives them."""

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

PASSING = ("spent", "concurrency", "probe", "in order")
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
        names = call.shared("groups_by", "closed", str(start), "", PAGE)
        return names, {"way": way, "behind": start + PAGE} if len(names) == PAGE else None
    if way == "name" or named:
        names = call.shared("groups_by", "name", named, behind, PAGE)
        if named and not behind and named not in names:
            names = [named, *names][:PAGE]  # a group without waiting tasks is not in the list
        last = {"way": "name", "q": named, "behind": names[-1]} if len(names) == PAGE else None
        return names, last
    names = call.shared("groups_by", "largest", "", "", PAGE)
    if way != "largest":  # the closed groups that open last, then the largest groups
        last = call.shared("groups_by", "closed", str(1 - PAGE), "", PAGE - 1)
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
        events=call.site.events(call.name, "rate_limited"),
        granted=call.site.granted(call.name),
        counted=counted,
        ways=WAYS,
        way=way,
        q=call.query.get("q", ""),
        following=following,
        now_ms=now_ms,
        names=names,
    )


def limit(call: Call) -> Response:
    """Show the limit of one scope: its state, its last changes, and a form that has what stands."""
    group = call.query.get("group", "")
    named = [group] if group not in ("", EVERY_GROUP) else []
    states, _, now_ms = call.shared("states", named)
    state = states[1] if group == EVERY_GROUP else states[-1] if group else states[0]
    changes = changes_of(call.site.events(call.name, "limit_set"), group or None)
    text = call.query.get("rules", state.rules or (states[1].rules if state.default else ""))
    scope = EVERY_GROUP if text and not state.rules and state.default else group or None
    return call.render(
        "limit.html",
        state=state,
        group=group,
        now_ms=now_ms,
        filled=_filled(text, scope),
        events=call.site.events(call.name, "rate_limited"),
        used=used_by(call.site.granted(call.name), state, now_ms),
        changes=changes[:CHANGES],
    )


def _filled(text: str, group: str | None) -> dict[str, Any]:
    """Write rules as the fields of the form, with an empty row for one more window and quota."""
    try:
        rules = LimitRules.read(text, group) if text else None
    except ConfigurationError:
        rules = None
    windows = [_row(write_word(each)) for each in (rules.windows if rules else ())]
    quotas = [_row(write_word(each)) for each in (rules.quotas if rules else ())]
    return {
        "windows": [*windows, {}][:MAX_WINDOWS],
        "quotas": [*quotas, {}][:MAX_QUOTAS],
        "concurrency": (rules and rules.concurrency) or "",
        "in_order": bool(rules and rules.in_order),
        "weight": f"{rules.weight:.15g}" if rules and rules.weight is not None else "",
        "members": "\n".join(rules.members) if rules else "",
    }


def _row(word: str) -> dict[str, str]:
    """Split a word of a limit into the fields of the form: `10/s,burst=5` is a rate and a burst."""
    rate, *settings = word.split(",")
    pairs = (setting.partition("=") for setting in settings)
    return {"rate": rate, **{name: value or "on" for name, _, value in pairs}}


def rules_of(fields: Mapping[str, str], group: str | None) -> LimitRules | None:
    """Read what is to stand: `rules` as stored, "" for no limit; else the fields of a form."""
    if "rules" in fields:
        return LimitRules.read(fields["rules"], group) if fields["rules"] else None

    def said(name: str, n: int | str = "") -> str:
        return fields.get(f"{name}.{n}" if n != "" else name, "").strip()

    words = []
    for n in range(MAX_WINDOWS):
        more = [f"{name}={value}" for name in WINDOW_FIELDS if (value := said(name, n))]
        words.append(",".join([said("rate", n), *["moving"] * bool(said("moving", n)), *more]))
    for n in range(MAX_QUOTAS):
        kept = said("kept", n)
        spread = ["spread"] * bool(said("spread", n))
        words.append(",".join([said("quota", n), *spread, *[f"reserve={kept}"] * bool(kept)]))
    members = [name for line in said("members").splitlines() if (name := line.strip())]
    concurrency, weight = said("concurrency"), said("weight")
    return LimitRules.checked(
        [read_word(word) for word in words if word],
        group=group,
        concurrency=read_whole(concurrency, "concurrency") if concurrency else None,
        members=members or None,
        weight=read_number(weight, "weight") if weight else None,
        in_order=bool(said("in_order")),
    )


def change(call: Call) -> Response:
    """Ask before a limit changes: what was, what would be, the promises and drain times of both."""
    group, undone = call.query.get("group") or None, None
    if undo := call.query.get("undo"):
        found = changes_of(call.site.events(call.name, "limit_set"), group)
        undone = next((event for event in found if event.id == undo), None)
        if undone is None:
            raise Refused(404, "this change is not among the events that the queue has kept")
        rules = rules_before(undone)
    else:
        rules = None if call.query.get("remove") else rules_of(call.query, group)
    return question(call, group, rules, call.query.get("expected"), undone=undone)


def question(
    call: Call,
    group: str | None,
    rules: LimitRules | None,
    seen: str | None,
    status: int = 200,
    undone: Event | None = None,
) -> Response:
    """Show a change on paper, with the button that makes it."""
    change = look_at(call.queue, group, rules)
    moved = seen is not None and seen != change.stands
    return call.render(
        "change.html",
        status,
        group=group or "",
        change=change,
        seen=(rules_words(seen or "", group) or "no limit") if moved else "",
        refused=status != 200,
        undone=undone,
    )
