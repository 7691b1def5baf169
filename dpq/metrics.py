"""The metrics of queues in Prometheus' text format; needs the extra `metrics`.

Counters are the totals that the server keeps, so they survive a restart of the exporter, and
several exporters agree. A scrape reads, once a second at most; each read is bounded, whatever a
queue holds.
"""

import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

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
from dpq.queue.inside import operations_of, session_of
from dpq.views.sampler import OPEN_QUEUES, Directory, Snapshot, Watch, one_each
from dpq.views.shared import Shared

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
"""Seconds after which a scrape begins to read no other queue: it tells of those that it has. A read
ends within 3 s (`dpq.queue.looking`), and Prometheus waits 10."""

STATES = ("ready", "delayed", "invisible", "waiting", "dead")

HELD = ("following", "seen_keys")
"""Counts of what a queue holds beside `STATES`."""

PARTED = {"buried": ("dpq_buried", "other"), "rate_limited": ("dpq_limit_answers", "429")}
"""Totals whose parts are totals as well, such as `buried_expired`: the counter of the parts, and
the label of the rest."""

_ABOUT = dict(
    re.findall(r"^ +(\w+): (.+?)(?=\n +\w+: |\n\n|\Z)", QueueStats.__doc__ or "", re.M | re.S)
)

TOTALS = {
    f"dpq_{OTHER_NAMES.get(name, name)}": (name, " ".join(_ABOUT.get(name, "").split()))
    for name, field in QueueStats.model_fields.items()
    if field.default == 0 and name not in (*STATES, *HELD) and not name.startswith((*PARTED,))
}
"""Counters of queues: their name without `_total`, the field of the statistics, and their help.
Each total of the statistics is one, unless its parts have labels."""

WINDOW = ("queue", "group", "window", "unit")
"""The labels of a window or a quota."""

COUNTERS = {
    "dpq_buried": (("queue", "reason"), "Tasks that became dead letters."),
    "dpq_rate_limited": (("queue", "group", "member"), "Deliveries that met a limit of a host."),
    "dpq_limit_answers": (("queue", "status"), "The same, by the status of the answer."),
    "dpq_server_evicted_keys": ((), "Keys that the server removed since its memory was full."),
    "dpq_limit_granted_units": (WINDOW, "Units that were granted, as they were reserved."),
}
"""Other counters: their name without `_total`, their labels and help."""

GAUGES = {
    "dpq_up": ((), "1 if the server answered."),
    "dpq_queues_left_out": ((), "Queues that this scrape has not read."),
    "dpq_server_evicts": ((), "1 if the server removes keys when its memory is full."),
    "dpq_server_aof": ((), "1 if the server writes each change to a file."),
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
    "dpq_groups_closed": (("queue",), "Groups that are closed now."),
    "dpq_group_open": (("queue", "group"), "1 if a task may run now; the queue is the group ''."),
    "dpq_group_closed": (("queue", "group", "why"), "1 for the reason why no task may run now."),
    "dpq_group_opens_in_seconds": (("queue", "group"), "Seconds until a task may run, or +Inf."),
    "dpq_group_waiting": (("queue", "group"), "Tasks that are due and have not begun."),
    "dpq_limit_rate": (WINDOW, "Units a second; learned if adaptive."),
    "dpq_limit_burst": (WINDOW, "Units that a rested limit has left."),
    "dpq_limit_units_left": (WINDOW, "Units that would be granted now; of a quota: in its period."),
    "dpq_queue_up": (("queue",), "1 if the queue could be read."),
}
"""Gauges: their labels and help."""

TIMES = {
    "dpq_wait_seconds": ("wait", "Seconds from due to the first delivery."),
    "dpq_run_seconds": ("run", "Seconds from a delivery to its ack, fail or bury."),
}


Tell = Callable[..., None]
"""Adds a sample of one queue: the name of the metric, its value, and its labels but the queue's."""


class Meter:
    """Reads one queue for scrapes, and remembers the groups with labels."""

    def __init__(self, watch: Watch, snapshot: Callable[[], Snapshot]) -> None:
        self.watch, self._snapshot = watch, snapshot
        self._groups: list[str] = []
        self._unlabelled = 0

    def tell(self, tell: Tell) -> Snapshot:
        """Read the queue, and tell all of it."""
        run, operations = session_of(self.watch.queue).run, operations_of(self.watch.queue)
        snapshot = self._snapshot()
        chosen, cursor = dict.fromkeys(self._groups), "0"  # known ones stay, so that series go on
        for _ in range(PAGES if len(chosen) < GROUPS else 0):
            cursor, names = run(operations.own_limits, cursor)
            chosen |= dict.fromkeys(sorted(name for name in names if name != OTHER))
            if cursor == "0" or len(chosen) >= GROUPS:
                break
        found = run(operations.states, list(chosen)[:GROUPS])
        whole, own = found.states[0], [state for state in found.states[2:] if _own(state)]
        self._groups = [state.group for state in own if state.group]
        labelled = sum(state.rate_limited for state in (whole, *own))
        # No counter may fall, and the totals were read a moment before.
        self._unlabelled = max(self._unlabelled, snapshot.stats.rate_limited - labelled)
        tell("dpq_rate_limited", self._unlabelled, OTHER, "")
        _tell_counts(tell, snapshot.stats)
        _tell_state(tell, snapshot)
        _tell_workers(tell, snapshot)
        named = sum(state.waiting for state in own)
        tell("dpq_group_waiting", max(0, whole.waiting - named), OTHER)
        for state in (whole, *own):
            _tell_scope(tell, state, found.now_ms)
        _tell_met(tell, (whole, *own))
        return snapshot


def _own(state: LimitState) -> bool:
    rated = state.windows or state.quotas or state.concurrency is not None
    return bool(rated) and not state.default and state.group is not None


def label(text: str) -> str:
    """Write a name as a label: bytes that are no UTF-8 as `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


class Exporter:
    """Collects the metrics of some queues for a Prometheus registry.

    Args:
        directory: The queues.
        snapshot: Returns the shared snapshot of a queue; None: the exporter reads it itself.
        clock: Returns the time in seconds.
        server: The name of the server, as `server_name` makes it of a URL.
    """

    def __init__(
        self,
        directory: Directory,
        snapshot: Callable[[str], Snapshot] | None = None,
        clock: Callable[[], float] = time.monotonic,
        server: str = "",
    ) -> None:
        self._directory, self._clock, self._name = directory, clock, label(server)
        self._snapshot, self._meter_of = snapshot, one_each(directory, self._meter)
        self._shared = Shared(clock)
        self._unread: set[str] = set()
        self._names: Sequence[str] = ("",)  # the queues of the last scrape
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def text(self) -> bytes:
        """Write all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, at most a second old.

        If the server does not answer, `dpq_up` is 0, and the verdict on each queue `server away`.
        """
        yield from self._shared.get("metrics", self._look)

    def _look(self) -> list[Metric]:
        scrape = _Scrape(self._name)
        try:
            self._read(scrape)
        except (RedisError, OSError, DPQError):
            scrape = _Scrape(self._name)
            scrape.set("dpq_up", 0)
            for name in self._names:  # that the last scrape has read
                _tell_verdict(partial(scrape.of_queue, name), VerdictState.SERVER_AWAY, True)
        return list(scrape.families())

    def _read(self, scrape: "_Scrape") -> None:
        began, names, read = self._clock(), self._directory.names(), 0
        for name in names[:OPEN_QUEUES]:
            if self._clock() - began >= READ_SECONDS:
                break
            read += 1
            meter = self._meter_of(name)
            if meter is None:
                continue
            tell = partial(scrape.of_queue, name)
            try:
                snapshot = meter.tell(tell)
            except (RedisConnectionError, RedisTimeoutError):
                raise
            # An error in one queue does not stop the others.
            except (RedisError, DPQError) as error:
                if name not in self._unread:
                    log.warning("metrics: queue %r cannot be read: %s", name, error_line(error))
                self._unread.add(name)
                tell("dpq_queue_up", 0)
                continue
            self._unread.discard(name)
            tell("dpq_queue_up", 1)
            scrape.times.append((label(name), snapshot.stats))
            _tell_server(scrape, snapshot.survey.server)
        self._names = [name for name, _ in scrape.times] or ("",)
        scrape.set("dpq_up", 1)
        scrape.set("dpq_queues_left_out", len(names) - read)

    def _meter(self, queue: DPQ[Any]) -> Meter:
        watch, shared = Watch(queue, self._clock), self._snapshot
        return Meter(watch, partial(shared, queue.queue_name) if shared else watch.read)


class _Scrape:
    """The samples of one scrape; a sample with the same labels as another replaces it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._rows: dict[str, dict[tuple[str, ...], float]] = {}
        self.times: list[tuple[str, QueueStats]] = []  # of each queue, for its histograms

    def set(self, name: str, value: float, *labels: str) -> None:
        """Add a sample."""
        self._rows.setdefault(name, {})[tuple(map(label, labels))] = float(value)

    def of_queue(self, queue: str, name: str, value: float, *labels: str) -> None:
        """Add a sample of a queue: a `Tell`."""
        self.set(name, value, queue, *labels)

    def families(self) -> Iterator[Metric]:
        """Return the metrics that have samples."""
        totals = {name: (("queue",), about) for name, (_, about) in TOTALS.items()}
        kinds = ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, totals | COUNTERS))
        for kind, metrics in kinds:
            for name, (labels, about) in metrics.items():
                family = kind(name, about, labels=("server", *labels))
                for values, value in self._rows.get(name, {}).items():
                    family.add_metric((self._server, *values), value)
                if family.samples:
                    yield family
        for name, (attribute, about) in TIMES.items():
            yield self._histogram(name, attribute, about)

    def _histogram(self, name: str, attribute: str, about: str) -> Metric:
        """Write the times that the server counts; it keeps no sum, so there is no `_sum`."""
        histogram = HistogramMetricFamily(name, about, labels=("server", "queue"))
        for queue, stats in self.times:
            times: Times | None = getattr(stats, attribute)
            if times is not None:
                rows = [(f"{bound:g}", float(count)) for bound, count in times.buckets]
                buckets = [*rows, ("+Inf", float(times.count))]
                histogram.add_metric([self._server, queue], buckets, None)
                where = {"server": self._server, "queue": queue}
                histogram.add_sample(f"{name}_count", where, float(times.count))
        return histogram


def _tell_server(scrape: _Scrape, server: Mapping[str, str]) -> None:
    """Tell the settings of the server that endanger tasks; nothing if it does not show them."""
    if "aof_enabled" in server:
        scrape.set("dpq_server_evicts", server.get("maxmemory_policy") != "noeviction")
        scrape.set("dpq_server_aof", server["aof_enabled"] == "1")
        scrape.set("dpq_server_evicted_keys", int(server.get("evicted_keys", 0)))


def _tell_counts(tell: Tell, stats: QueueStats) -> None:
    for name in STATES:
        tell("dpq_tasks", getattr(stats, name), name)
    for name in HELD:
        tell(f"dpq_{name}", getattr(stats, name))
    for name, (attribute, _) in TOTALS.items():
        tell(name, getattr(stats, attribute))
    tell("dpq_oldest_due_seconds", stats.oldest_ready_seconds or 0)
    for total, (name, rest) in PARTED.items():
        fields = [field for field in QueueStats.model_fields if field.startswith(f"{total}_")]
        counts = [getattr(stats, field) for field in fields]
        parts = [field.removeprefix(f"{total}_").replace("_", " ") for field in fields]
        left = max(0, getattr(stats, total) - sum(counts))
        for part, count in zip([*parts, rest], [*counts, left], strict=True):
            tell(name, count, part)


def _tell_state(tell: Tell, snapshot: Snapshot) -> None:
    verdict = snapshot.verdict
    if drain := verdict.drain:
        seconds = math.inf if drain.state in ("stalled", "will not drain") else drain.seconds
        if seconds is not None:
            tell("dpq_drain_seconds", seconds)
    for kind in Warned:
        tell("dpq_warning", kind in verdict.warnings, kind.value)
    _tell_verdict(tell, verdict.state, verdict.needs_person)
    tell("dpq_paused", bool(snapshot.survey.paused_until))
    tell("dpq_groups_closed", snapshot.survey.closed)


def _tell_verdict(tell: Tell, state: VerdictState, needs_person: bool) -> None:
    for each in VerdictState:
        tell("dpq_verdict", each is state, each.value)
    tell("dpq_needs_person", needs_person)


def _tell_workers(tell: Tell, snapshot: Snapshot) -> None:
    workers, survey = snapshot.workers, snapshot.survey
    tell("dpq_workers", len(workers))
    tell("dpq_workers_quiet", sum(bool(each.quiet_since) for each in workers))
    tell("dpq_worker_slots", sum(each.concurrency for each in workers))
    tell("dpq_worker_busy", sum(each.running for each in workers))
    runs = [(w.longest_seconds, w.name) for w in workers if w.longest_seconds is not None]
    runs = sorted(runs)[-WORKERS:]
    longest = runs[-1][0] if runs else 0.0
    if not workers and survey.oldest_ms is not None:  # consumers that are no workers
        longest = max(0.0, survey.now_ms - survey.oldest_ms) / 1000
    tell("dpq_longest_run_seconds", longest)
    for seconds, name in runs:  # of workers with the same name, the longest run stays
        tell("dpq_worker_longest_run_seconds", seconds, name)


def _tell_met(tell: Tell, states: Sequence[LimitState]) -> None:
    """Tell the deliveries that met a limit of a host: of a pool, by member; the rest is `""`."""
    places = MEMBERS
    for state in states:
        members = state.members if len(state.members) <= places else ()
        places -= len(members)
        if _own(state) or state.rate_limited:
            rest = state.rate_limited - sum(each.rate_limited for each in members)
            tell("dpq_rate_limited", max(0, rest), state.group or "", "")
        for each in members:
            tell("dpq_rate_limited", each.rate_limited, state.group or "", each.name)


def _tell_scope(tell: Tell, state: LimitState, now_ms: float) -> None:
    """Tell of one limit: whether it is open, and its windows and quotas."""
    scope, members = state.group or "", state.members or (state,)
    if state.group is not None:
        tell("dpq_group_waiting", state.waiting, scope)
    tell("dpq_group_open", state.open, scope)
    if state.reason:
        tell("dpq_group_closed", 1, scope, state.reason)
    if state.opens_at is not None:
        opens_in = max(0.0, state.opens_at.timestamp() - now_ms / 1000)
        tell("dpq_group_opens_in_seconds", opens_in, scope)
    elif state.open or state.reason == "closed by hand":
        tell("dpq_group_opens_in_seconds", 0.0 if state.open else math.inf, scope)
    slowest: dict[tuple[str, str], float] = {}  # of windows of the same length and unit
    for number, window in enumerate(state.windows):
        learned = [each.rate if number == 0 else None for each in members]
        rate = sum(window.rate if each is None else each for each in learned) / window.per
        names = (f"{window.per:g}s", window.unit)
        if rate >= slowest.get(names, math.inf):
            continue
        slowest[names] = rate
        tell("dpq_limit_rate", rate, scope, *names)
        tell("dpq_limit_burst", window.at_once * len(members), scope, *names)
        for name, field in (("units_left", "units_left"), ("granted_units", "granted")):
            units = [getattr(each, field) for each in members]
            if all(len(each) > number for each in units):
                tell(f"dpq_limit_{name}", sum(each[number] for each in units), scope, *names)
    for number, quota in enumerate(state.quotas):
        lefts = [each.quotas[number].left for each in members if len(each.quotas) > number]
        if lefts:
            tell("dpq_limit_units_left", sum(lefts), scope, quota.quota.period, quota.quota.unit)
