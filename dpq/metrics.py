"""The metrics of queues in Prometheus' text format; needs the extra `metrics`.

`dpq web`, `dpq admin metrics` and `dpq admin scheduler --metrics-port` serve them. Counters are the
totals that the server keeps, so they survive a restart of the exporter, and several exporters
agree. A value that the server does not count is no metric here. Each sample has the label `server`.

It has no timer: a scrape reads, once a second at most. Each read is bounded, whatever a queue
holds. If the server does not answer, a scrape says `dpq_up 0`.
"""

import logging
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from dpq import DPQ
from dpq.explain.incidents import VerdictState, Warned
from dpq.limits.states import LimitState
from dpq.model.errors import DPQError
from dpq.model.history import OTHER_NAMES, Times
from dpq.model.reports import QueueStats
from dpq.model.validation import error_line
from dpq.queue.inside import session_of
from dpq.views.sampler import OPEN_QUEUES, Directory, Kept, Snapshot, Watch

log = logging.getLogger(__name__)

GROUPS = 98
"""Groups with labels: as many as one read of limits takes, beside the queue and `*`."""

OTHER = "_other"
"""The label of all other groups."""

PAGES = 10
"""Pages of the list of limits that one scrape reads at most, to find groups with labels."""

MEMBERS = 200
"""Members of pools with labels, of one queue: the whole pool or none of it."""

WORKERS = 50
"""Workers with labels, of one queue: those whose handlers have run longest."""

READ_SECONDS = 4.0
"""Seconds after which a scrape begins to read no other queue: it tells of those that it has."""

WITHIN_SECONDS = 5.0
"""Seconds that a scrape waits for the server: half of what Prometheus waits for a scrape."""

FRESH_SECONDS = 1.0
"""Seconds that a reading is shared by all scrapers."""

STATES = ("ready", "delayed", "invisible", "waiting", "dead")

HELD = ("following", "seen_keys")
"""Counts of what a queue holds beside `STATES`."""

PARTED = ("buried", "rate_limited")
"""Totals whose parts are totals as well: `buried_expired`, `rate_limited_503`."""

DEATHS, STATUSES = (
    [name.removeprefix(f"{total}_") for name in QueueStats.model_fields if f"{total}_" in name]
    for total in PARTED
)
"""The classes of `dpq_buried_total`, all others are `other`; and the statuses of answers, all
others are 429."""

_ABOUT = dict(
    re.findall(r"^ +(\w+): (.+?)(?=\n +\w+: |\n\n|\Z)", QueueStats.__doc__ or "", re.M | re.S)
)

TOTALS = {
    f"dpq_{OTHER_NAMES.get(name, name)}": (name, " ".join(_ABOUT.get(name, "").split()))
    for name, field in QueueStats.model_fields.items()
    if field.default == 0 and name not in (*STATES, *HELD) and not name.startswith(PARTED)
}
"""Counters of queues: their name without `_total`, the field of the statistics, and their help.
Each total of the statistics is one, unless its parts have labels."""

COUNTERS = {
    "dpq_buried": (("queue", "reason"), "Tasks that became dead letters."),
    "dpq_rate_limited": (
        ("queue", "group", "member"),
        "Deliveries that met a limit of a host; _other: of tasks whose group has none of its own.",
    ),
    "dpq_limit_answers": (
        ("queue", "status"),
        "Deliveries that met a limit of a host, by its status; 503 and 529: with a time.",
    ),
    "dpq_limit_granted_units": (
        ("queue", "group", "window", "unit"),
        "Units that were granted, as they were reserved.",
    ),
    "dpq_limit_allowed_units": (
        ("queue", "group", "window", "unit"),
        "Units that its rate allowed since this exporter knows it.",
    ),
}
"""Other counters: their name without `_total`, their labels and help."""

SERVER = {
    "dpq_server_evicts": (
        *("maxmemory_policy", "noeviction", 0),
        "1 if the server removes keys when its memory is full.",
    ),
    "dpq_server_aof": (*("aof_enabled", 1, 1), "1 if the server writes each change to a file."),
}
"""Gauges of the server: a field of INFO, its good value and what that counts as, and their help."""

EVICTED = "dpq_server_evicted_keys"
"""The counter of the server."""

GAUGES = {
    "dpq_tasks": (("queue", "state"), "Tasks in each state."),
    **{f"dpq_{name}": (("queue",), " ".join(_ABOUT.get(name, "").split())) for name in HELD},
    "dpq_oldest_due_seconds": (("queue",), "Seconds since the oldest ready task became due."),
    "dpq_warning": (("queue", "kind"), "1 for each warning beside the state of the queue."),
    "dpq_drain_seconds": (("queue",), "Seconds until all that is due has begun; +Inf: never."),
    "dpq_verdict": (("queue", "state"), "1 for the state of the verdict on the queue, else 0."),
    "dpq_needs_person": (("queue",), "1 if the queue does not go on by itself."),
    "dpq_paused": (("queue",), "1 if the queue is paused."),
    "dpq_workers": (("queue",), "Workers with a heartbeat in the last minute."),
    "dpq_workers_quiet": (("queue",), "Those that were told to take no new tasks."),
    "dpq_worker_slots": (("queue",), "Handlers that those may run at once, of all their queues."),
    "dpq_worker_busy": (("queue",), "Handlers that run on tasks of this queue."),
    "dpq_longest_run_seconds": (("queue",), "Seconds that the longest running task has run."),
    "dpq_worker_longest_run_seconds": (("queue", "worker"), "The same, of each worker."),
    "dpq_groups_closed": (
        ("queue", "why"),
        "Groups that are closed now; _other: those that have no labels of their own.",
    ),
    "dpq_group_open": (("queue", "group"), "1 if a task may run now; the queue is the group ''."),
    "dpq_group_closed": (("queue", "group", "why"), "1 for the reason why no task may run now."),
    "dpq_group_opens_in_seconds": (
        ("queue", "group"),
        "Seconds until a task may run; +Inf: when opened by hand. None if a lease must end first.",
    ),
    "dpq_group_waiting": (("queue", "group"), "Tasks that are due and have not begun."),
    "dpq_limit_rate": (
        ("queue", "group", "window", "unit"),
        "Units a second; learned if adaptive.",
    ),
    "dpq_limit_burst": (
        ("queue", "group", "window", "unit"),
        "Units that a rested limit has left.",
    ),
    "dpq_limit_units_left": (
        ("queue", "group", "window", "unit"),
        "Units that would be granted now; of a quota, those of the period.",
    ),
    "dpq_queue_up": (("queue",), "1 if the queue could be read."),
}
"""Gauges: their labels and help."""

TIMES = {
    "dpq_wait_seconds": ("wait", "Seconds from due to the first delivery."),
    "dpq_run_seconds": ("run", "Seconds from a delivery to its ack, fail or bury."),
}


class Reading(NamedTuple):
    """The state of a queue, for one scrape.

    Attributes:
        allowed: The units that each limit's rate has allowed, by group, window and unit.
        unlabelled: The number of times that tasks of groups without labels have met a limit.
    """

    snapshot: Snapshot
    states: Sequence[LimitState]
    now_ms: float
    allowed: Mapping[tuple[str, ...], float]
    unlabelled: int


class Meter:
    """Reads one queue for scrapes, and remembers the groups with labels."""

    def __init__(self, watch: Watch, snapshot: Callable[[], Snapshot]) -> None:
        """Take the watch of a queue, and the function that reads its snapshot."""
        self.watch, self._snapshot = watch, snapshot
        self._groups: list[str] = []
        self._allowed: dict[tuple[str, ...], float] = {}
        self._read_ms = math.inf
        self._unlabelled = 0

    def read(self) -> Reading:
        """Read the queue.

        Raises:
            RedisError: The queue cannot be read.
            DPQError: The queue cannot be read.
        """
        session = session_of(self.watch.queue)
        snapshot = self._snapshot()
        groups = self._chosen()
        found = session.run(self.watch.browser.states, groups)
        self._groups = [state.group for state in found.states[2:] if state.group and _own(state)]
        states = [found.states[0], *(each for each in found.states[2:] if _own(each))]
        labelled = sum(state.rate_limited for state in states)
        # No counter may fall, and the totals were read a moment before.
        self._unlabelled = max(self._unlabelled, snapshot.stats.rate_limited - labelled)
        allowed = self._allow(states, found.now_ms)
        return Reading(snapshot, states, found.now_ms, allowed, self._unlabelled)

    def _chosen(self) -> list[str]:
        """Choose the groups with labels: those of the last scrape stay, so that series go on."""
        chosen, cursor = dict.fromkeys(self._groups), "0"
        for _ in range(PAGES if len(chosen) < GROUPS else 0):
            run = session_of(self.watch.queue).run
            cursor, names = run(self.watch.browser.own_limits, cursor)
            chosen |= dict.fromkeys(sorted(name for name in names if name != OTHER))
            if cursor == "0" or len(chosen) >= GROUPS:
                break
        return list(chosen)[:GROUPS]

    def _allow(
        self, states: Sequence[LimitState], now_ms: float
    ) -> Mapping[tuple[str, ...], float]:
        """Add what the rates have allowed since the last scrape, by the server's clock."""
        seconds, before = max(0.0, now_ms - self._read_ms) / 1000, self._allowed
        self._allowed = {
            (state.group or "", *names): before.get((state.group or "", *names), 0.0)
            + rate * seconds * ((state.group or "", *names) in before)
            for state in states
            for names, (_, rate) in _rates(state).items()
        }
        self._read_ms = now_ms
        return self._allowed


def _own(state: LimitState) -> bool:
    rated = state.windows or state.quotas or state.concurrency is not None
    return bool(rated) and not state.default and state.group is not None


@dataclass
class _Table:
    """The samples of one scrape; a sample with the same labels as another replaces it."""

    rows: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)

    def set(self, name: str, value: float, *labels: str) -> None:
        self.rows.setdefault(name, {})[tuple(map(label, labels))] = float(value)


def label(text: str) -> str:
    """Write a name as a label: bytes that are no UTF-8 as `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


class Exporter:
    """Collects the metrics of some queues for a Prometheus registry.

    Args:
        directory: The queues.
        snapshot: Returns the shared snapshot of a watch; None: the exporter reads it itself.
        clock: Returns the time in seconds.
        server: The name of the server, as `server_name` makes it of a URL.
    """

    def __init__(
        self,
        directory: Directory,
        snapshot: Callable[[str, Watch], Snapshot] | None = None,
        clock: Callable[[], float] = time.monotonic,
        server: str = "",
    ) -> None:
        self._directory, self._clock, self._name = directory, clock, label(server)
        self._read_snapshot = snapshot or (lambda name, watch: watch.read())
        self._meters = Kept(directory, self._meter)
        self._lock = threading.Lock()
        self._unread: set[str] = set()
        self._looking: threading.Thread | None = None
        self._found: list[Metric] = []
        self._names: Sequence[str] = ("",)  # the queues of the last scrape
        self._at = -math.inf
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def text(self) -> bytes:
        """Write all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry need not read a server for the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, at most a second old.

        If the server does not answer, `dpq_up` is 0, and the verdict on each queue `server away`.
        """
        with self._lock:
            if self._clock() - self._at >= FRESH_SECONDS:
                self._found = [self._of_server(each) for each in self._within(WITHIN_SECONDS)]
                self._at = self._clock()
            found = self._found
        yield from found

    def _within(self, seconds: float) -> list[Metric]:
        """Read in another thread, so that a silent server or name server cannot delay a scrape."""
        found: list[list[Metric]] = []
        if self._looking is None or not self._looking.is_alive():

            def look() -> None:
                try:
                    found.append(self._read())
                except (RedisError, OSError, DPQError):
                    found.append(self._away())
                except Exception:  # log a fault of this program: a scrape must not end by it
                    log.exception("metrics: a scrape failed")

            self._looking = threading.Thread(target=look, name="dpq-metrics", daemon=True)
            self._looking.start()
            self._looking.join(seconds)
        return found[0] if found else self._away()

    def _away(self) -> list[Metric]:
        """Say that the server does not answer, of each queue that the last scrape has read."""
        table = _Table()
        for name in self._names:
            _fill_verdict(table, name, VerdictState.SERVER_AWAY, needs_person=True)
        return [_up(0), *(family for family in _families(table) if family.samples)]

    def _of_server(self, family: Metric) -> Metric:
        """Give the label `server` to each sample."""
        family.samples = [
            sample._replace(labels={"server": self._name, **sample.labels})
            for sample in family.samples
        ]
        return family

    def _read(self) -> list[Metric]:
        began, names = self._clock(), self._directory.names()
        table, times, read = _Table(), [], 0
        for name in names[:OPEN_QUEUES]:
            if self._clock() - began >= READ_SECONDS:
                break
            read += 1
            meter = self._meters.get(name)
            if meter is None:
                continue
            try:
                reading = meter.read()
            except (RedisConnectionError, RedisTimeoutError):
                raise
            # An error in one queue does not stop the others.
            except (RedisError, DPQError) as error:
                if name not in self._unread:
                    log.warning("metrics: queue %r cannot be read: %s", name, error_line(error))
                self._unread.add(name)
                table.set("dpq_queue_up", 0, name)
                continue
            self._unread.discard(name)
            table.set("dpq_queue_up", 1, name)
            fill(table, name, reading)
            times.append((label(name), reading.snapshot.stats))
        left_out = GaugeMetricFamily("dpq_queues_left_out", "Queues that this scrape has not read.")
        left_out.add_metric([], len(names) - read)
        self._names = [name for name, _ in times] or ("",)
        return [_up(1), left_out, *self._server(names), *_families(table), *_histograms(times)]

    def _server(self, names: Sequence[str]) -> Iterator[Metric]:
        """Read the settings of the server that endanger tasks; nothing if it does not show them."""
        queue = next(filter(None, map(self._directory.get, names)), None)
        with suppress(RedisError):
            info = {} if queue is None else queue.redis.info()
            for name, (setting, good, value, about) in SERVER.items():
                if isinstance(info, dict) and setting in info:
                    told = value if info[setting] == good else 1 - value
                    yield GaugeMetricFamily(name, about, value=told)
            if isinstance(info, dict) and "evicted_keys" in info:
                about = "Keys that the server has removed since its memory was full."
                yield CounterMetricFamily(EVICTED, about, value=info["evicted_keys"])

    def _meter(self, queue: DPQ[Any]) -> Meter:
        watch = Watch(queue, self._clock)
        return Meter(watch, lambda: self._read_snapshot(queue.queue_name, watch))


def _up(value: int) -> Metric:
    return GaugeMetricFamily("dpq_up", "1 if the server answered.", value=value)


def _families(table: _Table) -> Iterator[Metric]:
    for name, (labels, about) in GAUGES.items():
        gauge = GaugeMetricFamily(name, about, labels=labels)
        for values, value in table.rows.get(name, {}).items():
            gauge.add_metric(values, value)
        yield gauge
    totals = {name: (("queue",), about) for name, (_, about) in TOTALS.items()}
    for name, (labels, about) in (totals | COUNTERS).items():
        counter = CounterMetricFamily(name, about, labels=labels)
        for values, value in table.rows.get(name, {}).items():
            counter.add_metric(values, value)
        yield counter


def _histograms(found: Sequence[tuple[str, Any]]) -> Iterator[Metric]:
    """Write the times that the server counts; it keeps no sum, so there is no `_sum`."""
    for name, (attribute, about) in TIMES.items():
        histogram = HistogramMetricFamily(name, about, labels=("queue",))
        for queue, stats in found:
            times: Times | None = getattr(stats, attribute)
            if times is not None:
                rows = [(f"{bound:g}", float(count)) for bound, count in times.buckets]
                buckets = [*rows, ("+Inf", float(times.count))]
                histogram.add_metric([queue], buckets, None)
                histogram.add_sample(f"{name}_count", {"queue": queue}, float(times.count))
        yield histogram


def fill(table: _Table, queue: str, reading: Reading) -> None:
    """Add the samples of a queue to the table."""
    snapshot, states = reading.snapshot, reading.states
    stats = snapshot.stats
    for name in STATES:
        table.set("dpq_tasks", getattr(stats, name), queue, name)
    for name in HELD:
        table.set(f"dpq_{name}", getattr(stats, name), queue)
    for name, (attribute, _) in TOTALS.items():
        table.set(name, getattr(stats, attribute), queue)
    table.set("dpq_oldest_due_seconds", stats.oldest_ready_seconds or 0, queue)
    verdict = snapshot.verdict
    if drain := verdict.drain:
        seconds = math.inf if drain.state in ("stalled", "will not drain") else drain.seconds
        if seconds is not None:
            table.set("dpq_drain_seconds", seconds, queue)
    for kind in Warned:
        table.set("dpq_warning", kind in verdict.warnings, queue, kind.value)
    _fill_verdict(table, queue, verdict.state, needs_person=verdict.needs_person)
    table.set("dpq_paused", bool(snapshot.survey.paused_until), queue)
    _fill_workers(table, queue, snapshot)
    closed = Counter(  # a spent limit closes its group as soon as a task waits
        str(state.reason)
        for state in states[1:]
        if state.reason and (state.waiting or state.reason in ("rate limited", "closed by hand"))
    )
    for why, number in closed.items():
        table.set("dpq_groups_closed", number, queue, why)
    table.set("dpq_groups_closed", max(0, snapshot.survey.closed - closed.total()), queue, OTHER)
    for name, total, parts, rest in (
        ("dpq_buried", "buried", DEATHS, "other"),
        ("dpq_limit_answers", "rate_limited", STATUSES, "429"),
    ):
        counts = {part.replace("_", " "): getattr(stats, f"{total}_{part}") for part in parts}
        left = getattr(stats, total) - sum(counts.values())
        for part, count in {**counts, rest: left}.items():
            table.set(name, max(0, count), queue, part)
    for state in states:
        _fill_scope(table, queue, state, reading.now_ms)
    _fill_met(table, queue, states)
    table.set("dpq_rate_limited", reading.unlabelled, queue, OTHER, "")
    for names, units in reading.allowed.items():
        table.set("dpq_limit_allowed_units", units, queue, *names)
    named = sum(state.waiting for state in states[1:])
    if states[0].waiting >= named:  # both were read in one step, so this holds
        table.set("dpq_group_waiting", states[0].waiting - named, queue, OTHER)


def _fill_verdict(table: _Table, queue: str, state: VerdictState, *, needs_person: bool) -> None:
    for each in VerdictState:
        table.set("dpq_verdict", each is state, queue, each.value)
    table.set("dpq_needs_person", needs_person, queue)


def _fill_workers(table: _Table, queue: str, snapshot: Snapshot) -> None:
    workers, survey = snapshot.workers, snapshot.survey
    table.set("dpq_workers", len(workers), queue)
    table.set("dpq_workers_quiet", sum(bool(each.quiet_since) for each in workers), queue)
    table.set("dpq_worker_slots", sum(each.concurrency for each in workers), queue)
    table.set("dpq_worker_busy", sum(each.running for each in workers), queue)
    runs = [(w.longest_seconds, w.name) for w in workers if w.longest_seconds is not None]
    runs = sorted(runs)[-WORKERS:]
    longest = runs[-1][0] if runs else 0.0
    if not workers and survey.oldest_ms is not None:  # consumers that are no workers
        longest = max(0.0, survey.now_ms - survey.oldest_ms) / 1000
    table.set("dpq_longest_run_seconds", longest, queue)
    for seconds, name in runs:  # of workers with the same name, the longest run stays
        table.set("dpq_worker_longest_run_seconds", seconds, queue, name)


def _fill_met(table: _Table, queue: str, states: Sequence[LimitState]) -> None:
    """Add the deliveries that met a limit of a host: of a pool, by member; the rest is `""`."""
    places = MEMBERS
    for state in states:
        members = state.members if len(state.members) <= places else ()
        places -= len(members)
        if _own(state) or state.rate_limited:
            rest = state.rate_limited - sum(each.rate_limited for each in members)
            table.set("dpq_rate_limited", max(0, rest), queue, state.group or "", "")
        for each in members:
            table.set("dpq_rate_limited", each.rate_limited, queue, state.group or "", each.name)


def _rates(state: LimitState) -> dict[tuple[str, str], tuple[int, float]]:
    """Return the number and the rate, units a second, of each window, by its name and unit."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for number, window in enumerate(state.windows):
        rate = 0.0
        for each in state.members or (state,):
            learned = each.rate if number == 0 and each.rate is not None else window.rate
            rate += learned / window.per
        names = (f"{window.per:g}s", window.unit)
        if names not in found or rate < found[names][1]:
            found[names] = number, rate
    return found


def _fill_scope(
    table: _Table,
    queue: str,
    state: LimitState,
    now_ms: float,
) -> None:
    scope = state.group or ""
    if state.group is not None:
        table.set("dpq_group_waiting", state.waiting, queue, scope)
    table.set("dpq_group_open", state.open, queue, scope)
    if state.reason:
        table.set("dpq_group_closed", 1, queue, scope, state.reason)
    if state.opens_at is not None:
        opens_in = max(0.0, state.opens_at.timestamp() - now_ms / 1000)
        table.set("dpq_group_opens_in_seconds", opens_in, queue, scope)
    elif state.open or state.reason == "closed by hand":
        opens_in = 0.0 if state.open else math.inf
        table.set("dpq_group_opens_in_seconds", opens_in, queue, scope)
    members = state.members or (state,)
    for names, (number, rate) in _rates(state).items():
        where = (queue, scope, *names)
        table.set("dpq_limit_rate", rate, *where)
        table.set("dpq_limit_burst", state.windows[number].at_once * len(members), *where)
        if all(len(each.units_left) > number for each in members):
            left = sum(each.units_left[number] for each in members)
            table.set("dpq_limit_units_left", left, *where)
        if all(len(each.granted) > number for each in members):
            granted = sum(each.granted[number] for each in members)
            table.set("dpq_limit_granted_units", granted, *where)
    for number, quota in enumerate(state.quotas):
        lefts = [each.quotas[number].left for each in members if len(each.quotas) > number]
        if lefts:
            period = quota.quota.period
            table.set("dpq_limit_units_left", sum(lefts), queue, scope, period, quota.quota.unit)
