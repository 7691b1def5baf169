"""What both workers promise to handlers, to other consumers, and to the server.

Here over `Worker`; test_worker_async.py runs all of it over `AsyncWorker`. What only threads do
stands in test_worker_threads.py.
"""

import logging
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import httpx
import pytest
from kit.workers import (
    PATIENCE,
    Gate,
    Make,
    Start,
    raising,
)
from redis import Redis
from support import wait_for

from dpq import (
    DPQ,
    Backoff,
    ConfigurationError,
    Context,
    Push,
    RateLimit,
    RateLimited,
    Reject,
    Release,
    Retry,
    Task,
    TaskState,
    Worker,
)
from dpq.link.watches import RECHECK_SECONDS
from dpq.server import Server
from dpq.worker.run_state import AskOrder, stop_signals


@pytest.fixture
def q(make: Make) -> DPQ[Any]:
    return make()


# Handlers


@pytest.mark.fakeredis
def test_one_handler_gets_every_task(q: DPQ[Any]) -> None:
    """Each task is handled once and acked; `run` says how many were."""
    q.push_many(Push(n) for n in range(20))
    seen: list[Any] = []
    worker = Worker(q, lambda task: seen.append(task.payload), concurrency=3)
    assert worker.drain() == 20
    assert sorted(seen) == list(range(20))
    assert (q.stats().acked, q.size(), worker.handled) == (20, 0, Counter(done=20))


def test_drain_ends_with_the_last_task(q: DPQ[Any]) -> None:
    """Also if its end is sent alone, since the pops before it found nothing."""
    q.push_many(Push(seconds / 50) for seconds in range(7))
    began = time.monotonic()
    assert Worker(q, lambda task: time.sleep(task.payload), concurrency=8).drain() == 7
    assert time.monotonic() - began < RECHECK_SECONDS / 2


def test_a_handler_may_take_the_context(q: DPQ[Any]) -> None:
    """A handler of two arguments gets its task, the queue, and how the worker stands."""
    q.push("a")
    seen: list[Any] = []

    def handler(task: Task[Any], context: Context[DPQ[Any]]) -> None:
        seen.append((context.task is task, context.queue is q, context.lost, context.stopping))
        worker.stop()
        seen.append(context.stopping)

    worker = Worker(q, handler)
    assert worker.run() == 1
    assert seen == [(True, True, False, False), True]
    assert worker.stopping
    assert q.stats().acked == 1


# How much it holds


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_it_holds_what_it_runs(q: DPQ[Any], gate: Gate, start: Start, prefetch: int) -> None:
    """As many tasks are leased as handlers run, and `prefetch` more."""
    q.push_many(Push(n) for n in range(20))
    start(Worker(q, gate, concurrency=2, prefetch=prefetch))
    gate.wait_for(2)
    wait_for(lambda: q.stats().invisible >= 2 + prefetch // 2, q.stats)
    for done in range(3):
        gate.open(1)
        gate.wait_for(3 + done)
        assert q.stats().invisible <= 2 + prefetch + 1  # and one that is not acked yet
    wait_for(lambda: q.stats().invisible <= 2 + prefetch, q.stats)


# Leases


@pytest.mark.parametrize("concurrency", [10, 1], ids=["running", "prefetched"])
def test_leases_are_extended_in_batches(
    q: DPQ[Any], gate: Gate, start: Start, monkeypatch: pytest.MonkeyPatch, concurrency: int
) -> None:
    """A task may run, or wait to, for many times its lease: few calls for all keep it."""
    calls: list[int] = []
    seen: list[Any] = []
    extend = q._leases._extend

    def extended(leases: Any) -> list[bool]:
        calls.append(len(leases))
        return extend(leases)

    monkeypatch.setattr(q._leases, "_extend", extended)
    q.push_many(Push(n) for n in range(10))
    began = time.monotonic()
    start(Worker(q, gate, concurrency=concurrency, prefetch=10 - concurrency, visibility=0.6))
    wait_for(lambda: q.stats().invisible == 10, q.stats)

    def over() -> bool:
        seen.append(q.pop().task)
        return sum(calls) >= 80  # eight rounds of ten: more than two leases long

    wait_for(over, lambda: calls)
    rounds = (time.monotonic() - began) / 0.1  # at the soonest after a sixth of a lease
    assert set(seen) == {None}
    assert len(calls) <= rounds + 4, calls
    gate.open()
    wait_for(lambda: q.stats().acked == 10, q.stats)
    assert {task.attempt for task in gate.tasks} == {1}


@pytest.mark.parametrize("told_by", ["extension", "heartbeat"])
def test_a_handler_is_told_that_its_task_is_cancelled(
    q: DPQ[Any],
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    told_by: str,
) -> None:
    """By the next extension or heartbeat, `context.cancelled` is true; it is no lost lease."""
    caplog.set_level(logging.INFO, "dpq")
    if told_by == "heartbeat":
        for module in ("telling", "telling_async"):
            monkeypatch.setattr(f"dpq.worker.{module}.BEAT_SECONDS", 0.02)
    told: list[Any] = []
    done = threading.Event()

    def handler(task: Task[Any], context: Context[Any]) -> None:
        lost = context.wait(0) or context.wait(PATIENCE)
        told.append((lost, context.lost, context.cancelled, context.reason))
        done.set()

    id_ = q.push("a")
    worker = Worker(q, handler, visibility=0.3 if told_by == "extension" else 10_000)
    start(worker)
    wait_for(lambda: q.stats().invisible == 1, q.stats)
    q.cancel(id_)
    assert done.wait(PATIENCE)
    assert told == [(True, True, True, "cancelled")]
    wait_for(lambda: worker.handled == {"cancelled": 1}, lambda: worker.handled)
    events = [getattr(record, "event", "") for record in caplog.records]
    assert ("cancelled" in events, "lease_lost" in events) == (True, False)
    assert q.stats().acked == 0


# How a handler ends


def run_once(q: DPQ[Any], handler: Any, **options: Any) -> Worker:
    """Handle tasks until the first has ended."""

    def handle(task: Task[Any], context: Context[Any]) -> None:
        worker.stop()
        handler(task, context)

    worker = Worker(q, handle, **options)
    worker.run()
    return worker


def test_an_error_is_a_failed_attempt(make: Make) -> None:
    """The task comes back after the queue's backoff, and its last error says which."""
    q = make(backoff=Backoff(base=100, jitter=0))
    task_id = q.push("a")
    worker = run_once(q, raising(ValueError("no such page")))
    task = q.get(task_id)
    assert (task.attempt, task.last_error) == (2, "ValueError: no such page")
    [failure] = q.admin.events(task_id=task_id)
    assert (failure.kind, failure.attempt, failure.detail) == ("failed", 1, task.last_error)
    assert failure.worker == worker.name
    assert any(frame.endswith(" in raising.<locals>.handler") for frame in failure.frames)
    assert not any("dpq/worker" in frame for frame in failure.frames)
    assert q.stats().delayed == 1
    assert 90 < (q.next_event() or 0) <= 100
    assert worker.handled == {"ValueError": 1}


REQUEST = httpx.Request("GET", "http://h/")
TOO_MANY = httpx.Response(429, headers={"Retry-After": "100"}, request=REQUEST)
REFUSED = httpx.HTTPStatusError("too many", request=REQUEST, response=TOO_MANY)


def test_an_answer_in_an_error_may_be_ignored(q: DPQ[Any]) -> None:
    """Without `from_errors`, a client's own 429 error is a failed attempt as any other."""
    task = q.get(q.push("a", group="g"))
    worker = run_once(q, raising(REFUSED), from_errors=False)
    assert worker.handled == {"HTTPStatusError": 1}
    q.push("b", group="g")
    with pytest.raises(httpx.HTTPStatusError), q.lease(from_errors=False):
        raise REFUSED
    assert (q.get(task.id).attempt, q.stats().failed) == (2, 2)


@pytest.mark.parametrize("error", [RateLimited(100), REFUSED], ids=repr)
def test_rate_limited_closes_the_group(q: DPQ[Any], error: Exception) -> None:
    """The task goes back uncounted, and its group rests for all."""
    task_id = q.push("a", group="g")
    q.push("b", group="g")
    run_once(q, raising(error))
    task = q.get(task_id)
    assert (task.attempt, task.deferrals) == (1, 1)
    assert q.pop().task is None
    assert not q.admin.group("g").open


TOKENS = RateLimit(1, 3600, 1000, unit="tokens", slack=0)


@pytest.mark.parametrize(
    ("error", "left"),
    [(None, 800), (ValueError("no"), 800), (Reject("no"), 800), (RateLimited(9), 800)],
)
def test_a_handler_tells_what_it_has_spent(q: DPQ[Any], error: Exception | None, left: int) -> None:
    """It travels with the end of the delivery, whatever that is: no call of its own."""
    q.set_limit([TOKENS], group="g")
    task_id = q.push("a", group="g", cost={"tokens": 700})
    q.push("b", group="other")

    def handler(task: Task[Any], context: Any) -> None:
        if task.id == task_id:
            context.spent(tokens=900)
            context.spent({"tokens": 200}, usd=3)
            with pytest.raises(ConfigurationError):
                context.spent(tokens=-1)
            if error:
                raise error

    run_once(q, handler)
    assert round(q.admin.group("g").units_left[0]) == left


def test_release_gives_back_uncounted(q: DPQ[Any], caplog: pytest.LogCaptureFixture) -> None:
    """`Release(delay)` is no failed attempt: nothing is counted, logged or told to `on_error`."""
    task_id = q.push("a")
    told: list[Any] = []
    worker = run_once(q, raising(Release(50)), on_error=lambda *what: told.append(what))
    task = q.get(task_id)
    assert (task.attempt, task.deferrals, task.last_error) == (1, 0, None)
    assert 40 < (q.next_event() or 0) <= 50
    assert (worker.handled, told, caplog.text) == ({"Release": 1}, [], "")


@pytest.mark.parametrize(
    ("settle", "state", "error_kept"),
    [
        (lambda q, task: q.ack(task), None, None),
        (lambda q, task: q.fail(task, "mine", delay=100), "delayed", "mine"),
        (lambda q, task: q.release(task, delay=100), "delayed", None),
        (lambda q, task: q.set_visibility(task, 100), "delayed", None),
        (lambda q, task: q.bury(task, "mine"), "dead", None),
        (lambda q, task: q.rate_limited(task, 100), "waiting", None),
    ],
    ids=["ack", "fail", "release", "set_visibility", "bury", "rate_limited"],
)
@pytest.mark.parametrize("error", [None, ValueError("too late")], ids=["clean", "error"])
def test_a_handler_that_settles_has_the_last_word(
    q: DPQ[Any],
    settle: Any,
    state: str | None,
    error_kept: str | None,
    error: Exception | None,
) -> None:
    """What the handler itself has said of its task stands, however the handler ends."""
    q.push("a", group="g")

    def handler(task: Task[Any], context: Context[DPQ[Any]]) -> None:
        settle(context.queue, task)
        if error:
            raise error

    run_once(q, handler)
    states = {s.value: len(q.peek(state=s)) for s in TaskState}
    assert {name: count for name, count in states.items() if count} == ({state: 1} if state else {})
    if state == "delayed":
        assert (q.next_event() or 0) > 50
        (task,) = q.peek(state=state)
        assert (task.attempt, task.last_error) == (2 if error_kept else 1, error_kept)


# Stopping


def test_a_stop_waits_for_handlers(q: DPQ[Any], gate: Gate, start: Start) -> None:
    """After `stop` no task is taken, what runs ends and is acked, and `run` returns."""
    q.push_many(Push(n, priority=-(n // 3)) for n in range(8))
    worker = Worker(q, gate, concurrency=2, prefetch=5)
    running = start(worker)
    gate.wait_for(2)
    worker.stop()
    wait_for(lambda: q.stats().ready == 6, q.stats)  # what was not begun goes back at once
    with pytest.raises(TimeoutError):
        running.result(0.2)
    gate.open()
    assert running.result(PATIENCE) == 2
    assert (q.stats().acked, q.stats().ready, q.stats().invisible) == (2, 6, 0)
    assert worker.given_back == 0
    assert [(t.payload, t.attempt) for t in q.pop_many(10)] == [(n, 1) for n in range(2, 8)]


def test_a_hangup_that_is_ignored_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP ends a worker as SIGTERM does, but not under `nohup`."""
    for handler, ends in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):
        monkeypatch.setattr(signal, "getsignal", lambda _, handler=handler: handler)
        assert (signal.SIGHUP in stop_signals()) == ends


# In the background of a body


def test_a_worker_runs_beside_a_body(q: DPQ[Any], gate: Gate) -> None:
    """It works while the body runs, takes no signals, and lets its handlers end when the body has
    ended, well or not; what it has not begun goes back."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    worker = Worker(q, gate, prefetch=1)
    for acked, error in ((1, None), (2, ZeroDivisionError("of the body"))):
        q.push_many([Push(1, 9), Push(2)])
        with pytest.raises(ZeroDivisionError) if error else nullcontext(), worker.running() as same:
            gate.wait_for(acked)
            wait_for(lambda: worker.health().ready, worker.health)  # its first heartbeat
            assert [signal.getsignal(number) for number in numbers] == before
            threading.Timer(0.1, gate.open, (1,)).start()  # within the grace
            if error:
                raise error
        assert (q.stats().acked, q.stats().ready, q.stats().invisible) == (acked, 1, 0)
        assert not same.health().ready
        q.purge()


# Draining


def test_drain_waits_for_delayed_and_failing_tasks(make: Make) -> None:
    """It ends when no live task is left: not before the delayed, and those that fail, are done."""
    q = make(backoff=Backoff(base=0.05, jitter=0), default_max_attempts=3)
    q.push("a", delay=0.2)
    q.push("b")
    seen: Counter[str] = Counter()

    def handler(task: Task[Any]) -> None:
        seen[task.payload] += 1
        if task.payload == "b":
            raise ValueError

    assert Worker(q, handler, concurrency=2).drain() == 4
    assert seen == {"a": 1, "b": 3}
    assert (q.size(), q.stats().dead) == (0, 1)


# Hooks


def test_hooks_see_every_task(q: DPQ[Any]) -> None:
    """`before`, `after` with the error, and `on_error` for what failed; not for a 429."""
    seen: list[Any] = []
    errors = {"bad": Reject("no"), "limit": RateLimited(0, scope="task")}

    def handler(task: Task[Any]) -> None:
        seen.append("handler")
        if task.payload["n"] in errors:
            raise errors.pop(task.payload["n"])

    def note(name: str) -> Callable[..., None]:
        return lambda context, *error: seen.append((name, context.task.payload["n"], *error))

    bad, limit = errors["bad"], errors["limit"]
    for n in ("good", "bad", "limit"):
        q.push({"task": "a", "n": n})
    q.push({"task": "b", "n": "unknown"})
    worker = Worker(
        q, {"a": handler}, before=note("before"), after=note("after"), on_error=note("error")
    )
    worker.drain()
    assert seen[:8] == [
        ("before", "good"),
        "handler",
        ("after", "good", None),
        ("before", "bad"),
        "handler",
        ("error", "bad", bad),
        ("after", "bad", bad),
        ("before", "limit"),
    ]
    assert ("after", "limit", limit) in seen
    assert ("error", "limit", limit) not in seen
    unknown = [each[0] for each in seen if each[1] == "unknown"]
    assert unknown == ["before", "error", "after"]


# Faults


@pytest.mark.parametrize("prefetch", [0, 4])
def test_a_worker_outlives_a_restart_of_the_server(
    server: Server, queue_name: str, directory: str, start: Start, prefetch: int
) -> None:
    """The server dies under a worker and comes back with its data: it goes on by itself."""
    gate = Gate()
    with Server.join(directory, server.binary) as first:
        q: DPQ[Any] = DPQ.from_url(first.url, queue_name)
        with Redis.from_url(first.url) as client:
            client.config_set("appendfsync", "always")  # else a slow disk may hold writes back
        worker = Worker(q, gate, concurrency=2, prefetch=prefetch)
        try:
            q.push_many(Push(n) for n in range(3))
            running = start(worker)
            gate.wait_for(2)
            os.kill(first.pid, signal.SIGKILL)
            gate.open()
            with Server.join(directory, server.binary) as second:
                assert second.pid != first.pid
                q.push("new")
                wait_for(lambda: running.done() or q.stats().acked == 4, q.stats)
                worker.stop()
                assert running.result(PATIENCE) >= 4
                assert sorted(set(gate.begun), key=str) == [0, 1, 2, "new"]
        finally:
            gate.open()
            q.close()


def test_a_closed_queue_says_so(server: Server, q: DPQ[Any]) -> None:
    """One that has opened its client, whatever is called, and also a worker's run; nothing is
    dropped, and another object goes on."""
    closed: DPQ[Any] = DPQ.from_url(server.url, q.queue_name)
    task_id = closed.push("a")
    closed.close()
    for call in (
        lambda: closed.push("b"),
        closed.pop,
        closed.stats,
        closed.size,
        closed.admin.drop,
        lambda: closed.get(task_id),
        Worker(closed, print).drain,
    ):
        with pytest.raises(ConfigurationError, match=f"queue '{q.queue_name}' is closed"):
            call()
    closed.close()
    assert q.pop().task.id == task_id


# Limits


def test_no_pop_in_vain(q: DPQ[Any], start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a limit that binds, most pops bring a task: each says when the next one may run."""
    answers = Counter[bool]()
    monkeypatch.setattr(AskOrder, "charge", lambda _, __, tasks: answers.update([tasks > 0]))
    q.set_limit(25, 1)
    q.push_many(Push(n, group=f"g{n % 5}") for n in range(20))
    start(Worker(q, lambda _: None, concurrency=8))
    wait_for(lambda: q.stats().acked == 20, "all are done")
    assert answers[False] <= 10, answers  # 40 and more if each end of a handler asks


# What a single task says


def test_a_backoff_of_the_worker(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked with attempt and error. None, an error or no delay leave the task its own: the
    task is never lost, and one line says so. A Retry with a delay, and no failure, ask nobody."""
    q = make(backoff=[100])
    answers: dict[str, Any] = {"seconds": 40, "delta": timedelta(seconds=60), "none": None}
    answers |= {"text": "soon", "minus": -1, "raises": ZeroDivisionError(), "exits": SystemExit()}
    ends: dict[str, Any] = {"retry": Retry(), "later": Retry(7), "back": Release(90)}
    asked = []

    def backoff(attempt: int, error: Exception) -> Any:
        word = str(error)
        asked.append((attempt, type(error).__name__))
        answer = answers.get(word, 50)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    ids = {word: q.push(word, backoff=[80] if word == "text" else None) for word in answers | ends}

    left = list(ids)

    def handler(task: Task[Any]) -> None:
        left.pop()
        if not left:
            worker.stop()
        raise ends.get(task.payload) or ValueError(task.payload)

    worker = Worker(q, handler, backoff=backoff)
    worker.run()
    waits = {}
    for word, task_id in ids.items():
        task = q.get(task_id)
        assert (task.state, task.attempt) == ("delayed", 1 if word == "back" else 2)
        assert task.visible_until
        waits[word] = round((task.visible_until - task.enqueued_at).total_seconds(), -1)
    assert waits == {
        **{"seconds": 40, "delta": 60, "none": 100, "text": 80, "minus": 100, "raises": 100},
        **{"exits": 100, "retry": 50, "later": 10, "back": 90},
    }
    assert sorted(asked) == [(1, "Retry"), *[(1, "ValueError")] * 7]
    told = [record for record in caplog.records if "backoff has failed" in record.message]
    assert len(told) == 1


@pytest.mark.parametrize("options", [{}, {"time_limit": 1000}], ids=repr)
def test_a_task_has_a_time_limit_of_its_own(make: Make, start: Start, options: Any) -> None:
    """It holds without a limit of the worker, and before one; the others run on."""
    q = make(backoff=Backoff(base=100, jitter=0))
    task_id = q.push("slow", priority=9, time_limit=0.1)
    q.push("quick")
    end = threading.Event()

    def handler(task: Task[Any]) -> None:
        if task.payload == "slow":
            end.wait(PATIENCE)

    worker = Worker(q, handler, **options)
    running = start(worker)
    wait_for(lambda: q.get(task_id).attempt == 2, lambda: f"{q.get(task_id)}")
    assert q.get(task_id).last_error == "TimeoutError: ran longer than 0.1 s"
    end.set()
    wait_for(lambda: q.stats().acked == 1, lambda: f"{q.stats()}")
    worker.stop()
    running.result(PATIENCE)
