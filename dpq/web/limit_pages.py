"""The pages about limits: the state of each scope, a limit to edit, the question before a change.

A form sends what is to stand to the question, which is a page that changes nothing: so those who
may only look can try a limit on paper. The question sends the rules of both sides to `forms.limit`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from dpq import ConfigurationError
from dpq.limits.limits import EVERY_GROUP
from dpq.limits.rules import LimitRules, rules_words
from dpq.limits.states import LimitState
from dpq.limits.words import read_word, write_word
from dpq.model.history import CHANGES
from dpq.types import Event
from dpq.views.events import SHOWN
from dpq.views.limits import changes_of, look_at, rules_before
from dpq.views.used import used_by
from dpq.web.pages import PAGE, whole_of
from dpq.web.render import plain
from dpq.web.site import Call, read_number, read_whole

WAYS = {"": "closed first", "closed": "open next", "own": "own limits", "name": "by name"}
"""The lists of groups."""

BUSIEST = 6
"""Members of a pool whose charts a page shows: more would not be read."""

SCOPES = 98
"""Groups in one read of limits: `states` reads 100 scopes, and two of them are no groups."""

PASSING = ("spent", "concurrency", "probe", "in order")
"""Reasons of a closing that ends by itself as tasks run: the usual life of a limit."""


def group_names(call: Call) -> tuple[list[str], dict[str, Any] | None]:
    """Choose the groups of a page, and the query of the next one; None after the last."""
    way, named = call.query.get("way", ""), call.query.get("q", "").strip()
    behind = call.query.get("behind", "")
    if way == "own":
        cursor, _, skipped = (behind or "0").partition(".")  # a small hash comes as one long page
        following, names = call.shared("own_limits", cursor)
        start = whole_of(skipped)
        end = start + SCOPES
        following = f"{cursor}.{end}" if end < len(names) else following
        return names[start:end], None if following == "0" else {"way": way, "behind": following}
    if way == "closed":
        start = whole_of(behind)
        names = call.shared("groups_by", "closed", str(start), "", PAGE)
        return names, {"way": way, "behind": start + PAGE} if len(names) == PAGE else None
    if way == "name" or named:
        names = call.shared("groups_by", "name", named, behind, PAGE)
        if named and not behind and named not in names:
            names = [named, *names][:PAGE]  # a group without waiting tasks is not in the list
        last = {"way": "name", "q": named, "behind": names[-1]} if len(names) == PAGE else None
        return names, last
    closed = call.shared("groups_by", "closed", str(1 - PAGE), "", PAGE - 1)  # that open last
    largest = call.shared("groups_by", "largest", "", "", PAGE)
    return list(dict.fromkeys([*closed, *largest]))[:SCOPES], None


def closed_first(groups: Sequence[LimitState]) -> list[LimitState]:
    """Order groups: closed by a 429 or by hand, then spent, then open; most waiting first."""

    def rank(state: LimitState) -> tuple[int, int]:
        return 2 if state.open else state.reason in PASSING, -state.waiting

    return sorted(groups, key=rank)


def limits(call: Call) -> Response:
    """Show the states of the queue, of the default of all groups, and of some groups."""
    names, following = group_names(call)
    states, counted, now_ms = call.shared("states", names)
    way = "name" if call.query.get("q") else call.query.get("way", "")
    groups = states[2:] if way else closed_first(states[2:])
    if call.for_programs:
        told = {"limits": plain([*states[:2], *groups]), "in_flight_counted": counted}
        return call.answer(told | {"now_ms": now_ms, "next": following})
    return call.render(
        "limits.html",
        snapshot=call.snapshot,
        whole=states[0],
        default=states[1],
        groups=groups if way else groups[:PAGE],
        events=call.events("rate_limited"),
        granted=call.granted(),
        counted=counted,
        ways=WAYS,
        way=way,
        q=call.query.get("q", ""),
        following=following,
        now_ms=now_ms,
    )


def limit(call: Call) -> Response:
    """Show the limit of one scope: its state, its last changes, and a form that has what stands."""
    group = call.query.get("group", "")
    named = [group] if group not in ("", EVERY_GROUP) else []
    states, _, now_ms = call.shared("states", named)
    state = states[-1] if group else states[0]
    made = call.events(*CHANGES)
    text = call.query.get("rules", state.rules or (states[1].rules if state.default else ""))
    scope = EVERY_GROUP if text and not state.rules and state.default else group or None
    used = used_by(call.granted(), state, now_ms)
    rules = LimitRules.read(text, scope) if text and state.reason != "unreadable" else None
    windows: list[Any] = [*rules.windows, *rules.quotas] if rules else []
    return call.render(
        "limit.html",
        state=state,
        group=group,
        now_ms=now_ms,
        rules=rules,
        words=[write_word(each) for each in windows],
        events=call.events("rate_limited"),
        used=sorted(used, key=lambda each: -(each.share or 0.0))[:BUSIEST],
        changes=changes_of(made, group or None)[:SHOWN],
        changed=[*made, *call.events("learned")],
    )


def rules_of(given: Mapping[str, Any], group: str | None) -> LimitRules | None:
    """Read what is to stand, of a form or of a program: `rules` as stored, "" for no limit; else
    `windows`, a word for each window and quota, with the other parts beside it."""
    if "rules" in given:
        return LimitRules.read(str(given["rules"]), group) if given["rules"] else None

    def lines(name: str) -> list[str]:
        told = given.get(name) or []
        found = told.splitlines() if isinstance(told, str) else told
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ConfigurationError(f"{name} is {told!r}: it must be a list, as ['10/s']")
        return [line.strip() for line in found if line.strip()]

    def figure(name: str, read: Callable[[Any, str], Any]) -> Any:
        told = given.get(name)
        return None if told in (None, "") else read(told, name)

    return LimitRules.checked(
        [read_word(word) for word in lines("windows")] or None,
        group=group,
        concurrency=figure("concurrency", read_whole),
        members=lines("members") or None,
        weight=figure("weight", read_number),
        in_order=bool(given.get("in_order")),
    )


def change(call: Call) -> Response:
    """Ask before a limit changes: what was, what would be, the promises and drain times of both."""
    group, undone = call.query.get("group") or None, None
    if undo := call.query.get("undo"):
        found = changes_of(call.events(*CHANGES), group)
        undone = next((event for event in found if event.id == undo), None)
        if undone is None:
            raise HTTPException(404, "this change is not among the events that the queue has kept")
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
