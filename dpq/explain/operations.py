"""The operations that answer why tasks wait, and how long: those of a queue, and these. No I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from dpq.explain.drain import DrainLook, Scope, drain_of, nothing_due, read_drain
from dpq.explain.incidents import UNATTENDED
from dpq.explain.pace import CHANGED_SECONDS, COVERED_SECONDS, Pace, Point, pace_of
from dpq.explain.survey import Explained, Overview, Survey, read_survey
from dpq.explain.verdict import Verdict, VerdictState, verdict_of
from dpq.explain.verdict_facts import ASKED_SECONDS, Facts
from dpq.explain.waiting import Waiting, explain, read_waiting
from dpq.limits.limits import EVERY_GROUP
from dpq.limits.rules import LimitRules
from dpq.model.errors import TaskNotFoundError
from dpq.model.history import FAILED_KINDS, Event
from dpq.model.task import P, TaskState
from dpq.script.command import Steps, all_of, task_id, together
from dpq.script.remembered import read_slots
from dpq.verbs.base import Description
from dpq.verbs.browse import MINUTE
from dpq.verbs.limits import limit_field
from dpq.verbs.queue import QueueOperations

FAILURES = 200
"""Failed attempts, of which the commonest error and the culprit are told."""

NEAR = 3
"""Queues with nearly the same name, and groups without a limit, that are looked at."""

NAMED, LARGEST, LAST_TO_OPEN = 50, 50, 20
"""Numbers of groups from which a drain time is computed: groups with a limit of their own, the
largest groups, and the closed groups that open last."""


class Operations(QueueOperations[P]):
    """Every operation on a queue, with the questions about it."""

    def recent(self) -> Steps[list[Point]]:
        """Read the points of the last minutes; `at` is the server's time."""
        most = int(COVERED_SECONDS // MINUTE) + 1
        args = [self._now(), "m", most]
        (slots,) = yield from together([self._ask("history", args, partial(read_slots, MINUTE))])
        if isinstance(slots, Exception):
            return []
        return [Point.of(slot.at.timestamp(), slot) for slot in slots]

    def explained(self, id_: str) -> Steps[Explained]:
        """Say why a task is not running, and until when."""
        args: list[int | str] = [self._now(), task_id(id_)]
        found: Waiting | None = yield self._command("why", args, read_waiting)
        if found is None:
            raise TaskNotFoundError(id_, self.queue_name, "explain")
        scopes: list[str | None] = [None, found.group] if found.group else [None]
        now, limits = yield from self.view(scopes)
        unattended = ""
        if found.state in {TaskState.READY, TaskState.WAITING}:
            verdict = yield from self.verdict()
            stuck = (*UNATTENDED, VerdictState.HANDLERS_BUSY)
            unattended = verdict.because * (verdict.state in stuck)
        sentence, until = explain(found, limits, now, unattended)
        return Explained(sentence, until, found.about_ms or None, now)

    def why(self, id_: str | None) -> Steps[str | Verdict]:
        """Say why a task is not running; without an id, make the verdict on the queue."""
        if id_ is None:
            return (yield from self.verdict())
        return (yield from self.explained(id_)).sentence

    def survey(self) -> Steps[Survey]:
        """Read what keeps tasks from running."""
        return self.report("survey", [], read_survey)

    def overview(self) -> Steps[Overview]:
        """Read all that pages show of a queue, in one round trip for each of its pages."""
        read: list[Steps[Any]] = [self.stats(), self.survey(), self.workers()]
        return Overview(*(yield from all_of(read)))

    def verdict(self) -> Steps[Verdict]:
        """Say why the queue does not move, who holds it, and what to do."""
        return (yield from self.judged())[1]

    def judged(self, before: Overview | None = None) -> Steps[tuple[Overview, Verdict]]:
        """Read what pages show, and judge it; with an earlier look, by the pace since then."""
        read: list[Steps[Any]] = [self.overview(), self.recent()]
        seen, points = yield from all_of(read)
        if before:
            points = [before.point]
        pace = pace_of([*points, seen.point], 0.0 if before else CHANGED_SECONDS)
        return seen, (yield from self.judge(seen, pace))

    def judge(self, seen: Overview, pace: Pace, look: DrainLook | None = None) -> Steps[Verdict]:
        """Make the verdict on what was seen; read more where the verdict depends on it."""
        if seen.bound_by_limits:
            look = look or (yield from self.drain_look())
        else:
            look = DrainLook(seen.survey.now_ms, seen.paused_until, seen.stats.due)
        drain = drain_of(look, pace) if seen.stats.due else nothing_due(seen)
        near, name = _near_group(look.scopes), self.description.name
        facts = Facts(name, *seen, pace, drain, near=near, exists=seen.exists)
        verdict = verdict_of(facts)
        if verdict.state is VerdictState.FAILING:
            failures = yield from self.failures(seen.survey.now_ms / 1000)
            return verdict_of(facts._replace(failures=failures))
        never_asked = verdict.state is VerdictState.NO_CONSUMER and seen.survey.asked_ms is None
        if never_asked or verdict.state is VerdictState.UNKNOWN_QUEUE:
            (names,) = yield from together([self.names()])
            if not isinstance(names, Exception):
                elsewhere = yield from self.asked_elsewhere(names, seen.survey)
                return verdict_of(facts._replace(names=names, elsewhere=elsewhere))
        return verdict

    def asked_elsewhere(self, names: Sequence[str], survey: Survey) -> Steps[str]:
        """Name a queue with nearly this name that consumers ask, or databases that have keys."""
        near = [name for name in names if one_apart(name, self.description.name)]
        steps = [type(self)(Description(name)).survey() for name in near[:NEAR]]
        for name, found in zip(near, (yield from together(steps)), strict=False):
            late = isinstance(found, Exception) or not found.asked_ms
            if not late and found.now_ms - found.asked_ms <= ASKED_SECONDS * 1000:
                return f"consumers ask queue {name!r}, whose name is one letter away"
        databases = [name[2:] for name in survey.server if re.fullmatch(r"db\d+", name)]
        if len(databases) > 1:
            return f"the server has keys in the databases {', '.join(databases)}: the URL names one"
        return ""

    def failures(self, now: float) -> Steps[list[Event]]:
        """Read the newest attempts of the last minutes that have failed; [] if it is forbidden."""
        (found,) = yield from together([self.events("", FAILURES, kinds=FAILED_KINDS)])
        if isinstance(found, Exception):
            return []
        return [event for event in found if event.at.timestamp() >= now - COVERED_SECONDS]

    def drain_look(self, *supposed: str) -> Steps[DrainLook]:
        """Read what the drain time depends on; `supposed`: a field of limits, and its rules."""
        args: list[int | str] = [NAMED, LARGEST, LAST_TO_OPEN, *supposed]
        return self.report("drain", args, read_drain)

    def limit_on_paper(
        self, group: str | None, rules: LimitRules | None
    ) -> Steps[tuple[str, str, DrainLook, DrainLook]]:
        """Read the rules that stand, those of every group, and the drain with both sides."""
        _, (own, every) = yield from self.view([group, EVERY_GROUP])
        field = limit_field(group)
        now = yield from self.drain_look(field)
        text = rules.text(int(now.now)) if rules else ""
        return own.rules, every.rules, now, (yield from self.drain_look(field, text))


def one_apart(one: str, other: str) -> bool:
    """Return True if two names differ by one letter or number."""
    short, long = sorted((one, other), key=len)
    n = next((n for n, each in enumerate(short) if each != long[n]), len(short))
    return short != long and long[n + 1 :] in (short[n:], short[n + 1 :])


def _near_group(scopes: Sequence[Scope]) -> str:
    """Name a group with tasks and no limit beside one with a limit and no tasks, or return ""."""
    named = [scope for scope in scopes if scope.group not in ("", EVERY_GROUP)]
    idle = [scope.group for scope in named if scope.rated and not scope.waiting]
    free_ones = [scope.group for scope in named if scope.waiting and not scope.rules]
    for free in free_ones[:NEAR]:
        if near := next((group for group in idle if one_apart(group, free)), None):
            return f"group {free!r} has no limit; group {near!r}, one letter away, has one, unused"
    return ""
