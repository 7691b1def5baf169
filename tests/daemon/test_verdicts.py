"""The incidents: each is planted, and read from verdict, `dpq why`, front page and alerts.

The runbook (docs/operations.md) is the other half of the table: it has what to do and the alert.
"""

import json
import math
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from markupsafe import escape
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from redis.exceptions import RedisError
from starlette.testclient import TestClient
from typer.testing import CliRunner

import dpq
from dpq import DPQ, Adaptive, Push, Quota
from dpq.cli import app
from dpq.explain.drain import Drain
from dpq.explain.incidents import OF_SERVER, REMEDIES, Warned
from dpq.explain.operations import one_apart
from dpq.explain.pace import Pace
from dpq.explain.verdict import verdict_of
from dpq.explain.verdict_facts import Facts
from dpq.metrics import Exporter
from dpq.model.producer import Producer
from dpq.script.command import CommandMaker
from dpq.script.keys import key_of
from dpq.server import Server
from dpq.testing import Clock
from dpq.types import Verdict, VerdictState
from dpq.verbs.workers import Doing
from dpq.views.sampler import Named
from dpq.views.words import Places
from dpq.web import app as dashboard

S, W = VerdictState, Warned

ROOT = Path(dpq.__file__).parents[1]

HELD: list[Any] = []
"""Permits that nobody gives back."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of all calls of this process, those of the command line too."""
    made = Clock(1_700_000_000_000)
    monkeypatch.setattr(CommandMaker, "_now", lambda self: made())
    return made


@pytest.fixture
def q(url: str, name: str, clock: Clock) -> Iterator[DPQ]:
    with DPQ.from_url(url, name) as queue:
        yield queue
        remove(queue)


def remove(q: DPQ) -> None:
    """Drop what was planted."""
    for queue in (q, *NEAR):
        queue.admin.drop()
    NEAR.clear()
    HELD.clear()


def beat(
    q: DPQ,
    running: int = 0,
    longest: int | None = None,
    worker: str = "w1",
    holds: int = 0,
    version: str = "0.1",
    name: str = "crawler",
) -> None:
    """Send a heartbeat of a worker with two handlers; `longest` is in ms."""
    leases = [(f"t{n}", n + 1) for n in range(holds)]
    doing = Doing(leases, longest, None if longest is None else "task-1")
    about = (worker, name, "box7", 4711, version, running, 2, 9.0, doing)
    q._session.run(q._operations.beat, *about)


def fill(q: DPQ, count: int = 4, group: str | None = "api") -> None:
    q.push_many([Push(n, group=group) for n in range(count)])


def busy(q: DPQ) -> None:
    """Push four tasks of a group, with a worker that has free handlers."""
    fill(q)
    beat(q)


class Planted(NamedTuple):
    plant: Callable[[DPQ, Clock], None]
    state: VerdictState
    words: str
    needs_person: bool = False
    also: tuple[VerdictState, ...] = ()
    warnings: tuple[Warned, ...] = ()
    cause: str = ""  # its row of the runbook, if that is not its state
    fires: str = ""  # the alert beside those of its rows

    @property
    def rows(self) -> tuple[str, ...]:
        """Its rows of the runbook."""
        return (self.cause or self.state, *self.warnings)

    @property
    def own_server(self) -> bool:
        """True if it is planted in the settings of a server."""
        return self.state is S.SERVER_REFUSES or bool(OF_SERVER.intersection(self.warnings))


PLANTED: list[Planted] = []
"""Each incident, as it is planted; what its sentence says; and if a person is needed."""

Plant = Callable[[DPQ, Clock], None]


def incident(*said: Any, **more: Any) -> Callable[[Plant], Plant]:
    """Add an incident: a function that plants it, with the other fields of `Planted`."""

    def add(plant: Plant) -> Plant:
        PLANTED.append(Planted(plant, *said, **more))
        return plant

    return add


def usual_runs(q: DPQ, clock: Clock) -> None:
    """Let some runs of 2 s end."""
    q.push_many([Push(n) for n in range(3)])
    for _ in range(3):
        task = q.pop().task
        clock.advance(2)
        q.ack(task)


@incident(S.UNREADABLE, "the stored limit of group 'api' cannot be read", True)
def unreadable(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.set_limit(1, 60, group="api")
    q.delay_group("api", 9)
    q.redis.hset(key_of(q.queue_name, "limits"), "group:api", "junk")
    q.delay_group("api", 0)
    q.pop()


@incident(S.PAUSED, "until it is resumed; the pause began at 22:13:20", True)
def paused_for_ever(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.pause()


@incident(S.PAUSED, "it is paused until 22:23:20 UTC; the pause began at 22:13:20 UTC, by ann@box7")
def paused_for_a_time(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.pause(600, by="ann@box7")


@incident(S.PAUSED, "also: no consumer", True, also=(S.NO_CONSUMER,))
def paused_and_no_consumer(q: DPQ, clock: Clock) -> None:
    fill(q)
    q.pause()


@incident(S.NO_CONSUMER, "4 tasks are due, and no consumer has ever", True)
def never_a_consumer(q: DPQ, clock: Clock) -> None:
    fill(q)


@incident(S.NO_CONSUMER, "has asked for one since 22:13:20 UTC; the leases of 2 of them have", True)
def the_last_pop_is_long_ago(q: DPQ, clock: Clock) -> None:
    fill(q, group=None)
    q.pop_many(2, visibility=30)
    clock.advance(100)


@incident(S.NO_CONSUMER, "its last worker, crawler on box7 (pid 4711), has sent no heartbeat", True)
def the_last_worker_is_silent(q: DPQ, clock: Clock) -> None:
    fill(q)
    q.pop(visibility=600)
    beat(q, running=1, longest=100, holds=1)
    clock.advance(40)


@incident(
    S.HANDLERS_BUSY,
    "2 of 2 handlers are busy, the longest for 8 m (99 of 100 end within 2 s): task task-1 in ",
    True,
)
def all_hang(q: DPQ, clock: Clock) -> None:
    usual_runs(q, clock)
    fill(q)
    clock.advance(480)
    beat(q, running=2, longest=480_000)


@incident(S.HANDLERS_BUSY, "hold 2 leases and ask for no more;", True, cause="all consumers busy")
def consumers_hang(q: DPQ, clock: Clock) -> None:
    usual_runs(q, clock)
    fill(q, group=None)
    for seconds in (450, 30):
        q.pop(visibility=3600)
        clock.advance(seconds)


@incident(
    S.RATE_LIMITED,
    "has answered 429 at 22:13:20 UTC: it is closed until 22:14:50 UTC; 4 of 4 due tasks wait",
)
def met_429(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.rate_limited(q.pop().task, 90)


@incident(S.RATE_LIMITED, "the first task of group 'api' after a 429 still runs")
def probe_runs(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.rate_limited(q.pop().task, 5)
    clock.advance(6)
    assert q.pop().task


@incident(S.RATE_LIMITED, "the host of the queue has answered 429", fires="GroupClosedLong")
def whole_queue_429(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.rate_limited(q.pop().task, 90, scope="queue")


@incident(S.MOVING, "3 tasks are due, and none is running")
def due_where_it_stands(q: DPQ, clock: Clock) -> None:
    q.push("its lease has ended")
    q.pop(visibility=5)
    q.push_many([Push(n, delay=5) for n in range(2)])
    clock.advance(6)
    beat(q)


@incident(S.PACED, "allows 6/min, of which 0.0 are left: it opens at 22:13:30 UTC")
def paced(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.set_limit(6, 60, group="api")
    q.ack(q.pop().task)


@incident(S.PACED, "allows 2/min, of which ", fires="429Share")
def learned(q: DPQ, clock: Clock) -> None:
    """Ten a minute are set, and 429s have taught fewer."""
    q.set_limit(10, 60, group="api", adaptive=Adaptive(2, 10))
    fill(q, 9)
    beat(q)
    while (q.admin.group("api").rate or 0) > 2:
        if task := q.pop().task:
            q.rate_limited(task, 1)
        clock.advance(60)
    while task := q.pop().task:
        q.ack(task)


@incident(S.CONCURRENCY, "group 'api' lets 1 task run at once", True)
def concurrency(q: DPQ, clock: Clock) -> None:
    usual_runs(q, clock)
    fill(q)
    q.set_limit(concurrency=1, group="api")
    assert q.pop(visibility=3600).task
    clock.advance(200)
    q.pop()
    beat(q, running=1, longest=200_000)


@incident(S.CONCURRENCY, "1 permit of `acquire` holds it", True, cause="held by permits")
def dead_permit(q: DPQ, clock: Clock) -> None:
    q.set_limit(concurrency=1, group="api")
    permit = q.acquire("api", timeout=0)
    permit.__enter__()
    HELD.append(permit)  # whoever forgets it gives it back
    busy(q)
    assert q.pop().task is None


@incident(S.QUOTA, "is spent until 2023-12-01 00:00:00 UTC", True)
def quota(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.set_limit(Quota(1, "month", timezone="UTC"), group="api")
    q.ack(q.pop().task)


@incident(S.BY_HAND, "was closed by hand at 22:13:20 UTC until it is", True)
def closed_by_hand(q: DPQ, clock: Clock) -> None:
    fill(q, group="shop one")
    beat(q)
    q.delay_group("shop one", None)


@incident(
    S.RATE_LIMITED,
    "the host of group 'api', members 'key-a' and 'key-b' has answered 429",
    fires="GroupClosedLong",
)
def both_members_met_429(q: DPQ, clock: Clock) -> None:
    q.set_limit(60, 60, group="api", members=["key-a", "key-b"])
    busy(q)
    for _ in range(2):
        q.rate_limited(q.pop().task, 300)


@incident(S.MOVING, "group 'api' is held by hand", fires="WillNotDrain")
def some_closed_others_move(q: DPQ, clock: Clock) -> None:
    fill(q, 50)
    fill(q, 2, group="other")
    beat(q)
    q.delay_group("api", None)


@incident(
    S.RATE_LIMITED,
    "22:23:20 UTC; 2 more groups are closed, the first until 22:14:20 UTC; 11 of 14 due tasks ",
    fires="WillNotDrain",
)
def several_groups_closed(q: DPQ, clock: Clock) -> None:
    for group, count in (("large", 9), ("small", 2), ("hand", 3)):
        fill(q, count, group)
    beat(q)
    for seconds in (600, 60):
        task = q.pop().task
        assert task.group == {600: "large", 60: "small"}[seconds]
        q.rate_limited(task, seconds)
    q.delay_group("hand", None)


@incident(S.ONLY_DELAYED, "1 task is delayed, the next one is due at 2023-11-15")
def only_delayed(q: DPQ, clock: Clock) -> None:
    q.push("x", delay=7200)


@incident(S.ONLY_DEAD, "3 tasks are dead; the last died: no page 2", True)
def only_dead(q: DPQ, clock: Clock) -> None:
    """Pages of a crawl: no warning says that they keep their keys, as their pushes wanted."""
    for n in range(3):
        q.push(n, key=f"page-{n}", unique_for=math.inf)
        q.bury(q.pop().task, f"no page {n}")


@incident(
    S.ALL_QUIET,
    "3 tasks are due, and all 2 workers are quiet, the last one since 22:13:25 UTC: crawler on "
    "box7 (pid 4711), told by ann@box7",
    True,
)
def all_quiet(q: DPQ, clock: Clock) -> None:
    busy(q)
    beat(q, worker="w2")
    q.admin.quiet("w1")
    clock.advance(5)
    q.admin.quiet("w2", by="ann@box7")
    clock.advance(9)
    beat(q, running=1, longest=100, holds=1)
    q.pop()  # as a quiet worker that has not heard it yet


@incident(S.MOVING, "1 of 2 workers is quiet")
def one_quiet(q: DPQ, clock: Clock) -> None:
    busy(q)
    beat(q, worker="w2")
    q.admin.quiet("w2")


@incident(S.MOVING, "4 tasks are due, and none is running; 1 attempt failed")
def moving(q: DPQ, clock: Clock) -> None:
    fill(q)
    remember(q)
    q.fail(q.pop().task, "KeyError", delay=0)
    clock.advance(1)
    beat(q, running=1, longest=100)


@incident(S.PAUSED, "; full: 4 of 4 tasks, so new tasks are refused", True, warnings=(W.FULL,))
def full_and_paused(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.admin.set_bounds(max_tasks=4)
    q.pause()


@incident(
    S.PACED, " waits for its retry until 22:23:20 UTC; 3 of 3 due tasks wait", cause="in order"
)
def in_order(q: DPQ, clock: Clock) -> None:
    """Only tasks that wait for the retry of the first one of their group."""
    q.set_limit(group="api", in_order=True)
    fill(q)
    q.fail(q.pop().task, "ConnectError", delay=600)
    beat(q)


def remember(q: DPQ) -> None:
    """Store a point of the history, as a worker does."""
    q._session.run(q._operations.remember)


@incident(
    S.FAILING,
    "40 of 43 attempts failed in the last minutes, most often: KeyError: order …; most of "
    "them of task ",
    True,
)
def poison(q: DPQ, clock: Clock) -> None:
    """One task fails again and again; others end well."""
    q.push("poison", max_attempts=99)
    remember(q)
    for _ in range(40):
        task = q.pop().task
        q.fail(task, f"KeyError: order {task.token}", delay=0)
    assert q.pop(visibility=600).task
    usual_runs(q, clock)
    beat(q)


@incident(S.FAILING, "HTTP 401; most of them of member key-b", True)
def a_key_gets_401(q: DPQ, clock: Clock) -> None:
    """The host refuses one of two keys."""
    q.set_limit(600, 60, burst=100, group="api", members=["key-a", "key-b"])
    fill(q, 40)
    remember(q)
    for _ in range(40):
        if task := q.pop().task:
            (q.fail(task, "HTTP 401", delay=90) if task.member == "key-b" else q.ack(task))
    beat(q)
    clock.advance(1)


@incident(S.MOVING, "no live task is left; 3 tasks were finished in the", fires="DeadGrowing")
def flows_beside_the_dead(q: DPQ, clock: Clock) -> None:
    """A task has died long ago; between two tasks of now nothing is due."""
    only_dead(q, clock)
    clock.advance(3600)
    remember(q)
    for _ in range(3):
        q.push("x")
        q.ack(q.pop().task)
        clock.advance(15)


@incident(
    S.FAILING,
    "30 tasks of the last minutes have died, and none ended well; the last died: no such page",
    True,
    cause="all die",
)
def full_of_the_dying(q: DPQ, clock: Clock) -> None:
    """Tasks end only by their death: nothing is finished."""
    fill(q, 100)
    remember(q)
    for _ in range(30):
        q.bury(q.pop().task, "no such page")
        clock.advance(2)
        beat(q)


@incident(S.MOVING, " is dead: HTTP 401", warnings=(W.SCHEDULE_DIED,), fires="DeadGrowing")
def schedule_died(q: DPQ, clock: Clock) -> None:
    q.push("nightly", every=3600)
    q.bury(q.pop().task, "HTTP 401")
    for n in range(9):
        q.push(n)
        q.bury(q.pop().task, f"no page {n}")
    busy(q)


@incident(S.MOVING, "1 dead letter keeps its key, 'order-1'", warnings=(W.KEY_HELD,))
def key_held(q: DPQ, clock: Clock) -> None:
    q.push("order", key="order-1")
    q.bury(q.pop().task, "no stock")
    assert q.push("order", key="order-1", on_duplicate="keep")
    busy(q)


@incident(S.MOVING, "1 task is dead", fires="OldestDueHigh")
def key_held_long_ago(q: DPQ, clock: Clock) -> None:
    key_held(q, clock)
    clock.advance(90_000)
    beat(q)


@incident(S.MOVING, "; 1 producer waits for room", warnings=(W.FULL, W.PRODUCERS_WAIT))
def producer_waits(q: DPQ, clock: Clock) -> None:
    q.admin.set_bounds(max_tasks=1)
    fill(q, 1)
    beat(q)
    assert q._session.run(q._operations.await_room, Producer(0, None))


@incident(
    S.MOVING, "group 'api' is full: 2 of 2 tasks", warnings=(W.GROUP_FULL,), fires="WillNotDrain"
)
def group_full(q: DPQ, clock: Clock) -> None:
    q.admin.set_bounds(max_waiting=2)
    fill(q, 2)
    fill(q, 1, "other")
    q.delay_group("api", None)
    beat(q)


@incident(S.MOVING, "its bound of 1 seen key is reached", warnings=(W.SEEN_FULL,))
def seen_full(q: DPQ, clock: Clock) -> None:
    with DPQ(q.redis, q.queue_name, seen_max_keys=1) as capped:
        capped.push("page", key="page", unique_for=3600)
        capped.ack(capped.pop().task)
    busy(q)


@incident(
    S.ONLY_DELAYED,
    "batch 'crawl' cannot end: 1 of its tasks is left, and none has ended since 22:13:20 UTC",
    warnings=(W.BATCH_STANDS,),
)
def batch_stands(q: DPQ, clock: Clock) -> None:
    q.push("page", batch="crawl", delay=7200)
    q.seal_batch("crawl", on_finish=Push("report"))
    clock.advance(4000)


@incident(
    S.MOVING,
    "batch 'crawl' cannot end: nothing is left since 22:13:20 UTC, but nobody has sealed it",
    warnings=(W.NOT_SEALED,),
)
def batch_not_sealed(q: DPQ, clock: Clock) -> None:
    """All its tasks have ended, and what was to follow never comes."""
    q.push("page", batch="crawl")
    q.ack(q.pop().task)
    clock.advance(4000)
    busy(q)


@incident(S.MOVING, " of group 'slow.example' is held for 8 m 20 s (99 of 100 end within ")
def one_hangs(q: DPQ, clock: Clock) -> None:
    """A handler hangs, and the other one works on."""
    usual_runs(q, clock)
    remember(q)
    fill(q, 1, "slow.example")
    assert q.pop(visibility=3600).task
    for _ in range(5):
        clock.advance(100)
        q.push("x")
        q.ack(q.pop().task)
    fill(q)
    beat(q, running=1, longest=500_000)


@incident(S.MOVING, "group 'api2' has no limit; group 'api1', one letter away, has one, unused")
def limit_of_a_near_group(q: DPQ, clock: Clock) -> None:
    """The limit is of group api1; the tasks are of group api2."""
    q.set_limit(6, 60, group="api1")
    fill(q, group="api2")
    beat(q)


@incident(S.FAILING, "KeyError; most of them of version a1b2", True)
def an_old_program(q: DPQ, clock: Clock) -> None:
    """One of two workers still has the version that fails."""
    fill(q, 60, None)
    remember(q)
    for worker, version in ("w1", "0.1/a1b2"), ("w2", "0.1/a1b2"), ("w3", "0.1/c3d4"):
        beat(q, worker=worker, version=version, name=worker)
    for n in range(45):
        task = q.pop().task
        if n % 3 == 2:
            q.ack(task)
        else:
            source = f"w{n % 3 + 1}\t"
            q._session.run(q._operations.fail, task, "KeyError", 600, source=source)
    clock.advance(1)


@incident(S.UNKNOWN_QUEUE, "there is no queue '", True)
def unknown_queue(q: DPQ, clock: Clock) -> None:
    """Nothing was ever pushed."""


@incident(S.SERVER_REFUSES, "the server's memory is full (", True, cause="memory full")
def memory_full(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.redis.config_set("maxmemory", "1mb")


@incident(S.SERVER_REFUSES, "the server is a read-only replica", True, cause="read-only replica")
def replica(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.redis.execute_command("REPLICAOF", "127.0.0.1", "1")


@incident(S.SERVER_REFUSES, "could not write its data to disk", True, cause="disk error")
def disk_error(q: DPQ, clock: Clock) -> None:
    """A snapshot cannot be stored, since its name is taken by a directory."""
    busy(q)
    (Path(q.redis.config_get("dir")["dir"]) / "dump.rdb").mkdir()
    q.redis.config_set("save", "900 1")
    q.redis.bgsave()
    while q.redis.info("persistence")["rdb_last_bgsave_status"] == "ok":
        time.sleep(0.01)


@incident(S.MOVING, "deletes keys when its memory is full (allkeys-lru)", warnings=(W.EVICTS,))
def evicts(q: DPQ, clock: Clock) -> None:
    busy(q)
    q.redis.config_set("maxmemory", "100mb")
    q.redis.config_set("maxmemory-policy", "allkeys-lru")


@incident(
    S.MOVING, "when its memory is full (allkeys-lru), ", warnings=(W.EVICTS,), fires="KeysEvicted"
)
def has_evicted(q: DPQ, clock: Clock) -> None:
    """The memory was full, and keys of another program had to go."""
    q.stats()  # it looks at the server's settings only now
    for n in range(50):
        q.redis.set(f"cache:{n}", "x" * 100_000)
    q.redis.config_set("maxmemory-policy", "allkeys-lru")
    q.redis.config_set("maxmemory", q.redis.info("memory")["used_memory"] - 1_000_000)
    q.redis.set("cache:50", "x")
    assert q.redis.info("stats")["evicted_keys"]
    q.redis.config_set("maxmemory", "100mb")
    busy(q)


@incident(S.MOVING, "; the server writes no AOF, and what came since ", warnings=(W.NOT_SAVED,))
def not_saved(q: DPQ, clock: Clock) -> None:
    """The server has neither AOF nor snapshots, and ran for three hours."""
    clock.ms = int(time.time() * 1000) + 3 * 3_600_000
    busy(q)


@incident(S.NO_CONSUMER, ", whose name is one letter away", True, cause="consumers elsewhere")
def consumers_of_a_near_queue(q: DPQ, clock: Clock) -> None:
    fill(q)
    with DPQ(q.redis, f"{q.queue_name}s") as near:
        near.push("x")
        near.ack(near.pop().task)
    NEAR.append(near)


NEAR: list[DPQ] = []
"""Queues beside that of a test, which it drops."""


@incident(S.EMPTY, "no task is stored")
def empty(q: DPQ, clock: Clock) -> None:
    q.push("x")
    q.ack(q.pop().task)


NOT_PLANTED = {"server refuses", "server away", "server silent", "concurrency too low"}
"""Rows of the runbook without a line above: the first has only causes, the next two have tests of
their own, and the last takes more than 100 leases."""


class Night(NamedTuple):
    """A planted incident: its line, its queue, the URL, and the verdict."""

    wanted: Planted
    q: DPQ
    url: str
    verdict: Verdict


@contextmanager
def planting(each: Planted, url: str, name: str, clock: Clock) -> Iterator[tuple[DPQ, str]]:
    """Plant an incident, if need be at a server of its own."""
    clock.ms = 1_700_000_000_000
    if each.own_server:
        with Server.start() as server, DPQ.from_url(server.url, name) as queue:
            each.plant(queue, clock)
            yield queue, server.url
    else:
        with DPQ.from_url(url, name) as queue:
            each.plant(queue, clock)
            yield queue, url
            remove(queue)


@pytest.fixture(params=PLANTED, ids=lambda each: each.plant.__name__)
def planted(request: pytest.FixtureRequest, url: str, name: str, clock: Clock) -> Iterator[Night]:
    """A planted incident."""
    with planting(request.param, url, name, clock) as (queue, where):
        yield Night(request.param, queue, where, queue.why())


def test_each_incident(planted: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict has the state that was planted and says why; `dpq why` prints it; the front page
    has it in its colour, and with what to do on top if that helps."""
    monkeypatch.setenv("COLUMNS", "300")
    wanted, q, url, verdict = planted
    assert (verdict.state, verdict.also) == (wanted.state, wanted.also), verdict
    assert verdict.warnings == wanted.warnings
    assert wanted.words in str(verdict)
    assert verdict.needs_person is wanted.needs_person
    assert bool(verdict.what_to_do) or not (wanted.needs_person or wanted.warnings)
    assert (verdict.severity == "bad") is wanted.needs_person
    assert verdict.severity in ("bad", "warn") or not wanted.warnings
    assert str(verdict).count(". ") == 0  # one sentence
    assert not re.search(r"\b1 (task|attempt|worker|group|lease|permit|key|handler)s", str(verdict))
    lines = [str(verdict), *filter(None, [verdict.what_to_do])]
    assert run(q, url, "why").stdout.splitlines() == lines
    with TestClient(dashboard([q]), base_url="http://127.0.0.1:8321") as browser:
        page = browser.get("/").text
    assert str(escape(str(verdict))) in page
    assert re.search(rf'class="(tag|dot) {verdict.severity}"', page)
    assert ("1 queue needs" in page) is verdict.needs_person
    if of_server := OF_SERVER.intersection(wanted.warnings):
        assert f"warning: {next(iter(of_server))}" in run(q, url, "doctor", "--quick").stdout
    on_top = page.partition('id="queues"')[0]
    for command in re.findall("`([^`]+)`", verdict.what_to_do):
        copied = f'data-copy="{escape(command)}"' in on_top
        assert copied is bool(verdict.needs_person or verdict.warnings)


HELP = ("open", "resume", "replay", "set", "task", "--held-for", "--seal", "--unquiet")
"""Words of commands that end what was planted."""


def run(q: DPQ, url: str, *words: str) -> Any:
    """Call the command line."""
    return CliRunner().invoke(app, ["--url", url, "--queue", q.queue_name, *words])


def test_each_command_that_is_named_works(planted: Night) -> None:
    """The command line takes each command of a verdict as it stands, and one of them helps."""
    _, q, url, verdict = planted
    named = re.findall(r"`dpq ([^`]+)`", verdict.what_to_do)
    assert named or not verdict.needs_person or "CONFIG" in verdict.what_to_do
    for command in named:
        filled = command.replace("RATE", "5/s").replace("--concurrency N", "--concurrency 3")
        words = shlex.split(filled)
        words += ["--yes"] * ("bulk" in words)  # it asks at a terminal
        if words[0] == "worker":
            continue  # it would run
        done = CliRunner().invoke(app, ["--url", url, *words], input="y\n")
        assert done.exit_code == 0 or words[0] == "doctor", (command, done.output)
    if {*HELP} & {*verdict.what_to_do.split()}:
        now = q.why()
        assert (now.state, now.warnings) != (verdict.state, verdict.warnings)


@pytest.mark.parametrize(
    "planted", PLANTED[::8], ids=lambda each: each.plant.__name__, indirect=True
)
def test_every_surface_says_the_same(planted: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line, the dashboard, its API and the metrics show the words of any state."""
    monkeypatch.setenv("COLUMNS", "300")
    wanted, q, url, verdict = planted
    sentence, name = str(verdict), q.queue_name
    assert json.loads(run(q, url, "why", "--json").stdout)["sentence"] == sentence
    assert sentence in " ".join(run(q, url, "stats").stdout.split())
    assert json.loads(run(q, url, "stats", "--json").stdout)["verdict"]["sentence"] == sentence
    assert sentence in " ".join(run(q, url, "queues").stdout.split())
    rows = map(json.loads, run(q, url, "queues", "--json").stdout.splitlines())
    assert {row["queue"]: row for row in rows}[name]["verdict"]["sentence"] == sentence
    doctor = run(q, url, "doctor")
    assert (f"  {sentence}\n" in doctor.stdout) is wanted.needs_person
    assert sentence in " ".join((doctor.stdout + doctor.stderr).split())
    assert doctor.exit_code == 1  # its clock is far off
    with TestClient(dashboard([q]), base_url="http://127.0.0.1:8321") as browser:
        for path in ("/", f"/q/{name}"):
            assert str(escape(sentence)) in browser.get(path).text, path
        said = browser.get(f"/api/queues/{name}").json()["verdict"]
        assert said["sentence"] == sentence
        assert Verdict.model_validate({k: v for k, v in said.items() if k != "sentence"}) == verdict
        listed = browser.get("/api/queues").json()["queues"]
        assert [each["verdict"]["sentence"] for each in listed] == [sentence]
    samples = {
        sample.labels.get("state") or sample.labels["kind"]: sample.value
        for family in told(q)
        for sample in family.samples
        if sample.name in ("dpq_verdict", "dpq_warning")
    }
    assert samples == {state.value: state is verdict.state for state in VerdictState} | {
        kind.value: kind in wanted.warnings for kind in Warned
    }


def test_a_hang_is_said_before_the_rates_show_it(q: DPQ, clock: Clock) -> None:
    """Rates cover minutes: all handlers can hang while the rates say that tasks end."""
    all_hang(q, clock)
    seen = q._session.run(q._operations.overview)
    flowing = Pace("clears", 0.0, 20.0, 20.0, 1.0, 2.0, 300.0)
    drain = Drain(seconds=1.0, state="clears", because="", backlog=4)
    assert verdict_of(Facts(q.queue_name, *seen, flowing, drain)).state is S.HANDLERS_BUSY
    beat(q, running=2, longest=480_000, holds=9)  # the worker has popped tasks ahead
    seen = q._session.run(q._operations.overview)
    assert verdict_of(Facts(q.queue_name, *seen, flowing, drain)).state is S.MOVING


@pytest.mark.parametrize("every", [99, 2])
def test_a_busy_queue_has_one_word(every: int, q: DPQ, clock: Clock) -> None:
    """20 looks in 20 s, at a rate that is spent in most of them, between tasks, and while some of
    them meet a 429: one word."""
    only_dead(q, clock)
    q.set_limit(30, 60, group="api")
    remember(q)
    fill(q, 9)
    states, popped = set(), 0
    for second in range(25):
        if task := q.pop().task:
            popped += 1
            q.rate_limited(task, 2) if popped % every == 0 else q.ack(task)
        if second > 4:
            states.add(q.why().state)
        clock.advance(1)
    assert states == {S.MOVING}


def test_growing_is_not_green(q: DPQ, clock: Clock) -> None:
    """A queue that moves, but slower than tasks come, is marked in every place."""
    beat(q)
    remember(q)
    for _ in range(30):
        fill(q, 20)
        q.ack(q.pop().task)
        clock.advance(10)
        remember(q)
        beat(q)
    verdict = q.why()
    assert (verdict.state, verdict.severity) == (S.MOVING, "warn")
    assert "; growing by 2/s" in verdict.because


def test_one_done_when(q: DPQ, url: str, clock: Clock) -> None:
    """The verdict, `drain()` and `stats` say the same, with the learned rate, not the one set."""
    learned(q, clock)
    fill(q, 100)
    verdict, drain = q.why(), q.admin.drain()
    assert verdict.drain == drain
    assert (drain.state, drain.because) == ("clears", "group 'api': 2/min, as learned")
    assert f"drain: {drain.say}: {drain.because}" in run(q, url, "stats").stdout
    assert "10/min" not in str(verdict)


def test_what_changed(url: str, name: str) -> None:
    """`dpq why` names the last change beside the verdict, with the way back of a limit."""
    with DPQ.from_url(url, name) as q:
        for rate in (20, 2):
            q.set_limit(rate, 1, group="api")
        ran = run(q, url, "why")
        assert ran.stdout.startswith("empty: ")
        back = f"`dpq limit undo --group api --queue {name}` is the way back"
        assert re.fullmatch(
            rf"changed \d+ m?s ago: limit set of group 'api': 2/s \(was 20/s\), by .*\n{back}\n",
            ran.stderr,
        )
        beat(q, version="0.1/c3d4")
        assert "ago: deployed: version c3d4\n" in run(q, url, "why").stderr
        remove(q)


def test_names_one_apart() -> None:
    """A letter more, less or another one is near; nothing else is."""
    near = [("email", "emails"), ("emails", "mails"), ("db1", "db2"), ("", "a")]
    assert all(one_apart(*pair) and one_apart(*pair[::-1]) for pair in near)
    far = [("email", "email"), ("email", "mails"), ("ab", "ba"), ("db1", "db11x")]
    assert not any(one_apart(*pair) for pair in far)


def test_another_database() -> None:
    """The verdict on an unknown queue names the databases with keys: the URL may name a wrong
    one."""
    with Server.start() as server:
        for number in (0, 2):
            with DPQ.from_url(f"{server.url}?db={number}", "mails") as mails:
                mails.push("x")
        with DPQ.from_url(server.url, "news") as news:
            assert "keys in the databases 0, 2: the URL names one" in news.why().because
        with DPQ.from_url(f"{server.url}?db=1", "news") as news:
            assert "no queue 'news', nor any other: the first push" in news.why().because


def test_queues_keep_their_places() -> None:
    """The order of queues that need a person is made once a minute; new ones come last."""
    clock = Clock(0)
    places = Places(lambda: clock.ms / 1000 + 100)

    def order(**states: VerdictState) -> list[str]:
        said = [
            Verdict(queue=name, state=state, because="", needs_person=state is not S.MOVING)
            for name, state in states.items()
        ]
        return [each.queue for each in places.order(said)]

    assert order(a=S.PAUSED, b=S.NO_CONSUMER) == ["b", "a"]
    assert order(a=S.UNREADABLE, b=S.MOVING, c=S.UNREADABLE) == ["a", "c"]
    assert order(a=S.UNREADABLE, b=S.NO_CONSUMER, c=S.UNREADABLE) == ["b", "a", "c"]
    clock.advance(60)
    assert order(a=S.PAUSED, b=S.NO_CONSUMER, c=S.UNREADABLE) == ["c", "b", "a"]


SAMPLES = {
    **{"queue": "--queue emails", "scope": "--group api.example ", "group": "api.example"},
    **{"task": "ID", "token": "TOKEN", "worker": "NAME", "batch": "NAME", "seconds": "SECONDS"},
}
"""What the runbook has in the places of names."""

RUNBOOK = {
    name: (remedy, alert)
    for name, remedy, alert in re.findall(
        r"^\| `([^`]+)` \| .+ \| (.+) \| (.*) \|$",
        (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Sizing")[0],
        re.MULTILINE,
    )
}
"""What to do and the alert, by the name of a state, of its cause or of a warning."""

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
RULES = ALERTS.read_text("utf-8")


def test_the_runbook() -> None:
    """Each state, cause and warning has a row, with its remedy, and all but two are planted."""
    assert [name for name in RUNBOOK if name in {*VerdictState}] == [*VerdictState]
    assert {*RUNBOOK} == {*REMEDIES, *VerdictState}
    for name, (remedy, _) in RUNBOOK.items():
        assert remedy == REMEDIES.get(name, "nothing").format(**SAMPLES), name
    for _, alert in RUNBOOK.values():
        assert alert == "none" or f"alert: {alert}\n" in RULES
    planted = {row for each in PLANTED for row in each.rows}
    assert {*RUNBOOK} - planted == {*NOT_PLANTED}


@pytest.mark.skipif(
    not shutil.which("promtool"), reason="no promtool here: apt-get install prometheus"
)
def test_the_alerts(url: str, clock: Clock, tmp_path: Path) -> None:
    """If an incident lasts for two hours, the alerts that its rows name fire, and no other."""
    series, wanted = [], []
    for each in PLANTED:
        with planting(each, url, f"night-{uuid4()}", clock) as (q, _):
            series += series_of(each.plant.__name__, q)
        fire = {RUNBOOK[row][1] for row in each.rows} | {each.fires or "none"}
        wanted += [(each.plant.__name__, alert) for alert in fire - {"none", "NoAof"}]
    with Server.start() as server, DPQ.from_url(server.url, "mails") as mails:
        mails.push("x")
        server.close()
        mails.redis.connection_pool.disconnect()
        series += series_of("server_away", mails)
        wanted.append(("server_away", "ServerAway"))
    firing = 'max by (server, alertname) (ALERTS{alertstate="firing", alertname!="NoAof"})'
    found = [{"labels": f'{{server="{at}",alertname="{name}"}}', "value": 1} for at, name in wanted]
    asked = {"expr": firing, "eval_time": "110m", "exp_samples": found}
    case = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}
    file = tmp_path / "incidents.json"
    file.write_text(
        json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "5m", "tests": [case]})
    )
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    lines = re.findall(r"^ +(?:exp|got): (.*)$", done.stdout + done.stderr, re.MULTILINE)
    said = [{*re.findall(r"{.*?}", line)} for line in lines]
    assert done.returncode == 0, said[0] ^ said[1] if said else done.stderr


def series_of(name: str, q: DPQ) -> list[dict[str, str]]:
    """What the exporter tells: gauges stay, and counters rise by as much every 10 minutes."""
    series = []
    for family in told(q, name):
        for sample in family.samples if family.name in RULES else ():
            labels = ",".join(f"{key}={json.dumps(value)}" for key, value in sample.labels.items())
            value = f"{sample.value:g}+0".replace("inf", "Inf")
            if family.type == "counter":
                value = f"0+{sample.value / 10:g}"
            series.append({"series": f"{sample.name}{{{labels}}}", "values": f"{value}x120"})
    return series


def told(q: DPQ, server: str = "") -> list[Metric]:
    """What the exporter tells of a queue."""
    text = Exporter(Named([q]), server=server).text().decode()
    return list(text_string_to_metric_families(text))


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (memory_full, r"memory is full \(maxmemory\), so it refuses this call"),
        (replica, "is a read-only replica, so it refuses all changes"),
        (disk_error, "cannot write its data to disk, so it refuses all changes"),
    ],
)
def test_a_refused_push(plant: Callable[[DPQ, Clock], None], words: str, clock: Clock) -> None:
    """Its error says in words what the verdict says, without the name of a script."""
    with Server.start() as server, DPQ.from_url(server.url, "mails") as mails:
        plant(mails, clock)
        with pytest.raises(RedisError, match=words) as refused:
            mails.push("y")
        assert "script" not in str(refused.value)


def test_a_server_that_is_away() -> None:
    """The command line, the dashboard and its API say that the server is away, since when."""
    with Server.start() as server, DPQ.from_url(server.url, "mails") as mails:
        mails.push("x")
        site = dashboard([mails])
        with TestClient(site, base_url="http://127.0.0.1:8321") as browser:
            assert "no consumer" in browser.get("/q/mails").text
            server.close()
            mails.redis.connection_pool.disconnect()
            for path in ("/q/mails/limits", "/api/queues/mails/limits"):
                page = browser.get(path)
                assert page.status_code == 503
                assert "erver away: the server has not answered since " in page.text
        for command in ("why", "stats", "doctor"):
            ran = CliRunner().invoke(app, ["--url", server.url, "--queue", "mails", command])
            assert "server away: the server has not answered since " in ran.output, command
            assert ran.exit_code == 1
