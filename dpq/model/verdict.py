"""The verdict on a queue: why it does not move, who is at fault, and what to do. No I/O, no clock.

`verdict_of` is the only place that judges a queue. `DPQ.why()` returns its verdict; the command
line, the dashboard, `dpq top`, the API and the metrics show the same words.

To add a state: name it in `VerdictState`, write its rule, and put the rule into `RULES`. The first
rule that finds something decides. docs/operations.md has a row for each state.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import StrEnum
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from dpq.model.limit_states import LimitState
from dpq.model.pace import Pace
from dpq.model.pools import UNTIL_OPENED_MS
from dpq.model.quota import quota_text
from dpq.model.rates import per_text, span
from dpq.model.reports import QueueStats, WorkerInfo
from dpq.model.survey import Held, News, Overview, Survey

__all__ = ["Verdict", "VerdictState"]

ASKED_SECONDS = 60.0
"""Seconds without a question after which a consumer that is no worker counts as gone. A consumer
that waits asks every 10 s."""

LATE_SECONDS = 20.0
"""Seconds without a heartbeat after which a worker is late: two are missing."""

HANGS_SECONDS, HANGS_TIMES, HANGS_UNKNOWN = 30.0, 5.0, 300.0
"""A run hangs after so many seconds, and after so many times of what 99 of 100 runs take; after the
last number of seconds if no run has ended yet."""

FLOWS_SECONDS = 60.0
"""Seconds: a limit that opens sooner paces its tasks, and holds none."""

LONG_SECONDS = 86_400.0
"""Seconds until a quota is whole again from which on a person has to decide."""

NAMES_SHOWN = 5
"""Names of queues in a sentence without a near name: enough to see which server answers."""


class VerdictState(StrEnum):
    """The states of a queue, in the order in which they are looked for: the first one decides."""

    SERVER_AWAY = "server away"
    SETTINGS_LOST = "settings lost"
    PAUSED = "paused"
    NO_CONSUMER = "no consumer"
    HANDLERS_BUSY = "all handlers busy"
    RATE_LIMITED = "held by a 429"
    PACED = "paced"
    CONCURRENCY = "held by a concurrency"
    QUOTA = "held by a quota"
    BY_HAND = "held by hand"
    ONLY_DELAYED = "only delayed"
    ONLY_DEAD = "only dead"
    MOVING = "moving"
    EMPTY = "empty"
    UNKNOWN_QUEUE = "unknown queue"


class Verdict(BaseModel):
    """The one answer to "why does it not move, who is at fault, and what do I do?".

    `str(verdict)` is one line: the state, and why.

    Attributes:
        queue: The queue's name.
        state: The first state that fits.
        because: Why, in one sentence.
        since: The time since when it is so, UTC; None if it is not known.
        until: The time when it ends by itself, UTC; None if it does not, or if nobody knows.
        who: The worker, group, member or caller that holds it; "" if there is none.
        what_to_do: A sentence that names a command; "" if there is nothing to do.
        also: States that would be the verdict without this one.
        needs_person: It does not go on by itself.
    """

    model_config = ConfigDict(frozen=True)

    queue: str
    state: VerdictState
    because: str
    since: datetime | None = None
    until: datetime | None = None
    who: str = ""
    what_to_do: str = ""
    also: tuple[VerdictState, ...] = ()
    needs_person: bool = False

    def __str__(self) -> str:
        also = f" (also: {', '.join(self.also)})" if self.also else ""
        return f"{self.state}: {self.because}{also}"


class Facts(NamedTuple):
    """All that a verdict depends on."""

    queue: str
    stats: QueueStats
    survey: Survey
    workers: Sequence[WorkerInfo]
    pace: Pace
    names: Sequence[str]

    @property
    def now(self) -> float:
        """The server's time, ms."""
        return float(self.survey.now_ms)

    @property
    def due(self) -> int:
        """The tasks that a consumer could have now, if nothing held them."""
        stats, survey = self.stats, self.survey
        return stats.ready + stats.waiting + survey.overdue + survey.lapsed

    @property
    def exists(self) -> bool:
        """True if anything of the queue is stored."""
        stats = self.stats
        tasks = self.due + stats.delayed + stats.invisible + stats.dead
        return bool(tasks or self.survey.stored or self.workers)

    @property
    def flows(self) -> bool:
        """True if tasks have ended lately."""
        return bool(self.pace.done)

    def seconds_since(self, at_ms: float | None) -> float:
        """Return the seconds since a moment; infinity without one."""
        return float("inf") if at_ms is None else round(max(0.0, self.now - at_ms) / 1000, 3)

    def hangs(self, seconds: float) -> bool:
        """Return True if a run of so many seconds is far longer than others."""
        return hangs(self.stats, seconds)

    def usual(self) -> str:
        """Say how long runs take."""
        run = self.stats.run
        return f" (99 of 100 end within {span(run.p99)})" if run else ""

    def say(self, at_ms: float | None) -> str:
        """Write a moment: `14:32:05 UTC`, with its date if that is another day."""
        moment, today = moment_of(at_ms or 0.0), moment_of(self.now)
        if moment is None or today is None:
            return "a time far away"
        near = moment.date() == today.date()
        return f"{moment:%H:%M:%S} UTC" if near else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def hangs(stats: QueueStats, seconds: float) -> bool:
    """Return True if a run of so many seconds is far longer than other runs of the queue."""
    run = stats.run
    return seconds > (max(HANGS_SECONDS, HANGS_TIMES * run.p99) if run else HANGS_UNKNOWN)


class Finding(NamedTuple):
    """The fields of a `Verdict` that a rule has found. Times are ms."""

    state: VerdictState
    because: str
    since: float | None = None
    until: float | None = None
    who: str = ""
    what_to_do: str = ""
    needs_person: bool = False


def verdict_of(queue: str, seen: Overview, pace: Pace, names: Sequence[str] = ()) -> Verdict:
    """Judge a queue.

    Args:
        queue: Its name.
        seen: Its counts, what may hold it, and its workers.
        pace: Its pace, as far as it is known.
        names: The names of all queues, for a queue that does not exist.
    """
    facts = Facts(queue, *seen, pace, names)
    first, *others = (finding for rule in RULES if (finding := rule(facts)))
    also = [each.state for each in others if each.state in HOLDS and first.state in HOLDS]
    return Verdict(
        queue=queue,
        state=first.state,
        because=first.because,
        since=moment_of(first.since),
        until=moment_of(first.until),
        who=first.who,
        what_to_do=first.what_to_do,
        also=tuple(also),
        needs_person=first.needs_person,
    )


def server_away(queue: str, error: object, since_ms: float) -> Verdict:
    """Make the verdict on a queue whose server does not answer since a moment."""
    since = moment_of(since_ms)
    return Verdict(
        queue=queue,
        state=VerdictState.SERVER_AWAY,
        because=f"the server has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: {error}",
        since=since,
        what_to_do="Start the server, or look at its log: `dpq health` says when it answers again.",
        needs_person=True,
    )


def no_such_queue(name: str, names: Sequence[str]) -> str:
    """Say that there is no queue of a name; add the nearest name, or some names of queues."""
    known = sorted(names)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"there is no queue {name!r}; did you mean {near[0]!r}?"
    if not known:
        return f"there is no queue {name!r}, nor any other: the first push makes one"
    more = ", ..." * (len(known) > NAMES_SHOWN)
    return (
        f"there is no queue {name!r}; there are {', '.join(map(repr, known[:NAMES_SHOWN]))}{more}"
    )


def moment_of(at_ms: float | None) -> datetime | None:
    """Convert a time of the server; None without one, and for a moment that never comes."""
    if at_ms is None or not 0 <= at_ms < UNTIL_OPENED_MS:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _tasks(count: int, rest: str = "due") -> str:
    return f"1 task is {rest}" if count == 1 else f"{count} tasks are {rest}"


def _of(queue: str) -> str:
    return f"--queue {queue}"


# The rules, in the order of `VerdictState`


def _settings_lost(facts: Facts) -> Finding | None:
    lost = facts.survey.lost
    shut = next((held for held in facts.survey.held if held.state.reason == "unreadable"), None)
    if not lost and not shut:
        return None
    because = f"the queue has lost its setting {lost[0]!r}" if lost else ""
    if shut:
        because = f"the stored limit of {_name(shut)} cannot be read, so none of its tasks runs"
    if lost and lost[0] in ("limits", "limited", "queue_rules"):
        because = "limits of the queue are lost, and no task runs without them"
    return Finding(
        VerdictState.SETTINGS_LOST,
        because,
        what_to_do=f"`dpq doctor --repair {_of(facts.queue)}` restores what has a copy.",
        needs_person=True,
    )


def _paused(facts: Facts) -> Finding | None:
    until, pause = facts.survey.paused_until, facts.survey.pause
    if not until:
        return None
    ends = None if until == "inf" else float(until)
    because = "it is paused until " + ("it is resumed" if ends is None else facts.say(ends))
    _, _, by = pause.detail.partition(" by ") if pause else ("", "", "")
    if pause:
        because += f"; the pause began at {facts.say(pause.at_ms)}" + (f", by {by}" if by else "")
    return Finding(
        VerdictState.PAUSED,
        because,
        since=pause.at_ms if pause else None,
        until=ends,
        who=by,
        what_to_do=f"`dpq resume {_of(facts.queue)}` lets its tasks run.",
        needs_person=ends is None,
    )


def _no_consumer(facts: Facts) -> Finding | None:
    asked, late = facts.survey.asked_ms, facts.workers
    if not facts.due or any(worker.seen_seconds <= LATE_SECONDS for worker in late):
        return None
    seen = max((worker.seen.timestamp() * 1000 for worker in late), default=0.0)
    alone = facts.seconds_since(asked) <= ASKED_SECONDS and (asked or 0.0) > seen
    if alone or facts.survey.leases > sum(worker.holds for worker in late):
        return None
    because, since, who = f"{_tasks(facts.due)}, and no consumer has ever asked for one", None, ""
    if late:
        last = min(late, key=lambda worker: worker.seen_seconds)
        who, since = _worker(last), seen
        gone = f"has sent no heartbeat since {facts.say(seen)}"
        because = f"{_tasks(facts.due)}, and its last worker, {who}, {gone}"
    elif asked is not None:
        since = asked
        because = f"{_tasks(facts.due)}, and no consumer has asked for one since {facts.say(asked)}"
    if facts.survey.lapsed:
        because += f"; the leases of {facts.survey.lapsed} of them have ended without an ack"
    return Finding(
        VerdictState.NO_CONSUMER,
        because,
        since=since,
        who=who,
        what_to_do=f"Start a worker, `dpq worker MODULE:NAME {_of(facts.queue)}`, or look into the "
        "log of the one that ended.",
        needs_person=True,
    )


def _handlers_busy(facts: Facts) -> Finding | None:
    if facts.flows or facts.seconds_since(facts.survey.asked_ms) < LATE_SECONDS:
        return None
    if not facts.workers:
        return _consumers_busy(facts)
    running = sum(worker.running for worker in facts.workers)
    places = sum(worker.concurrency for worker in facts.workers)
    slowest = max(facts.workers, key=lambda worker: worker.longest_seconds or 0.0)
    seconds, task = slowest.longest_seconds or 0.0, slowest.longest_task
    if any(w.running < w.concurrency for w in facts.workers) or not facts.hangs(seconds):
        return None
    who = _worker(slowest)
    because = (
        f"{running} of {places} handlers are busy, the longest for {span(seconds)}{facts.usual()}: "
        f"task {task} in {who}"
    )
    if slowest.seen_seconds > LATE_SECONDS:
        because += f", which has sent no heartbeat for {span(slowest.seen_seconds)}"
    return Finding(
        VerdictState.HANDLERS_BUSY,
        because,
        since=facts.now - seconds * 1000,
        who=who,
        what_to_do=f"Restart that process; `dpq release --worker {slowest.name} "
        f"{_of(facts.queue)}` gives its tasks to other workers.",
        needs_person=True,
    )


def _consumers_busy(facts: Facts) -> Finding | None:
    """Judge consumers that send no heartbeats, by their leases."""
    survey = facts.survey
    seconds = facts.seconds_since(survey.oldest_ms)
    if not facts.due or not survey.leases or not facts.hangs(seconds) or survey.oldest_ms is None:
        return None
    return Finding(
        VerdictState.HANDLERS_BUSY,
        f"consumers that send no heartbeat hold {survey.leases} "
        f"lease{'s' * (survey.leases > 1)} and ask for no more, the "
        f"longest for {span(seconds)}{facts.usual()}: task {survey.oldest}",
        since=survey.oldest_ms,
        what_to_do=f"Restart that consumer; `dpq release --older-than {seconds:.0f} "
        f"{_of(facts.queue)}` gives its tasks to others.",
        needs_person=True,
    )


KINDS = {
    "rate limited": VerdictState.RATE_LIMITED,
    "probe": VerdictState.RATE_LIMITED,
    "closed by hand": VerdictState.BY_HAND,
    "concurrency": VerdictState.CONCURRENCY,
    "quota": VerdictState.QUOTA,
    "observed": VerdictState.QUOTA,
}
"""The state of each reason for which a limit lets no task run; all other reasons pace."""


def _kind(held: Held) -> VerdictState:
    return KINDS.get(held.state.reason or "", VerdictState.PACED)


def _still_flows(facts: Facts, held: Held) -> bool:
    """Return True if tasks of a closed scope start again and again."""
    if _kind(held) is VerdictState.CONCURRENCY:
        return not facts.hangs(facts.seconds_since(held.held_ms)) and bool(held.holder)
    opens = held.state.opens_at
    soon = opens is None or opens.timestamp() * 1000 - facts.now <= FLOWS_SECONDS * 1000
    return _kind(held) is VerdictState.PACED and soon


def _closed_groups(facts: Facts) -> list[Held]:
    return [held for held in facts.survey.held[1:] if not held.state.open and held.due]


def _held(facts: Facts) -> Finding | None:
    """Find the limit that holds the queue: its own, or the one that holds most due tasks.

    If some groups wait for long and tasks of others run, the queue moves.
    """
    queue, groups = facts.survey.held[:1], _closed_groups(facts)
    if not facts.due:
        return None
    if queue and not queue[0].state.open and queue[0].due:
        return _finding_of(facts, [queue[0]])
    if not groups or facts.stats.ready or facts.survey.overdue or facts.survey.lapsed:
        return None
    by_kind: dict[VerdictState, list[Held]] = {}
    for held in groups:
        by_kind.setdefault(_kind(held), []).append(held)
    most = max(by_kind.values(), key=lambda few: sum(held.due for held in few))
    flows = any(_still_flows(facts, held) for held in groups)
    if flows and not _still_flows(facts, most[0]):
        return None
    return _finding_of(facts, most)


def _finding_of(facts: Facts, few: Sequence[Held]) -> Finding | None:
    first = few[0]
    state, kind = first.state, _kind(first)
    moments = [held.state.opens_at.timestamp() * 1000 for held in few if held.state.opens_at]
    until = min(moments, default=None)
    because, since, who, what_to_do = SENTENCES[kind](facts, first)
    if kind is VerdictState.CONCURRENCY and facts.flows:
        return None
    if len(few) > 1 or facts.survey.closed > len(few):
        others = max(facts.survey.closed, len(few)) - 1
        because += f"; {others} more group{'s are' if others > 1 else ' is'} closed"
    if state.group is not None:
        because += f"; {sum(held.due for held in few)} of {facts.due} due tasks wait for that"
    else:
        because += f"; {_tasks(facts.due)}"
    needs = kind in (VerdictState.BY_HAND, VerdictState.CONCURRENCY)
    if kind is VerdictState.QUOTA and until is not None:
        needs = until - facts.now > LONG_SECONDS * 1000
    needs = needs and not _still_flows(facts, first)
    return Finding(kind, because, since, until, who, what_to_do if needs else "", needs)


def _name(held: Held) -> str:
    return "the queue" if held.state.group is None else f"group {held.state.group!r}"


Said = tuple[str, float | None, str, str]
"""The reason, its beginning (ms), the holder, and the sentence on what to do."""


def _until(facts: Facts, state: LimitState) -> str:
    return f" until {facts.say(state.opens_at.timestamp() * 1000)}" if state.opens_at else ""


def _say_429(facts: Facts, held: Held) -> Said:
    news = held.limited
    status = news.detail[:3] if news and news.detail[:3].isdecimal() else "429"
    since = news.at_ms if news else None
    member = next((m.name for m in held.state.members if m.reason == held.state.reason), "")
    who = _name(held) + (f", member {member!r}" if member else "")
    if held.state.reason == "probe":
        why = f"the first task of {who} after a {status} still runs, and all others wait for it"
        return why, since, who, ""
    when = f" at {facts.say(since)}" if since else ""
    until = _until(facts, held.state)
    return f"the host of {who} has answered {status}{when}: it is closed{until}", since, who, ""


def _say_paced(facts: Facts, held: Held) -> Said:
    state = held.state
    rates = ", ".join(
        per_text(window.rate, window.per) + (f" {window.unit}" if window.unit else "")
        for window in state.windows
    )
    left = ", ".join(f"{max(0.0, units):.1f}" for units in state.units_left)
    allows = f"allows {rates}, of which {left} are left" if rates else "lets no task run yet"
    why = f"the limit of {_name(held)} {allows}: it opens{_until(facts, state) or ' soon'}"
    return why.replace(" until ", " at "), None, _name(held), ""


def _say_concurrency(facts: Facts, held: Held) -> Said:
    most, queue = held.state.concurrency or 1, _of(facts.queue)
    why = f"{_name(held)} lets {most} task{'s' if most > 1 else ''} run at once"
    if held.permits and held.permits_until_ms is not None:
        ends = facts.say(held.permits_until_ms)
        permits = "1 permit of `acquire` holds" if held.permits == 1 else ""
        permits = permits or f"{held.permits} permits of `acquire` hold"
        why += f", and {permits} it, the first until {ends}"
        todo = f"Ask the callers of `acquire`; or raise it by `dpq limit set {queue}`."
        return why, None, "callers of `acquire`", todo
    seconds = facts.seconds_since(held.held_ms)
    holder = next((w for w in facts.workers if w.longest_task == held.holder), None)
    who = _worker(holder) if holder else f"task {held.holder}"
    by = f" in {_worker(holder)}" if holder else ""
    why += f", and task {held.holder}{by} has held it for {span(seconds)}{facts.usual()}"
    return why, held.held_ms, who, f"`dpq release {held.holder} {queue}` gives its place to others."


def _say_quota(facts: Facts, held: Held) -> Said:
    state, opens = held.state, held.state.opens_at
    spent = next((each for each in state.quotas if each.resets_at == opens), None)
    what = f"the quota of {quota_text(spent.quota)} of {_name(held)}" if spent else ""
    if state.reason == "observed":
        why = f"the host of {_name(held)} has said that no more is left{_until(facts, state)}"
    elif spent:
        why = f"{what} is spent{_until(facts, state)}"
    else:
        why = (
            f"the quota of {_name(held)} is spread over its period: it opens{_until(facts, state)}"
        )
    todo = f"If the host allows more, `dpq limit set {_of(facts.queue)}` raises the quota."
    return why, None, _name(held), todo


def _say_by_hand(facts: Facts, held: Held) -> Said:
    news: News | None = held.closed
    when = f" at {facts.say(news.at_ms)}" if news else ""
    until = _until(facts, held.state) or " until it is opened"
    group = held.state.group
    todo = f"`dpq group open {group} {_of(facts.queue)}` opens it."
    return f"{_name(held)} was closed by hand{when}{until}", news and news.at_ms, _name(held), todo


SENTENCES: dict[VerdictState, Callable[[Facts, Held], Said]] = {
    VerdictState.RATE_LIMITED: _say_429,
    VerdictState.PACED: _say_paced,
    VerdictState.CONCURRENCY: _say_concurrency,
    VerdictState.QUOTA: _say_quota,
    VerdictState.BY_HAND: _say_by_hand,
}
"""The sentence of each state that a limit causes."""


def _only_delayed(facts: Facts) -> Finding | None:
    stats, due = facts.stats, facts.survey.due_ms
    if facts.due or facts.survey.leases or not stats.delayed:
        return None
    because = f"{_tasks(stats.delayed, 'delayed')}, the next one is due at {facts.say(due)}"
    return Finding(VerdictState.ONLY_DELAYED, because, until=due)


def _only_dead(facts: Facts) -> Finding | None:
    stats, (reason, fault) = facts.stats, facts.survey.first_death
    if facts.due or facts.survey.leases or stats.delayed or not stats.dead:
        return None
    first = f": {reason}" + (f" ({fault})" if fault else "") if reason else ""
    return Finding(
        VerdictState.ONLY_DEAD,
        f"no live task is left, and {_tasks(stats.dead, 'dead')}; the first died{first}",
        what_to_do=f"`dpq dead list {_of(facts.queue)}` shows why; `dpq dead replay "
        f"{_of(facts.queue)}` runs them again.",
        needs_person=True,
    )


def _moving(facts: Facts) -> Finding | None:
    if not facts.due and not facts.survey.leases:
        return None
    said = [f"{_tasks(facts.due)}, and {facts.survey.leases} are running"]
    if facts.due and facts.pace.kind != "counting":
        said.append(facts.pace.say)
    said += [
        f"{_name(held)} is {_kind(held)}{_until(facts, held.state)}"
        for held in _closed_groups(facts)[:1]
        if _kind(held) is not VerdictState.PACED
    ]
    said += [
        f"{_worker(worker)} has sent no heartbeat for {span(worker.seen_seconds)}"
        for worker in facts.workers
        if worker.seen_seconds > LATE_SECONDS
    ][:1]
    return Finding(VerdictState.MOVING, "; ".join(said))


def _unknown_queue(facts: Facts) -> Finding | None:
    if facts.exists:
        return None
    return Finding(
        VerdictState.UNKNOWN_QUEUE,
        no_such_queue(facts.queue, facts.names),
        what_to_do="`dpq queues` lists the queues of this server.",
        needs_person=True,
    )


def _empty(facts: Facts) -> Finding:
    return Finding(VerdictState.EMPTY, "no task is stored")


RULES: tuple[Callable[[Facts], Finding | None], ...] = (
    _settings_lost,
    _paused,
    _no_consumer,
    _handlers_busy,
    _held,
    _only_delayed,
    _only_dead,
    _moving,
    _unknown_queue,
    _empty,
)
"""The rules, in the order in which they are asked."""

HOLDS = frozenset({VerdictState.SETTINGS_LOST, VerdictState.PAUSED, *KINDS.values()}) | {
    VerdictState.NO_CONSUMER,
    VerdictState.HANDLERS_BUSY,
}
"""The states that may hold a queue at the same time."""


def _worker(info: WorkerInfo) -> str:
    """Name a worker with its host and process, unless its name says them."""
    if info.host in info.name:
        return f"{info.name} (pid {info.pid})" if str(info.pid) not in info.name else info.name
    return f"{info.name} on {info.host} (pid {info.pid})"
