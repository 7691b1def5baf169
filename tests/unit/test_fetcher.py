"""The fetchers of both workers, alone: over a server that is a list of answers, and no runner."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.scripted import (
    CUT,
    AsyncScriptedSession,
    AsyncScriptedWakeUps,
    ScriptedQueue,
    ScriptedSession,
    ScriptedWakeUps,
    a_task,
    plan_of,
)
from support import PATIENCE_S

from dpq import RateLimited
from dpq.link.watches import Watch
from dpq.worker import exchanges, fetch_plan
from dpq.worker.deliveries import Taken
from dpq.worker.fetcher import Fetcher
from dpq.worker.fetcher_async import AsyncFetcher, Change
from dpq.worker.outcomes import Done
from dpq.worker.run_state import RunState


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause after an error; what is read late is read at once."""
    monkeypatch.setattr(fetch_plan, "longer_pause", lambda _: 0.0)
    monkeypatch.setattr(exchanges, "LATEST_ACK_SECONDS", 0.0)


def tasks(count: int, name: str = "", **fields: Any) -> list[Any]:
    return [a_task(n, f"{name}{n}", **fields) for n in range(count)]


class Scene:
    """A fetcher of threads over scripted queues."""

    def __init__(
        self, *queues: ScriptedQueue, cuts: Any = (), until_empty: bool = True, **settings: Any
    ) -> None:
        self.lock = threading.RLock()
        self.state = RunState(until_empty=until_empty, end=self.end)
        self.session = ScriptedSession(cuts)
        self.wakeups = ScriptedWakeUps()
        self.plan = plan_of(queues, self.state, **settings)
        wakeups: Any = self.wakeups
        self.fetcher = Fetcher(self.plan, self.session, wakeups, self.lock)
        self.seen: list[str] = []

    def end(self) -> None:
        self.state.stopping = True
        self.fetcher.stop()

    def work(self, error: BaseException | None = None) -> None:
        """Take tasks and end them at once, until the run ends."""
        while taken := self.fetcher.next_task():
            self.seen.append(taken.lease.task.id)
            self.finish(taken, error)

    def finish(self, taken: Taken, error: BaseException | None = None) -> None:
        done = Done(taken.queue_index, taken.lease.task, error)
        assert self.plan.deliveries.claim(done)
        with self.lock:
            self.fetcher.add(done)
        self.fetcher.confirm()


def work_async(
    queues: list[ScriptedQueue], cuts: Any, prefetch: int, concurrency: int
) -> tuple[list[str], AsyncScriptedSession, AsyncScriptedWakeUps]:
    """Let an asyncio fetcher take all tasks; each of them ends at once."""
    session, wakeups, seen = AsyncScriptedSession(cuts), AsyncScriptedWakeUps(), list[str]()

    async def run() -> None:
        state = RunState(until_empty=True, end=lambda: setattr(state, "stopping", True))
        plan = plan_of(queues, state, prefetch=prefetch)
        faked: Any = wakeups
        fetcher = AsyncFetcher(plan, session, faked, Change(), concurrency=concurrency)
        while not state.stopping:
            for _ in range(concurrency):
                if taken := fetcher.take():
                    seen.append(taken.lease.task.id)
                    done = Done(taken.queue_index, taken.lease.task, None)
                    assert plan.deliveries.claim(done)
                    fetcher.add(done)
            await fetcher.step(concurrency)
        await fetcher.give_back_unbegun()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    return seen, session, wakeups


ANSWERS = st.lists(st.sampled_from([0, 1, 2, 100, CUT]), max_size=8)
CUTS = st.lists(st.booleans(), max_size=6)


@given(counts=st.lists(st.integers(0, 12), min_size=1, max_size=3), data=st.data())
def test_all_tasks_come_once_and_all_ends_are_sent(counts: list[int], data: Any) -> None:
    """Whatever the server answers, each task is given once, and its end is sent until answered."""
    prefetch, concurrency = data.draw(st.integers(0, 7)), data.draw(st.integers(1, 3))
    cuts = data.draw(CUTS)
    answers = [data.draw(ANSWERS) for _ in counts]

    def queues() -> list[ScriptedQueue]:
        return [
            ScriptedQueue(f"q{n}", tasks(count, f"{n}-"), answers[n])
            for n, count in enumerate(counts)
        ]

    scene = Scene(*queues(), cuts=cuts, prefetch=prefetch)
    threads = [threading.Thread(target=scene.work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.001)
        scene.fetcher.send_late()  # as the overdue watch does
        scene.fetcher.look_again()
    scene.fetcher.send_ends()
    expected = [f"{n}-{i}" for n, count in enumerate(counts) for i in range(count)]
    assert sorted(scene.seen) == sorted(expected)
    assert Counter(scene.session.ended) == Counter(("ack", each) for each in expected)

    seen, session, _ = work_async(queues(), cuts, prefetch, concurrency)
    assert sorted(seen) == sorted(expected)
    assert Counter(session.ended) == Counter(("ack", each) for each in expected)


def every_state() -> Iterator[tuple[bool, ...]]:
    return product([False, True], repeat=6)


def test_the_next_step_in_every_state() -> None:
    """One thread asks, one waits at the server, no task waits for a thread; look means to ask."""
    for stopping, has_task, watching, asking, sleeping, look in every_state():
        scene = Scene(ScriptedQueue("q", []))
        fetcher = scene.fetcher
        scene.state.stopping = stopping
        fetcher._taken.extend([Taken(0, None)] if has_task else [])  # type: ignore[arg-type]
        scene.wakeups.watches = [Watch(0, None)] if watching else []
        fetcher._asker.taken, fetcher._sleeper.taken = asking, sleeping
        fetcher._look, fetcher._idle = look, 2
        step = fetcher._next_step()
        if stopping:
            assert step == "end"
        elif has_task:
            assert step == "take"
        elif asking:
            assert step == "wait for threads"
        elif look or not watching:
            assert step == "ask"
        else:
            assert step == ("wait for threads" if sleeping else "wait for wake-up")


def test_a_task_waits_for_its_moment() -> None:
    """A task that begins later is no task yet, and its thread does not leave the queue for it."""
    scene = Scene(ScriptedQueue("q", []))
    fetcher = scene.fetcher
    scene.wakeups.watches = [Watch(0, None)]
    fetcher._idle = 1
    [held] = scene.plan.deliveries.hold(0, tasks(1), [1e9], granted=1.0)
    fetcher._taken.append(held)
    assert fetcher._next_step() == "wait for wake-up"
    fetcher._taken[0] = held._replace(at=1.0)
    assert fetcher._next_step() == "stop waiting"
    fetcher._idle = 2
    assert fetcher._next_step() == "take"


def test_what_waits_for_its_moment_goes_back() -> None:
    """After a 429 the tasks of its group go back, and at a stop all others: uncounted."""
    scene = Scene(ScriptedQueue("q", []))
    same, other = tasks(2, "same", group="host"), tasks(2, "other", group="another")
    for held in (same, other):
        scene.fetcher._taken.extend(scene.plan.deliveries.hold(0, held, [1e9, 2e9], granted=1.0))
    met = a_task(9, "met", group="host")
    scene.plan.deliveries.hold(0, [met])
    with scene.lock:
        scene.fetcher.add(Done(0, met, RateLimited(1)))
    scene.fetcher.send_ends()
    assert scene.session.ended == [
        *(("RateLimited", "met"), ("GivenBack", "same0"), ("GivenBack", "same1"))
    ]
    scene.state.stopping = True
    scene.fetcher.give_back_unbegun()
    assert scene.session.ended[3:] == [("GivenBack", "other0"), ("GivenBack", "other1")]


def test_ends_wait_for_a_pop_only_if_one_is_near() -> None:
    """Ends travel with the next pop; without one they are sent alone, and no pop is in vain."""
    plan = Scene(ScriptedQueue("q", [])).plan
    now = fetch_plan.time.time() * 1000
    near, far = ([Watch(now, ms)] for ms in (20, 1000))
    assert plan.asks_after_end(far)
    plan.learn(True, far, [])
    assert plan.asks_after_end(far)  # once is no rule
    plan.learn(True, far, [])
    assert not plan.asks_after_end(far)
    assert plan.asks_after_end([])
    ends = [Done(0, a_task(0, "a"), None)]
    assert plan.ends_are_late(far, ends)
    assert not plan.ends_are_late(near, ends)
    assert plan.ends_are_late(near, [ends[0]._replace(error=RateLimited(1))])
    far[0].marker_received(0)
    plan.learn(False, far, [Taken(0, None)])  # type: ignore[arg-type]
    assert plan.asks_after_end(far)


@pytest.mark.parametrize("prefetch", [0, 6])
def test_a_limit_is_told_before_the_next_pop(prefetch: int) -> None:
    """A 429 never shares an exchange with a pop; what was fetched under it goes back."""
    scene = Scene(ScriptedQueue("q", tasks(12, group="host")), prefetch=prefetch)
    scene.work(RateLimited(1))
    assert not [sent for sent in scene.session.sent if {"RateLimited", "pop"} <= {*sent}]
    ended = Counter(name for name, _ in scene.session.ended)
    assert ended["RateLimited"] == len(scene.seen)
    assert ended["RateLimited"] + ended["GivenBack"] == 12


@pytest.mark.parametrize("prefetch", [0, 4])
def test_with_durability_no_pop_waits_for_acks(prefetch: int) -> None:
    """Acks that wait for a confirmation never travel with a pop."""
    queue = ScriptedQueue("q", tasks(5))
    queue.settings.durability = "replica"
    scene = Scene(queue, prefetch=prefetch)
    scene.work()
    assert not [sent for sent in scene.session.sent if {"ack", "pop"} <= {*sent}]
    assert len(scene.session.ended) == 5


def test_what_was_cut_off_is_sent_until_it_is_answered() -> None:
    """A fault of the loop or of the network loses no end of a delivery."""
    scene = Scene(ScriptedQueue("q", tasks(1)), cuts=[True, True], until_empty=False)
    taken = scene.fetcher.next_task()
    assert taken
    scene.finish(taken)
    for answered in (False, False, True):
        assert scene.fetcher.send_ends() is answered
    assert scene.session.ended == [("ack", "0")]


def test_wake_ups_that_a_busy_worker_owes_are_passed_on() -> None:
    """If the second queue called, and the first has work for all, the second one's marker goes."""
    first, second = ScriptedQueue("a", tasks(1)), ScriptedQueue("b", [])
    scene = Scene(first, second, until_empty=False)
    scene.wakeups.watches = [Watch(0, None), Watch(0, None)]
    scene.wakeups.watches[1].marker_received(0)
    assert scene.fetcher.next_task()
    assert [marker.number for marker in scene.wakeups.passed_on] == [1]
    assert scene.wakeups.watches == []
