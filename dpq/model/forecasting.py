"""The run over virtual time that makes a forecast. No I/O, no clock.

`Forecasting` plays what pop does, over virtual time, on what the script `forecast` has read. It
assumes that a consumer waits at every moment, that nothing is pushed, and that no task meets a 429.
It knows tasks, their order and their groups; what a limit allows, it asks `gates`. The same stands
in `lua/pop/take.lua`, `lua/pop/judge_groups.lua`, `lua/pop/turns.lua`, `lua/lib/upkeep.lua`,
`lua/lib/groups/groups.lua`, `lua/lib/groups/shares.lua` and `lua/lib/groups/open_or_close.lua`.
`docs/design.md`, "Forecast", says what is exact.
"""

import heapq
import math
from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

from dpq.model.forecast import Candidate, Forecast, ForecastReason, Running, View
from dpq.model.gates import ONE_REQUEST, Gate
from dpq.model.limits import Reason
from dpq.model.moments import moment_of

MAX_MOMENTS = 20_000
"""Moments of virtual time at most; a bound for what nobody foresaw."""


ANY_TASK = Candidate("", "", "", -math.inf, 0, "", None, ONE_REQUEST, 0, None, None)
"""Any task of one request, before which no other comes."""


class Start(NamedTuple):
    """A start of the forecast, sorted as the tasks of several partitions start."""

    at: float
    score: float
    shown: str
    task: Forecast


class Foreseen(NamedTuple):
    """The starts of one partition; from `cut_at` on (ms) there may be more."""

    starts: list[Start]
    cut_at: float


class _Obstacle(NamedTuple):
    """The thing that held a task back, and until when."""

    until: float
    reason: ForecastReason
    because: str


_Place = tuple[float, str, Candidate]


class _Group:
    """A group in virtual time: its head, and its waiting tasks, the best first."""

    def __init__(self, name: str, gate: Gate) -> None:
        self.name, self.gate = name, gate
        self.head: Candidate | None = None
        self.waiting: list[_Place] = []
        self.last_read: tuple[float, str] | None = None  # if there are more
        self.obstacle: _Obstacle | None = None
        self.held = 0  # tasks that wait for their retry, and hold the group in order
        self.share = 0.0  # what it has spent, if groups take turns by that

    def add(self, task: Candidate) -> None:
        """Put a task behind the head."""
        insort(self.waiting, (task.score, task.member, task), key=lambda place: place[:2])

    @property
    def best(self) -> Candidate | None:
        """The best waiting task."""
        return self.waiting[0][2] if self.waiting else None

    @property
    def is_cut(self) -> bool:
        """True if a task that was not read may come next."""
        if self.last_read is None:
            return False
        return not self.waiting or self.waiting[0][:2] > self.last_read


class Forecasting:
    """One run over virtual time, on what was read. It uses up what it is given."""

    def __init__(self, view: View, *, grain: float, run_ms: float | None, lease_ms: float) -> None:
        """Begin at the moment of the look.

        Args:
            view: What was read.
            grain: The ms to which moments are rounded up: the step of the server's clock.
            run_ms: How long each task is assumed to run; None: until its lease ends.
            lease_ms: The lease of a task that names none of its own.
        """
        self._view, self._grain = view, grain
        self._run_ms, self._lease_ms = run_ms, lease_ms
        self._queue = view.gates.get("") or Gate()
        self._groups: dict[str, _Group] = {}
        self._closed = {name: at for name, at in view.closed.items() if name}
        self._ready: list[_Place] = []
        self._delayed = sorted(view.delayed, key=lambda task: (task.due, task.id))
        self._next_delayed = 0
        self._leases = list(view.running)
        heapq.heapify(self._leases)
        self._turns = view.turns or 0
        self._instant = view.now
        self._cut_at = math.inf
        self._blocked: _Obstacle | None = None  # by the queue's own limit
        self._opened: _Obstacle | None = None  # the last one that is over
        self._starts: list[Start] = []
        for name, tasks in view.waiting.items():
            group = self._group(name)
            for task in tasks:
                group.add(task)
        for task in view.ready:
            self._rank(task)
            if task.group:
                self._group(task.group).head = task
                self._group(task.group).share = _share_in(task.shown) or 0.0
        for task in self._delayed:
            if task.holds:
                self._group(task.group).held += 1
        for name in view.short:
            group = self._group(name)
            if group.waiting:
                group.last_read = group.waiting[-1][:2]
            elif group.head:
                group.last_read = group.head.score, group.head.member

    def run(self, count: int) -> Foreseen:
        """Foresee so many starts, or as many as there will be."""
        view, at = self._view, self._view.now
        if view.paused_until > at:
            at = self._ceil(view.paused_until)
            self._opened = _Obstacle(at, "paused", "the queue is paused")
        for name, until in self._closed.items():  # a full gate has no moment to open
            group = self._group(name)
            self._closed[name] = math.inf if self._looked(group.gate).is_full else until
            self._explain(group, until)
        moments = 0
        while at < math.inf and len(self._starts) < count and moments < MAX_MOMENTS:
            self._instant = at
            self._upkeep()
            self._take(count)
            at = self._next_moment()
            moments += 1
        if moments == MAX_MOMENTS:
            self._cut(self._instant)
        bounds = (view.last_due, view.last_opening, self._cut_at)
        return Foreseen(self._starts, min(bounds))

    # Limits

    def _opens_at(self, gate: Gate, task: Candidate) -> float:
        """Compute when a gate lets a task run; infinite if a lease must end before."""
        if self._looked(gate).is_full:
            return math.inf
        aging = self._view.aging
        return gate.opens_at(task.units, -task.score, self._instant, aging, task.pinned)

    def _reason(self, gate: Gate, task: Candidate) -> tuple[Reason, str]:
        """Say what keeps a task from running, as a reason and in words."""
        return self._looked(gate).reason(task.units, -task.score, self._instant, self._view.aging)

    # Time

    def _looked(self, gate: Gate) -> Gate:
        gate.look(self._instant)
        return gate

    def _ceil(self, moment: float) -> float:
        if not math.isfinite(moment):
            return math.inf
        if self._grain >= 1:
            return math.ceil(moment / self._grain) * self._grain
        steps = round(1 / self._grain)  # exact, as a fraction is not
        return math.ceil(moment * steps) / steps

    def _next_moment(self) -> float:
        found = [min(self._closed.values(), default=math.inf)]
        if self._next_delayed < len(self._delayed):
            found.append(self._delayed[self._next_delayed].due)
        if self._leases:
            found.append(self._leases[0].end)
        if self._blocked:
            found.append(self._blocked.until)
            if self._ready[0][2].expires:  # a pop buries it then, and goes on
                found.append(self._ready[0][2].expires)
        return self._ceil(max(min(found), self._instant + self._grain))

    def _cut(self, at: float) -> None:
        self._cut_at = min(self._cut_at, at)

    # Groups, as groups.lua and open_or_close.lua

    def _group(self, name: str) -> _Group:
        group = self._groups.get(name)
        if group is None:
            gate = self._view.gates.get(name) or Gate()
            group = self._groups[name] = _Group(name, gate)
        return group

    def _rank(self, task: Candidate) -> None:
        insort(self._ready, (task.score, task.shown, task), key=lambda place: place[:2])

    def _lead(self, group: _Group, task: Candidate, turn: str = "") -> None:
        """Make a task the head of its group; where groups take turns, it takes one."""
        task.shown = task.member
        if self._view.turns is not None:
            if not turn:
                if self._view.timed:
                    self._turns = max(self._turns, math.floor(self._instant * 100))
                self._turns += 1
                turn = f"{self._turns:015d}"
        elif self._view.unit is not None and not turn:
            heads = (_share_in(shown) for score, shown, _ in self._ready if score == task.score)
            least = min((share for share in heads if share is not None), default=0.0)
            group.share = max(group.share, least)  # what an idle group did not spend is no credit
            turn = _digits_of(group.share)
        if turn:
            cut = _cut_of(task.member)
            task.shown = task.member[:cut] + turn + task.member[cut + 15 :]
        group.head = task
        self._rank(task)

    def _succeed(self, group: _Group, turn: str = "") -> bool:
        """Make the best waiting task the head; False if none waits."""
        if group.is_cut:
            self._cut(self._instant)
        if group.waiting:
            self._lead(group, group.waiting.pop(0)[2], turn)
        return group.head is not None

    def _shut(self, group: _Group) -> str:
        """Put the head back into waiting; return its turn."""
        task = group.head
        if task is None:
            return ""
        group.head = None
        self._ready = [place for place in self._ready if place[2] is not task]
        group.add(task)
        cut = _cut_of(task.member)
        return task.shown[cut : cut + 15] if task.shown != task.member else ""

    def _close(self, group: _Group, until: float, task: Candidate | None = None) -> None:
        self._closed[group.name] = until
        self._explain(group, until, task)

    def _explain(self, group: _Group, until: float, task: Candidate | None = None) -> None:
        reason, words = self._reason(group.gate, task or group.best or ANY_TASK)
        if group.held and reason == "concurrency":
            reason, words = "in order", "its first task waits for its retry"
        group.obstacle = _Obstacle(until, reason, f"group {group.name!r}: {words}")

    def _next_at(self, group: _Group, *, headed: bool = False) -> float:
        """Compute when the best task of a group may run."""
        task = group.best if self._view.heavy and not headed else None
        return self._opens_at(group.gate, task or ANY_TASK)

    def _open_or_close(self, group: _Group) -> None:
        at = self._next_at(group, headed=group.head is not None)
        if at > self._instant and group.head:
            self._shut(group)
            at = self._next_at(group)  # its best task may need less than one unit, or more
            self._closed[group.name] = at
        if at > self._instant:
            self._close(group, at)
        elif group.name in self._closed:
            del self._closed[group.name]
            self._succeed(group)

    def _crown(self, group: _Group, turn: str = "") -> None:
        """Give a group its next head, or close it: as pop does when it has taken the head."""
        at = self._next_at(group)
        if at > self._instant:
            self._close(group, at)
            group.gate.turn = 0.0
        elif not self._succeed(group, turn):
            group.gate.turn = 0.0

    # Turns by weight, as turns.lua

    def _passes(self, group: _Group, task: Candidate) -> bool:
        """Let the turn of a light group pass, until it has saved up a whole task."""
        gate = group.gate
        turns = self._view.turns is not None and task.shown != task.member
        if gate.weight == 1 or not turns or gate.turn >= 1:
            return False
        gate.turn = _millionths(gate.turn + gate.weight)
        if gate.turn >= 1 or len(self._ready) < 2 or self._ready[1][0] != task.score:
            return False
        self._ready.pop(0)
        self._lead(group, task)
        return True

    def _goes_on(self, group: _Group, task: Candidate) -> str:
        """Take a task from a turn; return the turn if the group goes on in it."""
        gate = group.gate
        if gate.turn <= 0:
            return ""
        gate.turn = max(_millionths(gate.turn - 1), 0.0)
        cut = _cut_of(task.shown)
        return task.shown[cut : cut + 15] if gate.turn >= 1 else ""

    def _enter(self, task: Candidate) -> _Group | None:
        """Make a task ready; return its group if it must be opened or closed after that."""
        if not task.group:
            self._rank(task)
            return None
        group, turn = self._group(task.group), ""
        best = group.head
        if best and (task.score, task.member) < (best.score, best.member):
            turn = self._shut(group)
        elif best or group.name in self._closed:
            group.add(task)
            return group if not best and self._view.heavy else None
        self._lead(group, task, turn)
        return None

    # What happens at a moment

    def _upkeep(self) -> None:
        """End leases, and move what is due, as upkeep.lua."""
        now, stirred = math.floor(self._instant), dict[str, _Group]()
        self._end_leases()
        if self._instant >= self._view.last_end and (self._queue.is_full or self._is_any_full()):
            self._cut(self._instant)
        lapsed, self._view.lapsed = self._view.lapsed, []
        for lease in lapsed:
            self._queue.ended(lease.id, lapsed=True)
            if lease.group:
                group = stirred[lease.group] = self._group(lease.group)
                group.gate.ended(lease.id, lease.member, lapsed=True)
        entering, self._view.returned = self._view.returned, []
        while self._next_delayed < len(self._delayed):
            task = self._delayed[self._next_delayed]
            if task.due > now:
                break
            self._next_delayed += 1
            if task.holds:
                group = stirred[task.group] = self._group(task.group)
                group.held -= 1
                group.gate.ended(task.id)
            if not 0 < task.expires <= now:
                entering.append(task)
        for task in entering:
            if met := self._enter(task):
                stirred[met.name] = met
        open_ = [(at, name) for name, at in self._closed.items() if at <= self._instant]
        due = sorted((at, name.encode(), name) for at, name in open_)
        for _, _, name in due:
            del self._closed[name]
            self._succeed(self._group(name))
        for group in stirred.values():
            self._open_or_close(group)

    def _end_leases(self) -> None:
        while self._leases and self._leases[0].end <= self._instant:
            self._end(heapq.heappop(self._leases))

    def _is_any_full(self) -> bool:
        return math.inf in self._closed.values()

    def _end(self, lease: Running) -> None:
        """End a lease, as an ack at that moment would."""
        self._queue.assumed = self._queue.assumed or self._queue.is_full
        self._queue.ended(lease.id)
        if lease.group:
            group = self._group(lease.group)
            gate = group.gate
            tracked = gate.counts(lease.id, lease.member)
            member = gate.members.get(lease.member, gate)
            gate.assumed = gate.assumed or gate.is_full or member.is_full
            gate.ended(lease.id, lease.member)
            if tracked:
                self._open_or_close(group)

    def _take(self, count: int) -> None:
        """Start what may start now, the best first, as take.lua and judge_groups.lua."""
        view, now = self._view, math.floor(self._instant)
        before, self._blocked = self._blocked, None
        while self._ready and len(self._starts) < count:
            score, shown, task = self._ready[0]
            if view.last_ready and (score, shown) > view.last_ready:
                self._cut(self._instant)
            group = self._group(task.group) if task.group else None
            if 0 < task.expires <= now:
                self._ready.pop(0)
                if group:
                    group.head = None
                    self._crown(group)
                continue
            if group:
                at = self._opens_at(group.gate, task)
                if at > self._instant:
                    self._shut(group)
                    self._close(group, at, task)
                    group.gate.turn = 0.0
                    continue
                if self._passes(group, task):
                    continue
            at = self._opens_at(self._queue, task)
            if at > self._instant:
                reason, words = self._reason(self._queue, task)
                self._blocked = _Obstacle(at, reason, f"the queue: {words}")
                return
            if before:
                self._opened, before = before._replace(until=self._instant), None
            self._ready.pop(0)
            self._start(task, group)
            self._end_leases()  # of a run of 0 s

    def _start(self, task: Candidate, group: _Group | None) -> None:
        run = self._run_ms
        if run is None:
            run = self._lease_ms if task.lease is None else task.lease
        gates = [self._queue, *([group.gate] if group else [])]
        view = self._view
        exact = view.unit is None and self._is_exact() and not any(gate.assumed for gate in gates)
        held = self._obstacle(task, group)
        lease = Running(self._instant + run, task.id, task.group)
        for gate in gates:
            member = gate.charge(
                *(task.units, self._instant, task.id, -task.score, self._view.aging, task.pinned)
            )
            gate.assumed = not exact or gate.assumed
            lease = lease._replace(member=member)
        if any(gate.counts(task.id, lease.member) for gate in gates):
            heapq.heappush(self._leases, lease)
        turn = self._goes_on(group, task) if group else ""
        if group and view.unit is not None:
            group.share += max(1, task.units.get(view.unit, 1)) / group.gate.weight
            turn = _digits_of(group.share)
        seconds = round(max(0.0, self._instant - self._view.now) / 1000, 6)
        forecast = Forecast(
            id=task.id,
            group=task.group or None,
            key=task.key,
            priority=task.priority,
            cost=task.units[""],
            costs={unit: units for unit, units in task.units.items() if unit} or None,
            starts_at=moment_of(self._instant),
            in_seconds=seconds,
            reason=held.reason if held else None,
            because=held.because if held else "now",
            exact=exact,
            payload=task.payload,
        )
        self._starts.append(Start(self._instant, task.score, task.shown, forecast))
        if group:
            group.head = None
            self._crown(group, turn)

    def _is_exact(self) -> bool:
        view = self._view
        return self._instant < min(view.last_due, view.last_opening, self._cut_at)

    def _obstacle(self, task: Candidate, group: _Group | None) -> _Obstacle | None:
        """Find what held a task back last; None if it may start at the moment of the look."""
        if self._instant <= self._view.now:
            return None
        found = [_Obstacle(task.due, "delayed", "its delay")] if task.due > self._view.now else []
        if group and group.obstacle:
            found.append(group.obstacle._replace(until=min(group.obstacle.until, self._instant)))
        if self._opened:
            found.append(self._opened)
        return max(found, key=lambda obstacle: obstacle.until, default=None)


def merged(parts: Sequence[Foreseen], count: int) -> list[Forecast]:
    """Join the forecasts of all partitions: what one may lack makes later starts inexact."""
    starts = [(start, index) for index, part in enumerate(parts) for start in part.starts]
    starts.sort(key=lambda pair: (*pair[0][:3], pair[1]))
    tasks: list[Forecast] = []
    for start, index in starts[:count]:
        others = (part.cut_at for other, part in enumerate(parts) if other != index)
        lacks = start.at >= min(others, default=math.inf)
        tasks.append(start.task.model_copy(update={"exact": False}) if lacks else start.task)
    return tasks


def _millionths(turns: float) -> float:
    return math.floor(turns * 1_000_000 + 0.5) / 1_000_000


def _digits_of(share: float) -> str:
    """Write what a group has spent as its place, as lua/lib/groups/shares.lua does."""
    thousandths, exponent = share * 1000, 0
    while thousandths >= 999_999_999_999:
        thousandths, exponent = thousandths / 10, exponent + 1
    return f"9{exponent:02d}{math.floor(thousandths + 0.5):012d}"


def _share_in(member: str) -> float | None:
    """Read what a group has spent from its head's member; None if it says nothing of that."""
    cut = _cut_of(member)
    digits = member[cut : cut + 15]
    if digits[:1] != "9" or not digits.isdecimal():
        return None
    return float(digits[3:]) * 10.0 ** int(digits[1:3]) / 1000


def _cut_of(member: str) -> int:
    """Return the characters before the sequence in a member."""
    return 1 if member[:1] == "1" else 4
