"""The verdict: each state is planted, and read word for word from every surface."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from markupsafe import escape
from prometheus_client.parser import text_string_to_metric_families
from redis.exceptions import RedisError
from starlette.testclient import TestClient
from typer.testing import CliRunner

import dpq
from dpq import DPQ, Adaptive, Push, Quota
from dpq.cli import app
from dpq.explain.drain import Drain
from dpq.explain.incidents import REMEDIES, SEVERITIES, Warned
from dpq.explain.pace import Pace
from dpq.explain.verdict import one_apart, verdict_of
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
        queue.admin.drop()
        while NEAR:
            NEAR.pop().admin.drop()


def beat(
    q: DPQ, running: int = 0, longest: int | None = None, worker: str = "w1", holds: int = 0
) -> None:
    """Send a heartbeat of a worker with two handlers; `longest` is in ms."""
    leases = [(f"t{n}", n + 1) for n in range(holds)]
    doing = Doing(leases, longest, None if longest is None else "task-1")
    q._session.run(
        q._operations.beat, worker, "crawler", "box7", 4711, "0.1", running, 2, 9.0, doing
    )


def fill(q: DPQ, count: int = 4, group: str | None = "api") -> None:
    q.push_many([Push(n, group=group) for n in range(count)])


def usual_runs(q: DPQ, clock: Clock) -> None:
    """Let some runs of 2 s end."""
    q.push_many([Push(n) for n in range(3)])
    for _ in range(3):
        task = q.pop().task
        clock.advance(2)
        q.ack(task)


def unreadable(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.set_limit(1, 60, group="api")
    q.delay_group("api", 9)
    q.redis.hset(key_of(q.queue_name, "limits"), "group:api", "junk")
    q.delay_group("api", 0)
    q.pop()


def paused_for_ever(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.pause()


def paused_for_a_time(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.pause(600, by="ann@box7")


def paused_and_no_consumer(q: DPQ, clock: Clock) -> None:
    fill(q)
    q.pause()


def never_a_consumer(q: DPQ, clock: Clock) -> None:
    fill(q)


def the_last_pop_is_long_ago(q: DPQ, clock: Clock) -> None:
    fill(q, group=None)
    q.pop_many(2, visibility=30)
    clock.advance(100)


def the_last_worker_is_silent(q: DPQ, clock: Clock) -> None:
    fill(q)
    q.pop(visibility=600)
    beat(q, running=1, longest=100, holds=1)
    clock.advance(40)


def all_hang(q: DPQ, clock: Clock) -> None:
    usual_runs(q, clock)
    fill(q)
    clock.advance(480)
    beat(q, running=2, longest=480_000)


def consumers_hang(q: DPQ, clock: Clock) -> None:
    usual_runs(q, clock)
    fill(q, group=None)
    for seconds in (450, 30):
        q.pop(visibility=3600)
        clock.advance(seconds)


def met_429(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.rate_limited(q.pop().task, 90)


def probe_runs(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.rate_limited(q.pop().task, 5)
    clock.advance(6)
    assert q.pop().task


def whole_queue_429(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.rate_limited(q.pop().task, 90, scope="queue")


def due_where_it_stands(q: DPQ, clock: Clock) -> None:
    q.push("its lease has ended")
    q.pop(visibility=5)
    q.push_many([Push(n, delay=5) for n in range(2)])
    clock.advance(6)
    beat(q)


def paced(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.set_limit(6, 60, group="api")
    q.ack(q.pop().task)


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


def concurrency(q: DPQ, clock: Clock) -> None:
    usual_runs(q, clock)
    fill(q)
    q.set_limit(concurrency=1, group="api")
    assert q.pop(visibility=3600).task
    clock.advance(200)
    q.pop()
    beat(q, running=1, longest=200_000)


def dead_permit(q: DPQ, clock: Clock) -> None:
    q.set_limit(concurrency=1, group="api")
    permit = q.acquire("api", timeout=0)
    permit.__enter__()
    HELD.append(permit)  # whoever forgets it gives it back
    fill(q)
    beat(q)
    assert q.pop().task is None


def quota(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.set_limit(Quota(1, "month", timezone="UTC"), group="api")
    q.ack(q.pop().task)


def closed_by_hand(q: DPQ, clock: Clock) -> None:
    fill(q, group="shop one")
    beat(q)
    q.delay_group("shop one", None)


def both_members_met_429(q: DPQ, clock: Clock) -> None:
    q.set_limit(60, 60, group="api", members=["key-a", "key-b"])
    fill(q)
    beat(q)
    for _ in range(2):
        q.rate_limited(q.pop().task, 300)


def some_closed_others_move(q: DPQ, clock: Clock) -> None:
    fill(q, 50)
    fill(q, 2, group="other")
    beat(q)
    q.delay_group("api", None)


def several_groups_closed(q: DPQ, clock: Clock) -> None:
    for group, count in (("large", 9), ("small", 2), ("hand", 3)):
        fill(q, count, group)
    beat(q)
    for seconds in (600, 60):
        task = q.pop().task
        assert task.group == {600: "large", 60: "small"}[seconds]
        q.rate_limited(task, seconds)
    q.delay_group("hand", None)


def only_delayed(q: DPQ, clock: Clock) -> None:
    q.push("x", delay=7200)


def only_dead(q: DPQ, clock: Clock) -> None:
    for n in range(3):
        q.push(n)
        q.bury(q.pop().task, f"no page {n}")


def all_quiet(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    beat(q, worker="w2")
    q.admin.quiet("w1")
    clock.advance(5)
    q.admin.quiet("w2", by="ann@box7")
    clock.advance(9)
    beat(q, running=1, longest=100, holds=1)
    q.pop()  # as a quiet worker that has not heard it yet


def one_quiet(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    beat(q, worker="w2")
    q.admin.quiet("w2")


def moving(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q, running=1, longest=100)


def full_and_paused(q: DPQ, clock: Clock) -> None:
    fill(q)
    beat(q)
    q.admin.set_bounds(max_tasks=4)
    q.pause()


def in_order(q: DPQ, clock: Clock) -> None:
    """Only tasks that wait for the retry of the first one of their group."""
    q.set_limit(group="api", in_order=True)
    fill(q)
    q.fail(q.pop().task, "ConnectError", delay=600)
    beat(q)


def remember(q: DPQ) -> None:
    """Store a point of the history, as a worker does."""
    q._session.run(q._operations.remember)


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


def flows_beside_the_dead(q: DPQ, clock: Clock) -> None:
    """A task has died long ago; between two tasks of now nothing is due."""
    only_dead(q, clock)
    clock.advance(3600)
    remember(q)
    for _ in range(3):
        q.push("x")
        q.ack(q.pop().task)
        clock.advance(15)


def full_of_the_dying(q: DPQ, clock: Clock) -> None:
    """Tasks end only by their death: nothing is finished."""
    fill(q, 100)
    remember(q)
    for _ in range(30):
        q.bury(q.pop().task, "no such page")
        clock.advance(2)
        beat(q)


def schedule_died(q: DPQ, clock: Clock) -> None:
    q.push("nightly", every=3600)
    q.bury(q.pop().task, "HTTP 401")
    for n in range(9):
        q.push(n)
        q.bury(q.pop().task, f"no page {n}")
    fill(q)
    beat(q)


def key_held(q: DPQ, clock: Clock) -> None:
    q.push("order", key="order-1")
    q.bury(q.pop().task, "no stock")
    assert q.push("order", key="order-1", on_duplicate="keep")
    fill(q)
    beat(q)


def key_held_long_ago(q: DPQ, clock: Clock) -> None:
    key_held(q, clock)
    clock.advance(90_000)
    beat(q)


def producer_waits(q: DPQ, clock: Clock) -> None:
    q.admin.set_bounds(max_tasks=1)
    fill(q, 1)
    beat(q)
    assert q._session.run(q._operations.await_room, Producer(0, None))


def group_full(q: DPQ, clock: Clock) -> None:
    q.admin.set_bounds(max_waiting=2)
    fill(q, 2)
    fill(q, 1, "other")
    q.delay_group("api", None)
    beat(q)


def seen_full(q: DPQ, clock: Clock) -> None:
    with DPQ(q.redis, q.queue_name, seen_max_keys=1) as capped:
        capped.push("page", key="page", unique_for=3600)
        capped.ack(capped.pop().task)
    fill(q)
    beat(q)


def batch_stands(q: DPQ, clock: Clock) -> None:
    q.push("page", batch="crawl", delay=7200)
    q.seal_batch("crawl", on_finish=Push("report"))
    clock.advance(4000)


def consumers_of_a_near_queue(q: DPQ, clock: Clock) -> None:
    fill(q)
    with DPQ(q.redis, f"{q.queue_name}s") as near:
        near.push("x")
        near.ack(near.pop().task)
    NEAR.append(near)


NEAR: list[DPQ] = []
"""Queues beside that of a test, which it drops."""


def empty(q: DPQ, clock: Clock) -> None:
    q.push("x")
    q.ack(q.pop().task)


class Planted(NamedTuple):
    plant: Callable[[DPQ, Clock], None]
    state: VerdictState
    words: str
    needs_person: bool = False
    also: tuple[VerdictState, ...] = ()
    warnings: tuple[Warned, ...] = ()


PLANTED = [
    Planted(unreadable, S.UNREADABLE, "the stored limit of group 'api' cannot be read", True),
    Planted(
        *(full_and_paused, S.PAUSED, "; full: 4 of 4 tasks, so new tasks are refused", True),
        warnings=(W.FULL,),
    ),
    Planted(paused_for_ever, S.PAUSED, "until it is resumed; the pause began at 22:13:20", True),
    Planted(
        paused_for_a_time,
        S.PAUSED,
        "it is paused until 22:23:20 UTC; the pause began at 22:13:20 UTC, by ann@box7",
    ),
    Planted(paused_and_no_consumer, S.PAUSED, "also: no consumer", True, (S.NO_CONSUMER,)),
    Planted(
        *(all_quiet, S.ALL_QUIET),
        "3 tasks are due, and all 2 workers are quiet, the last one since 22:13:25 UTC: crawler on "
        "box7 (pid 4711), told by ann@box7",
        True,
    ),
    Planted(one_quiet, S.MOVING, "1 of 2 workers is quiet"),
    Planted(never_a_consumer, S.NO_CONSUMER, "4 tasks are due, and no consumer has ever", True),
    Planted(
        *(the_last_pop_is_long_ago, S.NO_CONSUMER),
        "has asked for one since 22:13:20 UTC; the leases of 2 of them have ended",
        True,
    ),
    Planted(
        *(the_last_worker_is_silent, S.NO_CONSUMER),
        "its last worker, crawler on box7 (pid 4711), has sent no heartbeat since 22:13:20",
        True,
    ),
    Planted(
        *(all_hang, S.HANDLERS_BUSY),
        "2 of 2 handlers are busy, the longest for 8 m (99 of 100 end within 2 s): task task-1 in "
        "crawler on box7 (pid 4711)",
        True,
    ),
    Planted(
        *(consumers_hang, S.HANDLERS_BUSY),
        "hold 2 leases and ask for no more, the longest for 8 m (99 of 100 end within 2 s): task ",
        True,
    ),
    Planted(
        *(met_429, S.RATE_LIMITED),
        "the host of group 'api' has answered 429 at 22:13:20 UTC: it is closed until 22:14:50 "
        "UTC; 4 of 4 due tasks wait for that",
    ),
    Planted(due_where_it_stands, S.MOVING, "3 tasks are due, and 0 are running"),
    Planted(probe_runs, S.RATE_LIMITED, "the first task of group 'api' after a 429 still runs"),
    Planted(whole_queue_429, S.RATE_LIMITED, "the host of the queue has answered 429"),
    Planted(paced, S.PACED, "allows 6/min, of which 0.0 are left: it opens at 22:13:30 UTC"),
    Planted(learned, S.PACED, "allows 2/min, of which "),
    Planted(
        *(concurrency, S.CONCURRENCY),
        "group 'api' lets 1 task run at once",
        True,
    ),
    Planted(dead_permit, S.CONCURRENCY, "1 permit of `acquire` holds it", True),
    Planted(quota, S.QUOTA, "is spent until 2023-12-01 00:00:00 UTC", True),
    Planted(closed_by_hand, S.BY_HAND, "was closed by hand at 22:13:20 UTC until it is", True),
    Planted(
        *(both_members_met_429, S.RATE_LIMITED),
        "the host of group 'api', members 'key-a' and 'key-b' has answered 429",
    ),
    Planted(some_closed_others_move, S.MOVING, "group 'api' is held by hand"),
    Planted(
        *(several_groups_closed, S.RATE_LIMITED),
        "it is closed until 22:23:20 UTC; 2 more groups are closed, the first until 22:14:20 UTC; "
        "11 of 14 due tasks wait for that",
    ),
    Planted(
        *(poison, S.FAILING),
        "40 of 43 attempts of the last minutes have failed, most often: KeyError: order …; most of "
        "them of task ",
        True,
    ),
    Planted(a_key_gets_401, S.FAILING, "HTTP 401; most of them of member key-b", True),
    Planted(
        *(full_of_the_dying, S.MOVING),
        "70 tasks are due, and 0 are running; none finished in ",
    ),
    Planted(
        *(schedule_died, S.MOVING, " is dead: HTTP 401"),
        warnings=(W.SCHEDULE_DIED,),
    ),
    Planted(
        *(key_held, S.MOVING, "a dead letter keeps its key, 'order-1'"),
        warnings=(W.KEY_HELD,),
    ),
    Planted(key_held_long_ago, S.MOVING, "1 task is dead"),
    Planted(
        *(producer_waits, S.MOVING, "; 1 producer waits for room"),
        warnings=(W.FULL, W.PRODUCERS_WAIT),
    ),
    Planted(
        *(group_full, S.MOVING, "group 'api' is full: 2 of 2 tasks"),
        warnings=(W.GROUP_FULL,),
    ),
    Planted(
        *(seen_full, S.MOVING, "its bound of 1 seen key is reached"),
        warnings=(W.SEEN_FULL,),
    ),
    Planted(
        *(batch_stands, S.ONLY_DELAYED),
        "batch 'crawl' cannot end: 1 of its tasks is left, and none has ended since 22:13:20 UTC",
        warnings=(W.BATCH_STANDS,),
    ),
    Planted(consumers_of_a_near_queue, S.NO_CONSUMER, ", whose name is one letter away", True),
    Planted(flows_beside_the_dead, S.MOVING, "0 tasks are due, and 0 are running; "),
    Planted(only_delayed, S.ONLY_DELAYED, "1 task is delayed, the next one is due at 2023-11-15"),
    Planted(only_dead, S.ONLY_DEAD, "3 tasks are dead; the last died: no page 2", True),
    Planted(in_order, S.PACED, " waits for its retry until 22:23:20 UTC; 3 of 3 due tasks wait"),
    Planted(moving, S.MOVING, "4 tasks are due"),
    Planted(empty, S.EMPTY, "no task is stored"),
]
"""Each state, as it is planted; what its sentence says; and if a person is needed."""


@pytest.fixture(params=PLANTED, ids=lambda each: each.plant.__name__)
def planted(request: pytest.FixtureRequest, q: DPQ, clock: Clock) -> tuple[Planted, Verdict]:
    """A planted state, and the verdict on it."""
    request.param.plant(q, clock)
    return request.param, q.why()


def test_each_state_is_found(planted: tuple[Planted, Verdict]) -> None:
    """The verdict has the state that was planted, says why, and says if a person is needed."""
    wanted, verdict = planted
    assert (verdict.state, verdict.also) == (wanted.state, wanted.also), verdict
    assert verdict.warnings == wanted.warnings
    assert wanted.words in str(verdict)
    assert verdict.needs_person is wanted.needs_person
    assert bool(verdict.what_to_do) or not (wanted.needs_person or wanted.warnings)
    assert (verdict.severity == "bad") is wanted.needs_person
    assert verdict.severity in ("bad", "warn") or not wanted.warnings
    assert str(verdict).count(". ") == 0  # one sentence


def test_the_front_page_says_it(planted: tuple[Planted, Verdict], q: DPQ) -> None:
    """It has the sentence, in the colour of its severity; what needs a person stands on top."""
    _, verdict = planted
    with TestClient(dashboard([q]), base_url="http://127.0.0.1:8321") as browser:
        page = browser.get("/").text
    assert str(escape(str(verdict))) in page
    assert re.search(rf'class="(tag|dot) {verdict.severity}"', page)
    assert ("1 queue needs" in page) is verdict.needs_person


def run(q: DPQ, url: str, *words: str) -> Any:
    """Call the command line."""
    return CliRunner().invoke(app, ["--url", url, "--queue", q.queue_name, *words])


def test_each_command_that_is_named_works(
    planted: tuple[Planted, Verdict], q: DPQ, url: str
) -> None:
    """The command line takes each command of a verdict as it stands, and one of them helps."""
    _, verdict = planted
    named = re.findall(r"`dpq ([^`]+)`", verdict.what_to_do)
    assert named or not verdict.needs_person
    for command in named:
        words = shlex.split(
            command.replace("RATE", "5/s").replace("--concurrency N", "--concurrency 3")
        )
        if words[0] == "worker":
            continue  # it would run
        done = CliRunner().invoke(app, ["--url", url, *words], input="y\n")
        assert done.exit_code == 0 or words[0] == "doctor", (command, done.output)
    if {"open", "resume", "replay"} & set(verdict.what_to_do.split()):
        now = q.why()
        assert (now.state, now.warnings) != (verdict.state, verdict.warnings)


@pytest.mark.parametrize(
    "planted", PLANTED[::5], ids=lambda each: each.plant.__name__, indirect=True
)
def test_every_surface_says_the_same(
    planted: tuple[Planted, Verdict], q: DPQ, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line, the dashboard, its API and the metrics show the words of any state."""
    monkeypatch.setenv("COLUMNS", "300")
    wanted, verdict = planted
    sentence, name = str(verdict), q.queue_name
    assert run(q, url, "why").stdout.splitlines() == [sentence, *filter(None, [verdict.what_to_do])]
    assert json.loads(run(q, url, "why", "--json").stdout)["sentence"] == sentence
    told = run(q, url, "stats")
    assert sentence in " ".join(told.stdout.split()), told.output
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
        for family in text_string_to_metric_families(Exporter(Named([q])).text().decode())
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


def test_a_busy_queue_has_one_word(q: DPQ, clock: Clock) -> None:
    """20 looks in 20 s, at a rate that is spent in most of them, and between tasks: one word."""
    only_dead(q, clock)
    q.set_limit(30, 60, group="api")
    remember(q)
    fill(q, 9)
    states = set()
    for second in range(25):
        if task := q.pop().task:
            q.ack(task)
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


ROOT = Path(dpq.__file__).parents[1]

SAMPLES = {
    **{"queue": "--queue emails", "scope": "--group api.example ", "group": "api.example"},
    **{"task": "ID", "token": "TOKEN", "worker": "NAME", "batch": "NAME", "seconds": "SECONDS"},
}
"""What the runbook has in the places of names."""


def test_the_runbook() -> None:
    """Each state and warning is planted, and has a row, with its remedies and its alert."""
    planted = {each.state for each in PLANTED} | {S.SERVER_AWAY, S.SERVER_REFUSES, S.UNKNOWN_QUEUE}
    assert planted == set(VerdictState)
    assert {kind for each in PLANTED for kind in each.warnings} | {W.EVICTS} == set(Warned)
    page = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("## Sizing")[0]
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \| (.+) \| (.*) \|$", page, re.MULTILINE)
    incidents = {name: remedy for name, _, remedy, _ in rows}
    states = [name for name in incidents if name in {*VerdictState}]
    assert states == [state.value for state in VerdictState]
    assert {*incidents} == {*REMEDIES, *VerdictState}
    for name, remedy in incidents.items():
        assert remedy == REMEDIES.get(name, "nothing").format(**SAMPLES), name
    alerts = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
    for name, _, _, alert in rows:
        named = re.search(rf"alert: {alert}\n(.*?)\n      - ", alerts, re.DOTALL) if alert else None
        assert named or not alert, name
        bad = name in {*VerdictState} and VerdictState(name) not in SEVERITIES
        assert alert or not bad or name in ("paused", "unknown queue"), name
        told = re.search(r'dpq_verdict\{state=~?"([^"]*)"\} *\)? == 1', named[1]) if named else None
        assert not told or name in told[1].split("|") or name not in {*VerdictState}, name


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("CONFIG SET maxmemory 1mb", "memory is full"),
        ("REPLICAOF 127.0.0.1 1", "read-only replica"),
    ],
)
def test_a_server_that_refuses(command: str, words: str) -> None:
    """The verdict and a refused push say it in words, on the page too."""
    with Server.start() as server, DPQ.from_url(server.url, "mails") as mails:
        mails.push("x")
        mails.redis.execute_command(*command.split())
        verdict = mails.why()
        assert (verdict.state, verdict.needs_person) == (S.SERVER_REFUSES, True)
        assert words in verdict.because
        with TestClient(dashboard([mails]), base_url="http://127.0.0.1:8321") as browser:
            assert words in browser.get("/").text
        if "memory" in words:
            with pytest.raises(
                RedisError, match=r"memory is full \(maxmemory\), so it refuses this"
            ):
                mails.push("y")


def test_a_server_that_evicts() -> None:
    """It is a warning of each queue, with the setting that ends it; health says what is refused."""
    with Server.start() as server, DPQ.from_url(server.url, "mails") as mails:
        mails.push("x")
        mails.redis.config_set("maxmemory", "100mb")
        mails.redis.config_set("maxmemory-policy", "allkeys-lru")
        verdict = mails.why()
        assert verdict.warnings == (W.EVICTS,)
        assert "`maxmemory-policy noeviction`" in verdict.what_to_do
        mails.redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        words = ["--url", server.url, "doctor", "--quick", "--queue", "mails"]
        told = CliRunner().invoke(app, words)
        assert (told.exit_code, "is a read-only replica" in told.stdout) == (1, True), told.output


def test_a_server_that_is_away() -> None:
    """The command line, the dashboard and its API say that the server is away, since when."""
    with Server.start() as server, DPQ.from_url(server.url, "mails") as mails:
        mails.push("x")
        site = dashboard([mails])
        with TestClient(site, base_url="http://127.0.0.1:8321") as browser:
            assert "no consumer" in browser.get("/q/mails").text
            server.close()
            mails.redis.connection_pool.disconnect()
            page = browser.get("/q/mails/limits")
            assert page.status_code == 503
            assert "server away: the server has not answered since " in page.text.replace(
                "Server", "server"
            )
            said = browser.get("/api/queues/mails/limits")
            assert "server away: the server has not answered since " in said.text
        for command in ("why", "stats", "doctor"):
            ran = CliRunner().invoke(app, ["--url", server.url, "--queue", "mails", command])
            assert "server away: the server has not answered since " in ran.output, command
            assert ran.exit_code == 1
