"""What follows from the ledgers of a soak: what was lost, doubled, out of order, or over a limit.

A finding counts only when the ledgers prove it, whatever the timing. What asynchronous replication
loses at a failover is not hidden: it is counted by itself. Pure: no server, no clock.
"""

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from typing import Any, NamedTuple

from soak import plan
from soak.ledger import Books, End, Fault, Given, Held, Pushed

from dpq import RateLimit
from dpq.types import DeadTask
from dpq.worker.fetcher import MOST_AHEAD_SECONDS

OUTAGES = ("restart", "switch", "lossy", "stall", "cut")
"""Faults that reach every client."""

BUSY = "the machine was busy elsewhere"

ACKED = ("acked", "acked?")
SETTLED = (*ACKED, "gone", "buried")
"""What a delivery ends with that does not come back; in doubt whether by this call: `?`, `gone`."""

RETURNED = ("release", "set_visibility", "fail", "limited")
"""What a delivery ends with that comes back after the seconds that were said."""

DEFERRED = ("set_visibility", "limited")

SLACK_S = 0.002
"""Two clocks are compared, each cut to the millisecond."""


class Finding(NamedTuple):
    """Something that must not be."""

    what: str
    detail: str


@dataclass
class Verdict:
    """What the ledgers say.

    Attributes:
        findings: What must not be.
        checked: By kind of finding, how many things were looked at.
        redelivered: Why deliveries came again.
        counts: By queue and what, for the report.
        lossy: What failovers lost, of how much.
    """

    findings: list[Finding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    redelivered: Counter[str] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    lossy: Counter[str] = field(default_factory=Counter)

    def found(self, what: str, detail: object) -> None:
        self.findings.append(Finding(what, str(detail)))


class Delivery(NamedTuple):
    """A delivery, and how it ended, as far as is known.

    Attributes:
        moment: When it was granted, seconds of this machine's clock.
        end: None when no call that settles it has returned.
        life: After how many failovers that lose something.
        exposed: It was granted while the replica got nothing any more.
    """

    held: Held
    moment: float
    end: End | None
    life: int
    exposed: bool


class Moments:
    """When faults were, to ask whether one was between two moments."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._spans = sorted((fault.begin, fault.finish) for fault in faults)
        self._begins = [begin for begin, _ in self._spans]
        self._longest = max((finish - begin for begin, finish in self._spans), default=0.0)

    def meet(self, begin: float, finish: float) -> bool:
        """Whether a fault overlaps this time."""
        first = bisect_left(self._begins, begin - self._longest)
        last = bisect_right(self._begins, finish)
        return any(end >= begin for _, end in self._spans[first:last])


class Judge:
    """Looks at the ledgers of one run."""

    def __init__(
        self, books: Books, stored: dict[str, set[str]], dead: dict[str, dict[str, DeadTask[Any]]]
    ) -> None:
        self.verdict = Verdict()
        self._books, self._stored, self._dead = books, stored, dead
        by_kind: dict[str, list[Fault]] = defaultdict(list)
        of_actor: dict[tuple[str, str], list[Fault]] = defaultdict(list)
        for fault in books.faults:
            by_kind[fault.kind].append(fault)
            of_actor[fault.kind, fault.detail].append(fault)
        self._lossy = sorted(by_kind["lossy"], key=lambda fault: fault.begin)
        self._losses = Moments(self._lossy)
        self._moments = {kind: Moments(faults) for kind, faults in by_kind.items()}
        self._of_actor = {who: Moments(faults) for who, faults in of_actor.items()}
        self._ends: dict[tuple[Any, ...], list[tuple[str, End]]] = defaultdict(list)
        for actor, end in books.ends:
            self._ends[end.queue, end.id, end.token].append((actor, end))
        self._pushes: dict[tuple[str, str], Pushed] = {
            (push.queue, push.id): push for push in books.pushed
        }
        self._gives: dict[tuple[str, str, int], Given] = {}  # for the first time
        for given in books.gives:
            self._gives.setdefault((given.queue, given.id, given.token), given)
        self._over = {(mark.queue, mark.id, mark.token) for mark in books.over}
        self._refused = {(mark.queue, mark.id, mark.token) for mark in books.refused}
        self._asked: dict[tuple[str, str, int], float] = {}  # when for the first time
        for mark in books.asks:
            self._asked.setdefault((mark.queue, mark.id, mark.token), mark.at)
        self._deliveries = sorted(
            self._all_deliveries(), key=lambda each: (each.moment, each.held.token)
        )
        self._of_task: dict[tuple[str, str], list[Delivery]] = defaultdict(list)
        for each in self._deliveries:
            self._of_task[each.held.queue, each.held.id].append(each)
        for deliveries in self._of_task.values():
            deliveries.sort(key=lambda each: (each.life, each.held.token, each.moment))

    def judge(self) -> Verdict:
        """Look at everything."""
        self._count()
        self._nothing_lost()
        self._tokens()
        self._redeliveries()
        self._early()
        self._attempts()
        self._order()
        self._limits()
        self._closings()
        self._concurrency()
        return self.verdict

    def _all_deliveries(self) -> Iterator[Delivery]:
        """Each with its end: the first that its holder noted before it got the same token again."""
        of_holder: dict[tuple[str, str, str, int], list[Held]] = defaultdict(list)
        for held in self._books.held:
            of_holder[held.actor, held.queue, held.id, held.token].append(held)
        for (actor, *key), deliveries in of_holder.items():
            deliveries.sort(key=lambda held: held.at)
            ends = sorted((e for who, e in self._ends[tuple(key)] if who == actor), key=_back)
            for held, until in zip_longest(deliveries, [each.at for each in deliveries[1:]]):
                mine = (e for e in ends if held.at <= e.back < (until or math.inf))
                yield self._delivery(held, next(mine, None))

    def _delivery(self, held: Held, end: End | None) -> Delivery:
        moment = held.granted / 1000
        life = sum(fault.finish <= moment for fault in self._lossy)
        exposed = self._losses.meet(moment - SLACK_S, moment + SLACK_S)
        return Delivery(held, moment, end, life, exposed)

    def _risky(self, begin: float, finish: float) -> bool:
        """Whether what was answered in this time may have been lost by a failover."""
        return self._losses.meet(begin, finish)

    # Tasks

    def _count(self) -> None:
        for push in self._books.pushed:
            self.verdict.counts[push.queue]["pushed"] += 1
        for each in self._deliveries:
            counts = self.verdict.counts[each.held.queue]
            counts["delivered"] += 1
            counts[each.end.how if each.end else "unsettled"] += 1
        for queue, dead in self._dead.items():
            self.verdict.counts[queue]["dead"] = len(dead)

    def _nothing_lost(self) -> None:
        verdict = self.verdict
        for key, push in self._pushes.items():
            verdict.checked["lost"] += 1
            confirmed = push.producer.startswith(plan.CONFIRMED)
            exposed = self._risky(push.sent, push.back)
            verdict.lossy["acknowledged pushes exposed"] += exposed and not confirmed
            verdict.checked["lost though confirmed"] += exposed and confirmed
            if push.id in self._stored[push.queue] or push.id in self._dead[push.queue]:
                continue
            if self._may_be_finished(key):
                continue
            alone = all(each.exposed for each in self._of_task.get(key, []))
            if exposed and alone and not confirmed:
                verdict.lossy["of these lost"] += 1
            elif exposed and alone:
                verdict.found("lost though confirmed", push)
            else:
                verdict.found("lost", f"{push}, delivered {self._of_task.get(key)}")
        tried = {
            (each.queue, each.producer, each.number + i)
            for each in self._books.tries
            for i in range(each.count)
        }
        for each in self._books.held:
            if (each.queue, each.producer, each.number) not in tried:
                verdict.found("never pushed", each)

    def _may_be_finished(self, key: tuple[str, str]) -> bool:
        """Whether its last holder has acked it, or has asked for that and nobody knows the answer.

        Of those before, only when a failover may have lost the last delivery.
        """
        deliveries = self._of_task.get(key, [])
        for each in sorted(deliveries, key=lambda each: each.held.token, reverse=True):
            if each.end and each.end.how in ACKED:
                return True
            if self._unheard(each):
                return True
            if not each.exposed:
                break
        return False

    def _unheard(self, each: Delivery) -> bool:
        """Whether an ack of it may have finished the task, though nobody has heard so."""
        token = (each.held.queue, each.held.id, each.held.token)
        asked = self._asked.get(token)
        if asked is None or token in self._refused:
            return False
        if not each.end:
            return True
        return each.end.how == "gone" and bool(
            self._disturbed(each.held.actor, asked, each.end.back)
        )

    def _tokens(self) -> None:
        """A token names one delivery, and a task is finished once."""
        seen: dict[tuple[tuple[str, int], int], Delivery] = {}
        for each in self._deliveries:
            self.verdict.checked["token twice"] += 1
            key = (each.held.queue, each.held.token)
            other = seen.setdefault(key, each)
            if other is not each:
                if other.exposed:
                    self.verdict.lossy["tokens given twice"] += 1
                    seen[key] = each
                else:
                    self.verdict.found("token twice", (other, each))
        for key, deliveries in self._of_task.items():
            acked = [each for each in deliveries if each.end and each.end.how == "acked"]
            self.verdict.checked["finished twice"] += 1
            for before, after in pairwise(sorted(acked, key=lambda each: each.end.back)):
                first, second = before.end, after.end
                risky = self._risky(first.sent, first.back)
                if not (risky or self._pushed_again(before, after)):
                    self.verdict.found("finished twice", (key, first, second))

    def _redeliveries(self) -> None:
        for deliveries in self._of_task.values():
            for before, after in pairwise(deliveries):
                self.verdict.checked["redelivered without a reason"] += 1
                reason = self._why_again(before, after)
                if reason:
                    self.verdict.redelivered[reason] += 1
                elif _acked_late(before, after):
                    self.verdict.found("a late ack was taken", (before, after))
                elif before.end and before.end.how == "acked":
                    self.verdict.found("acknowledged, and delivered again", (before, after))
                else:
                    self.verdict.found("redelivered without a reason", (before, after))

    def _why_again(self, before: Delivery, after: Delivery) -> str:
        end = before.end
        if end and end.how not in SETTLED:
            return "given back by its holder"
        if before.exposed or (end and self._risky(end.sent, end.back)):
            return "lost by a failover: the ack, or the delivery"
        if self._pushed_again(before, after):
            return "pushed again, after a lost answer, when it was done already"
        if (
            end
            and end.how in ("acked", "buried")
            and not (
                after.exposed and _acked_late(before, after)  # the later delivery is what was lost
            )
        ):
            return ""
        return self._reason(before, after.moment + SLACK_S)

    def _pushed_again(self, before: Delivery, after: Delivery) -> bool:
        """Its push had not returned when it was done: sent again then, it adds a second copy.

        The copy is told by its own moment of the push. A push that no line tells of never returned:
        its producer was killed, or heard no answer.
        """
        if not before.end or before.held.enqueued == after.held.enqueued:
            return False
        push = self._pushes.get((before.held.queue, before.held.id))
        return push is None or before.end.sent <= push.back

    def _reason(self, before: Delivery, until: float) -> str:
        """Why a delivery may have ended without a word."""
        held = before.held
        begin = before.moment - SLACK_S
        if (held.queue, held.id, held.token) in self._over:
            return "its holder took too long"
        if why := self._disturbed(held.actor, begin, until):
            return why
        return ""

    def _disturbed(self, actor: str, begin: float, until: float) -> str:
        """Which fault this actor has felt in this time, in words; or nothing."""
        for kind, why in (
            ("kill", "its holder was killed"),
            ("pause", "its holder was stopped"),
            ("late", BUSY),
        ):
            moments = self._of_actor.get((kind, actor))
            if moments and moments.meet(begin, until):
                return why
        for kind in OUTAGES:
            if kind in self._moments and self._moments[kind].meet(begin, until):
                return "the server was away, or a connection cut"
        if "starved" in self._moments and self._moments["starved"].meet(begin, until):
            return BUSY
        return ""

    # Time

    def _followed(self) -> Iterator[tuple[Delivery | None, Delivery]]:
        """Each delivery, with the one before it when nothing of that was lost; None for the first.

        Of a delivery whose predecessor is not known, nothing is said here.
        """
        for deliveries in self._of_task.values():
            before: Delivery | None = None
            for each in deliveries:
                if each.held.deliveries == 1:
                    yield None, each
                elif (
                    before
                    and before.life == each.life
                    and not before.exposed
                    and not (before.end and self._risky(before.end.sent, before.end.back))
                    and each.held.deliveries > before.held.deliveries
                ):
                    yield before, each
                before = each

    def _early(self) -> None:
        """Nothing is delivered before it is due: by its delay, its return, or its lease."""
        for before, each in self._followed():
            due = self._due(before, each)
            if due is None:
                continue
            moment, why = due
            self.verdict.checked["too early"] += 1
            if each.moment + SLACK_S < moment:
                self.verdict.found("too early", (why, "due", moment, each, "after", before))

    def _due(self, before: Delivery | None, each: Delivery) -> tuple[float, str] | None:
        """Before which second of its queue's clock it cannot come, and why; None: not known."""
        held = each.held
        if before is None:
            push = self._pushes.get((held.queue, held.id))
            return push and (held.enqueued / 1000 + push.delay, "its delay")
        until, end = before.held.until / 1000, before.end
        if held.deliveries > before.held.deliveries + 1:
            return None  # a delivery between them has reached nobody
        if end and end.how in RETURNED:
            if not end.sent:
                return None
            return end.sent - SLACK_S + end.seconds, f"its {end.how}"
        if end:
            return None  # it should not have come at all
        given = self._gives.get((before.held.queue, before.held.id, before.held.token))
        if given:  # nobody knows whether that call was executed
            return min(until, given.at + given.seconds - SLACK_S), f"its {given.how}, or its lease"
        return until, "its lease"

    # Attempts

    def _attempts(self) -> None:
        """A failure or the end of a lease costs an attempt, a return none; deferrals count."""
        for before, each in self._followed():
            held = each.held
            if before is None:
                expected: tuple[Sequence[int], Sequence[int]] | None = ((1,), (0,))
            else:
                expected = self._counted(before, held.deliveries)
            if expected is None:
                continue
            self.verdict.checked["attempts counted wrong"] += 1
            attempts, deferrals = expected
            if held.attempt not in attempts:
                words = (held.attempt, "not in", attempts, each, "after", before)
                self.verdict.found("attempts counted wrong", words)
            if held.deferrals not in deferrals:
                words = (held.deferrals, "not in", deferrals, each, "after", before)
                self.verdict.found("deferrals counted wrong", words)

    def _counted(
        self, before: Delivery, deliveries: int
    ) -> tuple[Sequence[int], Sequence[int]] | None:
        """Which attempt the next delivery may be, and how many deferrals it may have.

        Deliveries in between have reached nobody: their leases ran out.
        """
        held, end = before.held, before.end
        given = self._gives.get((held.queue, held.id, held.token))
        deferred = {0}
        if end and end.how == "fail":
            spent = {1}
        elif end and end.how in RETURNED:
            spent = {0, 1} if self._may_have_run_out(before, end) else {0}
            deferred = {int(end.how in DEFERRED)}
        elif end:
            return None
        elif given:
            spent = {1} if given.how == "fail" else {0, 1}
            deferred = {0, int(given.how in DEFERRED)}
        else:
            spent = {1}
        unseen = deliveries - held.deliveries - 1
        return (
            [held.attempt + unseen + one for one in spent],
            [held.deferrals + one for one in deferred],
        )

    def _may_have_run_out(self, each: Delivery, end: End) -> bool:
        """Whether the end of its lease may have been counted before it was given back."""
        return end.back + SLACK_S >= min(
            each.held.until / 1000, each.moment + (each.held.until - each.held.granted) / 1000
        )

    # Order

    def _order(self) -> None:
        """In the strict queue, no task is taken while a better one was ready for sure.

        So it is in the queue with groups, but for tasks that a limit may hold back. All moments are
        the server's own: a task's first due time is when it was pushed and its delay, a delivery's
        is its lease's end less its length. Of a task that came back, the moment is known when its
        holder gave it back and was told so.
        """
        lives: dict[tuple[Any, int], list[Delivery]] = defaultdict(list)
        for each in self._deliveries:
            if each.held.queue in (plan.STRICT, plan.GROUPED) and not each.exposed:
                lives[each.held.queue, each.life].append(each)
        since = self._ready_since()
        for deliveries in lives.values():
            self._order_of_one_life(sorted(deliveries, key=lambda each: each.held.token), since)

    def _ready_since(self) -> dict[int, float]:
        """By delivery (its identity), from which ms on the task was ready for sure."""
        since: dict[int, float] = {}
        for (queue, id_), deliveries in self._of_task.items():
            limited = queue == plan.GROUPED and deliveries[0].held.group in (plan.LANE, plan.NARROW)
            if queue not in (plan.STRICT, plan.GROUPED) or limited:
                continue
            push = self._pushes.get((queue, id_))
            before: Delivery | None = None
            for each in deliveries:
                if each.held.deliveries == 1 and push:
                    since[id(each)] = each.held.enqueued + round(push.delay * 1000)
                elif (
                    before
                    and before.end
                    and before.end.how in ("release", "set_visibility")
                    and before.life == each.life
                    and not before.exposed
                    and not self._risky(before.end.sent, before.end.back)
                    and each.held.deliveries == before.held.deliveries + 1
                ):
                    since[id(each)] = (before.end.back + before.end.seconds + SLACK_S) * 1000
                before = each
        return since

    def _order_of_one_life(self, deliveries: Sequence[Delivery], since: dict[int, float]) -> None:
        coming = sorted(
            (since[id(each)], place) for place, each in enumerate(deliveries) if id(each) in since
        )
        ready: list[tuple[Any, int]] = []
        arrived = 0
        for place, each in enumerate(deliveries):
            while arrived < len(coming) and coming[arrived][0] < each.held.granted:
                other = deliveries[coming[arrived][1]].held
                heapq.heappush(ready, (_rank(other), coming[arrived][1]))
                arrived += 1
            while ready and ready[0][1] <= place:
                heapq.heappop(ready)
            self.verdict.checked["out of order"] += bool(ready)
            if ready and ready[0][0] < _rank(each.held):
                self.verdict.found("out of order", (each, "before", deliveries[ready[0][1]]))

    # Limits

    def _limits(self) -> None:
        """Never more than ceil(rate) + burst - 1 units in a window."""
        limited = [each for each in self._deliveries if each.held.queue == plan.LIMITED]
        scopes: list[tuple[str, Sequence[RateLimit], list[tuple[float, int, bool]]]] = [
            (plan.scope_of(plan.LIMITED), [plan.QUEUE_LIMIT], [_grant(each) for each in limited])
        ]
        laned = [each for each in self._deliveries if each.held.queue == plan.GROUPED]
        groups = [(limited, group, limits) for group, limits in plan.GROUP_LIMITS.items()]
        groups.append((laned, plan.LANE, [plan.LANE_LIMIT]))
        for deliveries, group, limits in groups:
            grants = [_grant(each) for each in deliveries if each.held.group == group]
            scopes.append((plan.scope_of(plan.LIMITED, group), limits, grants))
        for scope, limits, grants in scopes:
            for limit in limits:
                known = [(ms, units) for ms, units, exposed in grants if not exposed]
                most = math.ceil(limit.rate) + limit.burst - 1
                for units, begin in _windows(known, limit):
                    if units > most:
                        self.verdict.found(
                            "over the limit", f"{scope}, {limit}: {units} from {begin} on"
                        )
                everything = [(ms, units) for ms, units, _ in grants]
                over = sum(units > most for units, _ in _windows(everything, limit))
                self.verdict.lossy["windows over a limit, with lost grants"] += over
                self.verdict.checked["over the limit"] += len(known)

    def _closings(self) -> None:
        """Nothing of a group (or the queue) is handed out from a 429's answer to its end."""
        grants: dict[str, list[float]] = defaultdict(list)
        for each in self._deliveries:
            if each.held.queue == plan.LIMITED and not each.exposed:
                grants[each.held.group].append(each.moment)
                grants[""].append(each.moment)
        for each in self._deliveries:
            end = each.end
            if not end or end.how != "limited" or end.scope == "task":
                continue
            if not end.sent or self._risky(end.sent, end.back + end.seconds):
                continue
            whole = end.scope == "queue" or each.held.group == "-"
            moments = grants["" if whole else each.held.group]
            first = bisect_right(moments, end.back + SLACK_S)
            last = bisect_left(moments, end.sent + end.seconds - SLACK_S)
            self.verdict.checked["handed out though closed"] += 1
            if first < last:
                self.verdict.found("handed out though closed", (end, moments[first:last]))

    def _concurrency(self) -> None:
        """No more leases of a group at once than it may have, as far as they are sure."""
        self._concurrency_of(plan.LIMITED, plan.CREW, plan.CREW_SIZE)
        self._concurrency_of(plan.GROUPED, plan.NARROW, plan.NARROW_SIZE)

    def _concurrency_of(self, queue: str, group: str, size: int) -> None:
        events: list[tuple[float, int]] = []
        for each in self._deliveries:
            held = each.held
            if held.queue == queue and held.group == group and not each.exposed:
                asked = self._asked.get((held.queue, held.id, held.token), math.inf)
                sure = each.end.sent if each.end else asked  # which may have been taken
                until = min(held.until / 1000, sure) - SLACK_S
                if until > each.moment + SLACK_S:
                    events += [(each.moment + SLACK_S, 1), (until, -1)]
        running = 0
        for moment, change in sorted(events):
            running += change
            self.verdict.checked["over the concurrency"] += change > 0
            if running > size:
                self.verdict.found("over the concurrency", f"{running} leases at {moment}")


def _back(end: End) -> float:
    return end.back


def _acked_late(before: Delivery, after: Delivery) -> bool:
    """Whether a delivery was acknowledged though there was another one by then."""
    end = before.end
    return end is not None and end.how == "acked" and end.sent > after.moment + SLACK_S


def _rank(held: Held) -> tuple[Any, ...]:
    """What comes first: the higher priority, then who was pushed in an earlier millisecond."""
    return (-held.priority, held.enqueued)


def _grant(each: Delivery) -> tuple[float, int, bool]:
    return each.held.granted, each.held.cost, each.exposed


def _windows(grants: Iterable[tuple[float, int]], limit: RateLimit) -> Iterator[tuple[int, float]]:
    """Of each window that ends with a grant: its units, and its begin.

    Moments are cut to the millisecond, and a worker may get a task ahead of its moment: shorter by
    that, a window is surely inside of one of `per`.
    """
    ordered = sorted(grants)
    first = units = 0
    for ms, cost in ordered:
        units += cost
        while ms - ordered[first][0] > (limit.per - MOST_AHEAD_SECONDS) * 1000 - 1:
            units -= ordered[first][1]
            first += 1
        yield units, ordered[first][0]
