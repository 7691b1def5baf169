"""The operations about limits and groups of a queue. No I/O."""

import json
import secrets
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpq.limits.budget import Budget
from dpq.limits.cost import warn_of_units
from dpq.limits.limits import EVERY_GROUP, Quota, RateLimit
from dpq.limits.permit import Caller, HeldPermit, PermitAnswer
from dpq.limits.pools import UNTIL_OPENED_MS, member_name
from dpq.limits.rules import LimitRules, plain_rules, rules_words
from dpq.limits.signals import RateLimited, status_text
from dpq.limits.states import REASONS, LimitState, MemberState, QuotaState
from dpq.model.errors import ConfigurationError, LimitChangedError
from dpq.model.moments import moment_of
from dpq.model.task import Task
from dpq.model.validation import label, milliseconds
from dpq.script.command import CommandMaker, Steps, same
from dpq.script.records import scope_of
from dpq.script.refusals import Code
from dpq.script.values import in_rows, read_texts


class LimitOperations(CommandMaker):
    def set_limit(
        self, rules: LimitRules, by: str = "", expected: str | None = None
    ) -> Steps[None]:
        warn_of_units(each.unit for each in rules.limits)
        now_ms = 0
        if rules.quotas:  # a quota carries the clock changes of 10 years from the server's time on
            now_ms, _ = yield from self.view([])
        reset = secrets.randbelow(10**15) if rules.reset else ""
        args = [rules.text(now_ms), int(any(each.reserve for each in rules.limits))]
        yield from self._set(rules.group, args, [reset, by], expected)

    def clear_limit(
        self, group: str | None, by: str = "", expected: str | None = None
    ) -> Steps[None]:
        name = group if group in (None, EVERY_GROUP) else label("group", group)
        return self._set(name, ["", 0], ["", by], expected)

    def _set(
        self, group: str | None, rules: list[Any], more: list[Any], expected: str | None
    ) -> Steps[None]:
        more = more if expected is None else [*more, expected]
        walk, cursor = "set", "0"
        while walk != "done":
            args = [self._now(), limit_field(group), *rules, walk, cursor, *more]
            walk, cursor = yield self._command("set_limit", args, read_texts)
            if walk == "changed":
                raise LimitChangedError(cursor, rules_words(cursor, group) or "none")

    def delay_group(
        self, group: str, seconds: float | None, member: str | None = None
    ) -> Steps[Any]:
        """Close a group or a member of its pool: for some seconds, or for ever; or open it."""
        ms = "inf" if seconds is None else milliseconds("seconds", seconds)
        name = "" if member is None else member_name(member)
        return self._ask("delay_group", [self._now(), label("group", group), ms, name], same)

    def observe(
        self, target: Task[Any] | Caller | str | None, budgets: Sequence[Budget]
    ) -> Steps[list[Budget]]:
        """Store the budgets that a host has named, of a group, a member of its pool or a queue."""
        holder: list[str | int] = ["", ""]
        costs = {"": 1}
        if isinstance(target, Task):
            holder, costs = [target.id, target.token], {**(target.costs or {}), "": target.cost}
            scope = (target.group or "") + (f"\t{target.member}" if target.member else "")
        elif isinstance(target, Caller):
            holder, scope = [target.held, "1" if target.brief else ""], target.scope
        else:
            scope = "" if target is None else label("group", target)
        args: list[Any] = [self._now(), scope, *holder]
        for budget in budgets:
            args += [budget.unit, budget.left, milliseconds("seconds", budget.seconds)]
            args.append(costs.get(budget.unit, 0))
            args += ["" if value is None else value for value in (budget.full, budget.limit)]
            args.append(milliseconds("window", budget.window or 0))
        if budgets:
            yield self._command("observe", args, same)
        return list(budgets)

    # Permits: units of a limit without a task

    def acquire(self, caller: Caller, now: float) -> Steps[PermitAnswer]:
        """Take units of a limit, or learn when they will be free; `now` is the caller's clock."""
        request, left = caller.request, caller.remaining(now)
        args = [
            *(self._now(), caller.scope, request.cost, request.priority),
            "" if left is None else milliseconds("timeout", left),
            milliseconds("lease", request.lease),
            *(caller.id, caller.moment, caller.place, caller.held, caller.channel),
            request.member,
        ]
        return self._ask("acquire", args, read_permit)

    def extend_permit(self, held: HeldPermit, seconds: float) -> Steps[bool]:
        """Keep the lease of a permit alive; False if it is lost."""
        ms = milliseconds("seconds", seconds, least=0.001)
        args = [self._now(), held.scope, held.member, ms, "", "", "", ""]
        member = yield self._command("permit", args, same)
        held.member = member.decode() or held.member
        return bool(member)

    def end_permit(
        self, caller: Caller, member: str, told: str, gives_up: str = ""
    ) -> Steps[bytes]:
        """End the lease of a permit, and report what it has spent."""
        args = [self._now(), caller.scope, member, 0, told, caller.cost, caller.moment, gives_up]
        return self._ask("permit", args, same)

    def give_up(self, caller: Caller) -> Steps[bytes]:
        """End what a caller holds that goes no further: its booking, and its lease or place."""
        return self.end_permit(caller, caller.held or caller.place, "", "1")

    def met_limit(self, caller: Caller, limited: RateLimited, member: str, told: str) -> Steps[Any]:
        """Close a member, a group, or the queue, after an answer that was a limit."""
        ms = milliseconds("retry_after", limited.retry_after) * (-1 if limited.guessed else 1)
        args = [self._now(), caller.scope, limited.scope, ms, caller.moment, member, told]
        status = status_text(limited.status)
        return self._ask("met_limit", [*args, caller.cost, *([status] if status else [])], same)

    # Looking

    def limits(self) -> Steps[list[LimitState]]:
        fields = yield from self._names("limits")
        states = yield from self._states([None, EVERY_GROUP, *sorted(_groups(fields))])
        return [state for state in states if state.group != EVERY_GROUP or "groups" in fields]

    def group(self, name: str) -> Steps[LimitState]:
        states = yield from self._states([label("group", name)])
        return states[0]

    def groups(self) -> Steps[list[LimitState]]:
        named = _groups((yield from self._names("limits")))
        closed = filter(_is_group, (yield from self._names("closed")))
        states: list[LimitState] = yield from self._states(sorted(named.union(closed)))
        return states

    def _names(self, part: str) -> Steps[set[str]]:
        pages = yield from self._pages("scopes", lambda cursor: [part, cursor], read_texts)
        return set().union(*pages)

    def _states(self, groups: Sequence[str | None]) -> Steps[list[LimitState]]:
        running, _ = yield from self._running()
        states: list[LimitState] = []
        for start in range(0, len(groups), 100):
            states += (yield from self.view(groups[start : start + 100], running))[1]
        return states

    def view(
        self, groups: Sequence[str | None], running: Mapping[str, int] | None = None
    ) -> Steps[tuple[int, list[LimitState]]]:
        """Read the server's clock, ms, and limits; `running` counts leases, as `_running`."""
        args = [self._now(), *("" if group is None else group for group in groups)]
        now, *texts = yield self._command("view", args, read_texts)
        return int(now), read_limits(groups, running or {}, texts)

    def _running(self, enough: int = sys.maxsize) -> Steps[tuple[Counter[str], bool]]:
        """Count leases by group and member; return False as well if there were `enough` of them."""
        groups: dict[bytes, str] = {}  # by lease: two pages may name the same one
        cursor = ""
        while cursor != "0":
            if len(groups) >= enough:
                return Counter(groups.values()), False
            args = [self._now(), cursor or "0"]
            cursor, _, *page = yield self._command("held", args, same)
            cursor = cursor.decode()
            groups |= {id_: scope_of(record) for id_, _, record in in_rows(page, 3)}
        return Counter(groups.values()), True

    def names(self) -> Steps[list[str]]:
        """List about a thousand names of the queues of this server."""
        return self._ask("names", ["0"], lambda reply: read_texts(reply[1:]))


def read_permit(reply: list[Any]) -> PermitAnswer:
    if reply[0] == Code.NOT_FOUND:
        members = reply[1].decode().split("\t")[1:]
        return PermitAnswer(Code.NOT_FOUND, 0.0, members=tuple(members))
    code, microseconds, *texts = reply
    return PermitAnswer(code, microseconds / 1e6, *(text.decode() for text in texts))


def _groups(fields: Iterable[str]) -> set[str]:
    names = (field.removeprefix("group:") for field in fields if field.startswith("group:"))
    return set(filter(_is_group, names))


def _is_group(name: str) -> bool:
    """Return True for the name of a group, False for text that DPQ has not written."""
    try:
        return bool(label("group", name))
    except ConfigurationError:
        return False


def limit_field(group: str | None) -> str:
    """Return the field of `limits` that holds the rules of a scope; the queue's stand in conf."""
    if group is None:
        return "queue"
    return "groups" if group == EVERY_GROUP else f"group:{group}"


def read_limits(
    groups: Sequence[str | None], running: Mapping[str, int], texts: Sequence[str]
) -> list[LimitState]:
    """Read the objects that view returns; `running` counts the running tasks by group."""
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
        "reason": REASONS.get(view["why"]),
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
    names = running if group is None else {n for n in running if n.partition("\t")[0] == group}
    return sum(running[name] for name in names)
